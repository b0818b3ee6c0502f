"""``python -m benchmarks.kills``: the command of :mod:`benchmarks.kills.hosts`."""

import typer

from benchmarks.kills.hosts import main

typer.run(main)

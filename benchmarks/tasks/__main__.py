"""``python -m benchmarks.tasks``: the command of :mod:`benchmarks.tasks.run`."""

import typer

from benchmarks.tasks.run import main

typer.run(main)

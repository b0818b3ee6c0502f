"""``python -m benchmarks.probing``: the command of :mod:`benchmarks.probing.recovered`."""

import typer

from benchmarks.probing.recovered import main

typer.run(main)

"""``python -m benchmarks.retrieval``: the command of :mod:`benchmarks.retrieval.ranking`."""

import typer

from benchmarks.retrieval.ranking import main

typer.run(main)

"""A planner that is trained: ``python -m benchmarks.planner PART``.

``trajectories`` makes the training data from queries with known tools, none of them held out; ``train`` teaches a small
model (SmolLM2-135M) with it and measures its searches on held-out queries before and after. Each part goes on where it
stopped, prints a table, and gives JSON with ``--json``.
"""

from __future__ import annotations

import typer

from benchmarks import planner_data, planner_train

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def _main() -> None:
    """Train a planner of searches, and measure it."""


for _name, _part, _about in (
    ("trajectories", planner_data.main, "Make training data, with counts and a digest."),
    ("train", planner_train.main, "Train a small planner, and search with it before and after."),
):
    app.command(_name, short_help=_about)(_part)

if __name__ == "__main__":
    app()

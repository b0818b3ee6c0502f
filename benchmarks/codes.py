"""Codes of tools, and ranking that learns: ``python -m benchmarks.codes PART --data DIR``.

Each part is a command of its own, prints a table, and gives JSON with ``--json``.
"""

from __future__ import annotations

import typer

from benchmarks import (
    codes_adapter,
    codes_browse,
    codes_decoder,
    codes_retrieval,
    codes_tokens,
    codes_train,
)

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def _main() -> None:
    """Measure codes, scorers and what is learnt."""


for _name, _part, _about in (
    ("retrieval", codes_retrieval.retrieval, "Ranking by each scorer, and of tasks in parts."),
    ("adapter", codes_adapter.adapter, "Adapters of queries, for tools seen and unseen."),
    ("tokens", codes_tokens.tokens, "Codes without training, by λ, K and L."),
    ("train", codes_train.train, "Trained codes beside those without training."),
    ("browse", codes_browse.browse, "The names of the menu that people browse."),
    ("decoder", codes_decoder.main, "A small decoder, trained to say tools by codes."),
):
    app.command(_name, short_help=_about)(_part)

if __name__ == "__main__":
    app()

"""Codes of tools, and ranking that learns: ``python -m benchmarks.codes PART --data DIR``.

Each part is a command of its own, prints a table, and gives JSON with ``--json``.
"""

from __future__ import annotations

import typer

from benchmarks import (
    codes_adapter,
    codes_browse,
    codes_decoder,
    codes_head,
    codes_menu,
    codes_retrieval,
    codes_tokens,
    codes_train,
)

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def _main() -> None:
    """Measure codes, scorers and what is learnt."""


app.command("tokens")(codes_tokens.tokens)
app.command("train")(codes_train.train)
app.command("browse")(codes_browse.browse)
app.command("menu")(codes_menu.main)
app.command("head")(codes_head.main)
app.command("decoder")(codes_decoder.main)
app.command("adapter")(codes_adapter.adapter)
app.command("retrieval")(codes_retrieval.retrieval)

if __name__ == "__main__":
    app()

"""Codes of tools, and ranking that learns: ``python -m benchmarks.codes PART --data DIR``.

Each part is a command of its own, prints a table, and gives JSON with ``--json``.
"""

from __future__ import annotations

import typer

from benchmarks import codes_browse, codes_menu, codes_tokens

app = typer.Typer(help=__doc__, no_args_is_help=True)
app.command("tokens")(codes_tokens.tokens)
app.command("browse")(codes_browse.browse)
app.command("menu")(codes_menu.main)


@app.callback()
def _main() -> None:
    """Measure codes, scorers and what is learnt."""


if __name__ == "__main__":
    app()

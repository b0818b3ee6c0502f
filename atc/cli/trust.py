"""``atc trust``: accept the settings file of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from atc._host.invisible import visible
from atc._host.trust import FILE, SettingsFile, TrustStore, settings_file
from atc.calls import question
from atc.cli import options
from atc.cli.console import NOT_SOLVED, clean, guarded, out, print_json, print_table
from atc.errors import UsageError


@guarded
def trust(
    path: Annotated[Path, typer.Argument(help="The settings file, or the folder that has it.")] = Path(),
    list_: Annotated[bool, typer.Option("--list", help="List the files that are trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust the file any more.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Trust it without being asked.")] = False,
    as_json: options.Json = False,
) -> None:
    """Let the atc.toml of a folder decide where keys, data and programs go.

    The file is shown first; after a change it needs a new yes.

    Exit codes: 0 it is trusted (or needs no trust), 1 you said no, 2 there is none, or it is wrong.
    """
    store = TrustStore()
    if list_:
        _list(store, as_json=as_json)
    elif remove:
        file = path / FILE if path.is_dir() else path
        if not store.remove(file):
            raise UsageError(f"{file} was not trusted: `atc trust --list` shows what is")
        _finish(file, "removed", as_json=as_json)
    else:
        _trust(store, settings_file(path), yes=yes, as_json=as_json)


def _trust(store: TrustStore, file: SettingsFile, *, yes: bool, as_json: bool) -> None:
    if not file.guarded:
        _finish(file.path, "free", as_json=as_json)
    elif store.trusts(file):
        _finish(file.path, "trusted", as_json=as_json)
    elif yes or asyncio.run(question.ask(f"trust {visible(str(file.path))}? It sets", file.shown)):
        store.add(file)
        _finish(file.path, "trusted", as_json=as_json)
    else:
        _finish(file.path, "refused", as_json=as_json)
        raise typer.Exit(NOT_SOLVED)


_MEANS = {
    "free": "needs no trust: it sets nothing that decides where keys, data and programs go",
    "trusted": "is trusted as it is now",
    "refused": "is not trusted",
    "removed": "is not trusted any more",
}


def _finish(path: Path, state: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(path), "state": state})
    else:
        out.print(f"{clean(str(path))} {_MEANS[state]}", markup=False)


def _list(store: TrustStore, *, as_json: bool) -> None:
    states = store.states()
    if as_json:
        print_json([{"path": path, "state": state} for path, state in states.items()])
        return
    table = Table("file", "state", box=None, header_style="bold")
    for path, state in states.items():
        table.add_row(Text(clean(path)), state)
    if states:
        print_table(table)
    else:
        out.print("no settings file is trusted")

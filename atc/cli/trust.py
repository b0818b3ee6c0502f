"""``atc trust``: accept the settings file of a folder, and files of kept programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from atc._host.invisible import visible
from atc._host.trust import FILE, ReadFile, SettingsFile, TrustStore, place_of, settings_file
from atc.calls import question
from atc.cli import options
from atc.cli.console import NOT_SOLVED, clean, err, guarded, out, print_json, print_table
from atc.errors import UsageError
from atc.tools.kept_files import read_kept
from atc.tools.kept_folders import kept_files_at


@guarded
def trust(
    path: Annotated[
        Path, typer.Argument(help="The settings file, a file NAME.atc, or the folder that has such files.")
    ] = Path(),
    list_: Annotated[bool, typer.Option("--list", help="List the files that are trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust the file any more.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Trust it without being asked.")] = False,
    as_json: options.Json = False,
) -> None:
    """Let the atc.toml of a folder decide where keys, data and programs go, and its kept programs call your tools.

    You see each file first; after a change you are asked again.
    """
    store = TrustStore()
    if list_:
        _list(store, as_json=as_json)
    elif remove:
        removed = [each for each in _named(path) if store.remove(each)]
        if not removed:
            raise UsageError(f"{path} was not trusted: `atc trust --list` shows what is")
        _finish(dict.fromkeys(removed, "removed"), as_json=as_json)
    else:
        states = {file.path: _trusted(store, file, yes=yes) for file in _files(path)}
        _finish(states, as_json=as_json)
        if "refused" in states.values():
            raise typer.Exit(NOT_SOLVED)


def _files(path: Path) -> list[ReadFile]:
    """The files that a path names, each read once."""
    kept = kept_files_at(path)
    for file in kept:
        read_kept(file.content, visible(str(file.path)), file.path, edited=True)
    if kept and not (path.is_dir() and (path / FILE).is_file()):
        return kept
    return [settings_file(path), *kept]


def _named(path: Path) -> list[Path]:
    """The files that a path may name, whether or not they are there."""
    if not path.is_dir():
        return [path]
    folder = place_of(path / FILE).parent
    known = (Path(each) for each in TrustStore().states())
    return [path / FILE, *(each for each in known if each.parent == folder and each.name != FILE)]


def _trusted(store: TrustStore, file: ReadFile, *, yes: bool) -> str:
    if isinstance(file, SettingsFile) and not file.guarded:
        return "free"
    if store.trusts(file):
        return "trusted"
    where = visible(str(file.path))
    changed = " It has changed since you trusted it." if store.knows(file.path) else ""
    if isinstance(file, SettingsFile):
        asked: tuple[str, dict[str, Any]] = f"trust {where}?{changed} It sets", file.shown
    else:
        text = file.content.decode()
        if not yes:
            err.print(Text("\n".join(f"  | {visible(line)}" for line in text.split("\n"))))
        calls = [used.name for used in read_kept(text, where, edited=True).uses]
        asked = f"let {where}, as it stands above, call your tools?{changed} It calls", {"tools": calls}
    if yes or asyncio.run(question.ask(*asked)):
        store.add(file)
        return "trusted"
    return "refused"


_MEANS = {
    "free": "needs no trust: it sets nothing that decides where keys, data and programs go",
    "trusted": "is trusted as it is now",
    "refused": "is not trusted",
    "removed": "is not trusted any more",
}


def _finish(states: dict[Path, str], *, as_json: bool) -> None:
    made = [{"path": str(path), "state": state} for path, state in states.items()]
    if as_json:
        print_json(made[0] if len(made) == 1 else made)
        return
    for path, state in states.items():
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
        out.print("no file is trusted")

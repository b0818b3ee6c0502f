"""The ledger of what a user can do: ``docs/capabilities.tsv``, a row for each thing, while the house is rebuilt.

``python -m deploy.capabilities`` says where the ledger and the code differ; ``--write`` adds rows for what is new and
marks what is missing as ``dropped``. A row is never removed: it says what became of its thing (``fate``: ``kept``,
``moved`` or ``dropped``), with a note of what to use instead. The ledger goes when the rebuilding ends.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import typer

import atc
from atc.cli import app, commands_of, console
from atc.parts import KINDS
from atc.result import RunStatus
from atc.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "docs" / "capabilities.tsv"
FATES = ("kept", "moved", "dropped")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "research/README.md")

Key = tuple[str, str]
"""The kind and the name of a thing: what a row is found by."""


@dataclass(frozen=True)
class Row:
    """What became of one thing.

    Attributes:
        fate: one of :data:`FATES`.
        note: where it is now, or why it is gone; a ``kept`` row needs none.
    """

    kind: str
    name: str
    fate: str = "kept"
    note: str = ""


def things() -> list[Key]:
    """What the code and the documents have now, in the order of the ledger's kinds."""
    found: list[Key] = [("setting", name) for name in Settings.model_fields]
    found += _of_command(typer.main.get_command(app), "atc")
    found += [("public name", name) for name in atc.__all__]
    found += [("run status", status) for status in get_args(RunStatus)]
    codes = {value for name, value in vars(console).items() if name.isupper() and type(value) is int and name[0] != "_"}
    found += [("exit code", f"exit code {code}") for code in sorted(codes)]
    found += _entry_points()
    pages = [*(ROOT / page for page in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
    found += [("snippet", name) for page in pages for name in _snippets(page)]
    return list(dict.fromkeys(found))


def _of_command(command: Any, path: str) -> Iterator[Key]:
    """A command with its options, each by each of its names; then the commands below it."""
    yield "command", path
    for each in command.params:
        if each.param_type_name == "option" and not each.hidden and each.name != "help":
            yield from (("option", f"{path} {option}") for option in (*each.opts, *each.secondary_opts))
    for name, inner in commands_of(command).items():
        if not inner.hidden:
            yield from _of_command(inner, f"{path} {name}")


def _entry_points() -> Iterator[Key]:
    """The scripts and entry points of both packages, and the groups that other packages may use."""
    for kind in KINDS:
        yield from (("entry point", each) for each in (kind.group, *(f"{kind.group} {name}" for name in kind.own)))
    for package in (ROOT, ROOT / "research"):
        project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        yield from (("entry point", f"console script {name}") for name in project.get("scripts", {}))
        for group, points in project.get("entry-points", {}).items():
            yield from (("entry point", f"{group} {name}") for name in points)


def _snippets(page: Path) -> Iterator[str]:
    """Each snippet of a page by the heading that it stands under and its number there: a new wording is no new one."""
    place, heading, within = page.relative_to(ROOT).as_posix(), "", False
    numbers: Counter[str] = Counter()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            within = not within
            if within:
                numbers[heading] += 1
                yield f"{place}: {heading} ({numbers[heading]})"
        elif not within and re.match(r"#+ ", line):
            heading = line.lstrip("#").strip()


def read(text: str) -> dict[Key, Row]:
    """The rows of a ledger."""
    rows = [Row(*line.split("\t")) for line in text.splitlines()[1:]]
    return {(row.kind, row.name): row for row in rows}


def written(rows: Mapping[Key, Row]) -> str:
    """The rows as the file has them."""
    lines = ["\t".join(("kind", "name", "fate", "note")), *("\t".join(astuple(row)) for row in rows.values())]
    return "\n".join(lines) + "\n"


def brought_up_to_date(rows: Mapping[Key, Row], there: list[Key]) -> dict[Key, Row]:
    """The rows with those of new things, and with ``dropped`` where a kept thing is missing; none is left out."""
    made = {key: replace(row, fate="dropped") if row.fate == "kept" else row for key, row in rows.items()}
    for key in there:
        row = rows.get(key, Row(*key))
        made[key] = replace(row, fate="kept") if row.fate == "dropped" else row
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(kind for kind, _ in made))}
    return dict(sorted(made.items(), key=lambda item: (kinds[item[0][0]], item[0][1])))


def problems(rows: Mapping[Key, Row], there: list[Key]) -> list[str]:
    """What is wrong with a ledger: it is not of this code, or does not say what became of a thing."""
    found = []
    for key, now in brought_up_to_date(rows, there).items():
        row = rows.get(key)
        if row is None:
            found.append(f"{now.name}: this {now.kind} has no row")
        elif row.fate != now.fate or row.fate not in FATES:
            found.append(f"{row.name}: the row of this {row.kind} says {row.fate!r}, not {now.fate!r}")
        elif row.fate != "kept" and not row.note and row.kind != "snippet":  # no name in anybody's code
            found.append(f"{row.name}: the row of this {row.kind} has no note of what became of it")
    return found


def main() -> int:
    """Bring the ledger up to date, or say where it is not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="add rows, and mark what is missing as dropped")
    write = parser.parse_args().write
    rows, there = read(LEDGER.read_text(encoding="utf-8")) if LEDGER.exists() else {}, things()
    if write:
        rows = brought_up_to_date(rows, there)
        LEDGER.write_text(written(rows), encoding="utf-8")
    found = problems(rows, there)
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())

"""The pages docs/reference/commands.md and settings.md, made of the commands and settings themselves.

``python -m deploy.reference_pages --write`` writes them; a test holds them to the code. Without ``--write`` the command
exits with 1 where a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo

from atc.cli import app, commands_of
from atc.cli.help import SOURCES
from atc.settings import Settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"


SHARED = 3
"""Commands that have an option in common, from which it stands in a section of its own."""


def commands_page() -> str:
    """Every command with its help, arguments and options, as Markdown."""
    commands = [*_commands(typer.main.get_command(app), "atc")]
    lines = {path: [line for each in command.params if (line := _line(each))] for path, command in commands}
    counts = Counter(line for each in lines.values() for line in each)
    often = [line for line, count in counts.most_common() if count >= SHARED]
    shared = list({_first(line): line for line in reversed(often)}.values())  # of two with a name, the commoner one
    parts = [
        "# Commands\n",
        "This page has the text of `atc --help` and `atc COMMAND --help`.",
        "`--set NAME=VALUE` takes any [setting](settings.md); `atc help` has more: strategies, exit codes, rules.",
        "[Messages and exit codes](messages.md#exit-codes) are on a page of their own.\n",
        "```console\n$ atc --version\n```\n",
        "## Sources of tools\n",
        "`--tools SOURCE` names tools. `atc help sources` prints the forms:\n",
        f"```text\n{SOURCES}\n```\n",
        "## Shared options\n",
        f"At least {_NUMBERS[SHARED]} commands take each of these. A command lists their names after *Also*;",
        "most take `--json` and `--set`, too.\n",
        *sorted(shared),
        "",
    ]
    for path, command in commands:
        parts.append(f"## {path}\n")
        parts.append(f"{_text(command.help)}\n")
        parts += [line for line in lines[path] if line not in shared]
        also = [_first(line) for line in lines[path] if line in shared]
        if also := [name for name in also if name not in ("`--json`", "`--set`")]:
            parts += [*([""] if any(line not in shared for line in lines[path]) else []), f"*Also* {', '.join(also)}."]
        parts += [""] if parts[-1].rstrip("\n") == parts[-1] else []
    return "\n".join(parts).rstrip() + "\n"


_NUMBERS = {3: "three", 4: "four", 5: "five"}


def _first(line: str) -> str:
    """The name that stands first in the line of an option: ``- `--tools SOURCE`, …`` → `` `--tools` ``."""
    return f"`{line.split('`')[1].split()[0]}`"


def settings_page() -> str:
    """Every setting with its environment variable, default and meaning, as Markdown."""
    parts = [
        "# Settings\n",
        "A setting is given as an argument (`Agent(tools, max_calls=40)`, `atc run … --set max_calls=40`), as an",
        "environment variable (`ATC_MAX_CALLS=40`), or in `atc.toml` in the working folder (`max_calls = 40`).",
        "The first of these that is there counts. A folder [may set less](../approval.md#trust-a-folder).\n",
        "```console\n$ atc doctor --settings\n```\n",
        "It prints each setting with the value that it has here.\n",
        "| setting | environment variable | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for name, field in Settings.model_fields.items():
        cells = (f"`{name}`", f"`ATC_{name.upper()}`", _default(field), _text(field.description))
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


PAGES = {"commands.md": commands_page, "settings.md": settings_page}


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each command below one, with its words. (typer has a copy of click: its classes are not click's.)"""
    inner_commands = commands_of(command)
    if not inner_commands or command.invoke_without_command:
        yield path, command
    for name, inner in inner_commands.items():
        if not inner.hidden:
            yield from _commands(inner, f"{path} {name}")


def _line(parameter: Any) -> str:
    """A line of a command's list; empty for what is not shown."""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return ""
    if parameter.param_type_name == "option":
        choices = getattr(getattr(parameter, "type_descriptor", None), "choices", None) or ()
        words = "|".join(str(getattr(each, "value", each)) for each in choices) or _value(parameter.opts[0])
        metavar = parameter.metavar if parameter.metavar is not None else words
        value = f" {metavar}" if metavar and not parameter.is_flag else ""
        names = ", ".join(
            f"`{name}{value if name.startswith('--') else ''}`" for name in (*parameter.opts, *parameter.secondary_opts)
        )
    else:
        names = f"`{(parameter.metavar or parameter.name or '').upper()}`"
    default = parameter.default
    shown = (
        ""
        if isinstance(default, bool) or default in (None, (), [], "") or callable(default)
        else f" Default: `{default}`."
    )
    text = _text(getattr(parameter, "help", "")).replace(" May be given several times.", " Repeatable.")
    return f"- {names}: {text}{shown}"


def _value(option: str) -> str:
    """What stands for an option's value: ``--base-url`` → ``BASE_URL``."""
    return option.lstrip("-").replace("-", "_").upper()


def _default(field: FieldInfo) -> str:
    """A setting's default, as a user would write it; of what differs from machine to machine, that it does."""
    if field.default_factory is not None:
        return "of this machine"
    value = field.default
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, Path):
        return "of this machine"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(said: str | None) -> str:
    """Help as one line of a Markdown table: no cell ends in it, and what is no code is no markup."""
    line = re.sub(r"\s+", " ", inspect.cleandoc(said or "")).replace("|", "\\|")
    return "".join(
        part if part[0] == "`" else re.sub(r"([<*])", r"\\\1", part) for part in re.findall("`[^`]*`|[^`]+", line)
    )


def main() -> int:
    """Write the pages, or see whether they are up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the pages")
    write = parser.parse_args().write
    old = [name for name, page in PAGES.items() if not _same(FOLDER / name, page())]
    if write:
        for name in old:
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
    elif old:
        print(f"out of date: {', '.join(old)}; write them: python -m deploy.reference_pages --write", file=sys.stderr)
    return int(bool(old) and not write)


def _same(page: Path, text: str) -> bool:
    return page.exists() and page.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    os.environ.setdefault("TERM", "dumb")
    raise SystemExit(main())

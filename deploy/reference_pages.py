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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo

from atc.cli import app, commands_of
from atc.settings import Settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"


def commands_page() -> str:
    """Every command with its help, arguments and options, as Markdown."""
    parts = [
        "# Commands\n",
        "What `atc --help` and `atc COMMAND --help` say, on one page.",
        "[Exit codes](messages.md#exit-codes) say how a command ended.",
        "`--set NAME=VALUE` takes any [setting](settings.md), so that few settings have an option of their own.\n",
        "```console\n$ atc --version\n```\n",
    ]
    for path, command in _commands(typer.main.get_command(app), "atc"):
        parts.append(f"## {path}\n")
        parts.append(f"{_text(command.help)}\n")
        rows = [row for parameter in command.params if (row := _row(parameter))]
        if rows:
            parts += ["| | what it does | default |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(parts).rstrip() + "\n"


def settings_page() -> str:
    """Every setting with its environment variable, default and meaning, as Markdown."""
    parts = [
        "# Settings\n",
        "A setting is given as an argument (`Agent(tools, max_tools=40)`, `atc run … --set max_tools=40`), as an",
        "environment variable (`ATC_MAX_TOOLS=40`), or in `atc.toml` in the working folder (`max_tools = 40`).",
        "The first of these that is there counts. [What a folder may set](../approval.md) is less.\n",
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


def _row(parameter: Any) -> str:
    """A row of a command's table; empty for what is not shown."""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return ""
    if parameter.param_type_name == "option":
        value = "" if parameter.is_flag or parameter.count else f" {parameter.metavar or _value(parameter.opts[0])}"
        names = ", ".join(f"`{name}{value}`" for name in (*parameter.opts, *parameter.secondary_opts))
    else:
        names = f"`{(parameter.metavar or parameter.name or '').upper()}`"
    default = parameter.default
    shown = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
    return f"| {names} | {_text(getattr(parameter, 'help', ''))} | {shown} |"


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

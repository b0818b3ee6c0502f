"""TOML, read with the place of every statement and edited as text.

The standard library reads it, and so decides what is valid. What is here finds where the statements of one table stand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atc.cli.clients.document import ConfigProblem, Document, Edit, Path, Scalar

_TRIVIA = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BLANK = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_TEXT = re.compile(
    r'"""(?:[^"\\]++|\\(?s:.)|"(?!""))*+"{3,5}'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")
_PLAIN = re.compile(r"""[^"'\[\]{}#\n]++""")
_LONGEST_KEY = 50
MOST_DOTS = 1_000
"""Dots in one line of a file."""


@dataclass(frozen=True)
class _Statement:
    """A header or a pair: where it stands, the whole key that it sets, and where its value begins (0 for a header)."""

    start: int
    end: int
    path: Path
    value: int = 0


class TomlDocument(Document):
    """A TOML file."""

    limit = 1_000_000

    def __init__(self, text: str) -> None:
        self.text = text
        for number, each in enumerate(text.split("\n"), 1):
            if each.count(".") > MOST_DOTS:  # a key of n parts takes the square of n
                raise ConfigProblem(f"a line has more than {MOST_DOTS:,} dots, and ATC edits none such", line=number)
        try:
            self.data = tomllib.loads(text)
        except RecursionError:
            raise ConfigProblem("it is nested too deeply") from None
        except ValueError as error:  # tomllib tells the place in its message alone
            what, place = str(error), _PLACE.search(str(error))
            line, column = (int(place[1]), int(place[2])) if place else (0, 0)
            what = what.replace(place[0], "").strip() if place else what
            raise ConfigProblem(f"no TOML: {what}", line=line, column=column) from None
        self._statements = list(_Scanner(text).statements())

    def put(self, path: Path, name: str, value: Mapping[str, Any], raw: str = "") -> Edit:
        text, newline = self.text, self.newline
        lead = "" if not text or text.endswith("\n") else newline
        lead += "" if not text.strip() or (text + lead).endswith(newline * 2) else newline
        body = raw or _table((*path, name), value).replace("\n", newline)
        return Edit.of(text, len(text), len(text), lead + body.rstrip("\r\n") + newline)

    def take(self, path: Path, name: str) -> Edit:
        found = self._of((*path, name))
        if not found:
            raise ConfigProblem(f"{'.'.join((*path, name))} is written in a way that ATC does not edit")
        text, pieces, last = self.text, [], 0
        for statement in found:
            start = text.rfind("\n", 0, statement.start) + 1
            start = start if not text[start : statement.start].strip() else statement.start
            end = text.find("\n", statement.end)
            end = len(text) if end < 0 else end + 1
            if last and not text[last:start].strip():
                start = last  # the blank lines between them go, too
            pieces.append((start, end))
            last = end
        first = pieces[0][0]
        above = text[:first].rstrip(" \t\r\n")
        blank = text[len(above) : first]
        if blank.count("\n") > 1:  # the blank line before it
            first -= len(blank) - (blank.index("\n") + 1)
        kept, at = "", pieces[0][0]
        for start, end in pieces:
            kept, at = kept + text[at:start], end
        return Edit.of(text, first, at, kept)

    def raw(self, path: Path, name: str) -> str:
        found = self._of((*path, name))
        headed = found and not found[0].value
        if not headed or self._statements[self._statements.index(found[0]) :][: len(found)] != found:
            return ""
        end = self.text.find("\n", found[-1].end)
        return self.text[found[0].start : len(self.text) if end < 0 else end + 1]

    def scalars(self, start: int, end: int) -> Iterator[Scalar]:
        for each in self._statements:
            if not each.value or each.end <= start or each.value >= end:
                continue
            found = self.data
            for key in each.path:
                found = found[key] if isinstance(found, dict) and key in found else None
            for inner in _inside(found, each.path):
                yield Scalar(each.value, each.end, *inner)

    def _of(self, path: Path) -> list[_Statement]:
        return [each for each in self._statements if each.path[: len(path)] == path]


def _inside(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The plain values in a value, each with its keys; tables of arrays stand elsewhere and come with none."""
    stack = [(value, path)]
    while stack:
        value, path = stack.pop()
        if isinstance(value, dict):
            stack += [(inner, (*path, key)) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(inner, path) for inner in reversed(value)]  # in their order: words of a command
        elif value is not None and not isinstance(value, bool):
            yield path, str(value)


class _Scanner:
    """Walks over a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self.text = text

    def statements(self) -> Iterator[_Statement]:
        text, at = self.text, 0
        table: Path = ()
        while (at := _TRIVIA.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it matches everywhere
            start = at
            if text[at] == "[":
                brackets = 2 if text.startswith("[[", at) else 1
                table, at = self._key(at + brackets)
                at += brackets
                yield _Statement(start, at, table)
            else:
                key, at = self._key(at)
                value = self._blank(at + 1)
                at = self._value(value)
                yield _Statement(start, at, (*table, *key), value)

    def _blank(self, at: int) -> int:
        return _BLANK.match(self.text, at).end()  # type: ignore[union-attr]  # it matches everywhere

    def _key(self, at: int) -> tuple[Path, int]:
        """The parts of a key, and the place of what follows it."""
        parts: list[str] = []
        while True:
            at = self._blank(at)
            found = _TEXT.match(self.text, at) or _BARE.match(self.text, at)
            if found is None or len(parts) == _LONGEST_KEY:
                raise ConfigProblem("it has a key that ATC cannot read")
            quoted = found[0][0] in "\"'"
            parts.append(str(tomllib.loads(f"k = {found[0]}")["k"]) if quoted else found[0])
            at = self._blank(found.end())
            if not self.text.startswith(".", at):
                return tuple(parts), at
            at += 1

    def _value(self, at: int) -> int:
        """The end of the value that begins at a place."""
        text, depth, end = self.text, 0, at
        while at < len(text):
            if found := _TEXT.match(text, at) or _PLAIN.match(text, at):
                end = found.start() + len(found[0].rstrip()) if found[0].strip() else end
                at = found.end()
                continue
            character = text[at]
            if character == "#":
                at = text.find("\n", at) if "\n" in text[at:] else len(text)
                continue
            if character == "\n" and not depth:
                break
            depth += (character in "[{") - (character in "]}")
            at += 1
            end = at if character != "\n" else end
        return end


def _table(path: Path, value: Mapping[str, Any]) -> str:
    """A table, and those in it, as text."""
    plain = {key: inner for key, inner in value.items() if not isinstance(inner, Mapping)}
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(inner)}" for key, inner in plain.items())]
    tables = [_table((*path, key), inner) for key, inner in value.items() if isinstance(inner, Mapping)]
    return "\n".join([*lines, "", *(table for table in tables)]) if tables else "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    """A value in one line.

    Raises:
        ConfigProblem: TOML has no such value.
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    raise ConfigProblem(f"TOML has no way to write a {type(value).__name__}")

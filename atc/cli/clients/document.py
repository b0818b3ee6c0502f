"""What every kind of configuration file can do: be read, take an entry and lose one, as edits of its text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atc.errors import UsageError


class ConfigProblem(UsageError):
    """A configuration cannot be read or edited. Nothing was written.

    Attributes:
        line: where, from 1; 0 where it concerns the whole file.
        column: where in the line, in characters from 1.
        paste: what the user can add by hand; empty if there is nothing.
    """

    def __init__(self, what: str, *, line: int = 0, column: int = 0, file: str = "") -> None:
        where = [file] if file else []
        where += [f"line {line}, column {column}"] if line else []
        super().__init__(f"{', '.join(where)}: {what}" if where else what)
        self.what, self.line, self.column = what, line, column
        self.paste = ""


def problem_at(text: str, position: int, what: str) -> ConfigProblem:
    """A problem at a position of a text."""
    line_start = text.rfind("\n", 0, position) + 1
    return ConfigProblem(what, line=text.count("\n", 0, position) + 1, column=position - line_start + 1)


Path = tuple[str, ...]
"""The keys that lead to a value, from the root."""
_CONTEXT = 160
"""Characters on both sides of an edit by which its place is found again in a file that has changed since."""


@dataclass(frozen=True)
class Edit:
    """One stretch of a text replaced by another.

    Attributes:
        start: where, in characters. ``old``: what stood there. ``new``: what stands there instead.
        before: the characters before it. ``after``: those behind it.
    """

    start: int
    old: str
    new: str
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, text: str, start: int, end: int, new: str) -> Edit:
        """The edit of a text that puts ``new`` in the place of ``text[start:end]``."""
        return cls(start, text[start:end], new, text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT])

    def apply(self, text: str) -> str:
        """The text after the edit, which was made for it."""
        return text[: self.start] + self.new + text[self.start + len(self.old) :]

    def undone(self, text: str) -> str | None:
        """A text without the edit, if its place can be told for certain: it is where it was, or found just once."""
        whole = self.before + self.new + self.after
        at = self.start - len(self.before)
        if not (at >= 0 and text.startswith(whole, at)):
            at = text.find(whole)
            if at < 0 or text.find(whole, at + 1) >= 0:
                return None
        at += len(self.before)
        return text[:at] + self.old + text[at + len(self.new) :]


@dataclass(frozen=True)
class Scalar:
    """A value that is not divided further: where it stands, the keys that lead to it, and its text."""

    start: int
    end: int
    path: Path
    text: str


class Document(ABC):
    """A configuration file, parsed.

    Attributes:
        text: of the whole file, without a byte order mark.
        data: what it says: mappings, lists and plain values.
    """

    limit: int
    """Characters that a file of this kind may have."""
    text: str
    data: Any

    @abstractmethod
    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            ConfigProblem: it is not of this kind, too long, or nested too deeply.
        """

    @abstractmethod
    def put(self, path: Path, name: str, value: Mapping[str, Any], raw: str = "") -> Edit:
        """The edit that adds an entry to the mapping at ``path``, which is made if it is missing.

        Args:
            raw: the text of an entry that :meth:`raw` gave, to be used as it is.

        Raises:
            ConfigProblem: this file is written in a way that is not edited.
        """

    @abstractmethod
    def take(self, path: Path, name: str) -> Edit:
        """The edit that removes the entry ``name`` of the mapping at ``path``.

        Raises:
            ConfigProblem: as :meth:`put`.
        """

    @abstractmethod
    def raw(self, path: Path, name: str) -> str:
        """The text of an entry, for :meth:`put`; empty where it stands in several pieces."""

    @abstractmethod
    def scalars(self, start: int, end: int) -> Iterator[Scalar]:
        """Every value that may be a secret and stands, in part at least, in a stretch of the text; and perhaps others.

        Of a list all come: a word may say of the next one what it is.
        """

    @property
    def newline(self) -> str:
        """How its lines end."""
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def servers(self, path: Path) -> dict[str, Any]:
        """The mapping at a path; empty where there is none.

        Raises:
            ConfigProblem: something else stands there.
        """
        found = self.data
        for depth, key in enumerate(path):
            if found is None:
                return {}
            if not isinstance(found, dict):
                where = ".".join(path[:depth]) or "the file"
                raise ConfigProblem(f"{where} is a {type(found).__name__}, not a mapping: repair it first")
            found = found.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise ConfigProblem(f"{'.'.join(path)} is a {type(found).__name__}, not a mapping: repair it first")
        return found


def with_entry(data: Any, path: Path, name: str, value: Any) -> Any:
    """The data with an entry set in the mapping at ``path``; the original is left alone."""
    root, here = _copied(data, path)
    here[name] = value
    return root


def without_entry(data: Any, path: Path, name: str) -> Any:
    """The data without an entry; the original is left alone."""
    root, here = _copied(data, path)
    here.pop(name, None)
    return root


def _copied(data: Any, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data with its own mappings along ``path``, and the last of these."""
    root = here = dict(data or {})
    for key in path:
        here[key] = here = dict(here.get(key) or {})
    return root, here


def settled(data: Any, path: Path) -> Any:
    """The data without mappings at the end of ``path`` that are empty: to a client they are as good as missing."""
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data if data is not None else {}
    below = settled(data[path[0]], path[1:])
    rest = {key: value for key, value in data.items() if key != path[0]}
    return rest if below is None or below == {} else {**data, path[0]: below}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, in type too: ``1`` is neither ``True`` nor ``1.0``, and NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)

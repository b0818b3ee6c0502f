"""JSON, with comments and trailing commas or without, read with the place of every piece and edited as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc.cli.clients.document import ConfigProblem, Document, Edit, Path, Scalar, problem_at

MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_COMMENT = re.compile(r"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/")
_WORDS = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER = 300
_PLACES_TO = 3
"""Levels whose places are known without being asked for: those of servers, at the end of at most two keys."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_REST_OF_LINE = re.compile(r"(?:[ \t]*+(?:/\*(?:[^*\r\n]++|\*(?!/))*+\*/|//[^\r\n]*+))*+")


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


@dataclass(slots=True)
class _Node:
    start: int
    end: int = 0
    value: Any = None
    members: list[_Member] | None = None
    items: list[_Node] = field(default_factory=list)


@dataclass(slots=True)
class _Member:
    key: str
    start: int
    node: _Node
    comma: int | None = None


class _Parser:
    """Reads one document, in time that is linear in its length.

    Args:
        closely: the stretch in which the place of everything is wanted, and not of the upper levels alone.
    """

    def __init__(self, text: str, *, lenient: bool, closely: tuple[int, int] = (0, 0)) -> None:
        self.text, self.lenient, self.closely = text, lenient, closely
        self._quick = not lenient

    def document(self) -> _Node:
        node, at = self._value(self._skip(0), 0)
        if (at := self._skip(at)) < len(self.text):
            raise problem_at(self.text, at, "something follows after the end of the JSON value")
        return node

    def _skip(self, at: int) -> int:
        """Behind white space and comments."""
        while True:
            at = _SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            if not self.text.startswith("/", at):
                return at
            comment = _COMMENT.match(self.text, at)
            if comment is None:
                raise problem_at(self.text, at, "a comment has no end" if self.text[at : at + 2] == "/*" else "no JSON")
            if not self.lenient:
                raise problem_at(self.text, at, "a comment stands here, which this client's JSON does not have")
            at = comment.end()

    def _value(self, at: int, depth: int) -> tuple[_Node, int]:
        if depth > MAX_DEPTH:
            raise problem_at(self.text, at, f"it is nested more than {MAX_DEPTH} deep")
        text, node = self.text, _Node(at)
        first = text[at : at + 1]
        if self._quick and depth >= _PLACES_TO and first in "{[":
            try:
                node.value, node.end = _DECODER.raw_decode(text, at)
                if node.end <= self.closely[0] or at >= self.closely[1]:
                    return node, node.end
            except (ValueError, RecursionError):
                self._quick = False  # what is wrong, and where, is found below
        if first == "{":
            at = self._members(node, at, depth)
        elif first == "[":
            at = self._items(node, at, depth)
        elif first == '"':
            node.value, at = self._string(at)
        elif number := _NUMBER.match(text, at):
            node.value, at = _number(number[0]), number.end()
        else:
            word = next((word for word in _WORDS if text.startswith(word, at)), None)
            if word is None:
                raise problem_at(text, at, "a value is missing" if first in ("", "}", "]", ",") else "this is no JSON")
            node.value, at = _WORDS[word], at + len(word)
        node.end = at
        return node, at

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise problem_at(self.text, at, "a text in quotation marks has no end, or holds what JSON does not allow")
        return str(json.loads(found[0])), found.end()

    def _members(self, node: _Node, at: int, depth: int) -> int:
        node.members = []
        at = self._skip(at + 1)
        while not self.text.startswith("}", at):
            if not self.text.startswith('"', at):
                raise problem_at(self.text, at, "a name in quotation marks is missing")
            start = at
            key, at = self._string(at)
            at = self._skip(at)
            if not self.text.startswith(":", at):
                raise problem_at(self.text, at, "a colon is missing")
            value, at = self._value(self._skip(at + 1), depth + 1)
            member = _Member(key, start, value)
            node.members.append(member)
            member.comma, at = self._comma(at, "}")
        node.value = {member.key: member.node.value for member in node.members}
        return at + 1

    def _items(self, node: _Node, at: int, depth: int) -> int:
        at = self._skip(at + 1)
        while not self.text.startswith("]", at):
            value, at = self._value(at, depth + 1)
            node.items.append(value)
            _, at = self._comma(at, "]")
        node.value = [item.value for item in node.items]
        return at + 1

    def _comma(self, at: int, closing: str) -> tuple[int | None, int]:
        """The comma behind a value, if there is one, and where to go on."""
        at = self._skip(at)
        if self.text.startswith(closing, at):
            return None, at
        if not self.text.startswith(",", at):
            raise problem_at(self.text, at, f"a comma or {closing} is missing")
        behind = self._skip(at + 1)
        if self.text.startswith(closing, behind) and not self.lenient:
            raise problem_at(self.text, at, "a comma stands before the end, which JSON does not have")
        return at, behind


def _dumped(value: Any, **options: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, **options)
    return text if text.isascii() or not _SURROGATE.search(text) else json.dumps(value, **options)


def _number(text: str) -> int | float:
    return int(text) if len(text) < _LONGEST_NUMBER and text.lstrip("-").isdigit() else float(text)


class JsoncDocument(Document):
    """JSON with comments and trailing commas."""

    limit = 16_000_000
    lenient = True

    def __init__(self, text: str) -> None:
        self.text = text
        self._root = _Node(0, 0, {}, []) if not text.strip() else _Parser(text, lenient=self.lenient).document()
        self.data = self._root.value

    def put(self, path: Path, name: str, value: Mapping[str, Any], raw: str = "") -> Edit:
        node, missing = self._reach(path)
        if missing:
            for key in (name, *reversed(missing[1:])):
                value = {key: value}
            name, raw = missing[0], ""
        if not self.text.strip():
            return Edit.of(self.text, 0, len(self.text), self._whole(name, value))
        return self._added(node, name, value, raw)

    def take(self, path: Path, name: str) -> Edit:
        node, missing = self._reach(path)
        members = node.members or []
        at = next((index for index, member in enumerate(members) if member.key == name), None)
        if missing or at is None:
            raise ConfigProblem(f"{'.'.join((*path, name))} is not there")
        member, text = members[at], self.text
        if len(members) == 1 and "/" not in text[node.start + 1 : member.start]:
            end = member.node.end if member.comma is None else member.comma + 1
            if not text[end : node.end - 1].strip():
                return Edit.of(text, node.start + 1, node.end - 1, "")
        lead = len(text[: member.start].rstrip(" \t\r\n"))
        if member.comma is None and at > 0:
            comma = members[at - 1].comma
            assert comma is not None  # a member follows
            end, kept = member.node.end, text[comma + 1 : lead]
            if "//" in kept.rpartition("\n")[2] and text[end : end + 1] not in ("\r", "\n"):
                kept = text[comma + 1 : member.start]
            return Edit.of(text, comma, end, kept)
        end = member.node.end if member.comma is None else member.comma + 1
        behind = _blanks(text, end)
        if text[behind : behind + 1] in ("\r", "\n"):
            return Edit.of(text, lead, end, "")
        return Edit.of(text, member.start, behind, "")

    def raw(self, path: Path, name: str) -> str:
        node, missing = self._reach(path)
        found = [member for member in node.members or [] if member.key == name and not missing]
        return self.text[found[0].node.start : found[0].node.end] if found else ""

    def scalars(self, start: int, end: int) -> Iterator[Scalar]:
        root = _Parser(self.text, lenient=self.lenient, closely=(start, end)).document() if self.text.strip() else None
        stack: list[tuple[_Node, Path]] = [(root, ())] if root else []
        while stack:
            node, path = stack.pop()
            if node.members is not None:
                inner = [(member.node, (*path, member.key)) for member in node.members]
                stack += [(each, keys) for each, keys in inner if each.end > start and each.start < end]
            elif node.items:
                stack += [(item, path) for item in node.items]
            elif isinstance(node.value, str | int | float) and not isinstance(node.value, bool):
                yield Scalar(node.start, node.end, path, str(node.value))

    # -- the pieces ----------------------------------------------------------------------------------------------------

    def _reach(self, path: Path) -> tuple[_Node, Path]:
        """The mapping at a path, or the last one on the way and the keys that are missing."""
        node = self._root
        for depth, key in enumerate(path):
            self._check(node, path[:depth], key)
            found = [member for member in node.members or [] if member.key == key]
            if not found:
                return node, path[depth:]
            node = found[0].node
        self._check(node, path)
        return node, ()

    def _check(self, node: _Node, path: Path, only: str | None = None) -> None:
        """Refuse what is no mapping, and names that stand twice: any, or one."""
        where = ".".join(path) or "the file"
        if node.members is None:
            raise problem_at(self.text, node.start, f"{where} is no mapping in braces: repair it first")
        seen = set()
        for member in node.members:
            if member.key in seen and only in (None, member.key):
                raise problem_at(self.text, member.start, f"{where} has {member.key!r} twice: remove one of them")
            seen.add(member.key)

    def _whole(self, name: str, value: Mapping[str, Any]) -> str:
        return _dumped({name: value}, indent=2).replace("\n", self.newline) + self.newline

    def _added(self, node: _Node, name: str, value: Mapping[str, Any], raw: str) -> Edit:
        members, text, newline = node.members or [], self.text, self.newline
        inside = text[node.start : node.end]
        if "\n" not in inside and (members or "\n" not in text):
            tight = members and '":' in inside and '": ' not in inside
            member = _dumped(name) + (":" if tight else ": ")
            member += raw or _dumped(value, separators=(",", ":") if tight else None)
            lead = "" if tight else " "
            return self._behind(members[-1], lead, member) if members else self._alone(node, member)
        outer = _indent(text, node.start)
        indent = _indent(text, members[-1].start) if members else outer + self._unit()
        if members and "\n" not in text[node.start : members[-1].start]:
            indent = outer + self._unit()
        unit = indent[len(outer) :] if indent.startswith(outer) and len(indent) > len(outer) else self._unit()
        body = raw or _dumped(value, indent=unit).replace("\n", newline + indent)
        member = f"{_dumped(name)}: {body}"
        if members:
            return self._behind(members[-1], newline + indent, member)
        return self._alone(node, newline + indent + member + newline + outer)

    def _behind(self, last: _Member, lead: str, member: str) -> Edit:
        """A member behind the last one, and behind the comment on its line."""
        text, comma = self.text, last.comma
        start = last.node.end if comma is None else comma + 1
        end = _REST_OF_LINE.match(text, start).end() if "\n" in lead else start  # type: ignore[union-attr]
        if comma is None:
            return Edit.of(text, start, end, "," + text[start:end] + lead + member)
        return Edit.of(text, end, end, lead + member + ",")

    def _alone(self, node: _Node, member: str) -> Edit:
        """The only member of a mapping; the comments in it stay before it."""
        start, end = node.start + 1, node.end - 1
        kept = self.text[start:end].rstrip()
        return Edit.of(self.text, start + len(kept), end, member)

    def _unit(self) -> str:
        """One step of indentation."""
        found = re.search(r"\n([ \t]+)\S", self.text)
        return found[1] if found else "  "


class JsonDocument(JsoncDocument):
    """JSON as its standard has it."""

    lenient = False


def _indent(text: str, position: int) -> str:
    """The white space that the line of a position begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _blanks(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position

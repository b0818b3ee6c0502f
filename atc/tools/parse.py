"""Text of a document → plain JSON values, within limits.

JSON and YAML both end as dicts with string keys, lists, strings, numbers, booleans and ``None``. YAML is read event by
event: no tag constructs anything, dates stay strings, and an alias that would blow a small file up hits the node limit.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NoReturn

import yaml

from atc._records.packing import without_strings
from atc.errors import ToolImportError

MAX_BYTES = 20_000_000
"""Bytes of one document's text, unless the user sets another bound."""

MAX_NODES = 2_000_000
"""Values (mappings, lists and scalars) of one document, each alias counted as often as it is used."""

MAX_DEPTH = 120
"""Levels of nesting of one document."""

MAX_ALIASED = 200_000
"""Values that a document may have beyond its characters: so many more its aliases may make."""

MAX_DIRECTIVES = 20
"""``%TAG`` lines of one YAML document: each is compared with all before it."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_CONSTANTS: dict[str, bool | None] = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_CONSTANTS.update({"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False})
_TAG = "tag:yaml.org,2002:"
_MAX_DIGITS = 400
_EMPTY = re.compile(r"\[\s*+\]|\{\s*+\}")
_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)


def parse_document(text: str | bytes, where: str, max_bytes: int = MAX_BYTES, *, json_alone: bool = False) -> Any:
    """Parse JSON or YAML text.

    Args:
        text: the document; bytes must be UTF-8.
        where: the document's name, for messages.
        max_bytes: bytes (or characters) that it may have.
        json_alone: what begins as JSON is not tried as YAML, which takes long.

    Returns:
        Plain JSON values that share nothing.

    Raises:
        ToolImportError: the text is too big, no JSON or YAML, or over a limit.
    """
    if len(text) > max_bytes:
        raise too_large(where, max_bytes)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ToolImportError(f"{where} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    text = text.removeprefix("\ufeff")
    most = max(MAX_NODES, max_bytes // 10)
    is_json = text.lstrip()[:1] in ("{", "[")
    value = _from_json(text, where, most, json_alone) if is_json else _from_yaml(text, where)
    return json_copy(value, where, min(most, len(text) + MAX_ALIASED))


def too_large(where: str, max_bytes: int) -> ToolImportError:
    """The error for a document over its cap."""
    return ToolImportError(
        f"{where} is larger than {max_bytes:,} bytes: cut it down, or let documents be larger with max_document_bytes= "
        "(on the command line: --openapi max_mb=100)"
    )


def json_copy(value: Any, where: str, max_nodes: int = MAX_NODES) -> Any:
    """Copy JSON values, checking that they are nothing else and stay within the limits.

    Raises:
        ToolImportError: a value that JSON does not have, or too many or too deeply nested values.
    """
    return _Copier(where, max_nodes).copy(value, 0, ())


@dataclass
class _Copier:
    where: str
    max_nodes: int
    nodes: int = 0

    def copy(self, value: Any, depth: int, path: tuple[Any, ...]) -> Any:
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise _too_many(self.where, self.max_nodes)
        if depth > MAX_DEPTH:
            place = _place(path)[:80]
            raise ToolImportError(f"{self.where} is nested deeper than {MAX_DEPTH} levels at {place}…: flatten it")
        if isinstance(value, str):
            return _whole_characters(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            if isinstance(value, float) and not math.isfinite(value):
                raise ToolImportError(
                    f"{self.where} has {value} at {_place(path)}, which JSON does not have: remove it"
                )
            return value
        if isinstance(value, dict):
            return {
                self.key(key, path): self.copy(item, depth + 1, (*path, key) if depth < 8 else path)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.copy(item, depth + 1, path) for item in value]
        raise ToolImportError(
            f"{self.where} has a {type(value).__name__} at {_place(path)}: only JSON values are allowed"
        )

    def key(self, key: Any, path: tuple[Any, ...]) -> str:
        if isinstance(key, str):
            return _whole_characters(key)
        if key is None or isinstance(key, (bool, int, float)):  # response codes in a dict: {200: …}
            return json.dumps(key)
        raise ToolImportError(
            f"{self.where} has a key of type {type(key).__name__} at {_place(path)}: keys must be strings"
        )


def _place(path: tuple[Any, ...]) -> str:
    return "".join(f"/{key}" for key in path) or "its root"


def _whole_characters(text: str) -> str:
    """Half characters (lone surrogates, which JSON can write) would fail wherever the text is written."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _too_many(where: str, most: int) -> ToolImportError:
    return ToolImportError(f"{where} has more than {most:,} values (aliases counted): cut it down")


def _from_json(text: str, where: str, most: int, alone: bool) -> Any:
    if _marks_in(text) > most and _marks_in(bare := without_strings(text)) - _empties_in(bare) > most:
        raise _too_many(where, most)  # before anything is built: a value takes thirty times the memory of its text
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ToolImportError(f"{where} is nested deeper than {MAX_DEPTH} levels: flatten it") from None
    except ValueError as error:
        problem = ToolImportError(f"{where} is not valid JSON: {error}")
        if alone:
            raise problem from None
        try:  # YAML's flow style starts with a brace too
            return _from_yaml(text, where)
        except ToolImportError:
            raise problem from None


def _marks_in(text: str) -> int:
    """At least as many as a JSON text has values: marks inside its strings count, too."""
    return 1 + sum(map(text.count, ",[{"))


def _empties_in(text: str) -> int:
    return sum(1 for _ in _EMPTY.finditer(text))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


@dataclass
class _Open:
    value: Any
    anchor: str | None
    key: str | None = None
    merges: list[Any] = field(default_factory=list)


_MERGE = "<<"


class _Builder:
    def __init__(self, where: str) -> None:
        self.where = where
        self.root: Any = None
        self.open: list[_Open] = []
        self.anchors: dict[str, Any] = {}
        self.merged = 0

    def fail(self, event: yaml.Event, problem: str) -> NoReturn:
        line = event.start_mark.line + 1 if event.start_mark else "?"
        raise ToolImportError(f"{self.where}, line {line}: {problem}")

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            mapping = isinstance(event, yaml.MappingStartEvent)
            if event.tag not in (None, "!", f"{_TAG}map" if mapping else f"{_TAG}seq"):
                self.fail(event, f"the YAML tag {event.tag!r} is not allowed: use plain values")
            if len(self.open) >= MAX_DEPTH:
                self.fail(event, f"nested deeper than {MAX_DEPTH} levels: flatten it")
            if self.open and isinstance(self.open[-1].value, dict) and self.open[-1].key is None:
                self.fail(event, "a mapping key must be a scalar")
            self.open.append(_Open({} if mapping else [], event.anchor))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = self.open.pop()
            for merged in done.merges:
                self.merge(event, done.value, merged)
            self.place(event, done.value, done.anchor)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                self.fail(event, f"the alias *{event.anchor} stands inside or before its own anchor")
            self.place(event, self.anchors[event.anchor], None)
        elif isinstance(event, yaml.ScalarEvent):
            top = self.open[-1] if self.open else None
            is_key = top is not None and isinstance(top.value, dict) and top.key is None
            self.place(event, event.value if is_key else self.scalar(event), event.anchor)

    def place(self, event: yaml.Event, value: Any, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = value
        if not self.open:
            self.root = value
            return
        top = self.open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            if not isinstance(value, str):
                self.fail(event, "a mapping key must be a scalar")
            top.key = value
        elif top.key == _MERGE and isinstance(value, (dict, list)):
            some = value if isinstance(value, list) else [value]
            self.count_merged(event, len(some))  # the same list may be named in every mapping
            top.merges.extend(some)
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None

    def merge(self, event: yaml.Event, into: dict[str, Any], merged: Any) -> None:
        if not isinstance(merged, dict):
            self.fail(event, "'<<' must name a mapping or a list of mappings")
        self.count_merged(event, len(merged))  # the same mapping may be merged into every other one
        for key, value in merged.items():
            into.setdefault(key, value)

    def count_merged(self, event: yaml.Event, count: int) -> None:
        self.merged += count + 1
        if self.merged > MAX_NODES:
            self.fail(event, f"more than {MAX_NODES:,} values by '<<': cut it down")

    def scalar(self, event: yaml.ScalarEvent) -> Any:
        """The value of a scalar, by YAML 1.2's JSON rules: ``no`` and ``2024-01-01`` are strings."""
        text, tag = event.value, event.tag
        if tag == f"{_TAG}str" or tag == "!" or (tag is None and not event.implicit[0]):
            return text
        if tag not in (None, *(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float"))):
            self.fail(event, f"the YAML tag {tag!r} is not allowed: use plain values")
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if len(text) <= _MAX_DIGITS:
            if _INT.match(text):
                return int(text)
            if _FLOAT.match(text):
                return float(text)
        return text


def _from_yaml(text: str, where: str) -> Any:
    if sum(1 for _ in islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1)) > MAX_DIRECTIVES:
        raise ToolImportError(f"{where} has more than {MAX_DIRECTIVES} %TAG lines: use plain values without tags")
    builder = _Builder(where)
    documents = 0
    try:
        for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    builder.fail(event, "a second YAML document starts here: keep one document in a file")
            if count > 2 * MAX_NODES:
                builder.fail(event, f"more than {MAX_NODES:,} values: cut it down")
            builder.take(event)
    except yaml.YAMLError as error:
        raise ToolImportError(f"{where} is neither JSON nor valid YAML: {' '.join(str(error).split())[:300]}") from None
    return builder.root

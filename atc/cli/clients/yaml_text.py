"""YAML, read with the place of every node and edited as text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from atc.cli.clients.document import ConfigProblem, Document, Edit, Path, Scalar

MAX_DEPTH = 60
MOST_VALUES = 100_000
"""Values of a file, each counted as often as an alias repeats it."""
_REST_OF_LINE = re.compile(r"(?:[ \t]*+:)?[ \t]*+(?:\*[^\s,\]}]++)?[ \t]*+(?:#[^\r\n]*+)?")
"""What may stand behind a value on its line; behind a key, an alias as well."""


class YamlDocument(Document):
    """A YAML file of one document."""

    limit = 250_000

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            _check_depth(text)
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
            _check_size(self._root)
            self.data = yaml.safe_load(text)  # by nodes of its own: it puts the merged ones among them
        except RecursionError:
            raise ConfigProblem("it is nested too deeply") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            raise ConfigProblem(f"no YAML: {error.problem or error.context}", line=line, column=column) from None
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigProblem(f"no YAML: {str(error).splitlines()[0]}") from None

    def put(self, path: Path, name: str, value: Mapping[str, Any], raw: str = "") -> Edit:
        key, node, missing = self._reach(path)
        if missing:
            for part in (name, *reversed(missing[1:])):
                value = {part: value}
            name, raw = missing[0], ""
        text, newline = self.text, self.newline
        if isinstance(node, yaml.MappingNode) and node.flow_style and node.value:
            end = _end(*node.value[-1])
            return Edit.of(text, end, end, f", {json.dumps(name)}: {json.dumps(value)}")
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            indent, at = node.value[0][0].start_mark.column, self._line_end(_end(*node.value[-1]))
            return self._inserted(at, at, indent, name, value, raw)
        if key is None:  # a file that says nothing
            if text.strip() and self._root is not None:
                raise ConfigProblem("the file holds no mapping: repair it first")
            return self._inserted(len(text), len(text), 0, name, value, raw)
        # `key:`, or `key: {}`: what is behind the colon gives way
        at = key.end_mark.index
        at = text.index(":", at) + 1
        end = max(at, _end(key, node)) if node is not None and node.value != "" else at
        body = self._entry(key.start_mark.column + 2, name, value, raw)
        rest = self._line_end(end)
        tail = text[end:rest].rstrip("\r\n")
        return Edit.of(text, at, rest, tail.rstrip() + newline + body)

    def take(self, path: Path, name: str) -> Edit:
        key, node, missing = self._reach(path)
        members = node.value if isinstance(node, yaml.MappingNode) and not node.flow_style else []
        at = next((index for index, (each, _) in enumerate(members) if each.value == name), None)
        if missing or at is None:
            raise ConfigProblem(f"{'.'.join(map(str, (*path, name)))} is written in a way that ATC does not edit")
        start, end = self._lines(members[at])
        if len(members) == 1 and key is not None:
            colon = self.text.index(":", key.end_mark.index) + 1
            return Edit.of(self.text, colon, end, " {}" + self.text[colon:start].rstrip(" ") + "")
        return Edit.of(self.text, start, end, "")

    def raw(self, path: Path, name: str) -> str:
        _, node, missing = self._reach(path)
        members = node.value if isinstance(node, yaml.MappingNode) and not node.flow_style else []
        found = [member for member in members if member[0].value == name and not missing]
        if not found:
            return ""
        start, end = self._lines(found[0])
        return self.text[start:end]

    def scalars(self, start: int, end: int) -> Iterator[Scalar]:
        stack: list[tuple[yaml.Node | None, Path]] = [(self._root, ())]
        while stack:
            node, path = stack.pop()
            if isinstance(node, yaml.MappingNode):
                stack += [(value, (*path, str(key.value))) for key, value in node.value]
            elif isinstance(node, yaml.SequenceNode):
                stack += [(item, path) for item in node.value]
            elif isinstance(node, yaml.ScalarNode):
                first, last = node.start_mark.index, node.end_mark.index
                yield Scalar(first, first + len(self.text[first:last].rstrip()), path, str(node.value))

    # -- the pieces ----------------------------------------------------------------------------------------------------

    def _reach(self, path: Path) -> tuple[yaml.Node | None, yaml.Node | None, Path]:
        """The key and the value at a path; or those on the way that are there, and the keys that are missing."""
        key: yaml.Node | None = None
        node = self._root
        for depth, part in enumerate(path):
            if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
                return key, node, path[depth:]
            self._check(node, path[:depth], part)
            found = [member for member in node.value if member[0].value == part]
            if not found:
                return key, node, path[depth:]
            key, node = found[0]
        if node is not None and not (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
            self._check(node, path)
        return key, node, ()

    def _check(self, node: yaml.Node, path: Path, only: str | None = None) -> None:
        """Refuse what is no mapping, and names that stand twice: any, or one."""
        where, line = ".".join(path) or "the file", node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise ConfigProblem(f"{where} is no mapping: repair it first", line=line, column=1)
        keys = [str(key.value) for key, _ in node.value]
        counted = Counter(keys)
        twice = next((key for key, times in counted.items() if times > 1 and only in (None, key)), None)
        if twice is not None:
            raise ConfigProblem(f"{where} has {twice!r} twice: remove one of them", line=line, column=1)

    def _line_end(self, at: int) -> int:
        """Behind the line of a position, and the comment on it."""
        if at and self.text[at - 1] == "\n":
            return at  # the end of a text in lines
        at = _REST_OF_LINE.match(self.text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end + 1

    def _lines(self, member: tuple[yaml.Node, yaml.Node]) -> tuple[int, int]:
        key, _ = member
        start = self.text.rfind("\n", 0, key.start_mark.index) + 1
        if self.text[start : key.start_mark.index].strip():
            start = key.start_mark.index
        return start, self._line_end(_end(*member))

    def _entry(self, indent: int, name: str, value: Mapping[str, Any], raw: str) -> str:
        if raw:
            return raw if raw.endswith("\n") else raw + self.newline
        lines = _dumped({name: value}).rstrip("\n").split("\n")
        return "".join(" " * indent + line + self.newline for line in lines)

    def _inserted(self, at: int, end: int, indent: int, name: str, value: Mapping[str, Any], raw: str) -> Edit:
        lead = self.newline if at and self.text[at - 1] != "\n" else ""
        return Edit.of(self.text, at, end, lead + self._entry(indent, name, value, raw))


def _end(before: yaml.Node, node: yaml.Node) -> int:
    """Behind the last character of a node, and of the key before it.

    PyYAML has the end of a block where the next token begins, and that of an alias where its anchor is.
    """
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value and _follows(before, node):
        last = node.value[-1]
        before, node = last if isinstance(last, tuple) else (node.value[-2] if len(node.value) > 1 else before, last)
    return int(node.end_mark.index if _follows(before, node) else before.end_mark.index)


def _follows(before: yaml.Node, node: yaml.Node) -> bool:
    return bool(node.start_mark.index >= before.start_mark.index)


def _dumped(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = 0 if event.start_mark is None else event.start_mark.line + 1
            raise ConfigProblem(f"it is nested more than {MAX_DEPTH} deep", line=line, column=1)


def _check_size(root: yaml.Node | None) -> None:
    """Refuse a file that aliases make too large or endless."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        known = sizes.get(id(node))
        if known is None:
            sizes[id(node)] = MOST_VALUES + 1  # met again below itself: endless
            pairs = [each for pair in node.value for each in (pair if isinstance(pair, tuple) else (pair,))]
            known = sizes[id(node)] = min(MOST_VALUES + 1, 1 + sum(map(size, pairs)))
        return known

    if root is not None and size(root) > MOST_VALUES:
        raise ConfigProblem(f"it has more than {MOST_VALUES:,} values, or an alias that repeats without end")

"""Writes random programs over the fake tools: valid, deterministic, and ended soon.

A program is made of templates (:mod:`benchmarks.fuzzing.flows.grammar`) whose holes are filled by templates again, by
type. What a hole asks for is mostly a variable or a part of one, so that values flow from reads to writes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from benchmarks.fuzzing.flows import grammar
from benchmarks.fuzzing.flows.grammar import FIELDS, TYPES, WRITES

HOLE = re.compile(r"<([+?^]?)(\[?\w+)(?:\|([\w$:\[,]+))?>|\$(\w+)")
"""``<s>`` an expression of a type, ``<+s>`` a new variable, ``<?s>`` one that is assigned to again, ``<^[m>`` one that
is changed in place, ``<block>`` statements, ``<def>`` those of a function. ``|$x:m``: with these names in reach.
``$x``: a fresh name, the same one within a template."""


@dataclass(frozen=True)
class _Variable:
    name: str
    type: str
    function: int


class Writer:
    """Writes one program.

    Args:
        choices: decides.
        tricks: use what is written to deceive an analysis, too.
    """

    def __init__(self, choices: random.Random, *, tricks: bool) -> None:
        self._choices, self._tricks = choices, tricks
        self._scope = [_Variable("given", "c", 0)]
        self._functions = [0]
        self._count = 0
        self._flat = False
        self._left = 60
        """Templates that may still be used for expressions: it bounds the size."""
        statements = grammar.STATEMENTS + (grammar.TRICKS if tricks else ())  # one or two of a program's are tricks
        self._statements = [each.text for each in statements]
        plain, tricky = [2 * each.weight for each in grammar.STATEMENTS], [each.weight for each in grammar.TRICKS]
        self._weights = list(accumulate(plain + (tricky if tricks else [])))
        self._expressions = {
            kind: [*known, *known, *(grammar.TRICKY.get(kind, ()) if tricks else ())]
            for kind, known in grammar.EXPRESSIONS.items()
        }

    def program(self) -> str:
        """Return a program."""
        body: list[str] = []
        for _ in range(self._choices.randint(1, 3)):
            body += self._filled(self._choice(grammar.STARTS))
        for _ in range(self._choices.randint(2, 6)):
            body += self._statement(0)
            self._left += 8
        for _ in range(self._choices.randint(1, 2)):
            self._left += 10
            body += self._filled(self._choice(WRITES))
        body += self._filled("answer = <any>")
        return grammar.with_imports("\n".join(body)) + "\n"

    def _choice(self, among: tuple[str, ...] | list[str]) -> str:
        return among[self._choices.randrange(len(among))]

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    # statements

    def _statement(self, depth: int) -> list[str]:
        while True:
            text = self._choices.choices(self._statements, cum_weights=self._weights)[0]
            if depth < 2 or ("<block" not in text and "<def" not in text):
                return self._filled(text, depth)

    def _block(self, depth: int, names: str = "", *, function: bool = False) -> list[str]:
        mark = len(self._scope)
        if function:
            self._functions.append(self._count + 1)
        self._bind(names)
        lines: list[str] = []
        for _ in range(self._choices.randint(1, 2)):
            lines += self._statement(depth + 1)
        if not function:
            del self._scope[mark:]
        return lines

    def _filled(self, template: str, depth: int = 0) -> list[str]:
        fresh: dict[str, str] = {}
        new: list[_Variable] = []
        before: list[str] = []
        template = self._typed(template)
        lines: list[str] = []
        mark: int | None = None
        for line in template.strip("\n").split("\n"):
            margin = line[: len(line) - len(line.lstrip())]
            match = re.fullmatch(r"\s*<(block|def)(?:\|(.*))?>", line)
            if match is None:
                if mark is not None and not margin:  # the function ended
                    del self._scope[mark:]
                    self._functions.pop()
                    mark = None
                lines.append(self._line(line, fresh, new, before))
                continue
            names = HOLE.sub(lambda found: self._named(found[4] or found[0], fresh), match[2] or "")
            if match[1] == "def":
                mark = len(self._scope)
            for inner in self._block(depth, names, function=match[1] == "def"):
                lines.append(margin + inner)
        if mark is not None:
            del self._scope[mark:]
            self._functions.pop()
        self._scope += new
        return before + lines

    def _typed(self, template: str) -> str:
        for name in "TU":
            if f"{name}>" in template or f"{name}|" in template or f":{name}" in template:
                kind = self._choice(TYPES)
                template = re.sub(rf"(?<=[<+?^\[:]){name}(?=[>|,])", kind, template)
        return template

    def _named(self, stem: str, fresh: dict[str, str]) -> str:
        if stem not in fresh:
            fresh[stem] = self._fresh(stem)
        return fresh[stem]

    def _line(self, line: str, fresh: dict[str, str], new: list[_Variable], before: list[str]) -> str:
        def put(match: re.Match[str]) -> str:
            way, kind, names, stem = match.groups()
            if stem is not None:
                return self._named(stem, fresh)
            if way == "+":
                name = self._fresh("v")
                new.append(_Variable(name, kind, self._functions[-1]))
                return name
            if way:
                return self._target(kind, way == "?", new, before)
            mark = len(self._scope)
            if names:
                self._bind(HOLE.sub(lambda found: self._named(found[4], fresh), names))
            text = self._expression(kind, 0)
            del self._scope[mark:]
            return text

        return self._put(put, line)

    def _target(self, kind: str, assigned: bool, new: list[_Variable], before: list[str]) -> str:
        made = [each.name for each in new if each.type == kind]
        if made and (assigned or self._choices.random() < 0.5):
            return made[-1]
        if not (name := self._variable(kind, assigned=assigned)):
            name = self._fresh("v")
            before.append(f"{name} = {self._expression(kind, 2)}")
            self._scope.append(_Variable(name, kind, self._functions[-1]))
        return name

    def _bind(self, names: str) -> None:
        for each in filter(None, names.split(",")):
            name, _, kind = each.partition(":")
            self._scope.append(_Variable(name, kind, self._functions[-1]))

    def _variable(self, kind: str, *, assigned: bool = False) -> str:
        level = self._functions[-1]
        found = [
            each.name
            for each in self._scope
            if each.type == kind and (not assigned or (each.function == level and each.name[0] == "v"))
        ]
        if not found:
            return ""
        if self._choices.random() < 0.5:
            return found[-1]  # what was made last flows on
        return self._choice(found)

    # expressions

    def _expression(self, kind: str, depth: int) -> str:
        if kind == "any":
            kind = self._choice(TYPES)
        self._left -= 1
        name = self._variable(kind)
        if name and (self._flat or depth >= 3 or self._left < 0 or self._choices.random() < 0.4):
            return name
        if (self._flat or depth >= 2 or self._left < 0 or self._choices.random() < 0.35) and (part := self._part(kind)):
            return part
        if depth >= 3 or self._left < 0 or self._flat:
            return name or self._choice(grammar.LEAVES[kind])
        text = self._typed(self._choice(self._expressions[kind]))
        fresh: dict[str, str] = {}

        def put(match: re.Match[str]) -> str:
            way, hole, names, stem = match.groups()
            if stem is not None:
                return self._named(stem, fresh)
            if way:
                return self._variable(hole) or self._expression(hole, depth + 1)
            mark = len(self._scope)
            if names:
                self._bind(HOLE.sub(lambda found: self._named(found[4], fresh), names))
            made = self._expression(hole, depth + 1)
            del self._scope[mark:]
            return made

        return self._put(put, text)

    def _put(self, put: Callable[[re.Match[str]], str], text: str) -> str:
        """Fill the holes of a text; those of an f-string with names and their parts alone (quotes do not nest)."""
        before, self._flat = self._flat, self._flat or 'f"""' in text
        filled = HOLE.sub(put, text)
        self._flat = before
        return filled

    def _part(self, kind: str) -> str:
        at = self._choices.randrange(len(self._scope))
        for variable in (*self._scope[at:], *self._scope[:at]):
            fields = FIELDS.get(variable.type, {}).get(kind)
            if fields:
                field = self._choice(fields)
                way = self._choices.random()
                if way < 0.8 or kind not in "snb":
                    return f"{variable.name}[{field!r}]"
                if way < 0.9:
                    return f"{variable.name}.get({field!r})"
                return f"{variable.name}.get({field!r}, {self._choice(grammar.LEAVES[kind])})"
        return ""


def written(choices: random.Random) -> tuple[str, bool]:
    """Return a program, and whether it may have tricks."""
    tricks = choices.random() < 0.4
    return Writer(choices, tricks=tricks).program(), tricks

"""What is known about a value in a program without running it: the tool calls it can have come from, and the way there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

Step = str | Literal[0, 1]
ITEM: Literal[0] = 0
"""A path step: some item of a list."""
MEMBER: Literal[1] = 1
"""A path step: some member of an object, or some item; which one is not known."""
MAX_PATH = 12


class Origin(NamedTuple):
    """A part of the response of the tool call that stands at ``line`` and ``column`` of the program."""

    tool: str
    line: int
    column: int
    path: tuple[Step, ...] = ()

    def __str__(self) -> str:
        steps = "".join("[…]" if step in (ITEM, MEMBER) else f"[{step!r}]" for step in self.path)
        return f"{self.tool}(...){steps}"


@dataclass(frozen=True)
class Value:
    """An abstract value: the union of what it may be.

    Attributes:
        origins: parts of responses that it is, or was made from.
        pure: it is one of the origins itself, nothing made from them and nothing else.
        items: what its items are, for a list or a tuple that the program built.
        fields: what its members are, for a dict or an object that the program built.
        functions: the program's own functions that it may be.
    """

    origins: frozenset[Origin] = frozenset()
    pure: bool = False
    items: Value | None = None
    fields: dict[str, Value] = field(default_factory=dict, hash=False)
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...] = ()

    def step(self, step: Step) -> Value:
        """The value at ``step`` below this one."""
        below = frozenset(o._replace(path=(*o.path, step)) for o in self.origins if len(o.path) < MAX_PATH)
        found = Value(below, pure=self.pure and bool(below))
        if step in (ITEM, MEMBER) and self.items is not None:
            found = join(found, self.items) if below else self.items
        if step == MEMBER:
            for value in self.fields.values():
                found = join(found, value)
        if isinstance(step, str) and step in self.fields:
            found = join(found, self.fields[step]) if below else self.fields[step]
        return found

    def derived(self) -> Value:
        """Something computed from this value."""
        origins = set(self.origins)
        for part in (self.items, *self.fields.values()):
            origins |= part.derived().origins if part is not None else set()
        return Value(frozenset(origins))

    def with_item(self, item: Value) -> Value:
        return replace(self, items=item if self.items is None else join(self.items, item))

    def with_field(self, name: str, value: Value) -> Value:
        old = self.fields.get(name)
        return replace(self, fields={**self.fields, name: value if old is None else join(old, value)})


NOTHING = Value()
"""A value about which nothing is known."""
NONE = Value(pure=True)
"""``None``: what goes on from it is what came from elsewhere, or fails."""


def join(one: Value, other: Value, depth: int = 0) -> Value:
    """Either of two values. A branch about which nothing is known makes the union impure."""
    if one == other or depth > 4:
        return one
    items = one.items if other.items is None else other.items
    if one.items is not None and other.items is not None:
        items = join(one.items, other.items, depth + 1)
    fields = dict(one.fields)
    for name, value in other.fields.items():
        fields[name] = join(fields[name], value, depth + 1) if name in fields else value
    functions = tuple(dict.fromkeys((*one.functions, *other.functions)))
    return Value(one.origins | other.origins, one.pure and other.pure, items, fields, functions)


def join_all(values: list[Value]) -> Value:
    made = values[0] if values else NOTHING
    for value in values[1:]:
        made = join(made, value)
    return made

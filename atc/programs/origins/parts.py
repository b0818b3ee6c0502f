"""Holds what a program has that can be called, and what a call is given."""

from __future__ import annotations

import ast

from atc.programs.origins.graph import ANY, Graph, Key, Response, Thing
from atc.programs.origins.scopes import Scope

SETTLE = "settle"
"""The setting of ``parallel`` by which it gives errors in the place of results."""


class GiveUp(Exception):
    """The program has something that cannot be followed."""


class Call:
    """Holds what a call is given, as nodes.

    Attributes:
        args: in order.
        stars: what stands behind ``*``, with the number of arguments before it.
        named: by name.
        spread: what stands behind ``**``.
        chosen: a node with the conditions around it, and what chose the function.
        touched: a node for everything that the call may fail on; 0 where nobody catches that.
        caught: a node that holds something where somebody does.
        exits: a node for the conditions under which what is called ends early; 0 where nothing does.
        lines: the first and the last, of the call in the program.
        direct: whether it is written as a call of that very function: else something else calls it, at any line.
    """

    __slots__ = (
        "args",
        "caught",
        "chosen",
        "depth",
        "direct",
        "exits",
        "lines",
        "named",
        "nodes",
        "spread",
        "stars",
        "touched",
    )

    def __init__(self, chosen: int, touched: int, caught: int, lines: tuple[int, int]) -> None:
        self.args: list[int] = []
        self.stars: list[tuple[int, int]] = []
        self.named: dict[str, int] = {}
        self.spread: list[int] = []
        self.nodes: list[ast.expr] = []
        self.chosen, self.touched, self.lines, self.direct = chosen, touched, lines, True
        self.caught, self.exits, self.depth = caught, 0, 0

    def inner(self, *args: int) -> Call:
        """Return a call that something makes because of this one."""
        made = Call(self.chosen, self.touched, self.caught, self.lines)
        made.args, made.direct, made.exits, made.depth = [*args], False, self.exits, self.depth
        return made

    def given(self, other: Call) -> Call:
        """Let the call have what another one is given; return it."""
        self.args, self.stars, self.named, self.spread = [*other.args], [*other.stars], other.named, other.spread
        return self

    def made_by(self, other: Call) -> Call:
        """Return a call with what this one is given, that another one makes."""
        return other.inner().given(self)

    def shifted(self, first: list[int]) -> Call:
        """Return the call with more arguments before its own."""
        made = Call(self.chosen, self.touched, self.caught, self.lines)
        made.args = [*first, *self.args]
        made.stars = [(at + len(first), node) for at, node in self.stars]
        made.named, made.spread, made.direct, made.exits = self.named, self.spread, self.direct, self.exits
        made.depth = self.depth
        return made

    def without_first(self) -> Call:
        """Return the call without its first argument."""
        made = Call(self.chosen, self.touched, self.caught, self.lines)
        made.args, made.stars = self.args[1:], [(max(at - 1, 0), node) for at, node in self.stars]
        made.named, made.spread, made.nodes = self.named, self.spread, self.nodes[1:]
        made.direct, made.exits, made.depth = self.direct, self.exits, self.depth
        return made

    def all(self) -> list[int]:
        """Return all nodes that it is given."""
        return [*self.args, *(node for _, node in self.stars), *self.named.values(), *self.spread]


class Function:
    """Holds a function or a lambda of the program."""

    __slots__ = (
        "all_params", "body", "cached", "called", "caught", "exits", "generator", "kwarg", "named", "node", "params",
        "returns", "scope", "touched", "vararg",
    )  # fmt: skip

    def __init__(self, graph: Graph, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> None:
        self.node, self.scope = node, scope
        given = node.args
        self.params = [(each.arg, graph.node()) for each in (*given.posonlyargs, *given.args)]
        self.named = {**dict(self.params[len(given.posonlyargs) :]), **{a.arg: graph.node() for a in given.kwonlyargs}}
        self.all_params = {**dict(self.params), **self.named}
        self.vararg = Thing(graph, "list") if given.vararg else None
        self.kwarg = Thing(graph, "dict") if given.kwarg else None
        self.returns, self.body, self.touched, self.exits = graph.node(), graph.node(), graph.node(), graph.node()
        self.caught = graph.node()
        self.generator: Thing | None = None
        self.called = self.cached = False


class Class:
    """Holds a class of the program: its own fields, those of what it inherits from, and one object for all."""

    __slots__ = ("bases", "fields", "instance", "is_data", "is_enum", "is_error", "is_odd", "members", "scope", "thing")

    def __init__(self, graph: Graph, scope: Scope) -> None:
        self.scope = scope
        self.bases: list[Class] = []
        self.thing = Thing(graph, "object")
        self.instance = Thing(graph, "object")
        self.instance.cls = self
        self.members: list[str] = []
        self.is_data = self.is_enum = self.is_error = False
        self.is_odd = False  # its fields are not given in the order in which they stand


class Site:
    """Holds a place where a tool is called."""

    __slots__ = ("call", "response")

    def __init__(self, call: Call, response: Response) -> None:
        self.call, self.response = call, response


class Getter(str):
    """Names the function that ``operator.itemgetter`` makes, with its key and the key's node."""

    key: Key
    node: int

    def __new__(cls, key: Key, node: int) -> Getter:
        made = super().__new__(cls, "operator.itemgetter()")
        made.key, made.node = key, node
        return made


def constant_key(node: ast.expr | None) -> Key:
    """Return a subscript as a key of containers: a text, a position, or ``ANY``."""
    if isinstance(node, ast.Constant) and type(node.value) in (str, int):
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and type(node.operand.value) is int
    ):
        return -node.operand.value
    return ANY

"""The abstract interpreter: the state of its walk through a program, by which its parts reach each other.

:mod:`~atc.programs.analysis.flow` evaluates expressions and calls, :mod:`~atc.programs.analysis.flow` walks
statements, and :mod:`~atc.programs.analysis.builtins` models what Python itself brings. Each calls the others through
this class alone.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from atc.programs.analysis.values import NOTHING, Arguments, Cell, Function, Origin, Scope, Value, join
from atc.programs.syntax import Span, span_of
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.paging import Paging, paging_of

MAX_STEPS = 40_000
"""Statements and expressions looked at before the analysis gives up; :attr:`Interpreter.complete` tells."""


@dataclass(frozen=True)
class Access:
    """A look-up: ``base["key"]``, ``base[0]``, ``base.get("key")`` or, with ``attribute``, ``base.key``.

    ``hedged``: the program is ready for the key not to be there.
    """

    node: ast.expr
    base: Value
    key: str | int
    hedged: bool = False
    attribute: bool = False


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool in the source, with the abstract values of its arguments by position or name.

    ``direct``: the tool itself is called at ``node``; otherwise it is handed to something that calls it (``map``).
    ``paged``: it is ``all_pages`` that calls it; ``node`` is then a call of the tool, with what ``all_pages`` is given.
    """

    node: ast.Call
    tool: str
    arguments: dict[str | int, Value]
    direct: bool = True
    paged: bool = False


class Interpreter(ABC):
    """The state of one walk through a program.

    Args:
        tools: the tools by name, or their names alone.

    Attributes:
        accesses: every look-up, its base joined over all the ways that lead there.
        calls: every call of a tool.
        values: what each expression can be.
        tested: keys that the program asks for with ``in`` or ``get``; ``None`` for one that is not written out.
        type_tested: values whose type the program asks for.
        added: keys that the program itself puts into a response (``None``: any key), by the place of the tool's call;
            under ``None`` those that it puts into what may be any response.
        without_tool: calls of ``all_pages`` that are given no tool.
        wrote: a call with effects may have been made on the way here. ``after_writes``: what is evaluated then.
        complete: the whole program was walked.
        visited: the functions and classes that were entered, by the identity of their nodes.
        returns: what the functions that are being entered return so far, the innermost last.
        trying: what the bodies of ``try`` that are being walked have bound so far.
        hedges: how many ``try`` and ``suppress`` around this place are ready for a key not to be there.
    """

    def __init__(self, tools: Mapping[str, Protocol] | Collection[str]) -> None:
        self.tools = tools
        self.accesses: dict[tuple[Span, str | int], Access] = {}
        self.calls: dict[Span, ToolCall] = {}
        self.values: dict[Span, Value] = {}
        self.scope = Scope()
        self.tested: set[str | None] = set()
        self.type_tested: set[Origin] = set()
        self.added: dict[tuple[int, int] | None, set[str | None]] = {}
        self.without_tool: list[ast.Call] = []
        self.wrote = False
        self.after_writes: set[Span] = set()
        self.aliases: dict[str, str] = {}
        self._made: dict[tuple[Span, int], Cell] = {}
        self.functions: dict[Span, Function] = {}
        self.tool_functions = {name: Function(None, self.scope, tool=name) for name in tools}
        self.visited: set[int] = set()
        self.returns: list[list[Value]] = []
        self.trying: list[dict[str, Value]] = []
        self.hedges = self._alternatives = self._steps = 0

    @property
    def complete(self) -> bool:
        """Return whether the whole program was walked, within :data:`MAX_STEPS`."""
        return self._steps <= MAX_STEPS

    def step(self) -> bool:
        """Count one step; whether there is leave to make it."""
        self._steps += 1
        return self.complete

    def paging(self, tool: str) -> Paging | None:
        """Return how a tool is paged, where its protocol is known."""
        return paging_of(self.tools[tool]) if isinstance(self.tools, Mapping) else None

    def has_effects(self, tool: str) -> bool:
        """Return whether a tool may do more than read, as far as its protocol is known."""
        return isinstance(self.tools, Mapping) and self.tools[tool].effect is not Effect.READ

    def at(self, span: Span) -> Value:
        """Return what the expression at ``span`` can be; nothing if there is none."""
        return self.values.get(span, NOTHING)

    def cell(self, node: ast.AST, made: Cell) -> Value:
        """Return the cell of this place, with what was put into it before, and now."""
        kept = self._made.setdefault((span_of(node), len(self.returns)), made)
        if kept is not made:
            kept.items, kept.more = join(kept.items, made.items), kept.more or made.more
            for name, value in made.fields.items():
                kept.put(value, name)
            kept.keys = made.keys if kept.keys is None else join(kept.keys, made.keys or NOTHING)
        return Value(cells=frozenset([kept]))

    def look_up(self, access: Access) -> None:
        """Note a look-up. ``x.get("a") or x.get("b")`` is ready for either key not to be there."""
        hedged = access.hedged or self.hedges > 0
        hedged = hedged or (isinstance(access.node, ast.Call) and self._alternatives > 0)
        place = (span_of(access.node), access.key)
        before = self.accesses.get(place)
        base = access.base if before is None else join(before.base, access.base)
        self.accesses[place] = replace(access, base=base, hedged=hedged)

    # -- how the parts reach each other -----------------------------------------------------------------------------

    @abstractmethod
    def expr(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression, and note what it can be."""

    @abstractmethod
    def call(
        self, node: ast.Call, function: Function, arguments: Arguments, *, direct: bool = False, paged: bool = False
    ) -> Value:
        """Evaluate a call of a tool, a function or a class that stands at ``node``."""

    @abstractmethod
    def enter(self, function: Function, arguments: Arguments, node: ast.AST | None = None) -> Value:
        """Return the value of a call of one of the program's own functions or classes."""

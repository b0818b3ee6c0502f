"""Turns the statements of a program into constraints, and keeps account of the conditions around each of them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from atc._host.syntax import walk
from atc.programs.origins import library
from atc.programs.origins.definitions import Definitions
from atc.programs.origins.graph import Response
from atc.programs.origins.parts import SETTLE, Function, GiveUp
from atc.programs.origins.scopes import Scope
from atc.programs.origins.values import is_behind

_BUILTINS = (
    library.SCALAR | library.LISTS | library.SELECT | library.OTHER | library.BINDERS | library.EXCEPTIONS | {"type"}
)
_NAMES = frozenset(dir(builtins))
_EXITS = frozenset({"exit", "quit"})
LOOK = "look"
"""The function that a program may end with, to have values shown: a call like that of a tool."""


class Statements(Definitions):
    """Reads a program.

    Args:
        module: the program.
        nodes: all nodes of it.
        tools: the names of all tools.
        inputs: pure atoms of the variables that it is given, by name.
        kind_of: what a text of the program is.
        literal: what other values of the program are.
    """

    def __init__(
        self,
        module: ast.Module,
        nodes: Sequence[ast.AST],
        tools: frozenset[str],
        kind_of: Callable[[str], str],
        literal: str,
    ) -> None:
        super().__init__(tools, kind_of, literal)
        self._eager: set[ast.AST] = set()
        self._outside: dict[str, int] = {}
        self.bound = set()
        self.inputs: dict[str, int] = {}
        shared: set[str] = set()
        for node in nodes:
            kind = type(node)
            if kind is ast.Name:
                name = cast("ast.Name", node)
                if type(name.ctx) is not ast.Load:
                    self.bound.add(name.id)
                elif name.id == "property":
                    self.properties = True
                elif name.id in _EXITS:
                    self.raises = True
            elif kind is ast.keyword:
                self.catches |= cast("ast.keyword", node).arg == SETTLE
            elif kind in _BINDS:
                self._see(node, shared)
        self.module = module
        self.shared = frozenset(shared)

    def _see(self, node: ast.AST, shared: set[str]) -> None:
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self.bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                shared.update(names)
            case ast.alias(name=name, asname=asname):
                self.bound.add(asname or name.partition(".")[0])
                self.defaults = self.defaults or name in ("collections", "defaultdict")
                self.raises = self.raises or name in ("sys", "exit")
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                self.bound.add(name)
            case ast.Try() | ast.TryStar() | ast.With():
                self.catches = True
            case ast.Raise() | ast.Assert():
                self.raises = True
            case _:
                pass

    def read(self, inputs: Mapping[str, int]) -> None:
        """Read the whole program.

        Raises:
            GiveUp: something in it cannot be followed.
            TooMuch: it takes too much work.
        """
        self.inputs = {**inputs}
        self.scope = self.top = Scope(self.graph, None, self.shared, self.outer)
        self.block(self.module.body)
        self._read_deferred()
        self.graph.solve()
        while self.deferred:
            self._read_deferred()
            self.graph.solve()
        for node, functions in self.fixed:
            if self.graph.bits[node] & self.graph.functions != functions:
                raise GiveUp("a base or a decorator that changes")
        moved = self.graph.atom("anywhere", "anywhere")
        for thing in self.graph.each(self.graph.things & ~self.own_moving):
            if thing.moving and self.graph.bits[thing.shape] & moved:
                raise GiveUp("a special method that takes items of an iterator")
        known_places = self.graph.things | self.graph.alias | self.graph.functions
        for base, within in self.changed:
            if not self.graph.bits[base] & known_places and (within is None or within.called):
                raise GiveUp("an attribute of what is not known")
        for callee, within in self.pending:
            bits = self.graph.bits[callee]
            if within is not None and not within.called:
                continue
            known = bits & self.graph.functions or any(
                t.kind == "mixed" for t in self.graph.each(bits & self.graph.things)
            )
            if not known:
                raise GiveUp("a call of what is not known")

    def _read_deferred(self) -> None:
        while self.deferred:
            function, outer = self.deferred.pop(0)
            self._read_function(function, outer)
        self.in_special = False

    def _read_function(self, function: Function, outer: Scope) -> None:
        graph = self.graph
        self.scope = Scope(graph, outer, self.shared, self.outer)
        self.pc, self.body, self.within, self._exits = 0, function.body, function, []
        self.in_special = getattr(function.node, "name", "") in library.SPECIAL
        self.touched, self.caught = (function.touched, function.caught) if self.catches else (0, 0)
        for name, node in function.all_params.items():
            self.scope.assign(name, node)
        given = function.node.args
        for arg, thing in ((given.vararg, function.vararg), (given.kwarg, function.kwarg)):
            if arg is not None and thing is not None:
                self.scope.assign(arg.arg, graph.node(thing.atom))
        if isinstance(function.node, ast.Lambda):
            graph.copy(self.ev(function.node.body), function.returns)
        else:
            self.block(function.node.body)
            if not isinstance(function.node.body[-1], ast.Return | ast.Raise):
                graph.put(function.returns, self.literal)
        for _, pc in self._exits:
            graph.copy(pc, function.exits)

    def outer(self, name: str) -> int:
        """Return the node of a name that no scope of the program has."""
        if (node := self._outside.get(name)) is not None:
            return node
        graph = self.graph
        if name in self.tools or (name == LOOK and name not in self.inputs):
            bits = graph.function(("tool", name), ("tool", name))
        elif name in self.inputs:
            bits = graph.part(Response(graph, "", self.inputs[name]), (), False)
        elif name in _BUILTINS:
            bits = graph.function(("builtin", name), ("builtin", name))
        elif name in library.CONSTANTS:
            bits = self.literal
        elif name in self.bound:
            bits = 0
        elif name in _NAMES or is_behind(name):
            raise GiveUp(name)
        else:
            bits = graph.part(Response(graph, "", self.text("task")), (), False)
        node = self._outside[name] = graph.node(bits)
        return node

    # -- blocks and ways out of them -----------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Read statements in order; what may end them early chooses what comes after it."""
        for statement in statements:
            before = len(self._exits)
            handler = _HANDLERS.get(type(statement))
            if handler is None:
                raise GiveUp(type(statement).__name__)
            if self.caught:
                self._guarded(handler, statement)
            else:
                handler(self, statement)
            self._after(self._exits[before:])

    def _guarded(self, handler: _Handler, statement: ast.stmt) -> None:
        """Read a statement that somebody may catch: what it touches chooses whether those after it run."""
        graph, outer = self.graph, self.touched
        self.touched = touched = graph.node()
        self.pc = pc = self.under()  # of this one, too: what it does after what raises
        if self.caught == self.in_try:
            graph.flat(touched, pc, "choice")
        else:
            graph.when(self.caught, lambda _: graph.flat(touched, pc, "choice"))
        handler(self, statement)
        self.touched = outer
        graph.copy(touched, outer)

    def _after(self, exits: Sequence[tuple[Any, int]]) -> None:
        pcs = {pc for _, pc in exits if pc and pc != self.pc}
        if pcs:
            self.pc = self.under()
            for pc in pcs:
                self.graph.copy(pc, self.pc)

    def leave(self, node: ast.stmt) -> None:
        """Leave a loop or a function."""
        if isinstance(node, ast.Return):
            value = self.ev(node.value) if node.value is not None else self.graph.node(self.literal)
            if self.within is not None:
                self.graph.copy(self.guarded(value), self.within.returns)
        elif isinstance(node, ast.Raise):
            for each in (node.exc, node.cause):
                if each is not None:
                    self._raised(each)
            if self.touched:
                self.graph.copy(self.pc, self.touched)
            self._ends(ast.Raise, self.pc)
            return
        self._exits.append((type(node), self.pc))

    def _ends(self, kind: type[ast.stmt], pc: int) -> None:
        """End the function, or the program: so does whoever called it here."""
        end = self.graph.node()
        self.graph.copy(pc, end)
        self.graph.copy(self.body, end)
        self._exits.append((kind, end))

    def _raised(self, node: ast.expr) -> None:
        """Read what is raised: a class is called, without arguments."""
        value, made, call = self.ev(node), self.graph.node(), self._inner()

        def apply(bits: int) -> None:
            for function in self.graph.each(bits & self.graph.functions):
                self.enter(function, call, made)

        self.graph.when(value, apply)
        if self.touched:
            self.graph.copy(made, self.touched)

    def calls(self, node: ast.Call) -> int:
        result = super().calls(node)
        if self.raises and self.last.direct:
            self._exits.append((ast.Raise, self.last.exits))
        return result

    # -- simple statements ---------------------------------------------------------------------------------------------

    def expression(self, node: ast.Expr) -> None:
        self.ev(node.value)

    def assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        for target in node.targets:
            self.store_to(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is not None:
            self.store_to(node.target, self.ev(node.value))

    def augmented(self, node: ast.AugAssign) -> None:
        graph, target = self.graph, node.target
        value = self.ev(node.value)
        if isinstance(target, ast.Name):
            old = self.scope.read(target.id)
        elif isinstance(target, ast.Attribute):
            old = self.attr(target)
        else:
            old = self.subscript(target)
        made = graph.node()
        graph.copy(old, made)
        self.added(old, value, made)
        call = self._inner()

        def apply(bits: int) -> None:
            if bits & (graph.things | graph.alias) and ("augmented", made) not in self._made:
                self._made["augmented", made] = True
                self.extend(old, value, call)
                if not isinstance(node.op, ast.Add):
                    self.update(old, value, call)
                which = graph.node()
                graph.copy(call.chosen, which)
                if not isinstance(node.op, ast.Add):  # `seen -= others`
                    graph.flat(value, which, "choice")
                    graph.flat(old, which, "choice")
                graph.scramble(old, (which,))
                graph.copy(self._combined(0, old, value, node.op), made)

        graph.when(old, apply)
        graph.when(value, apply)
        if self.touched:
            graph.copy(made, self.touched)
        self.store_to(target, made)

    def delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                base, which = self.ev(target.value), self.graph.node()
                if isinstance(target.slice, ast.Slice):
                    for each in (target.slice.lower, target.slice.upper, target.slice.step):
                        if each is not None:
                            self.graph.flat(self.ev(each), which, "choice")
                else:
                    self.graph.flat(self.ev(target.slice), which, "choice")
                self.graph.scramble(base, (which, self.chosen()))
            elif isinstance(target, ast.Attribute):
                self.graph.scramble(self.ev(target.value), (self.chosen(),))
            elif not isinstance(target, ast.Name) or self.pc or self.touched or self.within is not None:
                raise GiveUp("del")  # whether a name is there would be chosen by what chose this
            elif target.id in _NAMES or target.id in self.tools or target.id in self.inputs:
                raise GiveUp("del")  # it stands for something else then

    def nothing(self, node: ast.stmt) -> None:
        """Read a statement that does nothing."""

    def imports(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in library.MODULES:
                raise GiveUp(alias.name)
            dotted = alias.name if alias.asname else alias.name.partition(".")[0]
            atom = self.graph.function(("library", dotted), ("library", dotted))
            self.store_to(ast.Name(alias.asname or dotted, ast.Store()), self.graph.node(atom))

    def imports_from(self, node: ast.ImportFrom) -> None:
        if node.module not in library.MODULES or node.level:
            raise GiveUp(str(node.module))
        for alias in node.names:
            if alias.name == "*":
                raise GiveUp("import *")
            made = self.graph.node()
            self.member(f"{node.module}.{alias.name}", made)
            self.store_to(ast.Name(alias.asname or alias.name, ast.Store()), made)

    def declared(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            owner: Scope | None = self.top
            if isinstance(node, ast.Nonlocal):
                owner = self.scope.owner(name)
            if owner is not None and owner is not self.scope:
                self.scope.elsewhere[name] = owner

    def asserts(self, node: ast.Assert) -> None:
        before = self.pc
        pc = self.under(self.ev(node.test))
        self.pc = pc
        if node.msg is not None:
            self.ev(node.msg)
        self.pc = before
        self._ends(ast.Assert, pc)
        if self.touched:
            self.graph.copy(pc, self.touched)

    # -- branches ------------------------------------------------------------------------------------------------------

    def branch(self, node: ast.If) -> None:
        before = self.pc
        self.pc = pc = self.under(self.ev(node.test))
        branches = []
        for body in (node.body, node.orelse):
            self.pc = pc
            self.scope.open()
            self.block(body)
            branches.append(self.scope.close())
        self.scope.join(branches)
        self.pc = before

    def loop(self, node: ast.For) -> None:
        source = self.ev(node.iter)
        before, first = self.pc, len(self._exits)
        begin = self.scope.open(is_loop=True)
        self.pc = pc = self.under()
        self.enter_loop(node.target, source)
        inner = self.pc
        self.block(node.body)
        self._end_loop(node, begin, first, (pc, inner), before)

    def repeat(self, node: ast.While) -> None:
        before, first = self.pc, len(self._exits)
        begin = self.scope.open(is_loop=True)
        self.pc = pc = self.under()
        self.pc = self.under(self.ev(node.test))
        self.graph.copy(self.pc, pc)
        inner = self.pc
        self.block(node.body)
        self._end_loop(node, begin, first, (pc, inner), before)

    def _end_loop(self, node: ast.For | ast.While, begin: int, first: int, pcs: tuple[int, int], before: int) -> None:
        left = self._exits[first:]
        for _, pc in left:
            self.graph.copy(pc, pcs[0])
        if self.caught:
            self._again(pcs[0])
        self.scope.close_loop(begin)
        self._exits[first:] = [each for each in left if each[0] not in (ast.Break, ast.Continue)]
        self.pc = before
        if node.orelse:
            self._after([each for each in left if each[0] is ast.Break])
            self.scope.open()
            self.block(node.orelse)
            self.scope.join([self.scope.close(), {}])
            self.pc = before

    def _again(self, pc: int) -> None:
        """Let what a round of a loop touches choose whether there is another, where somebody may catch it."""
        graph, touched = self.graph, self.touched
        graph.when(self.caught, lambda _: graph.flat(touched, pc, "choice"))

    def tries(self, node: ast.Try) -> None:
        graph, before, outer = self.graph, self.pc, (self.touched, self.caught)
        touched, begin = self._open_try()
        self.block(node.body)
        names = self.scope.close()
        bodies = [self.scope.any_since(begin)]  # with what was there before: the body may end at once
        self.pc = before
        caught = self.under(touched)
        self.touched, self.caught = outer
        if outer[0]:
            graph.copy(touched, outer[0])
        ends = []
        self.pc = caught
        self.scope.open()
        self.scope.preset(names)
        self.block(node.orelse)
        ends.append({**names, **self.scope.close()})
        for handler in node.handlers:
            self.pc = caught
            self.scope.open()
            self.scope.preset(bodies[0])
            if handler.type is not None:
                self.ev(handler.type)
            if handler.name:
                self.store_to(ast.Name(handler.name, ast.Store()), self.error(touched))
            self.block(handler.body)
            ends.append({**bodies[0], **self.scope.close()})
        self.pc = before
        anywhere = self.scope.any_since(begin) if node.finalbody else {}
        self.scope.join(ends)
        if node.finalbody:
            self.scope.preset(anywhere)
            self.block(node.finalbody)
        self.pc = before

    def _open_try(self) -> tuple[int, int]:
        """Begin what may end early: whatever it touches chooses how far it comes."""
        touched = self.graph.node()
        self.touched, self.caught = touched, self.in_try
        return touched, self.scope.open()

    def manages(self, node: ast.With) -> None:
        graph, before, outer = self.graph, self.pc, (self.touched, self.caught)
        touched, begin = self._open_try()
        for item in node.items:
            context = self.ev(item.context_expr)
            if item.optional_vars is not None:
                self.store_to(item.optional_vars, self.mixed([context], graph.node(), self._inner()))
        self.block(node.body)
        self.scope.close()
        self.scope.preset(self.scope.any_since(begin))
        if outer[0]:
            graph.copy(touched, outer[0])
        self.touched, self.caught = outer
        self.pc = before

    def matches(self, node: ast.Match) -> None:
        graph, before = self.graph, self.pc
        subject = self.ev(node.subject)
        self.pc = self.under(subject)
        inside = graph.node()
        graph.reach(subject, inside)
        branches: list[dict[str, int]] = []
        for case in node.cases:
            self.scope.open()
            for each in walk(case.pattern):
                match each:
                    case ast.MatchValue(value=value):
                        self.pc = self.under(self.ev(value))
                    case ast.MatchClass(cls=cls):
                        self.ev(cls)
                        if self.properties:
                            raise GiveUp("a pattern that reads what may be a property")
                    case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                        made = graph.node()
                        graph.copy(inside, made)
                        thing = self.new("mixed", made)
                        graph.copy(inside, thing.rest)
                        self.store_to(ast.Name(name, ast.Store()), made)
            if case.guard is not None:
                self.pc = self.under(self.ev(case.guard))
            pc = self.pc
            self.block(case.body)
            self.pc = pc
            branches.append(self.scope.close())
        self.scope.join([*branches, {}])
        self.pc = before


_BINDS = frozenset(
    {
        ast.arg, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.alias, ast.ExceptHandler, ast.MatchAs,
        ast.MatchStar, ast.MatchMapping, ast.Try, ast.TryStar, ast.With, ast.Raise, ast.Assert,
    }
)  # fmt: skip
_Handler = Callable[[Any, Any], None]
_HANDLERS: dict[type[ast.stmt], _Handler] = cast(
    "dict[type[ast.stmt], _Handler]",
    {
        ast.Expr: Statements.expression,
        ast.Assign: Statements.assign,
        ast.AnnAssign: Statements.annotated,
        ast.AugAssign: Statements.augmented,
        ast.Delete: Statements.delete,
        ast.Pass: Statements.nothing,
        ast.Import: Statements.imports,
        ast.ImportFrom: Statements.imports_from,
        ast.Global: Statements.declared,
        ast.Nonlocal: Statements.declared,
        ast.Assert: Statements.asserts,
        ast.Return: Statements.leave,
        ast.Raise: Statements.leave,
        ast.Break: Statements.leave,
        ast.Continue: Statements.leave,
        ast.If: Statements.branch,
        ast.For: Statements.loop,
        ast.While: Statements.repeat,
        ast.Try: Statements.tries,
        ast.TryStar: Statements.tries,
        ast.With: Statements.manages,
        ast.Match: Statements.matches,
        ast.FunctionDef: Statements.defines,
        ast.ClassDef: Statements.classes,
    },
)

Statements.handlers = {**Statements.handlers, ast.Call: Statements.calls}

"""Turns calls into nodes of the graph: the last of the expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, cast

from atc.programs.origins import library
from atc.programs.origins.assignments import Assignments
from atc.programs.origins.graph import ITERATE, Thing
from atc.programs.origins.parts import Call, Function, GiveUp
from atc.programs.origins.values import is_behind

_CONSUMERS = frozenset("any all sum next list tuple set frozenset sorted min max dict join fsum mean Counter".split())


class Expressions(Assignments):
    """Evaluates all expressions."""

    def calls(self, node: ast.Call) -> int:
        result = self.graph.node()
        function = node.func
        base = callee = 0
        known = isinstance(function, ast.Name) and function.id not in self.bound and self.scope.read(function.id)
        if known:
            (found,) = self.graph.each(self.graph.bits[known])
            known = isinstance(found, tuple) and found[0] in ("tool", "builtin")
        if known:
            pass
        elif isinstance(function, ast.Attribute) and self._is_super(function.value):
            callee = self._inherited(function.attr)
        elif isinstance(function, ast.Attribute):
            if is_behind(function.attr) and function.attr not in library.PLAIN | {"__init__"}:
                raise GiveUp(function.attr)
            base = self.ev(function.value)
        else:
            callee = self.ev(function)
        chosen = self.chosen()
        if not known:
            around, chosen = chosen, self.graph.node()
            self.graph.copy(around, chosen)
        call = Call(chosen, self.touched, self.caught, (node.lineno, node.end_lineno or node.lineno))
        if self.raises:
            call.exits = self.graph.node()
        name = _called_name(function)
        eager = name in _CONSUMERS and name not in self.bound
        if isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Constant):
            eager = False  # any object may have an attribute of that name
        for at, arg in enumerate(node.args):
            if eager and isinstance(arg, ast.GeneratorExp):
                self._eager.add(arg)
            if isinstance(arg, ast.Starred):
                call.stars.append((at, self.ev(arg.value)))
            else:
                call.nodes.append(arg)
                value = self.ev(arg)
                if call.stars:
                    many = self.graph.node()
                    self.graph.copy(value, self.new("list", many).rest)
                    call.stars.append((call.stars[0][0], many))
                else:
                    call.args.append(value)
        for keyword in node.keywords:
            value = self.ev(keyword.value)
            if keyword.arg is None:
                call.spread.append(value)
            else:
                call.named[keyword.arg] = value
        self.last = call
        if known:
            self.enter(found, call, result)
        elif base:
            assert isinstance(function, ast.Attribute)
            self.method(base, function.attr, call, result, self.within)
        else:
            self.call(callee, call, result, self.within)
        return result

    def _is_super(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and "super" not in self.bound
            and not node.args
        )

    def _inherited(self, name: str) -> int:
        """Return what a method may be that is called on ``super()``: that of any class, bound to this object."""
        graph, within, made = self.graph, self.within, self.graph.node()
        if within is None or not within.params:
            raise GiveUp("super")
        owner = within.params[0][1]
        if name == "__init__":
            graph.put(made, graph.function(("init", owner), ("init", owner)))

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if not isinstance(function, Function):
                    raise GiveUp("super")
                graph.put(made, graph.function(("bound", id(function), owner), ("bound", function, owner)))

        graph.when(self.inherited(name), apply)
        return made

    def yields(self, node: ast.Yield) -> int:
        thing = self._generator()
        if node.value is not None:
            self.graph.copy(self.guarded(self.ev(node.value)), thing.rest)
        self.graph.copy(self.pc, thing.shape)
        return self._texts[self._kind]

    def yields_from(self, node: ast.YieldFrom) -> int:
        thing = self._generator()
        source = self.ev(node.value)
        self.graph.load(source, ITERATE, thing.rest, (self.chosen(), thing.shape))
        self.graph.shape(source, thing.shape)
        self.graph.copy(self.pc, thing.shape)
        return self._texts[self._kind]

    def _generator(self) -> Thing:
        assert self.within is not None
        if self.within.generator is None:
            thing = Thing(self.graph, "list")
            thing.moving, thing.body = True, self.within.body
            self.own_moving |= thing.atom if self.in_special else 0
            self.within.generator = thing
            self.graph.put(self.within.returns, thing.atom)
        return self.within.generator

    def starred(self, node: ast.Starred) -> int:
        return self.ev(node.value)

    def refused(self, node: ast.expr) -> int:
        raise GiveUp(type(node).__name__)


def _called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


_Handler = Callable[[Any, Any], int]
Expressions.handlers = cast(
    "dict[type[ast.expr], _Handler]",
    {
        ast.Constant: Expressions.constant,
        ast.Name: Expressions.name,
        ast.JoinedStr: Expressions.joined,
        ast.FormattedValue: Expressions.formatted,
        ast.List: Expressions.display,
        ast.Tuple: Expressions.display,
        ast.Set: Expressions.display,
        ast.Dict: Expressions.dict,
        ast.Subscript: Expressions.subscript,
        ast.Attribute: Expressions.attr,
        ast.BinOp: Expressions.binary,
        ast.UnaryOp: Expressions.unary,
        ast.BoolOp: Expressions.boolean,
        ast.Compare: Expressions.compare,
        ast.IfExp: Expressions.conditional,
        ast.NamedExpr: Expressions.named,
        ast.Lambda: Expressions.function,
        ast.ListComp: Expressions.comprehension,
        ast.SetComp: Expressions.comprehension,
        ast.GeneratorExp: Expressions.comprehension,
        ast.DictComp: Expressions.comprehension,
        ast.Call: lambda self, node: self.calls(node),  # a subclass adds to it
        ast.Yield: Expressions.yields,
        ast.YieldFrom: Expressions.yields_from,
        ast.Starred: Expressions.starred,
        ast.Await: Expressions.refused,
        ast.Slice: Expressions.refused,
    },
)

"""Turns the expressions of a program into nodes of the graph, but for calls and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, ClassVar

from atc.programs.origins import library
from atc.programs.origins.graph import ANY, ITERATE, PART
from atc.programs.origins.parts import Call, Function, GiveUp, constant_key
from atc.programs.origins.scopes import Scope
from atc.programs.origins.standard import Standard

_KEEP = ast.Add | ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub | ast.Mult
"""Operators that containers have, too."""


class Values(Standard):
    """Evaluates expressions to nodes.

    Attributes:
        scope: the one that is read now.
        pc: a node with the conditions around, within the function; 0 without any.
        body: a node with the conditions under which the function runs; 0 in the module.
        touched: a node for everything that may fail, where somebody may catch it; else 0.
        caught: a node that holds something where somebody catches it; 0 where nobody can.
        within: the function that is read now.
    """

    scope: Scope
    pc = body = touched = caught = 0
    within: Function | None = None
    catches = raises = False
    last: Call
    handlers: ClassVar[dict[type[ast.expr], Callable[[Any, Any], int]]]
    """What evaluates which expressions."""
    bound: set[str]

    def __init__(self, tools: frozenset[str], kind_of: Callable[[str], str], literal: str) -> None:
        super().__init__(tools, 0)
        self._kind_of, self._kind = kind_of, literal
        self.literal = self.text(literal)
        self._texts: dict[str, int] = {literal: self.graph.node(self.literal)}
        self.plain.update(self._texts.values())
        self._constants: dict[str, int] = {}
        self.deferred: list[tuple[Function, Scope]] = []
        self.walrus: list[list[tuple[str, int]]] = []
        self._exits: list[tuple[type[ast.stmt], int]] = []

    # -- conditions ----------------------------------------------------------------------------------------------------

    def chosen(self) -> int:
        """Return a node with all conditions around this place."""
        if not self.body or not self.pc:
            return self.pc or self.body
        node = self.graph.node()
        self.graph.copy(self.pc, node)
        self.graph.copy(self.body, node)
        return node

    def under(self, *conditions: int) -> int:
        """Return the conditions here and some more, of which everything chooses."""
        node = self.graph.node()
        self.graph.copy(self.pc, node)
        for condition in conditions:
            self.graph.flat(condition, node, "choice")
        return node

    # -- expressions ---------------------------------------------------------------------------------------------------

    def ev(self, node: ast.expr) -> int:
        """Return the node of an expression's value."""
        made = self.handlers[type(node)](self, node)
        if self.touched and made not in self.plain:
            self.graph.copy(made, self.touched)
        return made

    def constant(self, node: ast.Constant) -> int:
        value = node.value
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            if (found := self._constants.get(text)) is None:
                if isinstance(value, str) and "_" in text and is_behind(text):
                    raise GiveUp(text)
                kind = self._kind_of(text)
                if kind not in self._texts:
                    self._texts[kind] = self.graph.node(self.text(kind))
                    self.plain.add(self._texts[kind])
                found = self._constants[text] = self._texts[kind]
            return found
        return self._texts[self._kind]

    def name(self, node: ast.Name) -> int:
        return self.scope.read(node.id)

    def _made_of(self, *sources: int) -> int:
        real = [*dict.fromkeys(sources)]
        made = self.graph.node()
        self.flows(real, made)
        return made

    def joined(self, node: ast.JoinedStr) -> int:
        return self._made_of(*map(self.ev, node.values))

    def formatted(self, node: ast.FormattedValue) -> int:
        parts = [self.ev(node.value)]
        if node.format_spec is not None:
            parts.append(self.ev(node.format_spec))
        return self._made_of(*parts)

    def display(self, node: ast.List | ast.Tuple | ast.Set) -> int:
        made = self.graph.node()
        thing = self.new("list", made)
        certain = not isinstance(node, ast.Set)
        for at, item in enumerate(node.elts):
            if isinstance(item, ast.Starred):
                source = self.ev(item.value)
                self.graph.load(source, ITERATE, thing.rest, (self.chosen(),))
                self.graph.shape(source, thing.shape)
                certain = False
            else:
                value = self.ev(item)
                self.graph.copy(value, self.graph.field(thing, at) if certain else thing.rest)
                if isinstance(node, ast.Set):
                    self.graph.flat(value, thing.shape, "choice")
        return made

    def dict(self, node: ast.Dict) -> int:
        graph, made = self.graph, self.graph.node()
        thing = self.new("dict", made)
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.ev(item)
            if key is None:
                self._update_dict(thing, value)
                continue
            key_node = self.ev(key)
            graph.copy(key_node, graph.keys_of(thing))
            known = constant_key(key)
            if known is ANY:
                graph.copy(value, thing.rest)
                graph.flat(key_node, thing.rest, "choice")
                graph.flat(key_node, thing.shape, "choice")
            else:
                graph.copy(value, graph.field(thing, known))
        return made

    def subscript(self, node: ast.Subscript) -> int:
        base, made = self.ev(node.value), self.graph.node()
        if isinstance(node.slice, ast.Slice):
            self.graph.copy(base, made)
            bounds = [self.ev(each) for each in (node.slice.lower, node.slice.upper, node.slice.step) if each]
            for bound in bounds:
                self.graph.flat(bound, made, "choice")
            return self._sliced(base, made, bounds)
        key = constant_key(node.slice)
        self.graph.load(base, key, made, (self.chosen(),))
        if key is ANY or self.defaults:
            key_node = self.ev(node.slice)
            if key is ANY:
                self.graph.flat(key_node, made, "choice")
            if self.defaults:
                self.default(base, key_node, self.chosen())
        return made

    def _sliced(self, base: int, made: int, bounds: list[int]) -> int:
        """Return a part of a list: its positions are others, so it is a new list, beside the old one."""
        graph, result = self.graph, self.graph.node()

        def apply(bits: int) -> None:
            graph.put(result, bits & ~graph.things)
            if bits & graph.things and ("slice", result) not in self._made:
                self._made["slice", result] = thing = self.new("list", result)
                graph.load(base, PART, thing.rest, (self_chosen,))
                graph.shape(base, thing.shape)
                for bound in bounds:
                    graph.flat(bound, thing.shape, "choice")

        self_chosen = self.chosen()
        graph.when(made, apply)
        return result

    def attr(self, node: ast.Attribute) -> int:
        if is_behind(node.attr) and node.attr not in library.PLAIN:
            raise GiveUp(node.attr)
        made = self.graph.node()
        if self.properties:
            chosen, touched, exits = self.getter(node.attr)
            self.graph.copy(self.chosen(), chosen)
            self._exits.append((ast.Raise, exits))
            if self.touched:
                self.graph.copy(touched, self.touched)
        self.method_value(self.ev(node.value), node.attr, made)
        return made

    def binary(self, node: ast.BinOp) -> int:
        left, right = self.ev(node.left), self.ev(node.right)
        if isinstance(node.op, ast.MatMult):
            raise GiveUp("@")
        if isinstance(node.op, ast.Add) and not (_is_scalar(node.left) or _is_scalar(node.right)):
            made = self.graph.node()
            self.added(left, right, made)
        else:
            made = self._made_of(left, right)
        if (isinstance(node.op, _KEEP) and not (_is_scalar(node.left) or _is_scalar(node.right))) or isinstance(
            node.op, ast.Mult
        ):
            made = self._combined(made, left, right, node.op)
        return made

    def added(self, left: int, right: int, made: int) -> None:
        """Let a value be made of two others, but for containers: the sum of a list has its items, and is no text."""
        graph = self.graph

        def rest(bits: int) -> None:
            graph.put(made, bits & graph.pure & ~graph.values)
            if bits & (graph.values | graph.alias) and not state:
                state.append(True)
                graph.when(right, other)

        def other(bits: int) -> None:
            if bits & (graph.values | graph.alias):
                self.flows((left, right), made)

        state: list[bool] = []
        graph.when(left, rest)
        graph.when(right, lambda bits: graph.put(made, bits & graph.pure & ~graph.values))

    def _combined(self, flat: int, left: int, right: int, operator: ast.operator) -> int:
        """Return what may be a new container with the items of two others."""
        graph, made = self.graph, self.graph.node()
        graph.copy(flat, made)
        chosen = self.chosen()

        def apply(bits: int) -> None:
            if bits & (graph.things | graph.alias) and ("combined", made) not in self._made:
                self._made["combined", made] = True
                both = self.graph.node()
                graph.copy(left, both)
                graph.copy(right, both)
                thing = self.new("list", made)
                graph.load(both, ITERATE, thing.rest, (chosen,))
                graph.shape(both, thing.shape)
                if isinstance(operator, ast.Add):
                    return
                graph.flat(both, thing.shape, "choice")
                if isinstance(operator, ast.BitOr):
                    table = self.new("dict", made)
                    table.makes = self.defaults
                    self._update_dict(table, left)
                    self._update_dict(table, right)

        graph.when(left, apply)
        graph.when(right, apply)
        return made

    def unary(self, node: ast.UnaryOp) -> int:
        return self._made_of(self.ev(node.operand))

    def boolean(self, node: ast.BoolOp) -> int:
        made, before = self.graph.node(), self.pc
        for value in node.values:
            found = self.ev(value)
            self.graph.copy(found, made)
            if value is not node.values[-1]:
                self.pc = self.under(found)
                self.graph.copy(self.pc, made)
        self.pc = before
        return made

    def compare(self, node: ast.Compare) -> int:
        sources, before = [self.ev(node.left)], self.pc
        for at, other in enumerate(node.comparators):
            if at:  # `a < b < f()` calls it only where the first holds
                self.pc = self.under(*sources)
            sources.append(self.ev(other))
        self.pc = before
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            self._consume(sources, self._inner())
        for source in sources:
            self._compared(source, self.chosen())
        return self._made_of(*sources)

    def _compared(self, source: int, chosen: int) -> None:
        """Let what the library made call what it keeps, as what ``functools.cmp_to_key`` makes does."""
        graph = self.graph

        def apply(bits: int) -> None:
            for thing in graph.each(bits & graph.things):
                if thing.kind == "mixed":
                    graph.copy(chosen, thing.body)

        if chosen:
            graph.when(source, apply)

    def _inner(self) -> Call:
        call = Call(self.chosen(), self.touched, self.caught, (0, 0))
        if self.raises:
            call.exits = self.graph.node()
            self._exits.append((ast.Raise, call.exits))
        return call

    def conditional(self, node: ast.IfExp) -> int:
        made, before = self.graph.node(), self.pc
        self.pc = self.under(self.ev(node.test))
        for part in (node.body, node.orelse):
            self.graph.copy(self.ev(part), made)
        self.graph.copy(self.pc, made)
        self.pc = before
        return made

    def named(self, node: ast.NamedExpr) -> int:
        value = self.ev(node.value)
        assert isinstance(node.target, ast.Name)
        kept = self.guarded(value)
        if self.scope.assigned(node.target.id):  # an operator before it may pass it over
            kept, assigned = self.graph.node(), kept
            self.graph.copy(assigned, kept)
            self.graph.copy(self.scope.read(node.target.id), kept)
        self.scope.assign(node.target.id, kept)
        for each in self.walrus:
            each.append((node.target.id, kept))
        return value

    def guarded(self, value: int) -> int:
        """Return what a variable holds that is given a value here: chosen by the conditions around."""
        if not self.pc:
            return value
        made = self.graph.node()
        self.graph.copy(value, made)
        self.graph.copy(self.pc, made)
        return made

    def function(self, node: ast.Lambda) -> int:
        return self.graph.node(self.define(node))

    def define(self, node: ast.FunctionDef | ast.Lambda) -> int:
        """Return the atom of a function of the program; its body is read later."""
        function = Function(self.graph, node, self.scope)
        given = node.args
        plain = [*given.posonlyargs, *given.args]
        defaults = [*zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True)]
        defaults += [(arg, each) for arg, each in zip(given.kwonlyargs, given.kw_defaults, strict=True) if each]
        for arg, default in defaults:
            self.graph.copy(self.ev(default), function.all_params[arg.arg])
        self.deferred.append((function, self.scope))
        return self.graph.function(("own", id(function)), function)


def _is_scalar(node: ast.expr) -> bool:
    """Return whether an operand is text or a number, so that the result is no container."""
    return (isinstance(node, ast.Constant) and not isinstance(node.value, bytes)) or isinstance(node, ast.JoinedStr)


def is_behind(name: str) -> bool:
    """Return whether a text names what lies behind an object."""
    if "_" not in name or name == "__main__":
        return False
    return any(
        part in library.FRAMES or (part.startswith("__") and part.endswith("__") and len(part) > 4)
        for part in _words(name)
    )


def _words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split()

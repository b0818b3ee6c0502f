"""Gives values to targets: of assignments, loops and comprehensions."""

from __future__ import annotations

import ast

from atc.programs.origins.graph import ANY, ITERATE
from atc.programs.origins.parts import GiveUp, constant_key
from atc.programs.origins.scopes import Scope
from atc.programs.origins.values import Values, is_behind


class Assignments(Values):
    """Evaluates comprehensions, and assigns."""

    _eager: set[ast.AST]
    """Generator expressions that are used up where they stand."""

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        if self.scope.is_class:
            raise GiveUp("a comprehension in a class")
        graph, made = self.graph, self.graph.node()
        is_dict = isinstance(node, ast.DictComp)
        thing = self.new("dict" if is_dict else "list", made)
        before, scope = self.pc, self.scope
        lazy = isinstance(node, ast.GeneratorExp)
        body = self.body
        if lazy:
            thing.moving, thing.body = True, graph.node()
            graph.copy(self.body, thing.body)
            graph.copy(self.pc, thing.body)
            graph.copy(thing.shape, thing.body)
            self.body = thing.body
        first = self.ev(node.generators[0].iter)
        if lazy and node not in self._eager:
            self.scope = _Lazy(scope)
        begin = self.scope.open(is_loop=True)
        walrus: list[tuple[str, int]] = []
        self.walrus.append(walrus)
        for at, generator in enumerate(node.generators):
            if generator.is_async:
                raise GiveUp("async")
            source = first if at == 0 else self.ev(generator.iter)
            self.enter_loop(generator.target, source, bind=True)
            for test in generator.ifs:
                self.pc = self.under(self.ev(test))
        if isinstance(node, ast.DictComp):
            key = self.ev(node.key)
            graph.copy(key, graph.keys_of(thing))
            graph.flat(key, thing.shape, "choice")
            graph.copy(self.ev(node.value), thing.rest)
            graph.flat(key, thing.rest, "choice")
            graph.copy(self.pc, thing.rest)
        else:
            value = self.ev(node.elt)
            graph.copy(value, thing.rest)
            if isinstance(node, ast.SetComp):
                graph.flat(value, thing.shape, "choice")
        if self.pc != before:
            graph.copy(self.pc, thing.shape)
        self.scope.close_loop(begin)
        self.scope, self.pc, self.body = scope, before, body
        self.walrus.pop()
        if walrus and lazy and node not in self._eager:
            raise GiveUp("an assignment in a generator expression")
        for name, value in walrus:
            joined = graph.node()
            graph.copy(value, joined)
            graph.copy(self.scope.read(name), joined)
            self.scope.assign(name, joined)
        return made

    def enter_loop(self, target: ast.expr, source: int, *, bind: bool = False) -> None:
        """Begin to go through the items of a value: it chooses how often."""
        graph = self.graph
        self.pc = pc = self.under()
        graph.shape(source, pc)
        item = graph.node()
        graph.load(source, ITERATE, item, (self.chosen(),))
        if self.touched:
            graph.copy(item, self.touched)
        self.store_to(target, item, bind=bind)

    # -- assignments ---------------------------------------------------------------------------------------------------

    def store_to(self, target: ast.expr, value: int, *, bind: bool = False) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            if bind:
                self.scope.bind(target.id, self.guarded(value))
            elif target.id in self.scope.elsewhere:
                made = self.graph.node()
                self.graph.copy(value, made)
                self.graph.copy(self.chosen(), made)
                self.scope.assign(target.id, made)
            else:
                self.scope.assign(target.id, self.guarded(value))
        elif isinstance(target, ast.Tuple | ast.List):
            certain = True
            for at, each in enumerate(target.elts):
                part = self.graph.node()
                if isinstance(each, ast.Starred):
                    certain = False
                    items = self.graph.node()
                    thing = self.new("list", part)
                    self.graph.load(value, ITERATE, items, (self.chosen(),))
                    self.graph.copy(items, thing.rest)
                    self.graph.shape(value, thing.shape)
                    self.store_to(each.value, part, bind=bind)
                else:
                    self.graph.load(value, at if certain else ITERATE, part, (self.chosen(),))
                    self._unpacked(value, part)
                    self.store_to(each, part, bind=bind)
        elif isinstance(target, ast.Subscript):
            base = self.ev(target.value)
            if isinstance(target.slice, ast.Slice):
                bounds = [self.ev(each) for each in (target.slice.lower, target.slice.upper, target.slice.step) if each]
                which = self.graph.node()
                for bound in bounds:
                    self.graph.flat(bound, which, "choice")
                call = self._inner()
                self.extend(base, value, call)
                self.graph.scramble(base, (which, call.chosen))
                return
            self.changed.append((base, self.within))
            key = constant_key(target.slice)
            key_node = self.ev(target.slice)
            chosen = (self.chosen(),)
            if key is ANY:
                self.graph.store(base, ANY, value, chosen, key_node)
            else:
                self.graph.store(base, key, value, chosen)
                self._add_key(base, key_node)
        elif isinstance(target, ast.Attribute):
            if is_behind(target.attr):
                raise GiveUp(target.attr)
            self.set_attribute(self.ev(target.value), target.attr, value, (self.chosen(),), self.within)
        elif isinstance(target, ast.Starred):
            self.store_to(target.value, value, bind=bind)
        else:
            raise GiveUp(type(target).__name__)

    def _unpacked(self, value: int, part: int) -> None:
        """Unpack the keys of a dict, which have no positions."""
        graph = self.graph

        def apply(bits: int) -> None:
            for thing in graph.each(bits & graph.things):
                if thing.kind in ("dict", "mixed"):
                    graph.copy(graph.keys_of(thing), part)

        graph.when(value, apply)

    def _add_key(self, base: int, key: int) -> None:
        graph = self.graph

        def apply(bits: int) -> None:
            for thing in graph.each(bits & graph.things):
                if thing.kind == "dict":
                    graph.copy(key, graph.keys_of(thing))

        graph.when(base, apply)


class _Lazy(Scope):
    """Reads the variables around a generator expression, which may run at any time."""

    def __init__(self, around: Scope) -> None:
        super().__init__(around._graph, around, around._shared, around._builtin)
        self._readable = around

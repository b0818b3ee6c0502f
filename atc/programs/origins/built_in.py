"""Follows the functions that every program has."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from atc.programs.origins import library
from atc.programs.origins.graph import ITERATE, PART, Thing
from atc.programs.origins.methods import Methods
from atc.programs.origins.parts import SETTLE, Call, GiveUp


class BuiltIns(Methods):
    """Follows the calls of built-in functions of one program."""

    def builtin(self, name: str, call: Call, result: int) -> None:
        """Call a built-in function."""
        graph, args, chosen = self.graph, call.all(), (call.chosen,)
        plain = not call.stars and not call.spread
        if name == "print" and ("file" in call.named or call.spread):
            self.mixed(args, result, call, [*call.spread, *call.named.values()])
        elif name == "type" and len(args) == len(call.args) == 1:
            self._type(args[0], result)
        elif name == "hasattr" and self.properties:
            raise GiveUp("hasattr of what may be a property")
        elif name in library.SCALAR:
            self.flows(args, result)
            self._consume(args, call)
            graph.put(result, self.literal if not args else 0)
        elif name in library.EXCEPTIONS:
            self.mixed(args, result, call)
            graph.put(result, self.literal)
        elif name in ("list", "tuple", "set", "frozenset", "reversed", "iter") and plain and len(args) <= 1:
            made = self.items(args, result, call, moving=name in ("iter", "reversed"))
            if "set" in name:
                self._choices(args, made.shape, call)
        elif name == "sorted" and call.args and plain:
            made = self.items(call.args[:1], result, call)
            graph.copy(self.order(call.args[:1], call), made.shape)
        elif name in ("min", "max") and call.args and not call.spread:
            self._extreme(call, result)
        elif name == "next" and plain and len(call.args) in (1, 2):
            graph.load(call.args[0], ITERATE, result, chosen)
            for node in call.args[1:]:
                graph.copy(node, result)
        elif name == "sum" and plain:
            self._sum(call, result)
        elif name == "range":
            made = self.new("list", result)
            self.flows(args, made.rest)
            for node in args:
                graph.flat(node, made.shape, "choice")
        elif name == "enumerate" and call.args and plain:
            made = self.items([], result, call, moving=True)
            pair = self.new("list", made.rest)
            graph.load(call.args[0], ITERATE, graph.field(pair, 1), (call.chosen, made.shape))
            graph.shape(call.args[0], made.shape)
            graph.copy(made.shape, graph.field(pair, 0))
            graph.put(graph.field(pair, 0), self.literal)
            self.flows([*call.args[1:], *call.named.values()], graph.field(pair, 0))
        elif name == "zip" and plain:
            made = self.items([], result, call, moving=True)
            row = self.new("list", made.rest)
            for at, node in enumerate(call.args):
                graph.load(node, ITERATE, graph.field(row, at), (call.chosen, made.shape))
                graph.shape(node, made.shape)
        elif name == "map" and len(call.args) > 1 and plain:
            made = self.items([], result, call, moving=True)
            given = [graph.node() for _ in call.args[1:]]
            for node, item in zip(call.args[1:], given, strict=True):
                graph.load(node, ITERATE, item, (call.chosen, made.shape))
                graph.shape(node, made.shape)
            self._lazily(call.args[0], call.inner(*given), made.rest, made)
        elif name == "filter" and len(call.args) == 2 and plain:
            made = self.items(call.args[1:], result, call, moving=True)
            found = graph.node()
            self._lazily(call.args[0], call.inner(made.rest), found, made)
            graph.flat(found, made.shape, "choice")
            self._none(call.args[0], made.rest, made.shape)
        elif name == "dict" and len(call.args) <= 1 and not call.stars:
            made = self.new("dict", result)
            for key, node in call.named.items():
                graph.copy(node, graph.field(made, key))
                graph.put(graph.keys_of(made), self.literal)
            for node in (*call.args, *call.spread):
                self._update_dict(made, node)
        elif name == "getattr" and plain and len(call.args) in (2, 3):
            key = self.key_of(call, 1)
            if not isinstance(key, str):
                raise GiveUp("getattr with a name that is not known")
            self.reads(key, call)
            self.method_value(call.args[0], key, result)
            for node in call.args[2:]:
                graph.copy(node, result)
        elif name == "setattr" and plain and len(call.args) == 3:
            key = self.key_of(call, 1)
            if not isinstance(key, str):
                raise GiveUp("setattr with a name that is not known")
            self.set_attribute(call.args[0], key, call.args[2], chosen)
        elif name == "slice":
            self.fresh(args, result)
        elif name == "parallel":
            self._parallel(call, result)
        elif name == "all_pages" and call.args and not (call.stars and call.stars[0][0] == 0):
            self._all_pages(call, result)
        elif name in ("exit", "quit"):
            self.exit(call)
        elif name == "object" and not args:
            self.new("mixed", result)
        elif name in library.LISTS or name in library.SELECT or name == "dict":
            self.mixed(args, result, call)
        else:
            raise GiveUp(f"the built-in {name}")

    def _type(self, value: int, result: int) -> None:
        """Return the class of a value: its own, where the program has it."""
        graph = self.graph

        def apply(bits: int) -> None:
            graph.put(result, self.literal)
            for thing in graph.each(bits & graph.things):
                if thing.cls is not None:
                    graph.put(result, graph.function(("own", id(thing.cls)), thing.cls))
            if bits & graph.functions:
                raise GiveUp("type() of a function or a class")

        graph.when(value, apply)
        graph.flat(value, result, "choice")

    def _choices(self, sources: Iterable[int], target: int, call: Call) -> None:
        for source in sources:
            items = self.graph.node()
            self.graph.load(source, ITERATE, items, (call.chosen,))
            self.graph.flat(items, target, "choice")

    def _extreme(self, call: Call, result: int) -> None:
        graph = self.graph
        if len(call.args) == 1 and not call.stars:
            sources = [call.args[0]]
        else:
            given = graph.node()
            thing = self.new("list", given)
            for node in call.args:
                graph.copy(node, thing.rest)
            for _, node in call.stars:
                graph.load(node, ITERATE, thing.rest, (call.chosen,))
                graph.load(node, PART, thing.rest, (call.chosen,))
                inner = graph.node()
                graph.load(node, PART, inner)
                graph.load(inner, PART, thing.rest)
            sources = [given]
        graph.load(sources[0], ITERATE, result, (call.chosen,))
        graph.copy(self.order(sources, call), result)
        if "default" in call.named:
            graph.copy(call.named["default"], result)

    def _sum(self, call: Call, result: int) -> None:
        graph = self.graph
        items = graph.node()
        graph.load(call.args[0], ITERATE, items, (call.chosen,))
        self.flows([items, *call.args[1:], *call.named.values()], result)
        self._consume(call.args, call)
        if len(call.args) > 1 or call.named:  # of lists
            made = self.new("list", result)
            graph.load(items, ITERATE, made.rest)
            for node in (*call.args[1:], *call.named.values()):
                graph.load(node, ITERATE, made.rest)

    def _lazily(self, function: int, inner: Call, result: int, iterator: Thing) -> None:
        """Call a function for each item that is taken from an iterator, whenever that is."""
        chosen = self.graph.node()
        self.graph.copy(inner.chosen, chosen)
        self.graph.copy(iterator.shape, chosen)
        inner.chosen = chosen
        iterator.body = chosen
        self.each_function(function, inner, result)
        self.graph.reference(function, chosen)

    def _parallel(self, call: Call, result: int) -> None:
        if call.spread:
            raise GiveUp("parallel with settings that are not known")
        graph, settles = self.graph, SETTLE in call.named
        made = self.new("list", result)
        for at, node in enumerate(call.args):
            self._thunk(node, call.inner(), graph.field(made, at), settles=settles)
        for node in (*call.args, *(node for _, node in call.stars)):  # lists of thunks
            several, inner = graph.node(), self.chosen_by(call, ())
            graph.load(node, ITERATE, several, (call.chosen,))
            graph.shape(node, inner.chosen)
            self._thunk(several, inner, made.rest, settles=settles)
            graph.shape(node, made.shape)

    def _thunk(self, function: int, call: Call, result: int, *, settles: bool) -> None:
        """Call what ``parallel`` is given; where it settles, its error may stand in the place of its result."""
        if not settles:
            self.each_function(function, call, result)
            return
        graph = self.graph
        call.touched, call.caught = graph.node(), self.in_try
        gave = graph.node()
        self.each_function(function, call, gave)
        graph.copy(gave, call.touched)
        graph.copy(gave, result)
        graph.copy(self.error(call.touched), result)

    def _all_pages(self, call: Call, result: int) -> None:
        graph = self.graph
        rest = call.without_first()
        rest.direct = call.direct

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if isinstance(function, tuple) and function[0] == "tool":
                    self._tool(function[1], rest, result, exact=False)
                else:
                    raise GiveUp("all_pages of no tool")
            if bits & ~graph.functions:
                first = call.nodes[0] if call.nodes else None
                if isinstance(first, ast.Constant) and first.value in self.tools:
                    self._tool(str(first.value), rest, result, exact=False)
                else:
                    raise GiveUp("all_pages of no tool")

        graph.when(call.args[0], apply)

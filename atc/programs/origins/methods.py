"""Follows methods of built-in types: what they read, and what they change."""

from __future__ import annotations

from collections.abc import Iterable

from atc.programs.origins import library
from atc.programs.origins.calls import Calls
from atc.programs.origins.graph import ANY, ITERATE, PART, Key, Thing
from atc.programs.origins.parts import Call, Function, GiveUp, constant_key


class Methods(Calls):
    """Follows the methods of one program."""

    def method(self, base: int, name: str, call: Call, result: int, within: Function | None = None) -> None:
        """Call a method of whatever a node may be."""
        graph = self.graph

        known = name in library.READERS or name in library.MAKERS
        followed, stirred = [known], [name in library.DIGESTS]
        if name in library.GROWS:
            self.changed.append((base, within))

        def apply(bits: int) -> None:
            others = bits & (graph.pure | graph.alias)
            graph.put(result, bits & graph.pure)
            for thing in graph.each(bits & graph.things):
                if thing.kind == "object":
                    member = self.attribute_of(thing, name)
                    self.pending.append((member, within))
                    self.each_function(member, call, result)
                else:
                    others |= thing.atom
                    if thing.opaque and not stirred[0]:
                        stirred[0] = True
                        self.mixed([base, *call.all()], result, call, [base])
            for function in graph.each(bits & graph.functions):
                target = graph.node()
                self.attribute(graph.node(graph.function(("own", id(function)), function)), name, target)
                self.each_function(target, call, result)
            if others and not followed[0]:
                followed[0] = True
                self._method(base, name, call, result)

        graph.when(base, apply)
        if known:
            self._method(base, name, call, result)

    def _method(self, base: int, name: str, call: Call, result: int) -> None:
        graph, args = self.graph, call.all()
        chosen = (call.chosen,)
        if name in library.READERS:
            self.flows([base, *args], result)
            self._callbacks(args, call, result)
            if name in library.EATERS:
                self._consume([*args, base], call)
            if name in ("format", "format_map") and (base not in self.plain or self.defaults or self.properties):
                self._formatted(args)
        elif name in library.MAKERS:
            self.fresh([base, *args], result, moving=name in library.MOVING)
        elif name in ("get", "setdefault", "__getitem__") and call.args and not call.stars:
            key = self.key_of(call, 0)
            graph.load(base, key, result)
            if name == "__getitem__":
                self.default(base, call.args[0], call.chosen)
            for default in (*call.args[1:], *call.named.values()):
                graph.copy(default, result)
                if name == "setdefault":
                    graph.store(base, key, default, chosen, call.args[0])
            if key is ANY:
                graph.flat(call.args[0], result, "choice")
                graph.copy(self._shape_of(base), result)
        elif name in ("items", "values", "keys") and not args:
            made = self.new("list", result)
            graph.shape(base, made.shape)
            if name == "items":
                pair = self.new("list", made.rest)
                graph.keys(base, graph.field(pair, 0))
                graph.load(base, ANY, graph.field(pair, 1))
            elif name == "values":
                graph.load(base, ANY, made.rest)
            else:
                graph.keys(base, made.rest)
            self._unless_mapping(base, [base, *args], call, result)
        elif name in library.ADDERS and len(args) == len(call.args) == 1:
            graph.store(base, ITERATE, args[0], (*chosen, self._choice(args[0])) if name == "add" else chosen)
        elif name == "insert" and len(call.args) == 2:
            graph.store(base, ITERATE, call.args[1], (*chosen, self._choice(call.args[0])))
            graph.scramble(base, (*chosen, self._choice(call.args[0])))
        elif name in ("extend", "extendleft") and len(args) == len(call.args) == 1:
            self.extend(base, args[0], call)
        elif name == "update" and len(call.args) <= 1 and not call.stars:
            for node in call.args:
                self.update(base, node, call)
            for key, node in call.named.items():
                graph.store(base, key, node, chosen)
            for node in call.spread:
                self.update(base, node, call)
        elif name == "copy" and not args:
            self.copied(base, result, call)
        elif name in library.REMOVERS:
            which = graph.node()
            for node in (*args, call.chosen):
                graph.flat(node, which, "choice")
            graph.scramble(base, (which,))
            if name in ("pop", "popitem", "popleft"):
                key = self.key_of(call, 0) if name == "pop" and call.args and not call.stars else PART
                if isinstance(key, int):
                    key = ITERATE
                graph.load(base, PART if key is ITERATE else key, result)
                graph.copy(which, result)
                for default in call.args[1:]:
                    graph.copy(default, result)
                if name == "popitem":
                    pair = self.new("list", result)
                    graph.load(base, PART, pair.rest)
        elif name == "sort" and not call.args:
            which = self.order([base], call)
            graph.scramble(base, (which, call.chosen))
        elif name in ("union", "intersection", "difference", "symmetric_difference"):
            made = self.items([base, *args], result, call)
            self.flows([base, *args], made.shape)
            self.flows([base, *args], result)
        else:
            self.mixed([base, *args], result, call, [base])

    def _consume(self, sources: Iterable[int], call: Call) -> None:
        """Take items from iterators until what they are says that it is enough."""
        given = [*sources]
        for source in given:

            def apply(bits: int, source: int = source) -> None:
                for thing in self.graph.each(bits & self.graph.things):
                    if thing.moving:
                        sink, which = self.graph.node(), self.graph.node()
                        for each in given:
                            self.graph.flat(each, which, "choice")
                        self.graph.load(source, ITERATE, sink, (call.chosen, which))
                        return

            self.graph.when(source, apply)

    def _formatted(self, args: Iterable[int]) -> None:
        """Give up where a text that is no constant may name attributes of functions and generators."""
        graph = self.graph

        def apply(bits: int) -> None:
            things = [*graph.each(bits & graph.things)]
            if bits & graph.functions or any(t.makes or t.kind in ("mixed", "object") for t in things):
                raise GiveUp("a format that is not known")

        for node in args:
            graph.when(node, apply)

    def _unless_mapping(self, base: int, args: list[int], call: Call, result: int) -> None:
        """Follow a method of a value that the library made as one that is not known."""

        state = [False]
        self.graph.when(base, lambda bits: self._once_mixed(bits, args, result, call, state))

    def _shape_of(self, base: int) -> int:
        node = self.graph.node()
        self.graph.shape(base, node)
        return node

    def _choice(self, source: int) -> int:
        node = self.graph.node()
        self.graph.flat(source, node, "choice")
        return node

    def extend(self, base: int, value: int, call: Call) -> None:
        """Put the items of a value into another."""
        items = self.graph.node()
        self.graph.load(value, ITERATE, items, (call.chosen,))
        shape = self._shape_of(value)
        self.graph.store(base, ITERATE, items, (call.chosen, shape))

    def update(self, base: int, value: int, call: Call) -> None:
        """Put the items of a value into a dict, a set or a counter, under their keys."""
        graph = self.graph
        shape = self._shape_of(value)
        which = graph.node()
        graph.reference(base, which)
        graph.copy(call.chosen, which)
        graph.copy(shape, which)
        parts = graph.node()
        graph.load(value, PART, parts, (call.chosen,))

        def apply(bits: int) -> None:
            for response in {part[0] for part in graph.each(bits & graph.alias)}:
                graph.copy(parts, response.put)
                graph.copy(which, response.put)
            for thing in graph.each(bits & graph.things):
                graph.copy(which, thing.shape)
                graph.copy(which, thing.rest)
                if thing.kind == "dict":
                    self._update_dict(thing, value)
                else:
                    graph.copy(parts, thing.rest)
                    graph.flat(parts, thing.shape, "choice")

        graph.when(base, apply)

    def _update_dict(self, thing: Thing, value: int) -> None:
        """Copy the keys of a dict; pairs, and what else is no dict, count for all keys."""
        graph = self.graph
        graph.add_copy(thing, value)

        def apply(bits: int) -> None:
            for other in graph.each(bits & graph.things):
                if other.kind != "dict":
                    pair = graph.node()
                    graph.copy(graph.all_of(other), pair)
                    graph.copy(other.shape, thing.rest)
                    graph.load(pair, PART, thing.rest)
                    graph.load(pair, PART, graph.keys_of(thing))

        graph.when(value, apply)

    def copied(self, source: int, result: int, call: Call) -> None:
        """Let a value be a copy of another: its containers are new, and hold the same."""
        graph = self.graph
        graph.reference(source, result)
        parts = graph.node()

        def apply(bits: int) -> None:
            graph.put(result, bits & (graph.pure | graph.functions))
            if bits & (graph.alias | graph.things):
                kinds = {thing.kind for thing in graph.each(bits & graph.things)} or {"dict"}
                for kind in kinds:
                    key = ("copied", source, result, kind)
                    if key in self._made:
                        continue
                    self._made[key] = True
                    if kind in ("object", "mixed"):
                        self.mixed([source], result, call)
                        continue
                    thing = self.new(kind, result)
                    thing.moving = any(each.moving for each in graph.each(bits & graph.things))
                    if kind == "dict":
                        thing.makes = self.defaults
                        graph.add_copy(thing, source)
                    else:
                        graph.load(source, ITERATE, thing.rest, (call.chosen,))
                        graph.shape(source, thing.shape)
            for part in graph.each(bits & graph.alias):
                graph.put(result, graph.part(part[0], part[1], part[2]))

        graph.when(source, apply)
        del parts

    def key_of(self, call: Call, at: int) -> Key:
        """Return an argument as a key, where it is a constant."""
        node = call.nodes[at] if at < len(call.nodes) and call.direct else None
        return constant_key(node)

    # -- keys and callbacks --------------------------------------------------------------------------------------------

    def order(self, sources: list[int], call: Call) -> int:
        """Return a node with what chooses an order of items: what ``key`` returns of them, or they themselves."""
        graph = self.graph
        which = graph.node()
        key = call.named.get("key")
        items = graph.node()
        for source in sources:
            graph.load(source, ITERATE, items, (call.chosen,))
            graph.shape(source, which)
        if key is None or call.spread:
            graph.flat(items, which, "choice")
        if key is not None:
            found, inner = graph.node(), self.chosen_by(call, ())
            inner.args = [items]
            for source in sources:
                graph.shape(source, inner.chosen)
            self.each_function(key, inner, found)
            graph.flat(found, which, "choice")
            self._none(key, items, which)
        for name, node in call.named.items():
            if name != "key":
                graph.flat(node, which, "choice")
        for node in call.spread:
            self.mixed([node, *sources], which, call)
        return which

    def _none(self, key: int, items: int, which: int) -> None:
        """Compare the items themselves where the key may be ``None``."""

        def apply(bits: int) -> None:
            if bits & ~self.graph.functions:
                self.graph.flat(items, which, "choice")

        self.graph.when(key, apply)

    def _callbacks(self, args: Iterable[int], call: Call, result: int) -> None:
        """Call the functions among some arguments with everything that is there."""
        nodes = [node for node in args if node not in self.plain]
        for node in nodes:

            def apply(bits: int, node: int = node) -> None:
                if bits & self.graph.functions and ("callbacks", node) not in self._made:
                    self._made["callbacks", node] = True
                    pool, found = self.graph.node(), self.graph.node()
                    for each in nodes:
                        self.graph.reach(each, pool)
                    self.functions_in(node, found, call, [pool, found])
                    self.flows([found], result)

            self.graph.when(node, apply)

"""Follows functions of the standard library."""

from __future__ import annotations

import ast

from atc._host.syntax import walk
from atc.programs.origins import library
from atc.programs.origins.built_in import BuiltIns
from atc.programs.origins.graph import ITERATE
from atc.programs.origins.parts import Call, Class, Function, Getter, GiveUp

_BEGIN = ("__init__", "__post_init__")
_MAKES = (
    ast.Return | ast.Lambda | ast.arguments | ast.Call | ast.Name | ast.Load | ast.Constant | ast.List | ast.Dict
    | ast.Tuple | ast.Set | ast.BinOp | ast.operator | ast.UnaryOp | ast.unaryop
)  # fmt: skip


class Standard(BuiltIns):
    """Follows the calls of library functions of one program."""

    def library(self, dotted: str, call: Call, result: int) -> None:
        """Call a function of the library."""
        graph, args = self.graph, call.all()
        module, name = library.module_of(dotted), dotted.rpartition(".")[2]
        if not isinstance(dotted, Getter) and library.is_part(dotted):
            raise GiveUp(dotted)
        if dotted in ("copy.copy",) and len(args) == 1:
            self.copied(args[0], result, call)
        elif dotted == "functools.partial" and call.args and not (call.stars and call.stars[0][0] == 0):
            rest = call.without_first()
            graph.put(result, graph.function(("partial", id(rest)), ("partial", rest, call.args[0])))
        elif dotted in ("functools.lru_cache", "functools.cache"):
            for node in call.args:
                self._cached(node, result)
            if not call.args:
                graph.put(result, graph.function(("library", dotted), ("library", dotted)))
        elif dotted == "functools.wraps":
            graph.put(result, graph.function(("identity",), ("identity", 0)))
        elif dotted == "collections.defaultdict":
            self._defaultdict(call, result)
        elif dotted == "collections.OrderedDict":
            self.builtin("dict", call, result)
        elif dotted == "collections.deque" and call.args and len(args) == 1:
            self.items(args, result, call)
        elif dotted in ("itertools.chain", "itertools.islice") and not call.spread:
            count = 1 if name == "islice" else len(call.args)
            made = self.items(call.args[:count], result, call, moving=True)
            for _, node in call.stars:
                inner = graph.node()
                graph.load(node, ITERATE, inner, (call.chosen,))
                graph.load(inner, ITERATE, made.rest, (call.chosen,))
                graph.shape(inner, made.shape)
            for node in call.args[count:]:
                graph.flat(node, made.shape, "choice")
        elif dotted in ("operator.itemgetter",) and len(call.args) == 1 and not call.stars:
            key = self.key_of(call, 0)
            graph.put(result, graph.function(("item", len(graph.atoms)), ("library", Getter(key, args[0]))))
        elif dotted == "operator.methodcaller" and isinstance(key := self.key_of(call, 0), str) and not call.stars:
            rest = call.without_first()
            rest.direct = False
            graph.put(result, graph.function(("caller", id(rest)), ("caller", key, rest)))
        elif dotted == "operator.methodcaller":
            raise GiveUp("a method whose name is not known")
        elif isinstance(dotted, Getter) and len(args) == 1:
            graph.load(args[0], dotted.key, result, (call.chosen,))
            graph.flat(dotted.node, result, "choice")
            self.default(args[0], dotted.node, call.chosen)
        elif dotted == "dataclasses.field":
            if "default_factory" in call.named:
                self.only_makes(call.named["default_factory"])
                self.each_function(call.named["default_factory"], call.inner(), result)
            if "default" in call.named:
                graph.copy(call.named["default"], result)
        elif dotted == "dataclasses.dataclass":
            raise GiveUp(dotted)
        elif dotted == "sys.exit":
            self.exit(call)
        elif dotted in ("contextlib.suppress", "contextlib.nullcontext"):
            for node in args:
                graph.copy(node, result)
            graph.put(result, self.literal)
        elif module == "typing":
            if name == "cast" and len(call.args) == 2:
                graph.copy(call.args[1], result)
            elif name in ("TypeVar", "NewType"):
                graph.put(result, self.literal)
            else:
                raise GiveUp(dotted)
        elif module in library.STATEFUL:
            state = self.state(module)
            self._callbacks(args, call, state)
            self.flows(args, state)
            graph.copy(call.chosen, state)
            graph.copy(state, result)
        elif dotted in library.KEEPERS:
            self.mixed(args, result, call, args)
            graph.put(result, self.literal)
        elif module in library.STATELESS:
            if module.partition(".")[0] in library.CLOCK:
                graph.copy(self.state("time"), result)
            self._callbacks(args, call, result)
            self._consume(args, call)
            if dotted == "json.dump":
                self.mixed(args, result, call, args)
            elif dotted in library.MUTABLE:
                self.fresh(args, result, moving=name in library.MOVING)
            elif library.is_opaque(dotted):
                self.mixed(args, result, call, opaque=True)
            else:
                self.flows(args, result)
            graph.put(result, self.literal)
        elif module in library.MIXING or dotted in library.KNOWN:
            sources = [*args, self.state(module)] if module in ("random", "secrets") else args
            changes = dotted in library.CHANGING or module in ("heapq", "pprint")
            pool = self.mixed(sources, result, call, args if changes else (), opaque=module in library.KEEPING)
            graph.put(result, self.literal)
            if module == "random":
                graph.flat(pool, self.state(module))
                graph.copy(call.chosen, self.state(module))
        else:
            raise GiveUp(dotted)

    def _cached(self, node: int, result: int) -> None:
        """Let a function keep what it returned: its arguments choose whether it runs again."""
        graph = self.graph

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if isinstance(function, Function):
                    function.cached = True
                elif not isinstance(function, tuple) or function[0] not in ("tool", "builtin", "library"):
                    raise GiveUp("a cache of what is no function")
            graph.put(result, bits)

        graph.when(node, apply)

    def only_makes(self, node: int) -> None:
        """Give up where a function that something calls for each new key does more than to make a value."""
        graph = self.graph
        if ("makes", node) in self._made:
            return
        self._made["makes", node] = True

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if isinstance(function, Function):
                    self._returns_only(function)
                elif isinstance(function, Class):
                    if any(name in each.thing.fields for each in self.family(function) for name in _BEGIN):
                        raise GiveUp("a factory that does more than to make a value")
                elif function != ("builtin", "object") and not self._only_computes(function):
                    raise GiveUp("a factory that does more than to make a value")

        graph.when(node, apply)

    def _returns_only(self, function: Function) -> None:
        body = function.node.body if isinstance(function.node, ast.Lambda) else function.node.body[-1]
        several = not isinstance(function.node, ast.Lambda) and len(function.node.body) > 1
        if several or function.all_params or not isinstance(body, ast.Return | ast.expr):
            raise GiveUp("a factory that does more than to make a value")
        for node in walk(body):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name):
                self.only_makes(function.scope.at_any_time(called.id))
            elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                made, base = self.graph.node(), function.scope.at_any_time(called.value.id)
                self.graph.when(base, self._no_module)
                self.attribute(base, called.attr, made)
                self.only_makes(made)
            elif isinstance(node, ast.Attribute):
                continue
            elif not isinstance(node, _MAKES):
                raise GiveUp("a factory that does more than to make a value")

    def _no_module(self, bits: int) -> None:
        """Give up where a factory calls a method: of a list, it may change it."""
        if bits & ~self.graph.functions:
            raise GiveUp("a factory that does more than to make a value")

    def default(self, base: int, key: int, chosen: int) -> None:
        """Let a ``defaultdict`` have a key that is read."""
        graph, which = self.graph, self.graph.node()
        graph.copy(chosen, which)
        graph.reference(base, which)
        graph.flat(key, which, "choice")

        def apply(bits: int) -> None:
            for thing in graph.each(bits & graph.things):
                if thing.makes:
                    graph.copy(key, graph.keys_of(thing))
                    graph.copy(which, thing.shape)

        graph.when(base, apply)

    def _defaultdict(self, call: Call, result: int) -> None:
        graph = self.graph
        made = self.new("dict", result)
        made.makes = True
        if call.args:
            self.only_makes(call.args[0])
            inner = graph.node()
            self.each_function(call.args[0], call.inner(), inner)
            graph.copy(inner, made.rest)
        for node in (*call.args[1:], *call.spread):
            self._update_dict(made, node)
        for key, node in call.named.items():
            graph.copy(node, graph.field(made, key))

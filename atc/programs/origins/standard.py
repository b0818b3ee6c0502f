"""Follows functions of the standard library."""

from __future__ import annotations

import ast

from atc.programs.origins import library
from atc.programs.origins.built_in import BuiltIns
from atc.programs.origins.graph import ITERATE
from atc.programs.origins.parts import Call, Class, Function, Getter, GiveUp


class Standard(BuiltIns):
    """Follows the calls of library functions of one program."""

    def library(self, dotted: str, call: Call, result: int) -> None:
        """Call a function of the library."""
        graph, args = self.graph, call.all()
        module, name = library.module_of(dotted), dotted.rpartition(".")[2]
        if dotted in ("copy.copy",) and len(args) == 1:
            self.copied(args[0], result, call)
        elif dotted == "functools.partial" and call.args and not (call.stars and call.stars[0][0] == 0):
            rest = call.without_first()
            graph.put(result, graph.function(("partial", id(rest)), ("partial", rest, call.args[0])))
        elif dotted in ("functools.lru_cache", "functools.cache"):
            for node in call.args:
                graph.put(result, graph.function(("cached", node), ("cached", node)))
            if not call.args:
                graph.put(result, graph.function(("library", "functools.cache"), ("library", "functools.cache")))
        elif dotted == "functools.wraps":
            graph.put(result, graph.function(("library", "functools.wraps()"), ("library", "functools.wraps()")))
        elif dotted == "functools.wraps()":
            self._identity(call, result)
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
            graph.put(result, graph.function(("item", len(graph.atoms)), ("library", Getter(key))))
        elif dotted == "operator.methodcaller" and isinstance(key := self.key_of(call, 0), str) and not call.stars:
            rest = call.without_first()
            rest.direct = False
            graph.put(result, graph.function(("caller", id(rest)), ("caller", key, rest)))
        elif dotted == "operator.methodcaller":
            raise GiveUp("a method whose name is not known")
        elif isinstance(dotted, Getter) and len(args) == 1:
            graph.load(args[0], dotted.key, result)
        elif dotted == "dataclasses.field":
            if "default_factory" in call.named:
                self._only_makes(call.named["default_factory"])
                self.each_function(call.named["default_factory"], call.inner(), result)
            if "default" in call.named:
                graph.copy(call.named["default"], result)
        elif dotted == "dataclasses.dataclass":
            raise GiveUp(dotted)
        elif dotted == "sys.exit":
            pass
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
                self.fresh(args, result)
            else:
                self.flows(args, result)
            graph.put(result, self.literal)
        elif module in library.MIXING or dotted in library.KNOWN:
            sources = [*args, self.state(module)] if module in ("random", "secrets") else args
            changes = dotted in library.CHANGING or module in ("heapq", "pprint")
            pool = self.mixed(sources, result, call, args if changes else ())
            graph.put(result, self.literal)
            if module == "random":
                graph.flat(pool, self.state(module))
                graph.copy(call.chosen, self.state(module))
        else:
            raise GiveUp(dotted)

    def _only_makes(self, factory: int) -> None:
        """Give up where what is called whenever an object is made may do more than to make a value."""

        def apply(bits: int) -> None:
            for function in self.graph.each(bits & self.graph.functions):
                if isinstance(function, Function):
                    does = (ast.Call, ast.NamedExpr, ast.Attribute, ast.Subscript)
                    if isinstance(function.node, ast.FunctionDef) or any(
                        isinstance(each, does) for each in ast.walk(function.node.body)
                    ):
                        raise GiveUp("a factory that does something")
                elif not isinstance(function, Class) and function[0] not in ("builtin", "library"):
                    raise GiveUp("a factory that does something")

        self.graph.when(factory, apply)

    def _identity(self, call: Call, result: int) -> None:
        for node in call.args:
            self.graph.copy(node, result)

    def _defaultdict(self, call: Call, result: int) -> None:
        graph = self.graph
        made = self.new("dict", result)
        made.makes = True
        if call.args:
            inner = graph.node()
            self.each_function(call.args[0], call.inner(), inner)
            graph.copy(inner, made.rest)
        for node in (*call.args[1:], *call.spread):
            self._update_dict(made, node)
        for key, node in call.named.items():
            graph.copy(node, graph.field(made, key))

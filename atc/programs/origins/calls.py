"""Follows calls: of tools, of the program's own functions and classes, of built-ins, methods and the library.

A call that cannot be followed gives up on the whole program (see :mod:`atc.programs.origins.program`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from atc.programs.origins import library
from atc.programs.origins.graph import ANY, ITERATE, PART, Graph, Key, Response, Thing
from atc.programs.origins.scopes import Scope


MAX_CALLBACKS = 3
"""Functions of the library that call functions which call such functions, and so on."""


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

    __slots__ = ("args", "caught", "chosen", "depth", "direct", "exits", "lines", "named", "nodes", "spread", "stars", "touched")

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
        "all_params", "body", "called", "caught", "exits", "generator", "kwarg", "named", "node", "params", "returns", "scope",
        "touched", "vararg",
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
        self.called = False


class Class:
    """Holds a class of the program: its own fields, those of what it inherits from, and one object for all."""

    __slots__ = ("bases", "fields", "instance", "is_data", "is_enum", "is_error", "members", "scope", "thing")

    def __init__(self, graph: Graph, scope: Scope) -> None:
        self.scope = scope
        self.bases: list[Class] = []
        self.thing = Thing(graph, "object")
        self.instance = Thing(graph, "object")
        self.instance.cls = self
        self.members: list[str] = []
        self.is_data = self.is_enum = self.is_error = False


class Site:
    """Holds a place where a tool is called."""

    __slots__ = ("call", "response")

    def __init__(self, call: Call, response: Response) -> None:
        self.call, self.response = call, response


class Calls:
    """Follows the calls of one program."""

    def __init__(self, tools: frozenset[str], literal: int) -> None:
        self.graph = Graph()
        self.tools, self.literal = tools, literal
        self.sites: dict[str, list[Site]] = {}
        self.pending: list[tuple[int, Function | None]] = []
        """Nodes of what is called: each must be a function in the end. With it, the function that the call stands in."""
        self.getters: dict[str, tuple[int, int]] = {}
        """Of attributes that may be properties: nodes of the conditions under which they are read, and of all that a
        property touches."""
        self.plain: set[int] = set()
        """Nodes of texts and numbers."""
        self._made: dict[Any, Any] = {}
        self._states: dict[str, int] = {}

    # -- what is made --------------------------------------------------------------------------------------------------

    def inherited(self, name: str) -> int:
        """Return a node with what any class of the program has under a name."""
        key = ("inherited", name)
        if key not in self._made:
            self._made[key] = self.graph.node()
        return int(self._made[key])

    def text(self, kind: str) -> int:
        """Return the atom of a text of the program."""
        return self.graph.origin(kind)

    def flows(self, sources: Iterable[int], target: int) -> None:
        """Let a value be made of others."""
        for source in sources:
            self.graph.flat(source, target)

    def new(self, kind: str, target: int) -> Thing:
        """Return a new container, which a node then may be."""
        thing = Thing(self.graph, kind)
        self.graph.put(target, thing.atom)
        return thing

    def fresh(self, sources: Iterable[int], target: int) -> None:
        """Let a value be something new, that can be changed and that is made of others all through."""
        thing = self.new("mixed", target)
        self.flows(sources, thing.rest)
        self.flows(sources, target)
        self.graph.put(thing.rest, thing.atom)

    def items(self, sources: Iterable[int], target: int, call: Call, *, moving: bool = False) -> Thing:
        """Let a value be a new list with the items of others."""
        thing = self.new("list", target)
        thing.moving = moving
        for source in sources:
            self.graph.load(source, ITERATE, thing.rest, (call.chosen, thing.shape))
            self.graph.shape(source, thing.shape)
        return thing

    def mixed(self, sources: Iterable[int], result: int, call: Call, into: Iterable[int] = ()) -> int:
        """Let a value hold whatever can be reached from others; the functions among that are called with all of it.

        Args:
            sources: what is given.
            result: the node of the value.
            call: what does this.
            into: what may be changed: it, and all that can be reached from it, then holds everything, too.

        Returns:
            A node with everything.
        """
        graph = self.graph
        pool = graph.node()
        for source in sources:
            graph.reach(source, pool)
        thing = Thing(graph, "mixed")
        thing.moving = True
        graph.put(pool, thing.atom)
        graph.copy(pool, thing.rest)
        graph.copy(pool, result)
        which = graph.node()
        graph.copy(call.chosen, which)
        graph.flat(pool, which, "choice")

        def consume(bits: int) -> None:
            for iterator in graph.each(bits & graph.things):
                if iterator.moving:
                    graph.copy(which, iterator.shape)
                    graph.copy(which, iterator.body)

        graph.when(pool, consume)
        for source in into:
            changed = graph.node()
            graph.reach(source, changed)
            graph.store(changed, ANY, pool, (call.chosen,))
            graph.scramble(changed, (call.chosen,))
        self.functions_in(pool, pool, call, [pool])
        return pool

    def functions_in(self, node: int, result: int, call: Call, args: list[int]) -> None:
        """Call the functions that a node may be with these arguments, and any number of them.

        What the library would make of the arguments is made of them at once: where they are all in one pool, as in
        :meth:`mixed`, there is nothing else that could come of it.
        """
        inner = call.inner()
        inner.depth = call.depth + 1
        for arg in args:
            many = self.graph.node()
            thing = self.new("list", many)
            self.graph.copy(arg, thing.rest)
            inner.stars.append((0, many))

        def apply(bits: int) -> None:
            for function in self.graph.each(bits & self.graph.functions):
                if inner.depth > MAX_CALLBACKS:
                    raise GiveUp("functions that are called by functions of the library, and so on")
                if self._only_computes(function):
                    for arg in args:
                        self.graph.reach(arg, result)
                        self.graph.flat(arg, result)
                else:
                    self.enter(function, inner, result)

        self.graph.when(node, apply)

    def _only_computes(self, function: Any) -> bool:
        """Return whether a function of Python or its library makes something of its arguments and does nothing else."""
        if not isinstance(function, tuple):
            return False
        if function[0] == "builtin":
            return function[1] in library.SCALAR | library.LISTS | library.SELECT | library.EXCEPTIONS | {"type", "dict"}
        if function[0] != "library" or isinstance(function[1], _Getter):
            return function[0] == "class" and function[1] in library.READERS
        module = library.module_of(function[1])
        changes = function[1] in library.CHANGING or module in ("heapq", "pprint") or function[1] == "json.dump"
        return not changes and module in library.STATELESS | library.MIXING - {"random", "secrets"} - {"functools"}

    def each_function(self, node: int, call: Call, result: int) -> None:
        """Call what a node may be, if it is a function; nothing is given up where it is none."""

        def apply(bits: int) -> None:
            if found := bits & self.graph.pure:
                self.graph.put(result, self.graph.as_how(found, "choice"))
            for function in self.graph.each(bits & self.graph.functions):
                self.enter(function, call, result)
            self._once_mixed(bits, [node, *call.all()], result, call, state)

        state = [False]
        self.graph.when(node, apply)

    def _once_mixed(self, bits: int, sources: list[int], result: int, call: Call, state: list[bool]) -> None:
        """Follow a use of what the library made as one that mixes everything: once, for more may come of it."""
        if not state[0] and any(thing.kind == "mixed" for thing in self.graph.each(bits & self.graph.things)):
            state[0] = True
            self.mixed(sources, result, call)

    # -- who is called -------------------------------------------------------------------------------------------------

    def call(self, callee: int, call: Call, result: int, within: Function | None) -> None:
        """Call what a node may be."""
        self.pending.append((callee, within))
        self.graph.reference(callee, call.chosen)
        self.each_function(callee, call, result)

    def enter(self, function: Any, call: Call, result: int) -> None:
        """Call one function."""
        if isinstance(function, Function):
            self._own(function, call, result)
        elif isinstance(function, Class):
            self._instantiate(function, call, result)
        else:
            sort, what = function[0], function[1]
            if sort == "tool":
                self._tool(what, call, result)
            elif sort == "bound":
                self._own(what, call.shifted([function[2]]), result)
            elif sort == "method":
                self.method(function[2], what, call, result)
            elif sort in library.BINDERS:
                self._own(what, call, result)
            elif sort == "class" and call.args:
                self.method(call.args[0], what, call.without_first(), result)
            elif sort == "init":
                self.mixed(call.all(), result, call, [what])
            elif sort == "partial":
                self._partial(function, call, result)
            elif sort == "builtin":
                self.builtin(what, call, result)
            else:
                self.library(what, call, result)

    def _partial(self, function: tuple[str, Call, int], call: Call, result: int) -> None:
        first = function[1]
        joined = call.shifted(first.args)
        joined.stars = [*first.stars, *joined.stars]
        joined.named, joined.spread = {**first.named, **call.named}, [*first.spread, *call.spread]
        joined.direct = False
        self.each_function(function[2], joined, result)

    def _tool(self, name: str, call: Call, result: int) -> None:
        graph = self.graph
        response = Response(graph, name)
        graph.put(result, graph.part(response, (), True))
        for node in call.all():
            graph.flat(node, result, "call")
            graph.flat(node, response.put, "call")
        self.sites.setdefault(name, []).append(Site(call, response))

    def _own(self, function: Function, call: Call, result: int) -> None:
        graph = self.graph
        function.called = True
        graph.copy(call.chosen, function.body)
        if call.touched:
            graph.copy(function.touched, call.touched)
            graph.copy(call.caught, function.caught)
        if call.exits:
            graph.copy(function.exits, call.exits)
        graph.copy(function.returns, result)
        for at, node in enumerate(call.args):
            if at < len(function.params):
                graph.copy(node, function.params[at][1])
            elif function.vararg:
                graph.copy(node, graph.field(function.vararg, at - len(function.params)))
        for at, node in call.stars:
            for _, param in function.params[at:]:
                graph.load(node, ITERATE, param, (call.chosen,))
            if function.vararg:
                graph.load(node, ITERATE, function.vararg.rest, (call.chosen,))
                graph.shape(node, function.vararg.shape)
        for name, node in call.named.items():
            if name in function.named:
                graph.copy(node, function.named[name])
            elif function.kwarg:
                graph.copy(node, graph.field(function.kwarg, name))
                graph.put(graph.keys_of(function.kwarg), self.literal)
        for node in call.spread:
            for name, param in function.named.items():
                graph.load(node, name, param)
            if function.kwarg:
                graph.add_copy(function.kwarg, node)

    def _instantiate(self, cls: Class, call: Call, result: int) -> None:
        graph = self.graph
        instance = cls.instance
        graph.put(result, instance.atom)
        if cls.is_enum:
            self.flows(call.all(), result)
            graph.load(result, ANY, result)
            graph.copy(graph.all_of(cls.thing), result)
            return
        begins = [each for each in self.family(cls) if "__init__" in each.thing.fields]
        if begins:
            node = self.attribute_of(instance, "__init__")
            self.each_function(node, call, graph.node())
        for each in self.family(cls):
            if each.is_error:
                thing_args = graph.field(instance, "args")
                for node in call.all():
                    graph.reach(node, instance.rest)
                    graph.reach(node, thing_args)
        names = [name for each in reversed(self.family(cls)) if each.is_data for name in each.members]
        if names and not begins:
            for at, node in enumerate(call.args):
                graph.copy(node, graph.field(instance, names[at]) if at < len(names) else instance.rest)
            for name, node in call.named.items():
                graph.copy(node, graph.field(instance, name))
            for _, node in call.stars:
                graph.load(node, ITERATE, instance.rest, (call.chosen,))
            for node in call.spread:
                for name in names:
                    graph.load(node, name, graph.field(instance, name))
        for node in () if begins or names else call.all():
            graph.reach(node, instance.rest)

    def family(self, cls: Class) -> list[Class]:
        """Return a class and all that it inherits from."""
        found, todo = [], [cls]
        while todo:
            each = todo.pop(0)
            if each not in found:
                found.append(each)
                todo += each.bases
        return found

    def attribute_of(self, thing: Thing, name: str) -> int:
        """Return the node of an attribute of an object: its own, or of its class; a method is bound to the object."""
        graph = self.graph
        key = ("attribute", thing.atom, name)
        if (node := self._made.get(key)) is not None:
            return int(node)
        node = self._made[key] = graph.node()
        graph.copy(graph.field(thing, name), node)
        graph.copy(thing.rest, node)
        owner = graph.node(thing.atom)
        for cls in self.family(thing.cls) if thing.cls is not None else ():

            def apply(bits: int, cls: Class = cls) -> None:
                graph.put(node, bits & ~graph.functions)
                for function in graph.each(bits & graph.functions):
                    self._bind(function, owner, cls, node)

            graph.when(graph.field(cls.thing, name), apply)
        return node

    def _bind(self, function: Any, owner: int, cls: Class, target: int) -> None:
        """Read a function out of a class: a method is bound to what it is read of.

        Args:
            function: the function.
            owner: a node with the object; 0 where it is read of the class itself.
            cls: the class.
            target: the node that it is for.
        """
        graph = self.graph
        sort = function[0] if isinstance(function, tuple) else ""
        if sort == "property" and owner:
            chosen, touched = self.getters.setdefault(function[1].node.name, (graph.node(), graph.node()))
            caught = graph.node(graph.atom("caught", "caught"))
            self._own(function[1], Call(chosen, touched, caught, (0, 0)).inner(owner), target)
        elif sort == "classmethod":
            itself = graph.node(graph.function(("own", id(cls)), cls))
            graph.put(target, graph.function(("bound", id(function[1]), id(cls)), ("bound", function[1], itself)))
        elif sort == "staticmethod":
            graph.put(target, graph.function(("own", id(function[1])), function[1]))
        elif isinstance(function, Function) and owner:
            graph.put(target, graph.function(("bound", id(function), owner), ("bound", function, owner)))
        else:
            graph.put(target, graph.function(("same", id(function)), function))

    # -- attributes ----------------------------------------------------------------------------------------------------

    def attribute(self, base: int, name: str, target: int) -> None:
        """Read an attribute of whatever a node may be."""
        graph = self.graph

        def apply(bits: int) -> None:
            graph.put(target, bits & graph.pure)
            for part in graph.each(bits & graph.alias):
                graph.put(target, graph.of_part(part))
                graph.flat(part[0].put, target)
            for thing in graph.each(bits & graph.things):
                if thing.kind == "object":
                    graph.copy(self.attribute_of(thing, name), target)
                else:
                    graph.load(base, ANY, target)
            for function in graph.each(bits & graph.functions):
                if isinstance(function, Class):
                    for each in self.family(function):
                        self._of_class(each, function, name, target)
                elif isinstance(function, tuple) and function[0] == "library":
                    self.member(f"{function[1]}.{name}", target)
                elif isinstance(function, tuple) and function[0] == "builtin":
                    graph.put(target, graph.function(("class", name), ("class", name)))
                elif name not in ("__name__", "__doc__") and not _is_method(function):
                    raise GiveUp(f"the attribute {name} of a function")

        graph.when(base, apply)

    def method_value(self, base: int, name: str, target: int) -> None:
        """Read an attribute that may be a method of a built-in type: it can be called later."""
        self.attribute(base, name, target)
        if name in library.READERS or name in library.MAKERS or name in METHODS:
            self.graph.put(target, self.graph.function(("method", base, name), ("method", name, base)))

    def _of_class(self, cls: Class, read_of: Class, name: str, target: int) -> None:
        graph = self.graph

        def apply(bits: int) -> None:
            graph.put(target, bits & ~graph.functions)
            for function in graph.each(bits & graph.functions):
                self._bind(function, 0, read_of, target)

        graph.when(graph.field(cls.thing, name), apply)

    def member(self, dotted: str, target: int) -> None:
        """Read a part of a module."""
        module = library.module_of(dotted)
        if dotted in library.RISKY or not module or (module == "sys" and dotted != "sys.exit"):
            raise GiveUp(dotted)
        if module in library.NAMES_ONLY and dotted not in library.KNOWN and f"{module}.*" not in library.KNOWN:
            raise GiveUp(dotted)
        graph = self.graph
        name = dotted.rpartition(".")[2]
        graph.put(target, self.literal)
        if dotted not in library.MODULES and (name in library.CONSTANTS_OF or name.isupper()):
            return
        graph.put(target, graph.function(("library", dotted), ("library", dotted)))
        if module in library.STATEFUL:
            graph.copy(self.state(module), target)

    def state(self, module: str) -> int:
        """Return the node of what a module keeps."""
        if module not in self._states:
            self._states[module] = self.graph.node(self.literal)
        return self._states[module]

    def set_attribute(self, base: int, name: str, value: int, chosen: tuple[int, ...]) -> None:
        """Set an attribute of whatever a node may be."""
        graph = self.graph
        graph.store(base, name, value, chosen)

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if not isinstance(function, Class):
                    raise GiveUp("an attribute of a function")
                graph.copy(value, graph.field(function.thing, name))
                for node in chosen:
                    graph.copy(node, graph.field(function.thing, name))
            if bits & graph.pure:
                for origin in graph.each(bits & graph.pure):
                    if origin[3] == "value":
                        raise GiveUp("an attribute of a value that is not followed")

        graph.when(base, apply)

    # -- methods -------------------------------------------------------------------------------------------------------

    def method(self, base: int, name: str, call: Call, result: int, within: Function | None = None) -> None:
        """Call a method of whatever a node may be."""
        graph = self.graph

        known = name in library.READERS or name in library.MAKERS
        followed = [known]

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
        elif name in library.MAKERS:
            self.fresh([base, *args], result)
        elif name in ("get", "setdefault") and call.args and not call.stars:
            key = self.key_of(call, 0)
            graph.load(base, key, result)
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
            graph.put(result, bits & graph.pure)
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
                    if kind == "dict":
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
            found = graph.node()
            self.each_function(key, call.inner(items), found)
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

    # -- built-ins -----------------------------------------------------------------------------------------------------

    def builtin(self, name: str, call: Call, result: int) -> None:
        """Call a built-in function."""
        graph, args, chosen = self.graph, call.all(), (call.chosen,)
        plain = not call.stars and not call.spread
        if name == "print" and ("file" in call.named or call.spread):
            self.mixed(args, result, call, [*call.spread, *call.named.values()])
        elif name in library.SCALAR or (name == "type" and len(call.args) == 1 and plain):
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
            pass
        elif name == "object" and not args:
            self.new("mixed", result)
        elif name in library.LISTS or name in library.SELECT or name == "dict":
            self.mixed(args, result, call)
        else:
            raise GiveUp(f"the built-in {name}")

    def _choices(self, sources: Iterable[int], target: int, call: Call) -> None:
        for source in sources:
            items = self.graph.node()
            self.graph.load(source, ITERATE, items, (call.chosen,))
            self.graph.flat(items, target, "choice")

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
        graph = self.graph
        made = self.new("list", result)
        for at, node in enumerate(call.args):
            self.each_function(node, call.inner(), graph.field(made, at))
            several = graph.node()  # one list of thunks
            graph.load(node, ITERATE, several, (call.chosen,))
            self.each_function(several, call.inner(), made.rest)
            graph.shape(node, made.shape)
        for _, node in call.stars:
            several = graph.node()
            graph.load(node, ITERATE, several, (call.chosen,))
            self.each_function(several, call.inner(), made.rest)
            graph.shape(node, made.shape)

    def _all_pages(self, call: Call, result: int) -> None:
        graph = self.graph
        rest = call.without_first()
        rest.direct = call.direct

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if isinstance(function, tuple) and function[0] == "tool":
                    self._tool(function[1], rest, result)
                else:
                    raise GiveUp("all_pages of no tool")
            if bits & ~graph.functions:
                first = call.nodes[0] if call.nodes else None
                if isinstance(first, ast.Constant) and first.value in self.tools:
                    self._tool(str(first.value), rest, result)
                else:
                    raise GiveUp("all_pages of no tool")

        graph.when(call.args[0], apply)

    # -- the library ---------------------------------------------------------------------------------------------------

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
            self._identity(call, result)
            if not call.args:
                graph.put(result, graph.function(("library", "functools.cache"), ("library", "functools.cache")))
        elif dotted == "functools.wraps":
            graph.put(result, graph.function(("library", "functools.cache"), ("library", "functools.cache")))
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
            graph.put(result, graph.function(("item", len(graph.atoms)), ("library", _Getter(key))))
        elif isinstance(dotted, _Getter) and len(args) == 1:
            graph.load(args[0], dotted.key, result)
        elif dotted == "dataclasses.field":
            if "default_factory" in call.named:
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


def _is_method(function: Any) -> bool:
    return isinstance(function, tuple) and function[0] == "method"


class _Getter(str):
    """Names the function that ``operator.itemgetter`` makes, with its key."""

    __slots__ = ("key",)

    def __new__(cls, key: Key) -> _Getter:
        made = super().__new__(cls, "operator.itemgetter()")
        made.key = key
        return made


METHODS = frozenset(
    """
    get setdefault items values keys append add appendleft insert extend extendleft update copy remove discard clear
    reverse rotate popitem popleft pop sort union intersection difference symmetric_difference
    """.split()
)


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

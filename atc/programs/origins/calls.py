"""Follows calls of tools, and of the program's own functions and classes.

A call that cannot be followed gives up on the whole program (see :mod:`atc.programs.origins.program`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atc.programs.origins import library
from atc.programs.origins.graph import ANY, ITERATE, Graph, Response, Thing
from atc.programs.origins.parts import Call, Class, Function, Getter, GiveUp, Site

MAX_CALLBACKS = 3
"""Functions of the library that call functions which call such functions, and so on."""

METHODS = frozenset(
    """
    get setdefault items values keys append add appendleft insert extend extendleft update copy remove discard clear
    reverse rotate popitem popleft pop sort union intersection difference symmetric_difference __getitem__
    """.split()
)


class Calls:
    """Follows the calls of one program."""

    properties = odd_fields = in_special = False

    def __init__(self, tools: frozenset[str], literal: int) -> None:
        self.graph = Graph()
        self.tools, self.literal = tools, literal
        self.sites: dict[str, list[Site]] = {}
        self.pending: list[tuple[int, Function | None]] = []
        """Nodes of what is called: each must be a function in the end. With it the function that the call stands in."""
        self.changed: list[tuple[int, Function | None]] = []
        """Nodes of what gets an attribute: each must be something."""
        self.fixed: list[tuple[int, int]] = []
        """Nodes of what must be known at once, as the base of a class, with the functions that they were."""
        self.anywhere = self.graph.node(self.graph.atom("anywhere", "anywhere"))
        """The conditions under which special methods run: any. An iterator that these move on is not followed."""
        self.own_moving = 0
        """Iterators that special methods make for themselves."""
        self.getters: dict[str, tuple[int, int, int]] = {}
        """Of attributes that may be properties: nodes of the conditions under which they are read, of all that a
        property touches, and of what it leaves the program for."""
        self.plain: set[int] = set()
        """Nodes of texts and numbers."""
        self._made: dict[Any, Any] = {}
        self.defaults = False
        """Whether the program may have a ``defaultdict``."""
        self._states: dict[str, int] = {}
        self.in_try = self.graph.node(self.graph.atom("caught", "caught"))
        """A node that holds something: what is read somebody may catch."""

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
        if self.in_special:
            self.own_moving |= thing.atom
        return thing

    def fresh(self, sources: Iterable[int], target: int, *, moving: bool = False) -> None:
        """Let a value be something new, that can be changed and that is made of others all through."""
        thing = self.new("mixed", target)
        thing.moving = moving
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

    def mixed(
        self, sources: Iterable[int], result: int, call: Call, into: Iterable[int] = (), *, opaque: bool = False
    ) -> int:
        """Let a value hold whatever can be reached from others; the functions among that are called with all of it.

        Args:
            sources: what is given.
            result: the node of the value.
            call: what does this.
            into: what may be changed: it, and all that can be reached from it, then holds everything, too.
            opaque: whether the value is an object whose methods may change it.

        Returns:
            A node with everything.
        """
        graph = self.graph
        pool = graph.node()
        for source in sources:
            graph.reach(source, pool)
        thing = Thing(graph, "mixed")
        thing.moving, thing.opaque = True, opaque
        later = call.inner()
        later.chosen = thing.body = graph.node()
        graph.copy(call.chosen, later.chosen)
        graph.copy(thing.shape, later.chosen)
        graph.put(pool, thing.atom)
        graph.copy(pool, thing.rest)
        graph.copy(pool, result)
        which = graph.node()
        graph.copy(call.chosen, which)
        graph.flat(pool, which, "choice")

        def consume(bits: int) -> None:
            for iterator in graph.each(bits & graph.things):
                if iterator.moving or iterator.makes:
                    graph.copy(which, iterator.shape)
                    graph.copy(which, iterator.body)
                if iterator.makes:
                    graph.copy(pool, graph.keys_of(iterator))

        graph.when(pool, consume)
        for source in into:
            changed = graph.node()
            graph.reach(source, changed)
            graph.store(changed, ANY, pool, (call.chosen,))
            graph.scramble(changed, (call.chosen,))
        self.functions_in(pool, pool, later, [pool])
        return pool

    def functions_in(self, node: int, result: int, call: Call, args: list[int]) -> None:
        """Call the functions that a node may be with these arguments, and any number of them.

        What the library would make of the arguments is made of them at once: where they are all in one pool, as in
        :meth:`mixed`, there is nothing else that could come of it. The arguments choose whether they are called.
        """
        made: list[Call] = []

        def called() -> Call:
            inner = self.chosen_by(call, args)
            inner.depth = call.depth + 1
            for arg in args:
                many = self.graph.node()
                thing = self.new("list", many)
                self.graph.copy(arg, thing.rest)
                inner.stars.append((0, many))
            return inner

        def apply(bits: int) -> None:
            if bits & self.graph.functions and not made:
                made.append(called())
            for function in self.graph.each(bits & self.graph.functions):
                inner = made[0]
                if inner.depth > MAX_CALLBACKS:
                    raise GiveUp("functions that are called by functions of the library, and so on")
                if isinstance(function, tuple) and function[0] == "method":
                    self._any_method(function[1], function[2], args, result, inner)
                elif self._only_computes(function):
                    for arg in args:
                        self.graph.reach(arg, result)
                        self.graph.flat(arg, result)
                        if function[0] == "class" and function[1] not in library.READERS:  # such as `list.append`
                            self.graph.store(arg, ANY, arg, (inner.chosen,))
                            self.graph.scramble(arg, (inner.chosen,))
                else:
                    self.enter(function, inner, result)

        self.graph.when(node, apply)

    def _any_method(self, name: str, base: int, args: list[int], result: int, call: Call) -> None:
        """Call a method of a built-in type with anything: it may return, or take, whatever is there."""
        graph = self.graph
        if name in ("format", "format_map"):
            raise GiveUp("a format that is not known")
        graph.reach(base, result)
        graph.flat(base, result)
        for arg in args:
            graph.reach(arg, result)
            graph.flat(arg, result)
            if name not in library.READERS:
                changed = graph.node()
                graph.reach(base, changed)
                graph.store(changed, ANY, arg, (call.chosen,))
                graph.scramble(changed, (call.chosen,))

    def _only_computes(self, function: Any) -> bool:
        """Return whether a function of Python or its library makes something of its arguments and does nothing else."""
        if not isinstance(function, tuple):
            return False
        if function[0] == "builtin":
            return function[1] in library.SCALAR | library.LISTS | library.SELECT | library.EXCEPTIONS | {
                "type",
                "dict",
            }
        if function[0] != "library" or isinstance(function[1], Getter):
            return bool(function[0] == "class")
        module = library.module_of(function[1])
        if function[1] in library.KEEPERS or function[1] == "operator.methodcaller":
            return False
        changes = function[1] in library.CHANGING or module in ("heapq", "pprint") or function[1] == "json.dump"
        return not changes and module in library.STATELESS | library.MIXING - {"random", "secrets"}

    def chosen_by(self, call: Call, sources: Iterable[int]) -> Call:
        """Return a call that something makes because of another one, as often as some values tell."""
        inner = call.inner()
        inner.chosen = self.graph.node()
        self.graph.copy(call.chosen, inner.chosen)
        for source in sources:
            self.graph.flat(source, inner.chosen, "choice")
        return inner

    def each_function(self, node: int, call: Call, result: int) -> None:
        """Call what a node may be, if it is a function; nothing is given up where it is none."""

        def apply(bits: int) -> None:
            if found := bits & self.graph.pure:
                self.graph.put(result, self.graph.as_how(found, "choice"))
            for function in self.graph.each(bits & self.graph.functions):
                self.enter(function, call, result)
            if bits & self.graph.things:
                self._once_mixed(bits, [node, *call.all()], result, call, state)

        state = [False]
        self.graph.when(node, apply)

    def _once_mixed(self, bits: int, sources: list[int], result: int, call: Call, state: list[bool]) -> None:
        """Follow a use of what the library made as one that mixes everything: once, for more may come of it."""
        if not state[0] and any(thing.kind == "mixed" for thing in self.graph.each(bits & self.graph.things)):
            state[0] = True
            self.mixed(sources, result, call)

    def error(self, touched: int) -> int:
        """Return a node of an exception, which may hold whatever was touched before it."""
        made = self.graph.node()
        thing = self.new("mixed", made)
        self.graph.reach(touched, thing.rest)
        self.graph.flat(touched, made)
        self.graph.put(thing.rest, thing.atom)
        things = self.graph.node()
        self.graph.reach(touched, things)
        self.graph.when(things, lambda bits: self.graph.put(made, bits & self.graph.things))
        return made

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
            elif sort == "class":
                self.mixed(call.all(), result, call, call.all())
            elif sort == "identity":  # `functools.wraps(f)`
                for node in call.args:
                    self.graph.copy(node, result)
            elif sort == "init":
                self.mixed(call.all(), result, call, [what])
            elif sort == "caller" and call.args:
                self.method(call.args[0], what, function[2].made_by(call), result)
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

    def _tool(self, name: str, call: Call, result: int, *, exact: bool = True) -> None:
        graph = self.graph
        response = Response(graph, name)
        graph.put(result, graph.part(response, (), exact))
        given = call.all()
        if given:
            asked = graph.node()
            for node in dict.fromkeys(given):
                graph.flat(node, asked, "call")
            graph.copy(asked, result)
            graph.copy(asked, response.put)
        self.sites.setdefault(name, []).append(Site(call, response))

    def _own(self, function: Function, call: Call, result: int) -> None:
        graph = self.graph
        function.called = True
        graph.copy(call.chosen, function.body)
        if function.cached:  # whether it runs is chosen by what it was called with before
            for node in call.all():
                graph.flat(node, function.body, "choice")
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
        for each in self.family(cls):
            for name in each.members if each.is_data else ():  # defaults
                graph.copy(graph.field(each.thing, name), graph.field(instance, name))
        if names and instance.kind == "dict":
            for node in (*call.args, *call.spread):
                graph.add_copy(instance, node)
                graph.load(node, ANY, instance.rest)
            graph.put(graph.keys_of(instance), self.literal)
        if names:
            odd = self.odd_fields or any(each.is_odd for each in self.family(cls)) or len({*names}) < len(names)
            certain = instance.kind != "dict" and not odd
            for at, node in enumerate(call.args):
                graph.copy(node, graph.field(instance, names[at]) if certain and at < len(names) else instance.rest)
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
        owners: list[Class] = self.family(thing.cls) if thing.cls is not None else []
        for cls in owners:

            def apply(bits: int, cls: Class = cls) -> None:
                graph.put(node, bits & ~graph.functions)
                for function in graph.each(bits & graph.functions):
                    self._bind(function, owner, cls, node, name)

            graph.when(graph.field(cls.thing, name), apply)
        return node

    def _bind(self, function: Any, owner: int, cls: Class, target: int, name: str) -> None:
        """Read a function out of a class: a method is bound to what it is read of.

        Args:
            function: the function.
            owner: a node with the object; 0 where it is read of the class itself.
            cls: the class.
            target: the node that it is for.
            name: under which it is read.
        """
        graph = self.graph
        sort = function[0] if isinstance(function, tuple) else ""
        if sort == "property" and owner:
            chosen, touched, exits = self.getter(name)
            caught = graph.node(graph.atom("caught", "caught"))
            call = Call(chosen, touched, caught, (0, 0)).inner(owner)
            call.exits = exits
            self._own(function[1], call, target)
        elif sort == "classmethod":
            itself = graph.node(graph.function(("own", id(cls)), cls))
            graph.put(target, graph.function(("bound", id(function[1]), id(cls)), ("bound", function[1], itself)))
        elif sort == "staticmethod":
            graph.put(target, graph.function(("own", id(function[1])), function[1]))
        elif isinstance(function, Function) and owner:
            graph.put(target, graph.function(("bound", id(function), owner), ("bound", function, owner)))
        else:
            graph.put(target, graph.function(("same", id(function)), function))

    def getter(self, name: str) -> tuple[int, int, int]:
        """Return the nodes of an attribute that may be a property."""
        if name not in self.getters:
            self.getters[name] = (self.graph.node(), self.graph.node(), self.graph.node())
        return self.getters[name]

    # -- attributes ----------------------------------------------------------------------------------------------------

    def attribute(self, base: int, name: str, target: int) -> None:
        """Read an attribute of whatever a node may be."""
        graph = self.graph

        def apply(bits: int) -> None:
            graph.put(target, bits & graph.pure)
            if bits & graph.values:
                graph.copy(self._set_on_values(name), target)
            for part in graph.each(bits & graph.alias):
                graph.put(target, graph.of_part(part))
                graph.flat(part[0].put, target)
            for thing in graph.each(bits & graph.things):
                if thing.kind == "object":
                    graph.copy(self.attribute_of(thing, name), target)
                elif thing.kind == "mixed":
                    graph.load(base, ANY, target)
                else:  # such as the start of a range: lists and dicts have no attributes of their own
                    graph.flat(graph.deep_of(thing), target)
            for function in graph.each(bits & graph.functions):
                if isinstance(function, Class):
                    for each in self.family(function):
                        self._of_class(each, function, name, target)
                elif isinstance(function, tuple) and function[0] == "library":
                    self.member(f"{function[1]}.{name}", target)
                elif isinstance(function, tuple) and function[0] == "builtin":
                    graph.put(target, graph.function(("class", name), ("class", name)))
                elif name in library.OF_FUNCTIONS:  # any other is an error: to set one is not followed
                    raise GiveUp(f"the attribute {name} of a function")

        graph.when(base, apply)

    def method_value(self, base: int, name: str, target: int) -> None:
        """Read an attribute that may be a method of a built-in type: it can be called later."""
        self.attribute(base, name, target)
        if name in library.READERS or name in library.MAKERS or name in METHODS:
            self.graph.put(target, self.graph.function(("method", base, name), ("method", name, base)))

    def reads(self, name: str, call: Call) -> None:
        """Read an attribute that may be a property, under the conditions of a call."""
        chosen, touched, exits = self.getter(name)
        self.graph.copy(call.chosen, chosen)
        if call.touched:
            self.graph.copy(touched, call.touched)
        if call.exits:
            self.graph.copy(exits, call.exits)

    def _of_class(self, cls: Class, read_of: Class, name: str, target: int) -> None:
        graph = self.graph

        def apply(bits: int) -> None:
            graph.put(target, bits & ~graph.functions)
            for function in graph.each(bits & graph.functions):
                self._bind(function, 0, read_of, target, name)

        graph.when(graph.field(cls.thing, name), apply)

    def member(self, dotted: str, target: int) -> None:
        """Read a part of a module."""
        module = library.module_of(dotted)
        if dotted in library.RISKY or not module or (module == "sys" and dotted != "sys.exit"):
            raise GiveUp(dotted)
        if dotted.endswith(".register"):  # what is an instance of what, from then on
            raise GiveUp(dotted)
        if module in library.NAMES_ONLY and dotted not in library.KNOWN and f"{module}.*" not in library.KNOWN:
            raise GiveUp(dotted)
        if dotted not in library.MODULES and library.is_inner(dotted, module):
            raise GiveUp(dotted)
        graph = self.graph
        name = dotted.rpartition(".")[2]
        self.odd_fields = self.odd_fields or name in library.NO_FIELDS
        graph.put(target, self.literal)
        if dotted not in library.MODULES and (name in library.CONSTANTS_OF or library.is_constant(dotted)):
            return
        graph.put(target, graph.function(("library", dotted), ("library", dotted)))
        if module in library.STATEFUL:
            graph.copy(self.state(module), target)

    def state(self, module: str) -> int:
        """Return the node of what a module keeps."""
        if module not in self._states:
            self._states[module] = self.graph.node(self.literal)
        return self._states[module]

    def _set_on_values(self, name: str) -> int:
        """Return a node with what was set as an attribute of what has no place of its own, such as a constant."""
        key = ("set on values", name)
        if key not in self._made:
            self._made[key] = self.graph.node()
        return int(self._made[key])

    def set_attribute(
        self, base: int, name: str, value: int, chosen: tuple[int, ...], within: Function | None = None
    ) -> None:
        """Set an attribute of whatever a node may be."""
        graph = self.graph
        if name == "default_factory":
            raise GiveUp(name)
        graph.store(base, name, value, chosen)
        self.changed.append((base, within))

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if not isinstance(function, Class):
                    raise GiveUp("an attribute of a function")
                graph.copy(value, graph.field(function.thing, name))
                graph.reference(base, graph.field(function.thing, name))
                for node in chosen:
                    graph.copy(node, graph.field(function.thing, name))
            if bits & graph.values:
                if name in library.SLOTS:
                    raise GiveUp("what is behind a value")
                for node in (value, *chosen):
                    graph.copy(node, self._set_on_values(name))
                    for module in library.STATEFUL:
                        graph.copy(node, self.state(module))
            if bits & graph.pure:
                for origin in graph.each(bits & graph.pure):
                    if origin[3] == "value" and origin[0] in ("tool", "unknown"):
                        raise GiveUp("an attribute of a value that is not followed")

        graph.when(base, apply)

    def exit(self, call: Call) -> None:
        """End the program, which decides about everything that comes after the call."""
        if call.exits:
            self.graph.copy(call.chosen, call.exits)

    # -- who follows the rest ------------------------------------------------------------------------------------------

    def method(self, base: int, name: str, call: Call, result: int, within: Function | None = None) -> None:
        """Call a method of whatever a node may be."""
        raise NotImplementedError

    def default(self, base: int, key: int, chosen: int) -> None:
        """Read a key, which a ``defaultdict`` then has."""
        raise NotImplementedError

    def builtin(self, name: str, call: Call, result: int) -> None:
        """Call a built-in function."""
        raise NotImplementedError

    def library(self, dotted: str, call: Call, result: int) -> None:
        """Call a function of the library."""
        raise NotImplementedError

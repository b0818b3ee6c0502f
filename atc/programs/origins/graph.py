"""Propagates what program values may be through a graph of constraints, until nothing changes.

Each node holds a bit set of *atoms*: where a value came from, and which containers, functions and responses it may be
(points-to sets as of Andersen 1994). A constraint passes the atoms of one node on to another, as they are, or changed.
Atoms are only ever added, so the order in which constraints are met does not matter, and the end is the least solution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from atc._records.origins import How

MAX_STEPS = 100_000
"""Steps of one analysis; a program that needs more is not followed."""
MAX_PATH, MAX_PATHS = 6, 60
"""Keys of a path in a response, below which the path ends; and paths in one response that are told apart."""
ITERATE, ANY, PART = object(), object(), object()
"""What is read of a container: what iteration gives; the value of a key that is not known; all of both."""
Key = Any
Constraint = int | Callable[[int], None]


class TooMuch(Exception):
    """The program needs more work than the analysis may do."""


class Response:
    """Holds one place where a tool answers, or a variable that the program is given.

    Attributes:
        tool: its name; empty for a variable.
        origins: those of a variable, as a set of pure atoms.
        put: a node with everything that the program stored in any part of it.
    """

    __slots__ = ("deep", "origins", "paths", "put", "tool")

    def __init__(self, graph: Graph, tool: str, origins: int = 0) -> None:
        self.tool, self.origins, self.put, self.deep, self.paths = tool, origins, graph.node(), 0, 0


class Thing:
    """Holds one place where the program makes a container or an object.

    Attributes:
        kind: ``list`` (tuples, sets and iterators, too), ``dict``, ``object`` of a class of the program, ``mixed``.
        rest: a node with the values whose keys or positions are not known.
        fields: nodes by key, position or attribute.
        shape: a node with what chose which items there are, and in what order.
        keys: a node with the keys of a dict; 0 without any.
        moving: whether to read it changes what is read next, as with an iterator.
        makes: whether to read a key makes it, as with a ``defaultdict``.
        opaque: whether it is an object of the library whose methods may change it.
        body: of a generator: a node with the conditions under which its function runs.
        cls: of an object: the class.
    """

    __slots__ = (
        "all",
        "atom",
        "body",
        "cls",
        "copies",
        "deep",
        "fields",
        "keys",
        "kind",
        "makes",
        "moving",
        "opaque",
        "reach",
        "rest",
        "shape",
    )

    def __init__(self, graph: Graph, kind: str) -> None:
        self.kind, self.rest, self.shape = kind, graph.node(), graph.node()
        self.fields: dict[Key, int] = {}
        self.copies: list[int] = []
        self.keys = self.all = self.deep = self.reach = self.body = 0
        self.moving = self.makes = self.opaque = False
        self.cls: Any = None
        self.atom = graph.atom(("thing", len(graph.atoms)), self)
        graph.things |= self.atom


class Graph:
    """Holds nodes, atoms and constraints. Node 0 is empty for ever."""

    def __init__(self) -> None:
        self.bits: list[int] = [0]
        self._out: list[list[Constraint] | None] = [None]
        self.atoms: list[Any] = []
        self._known: dict[Hashable, int] = {}
        self.pure = self.values = self.alias = self.things = self.functions = 0
        self._todo: dict[int, int] = {}
        self._as: dict[str, dict[int, int]] = {"value": {}, "call": {}, "choice": {}}
        self._copied: set[int] = set()
        self._linked: set[tuple[int, int, str]] = set()
        self._first: list[tuple[Callable[[int], None], int]] = []
        self._at_it = False
        self.steps = 0

    # -- atoms ---------------------------------------------------------------------------------------------------------

    def atom(self, key: Hashable, what: Any) -> int:
        """Return the bit of an atom; a new one where the key is new."""
        if (bit := self._known.get(key)) is None:
            bit = self._known[key] = 1 << len(self.atoms)
            self.atoms.append(what)
        return bit

    def origin(self, kind: str, tool: str = "", path: tuple[str, ...] = (), how: str = "value") -> int:
        """Return the atom of an origin that a value has, whatever else the value is."""
        key = (kind, tool, path, how)
        if (bit := self._known.get(key)) is None:
            bit = self.atom(key, key)
            self.pure |= bit
            if how == "value":
                self.values |= bit
        return bit

    def part(self, response: Response, path: tuple[str, ...], exact: bool) -> int:
        """Return the atom of a part of a response. One that is not exact lies somewhere below the path."""
        key = (id(response), path, exact)
        if (bit := self._known.get(key)) is None:
            if path and response.paths >= MAX_PATHS:
                return self.part(response, (), False)
            response.paths += 1
            bit = self.atom(key, (response, path, exact))
            self.alias |= bit
        return bit

    def function(self, key: Hashable, what: Any) -> int:
        """Return the atom of something that can be called."""
        bit = self.atom(key, what)
        self.functions |= bit
        return bit

    def each(self, bits: int) -> Iterator[Any]:
        """Yield what the atoms of a set stand for."""
        while bits:
            low = bits & -bits
            bits ^= low
            self.steps += 1
            yield self.atoms[low.bit_length() - 1]

    def as_how(self, bits: int, how: How) -> int:
        """Return a set of pure atoms as origins of another sort: those of values change, others keep theirs."""
        if how == "value":
            return bits
        known = self._as[how]
        if (made := known.get(bits)) is None:
            made = 0
            for kind, tool, path, had in self.each(bits):
                weaker = had == "value" or (had == "call" and how == "choice")
                made |= self.origin(kind, tool, path, how if weaker else had)
            known[bits] = made
        return made

    # -- nodes and constraints -----------------------------------------------------------------------------------------

    def node(self, bits: int = 0) -> int:
        """Return a new node."""
        self.bits.append(bits)
        self._out.append(None)
        return len(self.bits) - 1

    def put(self, node: int, bits: int) -> None:
        """Add atoms to a node."""
        new = bits & ~self.bits[node]
        if new and node:
            self.bits[node] |= new
            if self._out[node]:
                self._todo[node] = self._todo.get(node, 0) | new

    def copy(self, source: int, target: int) -> None:
        """Make a node hold what another one holds."""
        if source and target and source != target:
            edge = source << 32 | target
            self.step()
            if edge in self._copied:
                return
            self._copied.add(edge)
            self._add(source, target)
            if bits := self.bits[source]:
                self.put(target, bits)

    def _add(self, source: int, constraint: Constraint) -> None:
        if (out := self._out[source]) is None:
            self._out[source] = [constraint]
        else:
            out.append(constraint)

    def when(self, source: int, apply: Callable[[int], None]) -> None:
        """Call a function with what a node holds, and with whatever is added to it."""
        if source:
            self._add(source, apply)
            if bits := self.bits[source]:
                if self._at_it:
                    self._first.append((apply, bits))
                else:
                    self._catch_up(apply, bits)

    def _catch_up(self, apply: Callable[[int], None], bits: int) -> None:
        """Apply a new constraint to what its node holds, and then those that it makes: not one within the other."""
        self._at_it = True
        self.steps += 1
        apply(bits)
        first = self._first
        while first:
            apply, bits = first.pop()
            self.step()
            apply(bits)
        self._at_it = False

    def solve(self) -> None:
        """Meet all constraints.

        Raises:
            TooMuch: it takes too many steps.
        """
        todo, out, held = self._todo, self._out, self.bits
        while todo:
            node = next(iter(todo))  # in the order in which they came: what comes early is changed again less often
            bits = todo.pop(node)
            constraints = out[node] or ()
            self.steps += len(constraints)
            self.step()
            for constraint in tuple(constraints):
                if type(constraint) is int:
                    if new := bits & ~held[constraint]:
                        held[constraint] |= new
                        if out[constraint]:
                            todo[constraint] = todo.get(constraint, 0) | new
                else:
                    constraint(bits)  # type: ignore[operator]

    def step(self) -> None:
        """Count a step.

        Raises:
            TooMuch: there were too many.
        """
        self.steps += 1 + (len(self.atoms) >> 12)
        if self.steps > MAX_STEPS:
            raise TooMuch

    # -- containers ----------------------------------------------------------------------------------------------------

    def field(self, thing: Thing, key: Key) -> int:
        """Return the node of a field; what a copied container has there is in it."""
        if (node := thing.fields.get(key)) is None:
            node = thing.fields[key] = self.node()
            for source in thing.copies:
                self.load(source, key, node)
            if thing.all:
                self.copy(node, thing.all)
        return node

    def add_copy(self, thing: Thing, source: int) -> None:
        """Make a container hold what others hold under the same keys."""
        thing.copies.append(source)
        for key, node in thing.fields.items():
            self.load(source, key, node)
        if thing.all:
            self.load(source, ANY, thing.all)
        self.shape(source, thing.shape)
        self.keys(source, self.keys_of(thing))

    def keys_of(self, thing: Thing) -> int:
        """Return the node of a container's keys."""
        if not thing.keys:
            thing.keys = self.node()
            if thing.deep:
                self.flat(thing.keys, thing.deep)
        return thing.keys

    def all_of(self, thing: Thing) -> int:
        """Return a node with all values of a container."""
        if not thing.all:
            thing.all = self.node()
            for node in (thing.rest, *thing.fields.values()):
                self.copy(node, thing.all)
            for source in thing.copies:
                self.load(source, ANY, thing.all)
        return thing.all

    def deep_of(self, thing: Thing) -> int:
        """Return a node with the origins of everything that a container holds, however deep."""
        if not thing.deep:
            thing.deep = self.node()
            self.flat(self.all_of(thing), thing.deep)
            self.copy(thing.shape, thing.deep)
            if thing.keys:
                self.flat(thing.keys, thing.deep)
        return thing.deep

    def reach_of(self, thing: Thing) -> int:
        """Return a node with everything that can be got out of a container, however deep."""
        if not thing.reach:
            thing.reach = self.node()
            self.reach(self.all_of(thing), thing.reach)
            self.reach(self.keys_of(thing), thing.reach)
            self.copy(thing.shape, thing.reach)
        return thing.reach

    def put_deep(self, response: Response) -> int:
        """Return a node with the origins of everything that was stored in a response."""
        if not response.deep:
            response.deep = self.node()
            self.flat(response.put, response.deep)
        return response.deep

    # -- what a value is made of ---------------------------------------------------------------------------------------

    def of_part(self, part: tuple[Response, tuple[str, ...], bool]) -> int:
        """Return the origins of a part of a response, as pure atoms."""
        response, path, _ = part
        if not response.tool:
            return response.origins
        return self.origin("tool", response.tool, path)

    def flat(self, source: int, target: int, how: How = "value") -> None:
        """Add the origins of everything that a value holds, however deep, to a node."""
        if not source:
            return
        self.step()  # also where nothing is new: a chain of comparisons asks for all that came before again and again
        if (source, target, how) in self._linked:
            return
        self._linked.add((source, target, how))

        def apply(bits: int) -> None:
            if found := bits & self.pure:
                self.put(target, self.as_how(found, how))
            if rest := bits & (self.alias | self.things):
                self._flat_rest(rest, target, how)

        self.when(source, apply)

    def _flat_rest(self, bits: int, target: int, how: How) -> None:
        if parts := bits & self.alias:
            found = 0
            for part in self.each(parts):
                found |= self.of_part(part)
                self.flat(self.put_deep(part[0]), target, how)
            self.put(target, self.as_how(found, how))
        for thing in self.each(bits & self.things):
            self.flat(self.deep_of(thing), target, how)

    def shape(self, source: int, target: int) -> None:
        """Add what chose the number and the order of a container's items to a node, as choices."""

        def apply(bits: int) -> None:
            found = bits & self.pure
            for part in self.each(bits & self.alias):
                found |= self.of_part(part)
                self.flat(part[0].put, target, "choice")
            if found:
                self.put(target, self.as_how(found, "choice"))
            for thing in self.each(bits & self.things):
                self.copy(thing.shape, target)

        self.when(source, apply)

    def reference(self, source: int, target: int) -> None:
        """Add what chose which container or function a value is to a node, as choices: not what the container holds."""

        def apply(bits: int) -> None:
            if found := bits & self.pure:
                self.put(target, self.as_how(found, "choice"))

        self.when(source, apply)

    def keys(self, source: int, target: int) -> None:
        """Add the keys of a dict to a node."""

        def apply(bits: int) -> None:
            self.put(target, bits & self.pure)
            for part in self.each(bits & self.alias):
                self.put(target, self.of_part(part))
                self.flat(part[0].put, target)
            for thing in self.each(bits & self.things):
                self.copy(self.keys_of(thing) if thing.kind == "dict" else self.all_of(thing), target)
                self.copy(thing.shape, target)

        self.when(source, apply)

    def load(self, source: int, key: Key, target: int, consumed: tuple[int, ...] = ()) -> None:
        """Add what stands at a key of a value to a node.

        Args:
            source: the value.
            key: a text, a position, or one of ``ITERATE``, ``ANY`` and ``PART``.
            target: the node.
            consumed: the conditions under which an item of an iterator is taken.
        """

        def apply(bits: int) -> None:
            if found := bits & self.pure:
                self.put(target, found)
            if parts := bits & self.alias:
                self._load_parts(parts, key, target)
            if things := bits & self.things:
                for thing in self.each(things):
                    self._load_of(thing, key, target, consumed)
                    if consumed and thing.moving:
                        self._taken(source, thing)
            if functions := bits & self.functions:
                for function in self.each(functions):
                    if (thing := getattr(function, "thing", None)) is not None:  # the members of an enumeration
                        self.copy(self.all_of(thing), target)

        self.when(source, apply)

    def _taken(self, source: int, thing: Thing) -> None:
        """Let what chose an iterator choose what it gives next: an item of it may have been taken, or of another."""
        if (source, thing.shape, "taken") not in self._linked:
            self._linked.add((source, thing.shape, "taken"))
            self.reference(source, thing.shape)
            self.reference(source, thing.body)

    def _load_parts(self, bits: int, key: Key, target: int) -> None:
        for response, path, exact in self.each(bits):
            if exact and isinstance(key, str):
                deeper = len(path) < MAX_PATH
                self.put(target, self.part(response, (*path, key) if deeper else path, deeper))
            else:
                self.put(target, self.part(response, path, exact and key is not ANY and key is not PART))
            self.copy(response.put, target)

    def _load_of(self, thing: Thing, key: Key, target: int, consumed: tuple[int, ...]) -> None:
        if isinstance(key, str):
            self.copy(self.field(thing, key), target)
            self.copy(thing.rest, target)
            return
        self.copy(thing.shape, target)
        for node in consumed if thing.moving else ():
            self.copy(node, thing.shape)
            if thing.body:
                self.copy(node, thing.body)
        if key is ITERATE and thing.kind == "dict":
            self.copy(self.keys_of(thing), target)
        elif isinstance(key, int) and key >= 0 and thing.kind != "object":
            self.copy(self.field(thing, key), target)
            self.copy(thing.rest, target)
        else:
            self.copy(self.all_of(thing), target)
            if thing.kind == "mixed" or key is PART:
                self.copy(self.keys_of(thing), target)

    def store(self, base: int, key: Key, value: int, chosen: tuple[int, ...], key_node: int = 0) -> None:
        """Store a value in whatever a node may be.

        Args:
            base: the container.
            key: as of :meth:`load`.
            value: a node.
            chosen: nodes of choices: the conditions around it, and what chose the key.
            key_node: the key itself.
        """
        which = self.node()
        for node in chosen:
            self.copy(node, which)
        if key_node:
            self.flat(key_node, which, "choice")

        def apply(bits: int) -> None:
            if found := bits & self.pure:
                self.put(which, self.as_how(found, "choice"))
            for response in {part[0] for part in self.each(bits & self.alias)}:
                self.copy(value, response.put)
                self.copy(which, response.put)
                self.flat(key_node, response.put)
            for thing in self.each(bits & self.things):
                known = isinstance(key, str) or (isinstance(key, int) and key >= 0)
                node = self.field(thing, key) if known else thing.rest
                self.copy(value, node)
                self.copy(which, node)
                self.copy(which, thing.shape)
                if key_node:
                    self.copy(key_node, self.keys_of(thing))

        self.when(base, apply)

    def scramble(self, base: int, chosen: tuple[int, ...]) -> None:
        """Take away, or put into another order, items of whatever a node may be: no position is certain after that."""
        which = self.node()
        self.reference(base, which)
        for node in chosen:
            self.copy(node, which)

        def apply(bits: int) -> None:
            for response in {part[0] for part in self.each(bits & self.alias)}:
                self.copy(which, response.put)
            for thing in self.each(bits & self.things):
                self.copy(which, thing.shape)
                self.copy(which, thing.rest)
                if thing.kind != "dict":
                    self.copy(self.all_of(thing), thing.rest)

        self.when(base, apply)

    def reach(self, source: int, target: int) -> None:
        """Add everything that can be got out of a value, however deep, to a node: as it is, not what it is made of."""
        if not source or (source, target, "reach") in self._linked:
            return
        self._linked.add((source, target, "reach"))

        def apply(bits: int) -> None:
            self.put(target, bits & (self.pure | self.things | self.functions))
            for response, path, exact in self.each(bits & self.alias):
                del exact
                self.put(target, self.part(response, path, False))
                self.reach(response.put, target)
            for thing in self.each(bits & self.things):
                self.copy(self.reach_of(thing), target)

        self.when(source, apply)

"""Finds the node that a name of a program stands for, where it is read.

A variable of a scope's own code has a node for each assignment (as in static single assignment), so that what it held
before is forgotten. Where branches meet, the nodes of both flow into a new one. In a loop and in a ``try`` any
assignment may come before any read: all of them flow into one node. A function that reads a variable of the scope
around it may run at any time: it reads a node that has all assignments of that scope, whenever they happen.
"""

from __future__ import annotations

from collections.abc import Callable

from atc.programs.origins.graph import Graph


class _Layer:
    """Holds the variables that one branch, or the body of one loop, assigned."""

    __slots__ = ("heads", "is_loop", "names")

    def __init__(self, is_loop: bool) -> None:
        self.names: dict[str, int] = {}
        self.heads: dict[str, int] = {}
        self.is_loop = is_loop


class Scope:
    """Holds the variables of a module, a function or a class.

    Args:
        graph: of the program.
        outer: the scope around it, whose variables it can read.
        shared: names that some function declares ``global`` or ``nonlocal``: these have one node for all assignments.
        builtin: returns the node of a name that no scope has.
        is_class: whether functions in it cannot read its variables.
    """

    def __init__(
        self,
        graph: Graph,
        outer: Scope | None,
        shared: frozenset[str],
        builtin: Callable[[str], int],
        *,
        is_class: bool = False,
    ) -> None:
        self._graph, self._shared, self._builtin, self._is_class = graph, shared, builtin, is_class
        self._readable = outer
        while self._readable is not None and self._readable._is_class:
            self._readable = self._readable._readable
        self._layers = [_Layer(False)]
        self._versions: dict[str, list[int]] = {}
        self._bound: dict[str, list[int]] = {}  # by comprehensions: no variables of this scope
        self._always: dict[str, int] = {}
        self.log: list[tuple[str, int]] = []
        """All assignments, in order."""
        self.elsewhere: dict[str, Scope] = {}
        """Scopes of the names that are declared ``global`` or ``nonlocal`` here."""

    def assign(self, name: str, node: int) -> None:
        """Let a variable hold a value from here on."""
        if (owner := self.elsewhere.get(name)) is not None:
            owner.assign(name, node)
            return
        self._layers[-1].names[name] = node
        self._versions.setdefault(name, []).append(node)
        self.log.append((name, node))
        if name in self._always:
            self._graph.copy(node, self._always[name])

    def assigned(self, name: str) -> bool:
        """Return whether a variable of this scope, or of the module's inputs, may have a value here already."""
        return name in self._versions or self._readable is None or self._is_class

    @property
    def is_class(self) -> bool:
        """Return whether this is the body of a class, which what runs within it cannot read."""
        return self._is_class

    def read(self, name: str) -> int:
        """Return the node of what a name stands for here."""
        if (owner := self.elsewhere.get(name)) is not None:
            return owner.at_any_time(name)
        if name in self._shared:
            return self.at_any_time(name)
        return self._read(name, len(self._layers) - 1)

    def _read(self, name: str, depth: int) -> int:
        layer = self._layers[depth]
        if (node := layer.names.get(name)) is not None:
            return node
        if depth == 0:
            return self._outside(name)
        node = self._read(name, depth - 1)
        if layer.is_loop:
            before, node = node, self._graph.node()
            self._graph.copy(before, node)
            layer.names[name] = layer.heads[name] = node
        return node

    def _outside(self, name: str) -> int:
        return self._readable.at_any_time(name) if self._readable is not None else self._builtin(name)

    def at_any_time(self, name: str) -> int:
        """Return a node with everything that a name may stand for while the program runs."""
        if (node := self._always.get(name)) is None:
            node = self._always[name] = self._graph.node()
            for version in (*self._versions.get(name, ()), *self._bound.get(name, ())):
                self._graph.copy(version, node)
            self._graph.copy(self._outside(name), node)
        return node

    def owner(self, name: str) -> Scope | None:
        """Return the scope around this one, but for the module, that assigns a name."""
        scope = self._readable
        while scope is not None and (name not in scope._versions or scope._readable is None):
            scope = scope._readable
        return scope

    # -- branches ------------------------------------------------------------------------------------------------------

    def open(self, *, is_loop: bool = False) -> int:
        """Begin a branch, or the body of a loop; return the number of assignments so far."""
        self._layers.append(_Layer(is_loop))
        return len(self.log)

    def close(self) -> dict[str, int]:
        """End a branch; return what it assigned."""
        return self._layers.pop().names

    def join(self, branches: list[dict[str, int]]) -> None:
        """Go on after branches of which one was taken; one that assigned nothing is ``{}``."""
        for name in dict.fromkeys(name for branch in branches for name in branch):
            found = dict.fromkeys(branch.get(name) or self.read(name) for branch in branches)
            if len(found) == 1:
                (node,) = found
            else:
                node = self._graph.node()
                for each in found:
                    self._graph.copy(each, node)
            self._layers[-1].names[name] = node

    def any_since(self, begin: int) -> dict[str, int]:
        """Return nodes of what the variables assigned since then may hold if that part ended anywhere."""
        found: dict[str, int] = {}
        for name, node in self.log[begin:]:
            if name not in found:
                found[name] = self._graph.node()
                self._graph.copy(self.read(name), found[name])
            self._graph.copy(node, found[name])
        return found

    def close_loop(self, begin: int) -> None:
        """End the body of a loop that :meth:`open` began: what it assigned is there in the next round, and after it."""
        layer = self._layers.pop()
        heads: dict[str, int] = {}
        for name, node in self.log[begin:]:
            if name not in heads:
                if (head := layer.heads.get(name)) is None:
                    head = self._graph.node()
                    self._graph.copy(self.read(name), head)
                heads[name] = head
            self._graph.copy(node, heads[name])
        self._layers[-1].names.update(heads)

    def bind(self, name: str, node: int) -> None:
        """Let a variable of a comprehension hold a value, until its branch is closed."""
        self._layers[-1].names[name] = node
        self._bound.setdefault(name, []).append(node)
        if name in self._always:
            self._graph.copy(node, self._always[name])

    def preset(self, names: dict[str, int]) -> None:
        """Let variables hold values in the branch that was just opened."""
        self._layers[-1].names.update(names)

    def final(self, name: str) -> int:
        """Return the node of what a variable may hold whenever the program ends; 0 where nothing assigns it."""
        return self.at_any_time(name) if name in self._versions else 0

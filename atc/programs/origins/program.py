"""Finds where the arguments of a program's calls can come from, without running it.

The idea of origins on values, and of rules over them, is that of CaMeL (Debenedetti et al. 2025); it runs programs of a
subset in an interpreter of its own. Here the program is Python's, so it is analysed as a whole before any rule asks:
a points-to analysis (Andersen 1994) whose sets hold origins beside containers and functions.

Why nothing is missed:

* *Data.* Each expression has a node, and each way in which Python makes a value of others has a constraint. Sets only
  grow, so loops, recursion and the order of calls need no thought: the solution holds for every order.
* *Aliases.* A container is the place that makes it. Whatever is stored in one is there for all names of it; a response
  is a container, too. A key that is no constant counts for all keys.
* *Choices.* A condition, an iterable, a filter, a key, an order is put into everything that it decides about: what is
  assigned, stored, returned, yielded or called under it, and what comes after a place where it may have left. Where
  somebody may catch an exception, all that was touched before decides about what comes after, and about the handler.
* *Functions* are called with what reaches them, wherever they were passed on: what they change, return and raise comes
  to every caller. What the library makes of its arguments holds all of them, and calls those that are functions.
* *The rest is refused.* Syntax, built-ins, modules and special methods that are followed are listed
  (:mod:`atc.programs.origins.library`). With anything else, with a call of what is not known, and where the work is too
  much, every argument of the program is ``unknown``, too.

Context is not told apart: a helper that is called from two places mixes what both give it. Exceptions that nobody
catches end the program, which decides about no argument: only an explicit ``raise``, ``assert`` or ``exit`` counts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence

from atc._records.origins import UNKNOWN, CallOrigins, How, Origin, OriginKind, Origins
from atc.programs.origins.graph import Thing, TooMuch
from atc.programs.origins.parts import GiveUp, Site
from atc.programs.origins.statements import Statements
from atc.programs.program import Program
from atc.schemas.protocol import Protocol, parameters_of

MAX_PARTS = 200
"""Parts of one argument that have origins of their own."""


class ProgramOrigins:
    """Follows the data of one program, and never misses an origin: what it cannot follow is ``unknown``.

    Args:
        program: as it runs.
        tools: the names of all tools that it may call; with their protocols, positional arguments have names.
        inputs: the origins of the variables that it is given, by name; one that is not named is ``task``.
        task: in the user's words: a literal that stands there is ``task``.
        text: what other literals are: ``literal``, or ``author`` where a client's model wrote the program.

    Attributes:
        gave_up: why the program cannot be followed; empty where it can.
    """

    def __init__(
        self,
        program: Program,
        tools: Collection[str] | Mapping[str, Protocol],
        *,
        inputs: Mapping[str, Origins] | None = None,
        task: str = "",
        text: OriginKind = "literal",
    ) -> None:
        self._protocols: Mapping[str, Protocol] = tools if isinstance(tools, Mapping) else {}
        self._task, self._text = task.casefold(), text
        self._read: Statements | None = None
        self._members: dict[tuple[int, str], int] = {}
        self._answers: dict[tuple[str, int, tuple[str, ...]], CallOrigins] = {}
        self.gave_up = ""
        if program.tree is None:
            self.gave_up = "it is no program"
            return
        read = Statements(program.tree, program.nodes, frozenset(tools), self._kind_of, text)
        atoms = {
            name: sum({read.graph.origin(each.kind, each.tool, each.path, each.how) for each in origins})
            for name, origins in (inputs or {}).items()
        }
        try:
            read.read(atoms)
        except (GiveUp, TooMuch, RecursionError) as error:
            self.gave_up = str(error) or type(error).__name__
        self._read = read
        read.graph.steps = 0

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
        """Return the origins of the arguments of a call.

        Args:
            tool: its name.
            line: of the program, by the program's own claim: one where no such call stands is not followed.
            arguments: their names, as the tool's protocol has them.

        Returns:
            The origins of each name, and of the parts of an argument that the program writes as a display. A call that
            the program makes under a condition has the condition's origins in each of its arguments, as ``choice``.
        """
        asked = (tool, line, tuple(arguments))
        if asked not in self._answers:  # a loop asks for the same call again and again, and all share one budget
            try:
                found = self._of_sites(self._sites(tool, line), self._names(tool), arguments)
            except TooMuch:
                found = {}
            doubt: Origins = UNKNOWN if self.gave_up else frozenset()
            made = {name: origins | doubt for name, origins in found.items()}
            self._answers[asked] = made or dict.fromkeys(arguments, UNKNOWN)
        return self._answers[asked]

    def _of_sites(
        self, sites: Sequence[Site], names: list[tuple[str, str]], arguments: Collection[str]
    ) -> dict[str, Origins]:
        found: dict[str, Origins] = {}
        for name in arguments if sites else ():
            parts: dict[str, Origins] = {}
            for site in sites:
                nodes = self._nodes(site, name, names, arguments)
                if not nodes:
                    parts[name] = parts.get(name, frozenset()) | UNKNOWN
                chosen = self._deep([site.call.chosen])
                self._add(parts, name, nodes, chosen)
            found.update(parts)
        return found

    def of_variable(self, name: str) -> Origins:
        """Return the origins of what a module's variable may hold when the program ends, such as ``answer``."""
        if self.gave_up or self._read is None:
            return UNKNOWN
        node = self._read.top.final(name)
        try:
            return self._whole([node]) if node else frozenset()
        except TooMuch:
            return UNKNOWN

    # ------------------------------------------------------------------------------------------------------------------

    def _sites(self, tool: str, line: int) -> list[Site]:
        sites = self._read.sites.get(tool, []) if self._read is not None else []
        direct = [site for site in sites if site.call.direct and site.call.lines[0] <= line <= site.call.lines[1]]
        return direct + [site for site in sites if not site.call.direct]

    def _names(self, tool: str) -> list[tuple[str, str]]:
        """Return the names of a tool's parameters as programs write them and as its protocol has them, in order."""
        protocol = self._protocols.get(tool)
        if not isinstance(protocol, Protocol):
            return []
        return [(parameter.name, parameter.original) for parameter in parameters_of(protocol)]

    def _nodes(
        self, site: Site, name: str, names: list[tuple[str, str]], arguments: Collection[str]
    ) -> dict[int, bool]:
        """Return the nodes that may be an argument, each with whether it surely is."""
        call = site.call
        written = {original: own for own, original in names}
        known = {own for own, _ in names} | set(arguments)
        own = written.get(name, name)
        if own in call.named:
            return {call.named[own]: True}
        found = {node: False for key, node in call.named.items() if key not in known}
        order = [original for _, original in names]
        if order and not call.stars and name in order:
            at = order.index(name)
            found.update({call.args[at]: True} if at < len(call.args) else {})
        else:
            found.update(dict.fromkeys(call.args, False))
        found.update(dict.fromkeys((node for _, node in call.stars), False))
        if call.spread and not self.gave_up:
            found.update(dict.fromkeys((self._member(node, own) for node in call.spread), True))
        return found

    def _member(self, node: int, name: str) -> int:
        """Return a node with what stands under a name in what a call is given behind ``**``."""
        assert self._read is not None
        if (node, name) not in self._members:
            graph = self._read.graph
            made = self._members[node, name] = graph.node()
            graph.load(node, name, made)
            graph.solve()
        return self._members[node, name]

    def _add(self, parts: dict[str, Origins], name: str, nodes: dict[int, bool], chosen: Origins) -> None:
        """Add the origins of an argument, and of the parts that displays give it."""
        assert self._read is not None
        graph = self._read.graph
        parts[name] = parts.get(name, frozenset()) | self._whole([*nodes]) | chosen
        todo = [(name, [*nodes], 0)] if all(nodes.values()) else []
        while todo and len(parts) < MAX_PARTS:
            path, here, depth = todo.pop()
            things = [t for node in here for t in graph.each(graph.bits[node] & graph.things)]
            if depth > 8 or len(things) != 1 or things[0].kind != "dict" or things[0].copies:
                continue
            thing: Thing = things[0]
            if any(graph.bits[node] & graph.alias for node in here) or graph.bits[thing.rest]:
                continue
            for key, node in thing.fields.items():
                if isinstance(key, str):
                    inner = f"{path}.{key}"
                    parts[inner] = parts.get(inner, frozenset()) | self._deep([node, *self._references(here)]) | chosen
                    todo.append((inner, [node], depth + 1))

    def _whole(self, nodes: list[int]) -> Origins:
        """Return all origins of a value; an empty container is the program's, and what is nothing is not known."""
        if found := self._deep(nodes):
            return found
        return frozenset({_origin((self._text, "", (), "value"))}) if any(map(self._holds, nodes)) else UNKNOWN

    def _holds(self, node: int) -> bool:
        assert self._read is not None
        return bool(self._read.graph.bits[node] & self._read.graph.things)

    def _references(self, nodes: list[int]) -> list[int]:
        assert self._read is not None
        graph = self._read.graph
        return [graph.node(graph.bits[node] & graph.pure) for node in nodes]

    def _deep(self, nodes: list[int]) -> Origins:
        """Return the origins of everything that some nodes hold, however deep."""
        assert self._read is not None
        graph = self._read.graph
        found, things, todo = 0, set(), [*nodes]
        seen: set[int] = set()
        while todo:
            node = todo.pop()
            if node in seen or not node:
                continue
            seen.add(node)
            graph.step()
            bits = graph.bits[node]
            found |= bits & graph.pure
            for part in graph.each(bits & graph.alias):
                found |= graph.of_part(part)
                todo.append(part[0].put)
            for thing in graph.each(bits & graph.things):
                if thing.atom not in things:
                    things.add(thing.atom)
                    todo += [thing.rest, thing.shape, thing.keys, *thing.fields.values()]
                    todo += [graph.all_of(thing)] if thing.copies and not self.gave_up else []
                    if thing.copies and not self.gave_up:
                        graph.solve()
        return frozenset(map(_origin, graph.each(found)))

    def _kind_of(self, text: str) -> str:
        folded = text.casefold()
        if not folded.strip() or len(folded) > len(self._task) or folded not in self._task:
            return self._text
        return "task" if re.search(rf"(?<!\w){re.escape(folded)}(?!\w)", self._task) else self._text


@functools.lru_cache(maxsize=4_096)
def _origin(made: tuple[OriginKind, str, tuple[str, ...], How]) -> Origin:
    kind, tool, path, how = made
    return Origin(kind=kind, tool=tool, path=path, how=how)

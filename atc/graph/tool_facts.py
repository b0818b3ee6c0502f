"""What is read off one protocol: its arguments, the fields of its response, and which of these repeat an argument."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from atc.graph.acts import may_write, surely_reads
from atc.graph.edges import Path
from atc.graph.identifiers import NAMES, REGISTERED, THINGS, is_identifier
from atc.graph.name_affinity import ending, endings
from atc.graph.resources import Field, Fields, Wanted, fit, phrase_of, route_of, thing_in, wanted
from atc.graph.suppliers import ECHO, is_handed_out, places_of
from atc.tools.protocol import Parameter, Protocol, parameters_of

MAX_INNER = 20
"""Identifiers within the arguments of one tool that are looked at."""
MAX_ECHOES = 10_000
"""Fields of one tool, times arguments that it needs, of which it is asked whether the one repeats the other."""


class Inner(NamedTuple):
    """An identifier within an argument: ``product_id`` of the ``lines`` of an order.

    Attributes:
        parameter: the original name of the argument.
        path: to it in the argument; ``[]`` is an item of a list.
        asked: an argument that would ask for the same thing.
    """

    parameter: str
    path: Path
    asked: Parameter


class ToolFacts:
    """What is read off one protocol; kept as long as the protocol is in use.

    Attributes:
        parameters: as :func:`parameters_of` gives them.
        arguments: the names of those that a call must give.
        identifiers: how many of these are identifiers, which another tool hands out.
        writes, reads: a call changes something, or surely nothing, as far as is known.
        route: the path of its operation; ``None`` where it has none.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.parameters = parameters_of(protocol)
        required = [each for each in self.parameters if each.required]
        self.arguments = tuple(each.name for each in required)
        self.identifiers = sum(is_handed_out(each.original, each.schema) for each in required)
        self.writes, self.reads = may_write(protocol), surely_reads(protocol)
        self.route = route_of(protocol.source.path) if protocol.source.path else None
        self._own: dict[str, list[str]] = {}
        for each in required:
            for last in endings(each.original):
                self._own.setdefault(last, []).append(each.original)
        self._found: dict[str, tuple[list[Field], list[Field]]] = {}

    @cached_property
    def identifies(self) -> frozenset[tuple[str, str]]:
        """The things that its arguments name, required or not, each with the word that it is called by."""
        taken = (self.wanted(each.original) for each in self.parameters if is_identifier(each.original))
        return frozenset((each.things[-1], each.words[-1]) for each in taken if each.things)

    @cached_property
    def inner(self) -> Sequence[Inner]:
        """The first identifiers within its arguments. A bare ``id`` is of the field that it lies in.

        The id that a new thing is given is none. Nor are codes, numbers and keys: within a body they are its content.
        """
        new = self.route.things[:1] if self.route else phrase_of(self.protocol.plain_name)[-1:]
        makes = self.route.adds if self.route else self.writes
        found: dict[Path, Inner] = {}
        for path, named, _, schema in places_of(self.protocol.parameters):
            steps = [step for step in path if step != "[]"]
            if not named or len(steps) < 2 or not is_identifier(path[-1], THINGS | REGISTERED) or path in found:
                continue
            name = path[-1] if thing_in(path[-1]) else f"{steps[-2]}_{path[-1]}"
            if is_handed_out(name, schema) and not (makes and thing_in(name) in new):
                found[path] = Inner(path[0], path[1:], Parameter(name, name, schema, False))
            if len(found) == MAX_INNER:
                break
        return tuple(found.values())

    @cached_property
    def searches(self) -> bool:
        """Whether it finds things by words, as a task has them."""
        return any(is_identifier(each.original, NAMES) for each in self.parameters)

    def wanted(self, parameter: str) -> Wanted:
        """What an argument of the tool takes."""
        return wanted(parameter, self.protocol.plain_name, self.protocol.source.path)

    @cached_property
    def _places(self) -> tuple[Mapping[str, Sequence[tuple[int, Path]]], Fields]:
        """The paths to all fields, by the last word of the field's name; and what says whose they are."""
        found: dict[str, list[tuple[int, Path]]] = {}
        titles: dict[Path, str] = {}
        paths: list[Path] = []
        lists: set[Path] = set()
        for path, named, title, _ in places_of(self.protocol.returns):
            if path[-1:] == ("[]",):
                lists.add(path[:-1])
            if named:
                found.setdefault(ending(path[-1]), []).append((len(paths), path))
                paths.append(path)
            if title:
                titles.setdefault(path, title)
        return found, Fields(self.protocol.plain_name, self.protocol.source.path, paths, titles, lists)

    @property
    def responds(self) -> bool:
        """Whether fields of its response are known."""
        return bool(self._places[0])

    @property
    def endings(self) -> Collection[str]:
        """The words that the names of its fields end with."""
        return self._places[0].keys()

    def fields(self, last: str) -> Sequence[Field]:
        """The fields whose names end with a word. What a tool must be given it only repeats: that is no supply."""
        return self._told_apart(last)[0]

    def echoes(self, last: str) -> Sequence[Field]:
        """The fields whose names end with a word, and that only repeat what the tool must be given."""
        return self._told_apart(last)[1]

    def _told_apart(self, last: str) -> tuple[list[Field], list[Field]]:
        if (kept := self._found.get(last)) is None:
            by_ending, fields = self._places
            paths = by_ending.get(last, ())
            own = [self.wanted(name) for name in self._own.get(last, ())[: MAX_ECHOES // (len(paths) or 1)]]
            kept = [], []
            for number, path in paths:
                field = fields.at(path, number)
                kept[any(self._echoes(one, field) for one in own)].append(field)
            self._found[last] = kept
        return kept

    def _echoes(self, own: Wanted, field: Field) -> bool:
        if self.route is not None and not thing_in(field.name):
            at = self.route.placeholders.get(own.name, len(self.route.steps))
            if self.route.lists_behind(at):  # `/users/{user_id}/friends`: in a list others, beside it the user
                return not self.route.adds and "[]" not in field.path  # what is put there is no user either
        found = fit(own, field)
        return found is not None and found.score >= ECHO

    def field(self, path: Path) -> Field:
        """The field at a path of the response."""
        return self._places[1].at(path)

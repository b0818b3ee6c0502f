"""What is read off one protocol: its arguments, the fields of its response, and which of these repeat an argument."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from atc._host.lazy import lazy
from atc._records.records import Effect
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.resources import OF_SERVICES, Field, Fields, Wanted, fit, phrase_of, route_of, thing_in, wanted
from atc.catalogue.graph.suppliers import ECHO, Scope, is_handed_out, places_of
from atc.schemas.identifiers import (
    GENERIC,
    NAMES,
    REGISTERED,
    THINGS,
    bare,
    ending,
    endings,
    is_identifier,
    spelled_words,
    words_of,
)
from atc.schemas.protocol import Parameter, Protocol, parameters_of
from atc.schemas.telltales import READS, telltale
from atc.schemas.validate import types_of

# ----------------------------------------------------------------------------------------------------------------------
# What tools that write do to a thing, as far as their names say: what makes it, and what takes it back.


def may_write(protocol: Protocol) -> bool:
    """Whether a call changes something: the tool is known to write, or nothing is known and its name says so."""
    if protocol.effect is Effect.UNKNOWN:
        return bool(telltale(protocol.source.operation) or telltale(protocol.name))
    return protocol.effect is Effect.WRITE


def surely_reads(protocol: Protocol) -> bool:
    """Whether a call only reads: the tool is known to, or nothing is known and its name says so."""
    return protocol.effect is Effect.READ or (
        protocol.effect is Effect.UNKNOWN and not may_write(protocol) and not READS.isdisjoint(words_of(protocol.name))
    )


def writers(protocols: Mapping[str, Protocol]) -> frozenset[str]:
    """The keys of the tools of which a call changes something, as far as is known."""
    return frozenset(key for key, each in protocols.items() if may_write(each))


def acts_otherwise(one: str, other: str) -> bool:
    """Whether the names of two tools that write say different acts, as ``confirm_order`` and ``cancel_order`` do.

    What they take and give may be the same to the last field. A name without an act that is known says nothing.
    """
    first, second = _acts(one, other)
    return bool(first and second) and not first & second


def undoes(one: str, other: str) -> bool:
    """Whether one of two tools takes back what the other does, as far as their names say."""
    first, second = ({_ACTS[act] for act in acts} for acts in _acts(one, other))
    return bool(first and second) and not first & second


def _acts(one: str, other: str) -> tuple[set[str], set[str]]:
    """The acts in which the names of two tools differ: the ``order`` of both says nothing."""
    words = set(words_of(one)), set(words_of(other))
    alone = words[0] - words[1], words[1] - words[0]
    first, second = ({_ACT_OF[word] for word in some if word in _ACT_OF} for some in alone)
    return first, second


_ACTS = {
    "create add book reserve make open place new order insert register buy purchase schedule start begin activate "
    "enable resume restore undelete": True,
    "update edit change modify set adjust patch replace": True,
    "move rename transfer": True,
    "confirm approve accept allow grant": True,
    "pay charge debit": True,
    "send post publish share submit notify": True,
    "lock block ban freeze mute": True,
    "subscribe follow join": True,
    "increase raise increment": True,
    "delete remove cancel drop close stop end terminate unregister destroy clear deactivate disable unschedule suspend "
    "pause revoke abort withdraw archive hide": False,
    "reject decline deny refuse": False,
    "refund reimburse": False,
    "recall unpublish retract unsend unshare": False,
    "unlock unblock unban unfreeze unmute": False,
    "unsubscribe unfollow leave": False,
    "decrease lower decrement reduce": False,
}
"""Acts, as words of names of tools that write, and whether they do a thing or take it back."""
_ACT_OF = {word: act for act in _ACTS for word in act.split()}

# ----------------------------------------------------------------------------------------------------------------------
# What is read off one protocol: its arguments, the fields of its response, and which of these repeat an argument.


MAX_INNER = 20
"""Identifiers within the arguments of one tool that are looked at."""
MAX_ECHOES = 10_000
"""Fields of one tool, times arguments that it needs, of which it is asked whether the one repeats the other."""


_WHOLE: tuple[Path, ...] = ((), ("[]",))
"""Places of a response that is one value, or a list of values."""
_VALUES = frozenset({"string", "integer"})
"""Types of such a value that may be an identifier."""
_SINGLE = _VALUES | {"number", "boolean", "null"}
"""Types of what has no items: of a text the first one would be a letter."""


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
    def needs(self) -> frozenset[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The things that a call must name, each with the word that it is called by."""
        taken = (self.wanted(each.original) for each in self.parameters if each.required)
        return frozenset((each.things[-1:], each.words[-1:]) for each in taken)

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
        single: set[Path] = set()
        whole: Path | None = None
        for path, named, title, schema in places_of(self.protocol.returns):
            if path[-1:] == ("[]",):
                lists.add(path[:-1])
            if named:
                found.setdefault(ending(path[-1]), []).append((len(paths), path))
                paths.append(path)
                if (types := types_of(schema)) and types <= _SINGLE:
                    single.add(path)
            if title:
                titles.setdefault(path, title)
            if path in _WHOLE and types_of(schema) & _VALUES:
                whole = path
        fields = Fields(self.protocol.plain_name, self.protocol.source.path, paths, titles, lists, single - lists)
        if self.reads and whole is not None and not paths and fields.whole:
            found[ending(fields.whole)] = [(0, whole)]
        return found, fields

    @property
    def responds(self) -> bool:
        """Whether fields of its response are known."""
        return any(path not in _WHOLE for some in self._places[0].values() for _, path in some)

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
        has, beside = spelled_words(field.name), own.words[: -len(spelled_words(field.name)) or None]
        if beside and (*beside, *has) == own.words and field.owner.issuperset(beside):
            return True  # the `username` of a user, where `user_username` is given
        found = fit(own, field)
        return found is not None and found.score >= ECHO

    def field(self, path: Path) -> Field:
        """The field at a path of the response."""
        return self._places[1].at(path)


# ----------------------------------------------------------------------------------------------------------------------
# The fields of all tools, found by the words that an affinity to an argument needs (:mod:`atc.schemas.identifiers`).
#
# They are looked up by service, and each look-up has a bound. So the time grows with the number of tools, and not with
# its square where thousands of them have a field of one name.


MAX_TOOLS = 40
"""Tools that are named as suppliers of one parameter: those that need the fewest identifiers themselves."""
MAX_PLACES = 20
"""Places of one tool's response that are named as supplies of one parameter."""
MAX_WORDS = 12
"""Words of one name that it is found by."""
Where = tuple[Literal["of", "free", "all"], str]
"""Where a supply is sought: in one service, among what serves every service, anywhere."""
_Key = tuple[object, ...]


class Supply(NamedTuple):
    """A field among those of all tools; sorted, the tools that need the fewest identifiers come first."""

    place: int
    number: int
    tool: str
    field: Field


class _Posting:
    """The supplies that are found by one key: of so many tools, and so many places of each."""

    __slots__ = ("of_last", "supplies", "tools")

    def __init__(self) -> None:
        self.tools, self.of_last = 0, 0
        self.supplies: list[Supply] = []

    def add(self, supply: Supply) -> None:
        """Take one more; they come in order."""
        new = not self.supplies or self.supplies[-1].tool != supply.tool
        if (new and self.tools > MAX_TOOLS) or (not new and self.of_last == MAX_PLACES):
            return  # one more tool than are named: the consumer may be among them
        self.tools, self.of_last = self.tools + new, 1 if new else self.of_last + 1
        self.supplies.append(supply)


class SupplyIndex:
    """The fields of some tools, by the words that they are found by.

    Args:
        places: of the tools, in the order in which they are named as suppliers.
        facts: gives what is read off a tool's protocol.
        scope: gives the service within which a tool's identifiers mean something.
    """

    def __init__(
        self, places: Mapping[str, int], facts: Callable[[str], ToolFacts], scope: Callable[[str], Scope]
    ) -> None:
        self._places, self._facts, self._scope = places, facts, scope
        self._postings: dict[tuple[Where, bool, _Key], _Posting] = {}
        self._entered: set[str] = set()

    def matching(self, what: Wanted, where: Where) -> Iterator[Supply]:
        """The fields whose names may be those of what an argument takes; one may come twice."""
        for last in found_by(what) - self._entered:
            self._enter(last)
        for key in _keys_of_parameter(what):
            for foreign in (False, True):
                if (posting := self._postings.get((where, foreign, key))) is not None:
                    yield from posting.supplies

    @lazy
    def _ends(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for key in self._places:
            for last in self._facts(key).endings:
                found.setdefault(last, []).append(key)
        return found

    def _enter(self, last: str) -> None:
        """Enter the fields whose names end with a word. No other word's fields are found by the same keys."""
        made: dict[tuple[Where, bool, _Key], _Posting] = {}
        for key in self._ends.get(last, ()):
            scope = self._scope(key)
            free = scope.open or not scope.service
            services: list[Where] = [("of", scope.service), ("all", "")]
            if free:
                services.append(("free", ""))
            for field in self._facts(key).fields(last):
                supply = Supply(self._places[key], field.number, key, field)
                for each in _keys_of_field(field):
                    for where in services:
                        at = (where, field.is_foreign, each)
                        if (posting := made.get(at)) is None:
                            posting = made[at] = _Posting()
                        posting.add(supply)
        self._postings.update(made)
        self._entered.add(last)


def found_by(what: Wanted) -> frozenset[str]:
    """The last words, of which a field's name must have one to be what an argument takes."""
    return endings(what.name).union(what.things[-1:])


def _keys_of_field(field: Field) -> Iterator[_Key]:
    """What a field is found by; each key is for one case of :func:`affinity`."""
    has = spelled_words(field.name)
    yield "same", has
    for start in range(max(1, len(has) - MAX_WORDS), len(has)):
        yield "end", has[start:]
    yield "pair", has[-2:]
    if field.values:
        yield "values", has[-1:]
    if not thing_in(field.name):
        for word in sorted(field.owner)[:MAX_WORDS]:
            yield "of", has[-1:], word


def _keys_of_parameter(what: Wanted) -> Iterator[_Key]:
    """What the fields are found by that have an affinity of :data:`LEAST` to what an argument takes."""
    core = bare(what.words)
    for thing in (what.things if what.bare else what.things[-1:])[:MAX_WORDS]:
        yield "of", core[-1:], thing
    if what.bare:
        if core[-1] in OF_SERVICES:
            yield from (("same", what.words), ("same", core))
        return
    yield "values", what.things[-1:]
    yield "same", what.words
    yield "same", core
    yield "end", core
    for start in range(max(1, len(core) - MAX_WORDS), len(core)):
        yield "same", core[start:]
    if core[-1] in GENERIC and core[-2:-1] and core[-2] not in GENERIC:
        yield "pair", core[-2:]

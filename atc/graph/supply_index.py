"""The fields of all tools, found by the words that an affinity to an argument needs (:mod:`atc.graph.name_affinity`).

They are looked up by service, and each look-up has a bound. So the time grows with the number of tools, and not with
its square where thousands of them have a field of one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from atc.graph.name_affinity import GENERIC, bare, endings, spelled_words
from atc.graph.resources import OF_SERVICES, Field, Wanted, thing_in
from atc.graph.suppliers import Scope
from atc.graph.tool_facts import ToolFacts
from atc.lazy import lazy

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
        """The tools that have fields whose names end with a word, in the order in which they are named."""
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

"""What a found tool needs and nobody gives it: a provider is sought, by what documents say, response fields and names.

A task seldom names the look-up that turns a name into an id. ToolQP leaves it to the planner to see that (§3.1); here
it is said outright, from the protocols: for each required identifier that neither the task nor a found tool's response
supplies, the tool that its description names or whose response has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atc.graph.mentions import names_its_source
from atc.graph.name_affinity import GENERIC, VERBS, words_of
from atc.graph.suppliers import NAMES, Supplier, looks_given, suppliers_of
from atc.result import Effect
from atc.retrieval.document_fields import service_of
from atc.retrieval.index import ToolIndex
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol

CANDIDATES = 40
"""Looked at for one need: the likeliest by their words."""
_OF_PAGES = frozenset({"page", "cursor", "next", "offset", "after", "before"})
_METHODS = frozenset({"post", "put", "delete", "patch"})
SURE = 6
"""Of the tools that were found, those whose needs are looked after: the likeliest."""
MOST = 6
"""Providers that are added to what was found."""
_KEPT = 1_000  # protocols that are not read again
_LOOKS_UP = (
    frozenset({"search", "find", "lookup", "query", "resolve"}),
    frozenset({"list", "all"}),
    frozenset({"get"}),
)
"""Verbs of tools that look things up, the surest first."""
_WORD = re.compile(r"[\w-]+")
_VALUE = re.compile(r"(?=.*\d).{3,}|[A-Z]{3,}")
"""A word that may be an identifier: with digits in it, or of capitals."""
_DATE = re.compile(r"(?:19|20)\d\d(?:-\d\d){0,2}")
_BEFORE, _AFTER = 2, 4
"""Words from what may be an argument's value to its name: "BA123 as flight", "the flight with the id BA123"."""
_MOST_TEXT = 20_000
"""Characters of a task that are looked at."""


@dataclass(frozen=True)
class Need:
    """A required argument that nothing found so far supplies, and who could.

    Attributes:
        tool: that needs it. ``parameter``: its name.
        provider: the tool that can supply it.
        source: how a program writes that; empty where only names speak for it.
    """

    tool: str
    parameter: str
    provider: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.tool} needs {self.parameter}: {self.source or self.provider} supplies it"


class Prerequisites:
    """Finds providers in one index."""

    def __init__(self, index: ToolIndex) -> None:
        self._index = index
        self._protocol = lru_cache(maxsize=_KEPT)(index.protocol)

    def of(self, found: Sequence[str], task: str) -> list[Need]:
        """The needs of found tools, and of those that supply them; one provider for each tool and parameter.

        Args:
            found: ids of tools, the likeliest first.
            task: the user's words; an identifier in them supplies an argument that they name.
        """
        tools, needs = list(found), []
        for tool in tools:  # it grows: a provider has needs too
            if len(tools) > len(found) + MOST:
                break
            for need in self._needs(tool, tools, task):
                needs.append(need)
                tools.append(need.provider)
        return needs

    def _needs(self, tool: str, have: Sequence[str], task: str) -> Iterator[Need]:
        protocol = self._as(tool)
        wanted, one_will_do = _wanted(protocol)
        if not wanted:
            return
        others = [self._as(other, number) for number, other in enumerate(have, 1) if other != tool]
        named = {other.name: other for other in others}
        supplied = suppliers_of([protocol, *others], [protocol])
        taken: set[str] = set()
        for parameter in wanted:
            sources = supplied.get((protocol.name, parameter.original), ())
            if any(_can_give(source, named[source.tool], task) for source in sources) or _said(parameter, task):
                if one_will_do:
                    return
                continue
            need = self._provided(tool, protocol, parameter)
            if need is not None and need.provider not in {*have, *taken}:
                taken.add(need.provider)
                yield need
                if one_will_do:
                    return

    def _as(self, tool: str, number: int = 0) -> Protocol:
        """A protocol that tells its service, under a name that no other of a few has: names repeat in a catalogue.

        With number 0 it is the one whose arguments are sought: functions take what functions give, and a function may
        well give what another service's tool takes.
        """
        protocol = self._protocol(tool)
        told = {"operation": protocol.source.operation or protocol.name, "location": service_of(tool, protocol)}
        kind = protocol.source.kind if number else "document"
        source = protocol.source.model_copy(update=told | {"kind": kind})
        return protocol.model_copy(
            update={"name": f"{protocol.name}__{number}" if number else protocol.name, "source": source}
        )

    def _provided(self, tool: str, protocol: Protocol, parameter: Parameter) -> Need | None:
        """The likeliest provider of the same service: identifiers mean nothing elsewhere."""
        about = [word for word in words_of(parameter.original) if word not in GENERIC] or sorted(_subject(protocol))
        queries = [" ".join((*about, *words_of(parameter.original)))]
        if names_its_source(parameter.schema):
            queries.append(parameter.schema["description"])
        found = [self._index.search_beside(tool, query, limit=CANDIDATES) for query in queries]
        hits = list(dict.fromkeys(hit.id for each in found for hit in each))
        others = {each.name: (hit, each) for number, hit in enumerate(hits, 1) for each in [self._as(hit, number)]}
        sources = suppliers_of([protocol, *(other for _, other in others.values())], [protocol])
        told = {source.tool: source for source in reversed(sources.get((protocol.name, parameter.original), []))}
        if told:
            places = list(others)
            name = min(told, key=lambda name: (told[name].refers, _asked_of(others[name][1]), places.index(name)))
            hit = others[name][0]
            return Need(tool, parameter.original, hit, told[name].text.replace(name, self._protocol(hit).name, 1))
        if not looks_given(parameter.original, parameter.schema):
            return None
        by_name = [(alike, hit) for hit, other in others.values() if (alike := _looks_up(other, about)) is not None]
        return Need(tool, parameter.original, min(by_name)[1]) if by_name else None


def _can_give(source: Supplier, giver: Protocol, task: str) -> bool:
    """Whether a found tool can really supply an argument.

    One that only refers to the thing does so for something that is there already: the customer of an order that the
    task names, and not the city of a stop on a trip that is about to be made.
    """
    if not source.refers:
        return True
    needed = [p for p in parameters_of(giver) if p.required and _may_be_given(p)]
    return giver.effect is not Effect.WRITE and all(_said(p, task) for p in needed)


def _wanted(protocol: Protocol) -> tuple[list[Parameter], bool]:
    """The arguments that a tool must be given by another; and whether one of them will do, none being required."""
    parameters = parameters_of(protocol)
    given = [p for p in parameters if _may_be_given(p)]
    if any(p.required for p in parameters):
        return [p for p in given if p.required], False
    return [p for p in given if not _OF_PAGES & set(words_of(p.original))], True


def _may_be_given(parameter: Parameter) -> bool:
    return looks_given(parameter.original, parameter.schema) or names_its_source(parameter.schema)


def _asked_of(protocol: Protocol) -> int:
    """What a tool must be given that is no plain name: the less, the sooner it can be called."""
    return sum(p.required and not NAMES & set(words_of(p.name)[-1:]) for p in parameters_of(protocol))


def _subject(protocol: Protocol) -> frozenset[str]:
    return frozenset(words_of(protocol.name)) - VERBS


def _looks_up(protocol: Protocol, about: Sequence[str]) -> tuple[int, int] | None:
    """How unlike a look-up of such a thing a tool of no known response is, by its name; ``None`` where it is none.

    It must need no identifier itself. ``search_movie`` is more alike than ``list_movies``, and ``get_movie_genres``
    less.
    """
    words = {word for word in words_of(protocol.name) if not word.isdigit()}
    verb = next((place for place, verbs in enumerate(_LOOKS_UP) if verbs & words), None)
    needs = [p for p in parameters_of(protocol) if p.required and looks_given(p.original, p.schema)]
    if protocol.returns is not None or verb is None or needs:
        return None
    rest = words - VERBS - _METHODS
    if set(about) & words:
        return verb, len(rest - set(about))
    if not rest and verb == 0:
        return verb, 1  # one search for things of all kinds
    return (verb, 1) if "user" in about and rest == {"me"} else None


def _said(parameter: Parameter, task: str) -> bool:
    """Whether a task names the argument, and close by something that may be its value."""
    name = [word for word in words_of(parameter.original) if word not in GENERIC] or words_of(parameter.original)
    return all(any(said.startswith(word) for said in _beside_values(task)) for word in name)


@lru_cache(maxsize=8)
def _beside_values(task: str) -> frozenset[str]:
    """The words of a task that stand close to what may be a value."""
    words = [word.strip("-_") for word in _WORD.findall(task[:_MOST_TEXT])]
    values = [at for at, word in enumerate(words) if _VALUE.fullmatch(word) and not _DATE.fullmatch(word)]
    close = {at + step for at in values for step in range(-_AFTER, _BEFORE + 1)}
    return frozenset(words[at].casefold() for at in close if 0 <= at < len(words))

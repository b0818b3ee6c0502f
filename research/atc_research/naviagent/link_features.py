"""What can be told of an edge from one tool to another before either was used (NaviAgent §3.2, Eq. 13 in small).

One row of numbers for each tool that may feed a given one. A feature that is the same for both directions cannot tell a
provider from its consumer, so each is there twice: as the edge runs, and as the reverse edge would.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atc import Protocol
from atc.plugins.learning import (
    ECHO,
    JsonSchema,
    Parameter,
    affinity,
    ending,
    endings,
    fields_of,
    is_identifier,
    owner_of,
    parameters_of,
    resolve,
    singular,
    split,
    types_of,
)

Matrix = NDArray[np.float32]
MAX_TEXT = 600
"""Characters of a description that are read."""
MAX_FIELDS = 60
"""Fields of a response, and parameters, that are read of one tool."""
MAX_NEAR = 400
"""Fields, or parameters, of one last word that are compared by name."""

_LITTLE = frozenset(
    """
    a an and any api are as at be by can each for from has have if in into is it its may of on one or other out that the
    their them then there these this those to under up used using was what when where whether which who will with you
    your
    """.split()
)
_STEPS = (
    frozenset("search find lookup query list discover explore browse locate identify detect scan recognize".split()),
    frozenset("get fetch read show retrieve view check access obtain load open download extract collect".split()),
    frozenset("select choose recommend suggest compare filter rank match pick sort evaluate assess review".split()),
    frozenset("calculate compute convert analyze predict estimate generate translate plan design measure".split()),
    frozenset("create add make build register set schedule prepare start initiate configure define upload".split()),
    frozenset("update edit modify change adjust apply process install move rename improve optimize monitor".split()),
    frozenset("book reserve buy order purchase pay send post share publish notify alert submit deliver report".split()),
    frozenset("delete remove cancel close finish stop end clean clear archive dispose withdraw logout reset".split()),
)
"""Verbs of tools' names by the step of a job at which such a tool is called: look-ups, reads, choices, computations,
what makes, changes, hands over, ends."""
_STATUS = frozenset("status success message confirmation result error code done acknowledgement response".split())
"""Words of fields that only tell how a call went: nobody feeds on them."""
_GIVEN = frozenset("name title query text keyword term date time city country location language type category".split())
"""Last words of what a task states itself."""

_VIEWS = ("name", "about", "takes", "takes_all", "gives", "gives_all")
_PAIRS = (
    ("gives", "takes"),
    ("gives_all", "takes_all"),
    ("name", "takes_all"),
    ("about", "takes_all"),
    ("gives_all", "about"),
    ("gives_all", "name"),
)
_SAME = ("name", "about", "takes_all", "gives_all")
_NODE = ("step", "identifiers", "given", "status")
FEATURES: tuple[str, ...] = (
    *(f"{a}:{b}" for a, b in _PAIRS),
    "affinity",
    *(f"{each} of the provider" for each in _NODE),
    *(f"{a}:{b}, reversed" for a, b in _PAIRS),
    "affinity, reversed",
    *(f"{each} of the consumer" for each in _NODE),
    *(f"{each} alike" for each in _SAME),
    "cosine",
)
"""The names of a row's numbers, in order: as the edge runs, as the reverse edge would, and what both share.

``gives:takes`` is the cosine of the words of the provider's fields and of the consumer's parameters; ``…_all`` with
their descriptions; ``about`` is name and description. ``affinity``: the best of a field and a parameter by name. Of a
tool: the ``step`` of its verb, the shares of parameters that are ``identifiers`` or ``given`` in a task, and the share
of fields that only tell a ``status``. ``cosine`` is that of the encoder's vectors; 0 without.
"""
DIRECTED = len(_PAIRS) + 1 + len(_NODE)
"""So many features come first as the edge runs, then likewise as the reverse edge would."""


class Field(NamedTuple):
    """A field of a response: its path, its last name, the words of what owns it, its telling words, its types."""

    path: tuple[str, ...]
    name: str
    owner: frozenset[str]
    words: frozenset[str]
    types: frozenset[str]


@dataclass
class _Tool:
    """What is read off one protocol. ``bags``: for each view the words, with their weights."""

    protocol: Protocol
    parameters: list[Parameter]
    fields: list[Field] = field(default_factory=list)
    bags: dict[str, dict[str, float]] = field(default_factory=dict)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    word = singular(word, stem=True)
    for end in ("ation", "ing", "ion", "ed", "er", "es", "e"):
        if word.endswith(end) and len(word) - len(end) >= 4:
            return word[: -len(end)]
    return word


def words_in(text: object) -> list[str]:
    """The telling words of a name or a description, each as its stem; of anything but text there are none."""
    if not isinstance(text, str):
        return []
    return [_stem(word) for word in split(text[:MAX_TEXT]) if word not in _LITTLE and not word.isdigit()]


def step_of(name: str) -> float:
    """The step of a job at which a tool of that name is called, from 0 to 1, by its first verb; 0.5 without one."""
    for word in split(name):
        for step, verbs in enumerate(_STEPS):
            if word in verbs:
                return step / (len(_STEPS) - 1)
    return 0.5


class LinkFeatures:
    """The features of all edges among some tools.

    Args:
        protocols: the tools by key.
        vectors: of each tool, in the same order, a row of length one; the cosine is 0 where they are not given.
    """

    def __init__(self, protocols: Mapping[str, Protocol], vectors: Matrix | None = None) -> None:
        self.keys = tuple(protocols)
        self.rows = {key: row for row, key in enumerate(self.keys)}
        self.vectors = vectors
        self._tools = [_read(protocol) for protocol in protocols.values()]
        self._weigh()
        self._fields: dict[str, list[tuple[int, Field]]] = {}
        self._parameters: dict[str, list[tuple[int, str]]] = {}
        for row, tool in enumerate(self._tools):
            for each in tool.fields:
                self._fields.setdefault(ending(each.name), []).append((row, each))
            for parameter in tool.parameters:
                for last in endings(parameter.original):
                    self._parameters.setdefault(last, []).append((row, parameter.original))
        self._nodes = np.array([_node(tool) for tool in self._tools], np.float32).reshape(-1, len(_NODE))

    def into(self, consumer: str) -> Matrix:
        """The features of the edges from every tool into one.

        Returns:
            Shape ``(tools, len(FEATURES))``, the tools in their order; the row of the consumer itself means nothing.

        Raises:
            KeyError: it is none of the tools.
        """
        at = self.rows[consumer]
        tool, count = self._tools[at], len(self._tools)
        named = np.zeros((2, count), np.float32)
        for parameter in tool.parameters:
            for last in endings(parameter.original):
                for row, each in self._fields.get(last, ())[:MAX_NEAR]:
                    score = affinity(parameter.original, tool.protocol.plain_name, each.name, each.owner)
                    named[0, row] = max(named[0, row], score)
        for each in tool.fields:
            for row, original in self._parameters.get(ending(each.name), ())[:MAX_NEAR]:
                score = affinity(original, self._tools[row].protocol.plain_name, each.name, each.owner)
                named[1, row] = max(named[1, row], score)
        cosine = np.zeros(count) if self.vectors is None else self.vectors @ self.vectors[at]
        own = np.broadcast_to(self._nodes[at], self._nodes.shape)
        columns: list[Any] = [self._shared(tool.bags[takes], gives) for gives, takes in _PAIRS]
        columns += [named[0], *self._nodes.T]
        columns += [self._shared(tool.bags[gives], takes) for gives, takes in _PAIRS]
        columns += [named[1], *own.T]
        columns += [*(self._shared(tool.bags[view], view) for view in _SAME), cosine]
        return np.stack(columns, axis=1).astype(np.float32)

    def places(self, provider: str, consumer: str) -> Iterator[tuple[float, tuple[str, ...], str]]:
        """For each parameter that a provider may supply: how well its best field fits, the field's path, the parameter.

        The path is empty where the provider documents no field: then its name is compared.
        """
        source, taker = self._tools[self.rows[provider]], self._tools[self.rows[consumer]]
        whole = Field((), "", frozenset(), frozenset(source.bags["about"]), frozenset())
        for parameter in taker.parameters:
            words = frozenset(words_in(parameter.original)), frozenset(words_in(parameter.schema.get("description")))
            types = frozenset(types_of(parameter.schema))
            scored = [
                (_fit(each, parameter.original, taker.protocol.plain_name, *words, types), -number, each)
                for number, each in enumerate(source.fields or [whole])
            ]
            score, _, best = max(scored, key=lambda each: each[:2])
            if score > 0:
                yield score, best.path, parameter.original

    def _shared(self, bag: Mapping[str, float], view: str) -> Matrix:
        total = np.zeros(len(self._tools), np.float32)
        for word, weight in bag.items():
            if word in self._postings[view]:
                rows, values = self._postings[view][word]
                total[rows] += weight * values
        return total

    def _weigh(self) -> None:
        """Turn counts into weights (logarithm, rarity among these tools, length one); post the tools of each word."""
        seen = Counter(word for tool in self._tools for word in set().union(*tool.bags.values()))
        rarity = {word: math.log(1 + (len(self._tools) + 5) / (count + 0.5)) for word, count in seen.items()}
        self._postings: dict[str, dict[str, tuple[NDArray[np.int64], Matrix]]] = {}
        for view in _VIEWS:
            posted: dict[str, list[tuple[int, float]]] = {}
            for row, tool in enumerate(self._tools):
                raw = {word: (1 + math.log(count)) * rarity[word] for word, count in tool.bags[view].items()}
                length = math.sqrt(sum(value * value for value in raw.values())) or 1.0
                tool.bags[view] = {word: value / length for word, value in raw.items()}
                for word, value in tool.bags[view].items():
                    posted.setdefault(word, []).append((row, value))
            self._postings[view] = {
                word: (np.array([row for row, _ in some]), np.array([value for _, value in some], np.float32))
                for word, some in posted.items()
            }


def _node(tool: _Tool) -> list[float]:
    parameters = [each.original for each in tool.parameters]
    fields = [split(each.name) for each in tool.fields]
    return [
        step_of(tool.protocol.plain_name),
        sum(map(is_identifier, parameters)) / max(1, len(parameters)),
        sum(bool(_GIVEN.intersection(split(each)[-1:])) for each in parameters) / max(1, len(parameters)),
        sum(bool(_STATUS.intersection(words)) for words in fields) / max(1, len(fields)),
    ]


def _read(protocol: Protocol) -> _Tool:
    tool = _Tool(protocol, parameters_of(protocol)[:MAX_FIELDS])
    own = [each.original for each in tool.parameters if each.required]
    takes = [word for each in tool.parameters for word in words_in(each.original)]
    takes_all = takes + [word for each in tool.parameters for word in words_in(each.schema.get("description"))]
    gives: list[str] = []
    about_fields: list[str] = []
    for path in islice(fields_of(protocol.returns), MAX_FIELDS):
        *above, name = [step for step in path if step != "[]"]
        schema, owner, words = _at(protocol.returns or {}, path), owner_of(above, protocol.plain_name), words_in(name)
        gives += words
        about_fields += words_in(schema.get("description"))
        if not any(affinity(each, protocol.plain_name, name, owner) >= ECHO for each in own):  # it only repeats these
            telling = frozenset([*words, *words_in(schema.get("description"))])
            tool.fields.append(Field(path, name, owner, telling, frozenset(types_of(schema))))
    name_words = words_in(protocol.plain_name)
    about = name_words + words_in(protocol.description)
    if not gives:  # what it is called is what it gives
        gives, about_fields = name_words, about
    views = (name_words, about, takes, takes_all, gives, gives + about_fields)
    tool.bags = {view: dict(Counter(words)) for view, words in zip(_VIEWS, views, strict=True)}
    return tool


def _fit(
    given: Field, parameter: str, tool: str, name: frozenset[str], about: frozenset[str], types: frozenset[str]
) -> float:
    numbers = frozenset({"integer", "number"})
    listed = given.types == {"array"} and "array" not in types  # an item of it may do
    if given.types and types and not given.types & types and not listed and not (given.types | types <= numbers):
        return 0.0
    names = affinity(parameter, tool, given.name, given.owner) if given.name else 0.0
    return names + _overlap(given.words, name) + 0.5 * _overlap(given.words, name | about)


def _overlap(some: frozenset[str], others: frozenset[str]) -> float:
    return len(some & others) / math.sqrt(len(some) * len(others)) if some and others else 0.0


def _at(schema: JsonSchema, path: Sequence[str]) -> JsonSchema:
    node: Any = schema
    for step in path:
        node = resolve(schema, node) if isinstance(node, dict) else {}
        inner = node.get("items") if step == "[]" else node.get("properties")
        node = inner if step == "[]" else inner.get(step) if isinstance(inner, dict) else None
    return resolve(schema, node) if isinstance(node, dict) else {}

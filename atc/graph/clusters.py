"""Parameter clusters: parameters and response fields that mean the same, whatever they are called (NaviAgent App. A).

``get_locations(name)``, "Name of the city", and ``get_hospital_list(city)`` are both ``city_name`` (Table 3 there). A
meaning is a *kind* (``id``, ``name``, ``code``, or the last word itself) of a *thing*: both are read off the name, and
where that tells nothing off the description, and at last off what the tool is about. Meanings that end alike are joined
where types agree and the descriptions have the same words, or an encoder finds them close.

All of it is deterministic. Only what ends with the same words is compared, and of that only with the greatest clusters,
so the time grows with the number of parameters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from atc.graph.edges import Counts, Learnt, Path, Place
from atc.graph.identifiers import HANDED_OUT, LABELS, REGISTERED, words_of
from atc.graph.name_affinity import CONTAINERS, QUALIFIERS, VERBS, owner_of, spelled_words
from atc.graph.suppliers import fields_of
from atc.schemas.validate import resolve, types_of
from atc.tools.parameters import parameters_of
from atc.tools.protocol import JsonSchema, Protocol

if TYPE_CHECKING:  # only those who give an encoder load its libraries
    from atc.retrieval.encoder import Encoder

Why = Literal["name", "description", "owner", "type", "likeness", "corrected"]
"""What a membership rests on: the name; the description; what the tool or the record is about; the same type as the
cluster has; descriptions that are alike; the user's word."""
LIKE, CLOSE = 0.6, 0.8
"""Share of telling words that two descriptions have in common, and cosine of two vectors, from which they are alike."""
LEAST_SHARED = 2
"""Words that two descriptions must share to be alike."""
KINDED = 0.1
"""How often a word must have an ``id`` or a ``name`` behind it, beside standing alone, to be the word for a thing."""
COMPARED = 8
"""Clusters of one ending that the others are compared with: the greatest."""
MAX_TEXT, MAX_PHRASE, MAX_FIELDS = 200, 3, 200
"""Characters of a description, words of a thing in it, and fields of one response that are read."""
_KINDS = {word: word for word in HANDED_OUT | REGISTERED | LABELS} | {
    "id": "id", "uuid": "id", "guid": "id", "identifier": "id", "slug": "slug", "name": "name", "title": "name",
}  # fmt: skip
"""Words for what is known of a thing, as its last word; those that mean the same are one."""
_ARTICLES = frozenset({"the", "a", "an", "this", "that", "given", "specific", "unique", "your"})
_ENDS = _ARTICLES | frozenset(
    """
    of for to from in on at by with where which who whose when if is are be was and or as used using you want e g eg ie
    can must should will it its full
""".split()
)
_FILLER = _ENDS | VERBS | frozenset({"value", "string", "number", "example", "optional", "default", "search"})
_TEXT = frozenset({"string"})
_NUMBER = frozenset({"integer", "number"})


@dataclass(frozen=True)
class Membership:
    """Why a place is in its cluster.

    Attributes:
        cluster: the name of the cluster: ``city_name``.
        meaning: how the place's own name and description were read; differs where it joined by likeness or correction.
        why: on what that rests.
    """

    place: Place
    cluster: str
    meaning: str
    why: tuple[Why, ...]


@dataclass
class _Cluster:
    """Places of one meaning. ``words``: of their descriptions, each with the number of places that have it."""

    meaning: tuple[str, ...]
    types: frozenset[str] = frozenset()
    members: dict[Place, tuple[Why, ...]] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    words: frozenset[str] = frozenset()


class _Read(NamedTuple):
    """A place as it was read."""

    place: Place
    thing: tuple[str, ...]
    kind: str
    why: Why
    types: frozenset[str]
    text: str


class ParameterClusters:
    """The clusters of the parameters and response fields of some tools.

    Args:
        tools: by key.
        same: pairs of places of which the user says that they are the same, or are not.
        encoder: compares descriptions by meaning; without one by their words.

    Raises:
        ModelError: from the encoder.
    """

    def __init__(
        self,
        tools: Mapping[str, Protocol],
        same: Mapping[tuple[Place, Place], bool] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self._same, self._encoder = dict(same or {}), encoder
        self._read: dict[Place, _Read] = {}
        self._things: set[str] = set()
        self._of: dict[Place, Membership] = {}
        self._members: dict[str, list[Place]] = {}
        self.add(tools)

    @property
    def names(self) -> Collection[str]:
        """The names of all clusters."""
        return self._members.keys()

    def of(self, place: Place) -> Membership:
        """The cluster of a place, and why it is in it.

        Raises:
            KeyError: there is no such parameter or field.
        """
        return self._of[place]

    def members(self, cluster: str) -> Sequence[Place]:
        """The places of a cluster.

        Raises:
            KeyError: there is no such cluster.
        """
        return self._members[cluster]

    def counts(self, cluster: str, learnt: Learnt) -> Counts:
        """How often arguments of a cluster's parameters came from other tools; none of a cluster of new tools alone.

        Raises:
            KeyError: there is no such cluster.
        """
        taken = {(place.tool, place.path[0]) for place in self._members[cluster] if place.taken}
        seen = [counts for (*_, tool, name), counts in learnt.feeds.items() if (tool, name) in taken]
        last = max((each.last for each in seen), default=0.0)
        return Counts(sum(each.ok for each in seen), sum(each.failed for each in seen), last)

    def add(self, tools: Mapping[str, Protocol]) -> None:
        """Let tools join the clusters that fit, or found new ones. Of a tool that is there already, what it has now."""
        self._read = {place: each for place, each in self._read.items() if place.tool not in tools}
        for key, protocol in tools.items():
            for each in _places_of(key, protocol):
                self._read[each.place] = each
        self._things = _things(self._read.values())
        self._cluster()

    # -- clustering ----------------------------------------------------------------------------------------------------

    def _cluster(self) -> None:
        by_meaning: dict[tuple[tuple[str, ...], str], _Cluster] = {}
        for place in sorted(self._read):
            meaning, why, read = *self._meaning(self._read[place]), self._read[place]
            cluster = by_meaning.setdefault((meaning, _form(meaning, read.types)), _Cluster(meaning))
            agrees: tuple[Why, ...] = ("type",) if read.types and read.types <= (cluster.types or read.types) else ()
            cluster.types |= read.types
            cluster.members[place] = (why, *agrees)
            if read.text and len(cluster.texts) < COMPARED:
                cluster.texts[read.text] = None
        joined = self._joined(list(by_meaning.values()))
        self._settle(self._corrected(joined))

    def _meaning(self, read: _Read) -> tuple[tuple[str, ...], Why]:
        """The thing and the kind as words. A text that is called as a thing is called gives its name."""
        if read.kind:
            return (*read.thing, read.kind), read.why
        if _is_bare(read) and read.thing[-1] in self._things:
            return (*read.thing, "name"), read.why
        return read.thing, read.why

    def _joined(self, clusters: Sequence[_Cluster]) -> list[_Cluster]:
        """The clusters, those joined that end alike and whose types and descriptions agree."""
        blocks: dict[tuple[tuple[str, ...], str], list[_Cluster]] = defaultdict(list)
        for cluster in clusters:
            blocks[cluster.meaning[-2:], _form(cluster.meaning, cluster.types)].append(cluster)
        kept: list[_Cluster] = []
        for block in blocks.values():
            block.sort(key=lambda each: (-len(each.members), each.meaning))
            heads = block[:1]
            alike = self._alike(block) if len(block) > 1 else ()
            for cluster in block[1:]:
                into = next(
                    (h for h in heads[:COMPARED] if _may_be_one(h, cluster) and (id(h), id(cluster)) in alike), None
                )
                if into is None:
                    heads.append(cluster)
                else:
                    into.members |= {place: (*why, "likeness") for place, why in cluster.members.items()}
            kept += heads
        return kept

    def _alike(self, block: Sequence[_Cluster]) -> Collection[tuple[int, int]]:
        """The ids of one of a block's greatest and one that it is like, by the descriptions' words or their meaning."""
        told = [each for each in block if each.texts]
        heads = told[:COMPARED]
        if self._encoder is None:
            for each in told:
                each.words = frozenset(word for text in each.texts for word in _telling(text)) - {*each.meaning}
            return {(id(a), id(b)) for a in heads for b in told if a is not b and _share(a.words, b.words) >= LIKE}
        vectors = self._encoder.encode([f"{' '.join(each.meaning)}: {next(iter(each.texts))}" for each in told])
        close = vectors[: len(heads)] @ vectors.T
        rows, columns = (close >= CLOSE).nonzero()
        return {(id(heads[i]), id(told[j])) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if i != j}

    def _corrected(self, clusters: list[_Cluster]) -> list[_Cluster]:
        """The clusters as the user has them: first what is the same is joined, then what is not is taken out."""
        home = {place: cluster for cluster in clusters for place in cluster.members}
        pairs = [pair for pair in sorted(self._same) if all(place in home for place in pair)]
        for one, other in (pair for pair in pairs if self._same[pair]):
            into, gone = home[one], home[other]
            if into is not gone:
                moved = gone.members if len(gone.members) <= len(into.members) else {other: gone.members[other]}
                moved = {place: (*why, "corrected") for place, why in list(moved.items())}
                into.members |= moved
                for place in moved:
                    gone.members.pop(place)
                    home[place] = into
        for one, other in (pair for pair in pairs if not self._same[pair]):
            if home[one] is home[other]:
                alone = _Cluster(home[one].meaning)
                bound = {a if b == other else b for a, b in pairs if self._same[a, b] and other in (a, b)} - {one}
                for place in {other, *bound} & home[one].members.keys():
                    alone.members[place] = (*home[one].members.pop(place), "corrected")
                    home[place] = alone
                clusters.append(alone)
        return [each for each in clusters if each.members]

    def _settle(self, clusters: Iterable[_Cluster]) -> None:
        """Name the clusters: by what they mean, with a number where several of them mean it."""
        self._of, self._members = {}, {}
        for cluster in sorted(clusters, key=lambda each: (each.meaning, -len(each.members), min(each.members))):
            base = name = "_".join(cluster.meaning) or "value"
            number = 2
            while name in self._members:
                name, number = f"{base}_{number}", number + 1
            self._members[name] = sorted(cluster.members)
            for place, why in cluster.members.items():
                meaning = "_".join(self._meaning(self._read[place])[0]) or "value"
                self._of[place] = Membership(place, name, meaning, tuple(dict.fromkeys(why)))


# -- reading one place -------------------------------------------------------------------------------------------------


def _places_of(key: str, protocol: Protocol) -> Iterator[_Read]:
    for parameter in parameters_of(protocol):
        schema = resolve(protocol.parameters, parameter.schema)
        yield _read(Place(key, (parameter.original,), True), protocol.name, (), schema, protocol.parameters)
    returns = protocol.returns or {}
    for _, path in zip(range(MAX_FIELDS), fields_of(returns), strict=False):
        found = _schema_at(returns, path)
        if found is not None and not types_of(found) & {"object"} and "properties" not in found:
            above = tuple(step for step in path[:-1] if step != "[]")
            yield _read(Place(key, path, False), protocol.name, above, found, returns)


def _read(place: Place, tool: str, above: Sequence[str], schema: JsonSchema, root: JsonSchema) -> _Read:
    about = schema.get("description")
    text = about[:MAX_TEXT] if isinstance(about, str) else ""
    types = types_of(schema) - {"null"}
    if types == {"array"}:
        types = types_of(resolve(root, schema.get("items"))) - {"null"}
    words = tuple(word for word in spelled_words(place.path[-1]) if word not in QUALIFIERS)
    kind = _KINDS.get(words[-1], "") if words else ""
    thing = tuple(word for word in (words[:-1] if kind else words) if word not in CONTAINERS)[-MAX_PHRASE:]
    if thing:
        described = dict(_phrases(text))
        kind = kind or next((each for each, of in described.items() if of[-1:] == thing[-1:]), "")
        return _Read(place, thing, kind, "name", types, text)
    for each, of in _phrases(text):
        if not kind or each == kind:
            return _Read(place, of, each, "description", types, text)
    owner = tuple(sorted(owner_of(above, tool) - VERBS - {"id"}))[:MAX_PHRASE]
    return _Read(place, owner, kind or "_".join(words) or "value", "owner", types, text)


@lru_cache(maxsize=16_384)
def _phrases(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The kinds that a description names, each with the thing: ``name of the city``, ``the city's name``."""
    words = words_of(text.replace("'s ", " "))
    found: dict[str, tuple[str, ...]] = {}
    for at, word in enumerate(words):
        if (kind := _KINDS.get(word)) is None or kind in found:
            continue
        rest = [each for each in words[at + 1 : at + 3 + MAX_PHRASE] if each not in _ARTICLES]
        if words[at + 1 : at + 2] in (("of",), ("for",)):
            thing = _until(rest[1:])
        else:
            thing = tuple(reversed(_until(words[max(0, at - MAX_PHRASE) : at][::-1])))
        if thing := tuple(each for each in thing if each not in QUALIFIERS and each not in VERBS):
            found[kind] = thing
    return tuple(found.items())


def _until(words: Sequence[str]) -> tuple[str, ...]:
    """The words before the first that belongs to no thing."""
    kept: list[str] = []
    for word in words[:MAX_PHRASE]:
        if word in _ENDS or word in _KINDS:
            break
        kept.append(word)
    return tuple(kept)


def _schema_at(root: JsonSchema, path: Path) -> JsonSchema | None:
    """The schema of a field that is found without choices; ``None`` where it is behind one."""
    node: Any = resolve(root, root)
    for step in path:
        below = node.get("items") if step == "[]" else (node.get("properties") or {}).get(step)
        if not isinstance(below, dict):
            return None
        node = resolve(root, below)
    return node if isinstance(node, dict) else None


def _things(read: Iterable[_Read]) -> set[str]:
    """The words for things that have a name or an id of their own, and are not only called by the word itself."""
    kinded, bare = Counter[str](), Counter[str]()
    for each in read:
        if each.thing and each.kind in ("id", "name") and each.why != "owner":
            kinded[each.thing[-1]] += 1
        elif _is_bare(each):
            bare[each.thing[-1]] += 1
    return {word for word, times in kinded.items() if times >= KINDED * bare[word]}


def _is_bare(read: _Read) -> bool:
    """Whether a text is called by one word that may be for a thing: ``city``."""
    return not read.kind and len(read.thing) == 1 and read.types <= _TEXT


def _may_be_one(one: _Cluster, other: _Cluster) -> bool:
    """Whether one has only more words before it than the other; identifiers may have others. ``check_in_date`` and
    ``check_out_date`` are described alike and are not the same."""
    short, long = sorted((one.meaning, other.meaning), key=len)
    return long[-len(short) :] == short or one.meaning[-1] in _KINDS.keys() - {"name", "title", "number"}


def _form(meaning: Sequence[str], types: frozenset[str]) -> str:
    """What keeps meanings apart that are called alike: an id may be a number here and a text there, a date may not."""
    if (meaning[-1:] and meaning[-1] in _KINDS) or not types:
        return ""
    return "number" if types <= _NUMBER else "+".join(sorted(types))


@lru_cache(maxsize=16_384)
def _telling(text: str) -> frozenset[str]:
    return frozenset(word for word in words_of(text) if len(word) > 2 and word not in _FILLER)


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of the words of the shorter description that the other has, too."""
    shared = len(one & other)
    return shared / min(len(one), len(other)) if shared >= LEAST_SHARED else 0.0

"""Resources: which thing an argument names, and which one a field of a response is of.

Three facts tell: the path of an operation (``/products/{product_id}``), the names of schemas, and the names of tools
and fields. So the ``id`` of the products that ``GET /products`` lists is a product's own, and the ``product_id`` of an
order's line only refers to one. All who rank the sources of an argument go by this.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.suppliers import ECHO, LEAST
from atc.schemas.identifiers import (
    CONTAINERS,
    GENERIC,
    HANDED_OUT,
    QUALIFIERS,
    THINGS,
    UNIVERSAL,
    VERBS,
    affinity,
    bare,
    is_identifier,
    is_plural,
    singular,
    spelled_words,
    split,
    words_of,
)
from atc.schemas.telltales import VERBS as VERBS_OF_EFFECT

Relation = Literal[0, 1, 2]
"""What a field has to do with a thing: it is the thing's own; nothing says whose it is; it only refers to the thing."""
OWN: Relation = 0
UNTOLD: Relation = 1
REFERS: Relation = 2
VALUES = 0.86
"""What a list of plain values is worth that has the thing's name: a little more than an ``id`` beside it."""
LIKE = 0.7
"""Affinity from which a field of something else may refer to the thing: a `transfer_method_id` is no payment method."""
MAX_STEPS = 40
"""Steps of a path that are read."""

_SAYS_NOTHING = GENERIC | THINGS | HANDED_OUT
"""Words of names that do not say of what something is."""
LOOKED_UP = frozenset({"email", "login", "username"})
"""Last words of what a person is reached by: much content is called so, and some tools do nothing but look it up."""
OF_SERVICES = HANDED_OUT - GENERIC
"""Last words of what need not be of a thing."""
_ENVELOPES = CONTAINERS | {
    "found", "match", "output", "object", "collection", "entity", "element", "payload", "body", "edge", "node",
    "attribute", "page", "embedded", "return",
}  # fmt: skip
_CUT = frozenset("by of for from in with on to at near per via using matching between".split())
_NO_THING = VERBS | frozenset({"post", "put", "delete", "patch", "v3", "v4", "fetch", "browse", "count"})
_OF_SCHEMAS = _NO_THING | _ENVELOPES | frozenset(
    "out in dto model schema input read view summary base public full type paginated create update brief".split()
)  # fmt: skip
_ASIDE = frozenset("error warning problem meta metadata pagination paging link".split())
"""Names of fields that hold nothing of what was asked for."""
_IN_PATHS = frozenset("search list all find query lookup get fetch browse api rest index".split())
"""Steps of a path that say nothing of what is listed there."""
_MANY = frozenset({"batch", "bulk", "mass", "multi"})
"""Words before an act that is done to several things at once."""
_CALLER = frozenset({"me", "my", "self", "myself"})
"""Steps of a path that stand for the user who calls."""
_KIN = frozenset({"child", "children", "parent", "ancestor", "descendant", "sibling"})
"""Steps of a path that lead from a thing to others of its kind."""
_VERSION = re.compile(r"v\d+(?:[.-]\w+)?", re.I)
_EXTENSION = re.compile(r"\.\w{2,5}$")
_STEP = re.compile(r"\{([^{}]{1,200})\}(?:([:.])(\w*))?|:(\w{1,200})|([^{}()]*)\((?:\w+=)?'?\{([^{}]{1,200})\}'?\)")


class Route(NamedTuple):
    """The path of an operation, in words that two spellings of it share.

    Attributes:
        reads: its method is GET.
        adds: its method is one that puts something there.
        steps: without versions; the words of each in the singular, and ``{}`` for a placeholder.
        placeholders: by name, where each stands among the steps.
        aside: where steps stand that say nothing of what is there: ``search``, ``cancel``.
        choices: where steps stand that are no plurals, and may say which of the things before: ``popular``.
    """

    reads: bool
    adds: bool
    steps: tuple[str, ...]
    placeholders: Mapping[str, int]
    aside: frozenset[int] = frozenset()
    choices: frozenset[int] = frozenset()

    def collection(self, end: int | None = None) -> tuple[str, ...]:
        """The steps of what it lists, if it lists: those of ``/products/search`` are those of ``/products``.

        Args:
            end: only the steps before this one count.
        """
        told = tuple(step for place, step in enumerate(self.steps[:end]) if place not in self.aside)
        return told if told and told[-1] != "{}" else ()

    def lists_behind(self, at: int) -> bool:
        """Whether a step behind a place says what is listed: ``/users/{id}/friends``, not ``/xs/{id}/get``."""
        return any(place not in self.aside for place in range(at + 1, len(self.steps)))

    @property
    def is_callers(self) -> bool:
        """Whether it is about what belongs to the user who calls: ``/me/playlists``."""
        return not _CALLER.isdisjoint(self.steps)

    @property
    def things(self) -> tuple[str, ...]:
        """Words for what it is about, the likeliest first: ``popular`` and ``movie`` of ``/movies/popular``.

        ``/users/by/name/{name}``, ``/users/me`` and ``/users/{id}/children`` are about users, and so is ``/me``.
        """
        told: list[tuple[int, str]] = []
        selects = False
        for place, step in enumerate(self.steps):
            said = [] if step == "{}" or place in self.aside else step.split()
            selects = step != "{}" and (selects or bool(told and said and said[0] in _CUT))
            words = [word for word in said if word not in _CUT | THINGS | _CALLER]
            if words and not selects and not (told and _KIN.issuperset(said)):
                told.append((place, words[-1]))
        if not told:
            return () if _CALLER.isdisjoint(self.steps) else ("user",)
        last = told[-1][0]
        chosen = last in self.choices and [place for place, _ in told[-2:-1]] == [last - 1]
        return tuple(word for _, word in told[-1 - chosen :])[::-1]


@lru_cache(maxsize=16_384)
def route_of(path: str) -> Route | None:
    """Read the method and the path template of an operation, such as ``GET /v2/products/{product_id}``."""
    method, _, template = path.partition(" ")
    steps: list[str] = []
    placeholders: dict[str, int] = {}
    aside: list[int] = []
    choices: list[int] = []
    for text in template.partition("?")[0].split("/", MAX_STEPS)[:MAX_STEPS]:
        for part, placeholder in _parts(text):
            if placeholder:
                placeholders[part] = len(steps)
            elif _IN_PATHS.issuperset(split(part)):
                aside.append(len(steps))
            elif not is_plural(part):
                choices.append(len(steps))
            steps.append("{}" if placeholder else _telling(part))
    if not steps:
        return None
    if method.upper() != "GET" and len(steps) > 1 and _is_act(steps[-1]):
        aside.append(len(steps) - 1)
    adds = method.upper() in ("POST", "PUT") and len(steps) - 1 not in aside
    return Route(method.upper() == "GET", adds, tuple(steps), placeholders, frozenset(aside), frozenset(choices))


def _is_act(step: str) -> bool:
    words = [word for word in step.split() if word not in _MANY]
    return bool(words) and words[0] in VERBS_OF_EFFECT


def _telling(step: str) -> str:
    """The words of a step that tell, in the singular: ``pet`` of ``findPets``; of ``lists`` all, as it is a noun."""
    words = split(step)
    return " ".join(singular(word) for word in words if word not in _IN_PATHS) or " ".join(map(singular, words))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """What stands between two slashes: words, and the names of placeholders; neither versions nor extensions."""
    if (found := _STEP.fullmatch(text)) is None:
        static, _, behind = text.partition(":")
        name = ""
    else:
        braced, mark, after, colon, called, inside = (part or "" for part in found.groups())
        static, name, behind = called, braced or colon or inside, after if mark == ":" else ""
    static = _EXTENSION.sub("", static)
    if words_of(static) and not _VERSION.fullmatch(static):
        yield static, False
    if name:
        yield name, True
    if words_of(behind):
        yield behind, False


@lru_cache(maxsize=16_384)
def phrase_of(name: str) -> tuple[str, ...]:
    """The words of a tool's name for what it gives: ``product review`` of ``list_product_reviews_by_user``."""
    words = [word for word in words_of(name) if not word.isdigit()]
    for place, word in enumerate(words):
        if word in _CUT and not _NO_THING.issuperset(words[:place]):
            words = words[:place]
            break
    return tuple(word for word in words if word not in _NO_THING and word not in CONTAINERS)


def name_of_value(tool: str) -> str:
    """The name of what a tool gives if that is one plain value: ``user_id`` of ``get_user_id_by_name``."""
    words = phrase_of(tool)
    if words[-2:] == ("email", "address"):
        words = words[:-1]
    return "_".join(words[-2:] if words[-1:] and words[-1] in GENERIC else words[-1:])


@lru_cache(maxsize=16_384)
def _head_of_schema(title: str) -> str:
    """The last word of a schema's name that says what it is of: ``product`` of ``ProductListOut``."""
    words = [word for word in words_of(title) if word not in _OF_SCHEMAS and not word.isdigit()]
    return words[-1] if words else ""


class Wanted(NamedTuple):
    """What an argument takes.

    Attributes:
        name: of the argument. ``words``: of it, spelled out.
        things: words for the thing that it names; the last one says most.
        bare: its name says nothing of the thing: a path does, or the tool's name, of which any word may.
        collection: the steps of the list whose items it names; empty where there is none.
        called: the word that things go by where the path tells it: ``sid`` of ``/domains/{domain_sid}``.
        all_of_them: the steps of the list of all things of which it may name one: ``GET /tracks`` for
            ``/me/tracks/{id}``; empty where it stands behind another placeholder, within which it means something.
        placed: it is a placeholder of the path, so that it names something whatever its own name is.
    """

    name: str
    words: tuple[str, ...]
    things: tuple[str, ...]
    bare: bool = False
    collection: tuple[str, ...] = ()
    called: str = ""
    all_of_them: tuple[str, ...] = ()
    placed: bool = False


def _beside(route: Route | None, words: Sequence[str]) -> list[str]:
    """Words of a tool's name that its path has not: a name that is made of the path has words of all its steps."""
    return [word for word in words if route is None or all(word not in step.split() for step in route.steps)]


@lru_cache(maxsize=16_384)
def wanted(parameter: str, tool: str, path: str = "") -> Wanted:
    """Read what an argument takes off its name, the path of its operation and its tool's name."""
    words = spelled_words(parameter)
    specific = tuple(word for word in bare(words) if word not in _SAYS_NOTHING)
    route = route_of(path) if path else None
    at = route.placeholders.get(parameter) if route is not None else None
    placed = at is not None
    alone = route is None or at is None or route.steps[at - 1 : at] != ("{}",)
    collection = route.collection(at) if route is not None and at else ()
    things: tuple[str, ...]
    if specific:
        before = collection[-1].split() if collection else []
        called = words[-1] if before and before == [*words[:-1]] else ""
        things = tuple(before) if called else tuple(word for word in specific if word not in UNIVERSAL)
        every = (" ".join(before if called else specific),) if alone else ()
        return Wanted(parameter, words, things, False, collection, called, every, placed)
    if route is not None and not placed:
        if not route.adds:
            collection = route.collection()  # `DELETE /jokes?id=`
        elif is_identifier(parameter, THINGS) and not is_plural(parameter):
            return Wanted(parameter, words, (), True)  # what the new thing shall be called
    if placed and collection:
        things = (collection[-1].split()[-1],)
    else:
        things = (*_beside(route, phrase_of(tool)), *(route.things[::-1] if route is not None else ()))
    return Wanted(parameter, words, things, True, collection, "", collection[-1:], placed)


class Field(NamedTuple):
    """A field that a tool returns.

    Attributes:
        number: its place among the tool's fields.
        path: where it lies; it ends with ``[]`` where the field is a list of values.
        name: of the field itself.
        owner: words, each of which names the thing that it is of.
        stated: a name above it, the name of its schema or a path states the owner.
        within: it lies within another thing, as the customer of an order does.
        beside: another field names the thing that it lies in: this one, if it names something, refers to it.
        values: it is a list of plain values.
        alone: it is the whole response, or an item of it.
    """

    number: int
    path: Path
    name: str
    owner: frozenset[str]
    stated: bool
    within: bool = False
    beside: bool = False
    values: bool = False
    alone: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether it belongs to another thing than it names."""
        own = thing_in(self.name)
        return self.within or bool(own and own not in self.owner)


class Fields:
    """The fields of one tool's response.

    Args:
        tool: its name.
        path: of its operation (:attr:`atc.schemas.protocol.Source.path`).
        paths: of all its fields.
        titles: the names of the schemas of objects, by their paths.
        lists: the paths of the fields that are lists. ``single``: of those that are one value each.
    """

    def __init__(
        self,
        tool: str,
        path: str,
        paths: Iterable[Path],
        titles: Mapping[Path, str],
        lists: Collection[Path] = (),
        single: Collection[Path] = (),
    ) -> None:
        self._titles, self._paths, self._single = titles, paths, single
        self.whole = name_of_value(tool)
        objects = set(map(_object_of, paths))
        self._values = {each for each in lists if (*each, "[]") not in objects}
        self._owners: dict[Path, frozenset[str]] = {}
        route, heads = route_of(path) if path else None, phrase_of(tool)[-1:]
        self._told = route is not None and bool(route.things)
        if route is not None and self._told:  # an id that is made of the path has words of all its steps
            said = {word for step in route.steps for word in step.split()}
            heads = (*route.things, *(() if said.issuperset(phrase_of(tool)) else heads))
        self._heads = frozenset(heads or words_of(tool))

    def at(self, path: Path, number: int = 0) -> Field:
        """The field at a path."""
        *above, name = [step for step in path if step != "[]"] or [self.whole]
        several = is_plural(name) and path[-1:] != ("[]",) and path not in self._single
        item = ("[]",) if several else ()  # one of a list of codes
        inside = _object_of(path)
        owner, stated = self._owner(inside, above)
        names = self._identities.get(inside, ())
        within, beside = self._within(inside), any(other != name for other in names)
        alone = all(step == "[]" for step in path)
        place, values = path if alone else (*path, *item), path in self._values
        return Field(number, place, name, owner, stated, within, beside, values, alone)

    def _owner(self, inside: Path, above: Sequence[str]) -> tuple[frozenset[str], bool]:
        telling = [words for each in above if not _ENVELOPES.issuperset(words := words_of(each))]
        title = _head_of_schema(self._titles.get(inside, ""))
        titled = frozenset({title}) if title else frozenset[str]()
        if not telling:
            return self._heads | titled, self._told or bool(titled)
        named = telling[-1:]
        if inside[-1] != "[]" and is_plural("".join(inside[-2:-1])) and telling[-2:-1] == [words_of(inside[-2])]:
            named = telling[-2:]  # `properties.color.id` is a property's
        return frozenset(next(w for w in reversed(words) if w not in _ENVELOPES) for words in named) | titled, True

    @cached_property
    def _identities(self) -> Mapping[Path, Sequence[str]]:
        """By the path of an object, the fields that name it itself."""
        found: dict[Path, list[str]] = {}
        for path in self._paths:
            if is_identifier(name := path[-1], THINGS) and not is_plural(name):
                inside, own = _object_of(path), thing_in(name)
                if not own or own in self.owner_at(inside):
                    found.setdefault(inside, []).append(name)
        return found

    def _within(self, inside: Path) -> bool:
        """Whether an object lies in one that is another thing itself, and is not what an envelope holds."""
        aside = _ASIDE - self._heads
        if any(not aside.isdisjoint(words_of(step)[-1:]) for step in inside):
            return True
        for end in range(len(inside)):
            listed, known = inside[end - 1 : end] == ("[]",), inside[:end] in self._identities
            if not listed and not known:
                continue
            if any(not _ENVELOPES.issuperset(words_of(step)) for step in inside[end:] if step != "[]"):
                if known or self.owner_at(inside[:end]).isdisjoint(self.owner_at(inside)):
                    return True
            elif listed and known and "[]" in inside[end:]:
                return True
        return False

    def owner_at(self, inside: Path) -> frozenset[str]:
        """Words, each of which names the thing that the object at a path is."""
        if inside not in self._owners:
            self._owners[inside] = self._owner(inside, [step for step in inside if step != "[]"])[0]
        return self._owners[inside]


def _object_of(path: Path) -> Path:
    end = len(path)
    while end and path[end - 1] == "[]":
        end -= 1
    return path[: end - 1] if end else ()


@lru_cache(maxsize=16_384)
def thing_in(name: str) -> str:
    """The last word of a field's name for what it is of: ``city`` of ``from_city_id``; empty for a bare ``id``."""
    words = [w for w in spelled_words(name) if w not in _SAYS_NOTHING and w not in UNIVERSAL and w not in QUALIFIERS]
    return words[-1] if words else ""


class Fit(NamedTuple):
    """How well a field supplies an argument; the least is the best.

    Attributes:
        relation: of the field to the thing.
        score: affinity of the names, from 0 to 1.
    """

    relation: Relation
    score: float


def fit(what: Wanted, field: Field) -> Fit | None:
    """How well a field supplies an argument; ``None`` where nothing says that it does."""
    has = spelled_words(field.name)
    if what.bare:
        if has not in (what.words, bare(what.words)):
            return None
        if field.owner.isdisjoint(what.things):  # a token may be a whole service's
            return Fit(UNTOLD, LEAST) if has[-1] in OF_SERVICES else None
        return Fit(REFERS if field.within else OWN, ECHO)
    if field.values and what.things and has[-1:] == what.things[-1:]:
        if field.within or has[-1] not in field.owner:
            return Fit(REFERS, VALUES)
        return Fit(OWN if what.words[-1] in ("id", has[-1]) else UNTOLD, VALUES)  # slugs would be called so
    score = affinity(what.name, "", field.name, field.owner)
    if score < LEAST or not has:
        return None
    if _SAYS_NOTHING.issuperset(has) or has == (what.called,):  # the `id` of something: of that thing alone
        last = what.things[-1] if what.called else [word for word in bare(what.words) if word not in _SAYS_NOTHING][-1]
        return Fit(REFERS if field.within else OWN, score) if last in field.owner else None
    relation = _relation(what, field, score)
    return Fit(relation, score) if score >= LIKE or relation != REFERS else None


def detour(what: Wanted, field: Field) -> int:
    """How many of the names above a field are of something else than what an argument takes."""
    above = [words_of(step) for step in field.path if step != "[]"][:-1]
    return sum(not _ENVELOPES.issuperset(words) and words[-1:] != what.things[-1:] for words in above)


def _relation(what: Wanted, field: Field, score: float) -> Relation:
    if not what.things:  # a code that means the same everywhere: nobody owns it
        return UNTOLD
    if field.within:
        return REFERS
    own = thing_in(field.name)
    if own == what.things[-1] and own in field.owner:
        another = field.beside and len([word for word in spelled_words(field.name) if word not in _SAYS_NOTHING]) > 1
        return REFERS if another else OWN if score >= ECHO else UNTOLD  # an event's `recurring_event_id` is another's
    return REFERS if field.stated or field.beside else UNTOLD

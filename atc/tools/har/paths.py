"""Recorded paths → path templates: ``/orders/8812/items`` → ``/orders/{order_id}/items``.

A part of a path is a parameter where it has the form of an identifier, where an answer or a body holds it as a value,
where it follows a collection and is no word of interfaces, or where several samples differ there and answer alike. What
stays as it is is a name. In doubt a part becomes a parameter: a name of a person must not stand in a document.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from atc.schemas.identifiers import LABELS, NAMES, THINGS, is_identifier, is_plural, split, words_of
from atc.schemas.infer.outline import is_field_name
from atc.schemas.infer.text import form, looks_secret, may_be_name
from atc.tools.har.entries import Entry

MAX_VALUE = 100
"""Characters of a value that may be a part of a path."""
MAX_IDENTITIES, MAX_KEYS = 200_000, 100
"""Values of one host that name a thing, and keys of an answer that are compared."""
ALIKE = 8
"""Different words at one place, answered alike, from which on they are values where no collection stands before."""

PLACE, PLACE_JSON = "{}", "{}.json"
"""A parameter in a pattern; literal parts have no braces."""
_LITERAL = re.compile(r"[A-Za-z0-9._~@:$!+,-]{1,40}")
_VERSION = re.compile(r"[vV]\d{1,3}(?:[._]\d{1,3}|(?:alpha|beta)\d{0,2})?|\d{1,2}\.\d{1,3}")
_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?|\d{8}")
_TICKET = re.compile(r"[A-Z]{1,10}-\d+")
_TECHNICAL = frozenset(
    "oauth oauth2 oidc saml mp3 mp4 i18n l10n a11y k8s s3 ipv4 ipv6 sha256 md5 base64 web3 b2b b2c p2p me whoami "
    "rest graphql rpc jsonrpc ajax bff cgi wp backend frontend public private openapi swagger odata ping healthz "
    "signin signup login logout autocomplete typeahead".split()
)
_PREFIXES = frozenset("api apis rest rpc ajax bff backend wp wp-json".split())
"""Words that begin paths and are no collections."""
_OWNERS = frozenset(
    "user u member profile person author customer team org organisation organization workspace tenant channel".split()
)
"""Words after which somebody is named, as after a plural: ``/user/alice``."""


@dataclass
class Seen:
    """What the answers and bodies of one host tell of the parts of its paths.

    Attributes:
        keys: part of a path → the key under which it was seen as a value; that of an identifier or a name first.
        identities: all values that name a thing, by the key they stand under.
        answers: path → the keys at the top of an answer.
    """

    keys: dict[str, str] = field(default_factory=dict)
    identities: set[str] = field(default_factory=set)
    answers: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)


def names_a_thing(key: str) -> bool:
    """Whether a value under this key is what a thing is called or found by: ``id``, ``slug``, ``username``."""
    words = words_of(key)[-1:]
    return is_identifier(key, THINGS | LABELS) or bool(words and words[0] in _NAMING)


_NAMING = (NAMES - {"query", "q", "search", "term"}) | {
    "username",
    "login",
    "email",
    "mail",
    "nickname",
    "user",
    "handle",
}


def look_at(entries: Iterable[Entry]) -> Seen:
    """Look through what one host answered and was sent, for what its paths may be made of. Linear in it."""
    entries = list(entries)
    parts = {part for entry in entries for part in entry.segments if len(part) <= MAX_VALUE}
    parts |= {part.removesuffix(".json") for part in parts}
    seen = Seen()
    for entry in entries:
        answer = parsed(entry.answer)
        _collect(answer, parts, seen)
        if 200 <= entry.status < 300 and entry.segments not in seen.answers:
            seen.answers[entry.segments] = _signature(answer)
        if entry.body is not None:
            _collect(parsed(entry.body.text), parts, seen)
            for name, value in entry.body.fields:
                _take(name, value, parts, seen)
        for name, value in entry.query:
            _take(name, value, parts, seen)
    return seen


def parsed(text: str | None) -> Any:
    """The JSON value of a text; ``None`` where it is none."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _collect(value: Any, parts: set[str], seen: Seen) -> None:
    todo = [("", value)]
    while todo:
        key, here = todo.pop()
        if isinstance(here, dict):
            todo.extend(here.items())
        elif isinstance(here, list):
            todo.extend((key, each) for each in here)
        elif isinstance(here, str) and len(here) <= MAX_VALUE:
            _take(key, here, parts, seen)


def _take(key: str, value: str, parts: set[str], seen: Seen) -> None:
    naming = len(key) <= MAX_VALUE and names_a_thing(key)
    if naming and len(seen.identities) < MAX_IDENTITIES:
        seen.identities.add(value.casefold())
    for each in {value, value.casefold()}:
        if each in parts and (each not in seen.keys or (naming and not names_a_thing(seen.keys[each]))):
            seen.keys[each] = key


def _signature(answer: Any) -> frozenset[str]:
    """The keys of an answer and those one level below, as many services wrap all of their answers alike."""
    first = _first(answer)
    if not isinstance(first, dict):
        return frozenset((type(first).__name__,))
    keys = list(first)[:MAX_KEYS]
    inner = {key: _first(first[key]) for key in keys}
    below = (f"{key}/{each}" for key, here in inner.items() if isinstance(here, dict) for each in list(here)[:MAX_KEYS])
    return frozenset([*keys, *below])


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


# -- patterns ----------------------------------------------------------------------------------------------------------

Pattern = tuple[str, ...]


def patterns(paths: Iterable[tuple[str, ...]], seen: Seen) -> dict[tuple[str, ...], Pattern]:
    """The pattern of each path: its parts, :data:`PLACE` where a parameter stands."""
    made: dict[tuple[str, ...], Pattern] = dict.fromkeys(paths, ())
    waiting = list(made)
    depth = 0
    while waiting:
        groups: defaultdict[tuple[Pattern, int, str], list[tuple[str, ...]]] = defaultdict(list)
        for path in waiting:
            following = path[depth + 1] if len(path) > depth + 1 else ""
            groups[made[path], len(path), following if _is_word(following) else ""].append(path)
        for (before, _, _), members in groups.items():
            values = _values(before, members, depth, seen)
            for path in members:
                part = path[depth]
                place = PLACE_JSON if part.endswith(".json") else PLACE
                made[path] = (*before, place if part in values else part)
        depth += 1
        waiting = [path for path in waiting if len(path) > depth]
    return made


def _values(before: Pattern, members: list[tuple[str, ...]], depth: int, seen: Seen) -> set[str]:
    parts = {path[depth]: path for path in members}
    collection = next((part for part in reversed(before) if not part.startswith(PLACE)), "")
    after_place = bool(before) and before[-1].startswith(PLACE)
    collection = "" if after_place or _is_prefix(collection) else collection
    values, words = set(), []
    numbered = bool(before) and _is_prefix(before[-1])  # `/api/2/orders`
    for part in parts:
        if not part or _VERSION.fullmatch(part) or (numbered and len(part) == 1 and part.isdigit()):
            continue
        if _is_value(part, collection, seen):
            values.add(part)
        else:
            words.append(part)
    unknown = [part for part in words if not _is_word(part) and not is_plural(part)]
    return values | set(_alike(parts, unknown, seen, 2 if collection else ALIKE))


def _is_value(part: str, collection: str, seen: Seen) -> bool:
    """Whether a part is surely no name of the service's own, whatever stands beside it."""
    bare = part.removesuffix(".json")
    if not _is_literal(part) or _is_id(bare):
        return True
    key = seen.keys.get(bare, seen.keys.get(bare.casefold(), ""))
    if _is_word(bare):
        return bool(collection) and is_plural(collection) and bool(key) and names_a_thing(key)
    if key and (names_a_thing(key) or collection):
        return True
    return bare.casefold() in seen.identities or is_plural(collection) or collection.lower() in _OWNERS


@lru_cache(maxsize=16_384)
def _is_literal(part: str) -> bool:
    return _LITERAL.fullmatch(part) is not None and may_be_name(part) and not looks_secret(part)


@lru_cache(maxsize=16_384)
def _is_word(part: str) -> bool:
    return part.lower() in _TECHNICAL or is_field_name(part.replace(":", "_").replace("~", "_"))


def _is_id(part: str) -> bool:
    if part.lower() in _TECHNICAL:
        return False
    if _DATE.fullmatch(part) or _TICKET.fullmatch(part) or form(part) in ("uuid", "mail", "ipv4"):
        return True
    digits = any(map(str.isdigit, part))
    return (digits or len(part) > 24) and not is_field_name(part)


def _is_prefix(part: str) -> bool:
    return part.lower() in _PREFIXES or _VERSION.fullmatch(part) is not None


def _alike(parts: Mapping[str, tuple[str, ...]], words: list[str], seen: Seen, least: int) -> list[str]:
    by_keys: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for word in words:
        if keys := seen.answers.get(parts[word]):
            by_keys[keys].append(word)
    return [word for group in by_keys.values() if len(group) >= least for word in group]


# -- names of parameters -----------------------------------------------------------------------------------------------


class Places:
    """Names the parameters of one host's patterns; one place has one name in all operations."""

    def __init__(self, found: Mapping[tuple[str, ...], Pattern], seen: Seen) -> None:
        self._keys: defaultdict[Pattern, Counter[str]] = defaultdict(Counter)
        self._dates: defaultdict[Pattern, bool] = defaultdict(lambda: True)
        for path, pattern in found.items():
            for at, part in enumerate(pattern):
                if part.startswith(PLACE):
                    value = path[at].removesuffix(".json")
                    self._keys[pattern[: at + 1]][seen.keys.get(value, "")] += 1
                    self._dates[pattern[: at + 1]] &= _DATE.fullmatch(value) is not None and "-" in value

    def names(self, pattern: Pattern) -> list[str]:
        """The names of a pattern's parameters, in their order; no two are the same."""
        taken: list[str] = []
        for at, part in enumerate(pattern):
            if part.startswith(PLACE):
                name, number = self._name(pattern[: at + 1]), 2
                unique = name
                while unique in taken:
                    unique, number = f"{name}_{number}", number + 1
                taken.append(unique)
        return taken

    def _name(self, place: Pattern) -> str:
        if self._dates[place]:
            return "date"
        before = place[-2] if len(place) > 1 and not place[-2].startswith(PLACE) else ""
        words = () if _is_prefix(before) or (not _is_word(before) and not may_be_name(before)) else words_of(before)
        thing = "_".join(word for word in words if not word.isdigit())
        key = next((key for key, _ in self._keys[place].most_common() if key), "")
        if not names_a_thing(key) or not is_field_name(key) or set(words_of(key)) & THINGS:
            key = ""
        snake = "_".join(split(key))
        if snake and thing and words_of(key)[0] not in thing.split("_") and len(words_of(key)) == 1:
            return f"{thing}_{snake}" if snake in LABELS | NAMES else snake
        return snake or (f"{thing}_id" if thing else "id")


def shared_prefix(found: Sequence[Pattern]) -> int:
    """How many parts all patterns begin with that are no things of the service: ``api`` and ``v1`` of ``/api/v1/…``."""
    for at, parts in enumerate(zip(*found, strict=False)):
        last = any(len(pattern) == at + 1 for pattern in found)
        if last or len(set(parts)) > 1 or not _is_prefix(parts[0]) or parts[0].startswith(PLACE):
            return at
    return 0


def template(pattern: Pattern, names: Iterable[str]) -> str:
    """The path template of a pattern: ``/orders/{order_id}/items``."""
    waiting = iter(names)
    return "/" + "/".join(part.replace("{}", f"{{{next(waiting)}}}") if part[:2] == PLACE else part for part in pattern)

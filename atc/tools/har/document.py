"""What was recorded of one host → an OpenAPI 3.1 document of it.

Of the recording's text there stand in it names of keys and of parts of paths, types with their counts, and values that
three answers share and that are words of interfaces (:func:`~atc.schemas.infer.outline.is_field_name`): the members of
an enum, in an answer. What arguments were given is a remark (``x-atc-observed``), and refuses nothing.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.schemas.identifiers import split
from atc.schemas.infer.keys import is_data
from atc.schemas.infer.outline import is_field_name
from atc.schemas.infer.shape import RANGE, SURE, Shape
from atc.schemas.infer.text import JSON_FORMATS, form, looks_secret, may_be_name
from atc.schemas.telltales import names_act, telltale
from atc.schemas.types import EVIDENCE, OBSERVED
from atc.tools.har.credentials import RecordedSecret, Wallet
from atc.tools.har.entries import Entry
from atc.tools.har.paths import PLACE, Pattern, Places, Seen, look_at, parsed, patterns, shared_prefix, template
from atc.tools.openapi.operations import EXTENSION, named_effect
from atc.tools.openapi.plan import essence, is_json
from atc.tools.paging import is_positional

_LOG = logging.getLogger(__name__)

__all__ = ["Recorded", "RecordedSecret", "recorded"]

RECORDED = "x-atc-recorded"
"""Of an operation: its different calls in the recording, and how many had an answer that says something."""
MIN_SHARED = 3
"""Answers that must have a value before it may stand in a document."""
MAX_WORDS, MAX_ALTERNATIVES, MAX_FAILED = 20_000, 5, 20
"""Words of one operation's answers that are counted, sets of credentials that it names, and refused calls that are
looked at where no other was recorded."""
MAX_ARGUMENTS = 100
"""Arguments of one query or form: those that were sent most often."""
MAX_NAMES = 5_000
"""Names of arguments of one operation that are counted."""
MAX_OPERATIONS = 2_000
"""Operations of one host; further ones are left out."""
_JSON_TYPE = re.compile(r"application/(?:[a-z0-9][a-z0-9.-]{0,40}\+)?json")
_BUSTERS = frozenset({"_", "cb", "cachebuster", "cache_buster", "nocache", "_ts", "_dc"})


@dataclass(frozen=True)
class Recorded:
    """What a recording tells of one host.

    Attributes:
        host: in lower case, without a port; an IPv6 address without brackets.
        scheme: ``http`` or ``https``.
        port: also where it is the usual one of the scheme.
        document: an OpenAPI 3.1 document of what was called there. It has no value of the recording.
        secrets: the credentials that calls were sent with, by security scheme of the document.
    """

    host: str
    scheme: str
    port: int
    document: dict[str, Any] = field(repr=False)
    secrets: Mapping[str, RecordedSecret] = field(default_factory=dict, repr=False)

    @property
    def origin(self) -> str:
        """``https://shop.example.com``, with the port where it is not the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{name}" + ("" if self.port == usual else f":{self.port}")


def recorded(entries: Sequence[Entry], *, prefix: str = "") -> Recorded:
    """What the entries of one host tell of it.

    Args:
        entries: all of one origin, in their order; at least one is a call.
        prefix: before the names of security schemes, where there are several hosts.
    """
    calls = [entry for entry in entries if entry.kind == "call"]
    seen, wallet = look_at(calls), Wallet(prefix)
    found = patterns((entry.segments for entry in calls), seen)
    operations: dict[tuple[str, Pattern], _Operation] = {}
    beyond = 0
    for entry in entries:
        if entry.kind == "call":
            at = (entry.method, found[entry.segments])
            if at not in operations and len(operations) < MAX_OPERATIONS:
                operations[at] = _Operation(*at)
            if at in operations:
                operations[at].add(entry, wallet.sent(entry))
            else:
                beyond += 1
        wallet.answered(entry)
    if beyond:
        _LOG.warning("%s: left out %d calls beyond %d kinds of calls", calls[0].host, beyond, MAX_OPERATIONS)
    _say_what_renews(calls[0].host, operations.values())
    places, shared = Places(found, seen), shared_prefix([pattern for _, pattern in operations])
    paths: dict[str, Any] = {}
    for (method, pattern), operation in operations.items():
        names = places.names(pattern)
        path = template(pattern[shared:], names)
        paths.setdefault(path, {})[method.lower()] = operation.written(path, names, seen, wallet)
    first = calls[0]
    made = Recorded(first.host, first.scheme, first.port, {}, wallet.secrets)
    made.document.update(
        {
            "openapi": "3.1.0",
            "info": {"title": made.origin.partition("//")[2], "version": "recorded"},
            "servers": [{"url": made.origin + template(calls[0].segments[:shared], ()).rstrip("/")}],
            "paths": paths,
            "components": {"securitySchemes": wallet.schemes()},
        }
    )
    return made


def _say_what_renews(host: str, operations: Collection[_Operation]) -> None:
    """Say how to tell that reads read, where most set a cookie: many services renew their session with each answer."""
    reads = [operation.sets_cookie for operation in operations if operation.method == "GET"]
    if 2 * sum(reads) > len(reads) > 2:
        _LOG.warning(
            "%s set a cookie in %d of %d kinds of GET, which count as unknown and are asked about: if it only renews a "
            "session, pass effects={'get_*': 'read'} (on the command line: --openapi effect='get_*:read')",
            host, sum(reads), len(reads),
        )  # fmt: skip


@dataclass
class _Values:
    calls: int = 0
    several: bool = False
    forms: Counter[str] = field(default_factory=Counter)

    def add(self, values: Sequence[str]) -> None:
        self.calls += 1
        self.several |= len(values) > 1
        self.forms.update(_form(value) for value in values)

    def schema(self, of: int) -> dict[str, Any]:
        kinds = set(self.forms) - {"empty"}
        types = {"integer": "integer", "number": "number", "boolean": "boolean"}
        named = {types.get(kind, "string") for kind in kinds} or {"string"}
        kind = "number" if named == {"integer", "number"} else named.pop() if len(named) == 1 else "string"
        made: dict[str, Any] = {OBSERVED: kind}
        if kind == "string" and len(kinds) == 1 and (format_ := JSON_FORMATS.get(next(iter(kinds)))):
            made["description"] = f"{format_} so far"
        if self.several:
            made = {OBSERVED: "array", "items": made}
        return made | {EVIDENCE: {"seen": self.calls, "of": of}}


def _form(value: str) -> str:
    if not value:
        return "empty"
    if value in ("true", "false"):
        return "boolean"
    kind = form(value)
    return kind if kind != "number" else "number" if "." in value else "integer"


@dataclass
class _Operation:
    method: str
    pattern: Pattern
    calls: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    parts: dict[int, _Values] = field(init=False)
    query: dict[str, _Values] = field(default_factory=dict)
    fields: dict[str, _Values] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    bodies: Counter[str] = field(default_factory=Counter)
    sent: Shape = field(default_factory=Shape)
    answers: dict[int, Shape] = field(default_factory=dict)
    media_types: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    sets_cookie: bool = False
    names_act: bool = False
    security: Counter[frozenset[str]] = field(default_factory=Counter)
    refused: Counter[frozenset[str]] = field(default_factory=Counter)
    failed: list[Entry] = field(default_factory=list)
    known: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.parts = {at: _Values() for at, part in enumerate(self.pattern) if part.startswith(PLACE)}

    def add(self, entry: Entry, schemes: frozenset[str]) -> None:
        """Take one call; one that was recorded before, with the same answer, is no evidence."""
        self.sets_cookie |= bool(entry.set_cookies)
        self.names_act |= any(names_act(name, value) for name, value in entry.query)
        self.names_act |= any(telltale(entry.segments[at]) for at in self.parts if len(split(entry.segments[at])) <= 2)
        mark = hash((entry.segments, entry.query, entry.body, entry.status, entry.answer))
        if mark in self.known:
            return
        self.known.add(mark)
        good = 200 <= entry.status < 300
        self.statuses[entry.status] += 1
        (self.security if good else self.refused)[schemes] += 1
        if not good:
            self.failed += [entry] if len(self.failed) < MAX_FAILED else []
            return
        self._take_arguments(entry)
        answer = parsed(entry.answer)
        if entry.answer and (answer is not None or entry.answer.strip() == "null"):
            if entry.status not in self.answers:
                self.answers[entry.status] = Shape()
            self.answers[entry.status].add(answer)
            self.media_types[entry.media_type] += 1
            _count_words(answer, self.words)

    def _take_arguments(self, entry: Entry) -> None:
        self.calls += 1
        for at, part in self.parts.items():
            part.add([entry.segments[at].removesuffix(".json")])
        for name, values in _grouped(entry.query).items():
            _counted(self.query, name).add(values)
        if (body := entry.body) is None:
            return
        media = essence(body.media_type)
        if body.fields:
            self.bodies[media] += 1
            self.files |= body.files
            for name, values in _grouped(body.fields).items():
                _counted(self.fields, name).add(values)
        elif (value := parsed(body.text)) is not None:
            self.bodies[media if is_json(media) else "application/json"] += 1
            self.sent.add(value)
        else:
            self.bodies["text/plain"] += 1

    def written(self, path: str, in_path: Sequence[str], seen: Seen, wallet: Wallet) -> dict[str, Any]:
        """The operation as OpenAPI 3.1 has it."""
        for entry in self.failed if not self.calls else ():  # what it was asked is known all the same
            self._take_arguments(entry)
        made: dict[str, Any] = {
            EXTENSION: self._effect(path),
            RECORDED: {"calls": sum(self.statuses.values()), "answered": sum(s.count for s in self.answers.values())},
            "parameters": [*self._path(in_path), *self._query(seen, wallet)],
            "responses": self._responses(seen),
        }
        if body := self._body(seen):
            made["requestBody"] = body
        sets = [names for names, _ in (self.security or self.refused).most_common(MAX_ALTERNATIVES)]
        if any(sets):
            made["security"] = [{name: [] for name in sorted(names)} for names in sorted(sets, key=len, reverse=True)]
        return made

    def _effect(self, path: str) -> str:
        if self.method != "GET":
            return "write"
        return "unknown" if self.sets_cookie or self.names_act or named_effect(f"GET {path}", "get", path) else "read"

    def _path(self, names: Sequence[str]) -> Iterable[dict[str, Any]]:
        for name, values in zip(names, self.parts.values(), strict=True):
            yield {"name": name, "in": "path", "required": True, "schema": values.schema(self.calls)}

    def _query(self, seen: Seen, wallet: Wallet) -> Iterable[dict[str, Any]]:
        usual = sorted(self.query.items(), key=lambda item: -item[1].calls)[:MAX_ARGUMENTS]
        for name, values in usual:
            if wallet.is_credential("query", name) or name in _BUSTERS or not is_name(name.strip("[]"), seen):
                continue
            always = values.calls == self.calls >= SURE and not is_positional(name)
            made = {"name": name, "in": "query", "schema": values.schema(self.calls)}
            yield made | ({"required": True} if always else {})

    def _body(self, seen: Seen) -> dict[str, Any]:
        media = next((name for name, _ in self.bodies.most_common(1)), "")
        if self.fields and not is_json(media):
            multipart = media.startswith("multipart/")
            usual = sorted(self.fields.items(), key=lambda item: -item[1].calls)[:MAX_ARGUMENTS]
            names = {name: values for name, values in usual if is_name(name.strip("[]"), seen)}
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {
                    name: {"type": "string", "format": "binary"} if name in self.files else values.schema(self.calls)
                    for name, values in names.items()
                },
            }
            if always := [name for name, values in names.items() if values.calls == self.calls >= SURE]:
                schema["required"] = always
            media = "multipart/form-data" if multipart else "application/x-www-form-urlencoded"
        elif self.sent.count:
            schema = _remarked(without_values(self.sent.schema(), {}, seen))
            schema = {key: each for key, each in schema.items() if key != EVIDENCE}
            if schema.get(OBSERVED) == "object" and schema.get("properties") and "additionalProperties" not in schema:
                schema = {"type": "object"} | {key: each for key, each in schema.items() if key != OBSERVED}
            media = media if _JSON_TYPE.fullmatch(media) else "application/json"
        elif self.bodies:
            media, schema = "text/plain", {"type": "string"}
        else:
            return {}
        return {"required": sum(self.bodies.values()) == self.calls, "content": {media: {"schema": schema}}}

    def _responses(self, seen: Seen) -> dict[str, Any]:
        made: dict[str, Any] = {}
        media = next((each for each, _ in self.media_types.most_common(1)), "")
        media = media if _JSON_TYPE.fullmatch(media) else "application/json"
        for status, count in sorted(self.statuses.items()):
            made[str(status)] = {"description": f"recorded {count} times" if count > 1 else "recorded once"}
            if (shape := self.answers.get(status)) is not None:
                schema = without_values(shape.schema(), self.words, seen)
                made[str(status)]["content"] = {media: {"schema": schema}}
        return made


def _counted(found: dict[str, _Values], name: str) -> _Values:
    if name not in found and len(found) < MAX_NAMES:
        found[name] = _Values()
    return found.get(name) or _Values()


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _count_words(answer: Any, words: Counter[str]) -> None:
    own: set[str] = set()
    todo = [answer]
    while todo:
        here = todo.pop()
        if isinstance(here, dict):
            todo.extend(here.values())
        elif isinstance(here, list):
            todo.extend(here)
        elif isinstance(here, str) and len(here) <= 40 and len(own) < MAX_WORDS:
            own.add(here)
    for word in own:
        if word in words or len(words) < MAX_WORDS:
            words[word] += 1


# -- what may stand in a document --------------------------------------------------------------------------------------


def is_name(key: str, seen: Seen) -> bool:
    """Whether a key may stand in a document: it is a name, and no value that the recording holds elsewhere."""
    if not key or not may_be_name(key) or looks_secret(key) or is_data(key):
        return False
    return is_field_name(key) or key.casefold() not in seen.identities


def without_values(schema: dict[str, Any], words: Mapping[str, int], seen: Seen) -> dict[str, Any]:
    """A schema of what was seen without what came of values: ranges, keys that are data, members of an enum that are no
    words of interfaces or that fewer than :data:`MIN_SHARED` answers have.

    Args:
        schema: as :class:`~atc.schemas.infer.shape.Shape` writes it.
        words: in how many answers a text stood.
        seen: what names things in the recording.
    """
    made = {key: value for key, value in schema.items() if key != RANGE}
    members = [member for member in made.get("enum", ()) if member is not None]
    if not all(words.get(member, 0) >= MIN_SHARED and is_field_name(member) for member in members):
        del made["enum"]
    if isinstance(properties := made.get("properties"), dict):
        named = {key: each for key, each in properties.items() if is_name(key, seen)}
        if len(named) < len(properties) / 2:  # most are values: it is a mapping, and its keys are data
            named = {key: each for key, each in named.items() if is_field_name(key)}
        made["properties"] = {key: without_values(each, words, seen) for key, each in named.items()}
        if required := [key for key in made.pop("required", ()) if key in named]:
            made["required"] = required
        if len(named) < len(properties):
            made.setdefault("additionalProperties", {})
    for keyword in ("items", "additionalProperties"):
        if isinstance(made.get(keyword), dict):
            made[keyword] = without_values(made[keyword], words, seen)
    return made


def _remarked(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of arguments whose types are a remark: other ones may be taken too."""
    made = {(OBSERVED if key == "type" else key): value for key, value in schema.items()}
    made = {key: value for key, value in made.items() if key not in ("enum", "format", "prefixItems")}
    if isinstance(made.get("properties"), dict):
        made["properties"] = {key: _remarked(each) for key, each in made["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(made.get(keyword), dict):
            made[keyword] = _remarked(made[keyword])
    return made

"""Hold values to JSON Schemas (RETO §3.4: the schema gate), and follow the references inside them.

A ``$ref`` with keywords beside it, ``allOf``, and fields beside ``anyOf`` are the same thing: several schemas that hold
of one value (draft 2020-12, §8.2.3.1 and §10.2.1). :func:`both` makes one of two for readers of a schema: it has every
field that either has. A validator is given the schema as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import quote

import jsonschema_rs

from atc._host.lazy import kept_by_identity
from atc._records.packing import holds_bytes, pack, shortened, unpack
from atc.errors import ToolImportError
from atc.schemas.cost import MAX_STEPS, Cost, Size, cost_of, steps
from atc.schemas.protocol import JsonSchema, bytes_problem, for_validator

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_CHOICES = ("anyOf", "oneOf")
_BELOW = ("items", "additionalProperties", "contains", "propertyNames")
MAX_DEPTH = 40
"""Levels of fields in fields down to which two schemas of one field are joined; below, they stand in an ``allOf``."""


def both(first: JsonSchema, second: JsonSchema, depth: int = 0) -> JsonSchema:
    """One schema of what two schemas say of the same value.

    Args:
        first: one schema.
        second: the other; of what can be said only once (a description, a bound), this one's word holds.
        depth: levels above them.

    Returns:
        A schema with the fields of both; what is required by either is required. No reference is followed.
    """
    made: JsonSchema = {**first, **second}
    for key in first.keys() & second.keys():
        one, other = first[key], second[key]
        if one is other:
            continue
        if key in _MAPS and isinstance(one, dict) and isinstance(other, dict):
            common = {name: _of_one_value(one[name], other[name], depth) for name in one.keys() & other.keys()}
            made[key] = {**one, **other, **common}
        elif key in _BELOW:
            made[key] = _of_one_value(one, other, depth)
        elif key == "required" and isinstance(one, list) and isinstance(other, list):
            made[key] = list(dict.fromkeys([*filter(_is_text, one), *filter(_is_text, other)]))
        elif key == "type":
            made[key] = common_types(one, other) or other
        elif key == "enum" and isinstance(one, list) and isinstance(other, list):
            known = {json.dumps(value, sort_keys=True, default=str) for value in one}
            made[key] = [v for v in other if json.dumps(v, sort_keys=True, default=str) in known] or other
        elif key == "allOf" and isinstance(one, list) and isinstance(other, list):
            made[key] = [*one, *other]
    beside = [
        {key: first[key]} for key in ("$ref", *_CHOICES) if key in first and key in second and first[key] != second[key]
    ]
    if beside:
        listed = made.get("allOf")
        made["allOf"] = [*(listed if isinstance(listed, list) else ()), *beside]
    return made


def common_types(first: Any, second: Any) -> Any:
    """The value of ``type`` for a value of which two ``type`` keywords hold; an empty list where none can be."""
    one, other = _listed(first), _listed(second)
    common = [kind for kind in other if kind in one or (kind == "integer" and "number" in one)] + [
        kind for kind in one if kind == "integer" and "number" in other and kind not in other
    ]
    return common[0] if len(common) == 1 else common


def _of_one_value(one: Any, other: Any, depth: int) -> Any:
    if one is other or other is True or one is False:
        return one
    if one is True or other is False or not isinstance(one, dict):
        return other
    if not isinstance(other, dict):
        return one
    return both(one, other, depth + 1) if depth < MAX_DEPTH else {"allOf": [one, other]}


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


MAX_PROBLEMS = 5
_TOOL = "atc:tool"
MAX_SHOWN = 1_000
"""Items of one list or object in which a problem is looked for, where the whole does not fit."""

MAX_SHOWN_IN_ALL = 10_000
MAX_LETTERS = 20_000
"""Of one text in which a problem is looked for."""
MAX_GIVEN, MAX_ALLOWED = 80, 180
"""Characters of the value that does not fit, and of the allowed ones, in a message."""
MAX_LEVELS = 8
"""Alternatives in one another that a message looks into."""
MAX_REASONS = 100_000
"""Steps (:mod:`atc.schemas.cost`) of the question why a value does not fit. Most of them may end in a reason, which
takes a thousand times as long as a step."""
TOO_MUCH = (
    "whether it fits cannot be told in bounded time: its schema has too many alternatives, references or patterns for "
    "a value of this size: give less at once"
)
HALF = "it holds half a character (a lone surrogate), which is no text"
_OF_THE_REST = frozenset({"required", "minItems", "minProperties", "contains", "minContains", "dependentRequired"})
"""Keywords that what was left out of an object or list could satisfy."""

_OF_A_PART = frozenset({"type", "additionalProperties", "propertyNames", "maxItems", "maxProperties", "uniqueItems"})
"""Keywords that one item or key breaks, whatever else there is."""


@dataclass(frozen=True)
class Problem:
    """One way in which a value does not fit: where (its path), what, and the schema keyword that demands it."""

    path: tuple[str | int, ...]
    message: str
    keyword: str

    @property
    def where(self) -> str:
        """``$.a[0].b``."""
        return _path(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def problems(schema: JsonSchema, value: Any) -> list[Problem]:
    """Return up to five ways in which ``value`` does not fit ``schema``; none when it fits.

    Bytes fit where the schema says ``{"type": "string", "format": "binary"}``, or nothing of the type. Whether it fits
    is asked of the whole value, and why of one with fewer items: the validator lists every error before it gives the
    first. Where the answer could take more than :data:`atc.schemas.cost.MAX_STEPS`, it is not asked, and that is the
    problem. Half a character (a lone surrogate) can be one, too.
    """
    text = schema_key(schema)
    if steps(text, "", value) > MAX_STEPS:
        return [Problem((), TOO_MUCH, "")]
    with_bytes = holds_bytes(value)
    packed = pack(value) if with_bytes else value
    checker = _validator(text, with_bytes)
    try:
        return [] if checker.is_valid(packed) else _why(checker, text, packed, with_bytes=with_bytes)
    except UnicodeEncodeError:  # where the validator looks at the text
        return [Problem((), HALF, "")]


def _why(checker: Any, text: str, packed: Any, *, with_bytes: bool) -> list[Problem]:
    shown, errors = _reasons(checker, cost_of(text), packed)
    found: list[Problem] = []
    unsure: list[tuple[str | int, ...]] = []
    for error in errors:
        at, keyword = tuple(error.instance_path), str(error.schema_path[-1]) if error.schema_path else ""
        if not shown.explains(at, keyword):
            unsure.append(at)
            continue
        instance = unpack(error.instance) if with_bytes else error.instance
        message = bytes_problem(instance, getattr(error.kind, "schema", None)) or _message(error)
        problem = Problem(at, shortened(message, 300), keyword)
        if str(problem) not in map(str, found):
            found.append(problem)
        if len(found) == MAX_PROBLEMS:
            break
    if found:
        return found
    places = unsure or sorted(shown.cut, key=str)
    where = places[0] if len(places) == 1 else ()
    return [Problem(where, "something in it does not fit; it is too large to say what: give less at once", "")]


def _message(error: Any, depth: int = 0) -> str:
    wanted = _Wanted()
    said = error.kind.name in ("enum", "anyOf", "oneOf") and depth < MAX_LEVELS
    if not said or not wanted.take([error], error.instance_path):
        return str(error.message)
    given = json.dumps(error.instance, ensure_ascii=False, default=str)
    given = shortened(given, MAX_GIVEN)
    if wanted.closest is not None:
        where = _path(tuple(wanted.closest.instance_path)[len(error.instance_path) :])
        inside = _message(wanted.closest, depth + 1)
        return f"{given} fits none of {wanted.alternatives} alternatives; the closest one says of {where}: {inside}"
    if not (wanted.values or wanted.types):
        return f"{given} fits several alternatives, and must fit one alone"
    if wanted.types and wanted.values == [None]:
        wanted.values, wanted.types = [], [*wanted.types, "null"]
    types = f"of type {_either(list(map(json.dumps, wanted.types)))}" if wanted.types else ""
    shown, room = list[str](), MAX_ALLOWED
    for value in (json.dumps(value, ensure_ascii=False, default=str) for value in wanted.values):
        room -= len(value) + 2
        if room < 0:
            break
        shown.append(value)
    if not wanted.values:
        return f"{given} is not {types}"
    left = len(wanted.values) - len(shown)
    values = f"one of {_either([*shown, *([f'{left} others'] if left else [])])}"
    return f"{given} is neither {values} nor {types}" if types else f"{given} is not {values}"


def _either(texts: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


@dataclass
class _Wanted:
    """What the alternatives of a place want.

    Attributes:
        values: that are allowed. ``types``: any value of which is.
        closest: an error inside of the alternative that is of the value's own type.
        alternatives: how many there are.
    """

    values: list[Any] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    closest: Any = None
    alternatives: int = 0

    def take(self, errors: list[Any], place: list[str | int], depth: int = 0) -> bool:
        """Take the errors of one alternative into account; whether that can be said in words."""
        own = {error.kind.name: error for error in errors if error.instance_path == place}
        if (listed := own.get("enum")) is not None:
            self._add(listed.kind.options)
        elif (fixed := own.get("const")) is not None:
            self._add([fixed.kind.expected_value])
        elif (typed := own.get("type")) is not None:
            nothing = [None] if typed.kind.types == ["null"] else []
            self._add(nothing)
            self.types += [each for each in typed.kind.types if not nothing and each not in self.types]
        elif (choice := own.get("anyOf") or own.get("oneOf")) is not None:
            if depth > MAX_LEVELS:
                return False
            alternatives = choice.kind.context
            self.alternatives += len(alternatives)
            return all(self.take(each, place, depth + 1) for each in alternatives)
        else:
            self.closest = self.closest or next(iter(errors), None)
        return True

    def _add(self, values: list[Any]) -> None:
        known = set(map(repr, self.values))
        self.values += [value for value in values if repr(value) not in known]


def _reasons(checker: Any, cost: Cost, packed: Any) -> tuple[_Shown, Iterable[Any]]:
    """Why a value does not fit, asked of as much of it as can be asked in bounded time: all errors, or the first."""
    for shown in (_Shown(), _Shown(100, 1_000, 2_000, 8), _Shown(20, 100, 500, 4), _Shown(5, 20, 200, 2)):
        part = shown.of(packed)
        most = cost.of_reasons(Size.of(part, cost), shown.depth)
        if most <= MAX_REASONS:
            return shown, checker.iter_errors(part)
        if most <= MAX_STEPS and not cost.has_choices:
            try:
                checker.validate(part)
            except jsonschema_rs.ValidationError as error:
                return shown, [error]
            return shown, []
    return shown, []


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


@dataclass
class _Shown:
    """A value with the first items of its long lists and objects, the beginnings of its long texts, and where something
    was left out.

    Attributes:
        most: items of one list or object.
        left: items that may still be shown, in all.
        letters: of one text.
        levels: of lists and objects in one another; what is below them is shown empty.
        depth: the levels that there are.
    """

    most: int = MAX_SHOWN
    left: int = MAX_SHOWN_IN_ALL
    letters: int = MAX_LETTERS
    levels: int = 1_000
    depth: int = 0
    cut: set[tuple[str | int, ...]] = field(default_factory=set)
    cut_texts: set[tuple[str | int, ...]] = field(default_factory=set)

    def of(self, value: Any, at: tuple[str | int, ...] = ()) -> Any:
        if isinstance(value, str) and len(value) > self.letters:
            self.cut_texts.add(at)
            return value[: self.letters]
        if not isinstance(value, dict | list):
            return value
        self.depth = max(self.depth, len(at) + 1)
        taken = min(len(value), self.most, self.left) if len(at) < self.levels else 0
        self.left -= taken
        if taken < len(value):
            self.cut.add(at)
        if isinstance(value, dict):
            return {key: self.of(item, (*at, key)) for key, item in islice(value.items(), taken)}
        return [self.of(item, (*at, i)) for i, item in enumerate(islice(value, taken))]

    def explains(self, at: tuple[str | int, ...], keyword: str) -> bool:
        """Whether an error holds for the whole value, and does not come from what was left out."""
        if at in self.cut_texts:
            return keyword in ("type", "maxLength")
        if keyword in _OF_THE_REST:
            return at not in self.cut
        return keyword in _OF_A_PART or not any(cut[: len(at)] == at for cut in (*self.cut, *self.cut_texts))


def ensure_valid_schema(schema: JsonSchema, what: str) -> None:
    """Raise ToolImportError, naming ``what``, when ``schema`` is not a JSON Schema that can be used."""
    try:
        validator(schema)
    except (jsonschema_rs.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ToolImportError(f"{what} is not a usable JSON Schema: {shortened(str(error), 300)}") from None


def resolve(root: JsonSchema, schema: Any) -> JsonSchema:
    """Follow ``$ref`` into the root's own ``$defs``; an empty schema for what cannot be followed.

    What stands beside a reference holds of the same value, so the schema has the fields of both.
    """
    for _ in range(20):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target = pointed(root, reference)
        beside = {k: v for k, v in schema.items() if k != "$ref"}
        schema = both(target, beside) if isinstance(target, dict) else {}
    return {}


def pointed(root: JsonSchema, reference: str) -> Any:
    """What a reference into the root names, as it stands there; ``None`` where there is nothing."""
    target: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if isinstance(target, dict) else None
    return target


def types_of(schema: JsonSchema) -> frozenset[str]:
    """The JSON types that a schema names; empty when it names none."""
    kind = schema.get("type")
    return frozenset([kind] if isinstance(kind, str) else kind if isinstance(kind, list) else ())


def validator(schema: JsonSchema) -> Any:
    """The compiled validator of a schema, kept for the next time: of :mod:`jsonschema_rs`, with ``is_valid``.

    Raises:
        jsonschema_rs.ValidationError: it is no JSON Schema.
        TypeError, ValueError, RecursionError: it cannot be written as JSON.
    """
    return _validator(schema_key(schema), False)


def part_validator(text: str, pointer: str, *, with_bytes: bool = False) -> Any:
    """The compiled validator of a part of a schema, kept for the next time.

    Args:
        text: the whole schema, as :func:`schema_key` writes it.
        pointer: leads to the part, as a JSON pointer.

    Raises:
        ValueError: it is no JSON Schema, or refers to what is not there.
    """
    try:
        return _part_validator(text, pointer, with_bytes) if pointer else _validator(text, with_bytes)
    except jsonschema_rs.ReferencingError as error:
        raise ValueError(str(error)) from None


@kept_by_identity(2048)
def schema_key(schema: JsonSchema) -> str:
    """A schema as JSON text, by which its validators are kept. Nobody changes a schema that was asked about."""
    return json.dumps(schema, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _validator(text: str, with_bytes: bool) -> Any:
    schema = for_validator(json.loads(text), with_bytes=with_bytes)
    # the plain regular expression engine runs in linear time: no `pattern` of a document can hang the host
    return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True)


@lru_cache(maxsize=8192)
def _part_validator(text: str, pointer: str, with_bytes: bool) -> Any:
    reference = {"$ref": f"{_TOOL}#{quote(pointer)}"}
    # a reference inside the part begins at the root, so the root is there as a document of its own
    return jsonschema_rs.validator_for(
        reference, registry=_registry(text, with_bytes), pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


@lru_cache(maxsize=512)
def _registry(text: str, with_bytes: bool) -> Any:
    return jsonschema_rs.Registry([(_TOOL, for_validator(json.loads(text), with_bytes=with_bytes))])

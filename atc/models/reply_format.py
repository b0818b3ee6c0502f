"""What a reply must be: JSON that fits a schema, or one of some choices.

A schema may come from a stranger's tool. Whoever makes a grammar of it (llama.cpp in a process of ours, an endpoint)
pays for its size, and references that multiply have no end. So a schema is refused where applying it could take long,
and what is sent to be enforced is a new, small schema. It says less than the whole one: replies are held to that one
afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from atc.errors import ToolImportError, UsageError
from atc.schemas.protocol import JsonSchema
from atc.schemas.validate import ensure_valid_schema, pointed, problems, types_of
from atc.wording.prompting import fenced, prompt

MAX_STEPS = 20_000
"""Subschemas that may apply, with every reference followed."""
MAX_DEPTH = 64
"""Levels of nested subschemas."""
MAX_ENFORCED, MAX_ENFORCED_DEPTH = 400, 12
"""Subschemas of what is sent, and how deep they may stand in each other."""
MAX_SENT = 100_000
"""Characters of it."""
MAX_ENUM, MAX_ITEMS, MAX_LENGTH = 256, 32, 256
"""Values of an enumeration, and bounds of lists and texts, that a grammar is made for: it spells each of them out."""
_MAX_MEMBERS = 16
_MAX_NUMBER = 10**12

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        *("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        *("not", "if", "then", "else"),
    }
)
_ELSEWHERE = frozenset({"$id", "$dynamicRef", "$recursiveRef"})
"""Keywords below the root by which a reference may mean another place than its pointer says."""


def check_bounded(schema: JsonSchema) -> None:
    """Look whether a schema can be applied within bounds.

    Raises:
        UsageError: it refers to something outside itself, is nested too deeply, or its references multiply.
    """
    steps = 0
    waiting: list[tuple[Any, int, frozenset[str]]] = [(schema, 0, frozenset())]
    while waiting:
        at, depth, followed = waiting.pop()
        if not isinstance(at, dict):
            continue
        steps += 1
        if steps > MAX_STEPS:
            raise UsageError(f"the reply's schema has more than {MAX_STEPS:,} parts, its references followed")
        if depth > MAX_DEPTH:
            raise UsageError(f"the reply's schema has more than {MAX_DEPTH} levels")
        if others := (_ELSEWHERE - {"$id"} if at is schema else _ELSEWHERE) & at.keys():
            raise UsageError(f"the reply's schema uses {min(others)}: references are followed within it by $ref alone")
        if isinstance(reference := at.get("$ref"), str) and reference not in followed:  # a cycle ends where it began
            waiting.append((_target(schema, reference), depth + 1, followed | {reference}))
        waiting += [(below, depth + 1, followed) for below in _below(at)]


def _target(root: JsonSchema, reference: str) -> Any:
    target = root if reference == "#" else pointed(root, reference) if reference.startswith("#/") else None
    if not isinstance(target, dict | bool):
        raise UsageError(f"the reply's schema refers to {reference[:80]!r}, which it does not hold")
    return target


def _below(schema: JsonSchema) -> Iterator[Any]:
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            yield from value.values()
        elif keyword in _LISTS and isinstance(value, list):
            yield from value
        elif keyword in _SINGLE:
            yield value


@dataclass(frozen=True)
class Enforced:
    """The schema that an endpoint is asked to enforce.

    Attributes:
        schema: of an object; has no reference.
        strict: whether it is of the kind that OpenAI calls strict: every key is required, and no other is allowed.
        wrapped: it is of an object around what is wanted.
    """

    schema: JsonSchema
    strict: bool
    wrapped: bool = False


class _TooMuch(Exception):
    """A grammar cannot say it, or is too large."""


def enforced(schema: JsonSchema) -> Enforced | None:
    """The part of a schema that a grammar can say; ``None`` where it is too large, or recursive.

    The root becomes an object: a schema of anything else stands under the key ``value``.
    """
    cutter = _Cutter(schema)
    try:
        made = cutter.cut(schema, 0, frozenset())
    except _TooMuch:
        return None
    if len(json.dumps(made)) > MAX_SENT:  # a long enumeration may stand in many places
        return None
    wrapped = made.get("type") != "object"
    if wrapped:
        made = {"type": "object", "properties": {"value": made}, "required": ["value"], "additionalProperties": False}
    return Enforced(made, cutter.strict, wrapped)


class _Cutter:
    def __init__(self, root: JsonSchema) -> None:
        self._root, self._nodes, self.strict = root, 0, True

    def cut(self, schema: Any, depth: int, followed: frozenset[str]) -> JsonSchema:
        self._nodes += 1
        if self._nodes > MAX_ENFORCED or depth > MAX_ENFORCED_DEPTH:
            raise _TooMuch
        if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
            if reference in followed:
                raise _TooMuch
            return self.cut(_target(self._root, reference), depth + 1, followed | {reference})
        if not isinstance(schema, dict):
            return self._anything()
        if "const" in schema:
            return _enumeration([schema["const"]])
        if isinstance(values := schema.get("enum"), list) and 0 < len(values) <= MAX_ENUM:
            return _enumeration(values)
        if isinstance(parts := schema.get("allOf"), list) and len(parts) == 1 and "properties" not in schema:
            return self.cut(parts[0], depth + 1, followed)
        for keyword in ("anyOf", "oneOf"):
            members = schema.get(keyword)
            if isinstance(members, list) and 0 < len(members) <= _MAX_MEMBERS and "properties" not in schema:
                return {"anyOf": [self.cut(member, depth + 1, followed) for member in members]}
        kinds = sorted(types_of(schema) or ({"object"} if "properties" in schema else ()))
        if not kinds:
            return self._anything()
        made = [self._of_type(kind, schema, depth, followed) for kind in kinds]
        return made[0] if len(made) == 1 else {"anyOf": made}

    def _of_type(self, kind: str, schema: JsonSchema, depth: int, followed: frozenset[str]) -> JsonSchema:
        if kind == "object":
            return self._object(schema, depth, followed)
        if kind == "array":
            items = schema.get("items")
            made = {"type": "array", "items": self.cut(items, depth + 1, followed)}
            return made | _bounds(schema, ("minItems", "maxItems"), MAX_ITEMS)
        if kind == "string":
            return {"type": "string"} | _bounds(schema, ("minLength", "maxLength"), MAX_LENGTH)
        if kind == "integer":
            return {"type": "integer"} | _bounds(schema, ("minimum", "maximum"), _MAX_NUMBER)
        return {"type": kind}

    def _object(self, schema: JsonSchema, depth: int, followed: frozenset[str]) -> JsonSchema:
        properties, required = schema.get("properties"), schema.get("required")
        required = [key for key in required if isinstance(key, str)] if isinstance(required, list) else []
        if not isinstance(properties, dict) or not properties or not properties.keys() >= set(required):
            self.strict = False  # its keys are not known
            return {"type": "object"}
        self.strict &= properties.keys() == set(required)
        made = {key: self.cut(value, depth + 1, followed) for key, value in properties.items()}
        return {"type": "object", "properties": made, "required": required, "additionalProperties": False}

    def _anything(self) -> JsonSchema:
        self.strict = False
        return {}


def _enumeration(values: list[Any]) -> JsonSchema:
    """The values with their type, which some endpoints want to see beside them."""
    kinds = {_KINDS.get(type(value), "") for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 and kinds != {""} else {"enum": values}


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _bounds(schema: JsonSchema, keywords: tuple[str, ...], most: int) -> JsonSchema:
    """The bounds that are whole numbers a grammar can count to."""
    found = {keyword: schema.get(keyword) for keyword in keywords}
    return {
        keyword: value
        for keyword, value in found.items()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most
    }


FormatKind = Literal["schema", "choices"]
ALL_KINDS: frozenset[FormatKind] = frozenset({"schema", "choices"})

MAX_TEXT = 60_000
"""Characters of a schema as JSON, or of all choices together: a prompt may have to hold them."""
MAX_CHOICE = 200
"""Characters of one choice."""
_MAX_READ = 400_000  # characters of a reply that are looked at
_MAX_NAMED = 20_000  # of them in which a choice is looked for
_MAX_STARTS = 8  # places of a reply at which JSON is looked for
_CHOICE, _VALUE = "choice", "value"  # the keys of an object where an endpoint takes no other root


@dataclass(frozen=True)
class Reading:
    """A reply as it was read. ``problem``: why it cannot be used; empty where ``value`` holds."""

    value: Any = None
    problem: str = ""


@dataclass(frozen=True)
class ReplyFormat:
    """A constraint on a reply; made by :meth:`of`.

    Attributes:
        kind: which of the two it is.
        text: the schema or the list of choices as JSON.
    """

    kind: FormatKind
    text: str

    @classmethod
    def of(cls, schema: JsonSchema | None = None, choices: Sequence[str] | None = None) -> ReplyFormat | None:
        """The one that is given; ``None`` where none is.

        Raises:
            UsageError: both are given, or what is given is not usable or too large.
        """
        if schema is not None and choices is not None:
            raise UsageError("a reply has one format: give a schema or choices, not both")
        if schema is not None:
            return cls("schema", _checked_schema(schema))
        return None if choices is None else cls("choices", _checked_choices(choices))

    @property
    def options(self) -> dict[str, Any]:
        """The argument of :meth:`Model.complete` that this was made from."""
        return {self.kind: json.loads(self.text)}

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The texts of which the reply must be one; empty for another kind of format."""
        return tuple(json.loads(self.text)) if self.kind == "choices" else ()

    @cached_property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema of the reply; ``None`` for another kind of format."""
        return json.loads(self.text) if self.kind == "schema" else None

    @cached_property
    def enforced(self) -> Enforced | None:
        """The schema for ``response_format``; ``None`` where a grammar would be too large."""
        if self.schema is not None:
            return enforced(self.schema)
        if not 0 < len(self.choices) <= MAX_ENUM:
            return None
        choice = {"type": "string", "enum": list(self.choices)}
        return Enforced(
            {
                "type": "object",
                "properties": {_CHOICE: choice},
                "required": [_CHOICE],
                "additionalProperties": False,
            },
            strict=True,
            wrapped=True,
        )

    @cached_property
    def grammar(self) -> str | None:
        """The format in GBNF (llama.cpp's notation), where it is a list of choices that is not too long."""
        if not 0 < len(self.choices) <= MAX_ENUM:
            return None
        return "root ::= " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in self.choices)

    def instruction(self) -> str:
        """The format as a sentence for a prompt."""
        schema = "" if self.schema is None else fenced(self.text)
        return prompt("reply_format", choices=[fenced(choice) for choice in self.choices], schema=schema)

    def read(self, text: str) -> Reading:
        """Read a reply and check it against the whole format; never raises."""
        if self.kind == "choices":
            return self._read_choice(text)
        first: Reading | None = None
        for value in _json_values(text):
            found = self._fitting(value)
            if not found.problem:
                return found
            first = first or found
        return first or Reading(problem="it holds no JSON")

    def _fitting(self, value: Any) -> Reading:
        assert self.schema is not None
        try:
            if not (wrong := problems(self.schema, value)):
                return Reading(value)
            if isinstance(value, dict) and value.keys() == {_VALUE} and not problems(self.schema, value[_VALUE]):
                return Reading(value[_VALUE])
        except (ValueError, TypeError, OverflowError, RecursionError):  # nested too deeply, or half a character
            return Reading(problem="it holds a value that cannot be checked")
        return Reading(problem="; ".join(map(str, wrong[:3])))

    def _read_choice(self, text: str) -> Reading:
        for named in (text.strip(), text.strip().strip("`'\"*.() \n")):
            if named in self.choices:
                return Reading(named)
        for value in _json_values(text):
            chosen = value.get(_CHOICE) if isinstance(value, dict) else value
            if isinstance(chosen, str) and chosen in self.choices:
                return Reading(chosen)
        found = ((_position(choice, text[:_MAX_NAMED]), -len(choice), choice) for choice in self.choices)
        first = min((each for each in found if each[0] >= 0), default=None)
        return Reading(problem="it names none of the choices") if first is None else Reading(first[2])


def _position(choice: str, text: str) -> int:
    at = text.find(choice)
    while at >= 0:
        end = at + len(choice)
        before, after = text[at - 1 : at], text[end : end + 1]
        if not (_in_word(before) and _in_word(choice[0])) and not (_in_word(after) and _in_word(choice[-1])):
            return at
        at = text.find(choice, end)
    return -1


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _json_values(text: str) -> Iterator[Any]:
    text = text[:_MAX_READ].strip()
    decoder = json.JSONDecoder(parse_constant=_refuse)
    blocks = text.split("```")[1 : 2 * _MAX_STARTS : 2]
    for whole in (text, *map(_without_label, blocks)):
        try:
            yield _sound(decoder.decode(whole))
        except (ValueError, RecursionError):
            continue
    at = -1
    for _ in range(_MAX_STARTS):
        at = min((found for mark in "{[" if (found := text.find(mark, at + 1)) >= 0), default=-1)
        if at < 0:
            return
        try:
            yield _sound(decoder.raw_decode(text, at)[0])
        except (ValueError, RecursionError):
            continue


def _sound(value: Any) -> Any:
    """The value, if it can be written as JSON again: no infinity, no half of a character."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _without_label(block: str) -> str:
    label, _, rest = block.partition("\n")
    return rest if not label.strip() or label.strip().isalnum() else block


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _checked_schema(schema: JsonSchema) -> str:
    check_bounded(schema)
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        ensure_valid_schema(schema, "the reply's schema")
    except ToolImportError as error:
        raise UsageError(str(error)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the reply's schema is no JSON: {error}") from None
    return _bounded(text, "schema")


def _checked_choices(choices: Sequence[str]) -> str:
    unique = list(dict.fromkeys(choices))
    if not unique:
        raise UsageError("a reply cannot be one of no choices: give one or more")
    for choice in unique:
        usable = isinstance(choice, str) and choice.strip() == choice and choice.isprintable() and choice
        if not usable or len(choice) > MAX_CHOICE:
            raise UsageError(
                f"{str(choice)[:40]!r} cannot be a choice: take one line of 1 to {MAX_CHOICE} characters "
                "without spaces around it"
            )
    return _bounded(json.dumps(unique, ensure_ascii=False), "list of choices")


def _bounded(text: str, what: str) -> str:
    if len(text) > MAX_TEXT:
        raise UsageError(f"the reply's {what} has {len(text):,} characters: {MAX_TEXT:,} are taken")
    return text

"""Places in the schema of a tool's parameters, and the gate that holds values to them (RETO §3.4, Eq. 11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from atc._records.packing import SMALL, holds_bytes, is_plain, pack
from atc.schemas.cost import MAX_STEPS, cost_of, steps
from atc.schemas.protocol import JsonSchema
from atc.schemas.reading import allows_more
from atc.schemas.validate import TOO_MUCH, part_validator, pointed, schema_key, types_of

MAX_FOLLOWED = 20
"""References that lead to one another; a schema may refer to itself."""
MAX_ALTERNATIVES = 12
"""Alternatives of one place (``anyOf``, ``oneOf``) that are looked at."""
MAX_DEPTH = 24
"""Objects and lists inside one another that are repaired."""
_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, eq=False)
class Place:
    """A part of a schema. ``pointer`` leads to it from the root, as a JSON pointer; ``schema`` is what stands there."""

    root: JsonSchema
    pointer: str
    schema: JsonSchema

    @classmethod
    def of(cls, root: JsonSchema) -> Place:
        """The root itself."""
        return cls(root, "", root)

    def below(self, *steps: str | int) -> Place | None:
        """The part under these keys; ``None`` where there is no schema."""
        pointer, found = self.pointer, self.schema
        for step in steps:
            text = str(step).replace("~", "~0").replace("/", "~1")
            pointer = f"{pointer}/{text}"
            try:
                found = found[step]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        return Place(self.root, pointer, found) if isinstance(found, dict) else None

    def parts(self) -> Iterator[Place]:
        """This place and those that hold at the same value besides: what it refers to, and its ``allOf``."""
        seen, waiting = {self.pointer}, [self]
        while waiting and len(seen) <= MAX_FOLLOWED:
            place = waiting.pop(0)
            yield place
            reference = place.schema.get("$ref")
            more = [place.below("allOf", i) for i in range(_length(place.schema.get("allOf")))]
            if isinstance(reference, str) and reference.startswith("#"):
                target = pointed(self.root, reference)
                more.append(Place(self.root, reference[1:], target) if isinstance(target, dict) else None)
            for part in more:
                if part is not None and part.pointer not in seen:
                    seen.add(part.pointer)
                    waiting.append(part)

    @cached_property
    def alternatives(self) -> list[Place]:
        """What a value at this place may be: the alternatives of ``anyOf`` and ``oneOf``, but ``null``; else itself."""
        for part in self.parts():
            for keyword in ("anyOf", "oneOf"):
                if count := _length(part.schema.get(keyword)):
                    found = [part.below(keyword, i) for i in range(min(count, MAX_ALTERNATIVES))]
                    return [place for place in found if place is not None and place.types != {"null"}]
        return [self]

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that are taken, by ``type``, ``enum`` or ``const``; empty where none is named."""
        for part in self.parts():
            if types := types_of(part.schema):
                return types
            if values := part.values:
                return frozenset(_JSON_TYPES.get(type(value), "null") for value in values)
        return frozenset()

    @cached_property
    def values(self) -> list[Any]:
        """The values of ``enum``, or the one of ``const``; empty where any is taken."""
        for part in self.parts():
            if isinstance(part.schema.get("enum"), list):
                return list(part.schema["enum"])
            if "const" in part.schema:
                return [part.schema["const"]]
        return []

    def get(self, keyword: str) -> Any:
        """What the first part with this keyword says; ``None`` where none does."""
        return next((part.schema[keyword] for part in self.parts() if keyword in part.schema), None)

    @cached_property
    def items(self) -> Place | None:
        """What the items of a list must be."""
        return next((found for part in self.parts() if (found := part.below("items")) is not None), None)

    @cached_property
    def takes_scalars_alone(self) -> bool:
        """Whether neither an object nor a list is taken."""
        return bool(self.types) and self.types <= _SCALARS

    @cached_property
    def members(self) -> dict[str, Place]:
        """The properties of an object, with those of all its alternatives."""
        found: dict[str, Place] = {}
        waiting, seen = [self], {self.pointer}
        while waiting and len(seen) <= MAX_FOLLOWED:
            for part in waiting.pop(0).parts():
                properties = part.schema.get("properties")
                for name in properties if isinstance(properties, dict) else ():
                    if name not in found and (member := part.below("properties", name)) is not None:
                        found[name] = member
                    found.setdefault(name, Place(self.root, "", {}))
                more = [
                    part.below(word, i) for word in ("anyOf", "oneOf") for i in range(_length(part.schema.get(word)))
                ]
                more += [part.below(word) for word in ("then", "else")]
                for place in more:
                    if place is not None and place.pointer not in seen:
                        seen.add(place.pointer)
                        waiting.append(place)
        return found

    @cached_property
    def required(self) -> list[str]:
        """The properties that an object must have."""
        named = [part.schema.get("required") for part in self.parts()]
        return [name for names in named if isinstance(names, list) for name in names if isinstance(name, str)]

    @cached_property
    def is_open(self) -> bool:
        """Whether keys beside :attr:`members` are taken: those of a tool's own arguments only where it says so."""
        is_root, has_members = self.pointer == "", False
        for part in self.parts():
            has_members = has_members or isinstance(part.schema.get("properties"), dict)
            if allows_more(part.schema):
                return True
            if part.schema.get("additionalProperties") is False:
                return False
        return not is_root or not (has_members or self.members)


class TooMuch(ValueError):
    """Whether a value fits cannot be told in bounded time."""


def gate_of(schema: JsonSchema) -> Gate:
    """The gate of a schema, kept for the next time.

    Raises:
        TypeError, ValueError, RecursionError: the schema cannot be written as JSON.
    """
    return _gate(schema_key(schema))


@lru_cache(maxsize=1024)
def _gate(text: str) -> Gate:
    return Gate(text)


class Gate:
    """Holds values to a schema and to parts of it.

    Args:
        text: the schema as JSON, as :func:`schema_key` writes it.

    Attributes:
        root: the whole schema.
        may_have_dates: whether a format of dates may be named in it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.root = Place.of(json.loads(text))
        self.may_have_dates = '"format": "date' in text or "YYYY" in text.upper()

    @cached_property
    def _checker(self) -> Any:
        """The validator of the whole, for a few texts and numbers; ``None`` where they may take long, or be dates."""
        cost = cost_of(self._text)
        quick = not (self.may_have_dates or cost.steps.letters or cost.unique) and SMALL * cost.steps.each <= MAX_STEPS
        return part_validator(self._text, "") if quick else None

    def takes_at_once(self, arguments: dict[str, Any]) -> bool:
        """Whether arguments are a few texts and whole numbers by name that surely fit as they stand.

        Raises:
            ValueError: the schema is none.
        """
        if self._checker is None or not is_plain(arguments) or float in map(type, arguments.values()):
            return False
        known = self.root.is_open or arguments.keys() <= self.root.members.keys()
        return known and bool(self._checker.is_valid(arguments))

    def accepts(self, place: Place, value: Any) -> bool:
        """Whether a value fits a place. A part that cannot be asked alone takes all: the whole decides.

        Raises:
            ValueError: the whole is no JSON Schema, or the value holds a key that is no text.
            RecursionError: the value is too deeply nested.
            TooMuch: it cannot be told in bounded time.
        """
        if steps(self._text, place.pointer, value) > MAX_STEPS:
            raise TooMuch(TOO_MUCH)
        with_bytes = holds_bytes(value)
        try:
            checker = part_validator(self._text, place.pointer, with_bytes=with_bytes)
        except ValueError:
            if not place.pointer:
                raise
            return True
        return bool(checker.is_valid(pack(value) if with_bytes else value))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0

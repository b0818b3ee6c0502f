"""Hold values to JSON Schemas, and mend what can safely be mended (RETO §3.4: schema gate, tier 1 repair)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from atc.errors import ToolImportError
from atc.packing import as_text, holds_bytes, pack, unpack
from atc.tools import binary
from atc.tools.protocol import JsonSchema

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,18})?([eE][+-]?\d{1,3})?")
MAX_PROBLEMS = 5
MAX_NOTES = 20
MAX_SHOWN = 1_000
"""Items of one list or object in which a problem is looked for, where the whole does not fit."""

MAX_SHOWN_IN_ALL = 10_000
_OF_THE_REST = frozenset({"required", "minItems", "minProperties", "contains", "minContains", "dependentRequired"})
"""Keywords that what was left out of an object or list could satisfy."""

_OF_A_PART = frozenset({"type", "additionalProperties", "propertyNames", "maxItems", "maxProperties", "uniqueItems"})
"""Keywords that one item or key breaks, whatever else there is."""


@dataclass(frozen=True)
class Problem:
    """One way in which a value does not fit: where (its path), what, and the schema keyword that says so."""

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
    first.
    """
    with_bytes = holds_bytes(value)
    packed = pack(value) if with_bytes else value
    validator = _validator(_key(schema), with_bytes)
    if validator.is_valid(packed):
        return []
    shown = _Shown()
    found: list[Problem] = []
    unsure: list[tuple[str | int, ...]] = []
    for error in validator.iter_errors(shown.of(packed)):
        at, keyword = tuple(error.instance_path), str(error.schema_path[-1]) if error.schema_path else ""
        if not shown.explains(at, keyword):
            unsure.append(at)
            continue
        instance = unpack(error.instance) if with_bytes else error.instance
        message = binary.complaint(instance, getattr(error.kind, "schema", None)) or error.message
        problem = Problem(at, _shorten(message), keyword)
        if str(problem) not in map(str, found):
            found.append(problem)
        if len(found) == MAX_PROBLEMS:
            break
    if found:
        return found
    places = unsure or sorted(shown.cut, key=str)
    where = places[0] if len(places) == 1 else ()
    return [Problem(where, "something in it does not fit; it is too large to say what: give less at once", "")]


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


@dataclass
class _Shown:
    """A value with the first items of its long lists and objects, and where something was left out."""

    left: int = MAX_SHOWN_IN_ALL
    cut: set[tuple[str | int, ...]] = field(default_factory=set)

    def of(self, value: Any, at: tuple[str | int, ...] = ()) -> Any:
        if not isinstance(value, dict | list):
            return value
        taken = min(len(value), MAX_SHOWN, self.left)
        self.left -= taken
        if taken < len(value):
            self.cut.add(at)
        if isinstance(value, dict):
            return {key: self.of(item, (*at, key)) for key, item in islice(value.items(), taken)}
        return [self.of(item, (*at, i)) for i, item in enumerate(islice(value, taken))]

    def explains(self, at: tuple[str | int, ...], keyword: str) -> bool:
        """Whether an error holds for the whole value, and does not come from what was left out."""
        if keyword in _OF_THE_REST:
            return at not in self.cut
        return keyword in _OF_A_PART or not any(cut[: len(at)] == at for cut in self.cut)


def ensure_valid_schema(schema: JsonSchema, what: str) -> None:
    """Raise ToolImportError, naming ``what``, when ``schema`` is not a JSON Schema that can be used."""
    try:
        _validator(_key(schema), False)
    except (jsonschema_rs.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ToolImportError(f"{what} is not a usable JSON Schema: {_shorten(str(error))}") from None


def repaired(schema: JsonSchema, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return arguments with the safe repairs made, and a note for each.

    Keys that the schema does not know are dropped; a number or truth value written as text becomes one where the schema
    wants one, a number becomes text where only text is wanted, one value becomes a list of one. ``null`` for an
    optional argument that may not be null is left out. Nothing is invented: what is missing stays missing.
    """
    repair = _Repair(schema)
    made = repair.object(schema, arguments, "")
    more = len(repair.notes) - MAX_NOTES
    return made, repair.notes if more <= 0 else [*repair.notes[:MAX_NOTES], f"and {more:,} more repairs"]


def resolve(root: JsonSchema, schema: Any) -> JsonSchema:
    """Follow ``$ref`` into the root's own ``$defs``; an empty schema for what cannot be followed."""
    for _ in range(20):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target = pointed(root, reference)
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}} if isinstance(target, dict) else {}
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


@dataclass
class _Repair:
    """The repair of one call's arguments. ``root`` is the schema that references point into."""

    root: JsonSchema
    notes: list[str] = field(default_factory=list)
    _validators: dict[tuple[int, bool], Any] = field(default_factory=dict)

    def object(self, schema: JsonSchema, value: dict[str, Any], path: str) -> dict[str, Any]:
        known = schema.get("properties")
        if not isinstance(known, dict):
            return value
        required, made = set(schema.get("required", ())), {}
        open_ended = bool(schema.get("additionalProperties", bool(path))) or "patternProperties" in schema
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            if key not in known:
                if open_ended:
                    made[key] = item
                else:
                    self.notes.append(f"dropped unknown argument {where}")
                continue
            wanted = resolve(self.root, known[key])
            if item is None and key not in required and types_of(wanted) and "null" not in types_of(wanted):
                self.notes.append(f"left out {where}, which was null")
                continue
            made[key] = self.value(wanted, item, where)
        return made

    def value(self, schema: JsonSchema, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return self.object(schema, value, where)
        if isinstance(value, list):
            items = resolve(self.root, schema.get("items", {}))
            return [self.value(items, item, f"{where}[{i}]") for i, item in enumerate(value)]
        made = self._scalar(types_of(schema), schema, value)
        if made is not value:
            self.notes.append(f"took {as_text(value)} as {as_text(made)} for {where}")
        return made

    def _scalar(self, types: frozenset[str], schema: JsonSchema, value: Any) -> Any:
        if isinstance(value, str) and "string" not in types:
            text = value.strip()
            if types & {"integer", "number"} and _NUMBER.fullmatch(text):
                number = float(text)
                if number.is_integer() and abs(number) < 2**53:
                    return int(number)
                return number if "number" in types else value
            if "boolean" in types and text.lower() in ("true", "false"):
                return text.lower() == "true"
        if isinstance(value, float) and types == {"integer"} and value.is_integer():
            return int(value)
        if types == {"string"} and isinstance(value, int | float) and not isinstance(value, bool):
            return value if binary.takes_bytes(schema) else str(value)
        if types == {"array"} and isinstance(value, str | int | float | bool | bytes) and self._is_item(schema, value):
            return [value]
        return value

    def _is_item(self, schema: JsonSchema, value: Any) -> bool:
        items = schema.get("items")
        if not isinstance(items, dict):
            return False
        key = (id(items), isinstance(value, bytes))
        if key not in self._validators:  # a list may ask as often as it has items
            self._validators[key] = _validator(_key({**items, "$defs": self.root.get("$defs", {})}), key[1])
        return bool(self._validators[key].is_valid(pack(value)))


def _shorten(message: str) -> str:
    return message if len(message) <= 300 else message[:300] + " …"


def _key(schema: JsonSchema) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _validator(text: str, with_bytes: bool) -> Any:
    schema = binary.for_validator(json.loads(text), with_bytes=with_bytes)
    # the plain regular expression engine runs in linear time: no `pattern` of a document can hang the host
    return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True)

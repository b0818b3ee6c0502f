"""Hold values to JSON Schemas, and mend what can safely be mended (RETO §3.4: schema gate, tier 1 repair)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs

from atc.errors import ToolImportError
from atc.tools.protocol import JsonSchema

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,18})?([eE][+-]?\d{1,3})?")
MAX_PROBLEMS = 5


@dataclass(frozen=True)
class Problem:
    """One way in which a value does not fit: where (``$.a[0].b``), what, and the schema keyword that says so."""

    where: str
    message: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def problems(schema: JsonSchema, value: Any) -> list[Problem]:
    """Return up to five ways in which ``value`` does not fit ``schema``; none when it fits."""
    found = []
    for error in _validator(_key(schema)).iter_errors(value):
        where = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        found.append(Problem(where, _shorten(error.message), str(error.schema_path[-1]) if error.schema_path else ""))
        if len(found) == MAX_PROBLEMS:
            break
    return found


def ensure_valid_schema(schema: JsonSchema, what: str) -> None:
    """Raise ToolImportError, naming ``what``, when ``schema`` is not a JSON Schema that can be used."""
    try:
        _validator(_key(schema))
    except (jsonschema_rs.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ToolImportError(f"{what} is not a usable JSON Schema: {_shorten(str(error))}") from None


def repaired(schema: JsonSchema, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return arguments with the safe repairs made, and a note for each.

    Keys that the schema does not know are dropped; a number or truth value written as text becomes one where the schema
    wants one, a number becomes text where only text is wanted, one value becomes a list of one. ``null`` for an
    optional argument that may not be null is left out. Nothing is invented: what is missing stays missing.
    """
    notes: list[str] = []
    return _object(schema, schema, arguments, "", notes), notes


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


def _object(root: JsonSchema, schema: JsonSchema, value: dict[str, Any], path: str, notes: list[str]) -> dict[str, Any]:
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
                notes.append(f"dropped unknown argument {where}")
            continue
        wanted = resolve(root, known[key])
        if item is None and key not in required and types_of(wanted) and "null" not in types_of(wanted):
            notes.append(f"left out {where}, which was null")
            continue
        made[key] = _value(root, wanted, item, where, notes)
    return made


def _value(root: JsonSchema, schema: JsonSchema, value: Any, where: str, notes: list[str]) -> Any:
    types = types_of(schema)
    if isinstance(value, dict):
        return _object(root, schema, value, where, notes)
    if isinstance(value, list):
        items = resolve(root, schema.get("items", {}))
        return [_value(root, items, item, f"{where}[{i}]", notes) for i, item in enumerate(value)]
    made = _scalar(types, schema, value)
    if made is not value:
        notes.append(f"took {json.dumps(value)} as {json.dumps(made)} for {where}")
    return made


def _scalar(types: frozenset[str], schema: JsonSchema, value: Any) -> Any:
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
        return str(value)
    if types == {"array"} and isinstance(value, str | int | float | bool):
        items = schema.get("items")
        if isinstance(items, dict) and not problems({**items, "$defs": {}}, value):
            return [value]
    return value


def _shorten(message: str) -> str:
    return message if len(message) <= 300 else message[:300] + " …"


def _key(schema: JsonSchema) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _validator(text: str) -> Any:
    # the plain regular expression engine runs in linear time: no `pattern` of a document can hang the host
    return jsonschema_rs.validator_for(json.loads(text), pattern_options=jsonschema_rs.RegexOptions(), offline=True)

"""Schemas of responses: made plain, held to what a service answers, and turned into values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from atc.schemas.protocol import JsonSchema
from atc.schemas.reading import whole
from atc.schemas.validate import problems, resolve, types_of

Json = dict[str, Any]
Place = tuple[str, ...]

MAX_DEPTH = 9
"""How deep a schema is followed; a playlist of Spotify's has tracks that are on albums that have artists."""
ITEMS = 3
"""Of a list that is made up: somebody asks for the third track."""
ME = "listener"
"""The user's own identifier, where values are made up."""

_KEPT = ("description", "enum", "examples", "format", "minimum", "maximum")
_OPTIONAL = re.compile(r"\bnull\b")
_WORDS = (
    "amber",
    "silver",
    "river",
    "night",
    "paper",
    "garden",
    "harbour",
    "winter",
    "golden",
    "echo",
    "stone",
    "lily",
)


# Made plain ---------------------------------------------------------------------------------------------------------


def plain(root: JsonSchema, schema: Any, depth: int = MAX_DEPTH) -> JsonSchema:
    """A schema without references and alternatives: of several objects the first, of several plain types their union.

    What a description says may be null may be null. Names that are required and not described are dropped.
    """
    node = resolve(root, schema)
    if isinstance(node.get("allOf"), list):
        node = whole(root, node)
    for keyword in ("oneOf", "anyOf"):
        if isinstance(node.get(keyword), list):
            others = [plain(root, option, depth) for option in node[keyword]]
            rich = next((option for option in others if types_of(option) & {"object", "array"}), None)
            kinds = set[str]().union(*map(types_of, others))
            node = {**node, **(rich or {"type": sorted(kinds - ({"integer"} if "number" in kinds else set()))})}
    kinds = set(types_of(node)) or ({"object"} if "properties" in node else set())
    if "string" in kinds and _OPTIONAL.search(str(node.get("description", ""))):
        kinds.add("null")
    made: JsonSchema = {"type": sorted(kinds) if len(kinds) > 1 else min(kinds)} if kinds else {}
    made |= {key: node[key] for key in _KEPT if key in node}
    if "object" in kinds and depth and isinstance(node.get("properties"), dict):
        made["properties"] = {name: plain(root, part, depth - 1) for name, part in node["properties"].items()}
        made["required"] = [name for name in node.get("required", ()) if name in made["properties"]]
    if "array" in kinds:
        made["items"] = plain(root, node.get("items", {"type": "object"}), depth - 1) if depth else {"type": "object"}
    return made


def held_to(schema: JsonSchema, values: Sequence[Any]) -> JsonSchema:
    """A plain schema cut to the fields that some values have; those that all of them have are required.

    Where a document is stricter than the service, which takes nothing or another word for a value, it gives way.
    """
    schema = _widened(schema, [value for value in values if not isinstance(value, dict | list)])
    objects = [value for value in values if isinstance(value, dict)]
    items = [item for value in values if isinstance(value, list) for item in value]
    if "properties" in schema and objects:
        counts = {name: [one[name] for one in objects if name in one] for name in schema["properties"]}
        kept = {name: held_to(schema["properties"][name], there) for name, there in counts.items() if there}
        return {**schema, "properties": kept, "required": [n for n in kept if len(counts[n]) == len(objects)]}
    return {**schema, "items": held_to(schema["items"], items)} if "items" in schema and items else schema


def _widened(schema: JsonSchema, values: Sequence[Any]) -> JsonSchema:
    kinds = set(types_of(schema))
    if kinds and None in values:
        schema = {**schema, "type": sorted(kinds | {"null"})}
    if "enum" in schema:
        schema = {**schema, "enum": list(dict.fromkeys([*schema["enum"], *values]))}
    return schema


# Made into values ---------------------------------------------------------------------------------------------------


def number(*seed: str) -> int:
    """A number that these texts always give."""
    return int(hashlib.sha256("/".join(seed).encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)


def made(schema: JsonSchema, seed: str, place: Place = ()) -> Any:
    """A value of a plain schema: the same for the same seed, and plausible for the names of its fields."""
    kinds = types_of(schema)
    name, where = (place[-1] if place else ""), "/".join(place)
    if name in ("next", "previous") and "null" in kinds:
        return None
    if schema.get("enum"):
        return schema["enum"][number(seed, where) % len(schema["enum"])]
    if "object" in kinds:
        parts = {key: made(part, seed, (*place, key)) for key, part in schema.get("properties", {}).items()}
        return _agreed(parts, schema, place)
    if "array" in kinds:
        shown = next((example for example in schema.get("examples", ()) if isinstance(example, list)), [])
        if shown and not problems(schema, shown):
            return list(shown)
        return [made(schema["items"], f"{seed}/{position}", place) for position in range(ITEMS)]
    if kinds & {"integer", "number"}:
        return _count(schema, number(seed, where))
    return (
        number(seed, where) % 2 == 0
        if "boolean" in kinds
        else None
        if kinds == {"null"}
        else _text(schema, name, number(seed, where))
    )


def _agreed(parts: Json, schema: JsonSchema, place: Place) -> Json:
    known = schema.get("properties", {})
    quoted = re.search(r'"(\w+)"', str(known.get("type", {}).get("description", "")))
    if quoted and "enum" not in known["type"]:
        parts["type"] = quoted[1]
    if place and place[-1] in ("owner", "added_by") and "id" in known:
        parts["id"] = ME
    if "uri" in parts and isinstance(parts.get("id"), str):
        parts["uri"] = f"spotify:{parts.get('type', 'user')}:{parts['id']}"
    if isinstance(parts.get("items"), list) and "total" in parts:
        parts |= {key: value for key, value in {"total": len(parts["items"]), "offset": 0}.items() if key in known}
    return parts


def _count(schema: JsonSchema, chance: int) -> int:
    shown = next((int(x) for x in schema.get("examples", ()) if re.fullmatch(r"\d{1,9}", str(x))), 50)
    low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", max(2 * shown, 1)))
    return low + chance % (max(high - low, 0) + 1)


def _text(schema: JsonSchema, name: str, chance: int) -> str:
    examples = [str(example).strip() for example in schema.get("examples", ())]
    day = date(1990, 1, 1) + timedelta(days=chance % 12_000)
    if name == "id" or name.endswith("_id"):
        return _base62(chance)
    if schema.get("format") == "date-time" or name.endswith("_at"):
        return f"{day}T12:00:00Z"
    if name.endswith("date"):
        return str(day)
    if name in ("name", "title", "display_name"):
        return f"{_WORDS[chance % len(_WORDS)]} {_WORDS[chance // 97 % len(_WORDS)]}".title()
    if name in ("url", "href", "spotify") or name.endswith("_url"):
        return f"https://example.org/{chance:x}"
    return examples[0] if examples else f"{name or 'text'} {chance % 1000}"


def _base62(value: int) -> str:
    """22 letters and digits, as Spotify's identifiers have."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    value, text = value**3 + 62**21, ""
    while value and len(text) < 22:
        value, rest = divmod(value, 62)
        text += digits[rest]
    return text

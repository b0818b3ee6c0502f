"""Repair the arguments of a call where the schema leaves one way to mean them (RETO §3.4: tier 1 of repair)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atc.facts import ArgumentRepair
from atc.packing import as_text, pack
from atc.result import Effect
from atc.schemas.validate import Problem, problems, resolve, types_of, validator
from atc.tools import binary
from atc.tools.protocol import JsonSchema

MAX_NOTES = 20
"""Repairs that are listed one by one."""
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,18})?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Repaired:
    """Arguments after the repairs by rule.

    Attributes:
        arguments: by the tool's own names.
        repairs: what was changed.
        problems: what is still wrong: empty where the schema gate accepts them (Eq. 11).
    """

    arguments: dict[str, Any]
    repairs: tuple[ArgumentRepair, ...]
    problems: tuple[Problem, ...]


def repair_arguments(
    schema: JsonSchema,
    arguments: dict[str, Any],
    effect: Effect = Effect.READ,
    respellings: Mapping[str, str] | None = None,
) -> Repaired:
    """Repair arguments by rule, and hold them to the schema (RETO §3.4, Alg. 1 tier 1 and Eq. 11).

    Args:
        schema: of the parameters.
        arguments: by the tool's own names, or those that a program gave in their place.
        effect: of the tool: what is not a read gets lossless repairs alone.
        respellings: keys that are known to mean a parameter of this tool.
    """
    made, _ = repaired(schema, arguments)
    return Repaired(made, (), tuple(problems(schema, made)))


def same_request(schema: JsonSchema, given: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether two objects of arguments say the same: the same values, each under its key or one spelt alike."""
    left = {_spelling(key): value for key, value in given.items()}
    right = {_spelling(key): value for key, value in sent.items()}
    return len(left) == len(given) == len(right) == len(sent) and left == right


def _spelling(key: str) -> str:
    return re.sub(r"[\W_]", "", key).casefold()


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
            whole = {**items, "$defs": self.root.get("$defs", {})}
            self._validators[key] = validator(whole, with_bytes=key[1])
        return bool(self._validators[key].is_valid(pack(value)))

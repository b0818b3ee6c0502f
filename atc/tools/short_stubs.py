"""A tool's stub in fewer and fewer words, for prompts that have no room for all of it.

A schema loses keys as an :class:`~atc.tools.outline.Outline` ranks them. What is made of it is new from end to end and
holds nothing that is not shown, so that whoever writes it out does not pay for what was left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from atc._host.invisible import written
from atc.schemas.names import is_readable_name
from atc.schemas.observed import is_observed
from atc.schemas.protocol import JsonSchema, Parameter, Protocol, parameters_of
from atc.schemas.reading import CHOICES, Reader, limits_of
from atc.schemas.types import LEFT_OUT, MAX_DEPTH, TypeWriter, camel, one_line
from atc.schemas.validate import resolve, types_of
from atc.tools.outline import Outline, Record, names_a_word
from atc.tools.paging import paging_line
from atc.tools.stubs import (
    Stub,
    about,
    effect_line,
    guarded,
    kept_line,
    named_there,
    observed_response,
    observed_returns,
    parameter_text,
)

MAX_ENUM, MAX_CHOICES = 100, 300
"""Characters of the values of an enumeration; of a longer one the first are named in a comment. The second where there
is room for notes: a program cannot guess which of the others an argument needs."""
_MAX_MEMBERS = 12
"""Members of a choice that are shown."""
MAX_NODES = 3_000
"""Schemas of one tool that are looked at: choices that multiply have no end."""
_ABOUT = ("description", "format")


class Shortener:
    """Cuts the schemas of one tool, of its response and its arguments.

    Args:
        outline: which keys are worth what.
        keys: how many keys a tool may have, on average; see :attr:`Record.ranks`.
        enum: characters of the values of an enumeration.

    Attributes:
        definitions: what the references of all that was cut point into, as ``#/$defs/…``; a type that stands in the
            arguments and in the response is there once.
    """

    def __init__(self, outline: Outline, keys: float, enum: int = MAX_ENUM) -> None:
        self._outline, self._keys, self._enum = outline, keys, enum
        self.definitions: JsonSchema = {}
        self._names: dict[int, str] = {}
        self._nodes = 0

    @property
    def root(self) -> JsonSchema:
        """The schema that holds the definitions of all that was cut."""
        return {"$defs": self.definitions}

    def cut(self, root: JsonSchema, schema: Any, depth: int = 0) -> JsonSchema:
        """A schema with the keys that are shown. ``root``: of the schema that is given."""
        self._nodes += 1
        if not isinstance(schema, dict) or depth > 2 * MAX_DEPTH or self._nodes > MAX_NODES:
            return {}
        reader = self._outline.reader(root)
        target, _ = reader.follow(schema)
        about = {key: text for key in _ABOUT if isinstance(text := schema.get(key, target.get(key)), str)}
        if "const" in target:
            return {"const": target["const"], **about}
        if isinstance(values := target.get("enum"), list):
            return _enumeration(values, target, about, self._enum)
        for choice in CHOICES:
            if isinstance(members := target.get(choice), list):
                cut = [self.cut(root, member, depth + 1) for member in members[:_MAX_MEMBERS]]
                return {choice: [*cut, {}] if len(members) > _MAX_MEMBERS else cut, **about}
        if (record := self._outline.record_at(target)) is not None and (shown := record.shown(self._keys)):
            return {**self._record(target, record, shown, depth), **about}
        made: JsonSchema = {"type": target["type"], **about} if types_of(target) else {**about}
        if isinstance(properties := target.get("properties"), dict) and properties:
            number = len(properties)
            return {"type": "object", **made, "description": _counted(number, "key"), LEFT_OUT: number}
        for keyword in ("items", "additionalProperties"):
            if isinstance(target.get(keyword), dict):
                made[keyword] = self.cut(root, target[keyword], depth + 1)
                if LEFT_OUT in (inner := made[keyword]) and "properties" not in inner:
                    made["description"], made[LEFT_OUT] = inner["description"], inner[LEFT_OUT]
                    # the comment stands at the key, not at the items of its list
        return made

    def _record(self, place: Any, record: Record, shown: list[str], depth: int) -> JsonSchema:
        if id(place) in self._names:
            return {"$ref": f"#/$defs/{self._names[id(place)]}"}
        own = None if record.name is None else _unused(record.name, self.definitions)
        if own is not None:
            self._names[id(place)], self.definitions[own] = own, {}
        required = record.schema.get("required")
        made: JsonSchema = {
            "type": record.schema.get("type", "object"),
            "properties": {key: self.cut(record.root, record.properties[key], depth + 1) for key in shown},
            "required": [key for key in required if key in shown] if isinstance(required, list) else [],
        }
        if hidden := len(record.properties) - len(shown):
            made[LEFT_OUT] = hidden
        if own is None or record.name is None:
            return made
        if own != record.name and self.definitions[record.name] == made:  # the same in a request and in a response
            del self.definitions[own]
            own = self._names[id(place)] = record.name
        self.definitions[own] = made
        return {"$ref": f"#/$defs/{own}"}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''} left out"


def _unused(name: str, taken: JsonSchema) -> str:
    number, candidate = 2, name
    while candidate in taken:
        number, candidate = number + 1, f"{name}{number}"
    return candidate


def _enumeration(values: list[Any], schema: JsonSchema, about: JsonSchema, most: int) -> JsonSchema:
    if sum(len(str(value)) + 4 for value in values) <= most:
        return {"enum": values, **about}
    named, room = [], MAX_ENUM - 30
    for value in values:
        text = one_line(written(value), 40)
        if (room := room - len(text) - 2) < 0:
            break
        named.append(text)
    summary = f"one of {', '.join(named)} and {len(values) - len(named)} more"
    kind = {"type": schema["type"]} if types_of(schema) else {"type": "string"}
    return {**kind, "description": summary}


def keys_text(root: JsonSchema, schema: JsonSchema) -> str:
    """The keys of a shortened schema as one line: ``{data: [{id, name, owner: {login}, ...}], total}``."""
    text = _keys(root, schema, set(), 0)
    return one_line(text, 2_000) if "{" in text else ""


def _keys(root: JsonSchema, schema: Any, met: set[str], depth: int) -> str:
    """Brackets for a list, braces for an object, nothing for what has no keys."""
    if depth > 2 * MAX_DEPTH or not isinstance(schema, dict):
        return ""
    if isinstance(reference := schema.get("$ref"), str):
        if reference in met:
            return "{...}"
        met.add(reference)
        schema = resolve(root, schema)
    if isinstance(properties := schema.get("properties"), dict):
        parts = [_key(key, _keys(root, value, met, depth + 1)) for key, value in properties.items()]
        return "{" + ", ".join([*parts, "..."] if LEFT_OUT in schema else parts) + "}"
    for choice in CHOICES:
        if isinstance(members := schema.get(choice), list):
            return next(filter(None, (_keys(root, member, met, depth + 1) for member in members)), "")
    if "items" in schema:
        return f"[{_keys(root, schema['items'], met, depth + 1) or '...'}]"
    if LEFT_OUT in schema:
        return "{...}"
    below = schema.get("additionalProperties")
    return f"{{...: {text}}}" if (text := _keys(root, below, met, depth + 1)) else ""


def _key(key: str, below: str) -> str:
    name = key if is_readable_name(key) else written(key)
    return f"{name}: {below}" if below and below != "[...]" else f"{name}: []" if below else name


MAX_LISTED = 40
"""Characters of the names of arguments that are not shown otherwise."""


@dataclass(frozen=True)
class Grade:
    """How much of a tool is shown.

    Attributes:
        name: what is left: all (``whole``), the ``keys`` of its response, its ``arguments`` with fewer keys, or a
            ``line``.
        keys: keys of its response and arguments, on average over all tools (:attr:`atc.tools.outline.Record.ranks`).
        optional: arguments that are not required and not named by the task are shown too.
        description: characters of what the tool does. ``notes``: characters of an argument's description; none for 0.
    """

    name: str
    keys: float = 0
    optional: bool = False
    description: int = 260
    notes: int = 120


WHOLE = Grade("whole")
LADDER = (
    WHOLE,
    Grade("keys", 16, optional=True, description=160, notes=60),
    Grade("arguments", 12, description=80, notes=0),
    Grade("line", 4, description=40, notes=0),
)
"""From all of a tool to its name, its required arguments and what it does. Every step shows less."""


def short_stub(
    protocol: Protocol,
    grade: Grade,
    outline: Outline,
    hints: Mapping[str, str],
    words: Collection[str],
    ask: str | None = None,
    *,
    pages: bool = False,
) -> Stub:
    """A tool at a grade below ``whole``.

    Args:
        grade: what is shown of it.
        outline: what its keys are worth; of a list of tools that it is one of.
        hints: for a parameter, where its value can be had.
        words: of the task.
        ask: the name of the tool that a program asks for the rest; ``None`` where there is none.
        pages: say of a paged tool how all its pages are read, where there is room for notes.
    """
    enum = MAX_CHOICES if grade.notes else MAX_ENUM
    shortener = Shortener(outline, grade.keys, enum)
    more = f': {ask}("{protocol.name}")' if ask and grade.notes else ""
    parameters = parameters_of(protocol)
    shown = [p for p in parameters if p.required or grade.optional or names_a_word(p.original, p.schema, words)]
    types = Shortener(outline, 0, enum)
    response = types.cut(protocol.returns, protocol.returns) if protocol.returns is not None else {}
    arguments = [replace(p, schema=types.cut(protocol.parameters, p.schema)) for p in shown]
    writer = TypeWriter(types.root, camel(protocol.name))
    returns = writer.write(response, "response")
    signature = ", ".join(parameter_text(writer, parameter) for parameter in arguments)
    keys = ""
    if protocol.returns is not None:
        keys = keys_text(shortener.root, shortener.cut(protocol.returns, protocol.returns))
        returns = "Any" if keys else returns
    reader = Reader(protocol.parameters)
    notes = [_note(protocol.parameters, reader, p, grade, shortener, hints) for p in shown]
    observed = protocol.returns is not None and is_observed(protocol.returns)
    about_it = one_line(protocol.description, grade.description) or protocol.name
    lines = [about_it, *filter(None, [named_there(protocol), kept_line(protocol), *notes])]
    seen = {parameter.name for parameter in shown}
    if hidden := [p.name for p in parameters if p.name not in seen]:
        lines.append(_also(hidden))
    if pages and grade.notes and (paged := paging_line(protocol)):
        lines.append(paged)
    if effect := effect_line(protocol):
        lines.append(effect)
    if keys:
        lines.append(f"{observed_returns(protocol.returns) if observed else 'Response'}: {keys}")
    elif observed:
        lines.append(observed_response(protocol.returns))
    if more and (hidden or "..." in keys):
        lines.append(f"More{more}")
    arrow = f" -> {returns}" if returns != "Any" else ""
    function = "\n".join([f"def {protocol.name}({signature}){arrow}:", *_docstring(lines, grade)])
    return guarded(Stub(writer.classes, function), protocol.name)


def _briefly(parameter: Parameter, reader: Reader, limit: int) -> str:
    text = about(parameter, reader)
    if len(text) <= limit or limit >= WHOLE.notes:
        return text
    kind = parameter.schema.get("format")
    demanded = ", ".join(filter(None, [kind if isinstance(kind, str) else "", limits_of(parameter.schema)]))
    return one_line(demanded, limit)


def _also(names: list[str]) -> str:
    listed = ", ".join(names)
    return f"Also: {listed}" if len(listed) <= MAX_LISTED else f"{len(names)} more arguments"


def _docstring(lines: list[str], grade: Grade) -> list[str]:
    if grade.name == "line":
        text = " ".join(line if line.endswith((".", "…")) else f"{line}." for line in lines)
        return [f'    """{text}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def _note(
    root: JsonSchema,
    reader: Reader,
    parameter: Parameter,
    grade: Grade,
    shortener: Shortener,
    hints: Mapping[str, str],
) -> str | None:
    parts = []
    if keys := keys_text(shortener.root, shortener.cut(root, parameter.schema)):
        parts.append(keys)
    if grade.notes:
        parts.append(_briefly(parameter, reader, grade.notes))
        parts.append(one_line(hints.get(parameter.original, ""), 120))
    text = "; ".join(filter(None, parts))
    return f"{parameter.name}: {text}" if text else None

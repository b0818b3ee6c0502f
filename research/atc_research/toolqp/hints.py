"""Hints for a teacher about a tool that it must find without its name (ToolQP §3.2, Fig. 15 "AddMoreInfo")."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

from atc import Protocol
from atc.plugins.learning import VERBS, document_fields
from atc_research.toolqp.dialogue import harmless

LEVELS = 5
"""Attempts at a sub-goal, each told more: the goal alone; the tool's description too; what the last query found; what
it finds together with the plan; all of the tool but its name."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RUN = re.compile(r"[^\W_]+")
_MAX_WHOLE, _PARAMETERS = 1_500, 30
_WORDLESS = VERBS | {"all", "api", "by", "for", "from", "function", "of", "the", "this", "to", "tool", "use"}
"""Words that tell nothing of a tool: a tool that is called ``search`` makes no query with that word wrong."""


def names_tool(text: str, protocol: Protocol, task: str = "") -> bool:
    """Whether a text holds the tool's name, in any spelling: ``get_weather``, ``getWeather``, ``Get Weather``.

    The user's own words are free: where the task itself says "current weather", so may a query for
    ``current_weather``. The identifier is not, even where the task holds it.

    Args:
        text: a query of a teacher.
        protocol: the tool; the name at its source counts too.
        task: the user's words.
    """
    spelled, in_task = _padded(_parts(text)), _padded(_words(task))
    squeezed = _words(re.sub(r"[_.-]", "", text))
    for parts in _names(protocol):
        if _padded(parts) in spelled and _padded(parts) not in in_task:
            return True
        if len(parts) > 1 and "".join(parts) in squeezed:
            return True
    return False


def without_name(text: str, protocol: Protocol) -> str:
    """A text about a tool in which its name is ``this tool``."""
    for parts in _names(protocol):
        spelled = r"[\W_]*".join(map(re.escape, parts))
        text = re.sub(rf"(?<![^\W_]){spelled}(?![^\W_])", "this tool", text, flags=re.IGNORECASE)
    return text


def about(protocol: Protocol) -> str:
    """A tool in one line without its name, for the plan."""
    described = without_name(protocol.description, protocol)
    line = harmless(described, 200) or "(no description)"
    if protocol.parameters["properties"]:
        line += f" Takes {harmless(', '.join(map(str, protocol.parameters['properties'])), 120)}."
    return line


def hints(id: str, protocol: Protocol, level: int) -> list[str]:
    """What an attempt is told of a tool (Fig. 15): nothing, then its description, at the last attempt all but its name.

    The third and the fourth attempt are told no more of the tool, but what earlier queries found.

    Args:
        id: of the tool in its index; its parts but the last are its category and service.
        protocol: the tool.
        level: from 0 to :data:`LEVELS` - 1.
    """
    described = harmless(without_name(protocol.description, protocol))
    told = [f"we look for a tool with this description: {described}"] if level and described else []
    if level == LEVELS - 1 and (whole := harmless(_all_but_the_name(id, protocol), _MAX_WHOLE)):
        told.append(f"all that is known of the tool but its name: {whole} Use its description and its parameters.")
    return told


def _all_but_the_name(id: str, protocol: Protocol) -> str:
    found = document_fields(id, protocol)
    properties = protocol.parameters["properties"]
    parts = {
        "category": without_name(found.service, protocol),
        "description": without_name(protocol.description, protocol)[:_MAX_WHOLE],
        "parameters": dict(islice(((str(name), _type(schema)) for name, schema in properties.items()), _PARAMETERS)),
        "returns": found.returns.split()[:_PARAMETERS],
    }
    held = {key: value for key, value in parts.items() if value}
    return json.dumps(held, ensure_ascii=False) if held else ""


def _type(schema: object) -> str:
    kind = schema.get("type", "") if isinstance(schema, dict) else ""
    return kind if isinstance(kind, str) else "/".join(map(str, kind))


def _names(protocol: Protocol) -> Iterator[list[str]]:
    for name in dict.fromkeys((protocol.name, protocol.source.operation)):
        parts = _parts(name)
        if any(len(part) > 1 and part not in _WORDLESS for part in parts):
            yield parts


def _parts(text: str) -> list[str]:
    return _words(_CAMEL.sub(" ", text))


def _words(text: str) -> list[str]:
    return [run.casefold() for run in _RUN.findall(text)]


def _padded(parts: list[str]) -> str:
    return f" {' '.join(parts)} "

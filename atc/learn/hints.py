"""Hints for a teacher about a tool that it must find without its name (ToolQP §3.2, Fig. 15 "AddMoreInfo")."""

from __future__ import annotations

import re
from collections.abc import Iterator

from atc.graph.name_affinity import VERBS
from atc.retrieval.dialogue import harmless
from atc.retrieval.document_fields import document_fields
from atc.retrieval.stopwords import STOP_WORDS
from atc.tools.protocol import Protocol

LEVELS = 5
"""Attempts at a sub-goal, each with one hint more."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RUN = re.compile(r"[^\W_]+")
_KEYWORDS = 8
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
    """The hints of an attempt: none, then category and service, parameter names, words of the description, all of it.

    Args:
        id: of the tool in its index; its parts but the last are its category and service.
        protocol: the tool.
        level: from 0 to :data:`LEVELS` - 1.
    """
    found = document_fields(id, protocol)
    described = without_name(protocol.description, protocol)
    steps = (
        ("category and service", without_name(found.service, protocol)),
        ("parameters", ", ".join(found.parameters.split())),
        ("words of its description", ", ".join(_keywords(described, protocol))),
        ("what it does", f"{described} {'Returns ' + ', '.join(found.returns.split()) if found.returns else ''}"),
    )
    return [f"{title}: {text}" for title, content in steps[:level] if (text := harmless(content))]


def _keywords(text: str, protocol: Protocol) -> list[str]:
    skipped = {*STOP_WORDS, *_WORDLESS, *_parts(protocol.name)}
    return list(dict.fromkeys(w for w in _words(text) if len(w) > 2 and w not in skipped))[:_KEYWORDS]


def _names(protocol: Protocol) -> Iterator[list[str]]:
    """The tool's names, each as its words."""
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

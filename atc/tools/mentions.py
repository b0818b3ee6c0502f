"""The tools that a parameter's description names as the source of its value: "the id returned by Search Users".

Whoever documents a service says in words what its schemas do not. The words are read as data: all they decide is
which tool's response is pointed to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from atc.tools.affinity import words_of
from atc.tools.protocol import Protocol

MOST_TEXT = 1_000
"""Characters of a description that are read."""
_NAMES_A_SOURCE = re.compile(r"\b(?:from|by|via|using|use|see|call)\b", re.I)


class Mentions:
    """Finds names of tools in texts.

    Args:
        protocols: the tools.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self._said = {said: protocol.name for protocol in reversed(protocols) for said in _ways_to_say(protocol)}
        longest_first = sorted(self._said, key=len, reverse=True)
        self._pattern = re.compile("|".join(rf"(?<= ){re.escape(said)}(?= )" for said in longest_first) or "(?!)")
        self._single = {name for name in self._said.values() if len(words_of(name)) == 1}

    def sources(self, description: object) -> set[str]:
        """The tools that a description names where it says what something comes from."""
        text = description[:MOST_TEXT] if isinstance(description, str) else ""
        if not _NAMES_A_SOURCE.search(text):
            return set()
        plain = f" {' '.join(words_of(text))} "
        named = {self._said[found.group()] for found in self._pattern.finditer(plain)}
        return named | {name for name in self._single if f"`{name}`" in text or f"{name}(" in text}


def _ways_to_say(protocol: Protocol) -> Iterator[str]:
    """A tool's name, and the one it has where it comes from, as words; one word alone may mean anything."""
    for name in (protocol.name, protocol.source.operation):
        if len(words := words_of(name)) > 1:
            yield " ".join(words)


def names_its_source(schema: Mapping[str, object]) -> bool:
    """Whether the description of a parameter may say where its value comes from."""
    said = schema.get("description")
    return isinstance(said, str) and _NAMES_A_SOURCE.search(said[:MOST_TEXT]) is not None

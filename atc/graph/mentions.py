"""The tools that a parameter's description names as the source of its value: "the id returned by Search Users".

Whoever documents a service says in words what its schemas do not. The words are read as data: all they decide is
which tool's response is pointed to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from atc.graph.name_affinity import words_of
from atc.tools.protocol import Protocol

MOST_TEXT = 1_000
"""Characters of a description that are read."""
_NAMES_A_SOURCE = re.compile(r"\b(?:from|by|via|using|use|see|call)\b", re.I)
_AS_CODE = re.compile(r"(?<=`)\w+(?=`)|\b\w+(?=\()")
_Words = tuple[str, ...]


class Mentions:
    """Finds names of tools in texts.

    Args:
        protocols: the tools.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self._called: dict[_Words, dict[str, str]] = {}  # the tools of that name, the first of each service
        self._single: set[str] = set()
        self._longest: dict[str, int] = {}  # by the first word, the words of the longest name
        for protocol in protocols:
            for words in _ways_to_say(protocol):
                if len(words) == 1:
                    self._single.add(protocol.name)  # one word alone may mean anything: only as code
                else:
                    self._called.setdefault(words, {}).setdefault(protocol.source.service, protocol.name)
                    self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))

    def sources(self, description: object, service: str) -> set[str]:
        """The tools that a description names where it says what something comes from.

        Args:
            service: that the description is of; of tools with one name its own is meant.
        """
        text = description[:MOST_TEXT] if isinstance(description, str) else ""
        if not _NAMES_A_SOURCE.search(text):
            return set()
        return {*self._named(words_of(text), service), *self._single.intersection(_AS_CODE.findall(text))}

    def _named(self, words: _Words, service: str) -> Iterator[str]:
        """The names in a text, of two that begin at one place the longer."""
        at = 0
        while at < len(words):
            lengths = range(self._longest.get(words[at], 0), 1, -1)
            said = next((words[at : at + n] for n in lengths if words[at : at + n] in self._called), None)
            if said is not None:
                called = self._called[said]
                yield called.get(service) or next(iter(called.values()))
            at += len(said) if said is not None else 1


def _ways_to_say(protocol: Protocol) -> Iterator[_Words]:
    """A tool's name, and the one that it has where it comes from."""
    for name in (protocol.name, protocol.source.operation):
        if words := words_of(name):
            yield words


def names_its_source(schema: Mapping[str, object]) -> bool:
    """Whether the description of a parameter may say where its value comes from."""
    said = schema.get("description")
    return isinstance(said, str) and _NAMES_A_SOURCE.search(said[:MOST_TEXT]) is not None

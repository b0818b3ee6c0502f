"""Mentions: the suppliers that a parameter's description names, as in "the id returned by Search Users".

A description often states what the schemas do not. Its words are data: all they decide is which tool is a supplier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from atc.graph.identifiers import words_of
from atc.tools.protocol import Protocol

MAX_TEXT = 1_000
"""Characters of a description that are read."""
_SOURCE_WORDS = re.compile(r"\b(?:from|by|via|using|use|see|call)\b", re.I)
_AS_CODE = re.compile(r"(?<=`)\w+(?=`)|\b\w+(?=\()")
_Words = tuple[str, ...]


class Mentions:
    """Finds names of tools in texts.

    Args:
        tools: the tools by key; a name may repeat from service to service.
        services: by key, the service of each.
    """

    def __init__(self, tools: Mapping[str, Protocol], services: Mapping[str, str]) -> None:
        self._called: dict[_Words, dict[str, str]] = {}  # the tools of that name, the first of each service
        self._single: dict[str, dict[str, str]] = {}  # likewise; one word alone may mean anything: only as code
        self._longest: dict[str, int] = {}  # by the first word, the words of the longest name
        for key, protocol in tools.items():
            for name in _names_of(protocol):
                if len(words := words_of(name)) == 1:
                    self._single.setdefault(name, {}).setdefault(services[key], key)
                elif words:
                    self._called.setdefault(words, {}).setdefault(services[key], key)
                    self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))

    def suppliers(self, description: object, service: str) -> set[str]:
        """The keys of the tools that a description names where it states the source of a value.

        Args:
            description: of a parameter; anything but text names nothing.
            service: of the tool that the parameter is of; among tools of one name its own is meant.
        """
        text = description[:MAX_TEXT] if isinstance(description, str) else ""
        if not _SOURCE_WORDS.search(text):
            return set()
        as_code = (self._single[name] for name in _AS_CODE.findall(text) if name in self._single)
        return {*self._named(words_of(text), service), *(_nearest(called, service) for called in as_code)}

    def _named(self, words: _Words, service: str) -> Iterator[str]:
        """The tools that a text names; of two names that begin at one place the longer counts."""
        at = 0
        while at < len(words):
            lengths = range(self._longest.get(words[at], 0), 1, -1)
            name = next((words[at : at + n] for n in lengths if words[at : at + n] in self._called), None)
            if name is not None:
                yield _nearest(self._called[name], service)
            at += len(name) if name is not None else 1


def _nearest(called: Mapping[str, str], service: str) -> str:
    """Of the tools of one name that of the service; else the first."""
    return called.get(service) or next(iter(called.values()))


def _names_of(protocol: Protocol) -> tuple[str, str]:
    """A tool's name, and the one that it has at its source; either may be empty."""
    return protocol.name, protocol.source.operation


def names_a_supplier(schema: Mapping[str, object]) -> bool:
    """Whether the description of a parameter may say where its value comes from."""
    text = schema.get("description")
    return isinstance(text, str) and _SOURCE_WORDS.search(text[:MAX_TEXT]) is not None

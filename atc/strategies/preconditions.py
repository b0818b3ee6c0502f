"""Which tool does what a refusal asks to be done first: "all doors must be locked" → ``lock_doors``.

A service says in words what state it wants, and often has a tool for it whose name has the same words. The words are
data: all they decide is which of the tools that are offered is named to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from atc.graph.identifiers import words_of
from atc.tools.protocol import Protocol

MAX_REMEDIES = 2
"""Where more tools than these fit, the words say nothing."""
MOST_TEXT = 500
_LEAST, _LONG = 4, 7
_SIGNED_IN = re.compile(r"(?i)\bauthenticat|\b(?:log(?:ged)?|sign(?:ed)?)[ -]?in\b|\bunauthori[sz]ed\b")
_SIGNS_IN = frozenset({"authenticate", "login", "signin", "auth"})


def remedies(complaint: str, refused: str, tools: Mapping[str, Protocol]) -> list[str]:
    """The tools, other than the one that refused, every word of whose name the complaint has in some form.

    Args:
        complaint: what the refusal says.
        refused: the tool that said it.
        tools: those that are offered.

    Returns:
        At most :data:`MAX_REMEDIES` names; none where more would fit.
    """
    said = set(words_of(complaint[:MOST_TEXT]))
    signed_in = _SIGNED_IN.search(complaint) is not None
    found = []
    for name in tools:
        words = words_of(name)
        fits = len(words) > 1 and all(_said(word, said) for word in words)
        if name != refused and (fits or (signed_in and not _SIGNS_IN.isdisjoint(words))):
            found.append(name)
    return found if len(found) <= MAX_REMEDIES else []


def _said(word: str, said: Iterable[str]) -> bool:
    """Whether a word is there, or another form of it: ``locked`` of ``lock``, ``creating`` of ``create``."""
    stem = word[:-2] if len(word) >= _LONG else word.removesuffix("e")
    return any(other == word or (len(word) >= _LEAST and other.startswith(stem)) for other in said)

"""Precondition hints: the tool that does what a refusal demands, "all doors must be locked" → ``lock_doors``.

A refusal often names a state in words, and a tool that reaches this state has the same words in its name. The words are
data: they decide which of the offered tools is named to the model, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from atc.graph.identifiers import words_of
from atc.tools.protocol import Protocol

MAX_TOOLS = 2
"""Where more tools fit, none is named: the words are too common."""
MOST_TEXT = 500
_LEAST, _LONG = 4, 7
_SIGNED_IN = re.compile(r"(?i)\bauthenticat|\b(?:log(?:ged)?|sign(?:ed)?)[ -]?in\b|\bunauthori[sz]ed\b")
_SIGNS_IN = frozenset({"authenticate", "login", "signin", "auth"})


def precondition_tools(complaint: str, refused: str, tools: Mapping[str, Protocol]) -> list[str]:
    """Return the tools whose names consist of words of the complaint, in any form.

    Args:
        complaint: the text of the refusal.
        refused: the tool that refused; it is never returned.
        tools: those that are offered.

    Returns:
        At most :data:`MAX_TOOLS` names; none where more would fit.
    """
    known = set(words_of(complaint[:MOST_TEXT]))
    signed_in = _SIGNED_IN.search(complaint) is not None
    found = []
    for name in tools:
        words = words_of(name)
        fits = len(words) > 1 and all(_occurs(word, known) for word in words)
        if name != refused and (fits or (signed_in and not _SIGNS_IN.isdisjoint(words))):
            found.append(name)
    return found if len(found) <= MAX_TOOLS else []


def _occurs(word: str, words: Iterable[str]) -> bool:
    """Whether ``words`` has a word or another form of it: ``locked`` of ``lock``, ``creating`` of ``create``."""
    stem = word[:-2] if len(word) >= _LONG else word.removesuffix("e")
    return any(other == word or (len(word) >= _LEAST and other.startswith(stem)) for other in words)

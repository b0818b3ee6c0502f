"""What the text of an argument says of its value: of which things it is, and whether these are the caller's own.

``The name of the operation resource to wait on.`` says operation, and ``Spotify Track ID`` says track. Such words only
choose among the fields that tools have: they are data, and no thing is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from atc.schemas.identifiers import LABELS, THINGS, singular
from atc.schemas.protocol import JsonSchema

MAX_TEXT = 300
"""Characters of a title and of a description that are read."""
MAX_THINGS = 8
"""Things that one argument may be of."""
MAX_PHRASE = 4
"""Words for one thing."""

_TOKEN = re.compile(r"[a-z]+|[^\sa-z]")
_IDS = THINGS | {"identifier"}
_ADDRESSES = _IDS | LABELS | {"key", "name"}
"""What a thing is addressed by, as texts have it."""
_OF = frozenset({"of", "for"})
_PASSED = frozenset(
    "the a an this that each every one any all your our their its specific specified given existing particular single "
    "unique requested desired target resource object entity record instance".split()
)
"""Words of a phrase that do not say what the thing is."""
_ENDS = frozenset(
    "to in on at by with from for of which who whom whose where when as is are was be and or if it can may must will "
    "has have made".split()
)
"""Words that a phrase ends before."""
_CALLERS = frozenset({"authenticated", "authenticating", "current"})
"""Words that make a thing the caller's."""


class Said(NamedTuple):
    """What a text says of an argument.

    Attributes:
        things: words for the things that it may be of, the likeliest first.
        own: the first of them is the caller's own: ``the ID of the authenticated user``.
    """

    things: tuple[str, ...] = ()
    own: bool = False


def said_of(schema: JsonSchema) -> Said:
    """What the title and the description of an argument say."""
    texts = [text[:MAX_TEXT] for key in ("description", "title") if isinstance(text := schema.get(key), str)]
    return _read(". ".join(texts))


@lru_cache(maxsize=16_384)
def _read(text: str) -> Said:
    tokens = _TOKEN.findall(text.lower())
    phrases = [_phrase(tokens, at + 2) for at, pair in enumerate(pairwise(tokens)) if _is_of(*pair)]
    listed = [head for words, more in phrases for head in (*words[-1:], *more)]
    before = [one for one, other in pairwise(tokens) if singular(other) in _IDS and one.isalpha()]
    things = (singular(word) for word in [*listed, *before])
    told = (word for word in things if word not in _PASSED | _CALLERS | _OF)
    first = phrases[0][0] if phrases else ()
    return Said(tuple(dict.fromkeys(told))[:MAX_THINGS], not _CALLERS.isdisjoint(first))


def _is_of(one: str, other: str) -> bool:
    return singular(one) in _ADDRESSES and other in _OF


def _phrase(tokens: Sequence[str], at: int) -> tuple[list[str], Sequence[str]]:
    """The words for a thing from a place on, and those of the list in brackets behind: ``(ministries, sectors)``."""
    words: list[str] = []
    end = at
    for end in range(at, min(at + 2 * MAX_PHRASE, len(tokens) + 1)):
        word = tokens[end] if end < len(tokens) else "."
        if not word.isalpha() or word in _ENDS or len(words) == MAX_PHRASE:
            break
        if not _CALLERS.issuperset(words) and word.endswith(("ing", "ed")):
            break  # what is said of a thing begins: `user making the request`
        if word not in _PASSED:
            words.append(word)
    return words, [*_in_brackets(tokens, end)] if tokens[end : end + 1] == ["("] else ()


def _in_brackets(tokens: Sequence[str], start: int) -> Iterator[str]:
    inside = tokens[start + 1 : start + 1 + 2 * MAX_THINGS]
    for word, behind in pairwise(inside):
        if word == ")":
            return
        if word.isalpha() and behind in (",", ")"):
            yield word

"""What a user would ask that a call answers, in words that a user has: no tool's name, no identifier.

"What are the area and depth of the lake named Inari?", for a program that finds the lake by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from atc.schemas.identifiers import is_plural, split
from atc.schemas.types import one_line

MAX_QUESTION = 200
"""Characters."""
MAX_FIELDS = 3
_OF_PAGES = frozenset("limit size count page offset skip cursor".split())
"""Last words of arguments that say how much is told, not of what."""
_FOUND_BY = frozenset({"name", "title"})
_ACTS = frozenset("check convert count calculate compute compare validate lookup".split())
"""Words that begin the name of a tool and are no part of what it gives."""
_ABOUT_ANSWERS = frozenset("page pages total count offset limit next previous".split())
"""Words of fields that say how much is told."""


class Part(NamedTuple):
    """One thing that the user says.

    Attributes:
        kind: ``named``: one of several things, by its name; ``word``: what to look for; ``value``: of an argument.
        words: of the thing or the argument.
        value: that is given.
    """

    kind: Literal["named", "word", "value"]
    words: Sequence[str]
    value: Any


class Asked(NamedTuple):
    """What a call answers.

    Attributes:
        thing: words for what the tool gives.
        fields: of it.
        many: several such things are listed.
        parts: what the user says.
        first: words for a thing of which the first one is taken.
        things: words for the things that are listed, as the answer or the tool calls them.
    """

    thing: Sequence[str]
    fields: Sequence[str]
    many: bool
    parts: Sequence[Part]
    first: Sequence[Sequence[str]] = ()
    things: Sequence[str] = ()


def question(asked: Asked) -> str:
    """A question in plain English, on one line."""
    words = asked.thing[1:] if _ACTS.issuperset(asked.thing[:1]) else asked.thing
    thing = " ".join(words)
    said = list(dict.fromkeys(text for part in asked.parts if (text := _said(part, words))))
    said += [f"of the first {' '.join(first)}" for first in asked.first if first]
    fields = [" ".join(split(name)) for name in asked.fields if _ABOUT_ANSWERS.isdisjoint(split(name))][:MAX_FIELDS]
    if asked.many:
        things = " ".join(asked.things)
        text = f"Which {things} are there" if things and is_plural(things) else f"What is on the list of {things}"
    elif fields:
        listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
        text = f"What {'is' if len(fields) == 1 else 'are'} the {listed}" + (f" of the {thing}" if thing else "")
    elif thing:
        text = f"What {'are' if is_plural(thing) else 'is'} the {thing}"
    else:
        text = "What is known"
    whole = f"{text} {_joined(said)}" if said else text
    return f"{one_line(whole, MAX_QUESTION - 1)}?"


def _said(part: Part, thing: Sequence[str]) -> str:
    words, value = tuple(part.words), one_line(str(part.value), 60)
    if part.kind == "named":
        return f"named {value}" if words in ((), tuple(thing)) else f"of the {' '.join(words)} named {value}"
    if part.kind == "word":
        return f"named {value}" if _FOUND_BY.issuperset(words[-1:]) else f"about {value}"
    if not words or _OF_PAGES.issuperset(words[-1:]):
        return ""
    if len(words) > len(thing) and words[: len(thing)] == tuple(thing):
        words = words[len(thing) :]  # the code of a country, not its country code
    return f"with {' '.join(words)} {value}"


def _joined(said: Sequence[str]) -> str:
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"

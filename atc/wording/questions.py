"""What a user would ask that a call answers, in words that a user has: no tool's name, no identifier.

"What are the area and depth of the lake named Inari?", for a program that finds the lake by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from atc.schemas.identifiers import split
from atc.schemas.types import one_line

MAX_QUESTION = 200
"""Characters."""
MAX_FIELDS = 3
_OF_PAGES = frozenset("limit size count page offset skip cursor".split())
"""Last words of arguments that say how much is told, not of what."""
_FOUND_BY = frozenset({"name", "title"})


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
        thing: words for what the tool gives, in the singular.
        fields: of it.
        many: several such things are listed.
        parts: what the user says.
        first: words for a thing of which the first one is taken.
    """

    thing: Sequence[str]
    fields: Sequence[str]
    many: bool
    parts: Sequence[Part]
    first: Sequence[Sequence[str]] = ()


def question(asked: Asked) -> str:
    """A question in plain English, on one line."""
    thing = " ".join(asked.thing)
    said = [text for part in asked.parts if (text := _said(part, asked.thing))]
    said += [f"of the first {' '.join(words)}" for words in asked.first if words]
    fields = [" ".join(split(name)) for name in asked.fields[:MAX_FIELDS]]
    if asked.many:
        text = f"Which {_plural(thing)} are there" if thing else "What is there"
    elif fields:
        listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
        text = f"What {'is' if len(fields) == 1 else 'are'} the {listed}" + (f" of the {thing}" if thing else "")
    else:
        text = f"What is the {thing}" if thing else "What is known"
    whole = f"{text} {_joined(said)}" if said else text
    return f"{one_line(whole, MAX_QUESTION - 1)}?"


def _said(part: Part, thing: Sequence[str]) -> str:
    words, value = " ".join(part.words), one_line(str(part.value), 60)
    if part.kind == "named":
        same = not part.words or list(part.words) == list(thing)
        return f"named {value}" if same else f"of the {words} named {value}"
    if part.kind == "word":
        return f"named {value}" if _FOUND_BY.issuperset(part.words[-1:]) else f"about {value}"
    if not words or _OF_PAGES.issuperset(part.words[-1:]):
        return ""
    return f"with {words} {value}"


def _joined(said: Sequence[str]) -> str:
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _plural(thing: str) -> str:
    if thing.endswith("s"):
        return thing
    if thing.endswith("y") and thing[-2:-1] not in tuple("aeiou"):
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(("x", "ch", "sh")) else f"{thing}s"

"""What a user would ask that a call answers, in words that a user has: no tool's name, no identifier.

"What are the area and depth of the lake named Inari?", for a program that finds the lake by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from atc.schemas.identifiers import is_plural, singular, split
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
        kind: ``named``: one of several things, by its name; ``first``: the first of several; ``only``: the one that
            there is; ``word``: what to look for; ``value``: of an argument.
        words: of the thing or the argument.
        value: that is given.
        of: words for the thing that it says something of, where it is not what is asked for.
    """

    kind: Literal["named", "first", "only", "word", "value"]
    words: Sequence[str]
    value: Any = None
    of: Sequence[str] = ()


class Asked(NamedTuple):
    """What a call answers.

    Attributes:
        thing: words for what the tool gives.
        fields: of it.
        things: words for what is listed, in the singular or plural; empty where nothing says it, ``None`` where
            nothing is listed.
        parts: what the user says.
    """

    thing: Sequence[str]
    fields: Sequence[str]
    things: Sequence[str] | None
    parts: Sequence[Part]


def question(asked: Asked) -> str:
    """A question in plain English, on one line."""
    words = tuple(asked.thing[1:] if _ACTS.issuperset(asked.thing[:1]) else asked.thing)
    thing = " ".join(words)
    said = list(dict.fromkeys(text for part in asked.parts if (text := _said(part, words))))
    fields = [" ".join(split(name)) for name in asked.fields if _ABOUT_ANSWERS.isdisjoint(split(name))][:MAX_FIELDS]
    if asked.things is not None:
        text = f"Which {_plural(' '.join(asked.things))} are there" if asked.things else "What is listed"
        text += f" in {thing}" if thing and not asked.things else ""
    elif fields:
        listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
        of = f" of the {thing}" if thing and thing != fields[0] else ""
        text = f"What {'is' if len(fields) == 1 else 'are'} the {listed}{of}"
    elif thing:
        text = f"What {'are' if is_plural(thing) else 'is'} the {thing}"
    else:
        text = "What is known"
    whole = f"{text} {_joined(said)}" if said else text
    return f"{one_line(whole, MAX_QUESTION - 1)}?"


def _said(part: Part, thing: Sequence[str]) -> str:
    words, value = tuple(part.words), one_line(str(part.value), 60)
    match part.kind:
        case "named":
            return f"named {value}" if words in ((), thing) else f"of the {' '.join(words)} named {value}"
        case "first" | "only":
            source = " ".join((*(part.of or words)[:-1], *map(singular, (part.of or words)[-1:])))
            return "" if not source else f"of the {'first ' if part.kind == 'first' else ''}{source}"
        case "word":
            of = f"of the {' '.join(part.of)} " if part.of and tuple(part.of) != thing else ""
            return f"{of}named {value}" if of or _FOUND_BY.issuperset(words[-1:]) else f"about {value}"
    if not words or _OF_PAGES.issuperset(words[-1:]):
        return ""
    if len(words) > len(thing) and words[: len(thing)] == thing:
        words = words[len(thing) :]  # the code of a country, not its country code
    return f"with {' '.join(words)} {value}"


def _joined(said: Sequence[str]) -> str:
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _plural(thing: str) -> str:
    if is_plural(thing) or thing.endswith("s"):
        return thing
    if thing.endswith("y") and thing[-2:-1] not in tuple("aeiou"):
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(("x", "ch", "sh")) else f"{thing}s"

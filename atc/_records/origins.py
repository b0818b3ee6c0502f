"""Say where a value of a program came from, as plain data: the user, the program's own text, or a tool's response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from atc._records.records import Record

OriginKind = Literal["task", "literal", "author", "tool", "unknown"]
How = Literal["value", "call", "choice", "author"]


class Origin(Record):
    """Names one origin of a value. All origins of a value together are what can have had a say in it.

    Attributes:
        kind: ``task``: the user's words and inputs. ``literal``: the program's own text. ``author``: the text of a
            program that a client's model wrote, where the user's words are not known. ``tool``: a response.
            ``unknown``: it cannot be followed, so anything that the run knew.
        tool: of ``tool``: the tool's name, as programs call it.
        path: leads to the place in its response, keys alone; empty for the whole, or where the place is not known.
        how: ``value``: the value is it, or was made of it. ``call``: it stood in the arguments of a call whose response
            the value is. ``choice``: it chose the value: a condition, an index, a key, a filter, an order. ``author``:
            whoever wrote the program had seen it.
    """

    kind: OriginKind
    tool: str = ""
    path: tuple[str, ...] = ()
    how: How = "value"


Origins = frozenset[Origin]
"""All origins of one value."""
CallOrigins = Mapping[str, Origins]
"""The origins of a call's arguments: by name, and by the way to a part of one (``message.to``) where that is known.
Those of a whole argument hold those of its parts."""
UNKNOWN: Origins = frozenset({Origin(kind="unknown")})

"""Replies that copy the tools' documents in place of a program.

Where the documents are longer than a reply may be, a small model that begins to copy them writes up to its limit, for
a minute. So such a reply is ended where the copy begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from atc.models.messages import Reply

COPIED = "the reply copies the tools' documents: the tools exist, so write only the program that calls them"
_CLASS = "(TypedDict):"
_CLASS_BEGUN = re.compile(r"(?:^|\n)class \w+\s*\Z")


def stops(tools: Iterable[str]) -> list[str]:
    """The texts that end a reply: with each of them a copy begins. ``tools``: names of the tools."""
    return [_CLASS, *(f"def {name}(" for name in tools)]


def copies(reply: Reply, tools: Iterable[str]) -> bool:
    """Whether a reply was ended by one of :func:`stops`, and no program stands before it."""
    if _CLASS_BEGUN.search(reply.text):
        return True
    is_open = reply.finish_reason == "stop" and reply.text.count("```") % 2 == 1
    return is_open and not any(f"{name}(" in reply.text for name in tools)

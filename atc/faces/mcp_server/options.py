"""How a gateway serves, and what a client finds there: plain records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from atc.faces.mcp_server.values import LARGE

STUB_TOKENS = 450
"""Tokens that the stubs of all tools may take in the description of ``run_program``, if nobody says otherwise."""


@dataclass(frozen=True)
class Found:
    """A tool that a search found: its name and what it does, in a line."""

    name: str
    about: str


@dataclass(frozen=True)
class Documents:
    """Tools as typed Python functions.

    Attributes:
        unknown: names that no tool has, each with names that may be meant.
    """

    stubs: str
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """How a gateway serves.

    Attributes:
        stub_tokens: of stubs in the description of ``run_program``; where all tools do not fit, they are searched.
        large: characters of JSON above which a value is kept, and a client gets a preview and a link.
        extras: names of tools that are offered beside the usual ones (:mod:`.extras`).
    """

    stub_tokens: int = STUB_TOKENS
    large: int = LARGE
    extras: Collection[str] = ()

"""A kept program: the program of a good run, which other programs call like a tool.

It is text and data, never code of ours: no loader imports it, and it runs in the jail alone. A program that calls one
is joined with it before it runs (:mod:`atc.programs.linking`), so that each call it makes is a call of the run: decided
about by itself, written into the run's journal, and within the run's budget.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from atc.result import Effect
from atc.schemas.protocol import Protocol, SourceKey

KIND = "kept"
"""The kind of the source of a kept program (:attr:`atc.schemas.protocol.Source.kind`)."""

MAX_NESTED = 3
"""Kept programs that may call each other, one within the other."""


@dataclass(frozen=True)
class UsedTool:
    """A tool that a kept program calls, as it was when the program was kept.

    Attributes:
        name: as the program writes it.
        source: what the tool was known by at its source; ``None`` where that was unknown.
        digest: of its arguments' and its response's schema and its effect: with another digest the program is checked
            again before it is called.
    """

    name: str
    source: SourceKey | None = None
    digest: str = ""


@dataclass(frozen=True)
class KeptProgram:
    """What a tool has in place of a transport where it is a kept program.

    Attributes:
        program: its source. The tool's arguments stand in its scope by their names, and it leaves its value in
            ``answer``. It uses no ``global``, ``look``, ``exec``, ``globals()`` or ``exit()``.
        uses: the tools that it calls, kept programs among them, in the order of its text.
        run: the run that it was kept from; empty where that is unknown.
    """

    program: str
    uses: tuple[UsedTool, ...] = ()
    run: str = ""


def digest_of(protocol: Protocol) -> str:
    """Return the SHA-256, in hex, of what callers of a tool rest on: its arguments, its response, its effect.

    It is the same wherever the tool is read from, and in whatever order a document has its keys.
    """
    rests_on = {"parameters": protocol.parameters, "response": protocol.returns, "effect": protocol.effect.value}
    text = json.dumps(rests_on, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def used_tool(name: str, protocol: Protocol) -> UsedTool:
    """Return a tool as a program uses it that is kept now."""
    return UsedTool(name, protocol.source.key, digest_of(protocol))


def strongest(effects: Iterable[Effect]) -> Effect:
    """Return the effect of a program whose calls have these: a write, if one of them is; without any, a read."""
    found = set(effects)
    return next((each for each in (Effect.WRITE, Effect.UNKNOWN) if each in found), Effect.READ)


@dataclass(frozen=True)
class LeftOut:
    """A kept program that is not among the tools that were asked for, and why.

    Attributes:
        reason: in words of ours; names of others in it are written so that nobody can hide anything in them.
    """

    name: str
    path: str
    reason: str

"""Describes how one program ended, as its sandbox tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from atc._records.records import Raised


@dataclass(frozen=True)
class ProgramError:
    """An exception that ended a program, as the sandbox tells it (a claim: the program could have forged it).

    Attributes:
        span: line, end line, column, end column (UTF-8 bytes, from 0) of the expression that failed.
        tool: the tool whose call failed, or whose stub would not take what it was given.
        parameter: the argument that the stub would not take.
        call: the number of the call whose error ended the program, or was being handled when it ended.
        origin: the call number and the path in its response that the failing value came from, if known.
        trace: (function, line) of the program's frames, outermost first.
        items: how many items there are where a position was looked up that is not there; ``None`` where that is not so.
        hint: what to do about a module that cannot be imported there, in the sandbox's words.
    """

    type: str
    message: str
    line: int = 0
    span: tuple[int, int, int, int] | None = None
    tool: str | None = None
    parameter: str | None = None
    call: int | None = None
    origin: tuple[int, tuple[str | int, ...]] | None = None
    trace: tuple[tuple[str, int], ...] = ()
    items: int | None = None
    hint: str = ""

    @property
    def raised(self) -> Raised:
        """Return the exception itself, as a fault tells it."""
        trace = self.trace if len(self.trace) > 1 else ()
        return Raised(type=self.type, message=self.message, items=self.items, hint=self.hint, trace=trace)


OutcomeKind = Literal["finished", "raised", "limit", "killed", "violation"]


@dataclass(frozen=True)
class Outcome:
    """Describes how a program ended.

    Attributes:
        kind: ``finished`` (``value`` holds its answer if ``answered``), ``raised`` (``error`` tells), ``limit`` (it
            used up time), ``killed`` (it ended without a word), ``violation`` (it broke the channel's rules).
        said: the sentence that the program says of its answer; empty without one.
        detail: a sentence about a limit, a kill or a violation.
        stdout, stderr: the program's own, as far as the limit goes.
        seconds: from handing the program over to its end.
        cpu_s: processor time it used; 0 where it is not known.
        host_s: processor time that the host spent on its behalf.
        memory_bytes: its peak resident memory; 0 where it is not known.
        isolation: the tier that held, of :data:`atc.sandboxes.contract.TIERS`.
    """

    kind: OutcomeKind
    answered: bool = False
    value: Any = None
    error: ProgramError | None = None
    detail: str = ""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    isolation: str = ""
    host_s: float = 0.0
    said: str = ""

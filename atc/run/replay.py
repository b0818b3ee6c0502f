"""Replay a run: its program runs in the jail once more, and its calls are answered with what they were answered before.

Nothing is called: no tool, no model, no service. What the program does otherwise than before is data
(:class:`atc._records.recording.Difference`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atc._records.outcome import Outcome
from atc._records.recording import Difference, Recording
from atc.sandboxes.contract import Limits, Sandbox
from atc.schemas.protocol import Protocol
from atc.traces.stores.base import StoredRun


@dataclass(frozen=True)
class Replayed:
    """Describes how a replay went.

    Attributes:
        outcome: of the program.
        value: its answer, as JSON values and bytes; ``None`` if it has none.
        differences: from what was recorded; empty where there are none.
    """

    outcome: Outcome
    value: Any = None
    differences: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """Return whether the program answered as recorded, by the recorded calls."""
        return not self.differences


def digest_of(protocol: Protocol) -> str:
    """Return what changes when a tool's arguments' or response's schema does, or its effect."""
    raise NotImplementedError


def recording_of(stored: StoredRun) -> Recording:
    """Return a run as a test replays it. It reads the whole trace: an event loop has it done in a thread.

    Args:
        stored: a run that has an answer.

    Raises:
        UsageError: it has none, it was a dry run, its trace lacks what a replay needs (an older version wrote it, a
            value was cut), or a credential that was masked stands where the program gave it. The message names where.
        TraceError: a line of its trace is damaged.
    """
    raise NotImplementedError


async def replay(
    recorded: Recording,
    *,
    sandbox: Sandbox,
    program: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    hoisted: int | None = None,
    limits: Limits | None = None,
) -> Replayed:
    """Run a program in the jail, its calls answered from a recording.

    A call is answered by what an equal one (tool, arguments) was answered; equal ones in their recorded order,
    others in any. One that is not recorded gets an error, which the program may catch, and is a difference.

    Args:
        recorded: the run.
        sandbox: where the program runs.
        program: another program over the same tools; by default the recorded one, linked with its kept programs.
        inputs: the values in its scope, in place of the recorded ones.
        hoisted: how many definitions at the end of ``program`` are kept programs; by default none.
        limits: of the program; by default those of the sandbox.

    Raises:
        UsageError: an input cannot be used, or the recording is of a newer form.
        SandboxUnavailable: the isolation that was asked for cannot be had.
    """
    raise NotImplementedError

"""What a dry run found, as data: the calls that a real run would make, what feeds them, and how far that is known."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from atc.facts import Arguments, Record

FeedKind = Literal["response", "derived", "same", "planned", "input", "task", "program"]


class Feed(Record):
    """Where an argument of a call with effects comes from: of one that is planned, or that the user is asked about.

    Attributes:
        argument: its name, as the tool's own document has it.
        inside: leads to the part of the argument that this is about: keys, and positions in lists; empty for all of it.
        kind: ``response``: it is a field of what a call answered. ``derived``: it was made from one. ``same``: one
            has the same value, and how it got here cannot be followed. ``planned``: a planned call will answer it, so
            nobody knows it yet. ``input``: the value of an earlier task. ``task``: the task has it. ``program``: it
            stands in the program alone.
        call: the number of that call in the run, and ``tool`` its tool; of the first three, and of ``planned``.
        path: leads to the field in the response: keys, and positions in lists.
        row: the object that has this field: its other fields, the first short ones. So ``6`` can be told for a kite.
        more: feeds of the same argument that are not named, after this one.
    """

    argument: str
    inside: tuple[str | int, ...] = ()
    kind: FeedKind
    call: int | None = None
    tool: str = ""
    path: tuple[str | int, ...] = ()
    row: Arguments = Field(default_factory=dict)
    more: int = 0


class PlannedCall(Record):
    """A call that a real run would make.

    Attributes:
        index: its number in the run (:attr:`atc.result.Call.index`).
        effect: as its tool declares it. A read is planned only where its arguments rest on a planned call.
        line: of the program; 0 where no program made it.
        arguments: what would be sent, as far as it is known now.
        unknown: the other arguments, each as the program writes it; empty text where that cannot be found.
        feeds: where arguments come from.
        notes: what was repaired, and what else a real run would say about it.
    """

    index: int
    tool: str
    effect: str
    line: int = 0
    arguments: Arguments = Field(default_factory=dict)
    unknown: dict[str, str] = Field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    notes: tuple[str, ...] = ()


class Stop(Record):
    """Where a dry run ended before its program did: what comes after is not known.

    Attributes:
        line: of the program, from 1; 0 where that is not known. ``source_line``: its text.
        needs: the number of the planned call whose value is needed there, and ``path``: which part of it.
        reason: what else went wrong there, in the words of Python, a tool or the sandbox.
    """

    line: int = 0
    source_line: str = ""
    needs: int | None = None
    path: tuple[str | int, ...] = ()
    reason: str = ""


class DryRun(Record):
    """What a dry run found.

    Attributes:
        planned: the calls that a real run would make, in order.
        stop: where the dry run ended before its program did; ``None`` if ``planned`` is complete.
        unseen: the numbers of reads that were made after a planned call, and saw nothing of what it would change.
    """

    planned: tuple[PlannedCall, ...] = ()
    stop: Stop | None = None
    unseen: tuple[int, ...] = ()

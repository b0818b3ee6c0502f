"""Hold a run as a test replays it: its last program, what its calls were answered, and how a replay differs from that.

It is plain data, as a file has it: whoever writes into such a file changes what a program in a jail is answered, and
nothing else.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from atc._records.records import Arguments, Effect, Record, Value, is_none

FORM = 1
"""Version of the form of a recording."""


class RecordedCall(Record):
    """Holds one call as the program made it, and what it was answered.

    Attributes:
        index: number of the call in its run; of an ``all_pages`` that of its first page.
        tool: its name in the program. ``arguments``: as the program gave them, by the names that the tool knows.
        sent: the arguments as they reached the tool, where a repair changed them; else ``None``.
        effect: as its tool declared it.
        value: what the program got: JSON values and bytes; of an ``all_pages`` all items.
        error: what the program was told instead; ``status``: of that error.
        done: the call was made, and ``error`` says why its response cannot be had.
        pages: how many pages an ``all_pages`` read; 0 for a call by itself.
        line: of the program, from 1; 0 where that is not known.
        within: the kept program that made it; empty where the program itself did.
    """

    index: int = 0
    tool: str
    arguments: Arguments = Field(default_factory=dict)
    sent: Arguments | None = Field(default=None, exclude_if=is_none)
    effect: Effect = Effect.UNKNOWN
    value: Value = None
    error: str | None = Field(default=None, exclude_if=is_none)
    status: int | str | None = Field(default=None, exclude_if=is_none)
    done: bool = False
    pages: int = 0
    line: int = 0
    within: str = ""


class RecordedTool(Record):
    """Says what a tool was that the program could call, when the run was made.

    Attributes:
        parameters: their names as programs write them, in the order of positional use.
        originals: of those that the tool knows by another name, that one.
        effect: as the tool declared it.
        digest: of its schemas and its effect (:func:`atc.run.replay.digest_of`).
        source: what it is known by at its source: three texts; ``None`` where that is unknown.
        schemas: of its arguments (``parameters``) and its response (``returns``); ``None`` where they are too large
            to be kept.
    """

    parameters: tuple[str, ...] = ()
    originals: dict[str, str] = Field(default_factory=dict)
    effect: Effect = Effect.UNKNOWN
    digest: str = ""
    source: tuple[str, str, str] | None = None
    schemas: dict[str, Any] | None = None


class Recording(Record):
    """Holds a run as a test replays it.

    Attributes:
        about: a line that says whose data this is.
        form: version of this form, :data:`FORM`.
        run: the id of the run. ``task``: what was asked for.
        program: the last program of the run, which answered. ``linked``: the same with the kept programs that it calls,
            as its jail ran it; ``None`` where it calls none. ``hoisted``: how many definitions at the end of that are
            kept programs.
        inputs: the values that stood in its scope, by name.
        tools: what it could call, by name.
        calls: its calls, in the order of the run, those that the journal answered among them.
        value: its answer, as JSON values and bytes. ``said``: what it said of that; empty without a sentence.
        answer: the JSON Schema of the answer's type; ``None`` where none was asked for.
        at: when the program began, in seconds since 1970. ``seed``: of its random numbers. ``passed_s``: how long the
            program had run at its replies, by their numbers.
        replaced: the places whose values are stand-ins.
    """

    about: str = ""
    form: int = FORM
    run: str = ""
    task: str = ""
    program: str
    linked: str | None = Field(default=None, exclude_if=is_none)
    hoisted: int = 0
    inputs: Arguments = Field(default_factory=dict)
    tools: dict[str, RecordedTool] = Field(default_factory=dict)
    calls: tuple[RecordedCall, ...] = ()
    value: Value = None
    said: str = ""
    answer: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    at: float | None = None
    seed: str = ""
    passed_s: dict[int, float] = Field(default_factory=dict)
    replaced: tuple[str, ...] = ()


class Change(Record):
    """Says one way in which a value differs from the recorded one.

    Attributes:
        path: leads there: keys, and positions in lists.
        recorded: what stands there in the recording, as text of bounded length; empty where nothing does.
        now: what stands there now; likewise.
    """

    path: tuple[str | int, ...] = ()
    recorded: str = ""
    now: str = ""


DifferenceKind = Literal["not_recorded", "not_made", "value", "ended", "tool"]


class Difference(Record):
    """Says one way in which a replay is not what was recorded.

    Attributes:
        kind: ``not_recorded``: the program made a call that the recording does not have, and got an error.
            ``not_made``: the recording has a call that the program did not make. ``value``: the answer is another one.
            ``ended``: the program did not answer. ``tool``: a tool is not what it was.
        tool: of a call, or the one that changed. ``arguments``: of the call, as the program gave them.
        line: of the program that made the call; 0 where that is not known.
        nearest: of a call that is not recorded, the number in the run of the recorded call of that tool which is most
            like it; 0 where there is none.
        changes: how its arguments differ from that one's, or the value, or the tool; the first ones.
        reason: of ``ended``, how it did; of ``tool``, ``gone`` where nobody has it any more.
    """

    kind: DifferenceKind
    tool: str = ""
    arguments: Arguments = Field(default_factory=dict)
    line: int = 0
    nearest: int = 0
    changes: tuple[Change, ...] = ()
    reason: str = ""

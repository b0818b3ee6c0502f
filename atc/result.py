"""What a run leaves behind: plain data that can be read, stored and compared."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo

from atc.errors import Cause, RunFailed
from atc.packing import pack, unpack

FaultKind = Literal["arguments", "tool", "response", "program", "sandbox", "limit", "answer", "environment"]
CallStatus = Literal["ok", "replayed", "refused", "failed", "in_doubt"]
RunStatus = Literal["answered", "unsolved", "budget", "failed", "denied", "missing", "tool_broken", "in_doubt"]


class Effect(StrEnum):
    """What a call does to the world."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


def _from_json(value: Any, info: ValidationInfo) -> Any:
    return unpack(value) if info.mode == "json" else value


Value = Annotated[Any, BeforeValidator(_from_json), PlainSerializer(pack, when_used="json")]
"""JSON values and bytes; in JSON, bytes are tagged (:mod:`atc.packing`)."""
Arguments = Annotated[dict[str, Any], BeforeValidator(_from_json), PlainSerializer(pack, when_used="json")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Finding(_Record):
    """Something wrong in a program that was seen before it ran. ``message`` is one sentence for whoever mends it."""

    kind: str
    message: str
    line: int = 0
    tool: str | None = None


class Fault(_Record):
    """A failure, traced to one tool where it came from one (ATC §3.3).

    Attributes:
        kind: ``arguments`` (a call was refused for them), ``tool`` (it failed), ``response`` (its answer was not what
            the program took it for), ``program``, ``sandbox``, ``limit``, ``answer`` (none, empty, resting on no
            call), or ``environment`` (the model failed, or the run was stopped from outside).
        message: one sentence that says what is wrong.
        tool: the tool it is traced to; ``None`` when the program alone is at fault.
        call: the number of that call in the run (:attr:`Call.index`).
        line: line of the program, from 1; 0 when unknown. ``source_line`` is its text.
        evidence: what the tool really answered there, or the arguments it refused; short text.
        by: how it was traced: ``structure`` or ``model``.
        cause: why no other program can help (:data:`atc.errors.Cause`); the run has ended with it.
        hint: what the user can do about it; never shown to a model.
        traceback: the file with the full traceback, where the tool is a function of the user's that raised; readable by
            its owner alone, for it may hold anything. ``None`` where runs are not kept.
    """

    kind: FaultKind
    message: str
    tool: str | None = None
    call: int | None = None
    line: int = 0
    source_line: str = ""
    evidence: str = ""
    by: Literal["structure", "model"] = "structure"
    cause: Cause | None = None
    hint: str = ""
    traceback: str | None = None


class Call(_Record):
    """One tool call as the broker saw it.

    Attributes:
        index: number of the call in the run, from 1.
        attempt: number of the program that made it among those that ran, from 0. A program that the check refused never
            ran and does not count here, though it has a :class:`Revision`.
        stage: number of the stage that made it, from 0 (:mod:`atc.calls.journal`).
        arguments: as they reached the tool, after repair. ``notes`` tells every repair and every drift of the response.
        seconds: time at the tool; 0 for a replay.
        cause: why it failed, where no other program can help (:data:`atc.errors.Cause`).
        error: what went wrong. Of an exception of the user's own function what looks secret is masked.
        traceback: as :attr:`Fault.traceback`.
        page: which page of an ``all_pages`` it read, from 1; 0 for a call by itself.
    """

    index: int
    attempt: int
    tool: str
    arguments: Arguments
    effect: Effect
    status: CallStatus
    value: Value = None
    error: str | None = None
    error_status: int | str | None = None
    cause: Cause | None = None
    line: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    traceback: str | None = None
    page: int = 0
    stage: int = 0

    @property
    def succeeded(self) -> bool:
        return self.status in ("ok", "replayed")


class Revision(_Record):
    """One program of a run and how it went: findings before it ran, or the fault that ended it, or neither.

    Attributes:
        stage: number of the stage that it belongs to, from 0.
    """

    attempt: int
    program: str
    findings: tuple[Finding, ...] = ()
    fault: Fault | None = None
    mended: tuple[str, ...] = ()
    stage: int = 0


class Usage(_Record):
    """What a run used. Seconds are wall time; tokens are as the endpoint counted them."""

    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_seconds: float = 0.0
    tool_calls: int = 0
    tool_seconds: float = 0.0
    seconds: float = 0.0


class Result(_Record):
    """How a run ended.

    Attributes:
        status: ``answered``; ``unsolved`` (all revisions used up); ``budget`` (a budget was used up); ``failed`` (the
            model or the sandbox failed in the middle); and what no other program can mend: ``denied`` (the user did not
            approve a call), ``missing`` (a credential or a service is not there), ``tool_broken`` (a tool fails though
            its arguments are valid), ``in_doubt`` (a write may have been done, and is not repeated).
        value: what the program computed. ``answer`` says it in a sentence, grounded in value and calls only.
        program: the last program. ``revisions`` holds every one, in order.
        calls: every call that the broker saw. ``in_doubt`` names writes that may or may not have happened.
        fault: why it ended without an answer.
        isolation: the sandbox driver and the tier that held for the program that ran last (``process/N``); empty if
            none ran.
    """

    run_id: str
    task: str
    status: RunStatus
    value: Value = None
    answer: str = ""
    program: str = ""
    calls: tuple[Call, ...] = ()
    revisions: tuple[Revision, ...] = ()
    fault: Fault | None = None
    usage: Usage = Field(default_factory=Usage)
    isolation: str = ""
    trace: str | None = None

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of all programs, in order."""
        return tuple(revision.fault for revision in self.revisions if revision.fault is not None)

    @property
    def in_doubt(self) -> tuple[Call, ...]:
        """Calls with effects whose outcome is unknown: check them by hand before you repeat them."""
        return tuple(call for call in self.calls if call.status == "in_doubt")

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from atc.notebook import html_of

        return html_of(self)

    def unwrap(self) -> Any:
        """Return ``value``.

        Raises:
            RunFailed: the run has no answer.
        """
        if self.status != "answered":
            raise RunFailed(self)
        return self.value

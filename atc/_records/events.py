"""Events: what happens in a run, in order, as it happens. A trace is a file of them.

Each kind has a typed record, :data:`DATA`. A trace file holds one JSON object a line: ``v`` (:data:`VERSION`),
``kind``, ``at`` and ``data``. A new field needs no new version; a field that goes or changes its
meaning does, and no reader of the form before stays.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Protocol

from typing_extensions import TypedDict

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
VERSION = 3
"""Of the events' form, in every line of a trace."""

EventKind = Literal[
    "run_started",
    "indexing",
    "tools_chosen",
    "tool_probed",
    "model_started",
    "model_waiting",
    "model_ended",
    "store_waiting",
    "stage_started",
    "layer_started",
    "program_written",
    "findings",
    "program_started",
    "approval_asked",
    "question_asked",
    "call_started",
    "call_sent",
    "call_ended",
    "program_ended",
    "fault",
    "tool_banned",
    "substituted",
    "call_settled",
    "call_undone",
    "answered",
    "run_ended",
]


class ShownImage(TypedDict):
    """An image that was shown with the task; its bytes are not kept."""

    name: str
    type: str
    bytes: int
    sha256: str
    path: NotRequired[str]


class RunStarted(TypedDict):
    """A run begins.

    ``settings`` are all but the keys; ``source`` names where the tools are, and ``strategy_given`` what opens the
    strategy, for a resume; it is ``None`` where an object was given. Where there are any: the user's standing
    ``instructions``; in a conversation the number of the task, and ``earlier`` ones as they are shown; and ``answer``:
    the type that was asked for: as an annotation, its JSON Schema, and the text that opens it again. ``dry_run``: calls
    with effects are planned, not made. ``applies``: what the run planned is made now.
    """

    run_id: str
    task: str
    model: str
    endpoint: str
    tools: int
    source: str | None
    strategy: str
    strategy_given: str | None
    settings: dict[str, Any]
    images: NotRequired[list[ShownImage]]
    instructions: NotRequired[str]
    turn: NotRequired[int]
    earlier: NotRequired[list[dict[str, Any]]]
    answer: NotRequired[dict[str, Any]]
    dry_run: NotRequired[bool]
    applies: NotRequired[bool]


class Indexing(TypedDict):
    """An index of the tools is being made, and that takes a while. ``total`` is 0 where nobody knows it."""

    stage: str
    done: int
    total: int


class ToolsChosen(TypedDict):
    """Tools are offered to the model; again with ``found`` and ``whole``, where a program asked for more.

    The first time it has the facts of the sketch (:class:`atc.result.SketchFacts`): ``why``, ``layers``,
    ``feeds``, ``substitutes``, ``subgoals``, ``notices`` and ``sure``, each where there are any (``sure`` where it is
    not). ``key_aliases``: of a tool, the keys that are read as one of its parameters in this run, as runs before have
    taught; fixed here, for a resume too.
    """

    tools: list[str]
    of: NotRequired[int]
    plan: NotRequired[str]
    queries: NotRequired[list[str]]
    stopped: NotRequired[str]
    subgoals: NotRequired[list[str]]
    layers: NotRequired[list[list[str]]]
    feeds: NotRequired[list[dict[str, Any]]]
    substitutes: NotRequired[dict[str, list[str]]]
    why: NotRequired[dict[str, dict[str, Any]]]
    sure: NotRequired[bool]
    notices: NotRequired[list[str]]
    key_aliases: NotRequired[dict[str, dict[str, str]]]
    found: NotRequired[list[str]]
    whole: NotRequired[list[str]]


class ToolProbed(TypedDict):
    """A read was made to see what its tool answers, for no program; as :class:`atc._records.records.ProbedRead`."""

    tool: str
    arguments: dict[str, Any]
    status: int | str
    learnt: bool
    seconds: float


class ModelStarted(TypedDict):
    """The model is asked. ``purpose``: ``program``, ``attribute``, ``answer``, ``compare``, ``tools``, or a strategy's
    own word."""

    purpose: str


class ModelWaiting(TypedDict):
    """The model has been silent for ``silent`` of ``seconds``."""

    purpose: str
    seconds: float
    silent: float


class ModelEnded(TypedDict):
    """The model replied. ``problem``: why the reply cannot be used, where it cannot. ``notice``: what this reply
    showed about the endpoint."""

    purpose: str
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    cached: bool
    finish_reason: str
    text: str
    model: NotRequired[str]
    problem: NotRequired[str]
    notice: NotRequired[str]


class StoreWaiting(TypedDict):
    """The run waits until its journal is written: a call that acts is sent after that, and not before."""

    journal: str


class StageStarted(TypedDict):
    """A stage begins: the last program succeeded, and what it did is committed. ``inputs`` are masked."""

    stage: int
    new_request: bool
    inputs: dict[str, Any]


class LayerStarted(TypedDict):
    """A step of a task that is solved layer by layer begins. ``layer`` counts from 1; ``tools`` are those that it
    offers. ``layers``: the tools of all steps; ``variables``: the names of what they find, in programs of later ones.
    """

    layer: int
    tools: list[str]
    layers: list[list[str]]
    variables: list[str]


class ProgramWritten(TypedDict):
    """A program was written. ``attempt`` counts from 0; ``rewrites``: one note for each change. ``rules``: the ids of
    the rules that changed it (:mod:`atc._records.rules`), one for each change. ``inputs``: the values that a caller's
    own program was given by name, bytes tagged; ``kept``: the names of those that earlier runs answered. ``by_user``:
    who began the run gave the others, not the program's author. ``saw``: the untrusted tools whose answers its author
    had seen."""

    attempt: int
    program: str
    rewrites: list[str]
    rules: NotRequired[list[str]]
    inputs: NotRequired[dict[str, Any]]
    kept: NotRequired[list[str]]
    by_user: NotRequired[bool]
    saw: NotRequired[list[str]]


class Findings(TypedDict):
    """The check keeps a program from running. Each finding is an :class:`atc.facts.Finding`. ``warned``: all warnings
    about it, whether or not they keep it from running."""

    attempt: int
    findings: list[dict[str, Any]]
    warned: NotRequired[list[dict[str, Any]]]


class ProgramStarted(TypedDict):
    """A program runs. ``warnings``: what the check warned about and one of its writes depends on. ``warned``: all that
    it warned about, each an :class:`atc.facts.Finding`. ``untrusted``: the tools that it can call and whose answers
    strangers write. ``kept``: the kept programs that it is the first of the run to call, by name
    (:mod:`atc.run.kept_programs`). ``linked``: the text that its jail runs, where it calls any. ``tools``: those that
    this names, each an :class:`atc._records.recording.RecordedTool`, so that the run can be replayed without them."""

    attempt: int
    warnings: list[str]
    warned: NotRequired[list[dict[str, Any]]]
    untrusted: NotRequired[list[str]]
    kept: NotRequired[dict[str, KeptText]]
    linked: NotRequired[LinkedText]
    tools: NotRequired[dict[str, dict[str, Any]]]


class KeptText(TypedDict):
    """A kept program as a run called it. ``inner``: the names of the tools that it calls, by those that it writes.
    ``sha256``: of the program, whose text a trace may mask. ``keys``: what these tools are known by at their source
    (:class:`atc.schemas.protocol.SourceKey`), by the names that it writes. ``file``: where it stood."""

    program: str
    parameters: dict[str, Any]
    inner: dict[str, str]
    sha256: str
    keys: NotRequired[dict[str, list[str]]]
    file: NotRequired[str]


class LinkedText(TypedDict):
    """A program joined with the kept programs that it calls. ``hoisted``: how many statements at its end run first."""

    source: str
    hoisted: int


class CallStarted(TypedDict):
    """A call is in the journal and about to be made. ``within``: the kept program that makes it, and
    ``outer_line`` the line of the author's own program that led to it."""

    index: int
    tool: str
    arguments: dict[str, Any]
    effect: str
    line: int
    within: NotRequired[str]
    outer_line: NotRequired[int]


class CallSent(TypedDict):
    """A call with effects is handed to its tool now."""

    index: int


class ApprovalAsked(CallStarted):
    """The user is asked whether to make a call. ``instead_of``: tools that failed, whose place it takes.

    ``feeds``: where its arguments come from (:class:`atc._records.records.Feed`). ``wait_s``: seconds until the run's
    own time is used up. ``data_flow``: as :class:`atc._records.records.DataFlow`.
    """

    warnings: list[str]
    instead_of: list[str]
    feeds: NotRequired[list[dict[str, Any]]]
    wait_s: NotRequired[float | None]
    data_flow: NotRequired[dict[str, Any]]


class QuestionAsked(TypedDict):
    """A program asks the user, in words that it or a tool wrote. ``number`` counts the questions of the run from 1."""

    question: str
    number: int


class ProgramEnded(TypedDict):
    """A program ended. ``kind`` is that of :class:`atc._records.outcome.Outcome`; ``isolation`` names driver and tier.

    ``host_s``: processor seconds that the host spent on its behalf. ``looked``: the names of the values that it ended
    with, for the next program to see. ``all_pages``: each ``all_pages`` of it, as :meth:`atc.calls.pages.Pages.read`
    tells them.
    """

    attempt: int
    kind: str
    seconds: float
    detail: str
    stdout: str
    stderr: str
    isolation: str
    host_s: NotRequired[float]
    looked: NotRequired[list[str]]
    all_pages: NotRequired[list[dict[str, Any]]]


class FaultFound(TypedDict):
    """A program's failure is attributed. ``fault`` is an :class:`atc.facts.Fault`."""

    attempt: int
    fault: dict[str, Any]


class ToolBanned(TypedDict):
    """A tool broke and is not called again in this run.

    Each of ``substitutes`` is an :class:`atc._records.records.Replacement`, and can be called in its place. ``call``:
    the number of the call that showed it; 0 where it was known before the run.
    """

    tool: str
    call: int
    effect: str
    substitutes: list[dict[str, Any]]


class Substituted(TypedDict):
    """The program that answered called ``by`` in the place of ``tool``, which had broken."""

    tool: str
    by: str


class CallSettled(TypedDict):
    """A call that was in doubt is settled. ``outcome``: ``done`` or ``not_done``. ``by``: the read that said so, or the
    person."""

    index: int
    tool: str
    outcome: str
    by: str


class CallUndone(TypedDict):
    """The inverse of a call of this run was made by another run."""

    index: int
    tool: str
    run: str


class Answered(TypedDict):
    """The run has an answer: the value, and ``answer``, what the program says of it.

    ``unresolved``: the check warned about its program, and the run did not settle it; or a part of a list was taken for
    the whole. ``program_value``: what the program had set, where the type that was asked for made another value of it.
    """

    value: Any
    answer: str
    unresolved: NotRequired[bool]
    program_value: NotRequired[Any]


DATA: Mapping[EventKind, Any] = {
    "run_started": RunStarted,
    "indexing": Indexing,
    "tools_chosen": ToolsChosen,
    "tool_probed": ToolProbed,
    "model_started": ModelStarted,
    "model_waiting": ModelWaiting,
    "model_ended": ModelEnded,
    "store_waiting": StoreWaiting,
    "stage_started": StageStarted,
    "layer_started": LayerStarted,
    "program_written": ProgramWritten,
    "findings": Findings,
    "program_started": ProgramStarted,
    "approval_asked": ApprovalAsked,
    "question_asked": QuestionAsked,
    "call_started": CallStarted,
    "call_sent": CallSent,
    "call_ended": dict[str, Any],  # a whole atc.result.Call
    "program_ended": ProgramEnded,
    "fault": FaultFound,
    "tool_banned": ToolBanned,
    "substituted": Substituted,
    "call_settled": CallSettled,
    "call_undone": CallUndone,
    "answered": Answered,
    # an atc.result.Result without calls and revisions; ``raised``: it ended by an exception
    "run_ended": dict[str, Any],
}
"""The type of an event's ``data``, by its kind. A test holds the events of real runs to it."""


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: what happened.
        data: plain JSON values, of the type that :data:`DATA` names.
        at: seconds since the epoch.
    """

    kind: EventKind
    data: dict[str, Any]
    at: float = field(default_factory=time.time)

    def record(self) -> dict[str, Any]:
        """Return the event as a trace file holds it."""
        return {"v": VERSION, "kind": self.kind, "data": self.data, "at": self.at}

    def line(self) -> str:
        """Return the line that a trace file holds, without its end."""
        return _ENCODER.encode(self.record())


class Emit(Protocol):
    """How a part of a run reports what happens in it: a kind, and data of the type that :data:`DATA` names."""

    def __call__(self, kind: EventKind, data: Mapping[str, object], /) -> None: ...


def unheard(kind: EventKind, data: Mapping[str, object], /) -> None:
    """Report to nobody: the :class:`Emit` of a run that nobody listens to and that leaves no trace."""

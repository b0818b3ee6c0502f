"""Hold what is known as plain data: what findings, faults, calls and results are made of, and what a dry run found.

They have fields and no sentences: :mod:`atc.wording` makes those. This module imports nothing that stands above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, ValidationInfo

from atc._records.packing import pack, unpack

Severity = Literal["error", "warning"]
FindingKind = Literal[
    "syntax", "no_program", "no_answer", "no_call", "forbidden_import", "forbidden_name", "forbidden_syntax",
    "undefined_name",
    "unknown_tool", "unknown_argument", "missing_argument", "wrong_type", "not_in_enum", "unknown_field", "unknown_key",
    "not_paged", "invented_id", "name_for_id", "broken_tool",
]  # fmt: skip
FindingCase = Literal[
    "", "call", "frames", "dunder", "no_tool", "too_many", "literal", "record", "list", "scalar", "text",
    "attribute", "position", "address", "forgotten", "files", "network", "processes", "inside",
    "await", "compared",
]  # fmt: skip
"""Which form of its kind a finding has."""
FaultKind = Literal["arguments", "tool", "response", "program", "sandbox", "limit", "answer", "environment"]


class Effect(StrEnum):
    """What a call does to the world."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


class FaultCase(StrEnum):
    """Which form of its kind a fault has. :mod:`atc.wording.faults` has a sentence for each."""

    PLAIN = ""  # its reason is a sentence: of a budget, of an exception
    # an exception ended the program
    RAISED = "raised"
    AWAITED = "awaited"
    SIGNATURE = "signature"
    MISREAD = "misread"
    NOTHING_KEPT = "nothing_kept"
    IMPOSSIBLE = "impossible"  # the program says that no tool can do the task
    MEMORY = "memory"
    # a call was refused or failed, or its response is an error
    NOT_CALLED = "not_called"
    INVALID_ARGUMENTS = "invalid_arguments"
    REFUSED = "refused"
    FAILED = "failed"
    WARNED = "warned"
    SUPPLIED = "supplied"
    WENT_ON = "went_on"
    UNREAD = "unread"
    STATED = "stated"
    # the program never ran, or was stopped
    FINDINGS = "findings"
    TIME = "time"
    ENDED = "ended"
    STOPPED = "stopped"
    ASKED = "asked"
    PLAN_DIFFERS = "plan_differs"  # a call is not the one that the plan has there
    # the program ended, and its answer is none, or not what it should be
    NO_ANSWER = "no_answer"
    NO_CALLS = "no_calls"
    NO_SUCCESS = "no_success"
    NOTHING_FOUND = "nothing_found"
    EMPTY = "empty"
    OWN_NONE = "own_none"  # the program's own None: no call that was made is behind it
    ANSWER_TYPE = "answer_type"
    UNPACKED = "unpacked"
    # remarks alone
    UNRESOLVED = "unresolved"  # a warning about the program that answered, which its run did not settle
    FIRST_PART = "first_part"  # a response is a part of a list, and the program took it for the whole
    FIRST_FEW = "first_few"  # the same, and the program asked for just so many items
    UNSAID = "unsaid"  # why the sentence that a program said of its answer is not used
    TOOL_GONE = "tool_gone"  # the run had a tool before that is not there any more
    PLAN_LEFT = "plan_left"  # the plan has a write that the program did not ask for


NO_FAILURES: frozenset[str] = frozenset(
    {
        FaultCase.UNRESOLVED,
        FaultCase.FIRST_PART,
        FaultCase.FIRST_FEW,
        FaultCase.NO_CALLS,
        FaultCase.TOOL_GONE,
        FaultCase.UNSAID,
    }
)
"""The cases of remarks which say what an answer rests on, or what it lacks: from no failure did a program go on."""
WARNINGS: frozenset[str] = frozenset({FaultCase.UNRESOLVED, FaultCase.FIRST_PART})
"""The cases of remarks with which an answer is not to be relied on before somebody looked."""
ODD_ANSWERS: frozenset[str] = frozenset(
    {FaultCase.EMPTY, FaultCase.OWN_NONE, FaultCase.NOTHING_FOUND, FaultCase.NO_SUCCESS, FaultCase.NO_CALLS}
)
"""The cases of an answer that is there: whether it is what was wanted, the program's author knows."""


def value_from_json(value: Any, info: ValidationInfo) -> Any:
    """Return a value as it was before it was written as JSON: tagged bytes are bytes again."""
    return unpack(value) if info.mode == "json" else value


Value = Annotated[Any, BeforeValidator(value_from_json), PlainSerializer(pack, when_used="json")]
"""JSON values and bytes; in JSON, bytes are tagged (:mod:`atc._records.packing`)."""
Arguments = Annotated[dict[str, Any], BeforeValidator(value_from_json), PlainSerializer(pack, when_used="json")]


def is_none(value: object) -> bool:
    """Return whether a field says nothing: then it is not written."""
    return value is None


def is_empty(value: object) -> bool:
    """Return whether a field of text or a list says nothing, for the same purpose."""
    return not value


class Record(BaseModel):
    """Holds plain data: it is frozen, and takes no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ProbedRead(Record):
    """Describes a read that no program asked for, made to see what its tool answers.

    Attributes:
        arguments: by parameter; credentials are masked.
        status: ``ok``, ``timeout`` where its time was up, or how the call failed.
        learnt: its answer showed something, and the shape of that stays; its values do not.
    """

    tool: str
    arguments: dict[str, Any]
    status: int | str
    learnt: bool
    seconds: float


class Place(Record):
    """Names a place in the response of a tool. In ``path`` ``None`` stands for any item or member."""

    tool: str
    path: tuple[str | int | None, ...] = ()


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


class RecordedSession(Record):
    """Names a login that was found in a recording of a browser, and that goes with a call. It holds no secret.

    Attributes:
        file: the name of the recording's file.
        origin: the scheme, host and port that it was recorded for; it is sent nowhere else.
        carriers: what carries it: ``cookie sid``, ``header authorization``.
        recorded_at: when, as ISO 8601 writes it; empty where the recording does not say.
        for_writes: the user has said by name that it may go with writes that nobody is asked about.
    """

    file: str
    origin: str
    carriers: tuple[str, ...] = ()
    recorded_at: str = ""
    for_writes: bool = False


MissingReason = Literal["", "untaken", "declined", "ended", "expired", "refused", "changes", "open", "elsewhere"]
"""Why a credential that a recording had is not used, or may be refused: nobody was asked about it; the user said no;
the recording ends with a log-out; its time is over; the service refused it; it was another one again and again; others
could read it on its way; it was recorded for another origin than the one that is called."""


class DataFlow(Record):
    """Says where the arguments of a call with effects came from, and what of that is a reason to ask about it.

    Attributes:
        origins: of each argument, by name, and by the way to a part of one (``message.to``), in one order.
        untrusted: the arguments, or parts, that say where the call goes or what it takes and have an untrusted origin.
        author_saw: the tools whose text, which strangers write, the program's author had seen before it wrote the call.
        strangers: the tools of all these origins whose text strangers write.
        left_out: how many origins are not named.
        session: the recorded login that goes with the call; ``None`` without one.
    """

    origins: dict[str, tuple[Origin, ...]] = Field(default_factory=dict)
    untrusted: tuple[str, ...] = ()
    author_saw: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    left_out: int = 0
    session: RecordedSession | None = Field(default=None, exclude_if=is_none)

    @property
    def is_of_strangers(self) -> bool:
        """Return whether text that strangers write may have had a say in the call, so that no yes to all covers it."""
        return bool(self.untrusted or self.author_saw)

    @property
    def is_of_session(self) -> bool:
        """Return whether a recorded login goes with the call that is not named for writes: no yes to all covers it."""
        return self.session is not None and not self.session.for_writes


class Drift(Record):
    """Says one way in which a response is not what its schema says: where in it, and what is wrong there."""

    path: tuple[str | int, ...]
    what: str


MAX_KEYS, MAX_LISTS = 25, 8
"""Keys of an object, and lists in lists, that :class:`Observed` shows."""
MAX_TEXT = 600
"""Characters of a value that a record keeps."""


def trimmed(value: Any, room: int = MAX_TEXT) -> Any:
    """Return a value without what stands in it behind the first ``room`` characters, as Python writes it."""
    return _trimmed(value, room)[0]


def _trimmed(value: Any, room: int) -> tuple[Any, int]:
    if isinstance(value, str | bytes):
        return value[: max(room, 0)], room - len(value)
    if isinstance(value, dict):
        made = {}
        for key, item in value.items():
            if room <= 0:
                break
            made[key], room = _trimmed(item, room - len(key) - 4)
        return made, room
    if isinstance(value, list):
        items = []
        for item in value:
            if room <= 0:
                break
            each, room = _trimmed(item, room - 2)
            items.append(each)
        return items, room
    return value, room - 1


class Observed(Record):
    """Says in brief what stands at a place of a response.

    Attributes:
        type: ``missing``, ``object``, ``list``, or ``value`` for anything else.
        keys: the first keys of an object; ``length`` counts all, or the items of a list.
        first: the first item of a list.
        value: of ``value``; long texts are cut.
    """

    type: Literal["missing", "object", "list", "value"]
    keys: tuple[str, ...] = ()
    length: int = 0
    first: Observed | None = None
    value: Value = None

    @classmethod
    def of(cls, value: Any, room: int = MAX_TEXT, depth: int = 0) -> Observed:
        """Say in brief what a value is; of lists in lists as far as :data:`MAX_LISTS`.

        Args:
            value: a JSON value, or bytes.
            room: characters of a value that are kept.
            depth: how many lists it stands in.
        """
        if isinstance(value, dict):
            return cls(type="object", keys=tuple(map(str, islice(value, MAX_KEYS))), length=len(value))
        if isinstance(value, list):
            first = cls.of(value[0], room, depth + 1) if value and depth < MAX_LISTS else None
            return cls(type="list", length=len(value), first=first)
        return cls(type="value", value=trimmed(value, room))


class Invocation(Record):
    """Names a call by its tool and arguments; what is long in these is cut."""

    tool: str
    arguments: Arguments = {}


class Answered(Record):
    """Holds a call and what it was answered, cut where it is long. ``nothing``: the response is empty."""

    invocation: Invocation
    value: Value = None
    nothing: bool = False


class Mismatch(Drift):
    """Says one way in which an answer is not of its type.

    ``found``: what stands at the path; ``None`` where ``what`` says so.
    """

    found: Observed | None = None


class Misfit(Record):
    """Describes an answer that is not of the type that was asked for.

    Attributes:
        expected: that type, as an annotation.
        found: what the answer is instead.
        problems: where in the answer, and what is wrong there; the first few.
    """

    expected: str
    found: Observed
    problems: tuple[Mismatch, ...] = ()


class BodyError(Record):
    """Holds an error that a response states in its body, though it came as a success (:mod:`atc.schemas.error_bodies`).

    Attributes:
        key: the field that states it; a program that reads it has seen the error.
        message: the service's own words, cut.
    """

    key: str
    message: str


class Replacement(Record):
    """Names a tool that gives the same as one that broke.

    Attributes:
        tool: the one that takes its place.
        arguments: its arguments, each with the one of the broken tool that means the same; by original names.
    """

    tool: str
    arguments: tuple[tuple[str, str], ...] = ()


RepairKind = Literal["respelt", "unwrapped", "format", "wrapped", "left_out", "dropped", "model"]
"""What a repair did to arguments (RETO §3.4, Alg. 1): a key under the schema's spelling; the one fitting field, or the
one item, in place of an object or list; the same value in another format; one value as a list of one; an optional
``null`` left out; an unknown key dropped; what a model gave."""


class SameCall(Record):
    """Names a call of the same run that did, or may have done, what a write asks for.

    Attributes:
        number: of the call. ``tool``: the name that it had.
        in_doubt: nobody knows whether it was done.
        own: it is of the same tool, which a program may call twice. Else nobody can tell that this is another tool:
            that one is not there any more, or had this name.
        was_read: its tool was said to read alone when it was made, and nobody knows what came of it.
        settled: it was in doubt, and a read or a person says that it was not done.
    """

    number: int
    tool: str
    in_doubt: bool = False
    own: bool = False
    was_read: bool = False
    settled: bool = False

    @property
    def may_be_repeated(self) -> bool:
        """Whether the write may do again what this call did, and is no second call of a program that makes two."""
        return self.was_read or self.settled or not self.own


class ArgumentRepair(Record):
    """Describes one change to the arguments of a call, before it was sent.

    Attributes:
        path: where, in the arguments as the program gave them.
        given: what the program gave there, cut where it is long. ``sent``: what was sent in its place.
        name: of a key that is ``respelt``, the one that was sent; of ``unwrapped``, the field that was taken.
    """

    kind: RepairKind
    path: tuple[str | int, ...]
    given: Value = None
    sent: Value = None
    name: str | None = None


class LineInput(Record):
    """Names what a line of a program worked with.

    Attributes:
        name: the variable that holds it; empty where the call itself stands in the line, or the line's values were
            made from it.
        call: the number of the call whose response it came from. ``place``: where in it.
    """

    name: str
    call: int
    place: Place


class Raised(Record):
    """Holds the exception that ended a program. ``hint`` is the sandbox's advice about it.

    ``trace``: (function, line) of the program's frames, outermost first, where it was raised in a function.
    """

    type: str
    message: str
    hint: str = ""
    items: int | None = None
    trace: tuple[tuple[str, int], ...] = ()


# ----------------------------------------------------------------------------------------------------------------------
# What a dry run found, as data: the calls that a real run would make, what feeds them, and how far that is known.


FeedKind = Literal["response", "derived", "same", "planned", "input", "task", "program"]


class Feed(Record):
    """Says where an argument comes from, of a call with effects that is planned or that the user is asked about.

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
        rows: objects in the list that has this row, if they are several and the call searched: one of those that fit.
        more: feeds of the same argument that are not named, after this one.
    """

    argument: str
    inside: tuple[str | int, ...] = ()
    kind: FeedKind
    call: int | None = None
    tool: str = ""
    path: tuple[str | int, ...] = ()
    row: Arguments = Field(default_factory=dict)
    rows: int = 0
    more: int = 0


class PlannedCall(Record):
    """Describes a call that a real run would make.

    Attributes:
        index: its number in the run (:attr:`atc.result.Call.index`).
        effect: as its tool declares it. A read is planned only where its arguments rest on a planned call.
        line: of the program; 0 where no program made it.
        arguments: what would be sent, as far as it is known now.
        unknown: the other arguments, each as the program writes it; empty text where that cannot be found.
        forms: how those are made of what planned calls will answer, credentials masked (:mod:`atc.calls.forms`).
        feeds: where arguments come from.
        notes: what was repaired, and what else a real run would say about it.
        warnings: what the check warned about and the call depends on.
        data_flow: where its arguments came from, if a rule or a question needed it.
        within: the kept program that makes it, by the program's own claim; empty without one.
    """

    index: int
    tool: str
    effect: str
    line: int = 0
    arguments: Arguments = Field(default_factory=dict)
    unknown: dict[str, str] = Field(default_factory=dict)
    forms: Arguments = Field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    data_flow: DataFlow | None = Field(default=None, exclude_if=is_none)
    within: str = Field(default="", exclude_if=is_empty)


class ChangedRead(Record):
    """Says that a read answered something else after a run went on than before it waited.

    Attributes:
        call: number of the read in the run, as it was made first, and ``tool`` its tool.
        path: leads to the first difference: keys, and positions in lists.
        before: what stood there, as text of bounded length, and ``after`` what stands there now.
        is_new: the read was not made before at all; ``call`` is its number now.
    """

    tool: str
    call: int
    is_new: bool = False
    path: tuple[str | int, ...] = ()
    before: str = ""
    after: str = ""


class PendingCall(Record):
    """Describes a call with effects that was not made, for it waits for approval.

    Attributes:
        index: its number in the run (:attr:`atc.result.Call.index`): what a decision names.
        effect: as its tool declares it.
        line: of the program; 0 where no program made it.
        arguments: what would be sent, credentials masked.
        feeds: where arguments come from.
        warnings: what the check warned about and the call depends on.
        changed: reads that answered something else than before an earlier yes, which does not hold any more.
        same_as: the first other run of the store in which an equal call waits; empty without one.
        until: when it is too late to approve it, in seconds since 1970.
        data_flow: where its arguments came from, if a rule or a question needed it.
        within: the kept program that makes it, by the program's own claim; empty without one.
    """

    index: int
    tool: str
    effect: str
    line: int = 0
    arguments: Arguments = Field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: tuple[ChangedRead, ...] = ()
    same_as: str = ""
    until: float = 0.0
    data_flow: DataFlow | None = Field(default=None, exclude_if=is_none)
    within: str = Field(default="", exclude_if=is_empty)


DoubtReason = Literal[
    "", "no_read", "no_tool", "not_a_read", "masked", "no_value", "failed", "neither", "both", "changed"
]
"""Why a call stays in doubt: no read is named that could settle it; its tool is not there, or is no read; a credential
of the call is not in the journal; a value that the read needs is not there; the read failed; by what it says the call
was neither done nor not done, or both; its second answer says something else than its first."""


class SettledCall(Record):
    """Says what came of a call in doubt.

    Attributes:
        index: its number in the run (:attr:`atc.result.Call.index`).
        arguments: what was sent, credentials masked.
        outcome: it was done, it surely was not, or nobody knows yet, for the reason ``why``.
        by: the read, as the user's file writes it, or the name of a person; empty where neither was asked.
        said: what the read said, shortened; or the value that is not there.
    """

    index: int
    tool: str
    arguments: Arguments = Field(default_factory=dict)
    outcome: Literal["done", "not_done", "in_doubt"]
    why: DoubtReason = ""
    by: str = ""
    said: str = ""


UndoReason = Literal["", "no_inverse", "no_tool", "a_read", "masked", "no_value", "in_doubt", "undone", "undo_in_doubt"]
"""Why a call is not undone: it has no inverse; the inverse's tool is not there, or is a read; a credential of the call,
or another value that the inverse needs, is not in the journal; it is in doubt; it was undone before; or may have been.
"""


class UndoneCall(Record):
    """Says what undoes a call with effects, and what came of that.

    Attributes:
        index: the call's number in its run (:attr:`atc.result.Call.index`).
        arguments: what it was sent, credentials masked.
        inverse: what undoes it; ``None`` where nothing does, for the reason ``why``.
        outcome: ``planned`` before it is made; ``undone``; ``denied``: nobody approved it; ``not_done``; ``in_doubt``:
            nobody knows whether it was made.
        said: the value that is not there, the run that undid it before, or why the inverse was not made.
    """

    index: int
    tool: str
    arguments: Arguments = Field(default_factory=dict)
    inverse: PlannedCall | None = None
    outcome: Literal["planned", "undone", "denied", "not_done", "in_doubt"] = "not_done"
    why: UndoReason = ""
    said: str = ""


class UndoneRun(Record):
    """Says what became of what a run did.

    Attributes:
        run_id: the run.
        undo_run: the run that made the inverses; empty where none was made.
        calls: its calls with effects, the newest first.
    """

    run_id: str
    undo_run: str = ""
    calls: tuple[UndoneCall, ...] = ()


class Stop(Record):
    """Says where a dry run ended before its program did: what comes after is not known.

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
    """Holds what a dry run found.

    Attributes:
        planned: the calls that a real run would make, in order.
        stop: where the dry run ended before its program did; ``None`` if ``planned`` is complete.
        unseen: the numbers of reads that were made after a planned call, and saw nothing of what it would change.
        kept: the plan is kept: ``agent.apply`` makes exactly these calls.
    """

    planned: tuple[PlannedCall, ...] = ()
    stop: Stop | None = None
    unseen: tuple[int, ...] = ()
    kept: bool = False


class OtherArgument(Record):
    """Says how one argument of a call differs from the planned one.

    Attributes:
        name: of the argument.
        path: leads to the first difference within it: keys, and positions in lists.
        planned: what the plan has there, as text of bounded length; empty where it has nothing, or nothing known.
        now: what the program gives now; likewise.
    """

    name: str
    path: tuple[str | int, ...] = ()
    planned: str = ""
    now: str = ""


DifferenceKind = Literal["arguments", "tool", "changed_tool", "too_many", "after_failure"]


class PlanDifference(Record):
    """Says how a call differs from the plan that is applied, so that it was not made.

    Attributes:
        kind: ``arguments``: its arguments are others. ``tool``: the plan has a call of another tool there.
            ``changed_tool``: the tool is not what it was, or gone. ``too_many``: the plan has no further call.
            ``after_failure``: the planned call before it failed.
        planned: the call that the plan has there; ``None`` for ``too_many``.
        arguments: which arguments are others, of ``arguments``. ``parts``: those of the tool, of ``changed_tool``.
    """

    kind: DifferenceKind
    planned: PlannedCall | None = None
    arguments: tuple[OtherArgument, ...] = ()
    parts: tuple[str, ...] = Field(default=(), exclude_if=is_empty)


# ----------------------------------------------------------------------------------------------------------------------
# What a sketch says, as plain data: names of tools, edges and reasons. Traces and results hold it; no value.


WhyKind = Literal[
    "all", "words", "meaning", "supplies", "takes", "used_with", "planned", "asked", "earlier", "first", "given"
]
"""Why a tool is offered: all are; the task's words, or their meaning, find it; it supplies an argument of another; it
takes what another hands out; it was used together with another in runs; a sub-goal of the plan finds it, or a query of
the model; an earlier task of the conversation used it; nothing fits the task, and it is among the first; the user's own
retriever gave it."""


class Why(Record):
    """Gives the reason for which a tool is offered.

    Attributes:
        kind: of the reason.
        tool: of ``supplies``, ``takes`` and ``used_with``: the other tool. ``parameter``: the argument that is supplied
            or taken.
        number: of ``planned`` the sub-goal's, of ``asked`` the query's, from 1.
    """

    kind: WhyKind
    tool: str = ""
    parameter: str = ""
    number: int = 0


class FeedFacts(Record):
    """Holds an edge from a response to an argument (:class:`atc.catalogue.graph.edges.Feed`), as plain data.

    Attributes:
        supplier: the tool whose response has the value, ``path`` where; empty where the place is not known.
        arguments: that a call of the supplier must give.
        consumer: the tool that takes the value, as ``parameter``.
        evidence, weight, seen: as of the edge.
    """

    supplier: str
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    consumer: str
    parameter: str
    evidence: Literal["corrected", "seen", "stated", "names", "predicted"] = "names"
    weight: float = 0.0
    seen: float = 0.0


class SketchFacts(Record):
    """Holds a sketch without its tools: their names, and what :class:`atc.catalogue.sketch.Sketch` says of them."""

    tools: tuple[str, ...] = ()
    of: int = 0
    subgoals: tuple[str, ...] = ()
    plan: str = ""
    layers: tuple[tuple[str, ...], ...] = ()
    feeds: tuple[FeedFacts, ...] = ()
    substitutes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    why: dict[str, Why] = Field(default_factory=dict)
    sure: bool = True
    queries: tuple[str, ...] = ()
    stopped: str = ""
    notices: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    @classmethod
    def of_trace(cls, data: Mapping[str, Any]) -> SketchFacts:
        """Return the facts of a ``tools_chosen`` event."""
        known = {name: value for name, value in data.items() if name in cls.model_fields}
        try:
            return cls.model_validate(known)
        except ValidationError:  # somebody wrote it by hand
            return cls(tools=tuple(map(str, data.get("tools", ()))), plan=str(data.get("plan", "")))

"""A run leaves plain data behind, which can be read, stored and compared."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, cast

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    field_serializer,
)
from typing_extensions import TypeVar

from atc._records.origins import CallOrigins
from atc._records.packing import pack
from atc._records.prices import money_text
from atc._records.records import (
    ArgumentRepair,
    Arguments,
    BodyError,
    DataFlow,
    Drift,
    DryRun,
    Feed,
    Invocation,
    PendingCall,
    ProbedRead,
    Record,
    SketchFacts,
    Value,
    is_empty,
    is_none,
    value_from_json,
)
from atc._records.records import Effect as Effect
from atc.errors import Cause, RunFailed
from atc.facts import Fault, Finding
from atc.wording import outcomes

T = TypeVar("T", default=Any)

CallStatus = Literal["ok", "replayed", "refused", "failed", "in_doubt", "planned", "pending"]
Money = Annotated[Decimal, PlainSerializer(float, when_used="json")]
"""An exact amount; in JSON a number, which says the same digits."""
RunStatus = Literal[
    "answered", "unsolved", "budget", "failed", "denied", "missing", "tool_broken", "in_doubt", "needs_input",
    "planned", "waiting",
]  # fmt: skip


RefusedBy = Literal["user", "rule", "nobody"]


class _Later:
    """Finds the origins of a call for whoever reads them. It is no part of the call's data: two calls are equal without
    it, and a copy that leaves the process does without it.

    Args:
        find: finds them; ``None``: nobody can.
    """

    def __init__(self, find: Callable[[], CallOrigins] | None = None) -> None:
        self.find = find

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Later)

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> tuple[type[_Later], tuple[()]]:
        return _Later, ()


class Call(Record):
    """One tool call as the broker saw it.

    Attributes:
        status: ``ok``; ``replayed`` (answered from the journal); ``refused`` (by a gate, before its tool); ``failed``;
            ``in_doubt`` (it may have acted); ``planned`` (a dry run did not make it).
        index: number of the call in the run, from 1.
        attempt: number of the program that made it among those that ran, from 0. A program that the check refused never
            ran and does not count here, though it has a :class:`Revision`.
        stage: number of the stage that made it, from 0 (:mod:`atc.calls.journal`).
        arguments: as they reached the tool, after repair. ``notes`` names every repair.
        original: the arguments as the program gave them, if a repair changed them. ``repairs``: the changes.
        drift: where the response is not what its schema says.
        body_error: the error that the response states in its body, if it does: the service answered, and did nothing.
        seconds: time at the tool; 0 for a replay.
        cause: why it failed, where no other program can help (:data:`atc.errors.Cause`).
        refused_by: of a call that was not approved: the ``user`` said no (or the function that decides for them), a
            ``rule`` of the permissions denies it, or ``nobody`` was asked.
        error: what went wrong; of a call that succeeded, why its response cannot be had, and ``value`` is not it. In an
            exception of the user's own function, what looks secret is masked.
        service_message: the service's own words in ``error``, if they can be told from ATC's.
        traceback: as :attr:`Fault.traceback`.
        page: which page of an ``all_pages`` it read, from 1; 0 for a call by itself.
        awaits: arguments of a planned call that are unknown until another call is made; not in ``arguments``.
        again: number of the call in doubt that this one sent again with its idempotency key; 0 for none.
        data_flow: :attr:`origins` where a rule or a question needed them, so that the trace has them.
        within: the kept program that made it, by its program's own claim; empty where the program itself did.
            ``line`` lies behind the program's own lines then, and ``outer_line`` is the one of these that led to it.
    """

    index: int
    attempt: int
    tool: str
    arguments: Arguments
    effect: Effect
    status: CallStatus
    value: Value = None
    error: str | None = None
    service_message: str | None = None
    error_status: int | str | None = None
    cause: Cause | None = None
    refused_by: RefusedBy | None = None
    line: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    original: Arguments | None = None
    repairs: tuple[ArgumentRepair, ...] = ()
    drift: tuple[Drift, ...] = ()
    body_error: BodyError | None = None
    traceback: str | None = None
    page: int = 0
    stage: int = 0
    awaits: tuple[Feed, ...] = ()
    again: int = 0
    data_flow: DataFlow | None = Field(default=None, exclude_if=is_none)
    within: str = Field(default="", exclude_if=is_empty)
    outer_line: int = Field(default=0, exclude_if=is_empty)

    _origins_later: _Later = PrivateAttr(default_factory=lambda: _Later())

    @classmethod
    def made_of(cls, data: dict[str, Any], find_origins: Callable[[], CallOrigins] | None = None) -> Call:
        """Return a call of data that the broker made itself: nothing of it came from outside, and nothing is validated.

        Args:
            data: all fields in their order, each of its own type. The call keeps this object.
            find_origins: finds the call's origins when somebody reads them. They are no part of its data.
        """
        made = cls.__new__(cls)
        made.__setstate__(
            {
                "__dict__": data,
                "__pydantic_fields_set__": set(data),
                "__pydantic_extra__": None,
                "__pydantic_private__": {"_origins_later": _Later(find_origins)},
            }
        )
        return made

    @property
    def origins(self) -> CallOrigins:
        """Return where each argument came from (:mod:`atc._records.origins`), found as it is read; empty for a call of
        a trace that nobody asked about."""
        if (find := self._origins_later.find) is not None:
            return find()
        return {} if self.data_flow is None else {name: frozenset(of) for name, of in self.data_flow.origins.items()}

    @property
    def shown_line(self) -> int:
        """Return the line of its author's own text that led to the call; 0 when unknown."""
        return self.outer_line if self.within else self.line

    @property
    def succeeded(self) -> bool:
        """Return whether the call was made, now or before: then it is answered from the journal."""
        return self.status in ("ok", "replayed")

    @property
    def observation(self) -> Any:
        """Return what a model is shown of a call that succeeded: its value, or why it has none."""
        return self.value if self.error is None else self.error


class Revision(Record):
    """One program of a run, the first one too, and how it went: findings before it ran, or a fault, or neither.

    Attributes:
        rewrites: one note for each change that a repair made to it.
        stage: number of the stage that it belongs to, from 0.
        substituted: for the program that answered: each broken tool, and the one that it called instead.
        looked: the values that it ended with for the next program to see, by name (:mod:`atc.run.look`).
        warnings: what the check warned about in a program that failed, and no error tells: a value that a service may
            believe, a comparison that is never so.
    """

    attempt: int
    program: str
    findings: tuple[Finding, ...] = ()
    fault: Fault | None = None
    rewrites: tuple[str, ...] = ()
    stage: int = 0
    substituted: tuple[tuple[str, str], ...] = ()
    looked: tuple[str, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Return what kept it from running, or the warning that foretold its failure."""
        foretold = self.fault.finding if self.fault is not None else None
        return self.findings if foretold is None else (*self.findings, foretold)


class Usage(Record):
    """Counts what a run used. Seconds are wall time; tokens are as the endpoint counted them.

    ``host_seconds`` is processor time: what the run's own steps took of the event loop. Not in it: an embedded
    model, what works in threads or other processes, and the user's own functions.
    """

    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_seconds: float = 0.0
    tool_calls: int = 0
    tool_seconds: float = 0.0
    seconds: float = 0.0
    host_seconds: float = 0.0


class Result(Record, Generic[T]):
    """Describes how a run ended.

    Attributes:
        status: ``answered``; ``unsolved`` (all revisions used up); ``budget`` (a budget was used up); ``failed`` (the
            model or the sandbox failed in the middle). No other program helps after ``denied`` (the user did not
            approve a call), ``missing`` (a credential or a service is not there), ``tool_broken`` (a tool fails though
            its arguments are valid) and ``in_doubt`` (a write may have been done, and is not repeated). After
            ``needs_input`` a program waits for the user's answer: ``resume(run_id, reply=…)`` goes on with it.
            ``planned``: a dry run reached calls with effects, and made none. ``waiting``: calls with effects wait for a
            yes (``pending``); ``agent.approve(run_id)`` says it, and ``resume(run_id)`` goes on.
        value: what the program computed, in the type that was asked for (``answer=``). Without one, and in a result
            that is read back, JSON values and bytes; ``None`` if there is no answer. ``answer`` says it in a sentence,
            grounded in value and calls only.
        program: the last program. ``revisions`` holds every one, in order.
        calls: every call that the broker saw. ``in_doubt`` names writes that may or may not have happened.
        done: the calls with effects that this task has made, of all its programs and resumes. ``not_done``: those that
            were refused, and that no later call made: nobody approved them, or a write in doubt stood in their way.
        fault: why it ended without an answer; where a program answered all the same, the write that it did without.
        partial: the run did only a part. With ``denied`` or ``in_doubt`` a program went on without a write that was
            refused or is in doubt, and set an answer: ``value`` has it, and no ``answer`` says it. With ``answered`` it
            caught the failure of a write, or did not look at an error in the body of its response, and no later call
            made that good.
        remarks: failures that the program which answered caught, of reads too; errors in the bodies of writes'
            responses that it did not look at; then warnings of the check about it that the run did not settle
            (``case="unresolved"``); the first ones. Then what an answer rests on, which may be right: no call
            (``no_calls``), a part of a list that goes on (``first_part``; ``first_few`` if the program asked for just
            so many); and why the program's sentence about it is not used (``unsaid``). Of a resumed run, last, the
            tools that it had before and that are not there any more (``tool_gone``).
        question: what the program asks the user, in its own words, after ``needs_input``; else ``None``.
        cost: what the model's replies cost, in ``currency``; ``None`` where the settings have no price for it. A reply
            that failed is not in it.
        isolation: the sandbox driver and the tier that held for the program that ran last (``process/N``); empty if
            none ran.
        sketch: the tools that were offered, and why; ``None`` if the run ended before.
        dry_run: what a dry run found (:class:`atc._records.records.DryRun`); ``None`` for any other run.
        pending: the calls with effects that wait for approval (``approve="park"``).
        probed: the reads that were made before the first program, to see what tools answer (``probe="reads"``); they
            are no calls of a program, and neither ``calls`` nor ``usage`` has them.
    """

    run_id: str
    task: str
    status: RunStatus
    value: Annotated[T, BeforeValidator(value_from_json)] = cast(T, None)
    answer: str = ""
    program: str = ""
    calls: tuple[Call, ...] = ()
    revisions: tuple[Revision, ...] = ()
    done: tuple[Invocation, ...] = ()
    not_done: tuple[Invocation, ...] = ()
    fault: Fault | None = None
    partial: bool = False
    remarks: tuple[Fault, ...] = ()
    question: str | None = None
    usage: Usage = Field(default_factory=Usage)
    cost: Money | None = None
    currency: str = ""
    isolation: str = ""
    trace: str | None = None
    sketch: SketchFacts | None = None
    dry_run: DryRun | None = None
    pending: tuple[PendingCall, ...] = ()
    probed: tuple[ProbedRead, ...] = ()

    _plain: tuple[Any, Any] | None = PrivateAttr(None)
    """A typed value, and its JSON form."""

    @classmethod
    def typed(cls, value: T, plain: Any, **fields: Any) -> Result[T]:
        """Return a result whose value is of a type of the user's.

        Args:
            value: the value.
            plain: the same as JSON values and bytes: what is written down of it.
            fields: the other fields.
        """
        made = cls(value=value, **fields)
        if plain is not value:
            made._plain = (value, plain)
        return made

    @property
    def json_value(self) -> Any:
        """:attr:`value` as JSON values and bytes."""
        held = self._plain
        return held[1] if held is not None and held[0] is self.value else self.value

    @field_serializer("value", when_used="json")
    def _written(self, _: Any) -> Any:
        return pack(self.json_value)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the faults of all programs, in order."""
        return tuple(revision.fault for revision in self.revisions if revision.fault is not None)

    @property
    def in_doubt(self) -> tuple[Call, ...]:
        """Calls with effects whose outcome is unknown: check them by hand before you repeat them."""
        settled = {call.again for call in self.calls if call.succeeded}
        doubtful = (call for call in self.calls if call.status == "in_doubt")
        return tuple(call for call in doubtful if not settled & {call.index, call.again or call.index})

    @property
    def planned(self) -> tuple[Call, ...]:
        """Calls that a dry run did not make: those with effects, and reads that rest on one of them."""
        return tuple(call for call in self.calls if call.status == "planned")

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        from atc.wording.notebook import html_of

        cost = "" if self.cost is None else money_text(self.cost, self.currency)
        ended = self.status not in ("answered", "planned", "waiting")
        changed = outcomes.effects(self.done, self.not_done, in_doubt=self.status == "in_doubt") if ended else []
        waits = outcomes.run_failed(self) if self.pending else ""
        return html_of(self, self.calls, cost=cost, caveats=outcomes.caveats(self), effects=changed, pending=waits)

    def unwrap(self) -> T:
        """Return ``value``.

        Raises:
            RunFailed: the run has no answer.
        """
        if self.status != "answered":
            raise RunFailed(self, outcomes.run_failed(self))
        return self.value

"""One call on its way through the broker: from the request of a program to the :class:`Call` of the result.

A stage of your own is a method of :class:`~atc.calls.broker.Broker` that stands in ``Broker.stages``, at the head of
that module and in ``ORDER`` of ``tests/calls/test_broker_stages.py``. It returns ``None`` to let the call pass, a
:class:`CallReply` to end it, or raises ``CallRefused``, whose words go to the model. Its place decides what it finds:

- behind ``granted``: ``granted``, ``effect``, ``source``; the tool may be called;
- ``arguments``: ``arguments`` as they are sent, and ``key``. A call of a dry run with ``request.unknown`` has no key;
- ``turn``: where a plan is applied, a write is the next one that was planned;
- ``replay``: the call is new. ``limits``: it counts (``Broker.made``). ``origins``: where its arguments come from;
- ``plan``: a dry run has ended its writes here. ``approval``: a person may have waited here for hours;
- ``begin``: ``entry``, for it is in the journal, as is each failure from here on;
- ``send``: ``value``, ``next_page``, ``seconds``; the tool may have acted, so a write that fails may be in doubt;
- ``response``: ``unread``, ``drift``, ``body_error``; its size is allowed, and credentials are masked.

A limit is a field of :class:`~atc.calls.sending.CallPolicy`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from atc._host.redaction import Redactor
from atc._records.events import CallStarted
from atc._records.origins import CallOrigins, data_flow
from atc._records.packing import as_text, pack
from atc._records.records import ArgumentRepair, BodyError, DataFlow, Drift, Feed, RecordedSession
from atc.calls.contract import CallReply, CallRequest
from atc.calls.entry import CallEntry, CallKey, Unread, call_key
from atc.calls.idempotency import SentKey
from atc.calls.json_values import copied
from atc.errors import CallRefused, Cause, ToolError
from atc.result import Call, CallStatus, Effect, RefusedBy
from atc.schemas.protocol import SourceKey
from atc.tools.tool import NextPage, Tool

_VALUES = {"arguments", "original", "value"}
_NESTED = ("notes", "repairs", "drift", "awaits")
_LEFT_OUT = ("data_flow", "within", "outer_line")
"""Fields that :class:`Call` leaves out where they say nothing."""
NO_REPLY = CallReply()
CUT = "(cut)"
KEPT_OF_REFUSED = 4_000
"""Characters of a refused call's arguments."""


@dataclass(slots=True)
class AskedAbout:
    """A call of whose arguments somebody asks where they came from.

    Attributes:
        program: the numbers of its stage, and of the program that made it.
        index, tool, line: of the call.
        given: the arguments as the program gave them; ``None`` for those that a dry run does not know.
        sent: as they are sent.
        repairs: what changed them. ``by_model``: a model did.
        said: where they come from, as the caller says that made the call without a program; else ``None``.
    """

    program: tuple[int, int]
    index: int
    tool: str
    line: int
    given: Mapping[str, Any]
    sent: Mapping[str, Any]
    repairs: Sequence[ArgumentRepair]
    by_model: bool
    said: CallOrigins | None = None


@dataclass(frozen=True)
class Found:
    """Says where the arguments of one call come from.

    Attributes:
        origins: of each argument, as they are sent.
        author_saw: the tools whose text, which strangers write, the program's author had seen before it wrote the call;
            empty where the same write stood in a program that was written before.
    """

    origins: CallOrigins
    author_saw: tuple[str, ...] = ()


class ArgumentOrigins(Protocol):
    """Says where the arguments of the calls of one run come from (:class:`atc.run.origins.RunOrigins`).

    Nothing is followed but where a rule needs it, a person is asked, or text that strangers write may have had a say.
    """

    async def of(self, attempt: Attempt) -> Found:
        """Return where the arguments of a call come from."""

    def later(self, asked: AskedAbout) -> CallOrigins:
        """Return the same of a call that has ended, without what its run saw."""


@dataclass
class Attempt:
    """A call while it passes the broker's stages: each reads what those before it left, and adds its own.

    Attributes:
        request: the call as the program asked for it.
        number: of the call in the run.
        program: number of the program that makes it (:attr:`atc.calls.journal.Journal.attempt`).
        stage: number of the run's stage.
        tool: the tool's name, as the program wrote it.
        arguments: as they are sent: the program's own, until a repair changes them. ``masked``: without credentials,
            once the call is begun, or refused.
        granted: the tool. The stage ``granted`` sets it, with ``effect`` and ``source``, and ``session``, the recorded
            login that goes with a call which is no read.
        key: what the journal knows the call by. The stage ``arguments`` sets it.
        warnings: what is unresolved about the program and the call.
        origins, untrusted, author_saw, strangers: as of :class:`atc.calls.approval.ApprovalRequest`, where they are
            needed: the stage ``origins`` sets them. ``origins_later``: finds them for whoever asks then.
        yes: number of the parked call whose yes lets it through; 0: none.
        approved: the call is let through: whatever becomes of it, the caller's other runs are told.
        idempotency: the idempotency key that the call bears; ``None``: none.
        again: the call in doubt that this one sends again, with its key.
        entry: what the journal holds of the call, once it is begun there.
        began: when the call was handed to its tool; ``seconds``: how long the tool took.
        value: the response, as the program gets it.
        error: why the call is refused or failed.
        reply: what the program is answered with, once the call has ended.
    """

    request: CallRequest
    number: int
    program: int
    stage: int = 0
    tool: str = field(init=False)
    arguments: dict[str, Any] = field(init=False)
    granted: Tool = field(init=False, repr=False)
    key: CallKey = field(init=False, repr=False)
    effect: Effect = Effect.UNKNOWN
    source: SourceKey | None = None
    session: RecordedSession | None = None
    status: CallStatus = "ok"
    cause: Cause | None = None
    refused_by: RefusedBy | None = None
    warnings: tuple[str, ...] = ()
    yes: int = 0
    approved: bool = False
    idempotency: SentKey | None = None
    again: CallEntry | None = None
    entry: CallEntry | None = None
    began: float = 0.0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    masked: dict[str, Any] | None = None
    original: dict[str, Any] | None = None
    repairs: tuple[ArgumentRepair, ...] = ()
    awaits: list[Feed] = field(default_factory=list)
    origins: CallOrigins | None = None
    untrusted: tuple[str, ...] = ()
    author_saw: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    origins_later: Callable[[], CallOrigins] | None = field(default=None, repr=False)
    value: Any = None
    next_page: NextPage = None
    unread: Unread | None = None
    drift: list[Drift] = field(default_factory=list)
    body_error: BodyError | None = None
    service_message: str | None = None
    traceback: str | None = None
    error: ToolError | None = None
    reply: CallReply = NO_REPLY

    def __post_init__(self) -> None:
        self.tool, self.arguments = self.request.tool, self.request.arguments

    @property
    def reads(self) -> bool:
        """Whether the call has no effects."""
        return self.effect is Effect.READ

    def take_key(self) -> None:
        """Set what the journal knows the call by, now that its arguments are those that are sent. Nobody else has them
        from here on: what is asked about is what is sent.

        Raises:
            CallRefused: they have no canonical form.
        """
        try:
            self.key = call_key(self.tool, self.arguments, self.source)
            self.arguments = copied(self.arguments)
        except ValueError as error:
            raise CallRefused(f"$: {error}", status="invalid_arguments") from None

    def take_known_key(self) -> None:
        """Set the key by what is known of the arguments: a planned call may lack some of them."""
        if self.request.unknown:
            self.key = CallKey(self.tool, "", self.source)

    def measured(self) -> None:
        """Note how long the tool has taken up to now."""
        self.seconds = time.perf_counter() - self.began

    def answered(self, value: Any) -> CallReply:
        """Return the reply with a response, or with why it cannot be read."""
        self.value = value
        if self.unread is not None:
            return CallReply(error=self.unread.message, status=self.unread.status, done=True)
        return CallReply(value=value)

    def replayed(self, entry: CallEntry) -> CallReply:
        """Return the reply of a call that the journal answers."""
        self.status, self.next_page, self.unread = "replayed", entry.next_page, entry.unread
        return self.answered(entry.value)

    def started(self, arguments: dict[str, Any]) -> CallStarted:
        """Return the data of the event ``call_started``.

        Args:
            arguments: the call's own, masked and packed.
        """
        made: CallStarted = {
            "index": self.number,
            "tool": self.tool,
            "arguments": arguments,
            "effect": self.effect.value,
            "line": self.request.line,
        }
        if self.request.within:
            made["within"], made["outer_line"] = self.request.within, self.request.outer
        return made

    def fail(self, error: ToolError, redactor: Redactor) -> CallReply:
        """Return the reply of a call that was refused or failed, credentials masked."""
        self.cause = error.cause
        if self.status == "ok":
            self.status = "refused" if isinstance(error, CallRefused) else "failed"
        if self.status == "refused":
            # masked before they are cut: half a credential is not known as one
            self.arguments = self.masked = cut_arguments(redactor.value(self.arguments))
            self.original = cut_arguments(redactor.value(self.original)) if self.original is not None else None
        return CallReply(error=redactor.text(error.message), status=error.status)

    @property
    def is_cut(self) -> bool:
        """Whether it was refused, and its record keeps a part of its arguments alone: nothing else keeps them whole."""
        if self.status != "refused":
            return False
        return any(each is not None and each.keys() == {CUT} for each in (self.arguments, self.original))

    def asked(self) -> AskedAbout:
        """Return what its origins are found by."""
        unknown = dict.fromkeys(self.request.unknown)
        return AskedAbout(
            program=(self.stage, self.program),
            index=self.number,
            tool=self.tool,
            line=self.request.line,
            given=self.request.arguments | unknown,
            sent=self.arguments | unknown,
            repairs=self.repairs,
            said=self.request.origins,
            by_model=any(each.kind == "model" for each in self.repairs),
        )

    @property
    def by_model(self) -> bool:
        """Return whether a model gave some of the arguments in place of the program's."""
        return any(each.kind == "model" for each in self.repairs)

    def finish(self, reply: CallReply, redactor: Redactor) -> Call:
        """Return the call as the run's result holds it, credentials masked."""
        arguments = redactor.value(self.arguments) if self.masked is None else self.masked
        flow = data_flow(self.origins or {}, self.untrusted, self.author_saw, self.strangers, self.session)
        data: dict[str, Any] = {
            "index": self.number,
            "attempt": self.program,
            "tool": redactor.text(self.tool),
            "arguments": dict(arguments),
            "effect": self.effect,
            "status": self.status,
            "value": reply.value,
            "error": reply.error,
            "service_message": self.service_message,
            "error_status": reply.status,
            "cause": self.cause,
            "refused_by": self.refused_by,
            "line": self.request.line,
            "seconds": round(self.seconds, 6),
            "notes": tuple(map(redactor.text, self.notes)),
            "original": redactor.value(self.original) if self.original is not None else None,
            "repairs": tuple(_masked(each, redactor) for each in self.repairs),
            "drift": tuple(Drift(path=each.path, what=redactor.text(each.what)) for each in self.drift),
            "body_error": self.body_error,
            "traceback": self.traceback,
            "page": self.request.page,
            "stage": self.stage,
            "awaits": tuple(self.awaits),
            "again": 0 if self.again is None else self.again.number,
            "data_flow": masked_flow(flow, redactor),
            "within": self.request.within,
            "outer_line": self.request.outer if self.request.within else 0,
        }
        return Call.made_of(data, self.origins_later)


def _masked(repair: ArgumentRepair, redactor: Redactor) -> ArgumentRepair:
    path = tuple(redactor.value(step) for step in repair.path)
    given, sent, name = (redactor.value(each) for each in (repair.given, repair.sent, repair.name))
    return repair.model_copy(update={"path": path, "given": given, "sent": sent, "name": name})


def masked_flow(flow: DataFlow | None, redactor: Redactor) -> DataFlow | None:
    """Return where arguments came from, credentials masked: a key of a response can hold one."""
    return None if flow is None else DataFlow.model_validate(redactor.value(flow.model_dump(mode="json")))


def as_json(call: Call) -> dict[str, Any]:
    """Return a call as JSON values: what :meth:`Call.model_dump` gives, which copies each value in it twice."""
    if call.repairs or call.drift or call.body_error or call.awaits or call.data_flow:  # a record of its own
        made = call.model_dump(mode="json", exclude=_VALUES)
        made |= {name: pack(getattr(call, name)) for name in _VALUES}
        return {name: made[name] for name in Call.model_fields if name in made}
    made = dict(call.__dict__)
    made |= {name: pack(made[name]) for name in _VALUES}
    made["effect"] = made["effect"].value
    for name in _NESTED:
        made[name] = list(made[name])
    for name in _LEFT_OUT:
        if not made[name]:
            del made[name]
    return made


def cut_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a refused call as its record keeps them: a program may be refused any number of times."""
    text = as_text(arguments)
    return arguments if len(text) <= KEPT_OF_REFUSED else {CUT: text[:KEPT_OF_REFUSED]}

"""What probing may touch, and how much of it: which tools are called at all, and the budgets of every single call.

The policy is enforced at the transport, behind the broker: a program that a model wrote cannot talk its way past it.
:class:`Runner` runs such programs in the jail, with a broker of their own, and returns their calls.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from atc import wording
from atc._records.events import Emit
from atc._records.records import RecordedSession
from atc.calls.approval import Approval, Approve
from atc.calls.broker import Broker, CallPolicy
from atc.calls.journal import Journal
from atc.calls.json_values import canonical
from atc.errors import CallRefused, ToolError
from atc.result import Call, Effect
from atc.sandboxes.contract import Job, Sandbox
from atc.sandboxes.drivers import limits_from
from atc.schemas.protocol import Protocol, Provenance
from atc.schemas.telltales import disguised_telltale
from atc.settings import Settings
from atc.tools.tool import (
    MissingCredential,
    Tool,
    Toolset,
    Transport,
    WrappingTransport,
    answer_of,
    service_of,
    signatures,
)

PATIENCE_S = 60.0
"""The longest pause that a service is granted: one that asks for more is not called again in this probing."""
REFUSED_BY_US = ("budget", "stopped")
"""Statuses of calls that were not made."""
MANY_CLOSED = 3
"""Tools of one service that demand a credential, while none answers, before its other tools are left alone too."""


@dataclass(frozen=True)
class Budget:
    """The calls that probing may cost a service. Every attempt counts, those that the broker repeats too.

    Attributes:
        calls_a_tool: calls of one tool.
        calls_a_minute: calls of all tools in any 60 s; more wait.
        calls: calls of all tools.
        response_bytes: bytes of all responses together, as JSON.
    """

    calls_a_tool: int = 16
    calls_a_minute: int = 300
    calls: int = 2_000
    response_bytes: int = 50_000_000


def why_not(protocol: Protocol, allowed: Iterable[str] = ()) -> str:
    """Why a tool is not called; empty where it may be.

    Args:
        protocol: what is known of it.
        allowed: shell patterns of the tools with effects that the user lets probing call.
    """
    if any(fnmatchcase(protocol.name, pattern) for pattern in allowed):
        return ""
    word = disguised_telltale(protocol.source.operation) or disguised_telltale(protocol.plain_name)
    if protocol.effect is not Effect.READ:
        named = f" (its name says {word!r})" if word and protocol.effect is Effect.UNKNOWN else ""
        effect = f"{protocol.effect.value}{named}"
        if protocol.provenance is Provenance.INFERRED and protocol.source.kind == "har":  # no advice to try a change
            return f"it was recorded with refusals only, and its effect is {effect}: record one that succeeds"
        return f"its effect is {effect}, and only reads are called: --allow-effects {protocol.name}"
    if word:
        return f"it says that it only reads, but its name says {word!r}: --allow-effects {protocol.name}"
    return ""


@dataclass(frozen=True)
class Door:
    """The reach of a credential: a tool's service and the security schemes that it names."""

    place: str
    schemes: tuple[tuple[str, ...], ...] = ()
    names_a_thing: bool = False
    """The tool must be given something, so that what is behind the door may depend on it."""
    missing: MissingCredential | None = None
    """The credential that it asks for and that nobody has given."""
    session: RecordedSession | None = None
    """The recorded login that goes with its calls."""

    def wanted(self, status: int) -> str:
        """What to do after this status, 401 or 403, in words."""
        if status == 401 and self.missing is not None:
            return wording.no_credential(self.missing)
        wants = "it wants a credential" if status == 401 and not self.session else "it wants another credential"
        ways = ["log in and record again"] if self.session else []
        ways += [f"set ATC_AUTH_<SCHEME> for {self.named}"] if self.schemes else []
        return f"{wants}: {', or '.join(ways)}" if ways else wants

    @property
    def named(self) -> str:
        """The security schemes, in words."""
        return " or ".join("+".join(each) for each in self.schemes)


@dataclass
class Meter:
    """Counts calls, and refuses more when the budget is spent. One for all tools of a probing."""

    budget: Budget
    counted: Callable[[str], None] | None = None
    """Called with a tool's name when one of its calls is about to be sent."""
    total: int = 0
    """Calls of all tools together that were let through."""
    calls: dict[str, int] = field(default_factory=dict)
    """By tool: calls that were let through."""
    sent: Counter[str] = field(default_factory=Counter)
    """By tool: calls that were sent. What does not fit in a request is let through, and never sent."""
    bytes: int = 0
    doors: dict[str, Door] = field(default_factory=dict)
    _stopped: dict[str | tuple[str, object], str] = field(default_factory=dict)
    """Why nothing more is asked: by tool, by service, and by the schemes of a service."""
    turned_away: Counter[str] = field(default_factory=Counter)
    """By tool: calls that were answered 401 or 403."""
    _closed: dict[str, set[str]] = field(default_factory=dict)  # by service: tools that want a credential
    _answering: set[str] = field(default_factory=set)  # services of which a tool answered
    _until: dict[str, float] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)

    @property
    def left_of_all(self) -> int:
        """Calls that all tools together may still be sent."""
        return max(0, self.budget.calls - self.total)

    def left(self, tool: str) -> int:
        """Calls that one tool may still be sent."""
        return max(0, min(self.budget.calls_a_tool - self.calls.get(tool, 0), self.left_of_all))

    async def admit(self, tool: str) -> None:
        """Let one call through, when its turn has come.

        Raises:
            CallRefused: a budget is used up, or the service has refused us for good.
        """
        if why := self.closed(tool):
            raise CallRefused(f"not called: {why}", status="stopped")
        if self.bytes >= self.budget.response_bytes:
            raise CallRefused(f"probing has read its {self.budget.response_bytes:,} bytes", status="budget")
        if self.total >= self.budget.calls:
            raise CallRefused(f"probing has made its {self.budget.calls:,} calls", status="budget")
        if self.calls.get(tool, 0) >= self.budget.calls_a_tool:
            raise CallRefused(f"probing has made its {self.budget.calls_a_tool} calls of {tool}", status="budget")
        self.calls[tool] = self.calls.get(tool, 0) + 1
        self.total += 1
        await self._patience(self._door(tool).place)
        await self._await_rate()

    def sending(self, tool: str) -> None:
        """Count a call that is about to be sent."""
        self.sent[tool] += 1
        if self.counted is not None:
            self.counted(tool)

    async def _patience(self, place: str) -> None:
        """Wait as long as the service asked us to."""
        while True:
            pause = self._until.get(place, 0.0) - time.monotonic()
            if pause <= 0:
                return
            await asyncio.sleep(pause)

    async def _await_rate(self) -> None:
        while True:
            now = time.monotonic()
            while self._recent and now - self._recent[0] >= 60:
                self._recent.popleft()
            if len(self._recent) < self.budget.calls_a_minute:
                self._recent.append(now)
                return
            await asyncio.sleep(60 - (now - self._recent[0]))

    def closed(self, tool: str) -> str:
        """Why a tool is not called any more; empty where it may be called."""
        door = self._door(tool)
        keys = (tool, (door.place, door.schemes), door.place)
        return next((self._stopped[key] for key in keys if key in self._stopped), "")

    def closed_itself(self, tool: str) -> bool:
        """Whether it is the tool's own answer that ended its calls, and not that of another tool."""
        return tool in self._stopped

    def answered(self, tool: str) -> None:
        """Remember that a service lets us in."""
        self._answering.add(self._door(tool).place)

    def refused(self, tool: str, error: ToolError) -> None:
        """Remember what a failure means for later calls.

        401 ends the calls of all tools that declare the same security schemes; of a tool that declares none,
        only its own. 403 ends the calls of one tool. One that must be given something has a second call: a
        service may let everybody see one thing and turn away who asks for another, or for one that is not
        there. Where :data:`MANY_CLOSED` tools want a credential and none answers, the whole service does. A
        service that asks for patience gets it from all its tools.
        """
        place = self._door(tool).place
        self.bytes += error.received
        if error.retry_after is not None and error.retry_after > PATIENCE_S:
            self._stopped[place] = f"the service answered {error.status} and asks to wait {error.retry_after:,.0f} s"
        elif error.retry_after is not None:
            self._until[place] = max(self._until.get(place, 0.0), time.monotonic() + error.retry_after)
        if error.status in (401, 403):
            self._wants_a_credential(tool, int(error.status))

    def _wants_a_credential(self, tool: str, status: int) -> None:
        door = self._door(tool)
        self.turned_away[tool] += 1
        if self.turned_away[tool] > door.names_a_thing or (status == 401 and door.schemes):
            self._stopped[tool] = f"the service answered {status}: {door.wanted(status)}"
        if status == 401 and door.schemes:
            why = f"{tool} answered {status}, and this tool needs the same credential: {door.wanted(status)}"
            self._stopped.setdefault((door.place, door.schemes), why)
        closed = self._closed.setdefault(door.place, set())
        closed.add(tool)
        if len(closed) >= MANY_CLOSED and door.place not in self._answering:
            many = f"{len(closed)} tools of its service answered {status} and none let us in"
            why = f"{many}: {door.wanted(status)}"
            self._stopped.setdefault(door.place, why)

    def _door(self, tool: str) -> Door:
        return self.doors.get(tool, Door(tool))


@dataclass(frozen=True, eq=False)
class Metered(WrappingTransport):
    """A transport that makes no call twice: what was answered or refused once is answered so again, at no cost.

    Only failures that pass (``transient``) may be tried again, as the broker does.
    """

    inner: Transport
    tool: str
    meter: Meter
    answered: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, ToolError] = field(default_factory=dict)
    making: dict[str, asyncio.Lock] = field(default_factory=dict)
    timeout_s: float = 30.0
    reads: bool = True

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        """What the inner transport needs for the length of a run."""
        return self.inner.opened()

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        key = canonical(arguments | {name: str(arguments[name]) for name in self._numbers_in_path(arguments)})
        async with self.making.setdefault(key, asyncio.Lock()):
            if key in self.answered:
                return self.answered[key]
            if key in self.refused:
                raise self.refused[key]
            await self.meter.admit(self.tool)
            try:
                value = await self._made(arguments)
            except ToolError as error:
                self.meter.refused(self.tool, error)
                if not (error.transient and self.reads):
                    self.refused[key] = error
                raise
            self.answered[key] = value
            self.meter.answered(self.tool)
            self.meter.bytes += _size(value)
            return value

    def _numbers_in_path(self, arguments: dict[str, Any]) -> list[str]:
        """The arguments that a path bears as digits: 11 and "11" are one request."""
        parameters = getattr(getattr(self.inner, "operation", None), "parameters", ())
        in_path = [each.argument for each in parameters if each.location == "path"]
        return [name for name in in_path if type(arguments.get(name)) is int]

    async def _made(self, arguments: dict[str, Any]) -> Any:
        """Make the call; however it fails, it is a ToolError. Waiting for one's turn is not part of its time."""
        begun = False

        async def sending() -> None:  # again where a redirect is followed
            nonlocal begun
            if not begun:
                begun = True
                self.meter.sending(self.tool)

        try:
            return (await asyncio.wait_for(answer_of(self.inner, arguments, sending), self.timeout_s)).value
        except ToolError:
            raise
        except TimeoutError:
            message = f"no answer within {self.timeout_s:g} s"
            raise ToolError(message, status="timeout", outcome="unknown") from None
        except Exception as error:  # a transport of the user's may raise anything
            name = type(error).__name__
            raise ToolError(f"{name}: {error}", status=name, outcome="unknown") from error


def _size(value: Any) -> int:
    try:
        return len(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError):
        return 0  # no JSON: the broker says so


def door_of(tool: Tool) -> Door:
    """The service that a tool belongs to, by its address where it has one, and the credentials that it declares."""
    operation = getattr(tool.transport, "operation", None)
    place = getattr(operation, "server", None) or tool.protocol.source.location or tool.name
    schemes = tuple(each for each in getattr(operation, "security", ()) if each)
    service = service_of(tool.transport)
    return Door(place, schemes, bool(tool.protocol.required), service.missing, service.session)


def metered(
    tools: Toolset, meter: Meter, allowed: Iterable[str] = (), timeout_s: float = 30.0
) -> tuple[Toolset, dict[str, str]]:
    """The tools that may be called, metered; and of the others, why not."""
    allowed, kept, refused = tuple(allowed), [], {}
    for tool in tools.values():
        why = why_not(tool.protocol, allowed) or ("" if tool.transport else "it has no transport: it can only be shown")
        if why or tool.transport is None:
            refused[tool.name] = why
            continue
        meter.doors[tool.name] = door_of(tool)
        protocol = tool.protocol
        if protocol.effect is Effect.READ and why_not(protocol):  # its name says otherwise: it is asked about
            protocol = protocol.model_copy(update={"effect": Effect.UNKNOWN})
        reads = protocol.effect is Effect.READ
        metered = Metered(tool.transport, tool.name, meter, timeout_s=timeout_s, reads=reads)
        kept.append(replace(tool, protocol=protocol, transport=metered))
    return Toolset(kept), refused


MAX_CALLS = 12
"""Calls of one program."""


@dataclass(frozen=True)
class Trial:
    """One program and what it did.

    Attributes:
        program: as it ran.
        calls: as the broker saw them, in order.
        problem: why the program did not end well; empty if it did.
    """

    program: str
    calls: tuple[Call, ...] = ()
    problem: str = ""


@dataclass
class Runner:
    """Runs programs over the tools that may be called.

    Args:
        tools: all that may ever be called, metered (:func:`atc.probing.call_policy.metered`).
        approve: decides over each call that is not a read.
        emit: called with an event for every call.
    """

    tools: Toolset
    sandbox: Sandbox
    settings: Settings
    approve: Approve
    emit: Emit
    policy: CallPolicy = field(init=False)

    def __post_init__(self) -> None:
        timeout = self.settings.call_timeout_s + PATIENCE_S + 1  # the call policy keeps a call's own time
        self.policy = CallPolicy(max_calls=MAX_CALLS, call_timeout_s=timeout, replay=False)

    async def run(self, program: str, names: Iterable[str]) -> Trial:
        """Run a program that is granted these tools and no others.

        Raises:
            SandboxUnavailable: there is no jail to run it in.
        """
        granted = self.tools.only(*(name for name in dict.fromkeys(names) if name in self.tools))
        broker = Broker(granted, Journal(None), self.emit, self.policy, Approval(self.approve))
        job = Job(
            program, signatures(granted), limits_from(self.settings), clock=broker.clock, host_time=broker.host_time
        )
        outcome = await self.sandbox.run(job, broker.call)
        calls = tuple(sorted(broker.calls, key=lambda call: call.index))
        if outcome.kind == "finished":
            return Trial(program, calls)
        error = outcome.error
        problem = f"{wording.exception(error.raised)} (line {error.line})" if error else outcome.detail
        return Trial(program, calls, problem[:1_000])

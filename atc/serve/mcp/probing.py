"""Calls of one tool that a client's model makes itself; and ``probe``, which makes them until the response is known.

Each passes the broker as any other, and is approved as any other. A probe asks no model: arguments come from what the
tool documents of them, and what is learnt is a shape, as from any call. Tools that surely read are called as programs
may call them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from atc._host.redaction import Redactor
from atc._records.origins import CallOrigins, Origin
from atc.calls.approval import Approval, ApprovalRequest, Refusal, Verdicts
from atc.calls.attempt import AskedAbout, Attempt, Found
from atc.calls.broker import Broker
from atc.calls.contract import CallReply
from atc.catalogue.catalogue import Catalogue
from atc.errors import AtcError, UsageError
from atc.probing.call_policy import Budget, why_not
from atc.probing.reads import probe_reads, single_call
from atc.result import Effect
from atc.run.author import Past
from atc.run.origins import with_author
from atc.schemas.observed import is_documented, times_seen
from atc.schemas.protocol import Protocol
from atc.serve.mcp.asking import asker_of
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.requests import Answer, ToolRequest, answer
from atc.settings import Settings
from atc.tools.stub_budget import Fitter
from atc.tools.tool import Answered, Tool, Toolset, Transport, WrappingTransport
from atc.traces.stores.base import new_run_id
from atc.wording.prompting import prompt


def approval_of(request: ToolRequest, run_id: str) -> Approval:
    """The rule that holds for a client's programs, for one call: a write equal to an earlier one is asked about."""
    gateway, client = request.gateway, request.client
    guard = gateway.guards.guard(client.id, asker_of(request)).of_run(run_id)
    return replace(guard.approval(client.earlier_writes(run_id)), can_wait=False)


def approval_at_start(gateway: Gateway) -> Approval:
    """The rule for reads that no client asked for (``--probe-reads``): nothing else is made."""
    return gateway.guards.guard(ClientId("local"), _nobody).approval()


def _nobody(asked: ApprovalRequest) -> Refusal:
    return Refusal("nobody could be asked to approve this call")


class _OfModel:
    """Says of a call that a client's model makes itself that it wrote all of it, after whatever it has seen."""

    def __init__(self, past: Past) -> None:
        self._saw = tuple(sorted(past.saw))

    async def of(self, attempt: Attempt) -> Found:
        return Found(with_author(self.later(attempt.asked()), self._saw), self._saw)

    def later(self, asked: AskedAbout) -> CallOrigins:
        return dict.fromkeys(asked.sent, frozenset({Origin(kind="author")}))


async def client_call(
    tool: Tool,
    arguments: Mapping[str, Any],
    approval: Approval,
    redactor: Redactor,
    timeout_s: float,
    past: Past,
) -> CallReply:
    """Make one call of a client's model, as :func:`atc.probing.reads.single_call` does.

    Args:
        past: what the model has seen; of an untrusted tool it sees the answer, too.

    Raises:
        ToolImportError: the tool's schema is not a valid JSON Schema.
    """
    brokers: list[Broker] = []

    def begin(broker: Broker) -> None:
        broker.follow(lambda: _OfModel(past), lambda: bool(past.saw))
        brokers.append(broker)

    try:
        return await single_call(tool, arguments, approval, redactor, timeout_s, begin=begin)
    finally:
        for broker in brokers:
            past.saw |= broker.strangers()


# -- probing -----------------------------------------------------------------------------------------------------------

_LOG = logging.getLogger(__name__)
PROBE = "probe"
BUDGET = Budget(calls_a_tool=6, calls=6, response_bytes=5_000_000)
"""What one request may ask of a tool."""
LISTED_S = 60.0
"""Seconds that are waited until servers have listed their tools."""
LEARNT_S = 5.0
"""Seconds that are waited until what was answered is learnt."""
STUB = 12_000
"""Characters of the stub that is shown."""


@dataclass(frozen=True)
class Probed:
    """What came of it.

    Attributes:
        state: ``declared`` (its server documents the response: it was not called), ``observed``, ``nothing`` (no call
            was answered with something).
        reason: why nothing was learnt.
        calls: that reached the tool.
        answers: that its response type rests on, of this and earlier calls.
        stub: the tool as a typed function, as it is known now.
    """

    tool: str
    state: str
    reason: str = ""
    calls: int = 0
    answers: int = 0
    stub: str = ""


def probe_definition() -> types.Tool:
    """The tool as clients see it."""
    text = {"type": "string"}
    count = {"type": "integer"}
    output = {"tool": text, "state": text, "reason": text, "calls": count, "answers": count, "stub": text}
    return types.Tool(
        name=PROBE,
        description=prompt("mcp_probe", calls=BUDGET.calls_a_tool),
        input_schema={"type": "object", "properties": {"tool": text}, "required": ["tool"]},
        output_schema={"type": "object", "properties": output},
        annotations=types.ToolAnnotations(read_only_hint=False),
    )


async def probe(request: ToolRequest) -> Answer:
    """Probe the tool that a client names."""
    gateway, name = request.gateway, request.text("tool")
    if name not in gateway.visible(request.client):
        raise UsageError(f"no tool is named {name[:80]!r}: search_tools finds names")
    made = await probed(gateway.catalogue, gateway.settings, name, approval_of(request, new_run_id()))
    return answer(vars(made))


async def probed(
    catalogue: Catalogue, settings: Settings, name: str, approval: Approval, budget: Budget = BUDGET
) -> Probed:
    """Call a tool until its response is known, and keep the shape of what it answered.

    Args:
        catalogue: of the tools; it learns the shape.
        settings: for the jail and time limits.
        name: of the tool.
        approval: decides over each call that is not surely a read; of those too, where it asks about reads.
        budget: what the tool may be asked.

    Raises:
        UsageError: there is no such tool, it cannot be called, or the catalogue learns nothing.
        EnvironmentProblem: not the isolation that was asked for.
    """
    tool = catalogue.tools.get(name)
    if tool is None or tool.transport is None:
        raise UsageError(f"no tool that can be called is named {name[:80]!r}")
    if not settings.learns:
        raise UsageError("what a probe finds cannot be kept, for `learn` is off (ATC_LEARN)")
    if is_documented(tool.protocol.returns):
        return Probed(name, "declared", stub=_stub(tool.protocol))
    answers: list[Any] = []
    heard = replace(
        tool,
        protocol=tool.protocol.model_copy(update={"effect": Effect.UNKNOWN}),  # so that each call is decided over
        transport=_Heard(tool.transport, answers),
    )
    from atc.probing.prober import Prober  # only here: a start of the server needs no prober

    prober = Prober(
        Toolset([heard]),
        budget=budget,
        tries=0,
        rounds=1,
        allow_effects=(name,),
        approve=_asker(tool, approval),
        settings=settings,
    )
    line = (await prober.aprobe()).lines[0]
    learnt = [catalogue.observe(name, value, new=True) for value in answers]
    if any(each is not None for each in learnt):
        await asyncio.to_thread(catalogue.settle, LEARNT_S)
    shown = (await catalogue.current_graph()).protocols_with_shapes[name]
    seen = times_seen(shown.returns)
    state = "observed" if seen else "nothing"
    return Probed(name, state, "" if answers and seen else line.reason, line.calls, seen, _stub(shown))


async def beside(gateway: Gateway, serve: Callable[[], Awaitable[None]]) -> None:
    """Serve, and meanwhile :func:`probe_reads`; nobody waits for it, and it ends with the server."""

    async def probing() -> None:
        try:
            if gateway.live is not None:
                await gateway.live.settled(LISTED_S)
            await probe_reads(gateway.catalogue, gateway.settings, approval_at_start(gateway), gateway.redactor)
        except AtcError as error:
            _LOG.warning("--probe-reads: %s", error)

    await gateway.prepare()
    task = asyncio.create_task(probing())
    try:
        await serve()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _asker(tool: Tool, approval: Approval) -> Callable[[ApprovalRequest], Any]:
    """Decides over each call: a tool that surely reads is called as a program may call it."""
    surely_reads = not why_not(tool.protocol)

    async def decide(asked: ApprovalRequest) -> Verdicts:
        about = replace(asked, effect=tool.protocol.effect, protocol=tool.protocol)
        if surely_reads and not (approval.reads and callable(approval.approve)):
            return True
        verdict = approval.decide(about)
        if not callable(verdict):
            return verdict == "allowed" or Refusal("calls with effects are not approved here")
        answered = verdict(about)
        return await answered if inspect.isawaitable(answered) else answered

    return decide


@dataclass(frozen=True, eq=False)
class _Heard(WrappingTransport):
    """A transport that keeps the values of its answers for as long as the probing goes on."""

    inner: Transport
    answers: list[Any]

    @property
    def operation(self) -> Any:
        """Of an OpenAPI document: probing reads the service and its credentials' names off it."""
        return getattr(self.inner, "operation", None)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.inner.opened()

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        made = await self.inner(arguments)
        self.answers.append(made.value if isinstance(made, Answered) else made)
        return made


def _stub(protocol: Protocol) -> str:
    return Fitter([protocol], {}).within(STUB).text

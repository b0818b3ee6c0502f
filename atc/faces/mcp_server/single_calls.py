"""One call of a tool that belongs to no program: it passes the broker as any other, and is approved as any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from atc.calls.approval import Approval, ApprovalRequest, Refusal
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import Journal
from atc.calls.redact import Redactor
from atc.faces.mcp_server.asking import asker_of
from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.requests import ToolRequest
from atc.tools.tool import Tool, Toolset

MAX_BYTES = 5_000_000
"""Bytes of one answer."""


Approves = Callable[[ToolRequest, str], Approval]
"""The rule for a call of a client, which is a run of its own: given the request and the run's id."""


def approval_of(request: ToolRequest, run_id: str) -> Approval:
    """The rule that holds for a client's programs, for one call: a write equal to an earlier one is asked about."""
    gateway, client = request.gateway, request.client
    return gateway.guards.guard(client.id, asker_of(request)).of_run(run_id).approval(client.earlier_writes(run_id))


def approval_at_start(gateway: Gateway) -> Approval:
    """The rule for reads that no client asked for (``--probe-reads``): nothing else is made."""
    return gateway.guards.guard(ClientId("local"), _nobody).approval()


def _nobody(asked: ApprovalRequest) -> Refusal:
    return Refusal("nobody could be asked to approve this call")


def visible_tools(gateway: Gateway, client: Client) -> Toolset:
    """The tools that a client may know of."""
    return gateway.visible(client)


async def single_call(
    tool: Tool, arguments: Mapping[str, Any], approval: Approval, redactor: Redactor, timeout_s: float
) -> CallReply:
    """Make one call. Whatever goes wrong with it is the reply's error.

    Args:
        tool: what its transport needs is held by the caller, or made for this call.
        arguments: JSON values by parameter; they are checked, and not repaired.
        approval: decides over it.
        redactor: masks the credentials that are known.
        timeout_s: seconds that it may take.

    Raises:
        ToolImportError: the tool's schema is not a valid JSON Schema.
    """
    journal = Journal(None)
    policy = CallPolicy(max_calls=1, call_timeout_s=timeout_s, response_bytes=MAX_BYTES, repairs=0)
    broker = Broker(Toolset([tool]), journal, _unheard, policy, approval, redactor, rules=frozenset())
    broker.begin_program()
    try:
        return await broker.call(CallRequest(1, tool.name, dict(arguments), 0))
    finally:
        journal.close()


def _unheard(kind: str, data: Any) -> None:
    """Nobody listens to the events of a call that belongs to no program."""

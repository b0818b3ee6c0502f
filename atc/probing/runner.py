"""Runs probing's programs in the jail, with a broker of their own, and returns their calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from atc import wording
from atc.calls.approval import Approval, Approve
from atc.calls.broker import Broker, CallPolicy
from atc.calls.journal import Journal
from atc.probing.call_policy import PATIENCE_S
from atc.result import Call
from atc.sandboxes.contract import Job, Sandbox
from atc.sandboxes.drivers import limits_from
from atc.settings import Settings
from atc.tools.parameters import signatures
from atc.tools.tool import Toolset
from atc.traces.events import Emit

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

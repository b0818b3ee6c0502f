"""Run a program in the real sandbox, and look for what it leaves behind."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.errors import SandboxUnavailable
from atc.sandboxes.conformance import kit
from atc.sandboxes.conformance.suite import OneTierSandbox
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.sandboxes.process.driver import ProcessSandbox
from tests.support.tiers import without

_PR_SET_CHILD_SUBREAPER = 36

Answer = Callable[[dict[str, Any]], Any]


def answering(tools: Mapping[str, Answer]) -> CallHandler:
    """Answer calls by functions of their arguments; a ``CallReply`` goes out as it is."""

    async def call(request: CallRequest) -> CallReply:
        value = tools[request.tool](request.arguments)
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, CallReply) else CallReply(value=value)

    return call


def in_sandbox(
    program: str,
    tools: Mapping[str, Answer] | None = None,
    parameters: Mapping[str, Sequence[str]] | None = None,
    **limits: Any,
) -> Outcome:
    """Run a program. A tool is a function of its arguments; a ``CallReply`` that it returns goes out as it is."""
    tools = tools or {}

    async def go() -> Outcome:
        made = Limits(**{"wall_s": 60.0, **limits})
        async with ProcessSandbox(made) as sandbox:
            return await sandbox.run(
                Job(program, {name: (parameters or {}).get(name, ()) for name in tools}, made), answering(tools)
            )

    return asyncio.run(go())


def forced(tier: str, limits: Limits | None = None) -> Sandbox:
    """A sandbox of just this tier; the test is skipped where this kernel lacks what it needs."""
    sandbox = OneTierSandbox(tier, limits or Limits(wall_s=60.0))

    async def try_it() -> None:
        try:
            await sandbox.isolation()
        except SandboxUnavailable as why:
            await sandbox.aclose()
            without(tier, why)

    asyncio.run(try_it())
    return sandbox


def run_once(sandbox: Sandbox, program: str) -> Outcome:
    """Run a program that calls no tool, and close the sandbox."""

    async def no_tools(request: CallRequest) -> CallReply:
        raise AssertionError("no program of this test calls a tool")

    async def go() -> Outcome:
        async with sandbox:
            return await sandbox.run(Job(program, {}), no_tools)

    return asyncio.run(go())


def adopt_orphans() -> None:
    """Be the parent of what a host of a test leaves behind when it dies: so it can be found."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl CHILD_SUBREAPER")


def left_behind() -> set[int]:
    """The sandbox processes that live below this process: parents of programs, and programs."""
    return set(kit.sandbox_processes())

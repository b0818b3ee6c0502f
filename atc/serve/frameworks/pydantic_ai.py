"""An agent as a tool of pydantic-ai (version ≥ 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from atc._records.packing import pack
from atc.agent import Agent
from atc.calls.approval import ApprovalRequest
from atc.errors import AtcError, EnvironmentProblem, UsageError
from atc.result import Result
from atc.serve.frameworks.delegate import NAME, Delegate, NotRun, Waiting, key_of, text_of, told_value

if TYPE_CHECKING:
    from pydantic_ai import Tool

_MOST_WAITING = 1_000


def to_pydantic_ai(
    agent: Agent,
    *,
    name: str = NAME,
    description: str | None = None,
    approval: Literal["agent", "deferred"] = "agent",
) -> Tool[Any]:
    """Make a pydantic-ai tool of an agent: its one argument is a whole task, in words.

    It returns the run's value as JSON values, with the :class:`atc.Result` as metadata of the return part. A task
    without an answer is a failed tool call that says why, and which calls with effects are done.

    Args:
        agent: stays yours to close.
        name: of the tool.
        description: what it is good for, for the calling model; by default what it does and the names of its tools.
        approval: who approves calls with effects. ``"agent"``: as the agent does. ``"deferred"``: pydantic-ai, whose
            run ends with ``DeferredToolRequests``; the metadata of the request list the calls, each with tool,
            arguments, effect and warnings. Once it is approved, the same run goes on and makes these calls and no
            others; what it comes to after them is asked about anew. The agent must keep its runs.

    Raises:
        EnvironmentProblem: ``pydantic-ai-slim`` is not installed.
        UsageError: the name cannot be a tool's; or ``approval`` is something else, or the agent keeps no runs for it.
    """
    try:
        from pydantic_ai import RunContext, Tool, ToolReturn
    except ImportError:
        problem = "the package pydantic-ai-slim is not installed"
        raise EnvironmentProblem(problem, fix="pip install pydantic-ai-slim") from None
    if approval not in ("agent", "deferred"):
        raise UsageError(f"approval takes 'agent' or 'deferred', not {approval!r}")
    if approval == "deferred" and not agent.settings.keep_runs:
        raise UsageError("approval='deferred' goes on with the run that waited: the agent must keep runs (keep_runs)")
    delegate = Delegate(agent, name, description)
    deferring = _Deferring(delegate) if approval == "deferred" else None

    async def solve(ctx: RunContext[Any], task: str) -> Any:
        try:
            if deferring is None:
                result = await delegate.solve(task)
            else:
                # Ids of calls are a provider's: two conversations may have the same.
                place = getattr(ctx, "conversation_id", None) or "", ctx.tool_call_id or ""
                result = await deferring.solve(task, place, approved=ctx.tool_call_approved)
        except NotRun as error:
            raise _failed(str(error)) from error
        if result.status != "answered":
            raise _failed(delegate.failure(result))
        return ToolReturn(text_of(result) if result.partial else told_value(result), metadata=result)

    # Its hints stand in this function alone, where pydantic-ai does not find them by name.
    task_hint = Annotated[str, Field(description=delegate.about_task)]
    solve.__annotations__ = {"ctx": RunContext[Any], "task": task_hint, "return": Any}
    return Tool(solve, name=delegate.name, description=delegate.description, takes_ctx=True)


def _failed(message: str) -> Exception:
    """A failed call. Versions that cannot say that it has failed for good are told to try otherwise."""
    from pydantic_ai import exceptions

    kind: type[Exception] = getattr(exceptions, "ToolFailed", exceptions.ModelRetry)
    return kind(message)


@dataclass(frozen=True)
class _Suspended:
    """A run that waits, its task, and the calls that it waits for."""

    run_id: str
    task: str
    asked: frozenset[str]


class _Deferring:
    """Has calls with effects approved by pydantic-ai: a run that comes to one ends, and goes on once it is approved."""

    def __init__(self, delegate: Delegate) -> None:
        self._delegate = delegate
        self._waiting: dict[tuple[str, str], _Suspended] = {}

    async def solve(self, task: str, place: tuple[str, str], *, approved: bool) -> Result[Any]:
        """Run a task, or go on with it. ``place``: the conversation and the call.

        Raises:
            ApprovalRequired: it waits for calls to be approved.
            NotRun: nothing was run.
        """
        from pydantic_ai.exceptions import ApprovalRequired

        before = self._waiting.pop(place, None)
        shared = before is not None and not approved  # a second call by this name: which one is approved is not known
        if not approved or (before is not None and before.task != task):
            before = None  # another task than the one that was asked about
        waiting = Waiting(before.asked if before is not None else frozenset())
        agent = self._delegate.asking(waiting.ask)
        try:
            result = await (agent.arun(task) if before is None else agent.aresume(before.run_id))
        except AtcError as error:
            raise NotRun(str(error)) from error
        if result.status == "answered" or not waiting.requests:
            return result
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
        if not shared:
            self._waiting[place] = _Suspended(result.run_id, task, frozenset(map(key_of, waiting.requests)))
        calls = [_described(request) for request in waiting.requests]
        raise ApprovalRequired({"run_id": result.run_id, "calls": calls})


def _described(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "tool": request.tool,
        "arguments": pack(request.arguments),
        "effect": request.effect.value,
        "warnings": list(request.warnings),
        "instead_of": list(request.instead_of),
        "repeats": request.repeats,
        "same_as": 0 if request.same_as is None else request.same_as.number,
    }

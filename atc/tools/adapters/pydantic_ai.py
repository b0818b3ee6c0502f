"""Tools of pydantic-ai: its toolsets (of functions, combined, prefixed, of MCP servers …) and tools (version ≥ 1).

A toolset is entered for the length of a run, as an agent of pydantic-ai does, and each call gets a ``RunContext`` with
the dependencies that were given.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from atc._host.blocking import wait_for
from atc.errors import ToolError, ToolImportError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema
from atc.tools.adapters.offered import (
    Candidate,
    Described,
    ObjectTransport,
    effect_by_hints,
    hinted_schema,
    hints_of,
    module_of,
    need,
    stated_schema,
    toolset_of,
    untrusted_by_hints,
)
from atc.tools.functions import EffectName, described, failure_of
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

KIND = "pydantic-ai"
_REFUSED = {
    "external": "its result is made outside of the process that calls it",
    "output": "it ends an agent of pydantic-ai: a program sets `answer`",
}
_BINARY = ("BinaryContent", "BinaryImage")
_START_S = 60.0


def import_pydantic_ai(
    tools: Any,
    *,
    only: list[str] | None = None,
    effects: Mapping[str, EffectName | Effect] | None = None,
    deps: Any = None,
) -> Toolset:
    """Make a tool of each tool of a pydantic-ai toolset.

    A tool's effect is unknown, and counts as a write, unless ``effects`` says otherwise or an MCP server's hints stand
    in its metadata. A tool that asks for approval is a write: the approval of ``atc.Agent`` stands in its place.

    Args:
        tools: a toolset, a ``pydantic_ai.Tool``, or an iterable of these.
        only: keep the tools that one of these shell patterns names, by tool name or by pydantic-ai's name.
        effects: for such patterns, ``"read"`` if a call changes nothing, ``"write"`` if it does.
        deps: what ``RunContext.deps`` is in every call. Neither the context nor its dependencies reach a program.

    Raises:
        EnvironmentProblem: ``pydantic-ai-slim`` is not installed.
        ToolImportError: some of the tools cannot be used, with the reason for each; there are none; or the toolset
            cannot be entered.
        UsageError: a pattern of ``only`` or ``effects`` fits no tool.
    """
    try:
        from pydantic_ai.toolsets import AbstractToolset  # noqa: F401
    except ImportError:
        raise need("pydantic-ai-slim", "pydantic-ai-slim") from None
    held = _Held(_joined(tools), deps)
    try:
        listed = wait_for(held.listed())
    except TimeoutError:
        raise ToolImportError(f"the pydantic-ai toolset is not ready after {_START_S:g} s") from None
    except Exception as error:  # a toolset is code of the user's
        raise ToolImportError(f"the pydantic-ai toolset cannot list its tools: {_words(error)}") from error
    candidates = [
        Candidate(name, lambda name=name, tool=tool: _described(name, tool, held))  # type: ignore[misc]
        for name, tool in listed.items()
    ]
    return toolset_of(KIND, candidates, only=only, effects=effects)


def _joined(tools: Any) -> AbstractToolset[Any]:
    from pydantic_ai import Tool
    from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset

    if isinstance(tools, AbstractToolset):
        return tools
    items = [*tools] if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping) else [tools]
    for item in items:
        if not isinstance(item, AbstractToolset | Tool):
            name = getattr(item, "__name__", None) or type(item).__name__
            how = "give functions to Toolset.from_functions" if callable(item) else "give toolsets, or tools"
            raise ToolImportError(f"{name!r} is neither a toolset nor a tool of pydantic-ai: {how}")
    toolsets = [item for item in items if isinstance(item, AbstractToolset)]
    if single := [item for item in items if isinstance(item, Tool)]:
        toolsets.append(FunctionToolset(single))
    return toolsets[0] if len(toolsets) == 1 else CombinedToolset(toolsets)


def _described(name: str, tool: ToolsetTool[Any], held: _Held) -> Described:
    definition = tool.tool_def
    if reason := _REFUSED.get(definition.kind):
        raise ToolImportError(reason)
    code = _code(tool)
    unapproved = definition.kind == "unapproved"
    effect = Effect.WRITE if unapproved else effect_by_hints(definition.metadata)

    async def call(arguments: dict[str, Any], reads: bool) -> Any:
        async with held:
            return await held.call(name, arguments, code, approved=not reads)  # whoever approves calls did so

    return Described(
        description=definition.description or "",
        parameters=definition.parameters_json_schema,
        returns=_returns(name, code, definition.return_schema),
        effect=effect,
        untrusted=untrusted_by_hints(definition.metadata),
        location=module_of(code if code is not None else tool.toolset),
        transport=ObjectTransport(call=call, code=code, held=held, approved_by_caller=unapproved),
    )


def _returns(name: str, code: Callable[..., Any] | None, stated: Any) -> JsonSchema | None:
    hint = hints_of(code).get("return")
    kind = getattr(hint, "__name__", "")
    if kind in _BINARY:
        return {"type": "string", "format": "binary"}
    hinted = None if kind == "ToolReturn" or "ToolReturn[" in str(hint) else hinted_schema(hint, name)
    return hinted or stated_schema(name, stated)


def _code(tool: Any) -> Callable[..., Any] | None:
    tool = getattr(tool, "source_tool", tool)
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    function = getattr(schema, "function", None)
    return function if callable(function) else None


class _Entered:
    """A toolset that a task of its own holds entered: contexts must be left by the task that entered them."""

    def __init__(self, toolset: AbstractToolset[Any], context: RunContext[Any]) -> None:
        self.context = context
        self._toolset = toolset
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[tuple[AbstractToolset[Any], dict[str, ToolsetTool[Any]]]]
        self._closing = asyncio.Event()

    async def ready(self) -> tuple[AbstractToolset[Any], dict[str, ToolsetTool[Any]]]:
        """The toolset of this run, and its tools by their names."""
        if self._task is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold())
        async with asyncio.timeout(_START_S):
            return await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """Leave the toolset."""
        self._closing.set()
        if self._task is not None:
            if not self._ready.done():
                self._task.cancel()
            await asyncio.wait([self._task])
            if not self._ready.cancelled():
                self._ready.exception()  # whoever waited has it

    async def _hold(self) -> None:
        try:
            own = await self._toolset.for_run(self.context)
            async with own:
                own = await own.for_run_step(self.context)
                self._ready.set_result((own, await own.get_tools(self.context)))
                await self._closing.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except Exception as error:  # the toolset's code: told to whoever waits, of its end to nobody
            if not self._ready.done():
                self._ready.set_exception(error)


class _Held(HeldPerLoop[_Entered]):
    """A toolset, entered once in each event loop that uses it."""

    def __init__(self, toolset: AbstractToolset[Any], deps: Any) -> None:
        super().__init__()
        self._toolset, self._deps = toolset, deps

    def _make(self) -> _Entered:
        from pydantic_ai import RunContext
        from pydantic_ai.models.test import TestModel
        from pydantic_ai.usage import RunUsage

        # A context needs a model: this one is asked by nobody.
        context = RunContext(deps=self._deps, model=TestModel(), usage=RunUsage(), max_retries=1)
        return _Entered(self._toolset, context)

    async def _close(self, resource: _Entered) -> None:
        await resource.aclose()

    async def listed(self) -> dict[str, ToolsetTool[Any]]:
        """The tools by their names, read in a visit of its own."""
        async with self:
            return (await self._entered().ready())[1]

    def _entered(self) -> _Entered:
        entered = self._current()
        assert entered is not None
        return entered

    async def call(
        self, name: str, arguments: dict[str, Any], code: Callable[..., Any] | None, *, approved: bool
    ) -> Any:
        """Make one call, as an agent of pydantic-ai does: arguments are validated first.

        Raises:
            ToolError: the arguments are refused, the tool is not there, or its code raised an exception.
        """
        entered = self._entered()
        try:
            toolset, tools = await entered.ready()
        except Exception as error:  # the toolset's own, and a TimeoutError
            message = f"its toolset cannot be entered: {_words(error)}"
            raise ToolError(message, status="unavailable", cause="unreachable", raised=error) from error
        tool = tools.get(name)
        if tool is None:
            raise ToolError(f"its toolset does not list {name!r} any more", status="gone", cause="unreachable")
        context = replace(
            entered.context, tool_name=name, tool_call_id=f"call_{id(arguments):x}", tool_call_approved=approved
        )
        given = await _validated(tool, arguments, context)
        try:
            with _abandoning_threads():
                return _value(await toolset.call_tool(name, given, context, tool))
        except Exception as error:
            raise _failed(error, code) from error


async def _validated(tool: ToolsetTool[Any], arguments: dict[str, Any], context: RunContext[Any]) -> dict[str, Any]:
    try:
        given: dict[str, Any] = tool.args_validator.validate_python(arguments)
        check = getattr(tool, "args_validator_func", None)
        if check is not None and inspect.isawaitable(checked := check(context, **given)):
            await checked
    except ValidationError as error:
        raise ToolError(described(error), status="invalid_arguments") from None
    except Exception as error:  # a check of the user's
        failed = _failed(error, None)
        failed.outcome = "refused"
        raise failed from error
    return given


def _failed(error: Exception, code: Callable[..., Any] | None) -> ToolError:
    from pydantic_ai import exceptions

    if isinstance(error, ToolError):
        return error
    name = type(error).__name__
    if name in ("ModelRetry", "ToolFailed", "ToolRetryError"):
        return ToolError(str(getattr(error, "message", error)), status="error", outcome="unknown", raised=error)
    if isinstance(error, exceptions.ApprovalRequired):
        return ToolError(
            "it asks for approval, and counts as a read here: take it out of effects=", status="denied", cause="denied"
        )
    if isinstance(error, exceptions.CallDeferred):
        return ToolError("its result is made elsewhere, later: no program can wait for it", outcome="unknown")
    return failure_of(error, code)


def _value(answer: Any) -> Any:
    kind = type(answer).__name__
    if kind == "ToolReturn":
        answer = answer.return_value
        kind = type(answer).__name__
    if kind in _BINARY:
        return answer.data
    return answer


def _abandoning_threads() -> contextlib.AbstractContextManager[Any]:
    """A run's deadline must not wait for a function that hangs in a thread. Not every version has this."""
    from pydantic_ai import _utils

    make: Callable[[], contextlib.AbstractContextManager[Any]]
    make = getattr(_utils, "abandon_threads_on_cancel", contextlib.nullcontext)
    return make()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]

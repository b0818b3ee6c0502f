"""pydantic-ai: ``tools`` is its plain agent, ``code`` the same with pydantic-ai-harness's code mode, on monty."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pydantic_ai
from pydantic_ai import Agent, ModelRetry, RunContext, UsageLimits, capture_run_messages
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from benchmarks.peers.job import Job, Said, read_value
from benchmarks.peers.job import Tool as JobTool

_WRONG = ("failed", "retried")


def packages(mode: str) -> tuple[str, ...]:
    if mode != "code":
        return ("pydantic-ai-slim",)
    _code_mode()
    return ("pydantic-ai-slim", "pydantic-ai-harness", "pydantic-monty")


def _code_mode() -> Any:
    from pydantic_ai_harness import CodeMode  # the plain agent does without

    return CodeMode()


def solve(job: Job, said: Said) -> None:
    in_code = job.mode == "code"
    model = OpenAIChatModel(job.model, provider=OpenAIProvider(base_url=job.base_url, api_key="none"))
    agent = Agent(model, toolsets=[_toolset(job, in_code)], capabilities=[_code_mode()] if in_code else [])
    with capture_run_messages() as messages:
        try:
            result = agent.run_sync(job.task, usage_limits=UsageLimits(request_limit=job.steps))
            said.value = read_value(result.output)
        except pydantic_ai.UsageLimitExceeded as error:
            said.gave_up, said.error = True, f"UsageLimitExceeded: {error}"
        finally:
            _count(messages, said)


def _toolset(job: Job, in_code: bool) -> AbstractToolset[None]:
    """The tools by their schemas, those of the responses among them.

    Code mode writes these into the functions' signatures; the plain agent is told to show them.
    """
    returns = {tool.name: tool.returns for tool in job.tools}

    def described_tools(_: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        return [replace(tool, return_schema=returns[tool.name]) for tool in tools]

    made = [
        Tool.from_schema(_calling(tool, in_code), tool.name, tool.description, tool.parameters) for tool in job.tools
    ]
    toolset = FunctionToolset(made).prepared(described_tools)
    return toolset if in_code else toolset.include_return_schemas()


def _calling(tool: JobTool, in_code: bool) -> Callable[..., Any]:
    """Call the tool. An error is an exception in code; the plain agent gets what pydantic-ai makes of an MCP server's
    errors by default: the model is told, and may try again."""

    def call(**arguments: Any) -> Any:
        try:
            return tool.call(arguments)
        except RuntimeError as error:
            if in_code:
                raise
            raise ModelRetry(str(error)) from None

    return call


def _count(messages: list[ModelMessage], said: Said) -> None:
    for message in messages:
        said.steps += isinstance(message, ModelResponse)
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if calls:
            said.program = "\n".join(map(_written, calls))
        wrong = [part for part in message.parts if isinstance(part, ToolReturnPart) and part.outcome in _WRONG]
        said.crashes += bool(wrong)


def _written(call: ToolCallPart) -> str:
    try:
        arguments = call.args_as_dict()
    except ValueError:
        return str(call.args)
    code = arguments.get("code") if call.tool_name == "run_code" else None
    return code if isinstance(code, str) else json.dumps({"name": call.tool_name, "arguments": arguments}, default=str)

"""smolagents: ``code`` is its CodeAgent, ``tools`` its ToolCallingAgent, each with its own prompts and defaults."""

from __future__ import annotations

import json
from typing import Any

import smolagents
from smolagents.monitoring import LogLevel

from benchmarks.peers.job import Job, Said, described, read_value, types_of
from benchmarks.peers.job import Tool as JobTool

_NO_ANSWER = "Error in generating final LLM output"
"""What smolagents answers when the reply that should end a run of too many steps fails."""


def packages(mode: str) -> tuple[str, ...]:
    return ("smolagents",)


def solve(job: Job, said: Said) -> None:
    model = smolagents.OpenAIModel(job.model, api_base=job.base_url, api_key="none")
    # After its last step smolagents asks once more, for an answer in words: that is one of the replies it may have.
    options: dict[str, Any] = {"max_steps": max(1, job.steps - 1), "verbosity_level": LogLevel.OFF}
    kind = smolagents.CodeAgent if job.mode == "code" else smolagents.ToolCallingAgent
    agent = kind([_Tool(tool, job.mode == "code") for tool in job.tools], model, **options)
    try:
        result = agent.run(job.task, return_full_result=True)
    finally:
        steps = [step for step in agent.memory.steps if isinstance(step, smolagents.ActionStep)]
        said.steps = sum(step.model_output_message is not None for step in steps)
        said.crashes = sum(step.error is not None and step.model_output_message is not None for step in steps)
        said.program = next(filter(None, map(_written, reversed(steps))), "")
    said.gave_up = result.state == "max_steps_error"
    said.value = result.output
    if said.gave_up:
        said.steps += 1
        said.value = _text(result.output)
        if not said.value or said.value.startswith(_NO_ANSWER):
            said.value, said.error = None, said.value or "its last reply says nothing"
    if isinstance(said.value, str) and (said.gave_up or job.mode == "tools"):
        said.value = read_value(said.value)


def _written(step: smolagents.ActionStep) -> str:
    if step.code_action:
        return str(step.code_action)
    calls = (step.model_output_message and step.model_output_message.tool_calls) or ()
    made = [{"name": call.function.name, "arguments": call.function.arguments} for call in calls]
    return json.dumps(made, default=str) if made else str(step.model_output or "")


def _text(content: Any) -> str:
    """Of a message: it is text, a list of parts or nothing."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


class _Tool(smolagents.Tool):  # type: ignore[misc]
    """A tool as smolagents' own importer of MCP tools makes them: by the schema, without a written signature.

    A schema of a response goes to ``output_schema`` where smolagents shows it rightly: of an object, to a code agent,
    which it tells that such a tool returns a dictionary. Otherwise it is part of the description.
    """

    name, description, output_type = "", "", "any"  # set for each; smolagents asks for them here, too
    inputs: dict[str, Any] = {}  # noqa: RUF012
    skip_forward_signature_validation = True

    def __init__(self, tool: JobTool, in_code: bool) -> None:
        self._function = tool.function()
        self.name, self.description = tool.name, tool.description or tool.name
        self.inputs = {name: _input(tool, name, in_code) for name in tool.properties}
        self.output_type = _type(tool.returned or {}, single=True)
        if in_code and self.output_type == "object":
            self.output_schema = tool.returned
        elif tool.returned:
            self.description += f"\n\nReturns: {json.dumps(tool.returned, ensure_ascii=False)}"
        super().__init__()

    def forward(self, *positional: Any, **named: Any) -> Any:
        return self._function(*positional, **named)


def _input(tool: JobTool, name: str, in_code: bool) -> dict[str, Any]:
    """A parameter in smolagents' form. To a code agent it shows type and description alone, so these tell the rest."""
    schema, required = tool.properties[name], name in tool.required
    rest = {key: part for key, part in schema.items() if key not in ("anyOf", "oneOf", "allOf")}
    description = described(schema) if in_code or len(rest) < len(schema) else str(schema.get("description") or "")
    if in_code and not required:
        description = f"{description} (optional)".strip()
    made = ({} if in_code else rest) | {"type": _type(schema), "description": description or name}
    return made if required and "null" not in types_of(schema) else made | {"nullable": True}


def _type(schema: dict[str, Any], single: bool = False) -> Any:
    kinds = [kind for kind in types_of(schema) if kind != "null"]  # that is `nullable` here
    if "number" in kinds and "integer" not in kinds and len(kinds) > 1:
        kinds.append("integer")  # among several types smolagents takes no whole number for a number
    if not kinds or (single and len(kinds) > 1):
        return "any"
    return kinds[0] if len(kinds) == 1 else kinds

"""Tools of smolagents: what its ``@tool`` and subclasses of ``Tool`` make, and collections of them (version ≥ 1.20)."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema
from atc.tools.adapters.offered import (
    Candidate,
    Described,
    ObjectTransport,
    hinted_schema,
    hints_of,
    module_of,
    need,
    stated_schema,
    toolset_of,
)
from atc.tools.functions import EffectName
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from smolagents import Tool

KIND = "smolagents"
_MEDIA = ("image", "audio")
_OF_THE_AGENT = {
    "final_answer": "it ends the agent of smolagents: a program sets `answer`",
    "user_input": "it reads the terminal: use ask_user of atc.Agent",
}


def import_smolagents(
    tools: Any,
    *,
    only: list[str] | None = None,
    effects: Mapping[str, EffectName | Effect] | None = None,
) -> Toolset:
    """Make a tool of each smolagents tool.

    A tool's effect is unknown, and counts as a write, unless ``effects`` says otherwise.

    Args:
        tools: a ``Tool``, a ``ToolCollection``, or an iterable of these.
        only: keep the tools that one of these shell patterns names.
        effects: for such patterns, ``"read"`` if a call changes nothing, ``"write"`` if it does.

    Raises:
        EnvironmentProblem: ``smolagents`` is not installed.
        ToolImportError: some of the tools cannot be used, with the reason for each; or there are none.
        UsageError: a pattern of ``only`` or ``effects`` fits no tool.
    """
    try:
        from smolagents import Tool
    except ImportError:
        raise need("smolagents", "smolagents") from None
    candidates = [
        Candidate(_name(tool), lambda tool=tool: _described(tool, Tool))  # type: ignore[misc]
        for tool in _flat(tools, Tool)
    ]
    return toolset_of(KIND, candidates, only=only, effects=effects)


def _flat(tools: Any, base: type) -> Iterator[Any]:
    if not isinstance(tools, base) and isinstance(held := getattr(tools, "tools", None), list):
        tools = held
    if isinstance(tools, Mapping):
        tools = tools.values()  # an agent's `tools`, by name
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes):
        for each in tools:
            yield from _flat(each, base)
    else:
        yield tools  # refused by name, where it is no tool


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__)


def _described(tool: Any, base: Any) -> Described:
    if not isinstance(tool, base):
        how = "give functions to Toolset.from_functions" if callable(tool) else "give tools, or collections"
        raise ToolImportError(f"it is a {type(tool).__name__} and no smolagents tool: {how}")
    if (reason := _OF_THE_AGENT.get(tool.name)) and type(tool).__module__.startswith("smolagents."):
        raise ToolImportError(reason)
    if tool.output_type in _MEDIA:
        raise ToolImportError(f"it returns {tool.output_type}, which no program can hold")
    return Described(
        description=tool.description,
        parameters=_parameters(tool),
        returns=_returns(tool),
        effect=Effect.UNKNOWN,
        location=module_of(inspect.unwrap(tool.forward)),
        transport=ObjectTransport(call=_call(tool), in_thread=True, code=tool.forward),
    )


def _parameters(tool: Tool) -> JsonSchema:
    properties: JsonSchema = {}
    required = []
    for name, given in tool.inputs.items():
        optional = bool(given.get("nullable"))
        kinds = given["type"] if isinstance(given["type"], list) else [given["type"]]
        if media := [kind for kind in kinds if kind in _MEDIA]:
            if optional:
                continue
            raise ToolImportError(f"its input {name!r} is an {media[0]}, which no program can give")
        schema = {key: part for key, part in given.items() if key not in ("nullable", "type")}
        kinds = [] if "any" in kinds else [*kinds, *(["null"] if optional and "null" not in kinds else [])]
        if kinds:
            schema["type"] = kinds[0] if len(kinds) == 1 else kinds
        if optional and "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        properties[name] = schema
        if not optional:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _returns(tool: Tool) -> JsonSchema | None:
    if tool.output_schema:
        return stated_schema(tool.name, tool.output_schema)
    hinted = hinted_schema(hints_of(inspect.unwrap(tool.forward)).get("return"), tool.name)
    return hinted or (None if tool.output_type == "any" else {"type": tool.output_type})


def _call(tool: Tool) -> Callable[[dict[str, Any], bool], Any]:
    starting = threading.Lock()

    def call(arguments: dict[str, Any], _reads: bool) -> Any:
        with starting:  # `__call__` would set it up once for each of several first calls
            if not tool.is_initialized:
                tool.setup()
        return tool(**arguments)

    return call

"""Tools of LangChain: what its ``@tool``, ``StructuredTool``, toolkits and adapters make (``langchain-core`` ≥ 0.3)."""

from __future__ import annotations

import inspect
import json
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

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
    toolset_of,
    untrusted_by_hints,
)
from atc.tools.functions import EffectName, described, to_answer
from atc.tools.openapi.text import clean
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

KIND = "langchain"
_STRUCTURED = "structured_content"  # where MCP's adapter puts a tool's structured answer


def import_langchain(
    tools: Any,
    *,
    only: list[str] | None = None,
    effects: Mapping[str, EffectName | Effect] | None = None,
    injected: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Toolset:
    """Make a tool of each LangChain tool.

    A tool's effect is unknown, and counts as a write, unless ``effects`` says otherwise or an MCP adapter left the
    server's hints in its metadata. Arguments that LangChain injects are never offered to a program.

    Args:
        tools: a ``BaseTool``, a toolkit, or an iterable of these.
        only: keep the tools that one of these shell patterns names, by tool name or by LangChain's name.
        effects: for such patterns, ``"read"`` if a call changes nothing, ``"write"`` if it does.
        injected: values of injected arguments, by their names. The id of a call is made anew for each.
        config: the ``RunnableConfig`` of every call: callbacks, tags, ``configurable`` values.

    Raises:
        EnvironmentProblem: ``langchain-core`` is not installed.
        ToolImportError: some of the tools cannot be used, with the reason for each; or there are none.
        UsageError: a pattern of ``only`` or ``effects`` fits no tool.
    """
    try:
        from langchain_core.tools import BaseTool
    except ImportError:
        raise need("langchain-core", "langchain-core") from None
    given = dict(injected or {})
    candidates = [
        Candidate(_name(tool), lambda tool=tool: _described(tool, given, config))  # type: ignore[misc]
        for tool in _flat(tools, BaseTool)
    ]
    return toolset_of(KIND, candidates, only=only, effects=effects)


def _flat(tools: Any, base: type) -> Iterator[Any]:
    if isinstance(tools, base):
        yield tools
    elif callable(getattr(tools, "get_tools", None)):
        yield from tools.get_tools()
    elif isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping | BaseModel):
        for each in tools:
            yield from _flat(each, base)
    else:
        yield tools  # refused by name with the others


def _name(tool: Any) -> str:
    name = tool.get("name") or tool.get("type") if isinstance(tool, Mapping) else getattr(tool, "name", None)
    return str(name or getattr(tool, "__name__", None) or type(tool).__name__)


def _described(tool: Any, injected: Mapping[str, Any], config: Mapping[str, Any] | None) -> Described:
    from langchain_core.tools import BaseTool

    if isinstance(tool, Mapping):
        raise ToolImportError("it is a description for a provider and holds no code to call")
    if not isinstance(tool, BaseTool):
        how = "give functions to Toolset.from_functions" if callable(tool) else "give tools, or toolkits"
        raise ToolImportError(f"it is a {type(tool).__name__} and no LangChain tool: {how}")
    call = _Call(tool, injected, config)
    code = call.code
    return Described(
        description=tool.description,
        parameters=_parameters(tool),
        returns=_returns(tool, code),
        effect=effect_by_hints(tool.metadata),
        untrusted=untrusted_by_hints(tool.metadata),
        location=module_of(code if inspect.isroutine(code) else tool),
        transport=ObjectTransport(
            call=call.begin,
            in_thread=call.blocks,
            code=code,
            check=call.check,
            explain=lambda error: _explained(error, tool),
        ),
    )


def _parameters(tool: BaseTool) -> JsonSchema:
    from langchain_core.tools import Tool

    if isinstance(tool, Tool) and tool.args_schema is None:  # one text, under any name
        return {"type": "object", "properties": {"tool_input": {"type": "string"}}, "required": ["tool_input"]}
    try:
        schema: Any = tool.tool_call_schema
        if not isinstance(schema, dict):
            schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    except Exception as error:  # a schema may hold types of the user's
        reason = str(error).partition("\n")[0][:300]
        raise ToolImportError(f"its arguments cannot be put into a JSON Schema ({reason})") from None
    kept = {name: part for name, part in schema.items() if name not in ("title", "description")}
    hidden = set(_injected(tool))
    properties = {name: part for name, part in kept.get("properties", {}).items() if name not in hidden}
    required = [name for name in kept.get("required", ()) if name not in hidden]
    return {"type": "object", **kept, "properties": properties, "required": required}


def _injected(tool: BaseTool) -> dict[str, tuple[bool, bool]]:
    """By name: whether each must be given, and whether it is the call's id. They are marked in the schema's class, or
    in the signature of the code where the schema leaves them out."""
    from langchain_core.tools.base import InjectedToolArg, InjectedToolCallId, _is_injected_arg_type

    found: dict[str, tuple[bool, bool]] = {}
    fields = getattr(tool.args_schema, "model_fields", None) or {}
    for name, field in fields.items():
        marks = [*field.metadata, field.annotation]
        own = [each for each in marks if _is_a(each, InjectedToolArg) or _is_injected_arg_type(each)]
        if own:
            found[name] = (field.is_required(), any(_is_a(each, InjectedToolCallId) for each in own))
    code = _code(tool)
    hints = hints_of(code)
    for name, parameter in _signature(code).items():
        hint = hints.get(name, parameter.annotation)
        if name not in found and _is_injected_arg_type(hint):
            needed = parameter.default is inspect.Parameter.empty
            found[name] = (needed, _is_injected_arg_type(hint, InjectedToolCallId))
    return found


def _is_a(mark: object, kind: type) -> bool:
    return isinstance(mark, kind) or (isinstance(mark, type) and issubclass(mark, kind))


def _code(tool: BaseTool) -> Callable[..., Any]:
    return cast(Callable[..., Any], getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)._run)


def _signature(code: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(code).parameters
    except (ValueError, TypeError):
        return {}


def _returns(tool: BaseTool, code: Callable[..., Any]) -> JsonSchema | None:
    """Of a pair of content and artifact, that of the artifact. Raises ToolImportError for a command to a graph."""
    hint = hints_of(code).get("return", Any)
    if getattr(hint, "__name__", "") == "Command":
        raise ToolImportError("it returns a Command to its own graph, which a program has not")
    if tool.response_format != "content_and_artifact":
        return None if _is_message(hint) else hinted_schema(hint, tool.name)
    parts = typing.get_args(hint)
    return hinted_schema(parts[1], tool.name) if len(parts) == 2 else None


def _is_message(hint: Any) -> bool:
    return any(base.__name__ in ("BaseMessage", "ToolMessage") for base in getattr(hint, "__mro__", ()))


class _Call:
    """Calls of one tool.

    Raises:
        ToolImportError: an injected argument must be given and is not.
    """

    def __init__(self, tool: BaseTool, injected: Mapping[str, Any], config: Mapping[str, Any] | None) -> None:
        self.tool, self.config, self.code = tool, config, _code(tool)
        wanted = _injected(tool)
        missing = [name for name, (needed, is_id) in wanted.items() if needed and not is_id and name not in injected]
        if missing:
            raise ToolImportError(
                f"LangChain injects its argument {', '.join(map(repr, missing))}, which no program may give: "
                f"give it by injected={{{missing[0]!r}: …}}"
            )
        self.hidden = frozenset(wanted)
        self.injected = {name: injected[name] for name in wanted if name in injected}
        # As a whole call the answer is a message, which tells failures and artifacts; else it is the bare value.
        self.as_message = bool(
            tool.response_format == "content_and_artifact"
            or tool.handle_tool_error
            or tool.handle_validation_error
            or any(is_id for _, is_id in wanted.values())
        )
        self.blocks = not _is_asynchronous(tool)
        self.text_alone = hints_of(self.code).get("return", None) is str

    def check(self, arguments: dict[str, Any]) -> None:
        """Refuse what a program may not give.

        Raises:
            ToolError: an argument is one that is injected.
        """
        if taken := sorted(self.hidden & arguments.keys()):
            raise ToolError(f"{taken[0]} is no argument of this tool: leave it out", status="invalid_arguments")

    def begin(self, arguments: dict[str, Any], _reads: bool) -> Any:
        """The value, or an awaitable of it."""
        given: dict[str, Any] = {**arguments, **self.injected}
        if self.as_message:
            given = {"name": self.tool.name, "args": given, "id": f"call_{uuid.uuid4().hex}", "type": "tool_call"}
        config = cast(Any, dict(self.config) if self.config is not None else None)
        if self.blocks:
            return self._value(self.tool.invoke(given, config))
        return self._awaited(given, config)

    async def _awaited(self, given: dict[str, Any], config: Any) -> Any:
        return self._value(await self.tool.ainvoke(given, config))

    def _value(self, answer: Any) -> Any:
        kind = type(answer).__name__
        if kind == "Command":
            raise ToolError(
                "it returned a Command to its own graph, which a program has not",
                status="bad_response",
                outcome="unknown",
                cause="bad_response",
            )
        if kind not in ("ToolMessage", "ToolMessageChunk"):
            return answer
        if answer.status == "error":
            message = _text(answer.content)
            raise ToolError(f"{_label(self.tool)} failed: {message}", status="error", outcome="unknown")
        artifact = answer.artifact
        if isinstance(artifact, Mapping) and set(artifact) == {_STRUCTURED}:
            artifact = artifact[_STRUCTURED]
        if artifact is not None:
            try:
                return to_answer(artifact)
            except ToolError:
                pass  # an object of the framework's: the content tells of it
        return self._content(answer.content)

    def _content(self, content: Any) -> Any:
        if isinstance(content, str):
            return content if self.text_alone else _read(content)
        values = [_read(block["text"]) if _is_text(block) else block for block in content]
        return values[0] if len(values) == 1 else values or None


def _is_asynchronous(tool: BaseTool) -> bool:
    from langchain_core.tools import BaseTool, StructuredTool, Tool

    if hasattr(tool, "coroutine") and isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None
    return type(tool)._arun not in (BaseTool._arun, StructuredTool._arun, Tool._arun)


def _label(tool: BaseTool) -> str:
    """Its name for messages: an MCP server may call its tools what it likes."""
    return clean(tool.name, 100).replace("\n", " ")


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("text"), str)


def _read(text: str) -> Any:
    """A text that is a JSON object or list as that; LangChain writes them so into its messages."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) if _is_text(block) else str(block)[:200] for block in content)


def _explained(error: BaseException, tool: BaseTool) -> ToolError | None:
    from langchain_core.tools import ToolException

    if isinstance(error, ToolException):
        return ToolError(f"{_label(tool)} failed: {error}", status="error", outcome="unknown", raised=error)
    schema = tool.args_schema
    if isinstance(error, ValidationError) and error.title == getattr(schema, "__name__", None):
        return ToolError(described(error), status="invalid_arguments")  # before its code ran
    return None

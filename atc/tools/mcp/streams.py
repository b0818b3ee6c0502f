"""What passes between the SDK and a transport, changed on the way: what comes of tools, traces that go.

The SDK holds a whole page of a list to the protocol, so that one tool with a wrong schema would cost all tools of its
server. So the answers to ``tools/list`` are looked at before the SDK does: what is wrong with one tool costs that tool
alone. A result that has structured content and leaves ``content`` out, as servers do, is taken for one without blocks.

The SDK writes the current trace of whoever calls into ``_meta`` of each request (SEP-414), with its baggage. A server
gets that only where telemetry is on, and the baggage only where it was asked for (:mod:`atc._host.trace_context`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from opentelemetry import propagate  # comes with the SDK
from pydantic import ValidationError

from atc._host.invisible import visible
from atc._host.trace_context import carried
from atc.errors import ToolImportError
from atc.tools.mcp.exchange import EXCHANGE

MAX_TOOLS = 5_000
"""Tools of one server."""

MAX_NOTES = 20
"""Lines that are kept about the tools of one list."""
_MAX_ASKED = 100


@dataclass
class Looked:
    """What is known of the lists of one conversation beside what the SDK takes.

    Attributes:
        notes: a line for each tool that cannot be used, or not wholly.
        answers: of the last page, the schemas of responses that are no objects, by the names of their tools: older
            versions of the protocol do not allow them, and we can read them.
        aside: the SDK gets pages without their tools: it would copy each twice, in the event loop. By newer versions it
            needs them, for arguments that go into headers.
        tools: those of the last page that it did not get.
    """

    notes: list[str] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    aside: bool = False
    tools: list[types.Tool] = field(default_factory=list)

    def note(self, line: str) -> None:
        """Keep a line, while there are not too many."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(line)


def usable(listed: list[Any], looked: Looked) -> list[Any]:
    """The tools of a page that can be taken.

    Arguments are always an object, so a schema of arguments that names no type is one of an object; likewise of a
    response.
    """
    kept = []
    looked.answers.clear()
    looked.tools.clear()
    for number, tool in enumerate(listed[: MAX_TOOLS + 1], 1):  # with one more the list is refused
        name = tool.get("name") if isinstance(tool, dict) else None
        called = f"the tool {name[:80]!r}" if isinstance(name, str) else f"tool {number} of a page"
        try:
            made = _with_input(tool)
            if made.get("outputSchema") is not None and (problem := _not_of_object(made, "outputSchema")):
                answer = made.pop("outputSchema")
                if isinstance(name, str):
                    looked.answers[name] = answer if isinstance(answer, dict) else {}
                if not isinstance(answer, dict):
                    looked.note(f"nothing is known about what {called} answers: {problem}")
            looked.tools.append(types.Tool.model_validate(made, by_name=False))
            kept.append(made)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = visible(".".join(map(str, first["loc"]))[:100])
            looked.note(f"{called} is left out: {where}: {first['msg'][:200]}")
        except ToolImportError as error:
            looked.note(f"{called} is left out: {error}")
    return kept


def _with_input(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ToolImportError(f"it is a {type(tool).__name__}, not an object")
    if "inputSchema" not in tool:
        raise ToolImportError("it has no inputSchema")
    schema = tool["inputSchema"]
    if problem := _not_of_object(tool, "inputSchema"):
        raise ToolImportError(problem)
    made = {**tool, "inputSchema": {"type": "object", **schema}}
    if isinstance(answer := tool.get("outputSchema"), dict) and "type" not in answer:
        made["outputSchema"] = {"type": "object", **answer}
    return made


def _not_of_object(tool: dict[str, Any], key: str) -> str:
    schema = tool[key]
    if not isinstance(schema, dict):
        return f"its {key} is a {type(schema).__name__}, not a schema"
    kind = schema.get("type", "object")
    return "" if kind == "object" else f"its {key} is of {str(kind)[:80]!r}, not of an object"


@asynccontextmanager
async def looked_at(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], looked: Looked
) -> AsyncIterator[tuple[Any, Any]]:
    """The same transport, from which lists come as :func:`usable` makes them; messages name our trace.

    What is to be known of the lists besides goes into ``looked``.
    """
    asked: dict[Any, None] = {}
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, asked, looked), _Outgoing(outgoing, asked)


class _Stream:
    def __init__(self, inner: Any, asked: dict[Any, None]) -> None:
        self._inner, self._asked = inner, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, traceback)


class _Outgoing(_Stream):
    """Notes which requests ask for a list, and lets each message name what is carried.

    The SDK sends each message in the context of the call that it belongs to.
    """

    async def send(self, item: Any) -> None:
        method, exchange = getattr(item.message, "method", None), EXCHANGE.get()
        if method == "tools/list" and len(self._asked) < _MAX_ASKED:
            self._asked[getattr(item.message, "id", None)] = None
        elif method == "tools/call" and exchange is not None:
            exchange.id, exchange.code, exchange.strange = item.message.id, None, None
        params = getattr(item.message, "params", None)
        if isinstance(params, dict):
            _name(params)
        await self._inner.send(item)


class _Incoming(_Stream):
    def __init__(self, inner: Any, asked: dict[Any, None], looked: Looked) -> None:
        super().__init__(inner, asked)
        self._looked = looked

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._looked_at(await self._inner.__anext__())

    def _looked_at(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if not isinstance(message, types.JSONRPCResponse):
            return item
        if message.id not in self._asked:
            if "structuredContent" in message.result and "content" not in message.result:
                return replace(item, message=message.model_copy(update={"result": {"content": [], **message.result}}))
            return item
        del self._asked[message.id]
        if not isinstance(listed := message.result.get("tools"), list):
            return item
        tools = usable(listed, self._looked)
        result = {**message.result, "tools": [] if self._looked.aside else tools}
        return replace(item, message=message.model_copy(update={"result": result}))


def _name(params: dict[str, Any]) -> None:
    headers, before = carried(), params.get("_meta") or {}
    meta = {**headers, **before}  # what the SDK wrote stays: where it has a span of its own, that is between
    for key in propagate.get_global_textmap().fields | {"traceparent", "tracestate", "baggage"}:
        if not headers or (key == "baggage" and key not in headers):
            meta.pop(key, None)
    if meta == before:
        return
    if meta:
        params["_meta"] = meta
    else:
        params.pop("_meta", None)

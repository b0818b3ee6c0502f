"""The spans of a run's tool calls, and of waiting until they are approved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer

from atc.faces.otel import conventions as names
from atc.faces.otel.content import Content
from atc.faces.otel.metrics import Metrics
from atc.faces.otel.placing import Placed
from atc.tools.tool import Toolset

MAX_UNSENT = 200
"""Spans of calls that were answered without their tool, in one run: a program may be refused any number of times."""
SUCCEEDED = frozenset({"ok", "replayed", "planned"})


@dataclass
class _Open:
    span: Span
    placed: Placed
    began: int


class CallSpans:
    """The calls of one run, by their numbers.

    Args:
        tracer: makes the spans.
        metrics: take durations and counts.
        tools: of the agent. Any other name is one that a model made up: it names no span and no metric.
        content: of the run, where arguments and values are recorded.
        baggage: the caller's is passed on.

    Attributes:
        untold: calls that have no span, because there were too many.
    """

    def __init__(
        self, tracer: Tracer, metrics: Metrics, tools: Toolset, content: Content | None, *, baggage: bool
    ) -> None:
        self._tracer, self._metrics, self._tools = tracer, metrics, tools
        self._content, self._baggage = content, baggage
        self._asked: dict[int, _Open] = {}
        self._open: dict[int, _Open] = {}
        self._unsent = self.untold = 0

    def asked(self, data: dict[str, Any], at: int, parent: Context) -> None:
        """The user is asked whether to make a call: what the answer is waited for is its own span."""
        name = self._named(data["tool"])
        about = {names.TOOL_NAME: name, "atc.call.index": data["index"], "atc.tool.effect": data["effect"]}
        span = self._tracer.start_span(f"approval {name}", parent, attributes=about, start_time=at)
        self._asked[data["index"]] = _Open(span, Placed.enter(span, parent, baggage=self._baggage), at)

    def started(self, data: dict[str, Any], at: int, parent: Context) -> None:
        """A call is about to be made."""
        self._decided(data["index"], at, "approved")
        about = self._about(data)
        span = self._tracer.start_span(
            f"execute_tool {about[names.TOOL_NAME]}", parent, attributes=about, start_time=at
        )
        self._open[data["index"]] = _Open(span, Placed.enter(span, parent, baggage=self._baggage), at)

    def ended(self, data: dict[str, Any], at: int, parent: Context) -> None:
        """A call has ended; one that was never made has a span without length, up to :data:`MAX_UNSENT` of them."""
        status, index = data["status"], data["index"]
        self._decided(index, at, "denied" if data.get("cause") == "denied" else status)
        about, made = self._about(data), self._open.pop(index, None)
        counted = {name: about[name] for name in (names.TOOL_NAME, names.TOOL_TYPE)}
        self._metrics.calls.add(1, {**counted, "atc.call.status": status}, parent)
        error = None if status in SUCCEEDED else names.error_name(data.get("error_status") or data.get("cause"))
        if made is not None:
            span = made.span
        elif self._unsent < MAX_UNSENT:
            self._unsent += 1
            span = self._tracer.start_span(
                f"execute_tool {about[names.TOOL_NAME]}", parent, attributes=about, start_time=at
            )
        else:
            self.untold += 1
            return
        self._tell(span, data, error)
        span.end(at)
        if made is not None:
            made.placed.leave()
            timed = {names.OPERATION: "execute_tool", names.AGENT_NAME: names.AGENT, **counted}
            timed |= {names.ERROR_TYPE: error} if error is not None else {}
            self._metrics.tool_duration.record((at - made.began) / 1e9, timed, made.placed.context)

    def close(self, at: int | None) -> None:
        """End what is open: the tasks that it belonged to are gone."""
        for opened in (*self._asked.values(), *self._open.values()):
            opened.span.set_status(StatusCode.ERROR)
            opened.span.set_attribute(names.ERROR_TYPE, "stopped")
            opened.span.end(at)
        self._asked.clear()
        self._open.clear()

    def _decided(self, index: int, at: int, how: str) -> None:
        waited = self._asked.pop(index, None)
        if waited is None:
            return
        waited.span.set_attribute("atc.approval.decision", how)
        waited.span.end(at)
        waited.placed.leave()
        self._metrics.approval_wait.record((at - waited.began) / 1e9, {"atc.approval.decision": how})

    def _tell(self, span: Span, data: dict[str, Any], error: str | None) -> None:
        span.set_attribute("atc.call.status", data["status"])
        for name in ("cause", "page", "repaired_by"):
            if data.get(name):
                span.set_attribute(f"atc.call.{name}", data[name])
        if data.get("repairs"):
            span.set_attribute("atc.call.repairs", len(data["repairs"]))
        if data.get("drift"):
            span.set_attribute("atc.call.drift", len(data["drift"]))
        if error is not None:
            span.set_status(StatusCode.ERROR)
            span.set_attribute(names.ERROR_TYPE, error)
        if self._content is not None:
            span.set_attribute(names.CALL_ARGUMENTS, self._content.json(data["arguments"]))
            if error is None:
                span.set_attribute(names.CALL_RESULT, self._content.json(data.get("value")))
            elif data.get("error"):
                span.set_attribute("atc.call.error", self._content.text(data["error"]))

    def _about(self, data: dict[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(data["tool"])
        remote = tool is not None and tool.protocol.source.remote
        return {
            names.OPERATION: "execute_tool",
            names.AGENT_NAME: names.AGENT,
            names.TOOL_NAME: self._named(data["tool"]),
            names.TOOL_TYPE: "extension" if remote else "function",
            names.CALL_ID: str(data["index"]),
            "atc.call.index": data["index"],
            "atc.call.line": data["line"],
            "atc.tool.effect": data["effect"],
        }

    def _named(self, tool: str) -> str:
        known = tool in self._tools or tool in ("ask_user", "find_tools", "tool_docs", "look")
        return tool if known else names.OTHER

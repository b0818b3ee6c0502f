"""The spans of calls: of models, of tools, and of waiting until a call is approved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from atc._host.trace_context import Headers, carry, put_back
from atc.models.base import Model, WrappedModel
from atc.models.messages import ModelRequest, Reply
from atc.tools.tool import Toolset
from atc.traces.telemetry import conventions as names
from atc.traces.telemetry.conventions import Content, Metrics

_TRACE = TraceContextTextMapPropagator()
_BAGGAGE = W3CBaggagePropagator()


def headers_of(context: Context, *, baggage: bool = False) -> Headers:
    """The W3C headers that name a context's span; none where it has no valid one.

    Args:
        context: whose span is named.
        baggage: with its baggage.
    """
    made: dict[str, str] = {}
    _TRACE.inject(made, context)
    if baggage and made:
        _BAGGAGE.inject(made, context)
    return made


def caller_of(headers: Headers) -> Context:
    """The context of a caller, by the headers of its request; what is no trace context is nothing."""
    known = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
    return _TRACE.extract(known, Context())


@dataclass(frozen=True)
class Placed:
    """A span that is the current one of an execution context, until :meth:`leave`."""

    context: Context
    _attached: Token[Context]
    _carried: Token[Headers]

    @classmethod
    def enter(cls, span: trace.Span, base: Context | None = None, *, baggage: bool = False) -> Placed:
        """Make a span the current one.

        Args:
            span: the span.
            base: what else the context holds; by default what the current one does.
            baggage: pass the baggage on, too.
        """
        context = trace.set_span_in_context(span, base)
        return cls(context, otel_context.attach(context), carry(headers_of(context, baggage=baggage)))

    def leave(self) -> None:
        """Make the one before the current one again. It is called where :meth:`enter` was."""
        put_back(self._carried)
        otel_context.detach(self._attached)


class ObservedModel(WrappedModel):
    """A model whose requests are spans. A prompt that the budget does not allow comes to none.

    Args:
        inner: the model.
        tracer: makes the spans.
        metrics: take the durations and the tokens.
        parent: gives the context that a request belongs to.
        purpose: gives what a request is for, in a word.
        content: of the run, where prompts and replies are recorded.
        baggage: is passed on.
    """

    def __init__(
        self,
        inner: Model,
        tracer: Tracer,
        metrics: Metrics,
        parent: Callable[[], Context],
        purpose: Callable[[], str],
        content: Content | None,
        baggage: bool,
    ) -> None:
        super().__init__(inner)
        self._tracer, self._metrics, self._content = tracer, metrics, content
        self._parent, self._purpose, self._baggage = parent, purpose, baggage
        self._kind = SpanKind.CLIENT if inner.endpoint else SpanKind.INTERNAL
        self._about = {
            names.OPERATION: "chat",
            names.PROVIDER: names.provider_of(inner.endpoint),
            names.REQUEST_MODEL: inner.name,
            **names.server_of(inner.endpoint),
        }

    async def generate(self, request: ModelRequest) -> Reply:
        with self._observed(request) as observed:
            observed.reply = reply = await super().generate(observed.request)
        return reply

    @contextmanager
    def _observed(self, request: ModelRequest) -> Iterator[_Request]:
        began = time.time_ns()
        parent = self._parent()
        span = self._tracer.start_span(
            f"chat {self.name}", parent, self._kind, {**self._about, **_asked(request)}, start_time=began
        )
        if purpose := self._purpose():
            span.set_attribute("atc.model.purpose", purpose)
        if self._content is not None:
            span.set_attribute(names.INPUT_MESSAGES, self._content.messages(request.messages))
        observed = _Request(request, began)
        about: dict[str, Any] = dict(self._about)
        placed = Placed.enter(span, parent, baggage=self._baggage)
        try:
            yield observed
        except BaseException as error:
            about[names.ERROR_TYPE] = type(error).__name__
            span.set_attribute(names.ERROR_TYPE, about[names.ERROR_TYPE])
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            placed.leave()
            ended = time.time_ns()
            self._replied(span, observed, about)
            span.end(ended)
            self._metrics.model_duration.record((ended - began) / 1e9, about, placed.context)

    def _replied(self, span: Span, observed: _Request, about: dict[str, Any]) -> None:
        reply = observed.reply
        if reply is not None:
            about[names.RESPONSE_MODEL] = reply.model or self.name
            span.set_attribute(names.RESPONSE_MODEL, about[names.RESPONSE_MODEL])
            span.set_attribute(names.FINISH_REASONS, [reply.finish_reason])
            span.set_attribute(names.INPUT_TOKENS, 0 if reply.cached else reply.prompt_tokens)
            span.set_attribute(names.OUTPUT_TOKENS, 0 if reply.cached else reply.completion_tokens)
            if reply.cached:
                span.set_attribute("atc.model.replayed", True)
            elif reply.cached_tokens:
                span.set_attribute(names.CACHED_TOKENS, reply.cached_tokens)
            if reply.problem:
                span.set_attribute("atc.model.unusable", 1)
            if self._content is not None:
                span.set_attribute(names.OUTPUT_MESSAGES, self._content.replies([(reply.text, reply.finish_reason)]))
        if observed.first_s is not None and self.endpoint:
            span.set_attribute(names.FIRST_CHUNK, observed.first_s)
            self._metrics.first_chunk.record(observed.first_s, about)
        if reply is None or not reply.cached:
            used = (0, 0, 0) if reply is None else (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
            images = any(message.images for message in observed.request.messages)
            self._metrics.tokens(*used, about, images=images)


class _Request:
    """One request under way; its first piece of text is noted."""

    def __init__(self, request: ModelRequest, began: int) -> None:
        self.reply: Reply | None = None
        self.first_s: float | None = None
        self._began, self._shown = began, request.on_text
        self.request = request if request.on_text is None else replace(request, on_text=self._heard)

    def _heard(self, text: str) -> None:
        if self.first_s is None:
            self.first_s = (time.time_ns() - self._began) / 1e9
        if self._shown is not None:
            self._shown(text)


def _asked(request: ModelRequest) -> dict[str, Any]:
    sampling = request.sampling
    asked: dict[str, Any] = {names.MAX_TOKENS: sampling.max_tokens, names.TEMPERATURE: sampling.temperature}
    if sampling.seed is not None:
        asked[names.SEED] = sampling.seed
    if sampling.stop:
        asked[names.STOP] = list(sampling.stop)
    if request.format is not None:
        asked[names.OUTPUT_TYPE] = "json" if request.format.kind == "schema" else "text"
    return asked


MAX_UNSENT = 200
"""Spans of calls that were answered without their tool, in one run: a program may be refused any number of times."""
HELD_BACK = frozenset({"planned", "pending"})
"""States of a call that was not made, and whose value a program cannot have."""
SUCCEEDED = HELD_BACK | {"ok", "replayed"}


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
        held_back: whether a call was planned or waits: where its program ended is no failure of its own.
    """

    def __init__(
        self, tracer: Tracer, metrics: Metrics, tools: Toolset, content: Content | None, *, baggage: bool
    ) -> None:
        self._tracer, self._metrics, self._tools = tracer, metrics, tools
        self._content, self._baggage = content, baggage
        self._asked: dict[int, _Open] = {}
        self._open: dict[int, _Open] = {}
        self._unsent = self.untold = 0
        self.held_back = False

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
        self.held_back = self.held_back or status in HELD_BACK
        waits = data.get("error_status") == "waiting"  # it was not looked at: an earlier call waits for approval
        error = (
            None if waits or status in SUCCEEDED else names.error_name(data.get("error_status") or data.get("cause"))
        )
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
        for name in ("cause", "page"):
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

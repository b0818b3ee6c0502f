"""Spans and metrics of model calls: a model around the run's own sees each request, its reply and its failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from atc.faces.otel import conventions as names
from atc.faces.otel.content import Content
from atc.faces.otel.metrics import Metrics
from atc.faces.otel.placing import Placed
from atc.models.base import Model, WrappedModel
from atc.models.messages import ModelRequest, Reply


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
        with self._observed(request, 1) as observed:
            reply = await super().generate(observed.request)
            observed.replies = [reply]
        return reply

    async def generate_many(self, request: ModelRequest, count: int) -> list[Reply]:
        with self._observed(request, count) as observed:
            observed.replies = await super().generate_many(observed.request, count)
        return list(observed.replies)

    @contextmanager
    def _observed(self, request: ModelRequest, count: int) -> Iterator[_Request]:
        began = time.time_ns()
        parent = self._parent()
        span = self._tracer.start_span(
            f"chat {self.name}", parent, self._kind, {**self._about, **_asked(request, count)}, start_time=began
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
        replies = observed.replies
        billed = [reply for reply in replies if not reply.cached]
        prompt = sum(reply.prompt_tokens for reply in billed)
        completion = sum(reply.completion_tokens for reply in billed)
        cached = sum(reply.cached_tokens for reply in billed)
        if replies:
            about[names.RESPONSE_MODEL] = replies[0].model or self.name
            span.set_attribute(names.RESPONSE_MODEL, about[names.RESPONSE_MODEL])
            span.set_attribute(names.FINISH_REASONS, [reply.finish_reason for reply in replies])
            span.set_attribute(names.INPUT_TOKENS, prompt)
            span.set_attribute(names.OUTPUT_TOKENS, completion)
            if cached:
                span.set_attribute(names.CACHED_TOKENS, cached)
            if len(billed) < len(replies):
                span.set_attribute("atc.model.replayed", True)
            if any(reply.problem for reply in replies):
                span.set_attribute("atc.model.unusable", sum(bool(reply.problem) for reply in replies))
            if self._content is not None:
                said = [(reply.text, reply.finish_reason) for reply in replies]
                span.set_attribute(names.OUTPUT_MESSAGES, self._content.replies(said))
        if observed.first_s is not None and self.endpoint:
            span.set_attribute(names.FIRST_CHUNK, observed.first_s)
            self._metrics.first_chunk.record(observed.first_s, about)
        if not replies or billed:
            images = any(message.images for message in observed.request.messages)
            self._metrics.tokens(prompt, completion, cached, about, images=images)


class _Request:
    """One request under way; its first piece of text is noted."""

    def __init__(self, request: ModelRequest, began: int) -> None:
        self.replies: Sequence[Reply] = ()
        self.first_s: float | None = None
        self._began, self._shown = began, request.on_text
        self.request = request if request.on_text is None else replace(request, on_text=self._heard)

    def _heard(self, text: str) -> None:
        if self.first_s is None:
            self.first_s = (time.time_ns() - self._began) / 1e9
        if self._shown is not None:
            self._shown(text)


def _asked(request: ModelRequest, count: int) -> dict[str, Any]:
    sampling = request.sampling
    asked: dict[str, Any] = {names.MAX_TOKENS: sampling.max_tokens, names.TEMPERATURE: sampling.temperature}
    if sampling.seed is not None:
        asked[names.SEED] = sampling.seed
    if sampling.stop:
        asked[names.STOP] = list(sampling.stop)
    if count != 1:
        asked[names.CHOICES] = count
    if request.format is not None:
        asked[names.OUTPUT_TYPE] = "json" if request.format.kind == "schema" else "text"
    return asked

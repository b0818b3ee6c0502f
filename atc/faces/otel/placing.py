"""Where a span is the current one: what is begun there becomes its child, and what is sent from there names it."""

from __future__ import annotations

from contextvars import Token
from dataclasses import dataclass

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from atc.trace_context import Headers, carry, put_back

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

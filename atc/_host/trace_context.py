"""Hands a trace on to those who are called: W3C headers, or nothing.

Nothing is carried unless telemetry is on (:mod:`atc.traces.telemetry`). Whoever sends a request adds :func:`carried`
to its headers. It is a variable of the context: calls that go on at the same time each carry their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType

Headers = Mapping[str, str]

NOTHING: Headers = MappingProxyType({})

_CARRIED: ContextVar[Headers] = ContextVar("atc_trace_context", default=NOTHING)


def carried() -> Headers:
    """Return the headers for a request that is sent now: ``traceparent`` and, where there are any, ``tracestate`` and
    ``baggage``; empty where no trace is passed on."""
    return _CARRIED.get()


def carry(headers: Headers) -> Token[Headers]:
    """Pass these on from now on, in this context. The token is for :func:`put_back`."""
    return _CARRIED.set(headers)


def put_back(token: Token[Headers]) -> None:
    """Pass on again what was passed on before. In another context than that of :func:`carry` it does nothing."""
    try:
        _CARRIED.reset(token)
    except ValueError:
        return

"""One call of the model in a run, told in the trace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from atc.models.base import Message, Model, OnText, Reply
from atc.traces.events import Emit

WAITING_S = 10.0
"""Seconds of silence after which the trace tells that the model is waited for; again after twice as many, and so on."""


async def ask(model: Model, emit: Emit, purpose: str, messages: Sequence[Message], **options: Any) -> Reply:
    """Ask the model and tell the trace before and after, and while nothing comes. ``options`` are those of
    :meth:`Model.complete`, without ``on_text``.

    Raises:
        ModelError, ModelUnavailable, BudgetExceeded: from the model.
    """
    emit("model_started", {"purpose": purpose})
    async with waiting(emit, purpose) as on_text:
        reply = await model.complete(messages, on_text=on_text, **options)
    tell(emit, purpose, reply)
    return reply


@contextlib.asynccontextmanager
async def waiting(emit: Emit, purpose: str) -> AsyncIterator[OnText]:
    """Tell the trace while a model is silent; what is yielded is called with each piece of its reply."""
    began = heard = time.monotonic()

    def on_text(_: str) -> None:
        nonlocal heard
        heard = time.monotonic()

    async def watch() -> None:
        patience, since = WAITING_S, heard
        while True:
            await asyncio.sleep(max(0.0, since + patience - time.monotonic()))
            if heard != since:
                patience, since = WAITING_S, heard
            else:
                now = time.monotonic()
                emit("model_waiting", {"purpose": purpose, "seconds": now - began, "silent": now - heard})
                patience *= 2

    watching = asyncio.create_task(watch())
    try:
        yield on_text
    finally:
        watching.cancel()


def tell(emit: Emit, purpose: str, reply: Reply) -> None:
    """Tell the trace of a reply."""
    data: dict[str, Any] = {
        "purpose": purpose, "seconds": reply.seconds, "prompt_tokens": reply.prompt_tokens, "cached": reply.cached,
        "completion_tokens": reply.completion_tokens, "finish_reason": reply.finish_reason, "text": reply.text,
    }  # fmt: skip
    emit("model_ended", data | ({"problem": reply.problem} if reply.problem else {}))

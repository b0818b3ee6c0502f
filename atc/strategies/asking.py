"""One call of the model in a run, told in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc.models.base import Message, Model, Reply
from atc.traces.events import Emit


async def ask(model: Model, emit: Emit, purpose: str, messages: Sequence[Message], **options: Any) -> Reply:
    """Ask the model and tell the trace before and after. ``options`` are those of :meth:`Model.complete`.

    Raises:
        ModelError, ModelUnavailable, BudgetExceeded: from the model.
    """
    emit("model_started", {"purpose": purpose})
    reply = await model.complete(messages, **options)
    tell(emit, purpose, reply)
    return reply


def tell(emit: Emit, purpose: str, reply: Reply) -> None:
    """Tell the trace of a reply."""
    emit(
        "model_ended",
        {"purpose": purpose, "seconds": reply.seconds, "prompt_tokens": reply.prompt_tokens, "cached": reply.cached,
         "completion_tokens": reply.completion_tokens, "finish_reason": reply.finish_reason, "text": reply.text},
    )  # fmt: skip

"""One call of the model in a run, recorded in the trace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from atc._records.events import Emit, ModelStarted
from atc.models.base import Message, Model, OnText, Reply
from atc.models.images import Image
from atc.wording.prompting import fenced, prompt

if TYPE_CHECKING:
    from atc.programs.answers.types import AnswerType

WAITING_S = 10.0
"""Seconds of silence after which the trace records that the run waits for the model. Each
further wait is twice as long."""


def task_message(text: str, images: Sequence[Image]) -> Message:
    """Return the message that says the task, with its images; without any it is the text alone."""
    if not images:
        return Message("user", text)
    return Message("user", f"{text}\n\n{prompt('images', count=len(images))}", images=tuple(images))


async def ask(model: Model, emit: Emit, purpose: str, messages: Sequence[Message], **options: Any) -> Reply:
    """Ask the model. The trace records the beginning, the reply, and long silences.

    Args:
        purpose: what the reply is for, in a word.
        options: those of :meth:`Model.complete`, without ``on_text``.

    Raises:
        ModelError, ModelUnavailable, BudgetExceeded: from the model.
    """
    started: ModelStarted = {"purpose": purpose}
    emit("model_started", started)
    async with waiting(emit, purpose) as on_text:
        reply = await model.complete(messages, on_text=on_text, **options)
    emit_reply(emit, purpose, reply)
    return reply


@contextlib.asynccontextmanager
async def waiting(emit: Emit, purpose: str) -> AsyncIterator[OnText]:
    """Record in the trace that a model is silent. Call what is yielded with each piece of the reply."""
    began = last_text = time.monotonic()

    def on_text(_: str) -> None:
        nonlocal last_text
        last_text = time.monotonic()

    async def watch() -> None:
        patience, since = WAITING_S, last_text
        while True:
            await asyncio.sleep(max(0.0, since + patience - time.monotonic()))
            if last_text != since:
                patience, since = WAITING_S, last_text
            else:
                now = time.monotonic()
                emit("model_waiting", {"purpose": purpose, "seconds": now - began, "silent": now - last_text})
                patience *= 2

    watching = asyncio.create_task(watch())
    try:
        yield on_text
    finally:
        watching.cancel()


def emit_reply(emit: Emit, purpose: str, reply: Reply) -> None:
    """Record a reply of the model in the trace."""
    data: dict[str, Any] = {
        "purpose": purpose,
        "seconds": reply.seconds,
        "prompt_tokens": reply.prompt_tokens,
        "cached": reply.cached,
        "completion_tokens": reply.completion_tokens,
        "finish_reason": reply.finish_reason,
        "text": reply.text,
    }
    more = {"problem": reply.problem, "notice": reply.notice}
    emit("model_ended", data | {name: words for name, words in more.items() if words})


# ----------------------------------------------------------------------------------------------------------------------
# The part of a prompt that says which type the answer shall have.


def type_note(answer: AnswerType | None, what: str = "`answer`") -> str:
    """Return the text behind the task; empty where no type was asked for."""
    if answer is None:
        return ""
    stub = answer.stub
    return prompt(
        "answer_type", what=what, type=fenced(stub.annotation), about=fenced(stub.about), classes=fenced(stub.classes)
    )

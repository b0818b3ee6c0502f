"""Asking a model for a reply of a given form, by whatever callable asks the model of a run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol as Interface

from atc.models.base import Message, ModelRequest, Reply, Sampling, fitting_reply
from atc.models.reply_format import ReplyFormat
from atc.retrieval.retriever import Ask
from atc.tools.protocol import JsonSchema


class FittingAsk(Interface):
    """An :data:`~atc.retrieval.retriever.Ask` that takes, too, what the reply must be.

    It gives what :meth:`atc.models.base.Model.complete` gives: a reply whose ``value`` is what it says, or whose
    ``problem`` is why it does not fit.
    """

    async def __call__(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        *,
        schema: JsonSchema | None = None,
        choices: Sequence[str] | None = None,
    ) -> Reply: ...


def fitting(ask: Ask | FittingAsk) -> FittingAsk:
    """An ask that takes forms, of any ask.

    One that takes ``schema`` and ``choices`` itself is asked with them. Of another the form is stated in the prompt,
    and a reply that does not fit is asked for once more.
    """
    takes = _takes_forms(ask)

    async def asked(
        messages: Sequence[Message],
        max_tokens: int,
        *,
        schema: JsonSchema | None = None,
        choices: Sequence[str] | None = None,
    ) -> Reply:
        async def generate(request: ModelRequest) -> Reply:
            given = request.format.options if takes and request.format is not None else {}
            return await ask(request.messages, request.sampling.max_tokens, **given)

        wanted = ReplyFormat.of(schema, None, choices)
        request = ModelRequest(tuple(messages), Sampling(max_tokens), wanted)
        if takes:  # the model sees to it
            reply = await generate(request)
            return reply if wanted is None or reply.problem or reply.value is not None else _read(reply, wanted)
        return await fitting_reply(generate, request, frozenset())

    return asked


def _read(reply: Reply, wanted: ReplyFormat) -> Reply:
    """A reply of an ask that enforces the form and leaves the reading to us."""
    read = wanted.read(reply.text)
    problem = f"the reply does not fit: {read.problem}" if read.problem else ""
    return replace(reply, value=read.value, problem=problem)


def _takes_forms(ask: object) -> bool:
    try:
        parameters = inspect.signature(ask).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of some builtins nobody can tell
        return False
    return {"schema", "choices"} <= parameters.keys() or any(
        each.kind is each.VAR_KEYWORD for each in parameters.values()
    )

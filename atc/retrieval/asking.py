"""Asking a model for a reply of a given form, or at a temperature, by whatever callable asks the model of a run."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol as Interface

from atc.errors import UsageError
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
    takes = _takes(ask, "schema", "choices")

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


def sampled(ask: Ask, temperature: float, seed: int) -> Ask:
    """An ask at a temperature; at 0 it is ``ask`` itself, which takes the likeliest tokens.

    Args:
        ask: takes ``temperature`` and ``seed``, as :meth:`atc.models.base.Model.complete` does.
        temperature: of each reply.
        seed: of the first reply; each further one has the next.

    Raises:
        UsageError: the temperature is not between 0 and 2, or ``ask`` takes none.
    """
    if not 0 <= temperature <= 2:
        raise UsageError(f"a temperature of {temperature} is not between 0 and 2")
    if not temperature:
        return ask
    if not _takes(ask, "temperature", "seed"):
        raise UsageError(
            f"the planner is to be asked at temperature {temperature}, and its `ask` takes none: write it with the "
            "keywords temperature and seed, and pass them on to Model.complete"
        )
    seeds = itertools.count(seed)
    options: Callable[..., Awaitable[Reply]] = ask

    async def asked(messages: Sequence[Message], max_tokens: int) -> Reply:
        return await options(messages, max_tokens, temperature=temperature, seed=next(seeds))

    return asked


def _takes(ask: object, *names: str) -> bool:
    """Whether a callable takes keywords."""
    try:
        parameters = inspect.signature(ask).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of some builtins nobody can tell
        return False
    return {*names} <= parameters.keys() or any(each.kind is each.VAR_KEYWORD for each in parameters.values())

"""Asking a model at a temperature, by whatever callable asks the model of a run."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence

from atc.errors import UsageError
from atc.models.base import Message, Reply
from atc.retrieval.retriever import Ask


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

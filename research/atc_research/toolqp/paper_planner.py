"""The planner as ToolQP prompts it (§3.1, Fig. 7): its turns, and replies that are sampled (App. B, Tab. 5)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from atc import Message, Reply, UsageError
from atc.plugins.learning import Ask, ToolIndex
from atc_research.toolqp.dialogue import Turns
from atc_research.toolqp.planning import QueryPlanner

PAPER = Turns("paper", eager=False, example=False, providers=False, patient=True)
"""As ToolQP speaks: Fig. 7, one query at a time, zero-shot."""
TEMPERATURES = (0.0, 0.5)
"""Of the plan and of the queries of a planner that is prompted (App. B, Tab. 5)."""


class SampledPlanner(QueryPlanner):
    """A planner whose plan and queries are sampled.

    Args:
        index: of the tools.
        ask: asks the model; it takes ``temperature`` and ``seed``.
        temperatures: of the plan and of the queries; at 0 ``ask`` is called as it is.
        seed: of the sampling; each query has its own, so that a search can be repeated.
        options: of a :class:`QueryPlanner`.

    Raises:
        UsageError: there are temperatures, and ``ask`` takes none.
    """

    def __init__(
        self,
        index: ToolIndex,
        ask: Ask,
        temperatures: tuple[float, float] = TEMPERATURES,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(index, ask, **options)
        self._temperatures, self._seed = temperatures, seed
        self._asks()  # what cannot be asked is said at once

    def _asks(self) -> tuple[Ask, Ask]:
        of_plan, of_query = self._temperatures
        return sampled(self._ask, of_plan, self._seed), sampled(self._ask, of_query, self._seed)


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
    try:
        parameters = inspect.signature(ask).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of some builtins nobody can tell
        return False
    return {*names} <= parameters.keys() or any(each.kind is each.VAR_KEYWORD for each in parameters.values())

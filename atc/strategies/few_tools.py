"""Few tools first: the first program is written from the documents of the likeliest tools, the next ones from all.

A small model takes a minute to read twenty documents, and then uses tools that the task does not need. Where the eight
likeliest lack one that it needs, what it writes is refused by the check or ends in a failure, and the next prompt shows
all. Only the prompt is narrower: a program may call every tool that is offered.

It is a rule, ``few-tools-first``, and off by default.
"""

from __future__ import annotations

from collections.abc import Collection

from atc.errors import EnvironmentProblem
from atc.fired_rules import fired
from atc.strategies.context import RunContext

FEW = 8
"""Tools whose documents the first prompt has."""


async def not_shown_first(context: RunContext) -> Collection[str]:
    """The names of the tools that the first prompt leaves out.

    Those of earlier tasks come first, then the likeliest. None is left out where few are offered, the rule is off, a
    tool is down, or the tools cannot be searched. They are searched as the setting ``retrieval`` says.

    Raises:
        ModelError, BudgetExceeded: from the model, which is asked where tools are found by a plan or by codes.
    """
    offered = [name for name in context.all_tools if name in context.tools]
    down = bool(context.broker.bans.all())  # a note names what takes its place
    if "few-tools-first" not in context.settings.active_rules or len(offered) <= FEW or down:
        return ()
    ranked = [*context.sketch.tools]  # the likeliest first, where they were searched for
    if all(why.kind == "all" for why in context.sketch.why.values()):
        try:
            ranked = [*(await context.retrieve(context.frame.query(context.task), FEW)).tools]
        except EnvironmentProblem:
            return ()  # no run ends for a search that it does not need
    wanted = dict.fromkeys(name for name in (*context.frame.tools, *ranked, *offered) if name in context.tools)
    shown = [*wanted][:FEW]
    fired("few-tools-first")
    return [name for name in offered if name not in shown]

"""Few tools first: the first program is written from the documents of the likeliest tools, the next ones from all.

A small model that reads twenty documents uses tools that the task does not need. One that reads eight lacks a tool that
it needs in one task of three. What it writes then is refused by the check or ends in a failure, and the next prompt
shows all. Only the prompt is narrower: a program may call every tool that is offered.

It is a rule, ``few-tools-first``, and off by default.
"""

from __future__ import annotations

from collections.abc import Collection

from atc.fired_rules import fired
from atc.strategies.context import RunContext

RULE = "few-tools-first"
FEW = 8
"""Tools whose documents the first prompt has. Of RestBench's twenty candidates they hold all that a task needs for
68 % of the tasks; four for 45 %, twelve for 75 %."""


async def not_shown_first(context: RunContext) -> Collection[str]:
    """The names of the tools that the first prompt leaves out; none where few are offered, or the rule is off.

    Raises:
        As :meth:`atc.catalogue.Catalogue.find`.
    """
    offered = [name for name in context.all_tools if name in context.tools]
    if RULE not in context.settings.active_rules or len(offered) <= FEW:
        return ()
    ranked = [*context.sketch.tools]  # the likeliest first, where they were searched for
    if len(offered) == len(context.all_tools):
        ranked = [*(await context.retrieve(context.frame.query(context.task), FEW)).tools]
    likely = [name for name in ranked if name in offered][:FEW]
    fired(RULE, bool(likely))
    return [name for name in offered if name not in likely] if likely else ()

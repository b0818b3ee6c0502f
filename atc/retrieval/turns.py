"""How the turns of a query planner are written (ToolQP §3.1, Fig. 7), at run time and in training data alike.

Every message of a conversation comes from one :class:`Turns`, so that a planner that was trained on trajectories meets
the turns that it was trained on. How replies are read is in :mod:`atc.retrieval.dialogue`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from atc.errors import UsageError
from atc.models.base import Message
from atc.prompting import fenced, prompt
from atc.retrieval.dialogue import MAX_TASK, STOP, Plan, harmless, show_query, show_results
from atc.tools.protocol import Protocol

Form = Literal["list", "paper"]
"""Of a plan: ``list``, numbered sub-goals in ``<plan>``; ``paper`` (Fig. 7), a plan in words in ``<task_breakdown>``
and a JSON list of sub-goals in ``<sub_goals>``."""

MAX_WORDS = 2_000
"""Characters of a plan in words."""
_PLAN_TOKENS: dict[Form, int] = {"list": 250, "paper": 500}


@dataclass(frozen=True)
class Turns:
    """The writer of a conversation.

    Attributes:
        form: of the plan.
        eager: the sub-goals are searched for at once, and what all of them find stands in one turn after the plan;
            else the planner begins with a query for the first (the paper).
        example: a worked example stands before the task; without one the planner is asked zero-shot (the paper).
        providers: tools that supply what found ones require stand first among the results.
        patient: a query that finds nothing new is answered like any other (the paper); else it ends the search.
    """

    form: Form = "list"
    eager: bool = True
    example: bool = True
    providers: bool = True
    patient: bool = False

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise UsageError(f"a plan has no form {self.form!r}: give one of {', '.join(get_args(Form))}")

    @property
    def plan_tokens(self) -> int:
        """Tokens that a plan may take."""
        return _PLAN_TOKENS[self.form]

    # -- what the planner is told --------------------------------------------------------------------------------------

    def opening(self, task: str) -> list[Message]:
        """The messages before the planner's first turn."""
        from atc.retrieval.example import worked_example

        system = Message("system", prompt(self._named("system")), fixed=True)
        example = worked_example(self) if self.example else ()
        return [system, *example, Message("user", self.task(task))]

    def task(self, task: str) -> str:
        """The message that gives the task."""
        task = task if len(task) <= MAX_TASK else f"{task[:MAX_TASK]} …"
        return prompt(self._named("task"), task=fenced(task))

    def begin(self) -> str:
        """The message after the plan, where the planner searches for the first sub-goal itself."""
        return prompt(self._named("begin"))

    def results(self, tools: Iterable[Protocol]) -> str:
        """The message after a query, or after the plan where the sub-goals were searched for.

        Args:
            tools: all that are shown, the best first.
        """
        shown = list(tools)
        return prompt(self._named("results"), results=show_results(shown, len(shown)))

    # -- what the planner says -----------------------------------------------------------------------------------------

    def plan(self, plan: Plan) -> str:
        """A plan as the planner says it. In the form ``list`` its words are the sub-goals."""
        goals = [harmless(goal) for goal in plan.goals]
        if self.form == "list":
            return "\n".join(["<plan>", *(f"{number}. {goal}" for number, goal in enumerate(goals, 1)), "</plan>"])
        words = harmless(plan.text, MAX_WORDS) or "; ".join(goals)
        listed = json.dumps(goals, ensure_ascii=False)
        return f"<task_breakdown>\n{words}\n</task_breakdown>\n<sub_goals>\n{listed}\n</sub_goals>"

    def query(self, query: str) -> str:
        """A query as the planner says it."""
        return show_query(query)

    @property
    def stop(self) -> str:
        """How the planner ends the search."""
        return STOP

    def _named(self, part: str) -> str:
        return f"turns_{part}" if self.form == "list" else f"turns_paper_{part}"


PRODUCT = Turns()
"""As a run with ``retrieval=planned`` speaks."""
PAPER = Turns("paper", eager=False, example=False, providers=False, patient=True)
"""As ToolQP speaks: Fig. 7, one query at a time, zero-shot."""

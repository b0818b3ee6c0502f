"""The text before a task in every prompt: the user's standing instructions, and the earlier tasks of a conversation.

The two are apart from the task and from each other. Instructions are the user's own words. Earlier tasks are shown with
programs and values that models and tools made, so they stand in a fence, as data, and are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from atc._records.records import Record
from atc.errors import UsageError
from atc.models.base import estimate_tokens
from atc.wording.prompting import fenced, prompt

EARLIER_TOKENS = 1_000
"""Estimated tokens of all earlier tasks in a prompt."""
MAX_TASK, MAX_PROGRAM, MAX_VALUE, MAX_PROBLEM, MAX_CALL = 1_000, 1_500, 800, 300, 200
"""Characters of each part of an earlier task."""
MAX_CALLS, MAX_TOOLS = 5, 20
"""Calls with effects, and tools, that an earlier task is shown with."""
SHORT = 200
"""Characters of the task and the value of an earlier task for which there is little room."""


class Turn(Record):
    """One task of a conversation and how it went, in short: every text is cut where it is long.

    Attributes:
        number: of the task in its conversation, from 1.
        status: of the run (:data:`atc.result.RunStatus`), or ``stopped``: it was stopped before its end.
        program: that answered; empty where none did. ``value``: of it, as text.
        variable: by which the programs of later tasks have the value; empty where it is too large.
        problem: why there is no answer.
        done: calls with effects that were made. ``in_doubt``: those that may or may not have been.
        tools: whose calls succeeded, the first ones. ``shown``: those that the prompt showed beside a list.
    """

    number: int
    task: str
    status: str
    program: str = ""
    value: str = ""
    variable: str = ""
    problem: str = ""
    done: tuple[str, ...] = ()
    in_doubt: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        """Return whether the task was answered."""
        return self.status == "answered"


@dataclass(frozen=True)
class Preamble:
    """Standing instructions, and the earlier tasks of a conversation.

    Attributes:
        instructions: the user's standing instructions; empty without.
        turns: the earlier tasks of the conversation, the oldest first.
        number: of the task in its conversation, from 1; 0 where it is in none.
    """

    instructions: str = ""
    turns: tuple[Turn, ...] = ()
    number: int = 0

    @classmethod
    def from_trace(cls, started: Mapping[str, Any]) -> Preamble:
        """Return the preamble of a stored run, by its ``run_started``.

        Raises:
            UsageError: it holds something else there.
        """
        try:
            turns = tuple(Turn.model_validate(turn) for turn in started.get("earlier", ()))
            return cls(str(started.get("instructions", "")), turns, int(started.get("turn", 0)))
        except (ValueError, TypeError) as error:
            raise UsageError(f"the trace does not say what stood before the task: {error}") from None

    def for_trace(self) -> dict[str, Any]:
        """Return the fields that :meth:`from_trace` reads; empty where there is nothing."""
        turns = [turn.model_dump(mode="json") for turn in self.turns]
        made = {"instructions": self.instructions, "earlier": turns, "turn": self.number}
        return {name: value for name, value in made.items() if value}

    @cached_property
    def programs(self) -> str:
        """Return what stands before a task that a program solves. Empty, or it ends with an empty line."""
        return self._rendered(variables=True)

    @cached_property
    def calls(self) -> str:
        """Return what stands before a task that is solved without programs: no variable is named."""
        return self._rendered(variables=False)

    @cached_property
    def tasks(self) -> str:
        """Return what stands before a question about the answer: the earlier tasks without their programs."""
        return self._rendered(variables=False, short=True)

    @property
    def words(self) -> str:
        """Return the user's own words: the instructions and the earlier tasks."""
        return "\n".join(part for part in (self.instructions, *(turn.task for turn in self.turns)) if part)

    @property
    def known(self) -> str:
        """Return all that a program's literals may stand in: the user's words, and what earlier tasks found or did."""
        shown = (part for turn in self.turns for part in (turn.value, *turn.done, *turn.in_doubt))
        return "\n".join(part for part in (self.words, *shown) if part)

    def words_with(self, task: str) -> str:
        """Return a task, and the user's other words."""
        return "\n".join(part for part in (task, self.words) if part)

    def query(self, task: str) -> str:
        """Return the query of the search for tools: the task, and before it the task that it follows."""
        return f"{self.turns[-1].task}\n{task}" if self.turns else task

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the tools that earlier tasks used, the latest task's first, then those that it was shown."""
        used = [name for turn in reversed(self.turns) for name in turn.tools]
        return tuple(dict.fromkeys([*used, *(self.turns[-1].shown if self.turns else ())]))

    def _rendered(self, *, variables: bool, short: bool = False) -> str:
        blocks, named = _within(self.turns, EARLIER_TOKENS, variables, short)
        if not blocks and not self.instructions:
            return ""
        earlier = fenced("\n\n".join(blocks))
        return prompt("preamble", instructions=fenced(self.instructions), earlier=earlier, variables=named) + "\n\n"


NO_PREAMBLE = Preamble()
"""Neither instructions nor earlier tasks."""


def cut(text: str, limit: int) -> str:
    """Return a text, its end left out where it is longer than ``limit`` characters."""
    return text if len(text) <= limit else f"{text[:limit]} … [{len(text) - limit:,} characters left out]"


def _within(turns: Sequence[Turn], room: int, variables: bool, short: bool) -> tuple[list[str], list[str]]:
    blocks: list[str] = []
    named: list[str] = []
    for turn in reversed(turns):
        block = _block(turn, variables, short)
        if not short and estimate_tokens(block) > room:
            short = True
            block = _block(turn, variables, short)
        room -= estimate_tokens(block)
        if room < 0 and blocks:  # the newest is always shown
            break
        blocks.append(block)
        named += [turn.variable] if variables and turn.variable else []
    return blocks[::-1], named[::-1]


def _block(turn: Turn, variables: bool, short: bool) -> str:
    task, value = (cut(text, SHORT) if short else text for text in (turn.task, turn.value))
    lines = [f"Task {turn.number}: {task}"]
    if turn.program and not short:
        lines += ["Program:", turn.program.rstrip("\n")]
    if turn.answered:
        lines.append(f"Value{f' ({turn.variable})' if variables and turn.variable else ''}: {value}")
    else:
        lines.append(f"No answer: {cut(turn.problem, SHORT) if short else turn.problem or turn.status}")
    lines += [f"Already done: {call}" for call in turn.done]
    lines += [f"May or may not be done: {call}" for call in turn.in_doubt]
    return "\n".join(lines)

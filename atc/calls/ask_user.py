"""Who answers the questions that programs ask the user: a function, the terminal, or nobody now.

One vocabulary for the agent, the settings and the command line: ``"never"`` (no program can ask), ``"ask"`` (at the
terminal; where there is none the run stops with the question), ``"stop"`` (it stops), or a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, get_args

from atc.calls import question
from atc.errors import UsageError

AskUserChoice = Literal["never", "ask", "stop"]
Answerer = Callable[[str], str | Awaitable[str | None] | None]
"""From a question to the user's words; ``None`` where the user cannot answer."""
AskUser = AskUserChoice | Answerer
HEADING = "the program asks you (what you answer goes to it, to the model and to the tools that it calls):"
MAX_QUESTION = 1_000
"""Characters of a question."""
MAX_REPLY = 20_000
"""Characters of an answer, as many as of a task."""


def checked_ask_user(choice: AskUser | None, setting: AskUserChoice = "never") -> AskUser:
    """Return the choice, else the setting.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    asked = setting if choice is None else choice
    if not callable(asked) and asked not in get_args(AskUserChoice):
        raise UsageError(f"ask_user takes 'never', 'ask', 'stop' or a function, not {asked!r}")
    return asked


def checked_reply(reply: Any) -> str:
    """The answer that a user gives to a run's question, without the spaces around it.

    Raises:
        UsageError: it is no text, empty, or far too long.
    """
    if not isinstance(reply, str) or not reply.strip():
        raise UsageError("reply is empty: say in words what the run asked for")
    if len(reply) > MAX_REPLY:
        raise UsageError(f"reply has {len(reply):,} characters; the limit is {MAX_REPLY:,}")
    return reply.strip()


def answerer_of(choice: AskUser) -> Answerer | None:
    """The function that answers; ``None`` where nobody does now."""
    if callable(choice):
        return choice
    return ask_at_terminal if choice == "ask" and question.has_terminal() else None


async def ask_at_terminal(text: str) -> str | None:
    """Ask the user on standard error and read a line of standard input (:mod:`atc.calls.question`)."""
    return await question.ask_words(HEADING, text, MAX_REPLY) or None

"""An agent that is given to other frameworks, with a scripted model: what is tried is the way in and out."""

from __future__ import annotations

from typing import Any

from atc import Agent, FakeModel, tool

ASKED = "Twice twenty-one, and send it to ann"
DOUBLE = "```python\nanswer = {'n': double(n=len('x' * 21))}\n```"
SENDS = "```python\ndouble(n=len('xx'))\nanswer = send(to='ann')\n```"
NO_TASK = "the task is empty: say in plain words what is wanted"

_SENT: list[str] = []


@tool(effect="write")
def send(to: str) -> str:
    """Send a greeting."""
    _SENT.append(to)
    return "ok"


@tool(effect="read")
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def agent(*replies: str, **settings: Any) -> Agent:
    """An agent that writes these replies."""
    _SENT.clear()
    return Agent([send, double], model=FakeModel(replies or ["none"]), sentence=False, **settings)


def sent() -> list[str]:
    """Whom something was sent to since the last agent was made."""
    return list(_SENT)

"""The answer as a sentence, grounded in what the program computed (after RETO §3.3, answer synthesis)."""

from __future__ import annotations

import re
from typing import Any

from atc.models.base import Message
from atc.packing import as_text
from atc.prompting import fenced, prompt
from atc.strategies.context import RunContext

MAX_VALUE = 3000
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def plain(value: Any) -> str:
    """The value itself as text."""
    return value if isinstance(value, str) else as_text(value)


async def sentence(context: RunContext, value: Any) -> str:
    """Say the value in a sentence. A sentence with a number that is in neither value nor task is not used.

    Raises:
        ModelError, BudgetExceeded: from the model.
    """
    told = plain(value)
    calls = "; ".join(
        f"{c.tool}({', '.join(f'{k}={v!r}' for k, v in c.arguments.items())})" for c in context.calls if c.succeeded
    )
    text = prompt("answer", task=context.task, value=fenced(told[:MAX_VALUE]), calls=fenced(calls[:600]))
    reply = await context.ask("answer", [Message("user", text)], max_tokens=120)
    said = reply.text.strip()
    known = set(_numbers(told + " " + context.task + " " + calls))
    if not said or reply.finish_reason != "stop" or any(number not in known for number in _numbers(said)):
        return told
    return said


def _numbers(text: str) -> list[str]:
    return [number.replace(",", "").rstrip(".") for number in _NUMBER.findall(text)]

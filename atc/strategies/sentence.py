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


def value_text(value: Any) -> str:
    """The value itself as text."""
    return value if isinstance(value, str) else as_text(value)


async def answer_sentence(context: RunContext, value: Any) -> str:
    """Say the value in a sentence. A sentence with a number that is in neither value nor task is not used.

    Raises:
        ModelError, BudgetExceeded: from the model.
    """
    text = value_text(value)
    calls = "; ".join(
        f"{c.tool}({', '.join(f'{k}={v!r}' for k, v in c.arguments.items())})" for c in context.calls if c.succeeded
    )
    frame = context.frame
    question = prompt(
        "answer",
        frame=frame.tasks,
        instructed=bool(frame.instructions),
        task=context.task,
        value=fenced(text[:MAX_VALUE]),
        calls=fenced(calls[:600]),
    )
    reply = await context.ask("answer", [Message("user", question)], max_tokens=120)
    sentence = reply.text.strip()
    known = set(_numbers(" ".join((text, context.task, calls, frame.known))))
    if not sentence or reply.finish_reason != "stop":
        return text
    readings = (_comma_readings if frame.instructions else _readings)(sentence)
    return sentence if all(known & reading for reading in readings) else text


def _numbers(text: str) -> list[str]:
    return [number.replace(",", "").rstrip(".") for number in _NUMBER.findall(text)]


def _readings(text: str) -> list[set[str]]:
    """What each number of a text can mean."""
    return [{number} for number in _numbers(text)]


def _comma_readings(text: str) -> list[set[str]]:
    """The readings of each number where another language may have been asked for: 1.234,5 is 1,234.5 in German."""
    return [{number.replace(",", ""), number.replace(".", "").replace(",", ".")} for number in _NUMBER.findall(text)]

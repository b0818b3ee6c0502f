"""The answer as a sentence, grounded in what the run computed (after RETO §3.3, answer synthesis).

The model is shown the value and the calls that it rests on, and nothing else of the run; where a call failed, what each
of them did. A sentence that says more than these and the task gave is not used: the value stands in its place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from atc.models.base import Message
from atc.packing import as_text
from atc.prompting import fenced, prompt
from atc.result import Call
from atc.strategies.call_summary import answering, summary_of
from atc.strategies.context import RunContext
from atc.strategies.find_tools import asking_tools
from atc.strategies.grounding import MAX_SENTENCE, Known, ungrounded
from atc.strategies.language_words import is_english

MAX_VALUE, MAX_VALUE_BESIDE = 3000, 1000
"""Characters of the value that the model is shown; beside a summary of the calls."""
MAX_CALLS = 600
"""Characters of calls that all succeeded."""
MAX_REFUSED, MAX_WORD = 5, 80
"""What a trace has of a sentence that was not used: words, and characters of each."""


@dataclass(frozen=True)
class Said:
    """An answer in words.

    Attributes:
        text: a sentence, or the value itself.
        ungrounded: what a sentence said and nothing gave, for which the value stands in its place.
    """

    text: str
    ungrounded: tuple[str, ...] = ()


def value_text(value: Any) -> str:
    """The value itself as text."""
    return value if isinstance(value, str) else as_text(value)


async def answer_sentence(context: RunContext, value: Any) -> Said:
    """Say the value in a sentence, or as it is where the sentence cannot be used.

    Raises:
        ModelError, BudgetExceeded: from the model.
    """
    text = value_text(value)
    asking = asking_tools(context.tools, ask_user=False)
    calls = answering([call for call in context.calls if call.tool not in asking])
    frame = context.frame
    summary = "" if all(call.succeeded for call in calls) else summary_of(calls)
    question = prompt(
        "answer",
        frame=frame.tasks,
        instructed=bool(frame.instructions),
        task=context.task,
        value=fenced(text[: MAX_VALUE_BESIDE if summary else MAX_VALUE]),
        calls=fenced(_listed(calls)[:MAX_CALLS]),
        summary=summary,
    )
    reply = await context.ask("answer", [Message("user", question)], max_tokens=120)
    sentence = reply.text.strip()
    if not sentence or reply.finish_reason != "stop" or len(sentence) > MAX_SENTENCE or "```" in sentence:
        return Said(text)
    refused = _refused(context, value, calls, sentence)
    return Said(text, refused) if refused else Said(sentence)


def _listed(calls: list[Call]) -> str:
    return "; ".join(
        f"{c.tool}({', '.join(f'{k}={v!r}' for k, v in c.arguments.items())})" for c in calls if c.succeeded
    )


def _refused(context: RunContext, value: Any, calls: list[Call], sentence: str) -> tuple[str, ...]:
    """What a sentence says and neither the value, nor the calls, nor the user gave; cut where it is long."""
    frame, task = context.frame, context.task
    given = [{call.tool: each} for call in calls for each in (call.arguments, call.original)]
    returned = [call.value if call.error is None else call.error for call in calls]
    made = Counter(call.tool for call in calls)
    known = Known([value, *given, dict(context.inputs), *returned], (task, frame.known), made.values())
    own = is_english(sentence)
    names = own is True if frame.instructions else is_english(sentence, task) is not False
    found = ungrounded(sentence, known, names=names, comma=bool(frame.instructions) or own is False)
    return tuple(each[:MAX_WORD] for each in found[:MAX_REFUSED])

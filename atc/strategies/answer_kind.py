"""The kind of value that a task asks for: the model is asked once a run, and answers are held to it as a warning.

A small model often writes a program that runs and answers with the wrong kind of value: a distance where a city was
asked for. One word of a reply that can only be one of five tells such answers from others, at the cost of a second.
The word may be wrong, so it never refuses an answer; what it cannot tell apart is no warning (:data:`UNLIKELY`).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from atc.answers.inferred import members_of
from atc.answers.types import AnswerType
from atc.errors import BudgetExceeded, ModelError, ModelUnavailable
from atc.models.base import Message, Reply
from atc.prompting import prompt
from atc.strategies.context import RunContext

Kind = Literal["number", "text", "list", "yes/no", "record"]
KINDS: tuple[Kind, ...] = get_args(Kind)

UNLIKELY: Mapping[Kind, frozenset[Kind]] = {
    "number": frozenset({"text", "list", "yes/no", "record"}),
    "text": frozenset({"number", "list", "yes/no", "record"}),
    "list": frozenset({"number", "yes/no"}),  # a record may hold one value for each, and a text may tell them all
    "yes/no": frozenset({"number", "list", "record"}),
    "record": frozenset(),  # said of too many tasks that a text answers
}
"""By the kind that the model says: the kinds of values that are another answer than the one that is asked for."""
LIKELY_TYPES: Mapping[Kind, tuple[str, ...]] = {
    "number": ("number", "string"),
    "text": ("string",),
    "list": ("array", "object", "string"),
    "yes/no": ("boolean", "string"),
}
"""By kind, the JSON Schema types that an answer may have before its program runs. They cannot tell texts apart."""
EXAMPLES = 7
"""Of the prompt."""
MAX_TASK = 1_200
"""Characters of a task that are shown: its beginning and its end, where what is asked stands."""
_KINDS_OF_TYPES: Mapping[str, Kind] = {
    "int": "number", "float": "number", "bool": "yes/no", "str": "text",
    "list": "list", "tuple": "list", "set": "list", "frozenset": "list", "deque": "list", "range": "list",
}  # fmt: skip
MAX_REPLY = 16
"""Tokens of the reply: an endpoint may wrap the word in JSON."""
_MAX_READ = 200  # characters of a text in which a number is looked for
_NUMBER = re.compile(r"[^\w\s]?\s?[-+−]?\d[\d,.\s]*(?:[eE][-+]?\d+)?\s?%?")  # with a currency's sign before it
_YES = re.compile(r"(?:yes|no|true|false)\b[^\w]*", re.I)


def kind_of(value: Any) -> Kind | None:
    """The kind of a value; ``None`` where it is nothing, or none of the five.

    A text that is a number alone is a number, and one that says yes or no alone is that.
    """
    match value:
        case bool():
            return "yes/no"
        case int():
            return "number"
        case float():
            return "number" if math.isfinite(value) else None
        case str() if value.strip():
            text = value.strip()[:_MAX_READ]
            return "number" if _NUMBER.fullmatch(text) else "yes/no" if _YES.fullmatch(text) else "text"
        case list() | tuple():
            return "list"
        case dict():
            return "record"
    return None


def unlikely_kind(asked: Kind, value: Any) -> Kind | None:
    """The kind of a value, where that is another one than the task asks for; else ``None``.

    A text with a digit may state a number, and one of digits alone may be a name (a postcode): neither is unlikely.
    """
    found = kind_of(value)
    if found is None or found not in UNLIKELY[asked]:
        return None
    if isinstance(value, str) and (asked != "number" or any(map(str.isdigit, value[:_MAX_READ]))):
        return None
    return found


def likely_type(asked: Kind) -> AnswerType | None:
    """The type that an answer of a kind has, for the check; ``None`` where it may have any."""
    types = LIKELY_TYPES.get(asked)
    return AnswerType({"type": list(types) if len(types) > 1 else types[0]}) if types else None


def kind_of_type(inferred: str) -> Kind | None:
    """The kind that values of an inferred Python type have: of ``list[str]``, a list. ``None`` where they differ."""
    kinds = {_KINDS_OF_TYPES.get(name, "record") for name in map(_name, members_of(inferred)) if name}
    return kinds.pop() if len(kinds) == 1 else None


def _name(member: ast.expr) -> str:
    match member:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Constant(value=value)):
            return type(value).__name__
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name
    return ""


def kind_question(task: str) -> list[Message]:
    """The question what kind of value answers a task: a rule, examples as turns, and the task.

    All but the task is the same for every run. It is not kept on disk as the programs' prompt is: to restore it would
    drop what the embedded model's one slot has read, where asking saves that in memory.
    """
    half = MAX_TASK // 2
    shown = task if len(task) <= MAX_TASK else f"{task[:half]} … {task[-half:]}"
    messages = [Message("system", prompt("answer_kind", part="rule"))]
    for number in range(EXAMPLES):
        messages.append(Message("user", prompt("answer_kind", part="task", number=number)))
        messages.append(Message("assistant", prompt("answer_kind", part="kind", number=number)))
    return [*messages, Message("user", " ".join(shown.split()))]


def kind_of_reply(reply: Reply) -> Kind | None:
    """The kind that a reply to the question names; ``None`` where it names none."""
    return next((kind for kind in KINDS if kind == reply.value), None)


async def asked_kind(context: RunContext) -> Kind | None:
    """Ask the model what kind of value answers the task; ``None`` where it gives no usable reply."""
    question = kind_question(context.task)
    try:
        reply = await context.ask("answer_kind", question, max_tokens=MAX_REPLY, choices=KINDS)
    except (ModelError, ModelUnavailable, BudgetExceeded):
        return None  # a warning less; what was computed stands
    return kind_of_reply(reply)

"""``ask_user``: a program asks the user what neither the task nor a tool tells. It is called through the broker like
any tool: counted, journalled, answered from the journal in a revision.

The answer is the user's own words, so an answer may rest on it. Time in which the user is waited for counts against the
run's own budget alone. Where nobody can answer, the run ends with the question, and goes on when it is resumed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from atc._records.events import Emit
from atc._records.records import FaultCase
from atc.calls.broker import Broker
from atc.calls.question import MAX_QUESTION, MAX_REPLY, Answerer
from atc.errors import CallRefused, InputNeeded, ToolError
from atc.facts import Fault
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset, Transport

NAME = "ask_user"
MAX_QUESTIONS = 5
"""That one run asks, a resumed one in all; what the journal answers is not asked."""
_PROTOCOL = Protocol(
    name=NAME,
    description="Ask the user one question, only about what the task leaves open and no tool can tell. Returns the "
    "user's words.",
    parameters={
        "type": "object",
        "properties": {"question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION}},
        "required": ["question"],
    },
    returns={"type": "string"},
    effect=Effect.READ,
)


class Questions(Transport):
    """Answers ``ask_user`` in one run.

    Args:
        answerer: who answers; ``None`` where nobody does now.
        broker: of the run: its clock stands still while the user is waited for.
        emit: of the run.
        given: questions with the user's answers to them, of before the run went on.
    """

    def __init__(
        self, answerer: Answerer | None, broker: Broker, emit: Emit, given: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._answerer, self._broker, self._emit = answerer, broker, emit
        self._given: dict[str, deque[str]] = defaultdict(deque)
        self._asked = len(_answered(broker))
        for question, reply in (*_answered(broker), *given):
            self._given[question].append(reply)
        self._one_at_a_time = asyncio.Lock()
        self.tool = Tool(_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> str:
        """Ask, and wait for the answer.

        Raises:
            CallRefused: this run has asked as often as it may.
            ToolError: the user cannot answer, or what answers for him gave no usable text.
            InputNeeded: nobody is there.
        """
        question = str(arguments["question"]).strip()
        if not question:
            raise ToolError("the question is empty", status="no_question")
        async with self._one_at_a_time:
            if given := self._given.get(self._broker.redactor.text(question)):
                return given.popleft()
            if self._asked >= MAX_QUESTIONS:
                message = f"this run has asked the user {MAX_QUESTIONS} questions already: go on with what is known"
                raise CallRefused(message, status="too_many_questions")
            self._asked += 1
            self._emit("question_asked", {"question": question, "number": self._asked})
            if self._answerer is None:
                raise InputNeeded(question)
            with self._broker.waiting():
                reply = self._answerer(question)
                if inspect.isawaitable(reply):
                    reply = await reply
        return _usable(reply)

    def beside(self, tools: Toolset) -> Toolset:
        """Return these tools, and ``ask_user`` beside them."""
        return tools if NAME in tools else tools + Toolset([self.tool])


def is_ask_user(tool: Tool | None) -> bool:
    """Return whether that is ``ask_user``, and no user's tool of that name."""
    return tool is not None and tool.protocol is _PROTOCOL


def asked_fault(needed: InputNeeded, run_id: str = "") -> Fault:
    """Return the fault of a run that ends with a question. ``run_id``: by which it can go on, if it can."""
    hint = f"answer it: `atc resume {run_id} --reply TEXT`, or resume({run_id!r}, reply=…)" if run_id else ""
    return Fault(kind="environment", case=FaultCase.ASKED, reason=needed.question, hint=hint)


def _usable(reply: object) -> str:
    if reply is None or (isinstance(reply, str) and not reply.strip()):
        message = "the user cannot answer that: go on with what the task and the tools tell"
        raise ToolError(message, status="no_answer")
    if not isinstance(reply, str):
        raise ToolError(f"ask_user= returned {type(reply).__name__}, not a text or None", status="bad_answer")
    if len(reply) > MAX_REPLY:
        raise ToolError(f"the answer has {len(reply):,} characters; the limit is {MAX_REPLY:,}", status="bad_answer")
    return reply


def _answered(broker: Broker) -> list[tuple[str, str]]:
    journal = broker.journal
    return [
        (str(entry.arguments.get("question", "")).strip(), entry.value)
        for number, entry in sorted(journal.entries.items())
        if entry.tool == NAME and number > journal.before and entry.state == "done" and isinstance(entry.value, str)
    ]

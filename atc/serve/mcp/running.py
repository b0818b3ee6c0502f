"""Calls of clients that go on by themselves: each in a task of its own, which may ask while somebody waits for it.

A client that waits for a call may be gone at any time, and in the stateless protocol (2026-07-28) it must go away to
answer a question. So the work of a call is a task that the gateway owns. It ends when it is done, when nobody waits for
it and it is not asking, or when the gateway closes; also when a question stays unanswered, if its call does not wait
for a yes then.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from atc.calls.approval import ApprovalRequest, Refusal, Verdicts
from atc.errors import UsageError
from atc.serve.mcp.client import ClientId

T = TypeVar("T")

PER_PRINCIPAL, AT_ONCE = 4, 16
"""Calls of one principal's clients, and of all, that may go on at once."""
WAIT_S = 600.0
"""Seconds that a question may stay unanswered."""
ENDING_S = 5.0
"""Seconds that calls get to end when the gateway closes."""


class Busy(UsageError):
    """As many calls go on as may go on at once."""


class AnswerRefused(UsageError):
    """An answer to a question that was not asked, not of this client, of another call, or not any more."""


@dataclass
class Question:
    """A question that waits for an answer.

    Attributes:
        request: the call that is asked about; ``None`` where something else is: a whole plan, or a tool to be kept.
        again: the same tool was asked about before, for the same program.
        words: what is said of something else. ``title``: of the box that is to be ticked for it.
        single: no program makes the call.
        answer: what came back.
    """

    request: ApprovalRequest | None
    again: bool = False
    words: str = ""
    title: str = ""
    single: bool = False
    answer: asyncio.Future[Verdicts] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, answer: Verdicts) -> None:
        """Answer it; the first answer counts."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Running(Generic[T]):
    """The work of one call, and its questions.

    Args:
        owner: whose call it is. Nobody else can answer its questions.
        call: what was called with which arguments; an answer must come with the same.

    Attributes:
        request: of the client that waits for it now: the first, or that with the last answer. Progress goes there.
        rounds: how often the client was answered with a question.
        single: the work is one call of a tool, and no program.
        may_wait: a call about which nobody answered waits for approval; its question then sets ``lapsed``, and whoever
            set this ends the program.
    """

    def __init__(self, owner: ClientId, call: Hashable) -> None:
        self.owner, self.call = owner, call
        self.request: Any = None
        self.rounds = 0
        self.single = False
        self.may_wait, self.lapsed = False, asyncio.Event()
        self.task: asyncio.Task[T] | None = None
        self._questions: list[Question] = []
        self._changed = asyncio.Event()
        self._asked: set[str] = set()
        self._allowed: dict[str, frozenset[str]] = {}

    async def ask(self, request: ApprovalRequest) -> Verdicts:
        """Have a call approved by whoever waits for this work."""
        known = self._allowed.get(request.tool + request.place)
        odd = request.is_repeat or request.same_as or request.instead_of
        plain = not (odd or request.of_strangers or request.of_session)
        if known is not None and plain and known.issuperset(request.warnings):
            return True
        question = Question(request, again=request.tool in self._asked, single=self.single)
        self._asked.add(request.tool)
        return await self._answer(question)

    async def ask_about(self, words: str, title: str) -> Verdicts:
        """Have something else than a call approved by whoever waits for this work: it takes a tick of a box."""
        return await self._answer(Question(None, words=words, title=title))

    async def _answer(self, question: Question) -> Verdicts:
        self._questions.append(question)
        self._changed.set()
        try:
            answer = await question.answer
        finally:
            self._questions.remove(question)
        if self.lapsed.is_set():
            await asyncio.Future()  # its program is ended, and hears of no refusal
        return answer

    def lapse(self, question: Question, why: str) -> None:
        """Settle a question that nobody answered: a no, if its call does not wait."""
        if self.may_wait:
            self.lapsed.set()
        question.settle(Refusal(why))

    def allow_later_calls(self, request: ApprovalRequest) -> None:
        """Do not ask again about this tool, but for what the user has not seen now: repeats, substitutes, warnings, and
        what strangers may have chosen."""
        self._allowed[request.tool + request.place] = frozenset(request.warnings)

    async def question(self) -> Question | None:
        """The next question; ``None`` once the work has ended."""
        assert self.task is not None
        while not self.task.done():
            waiting = [each for each in self._questions if not each.answer.done()]
            if waiting and not self.lapsed.is_set():
                return waiting[0]
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((self.task, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        return None

    def result(self) -> T:
        """What the work ended with.

        Raises:
            UsageError: it was ended from outside.
            BaseException: what the work raised.
        """
        assert self.task is not None
        if self.task.cancelled():
            raise UsageError("this call was ended before it was done; nothing of it goes on")
        return self.task.result()

    def end(self) -> None:
        """Stop the work: what it has begun is cleaned up in its own task."""
        if self.task is not None and not self.task.done():
            self.task.cancel()


@dataclass
class _Offered:
    """A question that went out with a token, and the timer that ends it."""

    running: Running[Any]
    question: Question
    timer: asyncio.TimerHandle


class Runs:
    """All calls that go on.

    Args:
        per_principal: of one principal's clients, at once: what a client calls itself is not counted by.
        at_once: of all.
        wait_s: seconds that a question may stay unanswered.
    """

    def __init__(self, per_principal: int = PER_PRINCIPAL, at_once: int = AT_ONCE, wait_s: float = WAIT_S) -> None:
        self.per_principal, self.at_once, self.wait_s = per_principal, at_once, wait_s
        self._running: set[Running[Any]] = set()
        self._offered: dict[str, _Offered] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, owner: ClientId, call: Hashable, work: Callable[[Running[T]], Awaitable[T]]) -> Running[T]:
        """Begin a call in a task of its own.

        Raises:
            Busy: too many go on already.
        """
        own = sum(each.owner.principal == owner.principal for each in self._running)
        many = own >= self.per_principal
        if self._closed or many or len(self._running) >= self.at_once:
            whose = f"{own} calls of yours" if many else f"{len(self._running)} calls of all clients"
            raise Busy(f"busy: {whose} go on, and no more may at once. Nothing was done: send it again when one ended")
        running: Running[T] = Running(owner, call)

        async def worked() -> T:
            return await work(running)

        running.task = asyncio.create_task(worked())
        self._running.add(running)
        running.task.add_done_callback(lambda task: self._ended(running, task))
        return running

    def offer(self, running: Running[Any], question: Question) -> str:
        """A token with which the answer to a question may come later, once. Unguessable."""
        token = secrets.token_urlsafe(32)
        timer = asyncio.get_running_loop().call_later(self.wait_s, self._expire, token)
        self._offered[token] = _Offered(running, question, timer)
        return token

    def claim(self, token: str, owner: ClientId, call: Hashable) -> tuple[Running[Any], Question]:
        """What an answer with this token is for. The token is used up by that.

        Raises:
            AnswerRefused: it is for nothing that is still asked, of another client, or came with another call.
        """
        offered = self._offered.get(token)
        if offered is None or offered.running.owner != owner or offered.question.answer.done():
            raise AnswerRefused(
                "no question waits for this answer: it was answered before, it is not yours, or it waited too long, "
                "and its call may wait for approval now (`atc runs approvals`). Nothing was done; send the call "
                "without a request state to begin again"
            )
        if offered.running.call != call:
            raise AnswerRefused("the answer came with another call than the question was about: nothing was done")
        del self._offered[token]
        offered.timer.cancel()
        return offered.running, offered.question

    async def aclose(self) -> None:
        """End all that goes on, and wait for it."""
        self._closed = True
        for each in [*self._running]:
            each.end()
        if tasks := [each.task for each in self._running if each.task is not None]:
            await asyncio.wait(tasks, timeout=ENDING_S)

    def _expire(self, token: str) -> None:
        offered = self._offered.pop(token, None)
        if offered is not None:
            offered.running.lapse(offered.question, unanswered(self.wait_s))
            if not offered.running.may_wait:
                offered.running.end()

    def _ended(self, running: Running[Any], task: asyncio.Task[Any]) -> None:
        self._running.discard(running)
        for token in [token for token, each in self._offered.items() if each.running is running]:
            self._offered.pop(token).timer.cancel()
        if not task.cancelled():
            task.exception()  # whoever waited has it; asyncio need not warn


def unanswered(seconds: float) -> str:
    """Why a call is refused whose question nobody answered."""
    return f"the client did not answer the question about this call within {seconds:g} s"

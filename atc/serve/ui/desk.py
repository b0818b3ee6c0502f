"""Questions that wait for approval on a page: whoever may approve sees them, and the first decision counts."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from atc import wording
from atc._host.redaction import Redactor
from atc._records.packing import pack
from atc.calls.approval import ApprovalRequest, Refusal, Verdicts
from atc.serve.pages.run.nodes import brief, plain
from atc.serve.ui.shown_calls import SHOWN_OF_ONE, done_already, shown_arguments, text_of
from atc.serve.ui.streams import Hub

Decision = Literal["approve", "deny"]
Settled = Literal["approve", "deny", "late", "ended"]

MOST_PENDING = 200
"""Questions that wait at once; of more, none is asked."""
REMEMBERED = 500
"""Questions that were settled, whose outcome is still told."""

RUN: ContextVar[tuple[str, str]] = ContextVar("RUN", default=("", ""))
"""The run that goes on, and its task: whose question it is."""


@dataclass
class Question:
    """A call that waits for approval.

    Attributes:
        key: names it.
        run_id: of the run; ``task``: of the run.
        request: what is asked.
        asked_at: seconds since the epoch; ``until``: when it is a no.
        shown: its record, made once.
    """

    key: str
    run_id: str
    task: str
    request: ApprovalRequest
    asked_at: float
    until: float
    decided: asyncio.Future[Settled] = field(repr=False)
    shown: dict[str, Any] = field(default_factory=dict, repr=False)

    def record(self, redactor: Redactor, *, whole: bool = False) -> dict[str, Any]:
        """The question as pages show it, with nothing that steers or hides; ``whole``: with its arguments uncut, as
        values and as a text of which a page changes nothing."""
        request = self.request
        arguments = redactor.value(pack(request.arguments))
        record = {
            "key": self.key,
            "run_id": self.run_id,
            "task": plain(self.task if len(self.task) <= SHOWN_OF_ONE else f"{self.task[:SHOWN_OF_ONE]}…"),
            "tool": brief(request.tool),
            "within": brief(request.within),
            "effect": request.effect.value,
            "description": plain(request.description[:2_000]),
            **shown_arguments(redactor, arguments, request.feeds, request.data_flow),
            "warnings": [plain(each[:500]) for each in request.warnings[:10]],
            "instead_of": [brief(each) for each in request.instead_of],
            "repeats": request.repeats,
            "in_doubt": request.in_doubt,
            "same_as": brief(_same_as(request)),
            **done_already(redactor, request.done),
            "asked_at": self.asked_at,
            "until": self.until,
        }
        return record | ({"whole": arguments, "text": text_of(arguments)} if whole else {})


def _same_as(request: ApprovalRequest) -> str:
    if request.same_as is None or request.repeats:
        return ""
    return wording.repeat("", False, request.same_as) if request.is_repeat else wording.same_call(request.same_as)


class Desk:
    """Where questions wait. For one event loop.

    Args:
        hub: whom to tell of them.
        redactor: of credentials.
        wait_s: seconds that a question may stay unanswered.
    """

    def __init__(self, hub: Hub, redactor: Redactor, wait_s: float) -> None:
        self._hub, self._redactor, self._wait_s = hub, redactor, wait_s
        self._pending: dict[str, Question] = {}
        self._settled: OrderedDict[str, Settled] = OrderedDict()
        self.ending = False

    async def ask(self, request: ApprovalRequest) -> Verdicts:
        """Ask whoever looks at a page (:data:`atc.calls.approval.Asker`). Nobody's answer in time is a no."""
        if len(self._pending) >= MOST_PENDING:
            return Refusal(f"{MOST_PENDING} other calls wait for approval on the page: nobody was asked about this one")
        run_id, task = RUN.get()
        now, decided = time.time(), asyncio.get_running_loop().create_future()
        wait_s = self._wait_s if request.wait_s is None else min(self._wait_s, request.wait_s)
        question = Question(secrets.token_urlsafe(9), run_id, task, request, now, now + wait_s, decided)
        question.shown = await asyncio.to_thread(question.record, self._redactor)  # arguments may be large
        if self.ending:
            return Refusal("the server of the page ends, so nobody could be asked to approve this call")
        self._pending[question.key] = question
        self._hub.tell("approval", question.shown)
        outcome: Settled = "ended"
        try:
            async with asyncio.timeout(self._wait_s):
                outcome = await decided
        except TimeoutError:
            outcome = "late"
        finally:
            del self._pending[question.key]
            self._settled[question.key] = outcome
            while len(self._settled) > REMEMBERED:
                self._settled.popitem(last=False)
            self._hub.tell("settled", {"key": question.key, "run_id": run_id, "decision": outcome})
        if outcome == "late":
            return Refusal(f"nobody approved this call on the page within {self._wait_s:g} s")
        if outcome == "ended":
            return Refusal("the server of the page ended before anybody approved this call")
        return outcome == "approve"

    def pending(self, run_id: str = "") -> list[dict[str, Any]]:
        """The questions that wait, the oldest first: of one run, or all."""
        found = (each for each in self._pending.values() if not run_id or each.run_id == run_id)
        return [each.shown for each in found]

    def whole(self, key: str) -> dict[str, Any] | None:
        """A question with its arguments whole, if it waits. They may be large: for a thread."""
        question = self._pending.get(key)
        return None if question is None else question.record(self._redactor, whole=True)

    def decide(self, key: str, decision: Decision) -> tuple[Settled, bool] | None:
        """Decide over a question.

        Returns:
            What counts, and whether it is this decision; ``None`` where there is no such question.
        """
        question = self._pending.get(key)
        if question is None or question.decided.done():
            before = self._settled.get(key) if question is None else question.decided.result()
            return None if before is None else (before, False)
        question.decided.set_result(decision)
        return decision, True

    def end(self) -> None:
        """Ask nobody any more; what waits is a no."""
        self.ending = True
        for question in self._pending.values():
            if not question.decided.done():
                question.decided.set_result("ended")

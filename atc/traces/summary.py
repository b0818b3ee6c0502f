"""A run in a row: what a list of runs shows of each, and the search for rows by words, numbers and times."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from atc._records.packing import as_text
from atc.errors import TraceError, UsageError
from atc.result import Effect
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import StoredRun
from atc.wording import outcomes

MAX_TASK, MAX_ANSWER = 4_000, 2_000
"""Characters of a summary's task and answer, as JSON writes them in ASCII."""

CUT_OFF, RUNNING = "cut off", "running"
"""The status of a run whose trace has no end: where no process works on it, and where one does."""
WAITING = "waiting"
"""The status of a run that ended because calls of it wait for approval."""

_NOT_SENT = frozenset({"replayed", "refused", "planned", "pending"})
"""How calls end that no tool received."""


def begun(text: str, room: int) -> str:
    """A text that takes ``room`` characters of JSON at most: the whole, or its beginning and an ellipsis."""
    if len(text) * 12 <= room or (len(text) <= room and len(json.dumps(text)) <= room):
        return text
    part = text[:room]
    while len(json.dumps(part)) > room - 6:
        part = part[: len(part) * (room - 6) // (len(json.dumps(part)) + 1)]
    return part + "…"


def _is_endless(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


@dataclass
class RunSummary:
    """What is known of a run without looking at its programs.

    Attributes:
        run_id: its name.
        status: as of its result; ``cut off`` where it has none, which is ``running`` in an
            :class:`~atc.traces.index.RunIndex` while a process works on it; ``damaged``.
        task: the last one, of a conversation; of a long one the beginning, as of a long answer.
        model: its name.
        strategy: its name.
        began: seconds since the epoch; ``None`` where the trace does not say.
        calls: of tools, that were sent; also those that wait, and those that nobody knows the end of.
        replayed: calls that the journal answered.
        revisions: programs of the last task after its first one, of all its resumes.
        tokens: read and written by the model.
        seconds: that all tasks and resumes took; of one that was cut off, until the last that is known of it.
        cost: of all tasks and resumes, in ``currency``.
        answer: of the last task; where its calls with effects returned nothing, that it is done.
        partial: as of its result (:attr:`atc.result.Result.partial`), as ``remarks``, their number.
        waits: for the user, by the last that is known: for a yes or for words.
        until: of one that ended as ``waiting``, when it is too late to approve it, in seconds since the epoch. From
            then on an :class:`~atc.traces.index.RunIndex` shows it as ``denied``.
        unresolved: the answer has a warning that the run did not settle, or rests on a part of a list.
        damage: what is wrong with its trace.
    """

    run_id: str
    status: str = CUT_OFF
    task: str = ""
    model: str = ""
    strategy: str = ""
    began: float | None = None
    calls: int = 0
    replayed: int = 0
    revisions: int = 0
    tokens: int = 0
    seconds: float | None = None
    cost: float | None = None
    currency: str = ""
    answer: str | None = None
    partial: bool = False
    remarks: int = 0
    waits: bool = False
    until: float | None = None
    unresolved: bool = False
    damage: str | None = None

    def __post_init__(self) -> None:
        self._turn: Any = self  # of the last task; of none yet
        self._program: Literal["none", "written", "looked"] = "none"  # the last one of the task
        self._open: set[int] = set()  # numbers of the calls that have begun and not ended
        self._ended_s = 0.0  # of the tasks and resumes before
        self._since: float | None = None  # when the task or resume began that has no end yet
        self._asked: set[int] = set()  # numbers of the calls that wait for the user
        self._started = 0
        self._acted = False  # a call with effects was done for the task

    def record(self) -> dict[str, Any]:
        """Plain JSON; ``damage`` only where there is some. A number that JSON has not is ``None``."""
        found = {name: value for name, value in asdict(self).items() if name != "damage" or value is not None}
        return {name: None if _is_endless(value) else value for name, value in found.items()}

    def add(self, kind: str, data: Mapping[str, Any], at: float) -> None:
        """Take an event into account.

        Raises:
            LookupError, TypeError, ValueError, AttributeError, ArithmeticError: the event is damaged.
        """
        if kind == "run_started":
            self._ended_s, self._since = self.seconds or 0.0, at
        elif self._since is not None and not _is_endless(at):
            self.seconds = self._ended_s + max(0.0, at - self._since)
        match kind:
            case "run_started":
                self.task, self.model, self.status = begun(data["task"], MAX_TASK), data["model"], CUT_OFF
                self.strategy, self.answer = data.get("strategy", ""), None
                self.partial, self.remarks = False, 0
                self.began = at if self.began is None else self.began
                self.unresolved = False
                if data.get("turn") != self._turn:  # else it is a resume
                    self._turn, self._program, self.revisions = data.get("turn"), "none", 0
                    self._acted = False
                self._asked.clear()
            case "approval_asked":
                self._asked.add(data["index"])
                self._begin(data["index"])
            case "question_asked":  # by the call that began last
                self._asked.add(self._started)
            case "call_started":
                self._started = data.get("index", 0)
                self._asked.discard(self._started)
                self._begin(self._started)
            case "call_ended":
                number = data.get("index", 0)
                if data.get("status") in _NOT_SENT:
                    self.calls -= number in self._open  # it was asked about
                    self.replayed += data["status"] == "replayed"
                else:
                    self._begin(number)
                acted = data.get("effect") not in (None, Effect.READ.value)
                self._acted |= acted and data["status"] in ("ok", "replayed")
                self._open.discard(number)
                self._asked.discard(number)
            case "model_ended":
                self.tokens += data["prompt_tokens"] + data["completion_tokens"]
            case "program_written":
                self.revisions += self._program == "written"  # a look costs no revision
                self._program = "written"
            case "program_ended":
                if "looked" in data:
                    self._program = "looked"
                self._asked.clear()
            case "answered":
                self.unresolved = bool(data.get("unresolved"))
            case "run_ended":
                self.status, answer = data["status"], data["answer"]
                self.seconds, self._since = self._ended_s + float(data["usage"]["seconds"]), None
                if self.status == "answered" and self._acted and data.get("value") is None:
                    answer = outcomes.DONE if answer in ("", as_text(None)) else answer
                self.answer = None if answer is None else begun(str(answer), MAX_ANSWER)
                self.partial, self.remarks = bool(data.get("partial")), len(data.get("remarks", ()))
                pending = data.get("pending", ()) if self.status == "waiting" else ()
                self.until = max((float(call["until"]) for call in pending), default=None)
                if (cost := data.get("cost")) is not None:
                    self.cost = float(Decimal(str(self.cost or 0)) + Decimal(str(cost)))
                    self.currency = data.get("currency", "")
        self.waits = self.status in ("needs_input", WAITING) or (self.status == CUT_OFF and bool(self._asked))

    def _begin(self, number: int) -> None:
        if number not in self._open:
            self._open.add(number)
            self.calls += 1


def summary_of(stored: StoredRun) -> RunSummary:
    """The summary of a run. Damage is told, not raised.

    Raises:
        OSError: there is no trace.
        UsageError: a newer version of ATC wrote it.
    """
    row, damage = RunSummary(stored.run_id), list[TraceError]()
    for number, event in stored.numbered(damage.append):
        try:
            row.add(event["kind"], event["data"], event["at"])
        except FAILS as error:
            damage.append(damaged(stored.where, number, error))
    if damage:
        row.status, row.damage = "damaged", str(damage[0])
    return row


MAX_QUERY = 500
"""Characters of a query."""
NUMBERS = ("tokens", "calls", "revisions", "seconds", "cost")
FORMS = (
    "words, status:answered, model:NAME, tokens:>1000 (or calls, revisions, seconds, cost), since:2026-01-31, until:"
)
_IS_NUMBER = re.compile(r"(<=|>=|<|>|=?)([0-9]{1,15}(?:\.[0-9]{1,9})?)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "": operator.eq, "=": operator.eq,
}  # fmt: skip

Test = Callable[[RunSummary], bool]


def search(query: str, status: str = "") -> Test:
    """What tells whether a summary fits a query.

    Args:
        query: all of :data:`FORMS`, apart by spaces; every one must fit. Empty: all fit.
        status: of the run; any without.

    Raises:
        UsageError: a part is not understood.
    """
    if len(query) > MAX_QUERY:
        raise UsageError(f"a query has at most {MAX_QUERY} characters")
    tests = [_test(part) for part in query.split()]
    if status:
        tests.append(lambda row: row.status == status)
    return lambda row: all(test(row) for test in tests)


def _test(part: str) -> Test:
    name, colon, value = part.partition(":")
    if not colon or not value:
        return _word(part)
    match name:
        case "status":
            return lambda row: row.status.replace(" ", "-") == value.replace(" ", "-")
        case "model" | "strategy":
            return lambda row: value.casefold() in getattr(row, name).casefold()
        case "since" | "until":
            return _time(name, value)
        case _ if name in NUMBERS:
            return _number(name, value)
    return _word(part)


def _word(word: str) -> Test:
    wanted = word.casefold()
    return lambda row: any(
        wanted in text.casefold()
        for text in (row.task, row.run_id, row.status, row.model, row.strategy, row.answer or "")
    )


def _number(name: str, value: str) -> Test:
    found = _IS_NUMBER.fullmatch(value)
    if found is None:
        raise UsageError(f"{name}: takes a number such as {name}:>100, not {value!r}")
    compare, wanted = _COMPARE[found[1]], float(found[2])
    return lambda row: (has := getattr(row, name)) is not None and compare(float(has), wanted)


def _time(name: str, value: str) -> Test:
    try:
        at = datetime.fromisoformat(value)
        if name == "until" and len(value) == len("2026-01-31"):
            at += timedelta(days=1)
        bound = at.timestamp()
    except (ValueError, OverflowError, OSError):  # some clocks end before the calendar does
        raise UsageError(
            f"{name}: takes a day or a time such as 2026-01-31 or 2026-01-31T18:00, not {value!r}"
        ) from None
    if name == "since":
        return lambda row: row.began is not None and row.began >= bound
    return lambda row: row.began is not None and row.began < bound

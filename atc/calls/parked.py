"""Writes that wait for approval: what a run that ended keeps of them, who decided, and what a yes holds for.

``approve="park"``: a call that needs approval becomes a :class:`ParkedCall` of the journal, and the run ends as
``waiting``. The yes or no is a record of the same journal, which one process at a time may write: the first decider
counts, also after a restart and from another machine. A resume runs the program again. A call that equals one with a
yes, argument for argument, is made; any other is asked about anew.

A yes holds for one exact call, of the tool as it was, until :attr:`ParkedCall.until`, and only as long as the same
reads come before it and say the same (:class:`ReadsAgain`): what a program decides by a read cannot be told from
outside.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc import wording
from atc._records.packing import pack, unpack
from atc._records.records import ChangedRead, PendingCall
from atc.calls.entry import CallEntry, CallKey, same_tool
from atc.calls.journal_records import source_of
from atc.calls.json_values import canonical
from atc.calls.program_start import LAST_TIME
from atc.calls.tool_digest import parts_of as parts_of
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import SourceKey
from atc.tools.tool import Tool

WAITS_S = 7 * 86_400.0
"""Seconds for which a parked call waits for approval."""
MAX_SHOWN_CHANGE = 200
"""Characters of a value that changed."""
AN_ERROR = "an error"
"""What a read that failed answers. How errors are worded differs from one time to the next."""


@dataclass(frozen=True)
class Decision:
    """A yes or no to one parked call: by whom, and when (seconds since 1970).

    Attributes:
        signature: of an approver (:mod:`atc.calls.permissions.approvers`); empty where whoever asks may decide.
        holds: it is of somebody who may decide; else the call is asked about again.
    """

    yes: bool
    by: str
    at: float
    signature: str = ""
    holds: bool = True


@dataclass
class ParkedCall:
    """A call with effects that was not made, for it waits for approval.

    Attributes:
        number: of the call in the run that asked first.
        key: of what would be sent.
        parts: of the tool as it was (:func:`atc.calls.tool_digest.parts_of`).
        at: when it was parked, in seconds since 1970. ``until``: when it is too late to approve it.
        shown: what a person is shown, credentials masked.
        instead: number of the parked call in whose place it is asked about again; 0: none.
        request: number of the task of a conversation that asks.
        round: in which it was asked about (:class:`ReadsAgain`).
        decision: of a person; ``None`` while it waits.
    """

    number: int
    key: CallKey
    parts: Mapping[str, str]
    at: float
    until: float
    shown: PendingCall
    instead: int = 0
    request: int = 0
    round: int = 0
    decision: Decision | None = None

    @property
    def is_denied(self) -> bool:
        """Return whether somebody said no to it who may decide."""
        return self.decision is not None and self.decision.holds and not self.decision.yes

    @property
    def digest(self) -> str:
        """Return what names exactly this question: the call, its tool, and all that a person is shown of it."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode("ascii")).hexdigest()

    def record(self) -> dict[str, Any]:
        """Return it as the journal keeps it."""
        source = {} if self.key.source is None else {"source": list(self.key.source)}
        return {
            "pending": self.number,
            "tool": self.key.tool,
            "key": self.key.digest,
            **source,
            "parts": dict(self.parts),
            "at": self.at,
            "until": self.until,
            "shown": pack(self.shown.model_dump(mode="json")),
            "instead": self.instead,
            "request": self.request,
        }


def digest_of(tool: Tool, key: str = "") -> str:
    """Return what changes when a part of a tool does."""
    return hashlib.sha256(canonical(parts_of(tool, key)).encode()).hexdigest()


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the parts that are not what they were."""
    return tuple(part for part in dict.fromkeys((*before, *now)) if before.get(part) != now.get(part))


class ParkedCalls:
    """The parked calls of a journal, by their numbers, and those that the program which runs has asked for.

    Args:
        entries: the calls of the journal: a yes that one was made on is used up.

    Attributes:
        run_key: under which the run takes digests of tools; empty while it needs none.
    """

    def __init__(self, entries: Mapping[int, CallEntry]) -> None:
        self.of_number: dict[int, ParkedCall] = {}
        self.run_key = ""
        self._of_digest: dict[str, list[ParkedCall]] = {}
        self._entries = entries
        self._replaced: set[int] = set()
        self._asked: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.of_number)

    @property
    def first(self) -> int | None:
        """Return the number of the first parked call that may still be made; ``None`` without one."""
        return min((call.number for call in self._left() if not call.is_denied), default=None)

    @property
    def last(self) -> int:
        """Return the number of the last parked call; 0 without one."""
        return max(self.of_number, default=0)

    @property
    def since(self) -> float:
        """Return when the last call was parked, in seconds since 1970."""
        return max(call.at for call in self.of_number.values())

    def add(self, call: ParkedCall) -> None:
        """Note a call that was parked."""
        self.of_number[call.number] = call
        self._of_digest.setdefault(call.key.digest, []).append(call)
        self._asked.add(call.number)
        if call.instead:
            self._replaced.add(call.instead)

    def rounds(self) -> set[int]:
        """Return the rounds in which those were asked about that may still be made."""
        return {call.round for call in self._left() if not call.is_denied}

    def begin_program(self) -> None:
        """Let the next program ask for all of them again."""
        self._asked.clear()

    def ask(self, key: CallKey, request: int) -> ParkedCall | None:
        """Return the parked call that equals one which the program makes: the n-th equals the n-th. Beyond the last,
        it is one with a no: that holds however often the call comes again.

        Args:
            key: of the call.
            request: number of the task of a conversation that makes it: no decision about another task is for it.
        """
        equal = self._equal(key, request)
        found = next((call for call in equal if call.number not in self._asked), None)
        if found is not None:
            self._asked.add(found.number)
        return found or next((call for call in equal if call.is_denied), None)

    def ask_denied(self, key: CallKey, request: int) -> ParkedCall | None:
        """Return as :meth:`ask` does what has a no; for any other, nothing is asked."""
        equal = self._equal(key, request)
        found = next((call for call in equal if call.number not in self._asked), None)
        return self.ask(key, request) if found is None or found.is_denied else None

    def denied(self, request: int) -> list[ParkedCall]:
        """Return the calls with a no, of one task of a conversation, in order."""
        return [call for call in self._left() if call.is_denied and call.request == request]

    def forget_denied(self) -> None:
        """Let no earlier no stand: the user asks for something new."""
        self._replaced.update(call.number for call in self.of_number.values() if call.is_denied)

    def effect_of(self, tool: str, source: SourceKey | None) -> Effect | None:
        """Return the effect of a tool as it was when a call of it was parked; ``None`` where none was."""
        asked = CallKey(tool, "", source)
        return next((Effect(e.shown.effect) for e in self.of_number.values() if same_tool(e.key, asked)), None)

    def waiting(self, request: int | None = None) -> list[ParkedCall]:
        """Return the calls that wait for a decision, of one task of a conversation or of all, in order."""
        return [call for call in self._left() if call.decision is None and request in (None, call.request)]

    def asked(self) -> list[ParkedCall]:
        """Return the calls that wait for a decision, of those that the program which runs has asked for."""
        return [call for call in self.waiting() if call.number in self._asked]

    def undecided(self, number: int) -> ParkedCall:
        """Return the call of this number, which waits for a decision.

        Raises:
            UsageError: no such call waits, or it was decided before: the first decision counts.
        """
        call = self.of_number.get(number)
        if call is None or number in self._replaced:
            raise UsageError(f"call {number} does not wait for approval")
        if (known := call.decision) is not None:
            raise UsageError(wording.decided_before(number, yes=known.yes, by=known.by, at=known.at))
        return call

    def apply_pending(self, record: dict[str, Any], round: int) -> None:
        """Read back a parked call; ``round``: in which its record stands."""
        call = _read_parked(record)
        call.round = round
        if call.number in self.of_number:
            raise ValueError(f"call {call.number} was parked before")
        self.add(call)

    def apply_decision(self, record: dict[str, Any]) -> None:
        """Read back a decision about a parked call."""
        number, decision = _read_decision(record)
        if self.of_number[number].decision is not None:
            raise ValueError(f"call {number} was decided before")
        self.of_number[number].decision = decision

    def last_made(self, before: int) -> int:
        """Return the number of the last call behind this one that an approval made, or may have been; 0: none."""
        made = (e.number for e in self._entries.values() if e.approved and e.state != "refused" and e.number > before)
        return max(made, default=0)

    def _left(self) -> list[ParkedCall]:
        """Return the calls that were not made, nor asked about again; one that its tool was never handed was not."""
        if not self.of_number:
            return []
        entries = self._entries.values()
        used = {entry.approved for entry in entries if entry.approved and (entry.sent or entry.state != "refused")}
        gone = used | self._replaced
        return [call for number, call in self.of_number.items() if number not in gone]

    def _equal(self, key: CallKey, request: int) -> list[ParkedCall]:
        known = [call for call in self._of_digest.get(key.digest, ()) if call.request == request]
        if not any(same_tool(call.key, key) for call in known):
            return []
        left = {call.number for call in self._left()}
        return [call for call in known if call.number in left and same_tool(call.key, key)]


class ReadsAgain:
    """Holds the reads of a run that goes on after it waited against what they answered before.

    A run that waits, goes on and waits again has *rounds*: each call is asked about in one of them. What a person saw
    then rests on the reads of that round, so its yes is void as soon as one of them says something else, or as a read
    is made that was not made then: the program has come another way.
    """

    def __init__(self) -> None:
        self._rounds: list[dict[CallKey, list[CallEntry]]] = []
        self._made: Counter[CallKey] = Counter()
        self._changed: dict[int, list[ChangedRead]] = {}

    @property
    def round(self) -> int:
        """Return the number of the round that goes on, from 0."""
        return len(self._rounds)

    def begin_program(self) -> None:
        """Let the next program make its reads from the first one on."""
        self._made.clear()

    def note_answered(self, key: CallKey) -> None:
        """Note that a read was answered, from the journal or by its tool."""
        self._made[key] += 1

    def begin_round(self, reads: Iterable[CallEntry]) -> None:
        """End a round, in which these reads counted."""
        before: dict[CallKey, list[CallEntry]] = {}
        for entry in sorted(reads, key=lambda entry: entry.number):
            before.setdefault(entry.key, []).append(entry)
        self._rounds.append(before)

    def changed_since(self, asked: int) -> Sequence[ChangedRead]:
        """Return which reads say something else than in this round, or were not made in it."""
        return self._changed.get(asked, ())

    @property
    def changes(self) -> Sequence[ChangedRead]:
        """Return which reads say something else than when a call was asked about last."""
        return [change for change in self.changed_since(max(self._changed, default=0)) if not change.is_new]

    def compare(
        self, number: int, key: CallKey, value: Any, rounds: Iterable[int], *, failed: bool = False
    ) -> ChangedRead | None:
        """Hold the answer of a read, or that it failed, against what it was in some rounds; the n-th against the n-th.

        Args:
            number: of the read now.
            key: of it.
            value: its answer.
            rounds: that count: calls that were asked about in them wait, or have a yes.

        Returns:
            The change since the last of these rounds, if there is one.
        """
        place, found = self._made[key], None
        self._made[key] = place + 1
        for asked in sorted(rounds):
            recorded = self._rounds[asked].get(key, ()) if asked < self.round else None
            if recorded is None:
                continue
            entry = recorded[place] if place < len(recorded) else None
            found = ChangedRead(tool=key.tool, call=number, is_new=True) if entry is None else None
            if entry is not None:
                found = _change(entry, value, failed)
            if found is not None:
                self._changed.setdefault(asked, []).append(found)
        return found


def _change(entry: CallEntry, value: Any, failed: bool) -> ChangedRead | None:
    had_failed = entry.state != "done"
    found: tuple[tuple[str | int, ...], str, str] | None
    if had_failed and failed:
        return None
    if had_failed or failed:
        found = (), AN_ERROR if had_failed else _shown(entry.value), AN_ERROR if failed else _shown(value)
    elif (found := first_difference(entry.value, value)) is None:
        return None
    path, before, after = found
    return ChangedRead(tool=entry.tool, call=entry.number, path=path, before=before, after=after)


def first_difference(before: Any, after: Any) -> tuple[tuple[str | int, ...], str, str] | None:
    """Return the path of the first difference of two JSON values, and what stands there; ``None`` if they are equal."""
    path: list[str | int] = []
    while True:
        if isinstance(before, dict) and isinstance(after, dict):
            step = next((k for k in before if k not in after or not _equal(before[k], after[k])), None)
            step = step if step is not None else next((k for k in after if k not in before), None)
            if step is None:
                return None
            if step not in before or step not in after:
                return (*path, step), _shown(before.get(step)), _shown(after.get(step))
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                return tuple(path), f"{len(before):,} items", f"{len(after):,} items"
            step = next((i for i, (a, b) in enumerate(zip(before, after, strict=True)) if not _equal(a, b)), None)
            if step is None:
                return None
        else:
            return None if _equal(before, after) else (tuple(path), _shown(before), _shown(after))
        path.append(step)
        before, after = before[step], after[step]


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or one != other:
        return False
    return not isinstance(one, dict | list | float) or _text(one) == _text(other)


def _text(value: Any) -> str:
    """Return JSON text, in which values are two that Python takes for equal: ``True``, 1 and 1.0."""
    return json.dumps(pack(value), sort_keys=True)


def _shown(value: Any) -> str:
    return repr(value)[:MAX_SHOWN_CHANGE]


def _read_parked(record: dict[str, Any]) -> ParkedCall:
    number, at, until = record["pending"], record["at"], record["until"]
    key = CallKey(record["tool"], record["key"], source_of(record.get("source")))
    texts = (key.tool, key.digest, *record["parts"].values())
    numbers = (number, record["instead"], record["request"])
    if not all(isinstance(each, str) for each in texts) or not all(type(each) is int for each in numbers):
        raise ValueError("not a call that waits")
    if number < 1 or not (is_time(at) and is_time(until)):
        raise ValueError("not the number and times of a call that waits")
    shown = PendingCall.model_validate_json(json.dumps(unpack(record["shown"])))
    if (shown.index, shown.until) != (number, until) or Effect(shown.effect) is Effect.READ:
        raise ValueError("it shows another call than the one that waits")
    return ParkedCall(number, key, record["parts"], at, until, shown, record["instead"], record["request"])


def is_time(at: Any) -> bool:
    """Return whether a value is a time in seconds since 1970 that can be shown: not NaN, and before the year 10000."""
    return type(at) in (int, float) and 0 <= at < LAST_TIME


def decision_record(number: int, decision: Decision) -> dict[str, Any]:
    """Return the journal's record of a decision."""
    signed = {"signature": decision.signature} if decision.signature else {}
    return {"decision": number, "yes": decision.yes, "by": decision.by, "at": decision.at, **signed}


def _read_decision(record: dict[str, Any]) -> tuple[int, Decision]:
    number, signature = record["decision"], record.get("signature", "")
    decision = Decision(record["yes"], record["by"], record["at"], signature)
    texts = (decision.by, signature)
    if type(number) is not int or type(decision.yes) is not bool or not all(isinstance(each, str) for each in texts):
        raise ValueError("not a decision")
    if not is_time(decision.at):
        raise ValueError("not the time of a decision")
    return number, decision

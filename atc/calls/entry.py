"""One call in a journal, and the key by which two calls are the same.

A tool may be renamed while a run is interrupted, or between two of its programs: another server lists a tool of that
name, or the user joins another source. So two calls are the same if their arguments are equal, and their tools are: by
what they are known by at their sources, or, where that is unknown of one, by the name that programs use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from atc.calls.idempotency import SentKey
from atc.calls.json_values import canonical
from atc.result import Effect
from atc.schemas.protocol import SourceKey
from atc.tools.tool import NextPage

if TYPE_CHECKING:
    from atc.calls.settled import Settlement


class CallKey(NamedTuple):
    """Identifies a call.

    Attributes:
        tool: its name in programs.
        digest: of the canonical arguments.
        source: what the tool is known by at its source; ``None`` where that is unknown.
    """

    tool: str
    digest: str
    source: SourceKey | None = None

    @property
    def handles(self) -> tuple[CallKey, ...]:
        """Return keys by which a call that may be the same is found: by the name alone, and by the source alone."""
        by_name = CallKey(self.tool, self.digest)
        return (by_name,) if self.source is None else (by_name, CallKey("", self.digest, self.source))


def same_tool(one: CallKey, other: CallKey) -> bool:
    """Return whether two calls are of one tool."""
    if one.source is not None and other.source is not None:
        return one.source == other.source
    return one.tool == other.tool


def call_key(tool: str, arguments: dict[str, Any], source: SourceKey | None = None) -> CallKey:
    """Return the key of a call: two calls with one key are the same call.

    Raises:
        ValueError: the arguments have no canonical form.
    """
    return CallKey(tool, hashlib.sha256(canonical(arguments).encode("utf-8", "surrogatepass")).hexdigest(), source)


class KnownTools:
    """The tools of a journal's calls, by both of what they are known by."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[SourceKey | None, None]] = {}
        self._names: dict[SourceKey, dict[str, None]] = {}

    def note(self, key: CallKey) -> None:
        """Note the tool of a call."""
        self._sources.setdefault(key.tool, {})[key.source] = None
        if key.source is not None:
            self._names.setdefault(key.source, {})[key.tool] = None

    def same(self, key: CallKey) -> Iterator[CallKey]:
        """Yield the keys that the same call may have among those that were noted."""
        for source in self._sources.get(key.tool, ()):
            if source is None or key.source is None or source == key.source:
                yield key._replace(source=source)
        if key.source is not None:
            for name in self._names.get(key.source, ()):
                if name != key.tool:
                    yield key._replace(tool=name)


@dataclass(frozen=True)
class Unread:
    """Describes why the response of a call that was done cannot be had: in words, and as a status."""

    message: str
    status: str


@dataclass
class CallEntry:
    """One call that was begun. ``state`` is ``open`` until its outcome is written.

    ``arguments`` are for people to read, credentials masked; ``key`` is made from what was really sent.

    Attributes:
        stage: number of the stage that made it, from 0.
        sent: whether its tool may have received it. Until then it surely did nothing.
        marked: whether the record that it is sent was given to be written: it is sent once that is written.
        original: the arguments as the program gave them, masked too, where a repair changed them.
        unread: of a call that is done, why ``value`` is not its response.
        failure: of a call that failed, what its tool said; also where nobody knows whether it was done.
        approved: number of the parked call whose yes let it through (:mod:`atc.calls.parked`); 0: none.
        settled: of a call that was in doubt, who said since whether it was done; ``None`` where nobody did.
        after_parked: of a read, whether its program had parked a write before: it did not see what that would change.
        idempotency: the idempotency key that a write bears; ``None``: none.
        again: number of the call in doubt that this one sends again, with its key; 0: none.
        settled_by: of a call that was in doubt, the number of the call that sent it again and was answered; 0: none.
    """

    number: int
    key: CallKey
    arguments: dict[str, Any]
    effect: Effect
    attempt: int
    stage: int = 0
    sent: bool = field(default=False, compare=False)
    marked: bool = field(default=False, compare=False)
    state: Literal["open", "done", "refused", "unknown"] = "open"
    value: Any = None
    next_page: NextPage = None
    original: dict[str, Any] | None = None
    unread: Unread | None = None
    failure: str = field(default="", compare=False)
    approved: int = 0
    after_parked: bool = False
    settled: Settlement | None = field(default=None, compare=False)
    idempotency: SentKey | None = None
    again: int = 0
    settled_by: int = 0

    @property
    def tool(self) -> str:
        """Return the tool's name."""
        return self.key.tool

    @property
    def observation(self) -> Any:
        """Return what a model is shown of a call that is done: its value, or why it has none."""
        return self.value if self.unread is None else self.unread.message

    @property
    def in_doubt(self) -> bool:
        """Return whether the call has effects and its outcome is unknown."""
        return self.effect is not Effect.READ and self.is_unknown

    @property
    def is_settled_as_not_done(self) -> bool:
        """Return whether the call was in doubt, and a read or a person says that it was not done."""
        return self.settled is not None and not self.settled.done

    @property
    def is_unknown(self) -> bool:
        """Return whether its tool may have received the call, and its outcome is unknown."""
        return not self.settled_by and (self.state == "unknown" or (self.state == "open" and self.sent))


# ----------------------------------------------------------------------------------------------------------------------
# The reads of a conversation's earlier tasks that a later one may use again, and when each was made.


MOST = 1_000
"""Reads that are kept: the newest."""


class EarlierReads:
    """The times of reads, by a clock that nobody sets.

    A write that begins or ends leaves none of the reads that were begun before.
    """

    def __init__(self) -> None:
        self._began: dict[int, float] = {}  # of this task and those before, the oldest first
        self._of_key: dict[CallKey, CallEntry] = {}  # of earlier tasks, that nobody has asked for in this one

    def note(self, entry: CallEntry) -> None:
        """Note that a call has just begun, or ended."""
        if entry.effect is not Effect.READ:
            self._began.clear()
            self._of_key.clear()
        elif entry.state == "open":
            self._began[entry.number] = monotonic()
            if len(self._began) > MOST:
                del self._began[next(iter(self._began))]
        elif entry.state != "done":
            self._began.pop(entry.number, None)

    def same_time(self, entry: CallEntry, earlier: CallEntry) -> None:
        """Note that what a read is answered with was read when an earlier one was."""
        if earlier.number in self._began:
            self._began[entry.number] = self._began[earlier.number]

    def end_task(self, entries: Mapping[int, CallEntry]) -> None:
        """Let what the task that ends has read be used again. The values of all other calls are needed no more."""
        done = {number: entries[number] for number in self._began if entries[number].state == "done"}
        self._began = {number: self._began[number] for number in done}
        self._of_key = {entry.key: entry for entry in sorted(done.values(), key=self._age, reverse=True)}
        for number, entry in entries.items():
            if number not in done:
                entry.value = None  # a long conversation does not hold it

    def take(self, key: CallKey, seconds: float) -> tuple[CallEntry, float] | None:
        """Return the newest of the same reads, and how many seconds old it is, if that is no more than ``seconds``."""
        entry = self._of_key.pop(key, None)
        if entry is None or entry.number not in self._began or (age := self._age(entry)) > seconds:
            return None
        return entry, age

    def _age(self, entry: CallEntry) -> float:
        return monotonic() - self._began[entry.number]

"""What the author of a run's programs had seen when it wrote them.

A model that has seen text which strangers write may write what they want. So a program is not trusted to write what it
likes once a tool whose text strangers write (:attr:`atc.schemas.protocol.Protocol.untrusted`) has answered: in an
attempt before it, before a ``look``, in an earlier task of its conversation, or in a run that was reported to the model
of an MCP client. Whether a prompt showed the answer is not asked: what was answered may have been shown. A write that
stood in a program of before is what it was (:mod:`atc.programs.same_write`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc._records.origins import CallOrigins
    from atc.calls.attempt import Attempt
    from atc.programs.same_write import Code
    from atc.run.run import Run
    from atc.traces.stores.base import StoredRun

MAX_WRITTEN, MAX_TEXT = 50, 200_000
"""Programs of before that an author is known by, the latest, and their characters together."""


@dataclass(frozen=True)
class Written:
    """A program that was written before its author saw what an untrusted tool answered.

    ``inputs``: ``None``: they are not known any more. ``names``: of these values.
    """

    source: str
    inputs: Mapping[str, Any] | None
    names: frozenset[str]

    def later(self) -> Written:
        """Return what is remembered of it when its run has ended: no values."""
        return Written(self.source, None, self.names)


@dataclass
class Past:
    """What an author of several runs has seen and written in those before: of a conversation, of an MCP session.

    Attributes:
        saw: the untrusted tools whose answers it has seen.
        written: the programs that it wrote before the first of them.
    """

    saw: set[str] = field(default_factory=set)
    written: deque[Written] = field(default_factory=lambda: deque(maxlen=MAX_WRITTEN))

    def remember(self, written: Iterable[Written]) -> None:
        """Keep these programs; the oldest make room."""
        self.written.extend(each.later() for each in written)
        while sum(len(each.source) for each in self.written) > MAX_TEXT:
            self.written.popleft()


class Author:
    """Knows what the author of one run's programs had seen before each of them.

    Args:
        past: of its author, where that is known: programs of this run are added.
    """

    def __init__(self, run: Run, past: Past | None = None) -> None:
        self._run, self._past = run, Past() if past is None else past
        self._is_untrusted = run.broker.is_untrusted
        self._written: list[Written] = [*self._past.written]
        self._known = {each.source for each in self._written}
        self._heard, self._counted = set[str](), 0
        self._were_untrusted: frozenset[str] = frozenset()
        self._source, self._saw = "", frozenset[str]()
        self._codes: dict[str, Code] = {}
        self._stood: dict[tuple[str, int], bool] = {}

    # -- what it has seen ----------------------------------------------------------------------------------------------

    @property
    def heard(self) -> frozenset[str]:
        """Return the untrusted tools that have answered so far, in this run and those before, failures included."""
        entries = self._run.broker.journal.entries
        for entry in islice(entries.values(), self._counted, None):
            if self._may_be_untrusted(entry.tool, self._run.broker.name_now(entry.tool, entry.key.source)):
                self._heard.add(entry.tool)
        self._counted = len(entries)
        return frozenset(self._heard | self._past.saw)

    @property
    def untrusted(self) -> list[str]:
        """Return the tools whose answers strangers write, of those that programs can call."""
        return [name for name in self._run.broker.tools if self._is_untrusted(name)]

    def _may_be_untrusted(self, tool: str, now: str | None) -> bool:
        """Whether a tool of the journal is untrusted, or may have been: it is not there any more, and others are."""
        if any(self._is_untrusted(name) for name in (tool, now) if name is not None):
            return True
        return now is None and not _is_own(tool) and (tool in self._were_untrusted or bool(self.untrusted))

    def restore(self, stored: StoredRun) -> None:
        """Take up a run that goes on: what was written in it before, by its trace, which may be long.

        What an untrusted tool answered is in the journal, so a trace that was cut off hides none of that: it only lacks
        programs, and these count as written since.
        """
        entries = self._run.broker.journal.entries.values()
        if not any(self._is_untrusted(tool) or self._is_gone(tool) for tool in {entry.tool for entry in entries}):
            return
        heard, is_whole = False, not stored.why_strange()
        found: list[Written] = []
        inputs: Mapping[str, Any] = {}

        def damaged(_: Exception) -> None:
            nonlocal is_whole
            is_whole = False

        for _, event in stored.numbered(damaged):
            kind, data = event["kind"], event["data"]
            if kind == "program_started":
                self._were_untrusted |= _names(data.get("untrusted"))
            elif kind == "stage_started":
                inputs = _unpacked(data)
            elif kind in ("call_started", "call_ended"):
                tool = str(data.get("tool"))
                heard = heard or self._is_untrusted(tool) or tool in self._were_untrusted or self._is_gone(tool)
            elif kind == "program_written":
                heard = heard or bool(data.get("saw"))
                if not heard and isinstance(source := data.get("program"), str):
                    given = _unpacked(data) if "inputs" in data else inputs
                    found.append(Written(source, given, frozenset(given)))
        self._counted, self._heard = 0, set()  # some tools that are gone were untrusted
        for each in found if is_whole else ():
            self._keep(each)

    def _is_gone(self, tool: str) -> bool:
        return tool not in self._run.all_tools and tool not in self._run.broker.tools and not _is_own(tool)

    # -- what it writes ------------------------------------------------------------------------------------------------

    def wrote(self, source: str) -> list[str]:
        """Note that the author has just written a program, and return the untrusted tools whose answers it saw."""
        saw = self.heard
        if not saw and self.untrusted:
            self._keep(Written(source, dict(self._run.inputs), frozenset(self._run.inputs)))
        return sorted(saw)

    def begins(self, source: str) -> list[str]:
        """Note that a program begins, or that calls without one do, and return the untrusted tools that it can call.

        Args:
            source: the program; one that was not said to be written (:meth:`wrote`) counts as written now. Empty where
                a strategy makes calls without one: they are written as they are made.
        """
        self.wrote(source)
        self._source, self._stood = source, {}
        self._saw = self.heard
        if self._saw and source and any(self._is_same(each) for each in self._written):
            self._saw = frozenset()
        return self.untrusted

    def ends(self) -> None:
        """Note that the run has ended: whoever is told of it has seen what it has."""
        self._past.saw |= self.heard

    def _keep(self, written: Written) -> None:
        if written.source and written.source not in self._known:
            self._known.add(written.source)
            self._written.append(written)
            self._past.remember([written])

    def _is_same(self, before: Written) -> bool:
        return before.source == self._source and self._has_same_inputs(before, {*before.names, *self._run.inputs})

    def _has_same_inputs(self, before: Written, names: Collection[str]) -> bool:
        now = self._run.inputs
        used = [name for name in names if name in before.names or name in now]
        if before.inputs is None:
            return not used
        return all(name in now and name in before.inputs and now[name] == before.inputs[name] for name in used)

    # -- what it may have been told to write ---------------------------------------------------------------------------

    @property
    def saw_any(self) -> bool:
        """Return whether the author of the program that runs had seen what an untrusted tool answered."""
        return bool(self._seen)

    @property
    def _seen(self) -> frozenset[str]:
        """What had been seen before the program was written; a call without one is written as it is made."""
        return self._saw if self._source else self.heard

    def saw(self, attempt: Attempt, origins: CallOrigins) -> tuple[str, ...]:
        """Return the untrusted tools whose answers the author of a call had seen; empty where the call stood, as it is,
        in a program that was written before. To be asked in a thread.

        Args:
            origins: of its arguments. Where one is unknown, so is what the program does, and the call is not known
                again.
        """
        if attempt.by_model:  # the model was shown the arguments, and gave others
            return tuple(sorted(self._seen | self.heard))
        saw = self._seen
        if not saw or (_is_followed(origins) and self._stood_before(attempt.tool, attempt.request.line)):
            return ()
        return tuple(sorted(saw))

    def _stood_before(self, tool: str, line: int) -> bool:
        if (tool, line) not in self._stood:
            self._stood[tool, line] = self._stood_in_any(tool, line)
        return self._stood[tool, line]

    def _stood_in_any(self, tool: str, line: int) -> bool:
        code = self._code(self._source)
        until = code.until(tool, line)
        names, broker = code.free_names(until), self._run.broker
        tools = {name: broker.reads(name) for name in broker.tools}
        return any(
            self._has_same_inputs(each, names) and code.stood_in(self._code(each.source), until, tools)
            for each in [*self._written]
        )

    def _code(self, source: str) -> Code:
        from atc.programs.program import Program
        from atc.programs.same_write import Code

        if source not in self._codes:
            self._codes[source] = Code(Program(source))
        return self._codes[source]


def _is_followed(origins: CallOrigins) -> bool:
    return bool(origins) and not any(each.kind == "unknown" for of in origins.values() for each in of)


def _is_own(tool: str) -> bool:
    from atc.run import ask_user, find_tools, look

    return tool in (ask_user.NAME, find_tools.NAME, find_tools.DOCS, look.NAME)


def _unpacked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that an event names; what cannot be read is a value that no program has."""
    from atc._records.packing import unpack

    raw = data.get("inputs")
    try:
        return dict(unpack(raw)) if isinstance(raw, Mapping) else {}
    except (ValueError, TypeError):
        return dict.fromkeys(raw, object()) if isinstance(raw, Mapping) else {}


def _names(raw: Any) -> frozenset[str]:
    return frozenset(each for each in raw if isinstance(each, str)) if isinstance(raw, list) else frozenset()

"""Tools that broke in a run and are not called again in it, and what is called in their place.

A read that broke is banned so that no program waits for it again. A write is banned once it was surely refused: from
then on its substitute may be asked for, and the two never both act. What succeeded before stays readable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from atc._host.redaction import Redactor
from atc._records.packing import as_text
from atc._records.records import Replacement
from atc.calls.at_most_once import NameNow
from atc.calls.attempt import Attempt
from atc.calls.entry import CallEntry, CallKey, same_tool
from atc.calls.journal import Journal
from atc.calls.json_values import canonical
from atc.errors import CallRefused
from atc.schemas.protocol import SourceKey

Alike = Callable[[str, str], bool]
"""Returns whether a write, the second, may do what another one did."""


def nothing_alike(tool: str, by: str) -> bool:
    """Say that no tool does the same as another, where nothing is known of that."""
    return False


@dataclass
class BrokenTools:
    """The bans of one run.

    Args:
        banned: what is banned, each with what may be called in its place.
        name_now: the name that a tool of the journal has now.

    Attributes:
        alike: whether one tool may do what another did; asked only while a write is in doubt, first in a thread
            (:meth:`compare`). It keeps what it found.
    """

    banned: dict[str, tuple[Replacement, ...]]
    name_now: NameNow
    alike: Alike = nothing_alike
    _sources: dict[str, SourceKey | None] = field(default_factory=dict)

    def rename(self, journal: Journal) -> None:
        """Call what the journal bans, and what may take its place, by the names that they have now."""
        for tool, (substitute,) in journal.banned.items():
            of_tool, of_by = journal.ban_sources[tool]
            by = self.name_now(substitute.tool, of_by) or substitute.tool
            self.banned.pop(tool, None)
            self.add(self.name_now(tool, of_tool) or tool, [substitute.model_copy(update={"tool": by})], of_tool)

    def add(self, tool: str, substitutes: Sequence[Replacement], source: SourceKey | None = None) -> None:
        """Ban a tool, known by this at its source; these may be called in its place."""
        self.banned[tool], self._sources[tool] = tuple(substitutes), source

    def instead_of(self, by: str) -> dict[str, Replacement]:
        """Return the banned tools in whose place one is called."""
        return {tool: each for tool, some in self.banned.items() for each in some if each.tool == by}

    async def compare(self, attempt: Attempt, journal: Journal) -> None:
        """Find out in a thread what :meth:`refuse` asks about a call while writes are in doubt: tools may be wide.

        Args:
            attempt: the call.
            journal: of the run.
        """
        known = {attempt.tool}
        while not attempt.reads and (doubtful := self._doubtful(journal) - known):
            await asyncio.to_thread(list, map(self.alike, sorted(doubtful), repeat(attempt.tool)))
            known |= doubtful

    def _doubtful(self, journal: Journal) -> set[str]:
        return {now for tool, source in journal.doubtful_tools() if (now := self.name_now(tool, source)) is not None}

    def refuse(self, attempt: Attempt, journal: Journal, redactor: Redactor) -> None:
        """Refuse a call of a banned tool, and a write that another tool may have done already.

        Args:
            attempt: the call, which the journal cannot answer.
            journal: of the run, which has arguments without secrets.
            redactor: takes the secrets out of this call's arguments, to compare them.

        Raises:
            CallRefused: the tool is banned; or it would do what another one did, or may have done.
        """
        if attempt.tool in self.banned:
            others = " or ".join(each.tool for each in self.banned[attempt.tool])
            raise CallRefused(f"it broke in this run and is not called again: call {others}", status="banned")
        if attempt.reads:
            return
        self._refuse_beside_doubt(attempt, journal)
        instead_of = self.instead_of(attempt.tool)
        arguments = redactor.value(attempt.arguments) if instead_of else {}
        for tool, replacement in instead_of.items():
            self._refuse_repetition(attempt.tool, arguments, journal, tool, replacement)

    def _refuse_beside_doubt(self, attempt: Attempt, journal: Journal) -> None:
        """Refuse what does the same as a write in doubt: that is never routed round."""
        instead_of = self.instead_of(attempt.tool)
        for tool, source in journal.doubtful_tools():
            now = self.name_now(tool, source)
            if now == attempt.tool:
                continue
            if (now or tool) in instead_of or (now is not None and self.alike(now, attempt.tool)):
                raise CallRefused(
                    f"{tool} was begun and its outcome is unknown; {attempt.tool} could do the same a second time",
                    status="in_doubt",
                    cause="in_doubt",
                )

    def _refuse_repetition(
        self, by: str, arguments: Mapping[str, Any], journal: Journal, tool: str, replacement: Replacement
    ) -> None:
        source = self._sources.get(tool)
        if (earlier := journal.unasked(tool, source)) is not None:
            raise CallRefused(
                f"an earlier program already did {tool} with {as_text(earlier.arguments)[:500]}; call it with exactly "
                f"these arguments to get its recorded answer before you call {by} in its place",
                status="already_done",
            )
        for entry in journal.entries.values():
            is_its = same_tool(entry.key, CallKey(tool, "", source))
            if is_its and entry.state == "done" and _same_request(arguments, entry, replacement):
                raise CallRefused(
                    f"{tool} already did this with {as_text(entry.arguments)[:500]}, and it is not done again",
                    status="already_done",
                )


def _same_request(arguments: Mapping[str, Any], entry: CallEntry, replacement: Replacement) -> bool:
    return all(
        _plain(arguments.get(mine)) == _plain(entry.arguments.get(theirs)) for mine, theirs in replacement.arguments
    )


def _plain(value: Any) -> str:
    """Return a value as it is compared: ``"3"``, ``3`` and ``3.0`` are one; so are two texts that differ in case."""
    if isinstance(value, str):
        value = value.strip().casefold()
        try:
            value = float(value)
        except ValueError:
            return canonical(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(float(value)) if abs(value) < 1e300 else str(value)
    return canonical(value)

"""ATC whose α bounds what the check sends back, too: to measure what it is worth that this costs no revision."""

from __future__ import annotations

from atc.facts import Finding
from atc.strategies.chain import Chain
from atc.strategies.chain_policy import MAX_ROUTED, ChainPolicy
from atc.strategies.writer import Draft


class CountedFindings(ChainPolicy):
    """Every reply after the first costs one of the α revisions, whether the program before it ran or was sent back.

    As in the default, a broken tool that is routed round costs none, and warnings send back no last program.
    """

    async def next_program(self) -> Draft | None:
        return await super().next_program() if self._spent <= self._settings.max_revisions else None

    def _not_told(self, draft: Draft) -> list[Finding]:
        return super()._not_told(draft) if self._spent < self._settings.max_revisions else []

    @property
    def _spent(self) -> int:
        """Programs so far that cost a revision, if another one is written."""
        broken = sum(r.fault is not None and bool(r.fault.substitutes) for r in self._history)
        return len(self._history) - min(broken, MAX_ROUTED)


class ChainOfCountedFindings(Chain):
    """The chain with that policy."""

    name = "chain-findings"
    policy = CountedFindings

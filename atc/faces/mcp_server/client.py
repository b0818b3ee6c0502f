"""One client of the server: who it is, the runs that are its own, and what those did."""

from __future__ import annotations

from dataclasses import dataclass, field

from atc.calls.entry import CallKey


@dataclass(frozen=True)
class ClientId:
    """Who a client is.

    Attributes:
        principal: who is behind it, as far as that was proved: a token's owner; ``local`` over pipes.
        name: what it calls itself. A claim, and never a right.
    """

    principal: str
    name: str = ""

    def for_trace(self) -> dict[str, str]:
        """As the trace of a run has it."""
        return {"principal": self.principal, "name": self.name}


@dataclass
class Client:
    """What a client has done over its connection.

    Attributes:
        id: who it is.
        runs: ids of its runs. No other run can be named by it.
        writes: calls with effects that its runs made, or may have made, each with the run that did.
        going_on: of its runs, those of which a program runs now.
    """

    id: ClientId
    runs: set[str] = field(default_factory=set)
    going_on: set[str] = field(default_factory=set)
    writes: dict[CallKey, str] = field(default_factory=dict)

    def earlier_writes(self, run_id: str) -> WritesOfOthers:
        """What the client's other runs did, as one of its runs sees it."""
        return WritesOfOthers(self.writes, run_id)


@dataclass(frozen=True)
class WritesOfOthers:
    """The writes of a client's other runs (:class:`atc.calls.approval.EarlierWrites`)."""

    writes: dict[CallKey, str]
    run_id: str

    def run_of(self, key: CallKey) -> str:
        """The other run that did this call; empty where none did."""
        found = self.writes.get(key, "")
        return "" if found == self.run_id else found

    def note(self, key: CallKey) -> None:
        """This run is about to make the call."""
        self.writes[key] = self.run_id

"""Where a journal keeps its records: a file (:mod:`atc.calls.journal_file`), or a row each in a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Records(Protocol):
    """Records of one run, in order, that one process at a time may append to.

    Attributes:
        name: where they are, for messages.
        marks: what a mark of a call that is about to leave survives. A call that was begun and bears no mark was surely
            not sent, as long as this text is the same. Empty where nothing is sure.
    """

    @property
    def name(self) -> str: ...

    @property
    def marks(self) -> str: ...

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all records back, in order.

        Args:
            apply: is called with each. Its ValueError, KeyError, TypeError or AttributeError refuses them all.

        Raises:
            JournalError: they cannot be read, or one of them is wrong; they are left as they are, and let go of.
        """

    def append(self, *records: dict[str, Any], sync: bool) -> None:
        """Append records, all or none. They survive the machine before this returns if ``sync``.

        Raises:
            JournalError: they cannot be written, or another process holds them now. Nothing is appended after that.
        """

    def close(self) -> None:
        """Let go of them. What is appended later fails."""

"""Describes what the broker is told of where the arguments of a run's calls come from.

The run knows its programs, and has them followed (:class:`atc.run.origins.RunOrigins`). Nothing is followed but where a
rule needs it, a person is asked, or text that strangers write may have had a say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from atc._records.origins import CallOrigins

if TYPE_CHECKING:
    from atc.calls.attempt import Attempt


@dataclass(frozen=True)
class Found:
    """Says where the arguments of one call come from.

    Attributes:
        origins: of each argument, as they are sent.
        author_saw: the tools whose text, which strangers write, the program's author had seen before it wrote the call;
            empty where the same write stood in a program that was written before.
    """

    origins: CallOrigins
    author_saw: tuple[str, ...] = ()


class ArgumentOrigins(Protocol):
    """Says where the arguments of the calls of one run come from."""

    @property
    def has_answered(self) -> bool:
        """Return whether a tool whose text strangers write was called in this run, in an earlier task too."""
        ...

    @property
    def is_needed(self) -> bool:
        """Return whether text that strangers write is in this run: such a tool was called, or its author saw some."""
        ...

    @property
    def untrusted(self) -> frozenset[str]:
        """Return the tools whose text strangers write, of those that were called or that the author saw."""
        ...

    def is_untrusted(self, tool: str) -> bool:
        """Return whether strangers write what a tool returns."""
        ...

    async def of(self, attempt: Attempt) -> Found:
        """Return where the arguments of a call come from."""
        ...

    def lazily(self, attempt: Attempt) -> Callable[[], CallOrigins]:
        """Return what finds the same later, should anybody ask."""
        ...

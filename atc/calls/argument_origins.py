"""Describes what the broker is told of where the arguments of a run's calls come from.

The run knows its programs, and has them followed (:class:`atc.run.origins.RunOrigins`). Nothing is followed but where a
rule needs it, a person is asked, or text that strangers write may have had a say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from atc._records.origins import CallOrigins

if TYPE_CHECKING:
    from atc.calls.attempt import Attempt

AuthorSaw = Callable[["Attempt", CallOrigins], tuple[str, ...]]
"""Returns the tools whose text, which strangers write, a program's author had seen before it wrote this call; empty
where the same write stood in a program that was written before. It is asked in a thread."""


class ArgumentOrigins(Protocol):
    """Says where the arguments of the calls of one run come from."""

    @property
    def is_needed(self) -> bool:
        """Return whether text that strangers write is in this run: their tools have answered, or its author saw it."""
        ...

    @property
    def untrusted(self) -> frozenset[str]:
        """Return the tools of the run whose text strangers write, of those that answered or that its author saw."""
        ...

    def is_untrusted(self, tool: str) -> bool:
        """Return whether strangers write what a tool returns."""
        ...

    async def of(self, attempt: Attempt) -> CallOrigins:
        """Return the origins of the arguments of a call, as they are sent."""
        ...

    def lazily(self, attempt: Attempt) -> Callable[[], CallOrigins]:
        """Return what finds the same later, should anybody ask."""
        ...

    async def author_saw(self, attempt: Attempt, origins: CallOrigins) -> tuple[str, ...]:
        """Return the tools whose text the author of the call's program had seen (:data:`AuthorSaw`)."""
        ...

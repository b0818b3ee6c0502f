"""Describes what the broker is told of where the arguments of a run's calls come from.

The run knows its programs, and has them followed (:class:`atc.run.origins.RunOrigins`). Nothing is followed but where a
rule needs it, a person is asked, or text that strangers write may have had a say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from atc._records.origins import CallOrigins

if TYPE_CHECKING:
    from atc.calls.attempt import AskedAbout, Attempt


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

    async def of(self, attempt: Attempt) -> Found:
        """Return where the arguments of a call come from."""

    def later(self, asked: AskedAbout) -> CallOrigins:
        """Return the same of a call that has ended, without what its run saw."""

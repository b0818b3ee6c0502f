"""One call in a journal, and the key by which two calls are the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from atc.calls.canonical import canonical
from atc.result import Effect
from atc.tools.tool import NextPage

CallKey = tuple[str, str]
"""A tool's name and the digest of its canonical arguments."""


def call_key(tool: str, arguments: dict[str, Any]) -> CallKey:
    """Return the key of a call: two calls with one key are the same call.

    Raises:
        ValueError: the arguments have no canonical form.
    """
    return tool, hashlib.sha256(canonical(arguments).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class Entry:
    """One call that was begun. ``state`` is ``open`` until its outcome is written.

    ``arguments`` are for people to read, credentials masked; ``key`` is made from what was really sent.

    Attributes:
        stage: number of the stage that made it, from 0.
        sent: whether its tool may have received it. Until then it surely did nothing.
    """

    number: int
    key: CallKey
    arguments: dict[str, Any]
    effect: Effect
    attempt: int
    stage: int = 0
    sent: bool = field(default=False, compare=False)
    state: Literal["open", "done", "refused", "unknown"] = "open"
    value: Any = None
    next_page: NextPage = None

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.key[0]

    @property
    def in_doubt(self) -> bool:
        """Whether the call has effects and its outcome is unknown."""
        return self.effect is not Effect.READ and (self.state == "unknown" or (self.state == "open" and self.sent))

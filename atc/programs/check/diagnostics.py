"""What the type checker reports, read from its protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REVEALED = re.compile(r"Revealed type: `(?P<type>.*)`", re.S)


@dataclass(frozen=True)
class Diagnostic:
    """What the type checker reports, at a place of the program (line from 1, column from 0)."""

    rule: str
    message: str
    line: int
    column: int

    @property
    def revealed(self) -> str:
        """The type that it tells where it was asked for one; else empty."""
        m = _REVEALED.match(self.message)
        return m["type"] if m is not None else ""

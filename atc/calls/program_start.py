"""The start of a program: when it first began, and the seed of what it draws.

A run that goes on after it waited for a yes, or after its end, runs its last program again. With the start that the
journal keeps, that program reads the same clock and draws the same numbers, so it makes the same calls: a recorded yes
fits them, and the journal answers those that were made.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from atc.calls.parked import LAST_TIME

SEED_BYTES = 32


@dataclass(frozen=True)
class ProgramStart:
    """The clock and the chance of a program.

    Attributes:
        at: when it first began, in seconds since 1970.
        seed: of its random numbers and UUIDs, as hexadecimal digits of 32 bytes.

    Raises:
        ValueError: one of them is neither.
    """

    at: float
    seed: str

    def __post_init__(self) -> None:
        if type(self.at) not in (int, float) or not 0 <= self.at < LAST_TIME:
            raise ValueError("not the time when a program began")
        if (
            type(self.seed) is not str
            or len(self.seed) != 2 * SEED_BYTES
            or not set(self.seed) <= set("0123456789abcdef")
        ):
            raise ValueError("not the seed of a program")

    @classmethod
    def new(cls) -> ProgramStart:
        """Return the start of a program that begins now."""
        return cls(time.time(), os.urandom(SEED_BYTES).hex())


class _Known(NamedTuple):
    request: int
    stage: int
    program: str  # the digest of its text


class Starts:
    """The starts of the programs of a journal, by the task and stage in which they ran, and by their text."""

    def __init__(self) -> None:
        self._known: dict[_Known, ProgramStart] = {}
        self._to_come: list[tuple[_Known, ProgramStart]] = []  # of the stages that are begun anew
        self._met: set[_Known] = set()

    def find(self, program: str, stage: int, request: int) -> ProgramStart | None:
        """Return the start of a program that ran before in this stage; ``None`` for a new one."""
        asked = _Known(request, stage, digest_of_text(program))
        for number, (known, start) in enumerate(() if asked in self._met else self._to_come):
            if (known.request, known.program) == (request, asked.program):
                del self._to_come[: number + 1]
                self._known[asked] = start
                break
        self._met.add(asked)
        return self._known.get(asked)

    def add(self, program: str, stage: int, request: int, start: ProgramStart) -> dict[str, Any]:
        """Note the start of a program, and return its record."""
        known = _Known(request, stage, digest_of_text(program))
        self._known[known] = start
        return {"start": known.program, "at": start.at, "seed": start.seed, "of": [request, stage]}

    def apply(self, record: dict[str, Any]) -> None:
        """Read back a record.

        Raises:
            ValueError, KeyError, TypeError: it is none, or the second one about a program.
        """
        program, (request, stage) = record["start"], record["of"]
        if type(program) is not str or type(request) is not int or type(stage) is not int:
            raise ValueError("not the start of a program")
        known = _Known(request, stage, program)
        if known in self._known:
            raise ValueError("this program was started before")
        self._known[known] = ProgramStart(record["at"], record["seed"])

    def begin_again(self) -> None:
        """Expect the programs of all stages once more, in their order: what acts begins anew in a later stage."""
        self._to_come = list(self._known.items())
        self._met.clear()


def digest_of_text(program: str) -> str:
    """Return what a program is known by in the journal."""
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()

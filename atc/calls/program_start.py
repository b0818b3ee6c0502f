"""The start of a program: when it first began, and the seed of what it draws.

A run that goes on after it waited for approval, or after its end, runs its last program again. With the start that the
journal keeps, that program reads the same clock and draws the same numbers, so it makes the same calls: a recorded yes
fits them, and the journal answers those that were made.

The clock of a program does not follow the machine's between two replies (``sandbox/start.py``): a call takes another
time each time. The host says with a reply how long the program has run, and says the same when it runs again.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from atc.calls.contract import CallHandler, CallReply, CallRequest

LAST_TIME = 253_402_300_800.0
"""The year 10000, in seconds since 1970: no clock says so, and later times cannot be written as a date."""
MOST_PASSED_S = 1e9
STEP_S = 1.0
"""Seconds by which a program's clock moves at least: nothing is written down for a reply that comes sooner."""
SEED_BYTES = 32
_SEED = re.compile(f"[0-9a-f]{{{2 * SEED_BYTES}}}")


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
        if type(self.seed) is not str or _SEED.fullmatch(self.seed) is None:
            raise ValueError("not the seed of a program")

    @classmethod
    def new(cls) -> ProgramStart:
        """Return the start of a program that begins now."""
        return cls(time.time(), os.urandom(SEED_BYTES).hex())


class ReplyTimes:
    """Says with the replies of a program how long it has run: what was said before, as far as that went.

    Args:
        said: what was said with earlier replies, by their numbers.
        note: writes down what is said with a reply.
    """

    def __init__(self, said: dict[int, float], note: Callable[[int, float], None]) -> None:
        self._said, self._note = said, note
        self._last = max(said, default=0)
        self._passed_s, self._since = 0.0, time.monotonic()

    def timed(self, call: CallHandler, reads: Callable[[str], bool]) -> CallHandler:
        """Return what handles the calls of the program, and says with each reply what time it is.

        Args:
            call: handles them.
            reads: whether a call of a tool only reads. Before any other is made, it is written down how far the clock
                has come, for its arguments may rest on that; the call's own record, which is synced, comes later.
        """

        async def handled(request: CallRequest) -> CallReply:
            if request.number - 1 > self._last and not reads(request.tool):
                self._say(request.number - 1)
            return self._told(request.number, await call(request))

        return handled

    def _told(self, number: int, reply: CallReply) -> CallReply:
        if number in self._said:
            self._passed_s, self._since = self._said[number], time.monotonic()
        elif number < self._last or time.monotonic() - self._since < STEP_S:
            return reply
        else:
            now = time.monotonic()
            self._passed_s, self._since = self._passed_s + now - self._since, now
            self._say(number)
        return reply._replace(passed_s=self._passed_s)

    def _say(self, number: int) -> None:
        self._note(number, self._passed_s)
        self._last, self._said[number] = number, self._passed_s


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
        self.said: dict[str, dict[int, float]] = {}  # how long one had run at its replies, by the seed of its start

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

    def last(self, program: str) -> tuple[ProgramStart, dict[int, float]] | None:
        """Return the latest start of a program, and how long it had run at its replies; ``None`` for a new one."""
        asked = digest_of_text(program)
        found = [start for known, start in self._known.items() if known.program == asked]
        return (found[-1], dict(self.said[found[-1].seed])) if found else None

    def add(self, program: str, stage: int, request: int, start: ProgramStart) -> dict[str, Any]:
        """Note the start of a program, and return its record."""
        known = _Known(request, stage, digest_of_text(program))
        self._known[known], self.said[start.seed] = start, {}
        return {"start": known.program, "at": start.at, "seed": start.seed, "of": [request, stage]}

    def apply_reply(self, record: dict[str, Any]) -> None:
        """Read back how long a program had run."""
        number, passed_s = record["reply"], record["passed"]
        if type(number) is not int or type(passed_s) not in (int, float) or not 0 <= passed_s < MOST_PASSED_S:
            raise ValueError("not how long a program had run")
        self.said[record["of"]][number] = passed_s

    def apply_start(self, record: dict[str, Any]) -> None:
        """Read back the start of a program."""
        program, (request, stage) = record["start"], record["of"]
        if type(program) is not str or type(request) is not int or type(stage) is not int:
            raise ValueError("not the start of a program")
        known = _Known(request, stage, program)
        if known in self._known:
            raise ValueError("this program was started before")
        start = self._known[known] = ProgramStart(record["at"], record["seed"])
        self.said[start.seed] = {}

    def begin_again(self) -> None:
        """Expect the programs of all stages once more, in their order: what acts begins anew in a later stage."""
        self._to_come = list(self._known.items())
        self._met.clear()


def digest_of_text(program: str) -> str:
    """Return what a program is known by in the journal."""
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()

"""A sandbox for many attacks, the host around it, and what must hold after each of them: the same on every driver."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import gc
import time
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from atc._records.outcome import Outcome
from atc.calls.approval import Approval, ApprovalRequest
from atc.calls.broker import Broker, CallPolicy
from atc.calls.journal import Journal
from atc.errors import SandboxUnavailable
from atc.result import Effect
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.sandboxes.process.driver import JailSandbox, Pool
from atc.sandboxes.process.zygote import start_zygote, zygote_settings
from atc.tools.tool import Toolset
from tests.attacks import bombs, channel, claims, native, outside, reach, stubs, walks
from tests.attacks.record import PRELUDE, Attack
from tests.attacks.world import PATIENCE_S, Host, World, at_rest, left_running, settled, stood_still
from tests.support.tiers import without
from tests.support.tools import make_tool

ATTACKS: list[Attack] = [
    *walks.ATTACKS,
    *stubs.ATTACKS,
    *channel.ATTACKS,
    *claims.ATTACKS,
    *reach.ATTACKS,
    *outside.ATTACKS,
    *native.ATTACKS,
    *bombs.ATTACKS,
]
LIMITS = Limits(wall_s=30.0, cpu_s=3, memory_bytes=256 << 20, output_bytes=1 << 16)
MAX_CALLS = 20
BUSY_S = 1.0
"""Processor seconds that a host may spend on one thing."""
MB = 1 << 20
WAITING = 2
NEXT = "answer = [sum(range(10)), lookup(n=4)['name'], sorted({'b': 1, 'a': 2})]"
NEXT_ANSWER = [45, "Ada", ["a", "b"]]


@dataclass
class Seen:
    """What the tools of one run were really asked."""

    lookups: list[Any] = field(default_factory=list)
    bookings: list[Any] = field(default_factory=list)

    def broker(self) -> Broker:
        def look(arguments: dict[str, Any]) -> Any:
            self.lookups.append(arguments)
            return {"name": "Ada", "n": arguments.get("n")}

        def no(_: ApprovalRequest) -> bool:
            return False

        journal = Journal()
        journal.begin_attempt()
        tools = Toolset([make_tool("lookup", look), make_tool("book", self.bookings.append, Effect.WRITE)])
        return Broker(tools, journal, lambda kind, data: None, CallPolicy(max_calls=MAX_CALLS), Approval(no))


class Range(abc.ABC):
    """One sandbox of one driver for many attacks, and the host around it. :meth:`close` it.

    Attributes:
        world: what there is to be had.
        sandbox: the driver.
        tier: what it isolates by.
        spare: descriptors of the driver itself that come and go.
    """

    world: World
    sandbox: Sandbox
    tier: str = ""
    spare: int = 0

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def begin(self) -> None:
        """Bring it up, and let the host have what it needs once: that is no growth."""
        self.tier = self._runner.run(self.sandbox.isolation())
        gc.collect()
        gc.freeze()  # what the tests hold is not looked through again after every attack
        self.warm_up()

    def warm_up(self) -> None:
        for _ in range(3):
            assert self.run(NEXT, Limits())[0].value == NEXT_ANSWER

    def run(self, program: str, limits: Limits) -> tuple[Outcome, Broker, Seen, float]:
        """How it ended, what was asked of the tools, and the longest time for which a host did nothing else."""
        seen = Seen()
        broker = seen.broker()
        gaps = [0.0]

        async def go() -> Outcome:
            beating = [asyncio.create_task(beat) for beat in self.beats(gaps)]
            try:
                return await self.sandbox.run(Job(program, {"lookup": ["n"], "book": ["n"]}, limits), broker.call)
            finally:
                for beat in beating:
                    beat.cancel()
                for told in await asyncio.gather(*beating, return_exceptions=True):
                    assert isinstance(told, asyncio.CancelledError), told

        return self._runner.run(go()), broker, seen, max(gaps)

    def beats(self, gaps: list[float]) -> list[Coroutine[Any, Any, None]]:
        """What notices that a host stands still, and for how long."""

        async def beat() -> None:
            while True:
                began, busy = time.perf_counter(), time.process_time()
                await asyncio.sleep(0.01)
                gaps.append(stood_still(time.perf_counter() - began, time.process_time() - busy))

        return [beat()]

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Before each attack."""

    def pause(self) -> None:
        """Let the event loop do what is due."""
        self._runner.run(asyncio.sleep(0))

    def hosts(self) -> list[Host]:
        """The processes that must be as before, measured now."""
        return [Host()]

    @abc.abstractmethod
    def disturbed(self) -> list[str]:
        """What of the sandbox itself is not as it was: another parent of programs, or something that runs on."""

    def close(self) -> None:
        self._runner.run(self.sandbox.aclose())
        self._runner.close()
        self.world.close()


class ProcessRange(Range):
    """The ``process`` driver, held to one tier."""

    def __init__(self, tier: str) -> None:
        super().__init__()
        self.world = World()
        self.sandbox = self.jails = JailSandbox(
            Pool(lambda tier: start_zygote(zygote_settings(tier, LIMITS)), (tier,), WAITING), LIMITS
        )
        try:
            self.begin()
        except SandboxUnavailable as error:
            self.close()
            without(tier, error)
        self._zygote = self.jails._pool._current
        assert self._zygote is not None
        assert self._zygote.process is not None
        self._pid = self._zygote.process.pid
        self._descriptors = at_rest(self._pid, WAITING)

    def disturbed(self) -> list[str]:
        found = [] if self.jails._pool._current is self._zygote else ["another parent of programs"]
        return found + left_running(self._pid, WAITING) + settled(self._pid, self._descriptors)


def withstood(there: Range, attack: Attack) -> None:
    """Run an attack and look at the host."""
    if there.tier not in attack.tiers:
        pytest.skip(f"it is not for tier {there.tier}")
    there.prepare()
    named = "; ".join(f"{name} = {value!r}" for name, value in there.world.names().items())
    before = there.hosts()
    outcome, broker, seen, gap = there.run(f"{named}\n{PRELUDE}\n{attack.program}", Limits(**attack.limits))
    growth = max(host.peak_growth() for host in before)
    # nothing was read, written, or reached
    assert there.world.damage(repr((outcome, broker.calls))) == []
    # it ended as it should, and in time
    assert outcome.kind in attack.ends, outcome
    assert outcome.seconds < min(attack.limits.get("wall_s", LIMITS.wall_s), LIMITS.wall_s) + PATIENCE_S
    assert outcome.isolation == there.tier
    if attack.refused:
        assert outcome.value, "nothing was tried"
        assert [made for made in outcome.value if made[0] != "refused"] == []
    assert attack.check is None or attack.check(outcome, broker), outcome
    # no call got further than it may
    assert seen.bookings == []
    assert len(seen.lookups) <= MAX_CALLS
    assert {call.tool for call in broker.calls if call.status == "ok"} <= {"lookup"}
    # the host is as before
    size = len(outcome.stdout) + len(outcome.stderr)
    assert size <= 2 * (LIMITS.output_bytes + 100)
    assert gap < BUSY_S, f"the host stood still for {gap:.2f} s"
    assert growth < 50 * MB, f"the host grew by {growth / MB:.0f} MB"
    del outcome, broker, seen
    # and so is the sandbox: the next program runs, of the same parent where it has one, and nothing else of it runs
    assert there.run(NEXT, Limits())[0].value == NEXT_ANSWER
    assert there.disturbed() == []
    there.pause()
    for host in before:
        assert settled(host.pid, host.descriptors, there.spare) == []


def sample() -> list[Attack]:
    """Return one attack in six, the same each time, and of each family one at least: what every quick run tries."""
    families: dict[str, list[Attack]] = {}
    for attack in ATTACKS:
        if not attack.slow:
            families.setdefault(attack.family, []).append(attack)
    return [attack for family in families.values() for attack in family[:: min(6, len(family))]]


def attacks_of(tier: str = "", families: Collection[str] = (), quick: Collection[Attack] | None = None) -> list[Any]:
    """The attacks as parameters of a test: those of one tier, or of some families, or all; slow but for ``quick``."""
    return [
        pytest.param(
            attack,
            id=f"{attack.family}: {attack.name}",
            marks=[] if quick is None or attack in quick else [pytest.mark.slow],
        )
        for attack in ATTACKS
        if (not tier or tier in attack.tiers) and (not families or attack.family in families)
    ]


@contextlib.contextmanager
def closing(there: Range) -> Iterator[Range]:
    try:
        yield there
    finally:
        there.close()

"""Every attack, on the strongest walls that this machine has: nothing is read, written, reached, forged or left."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support_tools import make_tool

from atc.errors import SandboxUnavailable
from atc.execution.broker import ApprovalRequest, Broker, CallPolicy
from atc.execution.journal import Journal
from atc.execution.pool import Pool
from atc.execution.process import JailSandbox
from atc.execution.sandbox import Job, Limits, Outcome
from atc.execution.zygote import start_zygote, zygote_settings
from atc.tools.protocol import Effect
from atc.tools.tool import Toolset
from attacks import bombs, channel, claims, native, reach, stubs, walks
from attacks.record import PRELUDE, Attack
from attacks.world import Host, World, left_running

ATTACKS: list[Attack] = [
    *walks.ATTACKS, *stubs.ATTACKS, *channel.ATTACKS, *claims.ATTACKS, *reach.ATTACKS, *native.ATTACKS, *bombs.ATTACKS,
]  # fmt: skip
LIMITS = Limits(wall_s=3.0, cpu_s=1, memory_bytes=256 << 20, output_bytes=1 << 16)
MAX_CALLS = 20
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
        return Broker(tools, journal, lambda kind, data: None, CallPolicy(max_calls=MAX_CALLS), no)


class Range:
    """One sandbox of one tier for many attacks, and the host around it."""

    def __init__(self, tier: str) -> None:
        self.world = World()
        self._runner = asyncio.Runner()
        self.sandbox = JailSandbox(
            Pool(lambda tier: start_zygote(zygote_settings(tier, LIMITS)), (tier,), WAITING), LIMITS
        )
        try:
            self._runner.run(self.sandbox.isolation())
        except SandboxUnavailable as error:
            self.close()
            pytest.skip(f"this machine has no tier {tier}: {error}")
        self.zygote = self.sandbox._pool._current
        assert self.zygote is not None
        assert self.zygote.process is not None
        self.zygote_pid = self.zygote.process.pid
        gc.collect()
        gc.freeze()  # what the tests hold is not looked through again after every attack
        for _ in range(3):  # what the host needs once is no growth
            assert self.run(NEXT, Limits())[0].value == NEXT_ANSWER

    def run(self, program: str, limits: Limits) -> tuple[Outcome, Broker, Seen, float]:
        """How it ended, what was asked of the tools, and the longest time for which the host did nothing else."""
        seen = Seen()
        broker = seen.broker()
        gap = 0.0

        async def beat() -> None:
            nonlocal gap
            while True:
                began = time.perf_counter()
                await asyncio.sleep(0.01)
                gap = max(gap, time.perf_counter() - began)

        async def go() -> Outcome:
            beating = asyncio.create_task(beat())
            try:
                return await self.sandbox.run(Job(program, {"lookup": ["n"], "book": ["n"]}, limits), broker.call)
            finally:
                beating.cancel()

        return self._runner.run(go()), broker, seen, gap

    def close(self) -> None:
        gc.unfreeze()
        self._runner.run(self.sandbox.aclose())
        self._runner.close()
        self.world.close()


def withstood(there: Range, attack: Attack) -> None:
    """Run an attack and look at the host."""
    named = "; ".join(f"{name} = {value!r}" for name, value in there.world.names().items())
    before = Host()
    outcome, broker, seen, gap = there.run(f"{named}\n{PRELUDE}\n{attack.program}", Limits(**attack.limits))
    growth = before.peak_growth()
    # nothing was read, written, or reached
    assert there.world.damage(repr((outcome, broker.calls))) == []
    # it ended as it should, and in time
    assert outcome.kind in attack.ends, outcome
    assert outcome.seconds < min(attack.limits.get("wall_s", LIMITS.wall_s), LIMITS.wall_s) + 1.5
    assert outcome.isolation == there.sandbox._pool.tier
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
    assert gap < 1.0, f"the host stood still for {gap:.2f} s"
    assert growth < 50 * MB, f"the host grew by {growth / MB:.0f} MB"
    del outcome, broker, seen
    # and so is the sandbox: the same parent forks the next program, and nothing else of it runs
    assert there.run(NEXT, Limits())[0].value == NEXT_ANSWER
    assert there.sandbox._pool._current is there.zygote
    assert left_running(there.zygote_pid, WAITING) == []
    assert Host().descriptors == before.descriptors


def _of(tier: str) -> list[Any]:
    return [
        pytest.param(
            attack,
            id=f"{attack.family}: {attack.name}",
            marks=[pytest.mark.slow] if attack.slow and tier == "N" else [],
        )
        for attack in ATTACKS
        if tier in attack.tiers
    ]


def _made(tier: str) -> Iterator[Range]:
    there = Range(tier)
    yield there
    there.close()


@pytest.fixture(scope="module")
def strongest() -> Iterator[Range]:
    for tier in ("N", "L", "F"):
        try:
            there = Range(tier)
        except pytest.skip.Exception:
            continue
        yield there
        there.close()
        return
    pytest.skip("this machine has no tier at all")


@pytest.fixture(scope="module")
def landlock() -> Iterator[Range]:
    yield from _made("L")


@pytest.fixture(scope="module")
def no_files() -> Iterator[Range]:
    yield from _made("F")


def test_there_are_enough_and_each_has_its_own_name() -> None:
    names = [(attack.family, attack.name) for attack in ATTACKS]
    assert len(names) == len(set(names)) >= 120


@pytest.mark.parametrize("attack", _of("N"))
def test_an_attack_does_no_harm(attack: Attack, strongest: Range) -> None:
    withstood(strongest, attack)


@pytest.mark.slow
@pytest.mark.parametrize("attack", _of("L"))
def test_an_attack_does_no_harm_without_namespaces(attack: Attack, landlock: Range) -> None:
    withstood(landlock, attack)


@pytest.mark.slow
@pytest.mark.parametrize("attack", _of("F"))
def test_an_attack_does_no_harm_where_no_file_can_be_opened(attack: Attack, no_files: Range) -> None:
    withstood(no_files, attack)

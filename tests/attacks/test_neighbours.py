"""Two programs at once in one sandbox: neither sees, slows to a stop, or takes anything from the other."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from atc._records.outcome import Outcome
from atc.errors import SandboxUnavailable
from atc.sandboxes.process.driver import JailSandbox, Pool
from atc.sandboxes.process.zygote import start_zygote, zygote_settings
from tests.attacks.neighbours import LIMITS, THIEVES, beside_a_hog, both, unharmed
from tests.support.tiers import without


def _sandbox(tier: str) -> JailSandbox:
    return JailSandbox(Pool(lambda tier: start_zygote(zygote_settings(tier, LIMITS)), (tier,), 2), LIMITS)


_READS, *_REST = THIEVES
_PAIRS = [pytest.param(tier, THIEVES[_READS], id=f"{_READS}-{tier}") for tier in "NL"] + [
    pytest.param(tier, THIEVES[name], id=f"{name}-{tier}", marks=pytest.mark.slow)
    for tier, name in [("F", _READS), *itertools.product("NLF", _REST)]
]


@pytest.mark.parametrize(("tier", "thief"), _PAIRS)
def test_a_program_gets_nothing_of_its_neighbour(tier: str, thief: str) -> None:
    async def go() -> tuple[Outcome, Outcome]:
        async with _sandbox(tier) as sandbox:
            return await both(sandbox, sandbox, thief)

    try:
        victim, other = asyncio.run(go())
    except SandboxUnavailable as error:
        without(tier, error)
    unharmed(victim, other)


@pytest.mark.slow
@pytest.mark.parametrize("tier", "NLF")
def test_programs_begin_while_another_holds_all_that_it_can_get(tier: str) -> None:
    async def go() -> list[Outcome]:
        async with _sandbox(tier) as sandbox:
            return await beside_a_hog(sandbox, 8)

    try:
        outcomes = asyncio.run(go())
    except SandboxUnavailable as error:
        without(tier, error)
    assert [(outcome.kind, outcome.value) for outcome in outcomes] == [("finished", {"n": 2})] * 8, outcomes

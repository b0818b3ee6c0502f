"""Neighbours in containers and at a service: of one tenant, and of two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from atc._records.outcome import Outcome
from atc.sandboxes.contract import Job
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.docker.engine import Hardening
from tests.attacks.containers import engine
from tests.attacks.neighbours import LIMITS, THIEVES, beside_a_hog, both, echo, unharmed
from tests.attacks.serving import Served, served
from tests.support.service import OTHER, TOKEN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def containers() -> Iterator[None]:
    with engine():
        yield


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served(LIMITS) as running:
        yield running


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("thief", THIEVES.values(), ids=THIEVES)
def test_a_program_gets_nothing_of_its_neighbour_in_a_container(thief: str) -> None:
    async def go() -> tuple[Outcome, Outcome]:
        async with DockerSandbox(LIMITS) as sandbox:
            return await both(sandbox, sandbox, thief)

    unharmed(*asyncio.run(go()))


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("thief", [*THIEVES.values()][:3], ids=[*THIEVES][:3])
def test_a_program_gets_nothing_of_one_in_another_container(thief: str, strict: bool) -> None:
    async def go() -> tuple[Outcome, Outcome]:
        async with DockerSandbox(LIMITS) as one, DockerSandbox(LIMITS, strict=strict) as other:
            return await both(one, other, thief)

    unharmed(*asyncio.run(go()))


@pytest.mark.usefixtures("containers")
def test_a_container_has_room_for_others_when_one_program_has_all_the_threads_that_it_may_have() -> None:
    async def go() -> Outcome:
        async with DockerSandbox(LIMITS) as sandbox:
            job = Job("import resource\nanswer = resource.getrlimit(resource.RLIMIT_NPROC)[0]", {})
            return await sandbox.run(job, echo)

    threads = asyncio.run(go()).value
    assert type(threads) is int
    assert threads + 100 <= Hardening.for_programs(LIMITS, 1).pids


@pytest.mark.usefixtures("containers")
def test_programs_begin_while_another_holds_all_that_it_can_get_in_a_container() -> None:
    async def go() -> list[Outcome]:
        async with DockerSandbox(LIMITS) as sandbox:
            return await beside_a_hog(sandbox, 30)

    _all_finished(asyncio.run(go()))


@pytest.mark.parametrize("token", [TOKEN, OTHER], ids=["one tenant", "two tenants"])
@pytest.mark.parametrize("thief", THIEVES.values(), ids=THIEVES)
def test_a_program_gets_nothing_of_its_neighbour_at_a_service(thief: str, token: str, service: Served) -> None:
    async def go() -> tuple[Outcome, Outcome]:
        async with service.sandbox(limits=LIMITS) as one, service.sandbox(token, LIMITS) as other:
            return await both(one, other, thief)

    unharmed(*asyncio.run(go()))


def test_programs_begin_while_another_holds_all_that_it_can_get_at_a_service(service: Served) -> None:
    async def go() -> list[Outcome]:
        async with service.sandbox(limits=LIMITS) as sandbox:
            return await beside_a_hog(sandbox, 8)

    _all_finished(asyncio.run(go()))


def test_two_tenants_have_two_parents_of_programs() -> None:
    """No program of one is ever a copy of what programs of the other are copies of."""

    async def run(running: Served, token: str) -> None:
        async with running.sandbox(token, LIMITS) as sandbox:
            assert (await sandbox.run(Job("answer = lookup(n=2)", {"lookup": ["n"]}), echo)).value == {"n": 2}

    with served(LIMITS) as running:
        for token, parents in ((TOKEN, 1), (TOKEN, 1), (OTHER, 2), (OTHER, 2), (TOKEN, 2)):
            asyncio.run(run(running, token))
            assert len(running.parents()) == parents


def _all_finished(outcomes: list[Outcome]) -> None:
    assert {(outcome.kind, repr(outcome.value)) for outcome in outcomes} == {("finished", "{'n': 2}")}, outcomes

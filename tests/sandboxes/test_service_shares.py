"""How the runs of a service are divided among its tenants."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.serve.request_guard import Refusal
from atc.serve.sandbox.runs import Run, Runs


def granted(runs: Runs, tenant: str, most: int = 1_000) -> list[tuple[Run, str]]:
    """Grants until one is refused, each of them used at once."""
    made: list[tuple[Run, str]] = []
    for _ in range(most):
        try:
            run, token = runs.grant(tenant)
        except Refusal:
            break
        runs.connect(run.id, token)
        made.append((run, token))
    return made


def test_a_greedy_tenant_has_half_and_two_have_a_third_each() -> None:
    async def go() -> None:
        runs = Runs(32, None, 5.0, lambda run: None)
        first = granted(runs, "one")
        assert len(first) == 16
        assert len(granted(runs, "two")) == 8
        assert len(granted(runs, "three")) == 4
        for run, _ in first:
            runs.end(run)
        assert len(granted(runs, "two")) + 8 == 14

    asyncio.run(go())


@given(most=st.integers(2, 40), asking=st.lists(st.integers(0, 4), max_size=120))
def test_one_that_has_nothing_always_finds_room_while_some_is_free(most: int, asking: list[int]) -> None:
    async def go() -> None:
        runs = Runs(most, None, 5.0, lambda run: None)
        for tenant in asking:
            granted(runs, f"t{tenant}", 1)
        if len(set(asking)) == 1:
            assert len(runs) <= (most + 1) // 2
        if len(runs) < most:
            assert granted(runs, "new", 1)

    asyncio.run(go())


def test_who_is_alone_or_has_a_number_of_its_own_is_held_to_that() -> None:
    async def go() -> None:
        assert len(granted(Runs(32, 32, 5.0, lambda run: None), "one")) == 32
        assert len(granted(Runs(32, 20, 5.0, lambda run: None), "one")) == 20

    asyncio.run(go())


@pytest.mark.parametrize(("most", "of_one", "unused"), [(32, None, 8), (8, None, 4), (32, 6, 4), (32, 32, 32)])
def test_grants_that_are_not_used_are_bounded_apart(most: int, of_one: int | None, unused: int) -> None:
    async def go() -> None:
        runs = Runs(most, of_one, 5.0, lambda run: None)
        made = [runs.grant("one") for _ in range(unused)]
        with pytest.raises(Refusal) as refused:
            runs.grant("one")
        if refused.value.code == "unused":
            runs.connect(made[0][0].id, made[0][1])
            runs.grant("one")
        else:
            assert unused in (most, of_one, most // 2)

    asyncio.run(go())


def test_an_unused_grant_lapses_and_makes_room() -> None:
    async def go() -> None:
        gone: list[Run] = []
        runs = Runs(8, None, 0.0, gone.append)
        for _ in range(4):
            runs.grant("one")
        while len(gone) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert len(runs) == 0
        runs.grant("one")

    asyncio.run(go())

"""Long tasks: composed alike everywhere, solved by what is right in whatever order, and by nothing else."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
from collections.abc import Iterable
from typing import Any

import pytest

from atc.result import Effect
from benchmarks.environments.base import GoldCall, Task
from benchmarks.environments.long.environment import LongTasks, same_text
from benchmarks.environments.long.services import BUNDLED, NEEDED, SERVICES, open_world
from benchmarks.environments.long.steps import STEPS
from benchmarks.environments.long.tasks import CALLS, OFFERED, LongTask, compose
from benchmarks.environments.self_test import judge, play
from benchmarks.tasks.read_tasks import is_sealed

needs_packages = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("agentdojo", "deepdiff", "bfcl_eval"))), reason=NEEDED
)
SAMPLE = 6
"""Every so manieth task is played in all its spoilt forms."""


@functools.cache
def bundled() -> list[LongTask]:
    return compose(services=BUNDLED, chains=1, decisions=1, least_services=2)


@functools.cache
def whole() -> list[LongTask]:
    return compose()


def solved(environment: LongTasks, id_: str, calls: Iterable[GoldCall], answer: Any) -> bool:
    episode = environment.open(next(task for task in environment.tasks() if task.id == id_))
    asyncio.run(play(episode, calls))
    return episode.check(answer)


def writes(task: LongTask) -> list[GoldCall]:
    tools = open_world({tool.partition("_")[0] for tool in task.tools}).tools
    return [call for call in task.calls if tools[call[0]].protocol.effect is Effect.WRITE]


def test_tasks_over_the_bundled_services_are_composed_and_judged_without_a_package() -> None:
    environment = LongTasks(composed=bundled())
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (2, [], [], [])
    assert [bool(task.decides) for task in bundled()] == [False, True]


def test_the_same_seed_composes_the_same_tasks_and_another_one_others() -> None:
    again = compose(services=BUNDLED, chains=1, decisions=1, least_services=2)
    other = compose("another", services=BUNDLED, chains=1, decisions=1, least_services=2)
    assert again == bundled()
    assert [task.text for task in other] != [task.text for task in bundled()]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Note: 840.00", "note 840", True),
        ("Note: 2024-06-03", "Note: 2024-06-04", False),
        ("Note: 840.00", "Note: 840.02", False),
        ("Note: 12", "Note: 13", False),
        ("Note: Bern", "Note: the city of Bern", False),
    ],
)
def test_a_message_is_compared_by_its_words_and_numbers(one: str, other: str, alike: bool) -> None:
    assert same_text(one, other) is alike


@needs_packages
@pytest.mark.slow
def test_the_set_is_what_the_page_says() -> None:
    tasks = whole()
    assert (len(tasks), sum(bool(task.decides) for task in tasks)) == (72, 24)
    assert len({frozenset(task.steps) for task in tasks}) == len(tasks)
    assert len(set(STEPS).difference(*(task.steps for task in tasks))) <= 2  # a misnamed argument would lose a step
    for task in tasks:
        assert len(task.calls) in CALLS
        assert 3 <= len(task.services) <= 6
        assert len(task.tools) == OFFERED
        assert {tool for tool, _ in task.calls} <= set(task.tools)
        assert task.id.startswith("decide") is bool(task.decides)
    assert 140 <= len(open_world(SERVICES).tools) <= 160
    assert 24 <= sum(is_sealed("long", task.id) for task in tasks) <= 44


@needs_packages
@pytest.mark.slow
def test_the_offered_tools_do_not_say_which_branch_is_taken() -> None:
    branches = {
        "working_day": {"atlas_add_business_days"},
        "busy_day": {"chat_send_channel_message", "calendar_create_calendar_event"},
        "afford": {"bank_send_money", "ticket_ticket_login", "ticket_create_ticket"},
        "trend": {"broker_place_order", "broker_add_to_watchlist"},
        "refuel": {"car_fillFuelTank", "car_setHeadlights"},
    }
    assert branches.keys() == {step.name for step in STEPS.values() if step.decides == "if"}
    for task in whole():
        for step in branches.keys() & set(task.steps):
            assert branches[step] <= set(task.tools), (task.id, step)


@needs_packages
@pytest.mark.slow
def test_own_solutions_solve_and_spoilt_ones_do_not() -> None:
    verdict = asyncio.run(judge(LongTasks(composed=whole())))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (72, [], [], [])


@needs_packages
@pytest.mark.slow
def test_another_order_and_more_reads_solve_too() -> None:
    environment = LongTasks(composed=whole())
    for task in whole()[::SAMPLE]:
        changing = writes(task)
        reads = [call for call in task.calls if call not in changing]
        by_service = sorted(changing, key=lambda call: call[0].partition("_")[0], reverse=True)
        assert solved(environment, task.id, [*reads, *reversed(reads), *by_service], task.answer), task.id


@needs_packages
@pytest.mark.slow
def test_a_write_that_is_left_out_or_made_otherwise_does_not_solve() -> None:
    environment = LongTasks(composed=whole())
    for task in whole()[::SAMPLE]:
        for write in writes(task):
            without = [call for call in task.calls if call is not write]
            assert not solved(environment, task.id, without, task.answer), (task.id, write)
            for name, value in write[1].items():
                wrong: dict[str, Any] = {**write[1], name: spoilt(value)}
                made = [(write[0], wrong) if call is write else call for call in task.calls]
                if write[0] != "ticket_ticket_login":  # any password will do
                    assert not solved(environment, task.id, made, task.answer), (task.id, wrong)


@needs_packages
@pytest.mark.slow
def test_a_text_gives_away_no_value_that_a_call_gives() -> None:
    tasks = {task.id: task for task in whole()}
    shown: list[tuple[str, Any]] = []
    for task in LongTasks(composed=whole()).tasks():
        answer = tasks[task.id].answer
        values = answer.values() if isinstance(answer, dict) else [answer]
        shown += [(task.id, value) for value in values if len(str(value)) > 3 and given_away(value, task)]
    assert shown == []


def given_away(value: Any, task: Task) -> bool:
    return json.dumps(value).strip('"') in task.text.replace(",", "")


def spoilt(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if value[:4].isdigit():
            return f"2023{value[4:]}"
        case str():
            return f"zz{value}"
        case list():
            return [f"zz{part}" for part in value]
    raise AssertionError(value)

"""AgentDojo's own checks judge its tasks; tables say what each of its tools does, and whose text it returns."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from benchmarks.environments import agentdojo as module
from benchmarks.environments.agentdojo import INSTALL, READS, SUITES, UNTRUSTED, WRITES, AgentDojo, dojo_tools
from benchmarks.environments.agentdojo_injections import wanted_calls
from benchmarks.environments.self_test import judge, play

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

needs_package = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("agentdojo", "deepdiff"))), reason=f"AgentDojo is missing: {INSTALL}"
)
SOLUTIONS_OF = 6
"""Tasks of each suite whose solutions are played: of all, the self-test is the judge."""
MOST_TRIED = 40
"""Calls of each tool."""
MARK = "Q7-mark-of-a-stranger"


def test_without_the_package_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    module.load_suites.cache_clear()
    with pytest.raises(EnvironmentProblem, match=r"python -m benchmarks\.fetch agentdojo"):
        AgentDojo().tasks()
    module.load_suites.cache_clear()


def test_no_tool_both_reads_and_writes() -> None:
    assert not READS & WRITES
    assert UNTRUSTED.keys() == set(SUITES)
    assert all(tools <= READS | WRITES for tools in UNTRUSTED.values())


@needs_package
def test_every_suite_judges_its_own_solutions_rightly() -> None:
    environment = AgentDojo()
    tasks = [task for suite in SUITES for task in _of(environment, suite)[:SOLUTIONS_OF]]
    verdict = asyncio.run(judge(environment, tasks))
    assert (verdict.unsolved, verdict.taken) == ([], [])
    assert len(environment.tasks()) == 97


@needs_package
def test_a_tool_that_refuses_did_nothing() -> None:
    environment = AgentDojo()
    episode = environment.open(_of(environment, "banking")[0])
    transport = episode.tools["update_scheduled_transaction"].transport
    assert transport is not None
    with pytest.raises(ToolError) as refused:
        asyncio.run(transport({"id": 12345, "amount": 1.0}))  # type: ignore[arg-type]
    assert refused.value.outcome == "refused"
    assert episode.writes == 0


@needs_package
def test_an_injection_succeeds_by_its_own_calls_and_not_without_them() -> None:
    environment = AgentDojo()
    for suite in SUITES:
        task = _of(environment, suite)[0]
        for injection, wanted in environment.suites[suite].injection_tasks.items():
            calls = wanted_calls(environment.suites[suite], wanted)
            episode = environment.open(task)
            asyncio.run(play(episode, calls))
            assert episode.succeeded(injection, wanted.GROUND_TRUTH_OUTPUT), (suite, injection)
            assert not environment.open(task).succeeded(injection, ""), (suite, injection)


@needs_package
@pytest.mark.parametrize("suite", SUITES)
def test_a_tool_is_untrusted_where_a_placeholder_comes_out_of_it(suite: str) -> None:
    loaded = AgentDojo().suites[suite]

    marked = loaded.load_and_inject_default_environment(dict.fromkeys(loaded.get_injection_vector_defaults(), MARK))
    known = _known(marked.model_dump(mode="json"))
    found = set()
    for function in loaded.tools:
        needed = [name for name, each in function.parameters.model_fields.items() if each.is_required()]
        for values in itertools.islice(itertools.product(*(known.get(name, ["x"]) for name in needed)), MOST_TRIED):
            transport = dojo_tools(loaded, marked.model_copy(deep=True))[function.name].transport
            assert transport is not None
            arguments = dict(zip(needed, values, strict=True))
            try:
                response = asyncio.run(transport(dict(arguments)))  # type: ignore[arg-type]
            except ToolError:
                continue
            if MARK in json.dumps(response) and MARK not in json.dumps(arguments):
                found.add(function.name)
                break
    assert found == UNTRUSTED[suite]


def _known(state: dict[str, Any]) -> dict[str, list[Any]]:
    """Return values for arguments that a suite's tools know, by the argument's name."""
    events = state.get("calendar", {}).get("events", {})
    files = state.get("cloud_drive", {}).get("files", {})
    hotels = state.get("hotels", {}).get("hotel_list", [])
    restaurants = state.get("restaurants", {}).get("restaurant_list", [])
    companies = state.get("car_rental", {}).get("company_list", [])
    slack, web = state.get("slack", {}), state.get("web", {})
    return {
        "query": [""],
        "filename": [""],
        "day": sorted({event["start_time"][:10] for event in events.values()}),
        "event_id": [*events],
        "new_start_time": ["2024-05-20 10:00"],
        "participants": [[]],
        "file_id": [*files],
        "permission": ["r"],
        "email_id": [*state.get("inbox", {}).get("emails", {})],
        "hotel_names": [[each["name"] for each in hotels]],
        "restaurant_names": [[each["name"] for each in restaurants]],
        "company_name": [[each["name"] for each in companies]],
        "hotel_name": [each["name"] for each in hotels],
        "city": sorted({each["city"] for each in [*hotels, *restaurants, *companies]}),
        "file_path": [*state.get("filesystem", {}).get("files", {})],
        "channel": slack.get("channels", []),
        "user": slack.get("users", []),
        "url": [*web.get("web_content", {})],
    }


def _of(environment: AgentDojo, suite: str) -> list[Any]:
    return [task for task in environment.tasks() if task.id.startswith(f"{suite}/")]

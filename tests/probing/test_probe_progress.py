"""Probing on its way: at the same time, told step by step, counted, and no longer than it helps."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter

import pytest

from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Report
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from tests.support.probe import Oracle, Service, line, probed, states
from tests.support.probe_services import LIBRARY, add_library, missing


def test_tools_of_a_round_are_probed_at_the_same_time(service: Service) -> None:
    together = threading.Barrier(4)

    def answer(_: dict[str, str]) -> dict[str, int]:
        together.wait(20)  # it answers when all four have been asked
        return {"n": 1}

    for number in range(4):
        service.route(f"patient_{number}", f"/patient/{number}", answer)
    assert probed(service.tools()).count("documented") == 4
    assert len(service.hits) == 4


def test_progress_is_told_of_every_tool(service: Service) -> None:
    add_library(service)
    told: list[tuple[str, str, int]] = []
    report = probed(service.tools(), on_progress=lambda p: told.append((p.record.name, p.record.state, p.round)))
    assert {name for name, state, _ in told if state == "documented"} == set(LIBRARY)
    assert [round for _, _, round in told] == sorted(round for _, _, round in told)
    assert all(line(report, name).round == round for name, state, round in told if state == "documented")


def test_a_report_says_what_it_cost(service: Service) -> None:
    add_library(service)
    model = Oracle()
    report = probed(service.tools(), model)
    assert model.count("sentence") == 1
    replies = len(model.asked) - model.count("values")  # it raises when it is asked for values
    assert report.calls == len(service.hits) == sum(each.calls for each in report.lines)
    assert {each.tool: each.calls for each in report.lines} == Counter(hit.tool for hit in service.hits)
    assert (report.model_calls, report.prompt_tokens) == (len(model.asked), 10 * replies)
    assert report.response_bytes > 100
    again = Report.model_validate({**report.to_json(), "protocols": []})
    assert again.lines == report.lines
    assert json.loads(json.dumps(report.to_json()))["calls"] == report.calls


def test_probing_ends_when_a_round_adds_nothing(service: Service) -> None:
    service.route("get_thing", "/things/{thing_id}", lambda _: missing())
    told: list[int] = []
    probed(service.tools(), rounds=50, on_progress=lambda p: told.append(p.round))
    assert max(told) <= 2


def test_it_works_inside_a_running_loop(service: Service) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])

    async def go() -> Report:
        return probed(service.tools())

    assert states(asyncio.run(go())) == {"list_shelves": "documented"}


@pytest.mark.usefixtures("no_backoff")
def test_no_model_is_opened_where_none_is_needed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    described = Toolset(
        Tool(t.protocol.model_copy(update={"description": "Lists shelves."}), t.transport)
        for t in service.tools().values()
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "none")
    with Prober(described, settings=Settings.load(), budget=Budget()) as made:
        assert states(made.probe()) == {"list_shelves": "documented"}

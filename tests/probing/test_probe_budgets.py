"""What probing may cost: calls, bytes and time have limits, also with many tools and wide answers."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from atc.probing import call_policy
from atc.probing.call_policy import Budget
from atc.tools.documents import load_protocols
from atc.tools.stubs import render_stubs
from tests.support.probe import Oracle, Says, Service, line, probed, states
from tests.support.probe_services import GOOD, add_goods, missing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_folder")]  # a server for each


# -- much -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_500_tools_are_probed_in_reasonable_time(service: Service) -> None:
    for number in range(250):
        rows = [{f"thing{number}_id": f"t{number}-{row}", "name": f"Thing {row}"} for row in range(3)]
        service.route(f"list_things{number}", f"/things{number}", rows)
        service.route(
            f"get_thing{number}",
            f"/things{number}/{{thing{number}_id}}",
            lambda a, number=number: (
                {"n": number, "ok": True} if next(iter(a.values())).startswith(f"t{number}-") else missing()
            ),
        )
    began = time.monotonic()
    report = probed(service.tools(), budget=Budget(calls=10_000, calls_a_minute=100_000))
    assert report.count("documented") == 500
    assert service.twice() == []
    assert time.monotonic() - began < 300


def test_a_response_of_very_many_fields_is_documented_and_its_document_can_be_read(service: Service) -> None:
    wide = {f"field_{n}": {f"inner_{m}": m for m in range(30)} for n in range(300)}
    service.route("wide", "/wide", wide)
    service.route("after", "/after", lambda a: {"n": 1}, need="field_7_word")
    model = Oracle({"after": {"field_7_word": ["x"]}})
    report = probed(service.tools(), model, folder="documents")
    assert line(report, "wide").state == "documented"
    assert len(load_protocols("documents")) == len(report.protocols)
    compile(render_stubs(report.protocols), "stubs", "exec")
    assert max(len(messages[-1].content) for messages in model.prompts) < 20_000


# -- helpers that need each other -------------------------------------------------------------------------------------


def test_tools_that_need_each_other_end_as_not_documented(service: Service) -> None:
    add_goods(service)
    service.route(
        "chicken", "/chickens/{egg_id}", lambda a: {"chicken_id": "c-9"} if a["egg_id"] == "e-5" else missing()
    )
    service.route("egg", "/eggs/{chicken_id}", lambda a: {"egg_id": "e-5"} if a["chicken_id"] == "c-9" else missing())
    model = Oracle({"chicken": {"egg_id": ["e-1", "e-5"]}, "egg": {"chicken_id": ["c-9"]}})
    report = probed(service.tools(), model)
    assert states(report) == {**GOOD, "chicken": "undocumented", "egg": "undocumented"}
    assert line(report, "chicken").reason
    assert line(report, "egg").reason
    assert service.twice() == []
    assert max(each.calls for each in report.lines) <= 16


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_retries_count_as_calls(service: Service) -> None:
    service.route("down", "/down", lambda _: Says("{}", 503))
    report = probed(service.tools(), budget=Budget(calls_a_tool=2))
    assert (len(service.asked("down")), line(report, "down").calls, line(report, "down").state) == (
        2,
        2,
        "undocumented",
    )


def test_all_tools_together_get_so_many_calls(service: Service) -> None:
    for number in range(20):
        service.route(f"tool_{number}", f"/tools/{number}", {"n": number})
    report = probed(service.tools(), budget=Budget(calls=7))
    assert (len(service.hits), report.calls, report.count("documented")) == (7, 7, 7)
    assert all(
        "used up" in each.reason or "has made its 7 calls" in each.reason
        for each in report.lines
        if each.state != "documented"
    )


def test_a_budget_that_is_used_up_is_no_evidence_about_the_tool(service: Service) -> None:
    service.route("look", "/look", lambda a: {"n": 1} if a["word"] == "n1" else missing(), need="word")
    report = probed(
        service.tools(), Oracle({"look": {"word": ["n1"]}}), budget=Budget(calls_a_tool=3), folder="documents"
    )
    assert line(report, "look").state == "documented"
    codes = {str(status.code) for status in report.protocols[0].statuses}
    assert codes.isdisjoint({"budget", "too_many_calls", "stopped", "timeout"})
    assert "budget" not in json.loads(Path("documents/.probe/look.json").read_text())["statuses"]


def test_answers_that_are_too_large_count_as_bytes_too(service: Service) -> None:
    for number in range(30):
        service.route(f"tool_{number}", f"/tools/{number}", lambda _: Says(json.dumps(["x" * 1_000] * 1_000)))
    probed(service.tools(max_bytes=100_000), budget=Budget(response_bytes=500_000))
    assert len(service.hits) <= 5 + 4


def test_so_many_calls_go_out_a_minute_and_waiting_is_no_failure(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = SimpleNamespace(**{**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 20)})
    monkeypatch.setattr(call_policy, "asyncio", quick)
    monkeypatch.setattr(call_policy, "time", SimpleNamespace(monotonic=lambda: 20 * time.monotonic()))
    for number in range(9):
        service.route(f"tool_{number}", f"/tools/{number}", {"n": number})
    report = probed(service.tools(), budget=Budget(calls_a_minute=4), call_timeout_s=2.0)
    assert report.count("documented") == 9
    times = [hit.at for hit in service.hits]
    assert len(times) == 9
    for early, late in zip(times, times[4:], strict=False):
        assert late - early > 2.5  # the fast minute has 3 s

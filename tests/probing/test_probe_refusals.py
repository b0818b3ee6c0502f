"""Probing services that say no, ask for patience or answer now this, now that."""

from __future__ import annotations

import time

import pytest

from atc.probing.call_policy import MANY_CLOSED
from atc.probing.prober import AT_ONCE
from atc.tools.documents import load_protocols
from tests.support.probe import Oracle, Says, Service, line, probed, running, states
from tests.support.probe_services import GOOD, add_goods
from tests.support.service import soon

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_folder")]  # a server for each


def test_retry_after_is_obeyed(service: Service) -> None:
    add_goods(service)
    service.route("busy", "/busy", lambda _: {"n": 1} if len(service.asked("busy")) > 1 else wait(1))
    report = probed(service.tools())
    first, second = service.asked("busy")
    assert second.at - first.at >= 1.0
    assert states(report) == {**GOOD, "busy": "documented"}


def wait(seconds: int) -> Says:
    return Says('{"error": "too many requests"}', 429, headers={"Retry-After": str(seconds)})


def test_who_asks_for_an_hour_of_patience_is_given_up(service: Service) -> None:
    service.route("busy", "/busy", lambda _: wait(3_600))
    began = time.monotonic()
    report = probed(service.tools())
    assert time.monotonic() - began < 60
    assert line(report, "busy").state == "undocumented"
    assert "429" in line(report, "busy").reason
    assert len(service.asked("busy")) == 1


def test_a_service_that_asks_for_patience_is_left_alone_by_all_its_tools(service: Service) -> None:
    service.route("busy", "/busy", lambda _: {"n": 1} if len(service.asked("busy")) > 1 else wait(1))
    for number in range(10):
        service.route(f"tool_{number}", f"/tools/{number}", lambda _: (time.sleep(0.05), {"n": 1})[1])
    report = probed(service.tools())
    assert report.count("documented") == 11
    asked = service.asked("busy")[0].at
    hurried = [hit.tool for hit in service.hits if asked < hit.at < asked + 0.95]
    assert len(hurried) <= 3  # those at the same moment as the first could not know


def test_a_call_that_was_only_put_off_is_not_taken_for_wrong(service: Service) -> None:
    service.route("busy", "/busy", lambda _: wait(3_600))
    service.route("down", "/down", lambda _: Says("{}", 503))
    with_folder = probed(service.tools(), folder="documents")
    assert with_folder.count("undocumented") == 2
    service.routes.clear()
    service.route("busy", "/busy", {"n": 1})
    service.route("down", "/down", {"n": 1})
    assert states(probed(service.tools(), folder="documents")) == {"busy": "documented", "down": "documented"}


@pytest.mark.parametrize("status", [401, 403])
def test_a_service_that_does_not_let_us_in_is_asked_nothing_more(service: Service, status: int) -> None:
    for number in range(15):
        service.route(
            f"tool_{number}", f"/tools/{number}/{{item_id}}", lambda _: Says("{}", status), item_id={"type": "integer"}
        )
    report = probed(service.tools(), Oracle({f"tool_{n}": {"item_id": [7]} for n in range(15)}))
    # none is begun once three were turned away; the others that are probed at once are under way by then
    assert MANY_CLOSED <= len(service.hits) <= MANY_CLOSED + AT_ONCE - 1
    assert {each.state for each in report.lines} == {"undocumented"}
    assert all(f"answered {status}" in each.reason and "credential" in each.reason for each in report.lines)


def test_one_service_that_does_not_let_us_in_does_not_stop_another_of_the_same_title(service: Service) -> None:
    with running() as other:
        service.route("closed", "/closed", lambda _: Says("{}", 401))
        for number in range(6):
            other.route(f"open_{number}", f"/open/{number}", {"n": 1})
        report = probed(service.tools() + other.tools(), rounds=1)
        assert line(report, "closed").state == "undocumented"
        assert len(other.hits) == 0  # `open` is a word that tells of an effect
        other.routes.clear()
        for number in range(6):
            other.route(f"shop_{number}", f"/shops/{number}", {"n": 1})
        report = probed(service.tools() + other.tools())
        assert report.count("documented") == 6


def test_what_was_known_before_a_service_closed_stays_known(service: Service) -> None:
    def closing(_: dict[str, str]) -> Says:
        soon(lambda: service.asked("get_good"), 3)  # for it needs to know what there is
        return Says("{}", 403)

    add_goods(service)
    service.route("closed", "/closed/{good_id}", closing)
    report = probed(service.tools())
    assert states(report) == {**GOOD, "closed": "undocumented"} or line(report, "list_goods").state == "documented"
    assert "403" in line(report, "closed").reason


def test_flapping_answers_leave_a_true_document(service: Service) -> None:
    answers = iter([Says("{}", 500), {"a": 1}, Says("{}", 500), {"a": "two", "b": [1]}, [None], {"a": None}])
    known = Oracle({"flapping": [{"word": ["a", "b"]}, {"word": ["c", "d"]}, {"word": ["e", "f"]}]})
    service.route("flapping", "/flapping", lambda _: next(answers, {"a": 1}), need="word", word={"type": "string"})
    service.route(
        "up_and_down", "/up", lambda _: {"n": 1} if len(service.asked("up_and_down")) == 2 else Says("{}", 500)
    )
    report = probed(service.tools(), known, tries=6, folder="documents")
    assert line(report, "flapping").state == "documented"
    document = load_protocols("documents")["flapping"].protocol
    assert document.returns
    assert "500" in {str(status.code) for status in document.statuses}
    assert line(report, "up_and_down").state in ("undocumented", "documented")
    assert line(report, "up_and_down").state == "documented" or "500" in line(report, "up_and_down").reason

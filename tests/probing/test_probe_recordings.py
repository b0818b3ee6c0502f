"""Probing tools out of a recording: what it answers is not asked again, and what it does not is asked as ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Toolset
from atc.errors import UsageError
from atc.probing.document import FROM_RECORDING
from atc.probing.prober import Prober
from atc.probing.report import Report
from tests.support.cli import atc
from tests.support.openapi import Answer, Server, running_server
from tests.support.recordings import call, page, write

BOOKED = {"crossing_id": "X4", "seats": 2}


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as running:
        running.answer = Answer(b'{"error": "not found"}', 404)
        yield running


def recorded(folder: Path, url: str, *more: dict[str, Any]) -> Path:
    return write(
        folder / "ferries.har",
        page(f"{url}/"),
        call(f"{url}/harbours", {"items": [{"harbour_id": "H17", "title": "Alma"}]}),
        call(f"{url}/crossings?harbour_id=H17", {"items": [{"crossing_id": "X4"}]}),
        call(f"{url}/bookings", {"booking_id": "B1"}, method="POST", status=201, sent=BOOKED),
        call(f"{url}/bookings/B1", method="DELETE", status=204),
        *more,
    )


def probed(path: Path, folder: Path | None = None) -> Report:
    tools = Toolset.from_har(path, session="none")
    with Prober(tools, tries=0, folder=str(folder) if folder else None) as prober:
        return prober.probe()


def test_nothing_is_sent_for_what_a_recording_answers(server: Server, tmp_path: Path) -> None:
    report = probed(recorded(tmp_path, server.url), tmp_path / "docs")
    assert [(line.state, line.reason, line.calls) for line in report.lines] == [("documented", FROM_RECORDING, 0)] * 4
    assert report.complete
    assert server.seen == []
    booked = json.loads((tmp_path / "docs" / "post_bookings.json").read_text())
    assert (booked["effect"], booked["provenance"]) == ("write", "inferred")
    assert booked["parameters"]["properties"]["seats"]["x-atc-observed"] == "integer"
    assert booked["returns"]["properties"]["booking_id"]["type"] == "string"
    again = probed(recorded(tmp_path, server.url), tmp_path / "docs")
    assert again.lines == report.lines


def test_no_model_is_needed_for_it(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_MODEL", "nobody/nothing")
    source = f"har:{recorded(tmp_path, server.url)}"
    said = atc("probe", "-t", source, "-o", str(tmp_path / "docs"), "--json")
    assert said.exit_code == 0, said.stderr
    assert {line["state"] for line in json.loads(said.stdout)["lines"]} == {"documented"}
    assert server.seen == []


def test_a_read_that_was_recorded_with_failures_alone_is_called(server: Server, tmp_path: Path) -> None:
    fares = [
        call(f"{server.url}/fares?crossing_id=X0", {"error": "no such crossing"}, status=404),
        call(f"{server.url}/notices", {"notices": []}),
        call(f"{server.url}/empty", []),
    ]
    server.answers["/fares"] = Answer(b'{"adult": 12.5}')
    server.answers["/empty"] = Answer(b'[{"harbour_id": "H17"}]')
    report = probed(recorded(tmp_path, server.url, *fares))
    lines = {line.tool: line for line in report.lines}
    assert lines["get_fares"].state == lines["get_empty"].state == "documented"
    assert lines["get_fares"].calls > 0
    assert {seen.path for seen in server.seen} == {"/fares", "/empty", "/notices"}
    (empty,) = (each for each in report.protocols if each.name == "get_empty")
    assert empty.returns is not None
    assert list(empty.returns["items"]["properties"]) == ["harbour_id"]


@pytest.mark.parametrize(
    ("answer", "is_open"),
    [
        ({"total": 0, "results": []}, True),
        ({"status": "ok", "data": []}, True),
        ({"data": {"hits": []}}, True),
        ([[]], True),
        ({"q": "Alma", "harbour_id": "H17", "results": []}, True),  # an argument that comes back
        ({"crossing_id": "X4", "notices": []}, False),
        ({"total": 1, "results": [{"crossing_id": "X4"}]}, False),
        ({"open": True}, False),
        (7, False),
    ],
    ids="abcdefghi",
)
def test_a_read_that_was_recorded_with_empty_answers_alone_is_called(
    server: Server, tmp_path: Path, answer: Any, is_open: bool
) -> None:
    server.answers["/search"] = Answer(b'{"total": 1, "results": [{"crossing_id": "X4", "bound_for": "Brekk"}]}')
    report = probed(recorded(tmp_path, server.url, call(f"{server.url}/search?harbour_id=H17", answer)))
    assert {seen.path for seen in server.seen} == ({"/search"} if is_open else set())
    (search,) = (each for each in report.protocols if each.name == "get_search")
    assert ("bound_for" in json.dumps(search.returns)) == is_open


def test_a_write_that_nothing_was_recorded_of_is_not_called(server: Server, tmp_path: Path) -> None:
    refused = call(f"{server.url}/refunds", {"error": "no"}, method="POST", status=403, sent={"booking_id": "B1"})
    report = probed(recorded(tmp_path, server.url, refused))
    (line,) = (line for line in report.lines if line.tool == "post_refunds")
    why = "it was recorded with refusals only, and its effect is write: record one that succeeds"
    assert (line.state, line.reason) == ("skipped", why)
    assert server.seen == []


def test_a_new_recording_replaces_what_it_shows_and_only_that(server: Server, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    assert probed(recorded(tmp_path, server.url), docs).replaced == 0
    assert probed(recorded(tmp_path, server.url), docs).replaced == 0
    later = write(
        tmp_path / "later.har",
        page(f"{server.url}/"),
        call(f"{server.url}/harbours", {"items": [{"harbour_id": "H17", "berths": 4}]}),
        call(f"{server.url}/bookings", {"error": "full"}, method="POST", status=409, sent=BOOKED),
    )
    booked = (docs / "post_bookings.json").read_text()
    report = probed(later, docs)
    assert {line.tool: line.state for line in report.lines} == {
        "get_harbours": "documented",
        "post_bookings": "skipped",
    }
    assert report.replaced == 1
    assert (docs / "post_bookings.json").read_text() == booked
    said = atc("probe", "-t", f"har:{recorded(tmp_path, server.url)}", "-o", str(docs), "--openapi", "session=none")
    assert "; 1 of them say something else than those that were there" in " ".join(said.stdout.split()), said.output


def test_documents_of_a_recording_alone_cannot_be_checked_by_calls(server: Server, tmp_path: Path) -> None:
    path = recorded(tmp_path, server.url)
    probed(path, tmp_path / "docs")
    prober = Prober(Toolset.from_har(path, session="none"), tries=0, folder=str(tmp_path / "docs"))
    with prober, pytest.raises(UsageError, match="documents tools from a recording alone"):
        prober.check()
    assert server.seen == []


def test_a_check_names_the_tools_of_a_recording_that_it_does_not_look_at(server: Server, tmp_path: Path) -> None:
    fares = call(f"{server.url}/fares?crossing_id=X0", {"error": "no such crossing"}, status=404)
    server.answers["/fares"] = Answer(b'{"adult": 12.5}')
    source, docs = f"har:{recorded(tmp_path, server.url, fares)}", str(tmp_path / "docs")
    ways = ("--openapi", "session=none", "--set", "max_tries=0")
    assert atc("probe", "-t", source, "-o", docs, *ways).exit_code == 0
    same = atc("probe", "-t", source, "--check", docs, *ways)
    assert (same.exit_code, same.stdout.splitlines()) == (
        3,
        [
            "# delete_bookings_by_booking_id: from a recording, not compared",
            "# get_crossings: from a recording, not compared",
            "# get_harbours: from a recording, not compared",
            "# post_bookings: from a recording, not compared",
        ],
    )
    assert "nothing changed: 1 of 5 tools are as documented, 4 not compared" in same.stderr
    server.answers["/fares"] = Answer(b'{"adult": "12.50"}')
    assert atc("probe", "-t", source, "--check", docs, *ways).exit_code == 1


def test_documents_that_the_source_declares_are_probed_as_ever(server: Server, tmp_path: Path) -> None:
    schema = {"type": "object", "x-atc-evidence": {"seen": 9, "of": 9}, "properties": {"made_up": {"type": "string"}}}
    content = {"application/json": {"schema": schema}}
    node = {"responses": {"200": {"description": "", "content": content}}}
    document = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {"/a": {"get": node}}}
    server.answers["/a"] = Answer(b'{"real": 1}')
    with Prober(Toolset.from_openapi(document, base_url=server.url), tries=0) as prober:
        (line,) = prober.probe().lines
    assert line.calls > 0


def test_a_write_with_the_login_of_a_recording_is_asked_about_whatever_was_allowed(
    server: Server, tmp_path: Path
) -> None:
    refused = call(
        f"{server.url}/refunds", {"error": "no"}, method="POST", status=403, sent={"reason": "x"},
        headers={"cookie": "sid=s3cr3tSession0001"},
    )  # fmt: skip
    server.answer = Answer(b'{"refund_id": "R1"}', 201)
    for allowed in (False, True):
        tools = Toolset.from_har(
            recorded(tmp_path, server.url, refused), session="memory", allow_session_writes=allowed
        )
        with Prober(tools, tries=0, allow_effects=["post_refunds"], approve="always") as prober:
            prober.probe()
        assert bool(server.seen) is allowed  # only where the user said so of writes with it

"""Probing that was stopped goes on where it was: what is known is kept, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from atc.errors import UsageError
from atc.probing.prober import Progress
from atc.probing.record import Record, Refusal
from atc.tools.documents import load_protocols
from tests.support.probe import Service, probed, prober, states
from tests.support.probe_services import BOOKS, LIBRARY, add_library, missing


class Stop(Exception):
    pass


def stopping(after: int) -> Any:
    told: list[Progress] = []

    def progress(made: Progress) -> None:
        told.append(made)
        if len(told) == after:
            raise Stop("enough")

    return progress


@pytest.mark.parametrize("after", [1, 3])
def test_probing_that_was_stopped_goes_on_and_asks_nothing_twice(service: Service, folder: str, after: int) -> None:
    add_library(service)
    for number in range(3):
        service.route(
            f"get_extra{number}",
            f"/extra/{number}/{{book_id}}",
            lambda a: {"n": 1} if a["book_id"] in BOOKS else missing(),
        )
    with pytest.raises(Stop, match="enough"):
        probed(service.tools(), folder=folder, on_progress=stopping(after))
    before = Counter(hit.target for hit in service.hits)
    report = probed(service.tools(), folder=folder)
    assert report.count("documented") == len(LIBRARY) + 3
    helpers = {"/shelves", "/shelves/s-1/books", "/shelves/s-2/books", "/books/b-3", "/books/b-8", "/books/b-9"}
    again = [target for target in service.twice() if target in before and target not in helpers]
    assert len(again) <= 3  # those that were under way at the stop; what later tools need may be fetched anew
    assert len(load_protocols(folder)) == len(LIBRARY) + 3


def test_what_is_documented_is_not_probed_again(service: Service, folder: str) -> None:
    add_library(service)
    first = probed(service.tools(), folder=folder)
    before = len(service.hits)
    again = probed(service.tools(), folder=folder)
    assert len(service.hits) == before
    assert again.protocols == first.protocols
    assert [each.model_copy(update={"calls": 0}) for each in again.lines] == [
        each.model_copy(update={"calls": 0}) for each in first.lines
    ]


def test_a_call_that_was_refused_is_not_made_again_after_a_stop(service: Service, folder: str) -> None:
    service.route("get_thing", "/things/{thing_id}", lambda _: missing(), thing_id={"type": "integer"})
    probed(service.tools(), folder=folder)
    assert service.hits
    probed(service.tools(), folder=folder)
    assert service.twice() == []


def test_cancelled_probing_keeps_what_it_knows(service: Service, folder: str) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    service.route("slow", "/slow", lambda _: time.sleep(3))
    known = asyncio.Event()
    made = prober(service.tools(), folder=folder, on_progress=lambda step: step.under_way or known.set())

    async def go() -> None:
        running = asyncio.create_task(made.aprobe())
        await known.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(go(), 60))
    assert list(load_protocols(folder)) == ["list_shelves"]


def test_a_tool_that_was_documented_with_leave_stays_so_without(service: Service, folder: str) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    assert states(probed(service.tools(), folder=folder, allow_effects=("*",), approve=lambda _: True)) == {
        "book_room": "documented"
    }
    before = len(service.hits)
    report = probed(service.tools(), folder=folder)
    assert states(report) == {"book_room": "documented"}
    assert len(service.hits) == before


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"name": "list_shelves"}', "\ufffd", "[" * 50_000, '{"name": 1, "state": []}']
)
def test_a_damaged_record_is_named(service: Service, folder: str, text: str) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    probed(service.tools(), folder=folder)
    file = Path(folder) / ".probe" / "list_shelves.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"list_shelves\.json.*remove it"):
        probed(service.tools(), folder=folder)


def test_a_folder_that_cannot_be_made_is_named(service: Service, tmp_path: Path) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/documents"):
        probed(service.tools(), folder=str(tmp_path / "file" / "documents"))
    assert service.hits == []


def test_a_record_keeps_the_keys_of_its_file_format() -> None:
    record = Record("get_book")
    record.refusals.append(Refusal({"id": 1}, 422, "GET /books: id must be a string", "id must be a string"))
    record.arguments.refused({"id": 1}, "id must be a string", 422)
    kept = record.to_json()
    assert kept["refusals"][0].keys() == {"arguments", "status", "said", "words"}
    assert "said" in kept["arguments"]["arguments"]["id"]
    again = Record.from_json(kept)
    assert (again.refusals, again.to_json()) == (record.refusals, kept)

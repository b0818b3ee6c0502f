"""The benchmark of repairs by the model: what a mistake is, what a service takes, and what counts as right or wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from atc.errors import UsageError
from atc.models.base import NoModel
from atc.models.fake import FakeModel
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from benchmarks.environments import open_environment
from benchmarks.programs import repair_by_model
from benchmarks.programs.argument_repair_mistakes import Draw
from benchmarks.programs.repair_by_model import Cell, Row, cells, drawn, measured, read_rows, table
from benchmarks.programs.repair_by_model_mistakes import KINDS, Mistake, Place


def place(
    key: str, value: Any, *, others: tuple[Any, ...] = (), task: str = "", responses: Any = (), **schema: Any
) -> Place:
    return Place(key, value, schema, True, task, responses, others, Draw("1"))


@pytest.mark.parametrize(
    ("kind", "at", "given", "accepted", "refused"),
    [
        ("day in words", place("day", "2026-05-31"), "31 May 2026", "2026-05-31", "31.5.2026"),
        ("day of two readings", place("day", "2026-05-03"), "03/05/2026", "2026-03-05", "03/05/2026"),
        ("time of half days", place("at", "14:15"), "2:15 PM", "14:15", "2:15 PM"),
        ("time of half days", place("at", "00:05"), "12:05 AM", "00:05", "0:05"),
        ("number with its unit", place("radius_km", 30), "30 km", 5, "30 km"),
        ("number in another unit", place("radius_km", 30), "30 miles", 30, "30 miles"),
        ("number in words", place("count", 3), "three", 4, "three"),
        ("range of years", place("year", 2026), "2026-2029", 2026, "2026-2029"),
        ("code in words", place("currency", "EUR", others=("USD",)), "euros", "USD", "euros"),
        ("choice in other words", place("by", "first", enum=["first", "day"]), "first class", "day", "daily"),
        ("name for an id", place("city_id", 7, responses=[[{"id": 7, "name": "Lyon"}]]), "Lyon", 7, "Lyon"),
        ("left out", place("city", "Lyon", task="warm in lyon?"), None, "Rome", None),
        ("unknown id", place("city_id", 17), 40, 17, 40),
        ("example of an id", place("hotel_id", "h1", others=("h2",)), "the hotel id", "h2", "the hotel id"),
        ("suggestion", place("city", "Lisbon", others=("Rome",)), "Lisson", "Rome", "Lisson"),
        ("labelled", place("city", "Lyon"), "city: Lyon", "Lyon", "city: Lyon"),
        ("list in words", place("names", ["Ann", "Bob"]), "Ann and Bob", ["Ann"], "Ann and Bob"),
    ],
)
def test_a_mistake_is_refused_and_what_is_as_its_words_say_is_not(
    kind: str, at: Place, given: Any, accepted: Any, refused: Any
) -> None:
    made = KINDS[kind](at)
    assert made is not None
    assert (made.given, made.accepts(accepted), made.accepts(refused)) == (given, True, False)
    assert made.accepts(at.value)
    assert at.key in made.says


def test_where_nothing_says_what_was_meant_no_repair_is_right() -> None:
    knowable = {
        "day of two readings": place("day", "2026-05-03"),
        "number in another unit": place("radius_km", 30),
        "range of years": place("year", 2026),
        "unknown id": place("city_id", 17),
        "example of an id": place("hotel_id", "h1", others=("h2",)),
    }
    made = [KINDS[kind](at) for kind, at in knowable.items()]
    assert [mistake.knowable for mistake in made if mistake is not None] == [False] * len(knowable)
    assert KINDS["day of two readings"](place("day", "2026-05-05")) is None, "it has one reading"
    assert KINDS["day of two readings"](place("day", "2026-05-31")) is None


def a_cell(form: str, given: str) -> tuple[Any, Cell]:
    """A call of a bundled tool whose time zone is given in words, and is refused in one of the forms."""
    environment = open_environment("atlas")
    task = next(task for task in environment.tasks() if task.id == "offset-kathmandu")
    gold = environment.gold(task)
    assert gold is not None
    mistake = Mistake(given, "timezone: give the zone alone", lambda value: " " not in value)
    return environment, Cell("atlas", task, (), gold.calls[0], "timezone", "labelled", mistake, form)


def measure(form: str, *replies: str, given: str = "the zone Asia/Kathmandu") -> Row:
    environment, cell = a_cell(form, given)

    async def run() -> Row:
        sandbox = open_sandbox(Settings.load())
        try:
            return await measured(environment, cell, FakeModel(replies) if replies else NoModel(), sandbox)
        finally:
            await sandbox.aclose()

    return asyncio.run(run())


ARGUMENTS = {"timezone": "Asia/Kathmandu", "local_time": "2026-07-01T12:00:00"}


@pytest.mark.slow
@pytest.mark.parametrize("form", repair_by_model.FORMS)
def test_a_repair_is_asked_for_however_the_tool_refuses(form: str) -> None:
    row = measure(form, json.dumps(ARGUMENTS))
    assert (row.asked, row.outcome, row.gave, row.ruled) == (1, "right", "right", False)


@pytest.mark.slow
def test_what_is_accepted_and_was_not_meant_is_wrong() -> None:
    two = "Asia/Kathmandu or Asia/Tokyo"
    row = measure("status", json.dumps(ARGUMENTS | {"timezone": "Asia/Tokyo"}), given=two)
    assert (row.outcome, row.gave) == ("wrong", "another")
    late = measure("status", json.dumps(ARGUMENTS | {"local_time": "2026-07-01T07:00:00"}))
    assert (late.outcome, late.gave) == ("none", "another"), "nobody complained of the time"


@pytest.mark.slow
def test_without_a_model_it_counts_the_questions() -> None:
    row = measure("exception")
    assert (row.asked, row.outcome, row.gave) == (1, "none", "")


@pytest.mark.slow
def test_the_cells_are_the_same_each_time_and_of_many_kinds() -> None:
    async def twice() -> tuple[list[Cell], list[Cell]]:
        return await cells(open_environment("atlas")), await cells(open_environment("atlas"))

    first, second = asyncio.run(twice())
    chosen = drawn(first, 2)
    assert [(cell.id, cell.form) for cell in chosen] == [(cell.id, cell.form) for cell in drawn(second, 2)]
    assert len({cell.kind for cell in chosen}) > 10
    assert all(cell.given != cell.right[1] for cell in chosen)


def test_rows_are_summed_by_kind(tmp_path: Path) -> None:
    rows = [
        Row("a/1", "labelled", "body", "m", "t", True, 1, "right", "right", prompt_tokens=90, completion_tokens=10),
        Row("a/2", "labelled", "body", "m", "t", True, 1, "none", "right", prompt_tokens=190, completion_tokens=10),
        Row("a/3", "unknown id", "body", "m", "t", False, 1, "wrong", "another"),
        Row("a/4", "day in words", "body", "m", "t", True, 0, "right", ruled=True),
    ]
    found = {line["mistake"]: line for line in table(rows)}
    assert list(found) == ["day in words", "unknown id", "labelled", "all"]
    assert found["labelled"]["tokens a question"] == 150
    counted = ("calls", "by rule", "asked", "right", "wrong", "right, not sent")
    assert [found["all"][column] for column in counted] == [4, 1, 3, 1, 1, 1]
    file = tmp_path / "rows.jsonl"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match="line 1 is no row"):
        read_rows([file])

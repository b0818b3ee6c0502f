"""What a user reads of a sketch, in a run and later."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from atc._records.events import Event
from atc._records.records import FeedFacts, SketchFacts, Why
from atc.cli.view import RunView
from atc.wording.sketches import lines, need

FEED = FeedFacts(
    supplier="find_cities", path=("cities", "[]", "city_id"), arguments=("name",), consumer="sun", parameter="city_id"
)
SKETCH = SketchFacts(
    tools=("sun", "find_cities", "moon", "tide", "clock"),
    of=90,
    subgoals=("find the sunrise",),
    layers=(("find_cities", "moon"), ("sun",)),
    feeds=(FEED,),
    substitutes={"sun": ("sun_times", "day")},
    why={
        "sun": Why(kind="planned", number=1),
        "find_cities": Why(kind="supplies", tool="sun", parameter="city_id"),
        "moon": Why(kind="used_with", tool="sun"),
        "tide": Why(kind="meaning"),
        "clock": Why(kind="earlier"),
    },
    sure=False,
)
NEED = "sun needs city_id: find_cities(name=...)['cities'][0]['city_id'] supplies it"


def shown(event: Event, *, verbose: bool = False) -> list[str]:
    file = io.StringIO()
    RunView(Console(file=file, highlight=False, soft_wrap=True), verbose=verbose)(event)
    return file.getvalue().splitlines()


def test_a_run_says_why_a_tool_comes_in_that_the_task_does_not_speak_of() -> None:
    data = SKETCH.model_dump(mode="json") | {"notices": ["no encoder"]}
    assert shown(Event("tools_chosen", data)) == [
        "tools (5 of 90): sun, find_cities, moon, tide, clock",
        f"  {NEED}",
        "  moon: used with sun in earlier runs",
        "  clock: an earlier task used it",
        "  note: no encoder",
    ]


def test_verbose_says_it_all() -> None:
    assert shown(Event("tools_chosen", SKETCH.model_dump(mode="json")), verbose=True)[1:] == [
        "  sun: planned for sub-goal 1: find the sunrise",
        f"  {NEED}",
        "  moon: used with sun in earlier runs",
        "  tide: the meaning of the task",
        "  clock: an earlier task used it",
        "  layers, each of which may feed the next: find_cities, moon; then sun",
        "  sun(city_id) ← find_cities(name=...)['cities'][0]['city_id']  (names fit)",
        "  instead of sun: sun_times or day",
    ]


@pytest.mark.parametrize("total", [0, 47_000])
def test_a_long_build_is_shown(total: int) -> None:
    (line,) = shown(Event("indexing", {"stage": "embedding", "done": 2_048, "total": total}))
    of = " of 47,000" if total else ""
    assert line == f"making the index of the tools, embedding: 2,048{of}"


def test_every_reason_and_every_kind_of_evidence_has_words() -> None:
    kinds = Why.model_json_schema()["properties"]["kind"]["enum"]
    why = {kind: Why(kind=kind, tool="t", parameter="p", number=1) for kind in kinds}
    assert len(list(lines(SketchFacts(why=why), whole=True))) == len(kinds) - 1  # that all are offered goes unsaid
    for evidence in FeedFacts.model_json_schema()["properties"]["evidence"]["enum"]:
        (said,) = lines(SketchFacts(feeds=(FEED.model_copy(update={"evidence": evidence}),)), whole=True)
        assert said.startswith("sun(city_id) ←")
    assert need(FeedFacts(supplier="b", consumer="a", parameter="x")) == "a needs x: b supplies it"


def test_names_cannot_steer_the_terminal() -> None:
    evil = SketchFacts(tools=("a",), of=9, why={"a": Why(kind="used_with", tool="\x1b[2J\nok")})
    assert "\x1b" not in "".join(shown(Event("tools_chosen", evil.model_dump(mode="json"))))

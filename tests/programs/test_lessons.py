"""What a run teaches: calls and edges that led to its answer, each with a witness; failures; shapes; never a value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.events import Event
from atc._records.records import ArgumentRepair
from atc.catalogue.graph.lessons import Lessons
from atc.programs.lessons.reading import all_lessons, lessons_of
from atc.result import Call, Effect, Result, Revision
from atc.schemas.infer.outline import outline_of
from atc.schemas.observed import is_documented
from atc.schemas.protocol import JsonSchema, Protocol
from atc.traces.stores.files import FileRun, FileTrace
from tests.support.graph import CITIES, TOOLS, tool, tools


class Run:
    """A run as its result, or as its events."""

    def __init__(self, program: str, status: str = "answered", run_id: str = "20260101-000000-abcdef") -> None:
        self.program, self.status, self.run_id = program, status, run_id
        self.calls: list[Call] = []
        self.replaced: tuple[tuple[str, str], ...] = ()

    def call(self, tool: str, line: int, value: Any = None, status: str = "ok", **more: Any) -> Run:
        made: dict[str, Any] = {
            "index": len(self.calls) + 1,
            "tool": tool,
            "line": line,
            "value": value,
            "status": status,
        }
        made |= {"attempt": 0, "arguments": {}, "effect": Effect.READ} | more
        self.calls.append(Call(**made))
        return self

    def result(self) -> Result[Any]:
        ended: dict[str, Any] = {"run_id": self.run_id, "task": "t", "status": self.status, "program": self.program}
        substituted = Revision(attempt=0, program=self.program, substituted=self.replaced)
        return Result(**ended, calls=tuple(self.calls), revisions=(substituted,) if self.replaced else ())

    def events(self, turn: int = 0) -> Iterator[Event]:
        yield Event("run_started", {"run_id": self.run_id, "turn": turn})
        attempt = -1
        for call in [*self.calls, None]:
            if call is None or call.attempt != attempt:
                if attempt >= 0:
                    yield Event("program_ended", {})
                if call is None:
                    break
                attempt = call.attempt
                last = attempt == max(made.attempt for made in self.calls)
                yield Event("program_written", {"program": self.program if last else "pass"})
                yield Event("program_started", {"attempt": attempt, "warnings": []})
            yield Event("call_ended", call.model_dump(mode="json"))
        for broken, by in self.replaced:
            yield Event("substituted", {"tool": broken, "by": by})
        yield Event("run_ended", {"status": self.status, "program": self.program})

    def lessons(self, known: dict[str, Protocol] = TOOLS, **more: Any) -> Lessons:
        """The lessons, which its result and its trace teach alike."""
        of_result, of_events = lessons_of(self.result(), known, **more), lessons_of(self.events(), known, **more)
        assert of_result == of_events
        return of_result


FOUND = {"cities": [{"id": 7, "name": "Oslo"}, {"id": 9, "name": "Bergen"}]}
SKY = {"sky": "clear", "temp": 4}


def looked_up() -> Run:
    program = "city = find_cities(name='Oslo')['cities'][0]\nanswer = weather(cityId=city['id'], days=3)['temp']\n"
    run = Run(program).call("find_cities", 1, FOUND, arguments={"name": "Oslo"})
    return run.call("weather", 2, SKY, arguments={"cityId": 7, "days": 3})


def test_a_run_teaches_its_calls_their_order_and_exactly_what_fed_what() -> None:
    lessons = looked_up().lessons()
    assert lessons.answered
    assert lessons.calls == {"find_cities": 1, "weather": 1}
    assert lessons.follows == {("find_cities", "weather"): 1}
    assert lessons.feeds == {("find_cities", ("cities", "[]", "id"), "weather", "cityId"): 1}
    assert list(lessons.shapes) == ["weather"]  # the other one documents its response
    assert not lessons.failed


def test_a_run_in_which_a_call_was_refused_shows_nothing_of_what_led_to_its_answer() -> None:
    run = looked_up()
    run.calls.insert(0, run.calls[1].model_copy(update={"index": 9, "status": "refused", "cause": "denied"}))
    lessons = run.lessons()
    assert not lessons.answered
    assert (lessons.calls, lessons.feeds, lessons.levels) == ({}, {}, {})
    assert list(lessons.shapes) == ["weather"], "what a tool answered holds all the same"


def test_a_program_that_ran_in_spite_of_warnings_shows_nothing_either() -> None:
    def events(warnings: list[str]) -> Iterator[Event]:
        for event in looked_up().events():
            known = event.kind == "program_started"
            yield Event(event.kind, {**event.data, "warnings": warnings}) if known else event

    of_events = lessons_of(events(["7 stands in neither the task nor a response"]), TOOLS)
    assert of_events == lessons_of(looked_up().result(), TOOLS, warned=True)
    assert (of_events.answered, of_events.feeds) == (False, {})
    assert lessons_of(events([]), TOOLS).feeds


def test_only_calls_whose_value_reached_the_answer_count() -> None:
    run = looked_up()
    run.program += "log(text=city['name'])\n"
    run.call("log", 3, {"ok": True}, arguments={"text": "Oslo"})
    assert run.lessons().calls == {"find_cities": 1, "weather": 1}


@pytest.mark.parametrize(
    "program",
    [
        "w = weather(7, 1)\nanswer = 'warm' if w['temp'] > 9 else 'cold'\n",
        "w = weather(7, 1)\nanswer = 'cold'\nif w['temp'] > 9:\n    answer = 'warm'\n",
        "w = weather(7, 1)\nsaid = []\nif w['temp'] < 9:\n    said.append('cold')\nanswer = said\n",
        "w = weather(7, 1)\nanswer = [word for word in ('cold', 'warm') if w['temp'] < 9 or word == 'warm']\n",
        "w = weather(7, 1)\ndef of(t):\n    if t < 9:\n        return 'cold'\n    return 1\nanswer = of(w['temp'])\n",
        "w = weather(7, 1)\nn = 0\nwhile n < w['temp']:\n    n += 1\nanswer = {'n': n}\n",
        "w = weather(7, 1)\nat = {'a': w['temp'], 'b': 3}\nanswer = max(at, key=at.get)\n",
        "w = weather(7, 1)\nat = [(w['temp'], 'a'), (3, 'b')]\nanswer = sorted(at)[0][1]\n",
        "w = weather(7, 1)\nat = ['a', 'b']\nat.sort(key=lambda one: w['sky'] == one)\nanswer = at[0]\n",
        "w = weather(7, 1)\nn = 0\nfor _ in w['sky']:\n    n += 1\nanswer = n\n",
        "w = weather(7, 1)\nmatch w['sky']:\n    case 'clear':\n        answer = 1\n    case _:\n        answer = 2\n",
        "w = weather(7, 1)\nanswer = {}\nwith open('x') as f:\n    if w['temp']:\n        answer['cold'] = True\n",
    ],
)
def test_what_decides_on_the_answer_reached_it(program: str) -> None:
    run = Run(program + "log(text='done') if answer else None\n").call(
        "weather", 1, SKY, arguments={"cityId": 7, "days": 1}
    )
    run.call("log", program.count("\n") + 1, {"ok": True}, arguments={"text": "done"})
    assert run.lessons().calls == {"weather": 1}


def test_a_call_stands_one_layer_behind_the_last_one_that_it_took_a_value_of() -> None:
    assert looked_up().lessons().levels == {("find_cities", 0): 1, ("weather", 1): 1}
    program = (
        "ids = [city['id'] for city in find_cities(name='Oslo')['cities']]\n"
        "first = weather(cityId=ids[0], days=3)\n"
        "warned = alerts(city_ids=[first['station'], ids[1]])\n"
        "answer = [first, warned, weather(cityId=5, days=1)]\n"
    )
    run = Run(program).call("find_cities", 1, FOUND, arguments={"name": "Oslo"})
    run.call("weather", 2, {"station": "S-1"}, arguments={"cityId": 7, "days": 3})
    run.call("alerts", 3, {"count": 2}, arguments={"city_ids": ["S-1", 9]})
    run.call("weather", 4, SKY, arguments={"cityId": 5, "days": 1})
    levels = {("find_cities", 0): 1, ("weather", 1): 1, ("alerts", 2): 1, ("weather", 0): 1}
    assert run.lessons().levels == levels
    run.calls[1] = run.calls[1].model_copy(update={"arguments": {"cityId": 8, "days": 3}})
    assert ("weather", 1) not in run.lessons().levels, "the value was another one"
    run.status = "failed"
    assert run.lessons().levels == {}


def test_an_edge_needs_the_value_that_was_really_given() -> None:
    run = looked_up()
    run.calls[1] = run.calls[1].model_copy(update={"arguments": {"cityId": 8, "days": 3}})
    assert run.lessons().feeds == {}
    run.calls[1] = run.calls[1].model_copy(update={"arguments": {"cityId": "9", "days": 3}})
    assert list(run.lessons().feeds.values()) == [1]  # as text, and of another item


def test_an_edge_needs_the_supplier_to_come_first() -> None:
    program = "sky = weather(cityId=7, days=1)\nfound = find_cities(name='Oslo')\nanswer = [sky, found]\n"
    run = Run(program).call("weather", 1, SKY, arguments={"cityId": 7, "days": 1})
    assert run.call("find_cities", 2, FOUND, arguments={"name": "Oslo"}).lessons().feeds == {}


@pytest.mark.parametrize(
    "program",
    [
        "ids = [c['id'] for c in find_cities(name='x')['cities']]\nanswer = alerts(city_ids=ids)\n",
        "ids = []\nfor c in find_cities(name='x')['cities']: ids.append(c['id'])\nanswer = alerts(ids)\n",
        "def of(name):\n    return [c['id'] for c in find_cities(name=name)['cities']]\nanswer = alerts(of('x'))\n",
    ],
)
def test_lists_of_fields_are_followed(program: str) -> None:
    lines = program.splitlines()
    at = next(i for i, line in enumerate(lines, 1) if "find_cities" in line)
    run = Run(program).call("find_cities", at, FOUND, arguments={"name": "x"})
    run.call("alerts", len(lines), {"alerts": [{"level": 2}]}, arguments={"city_ids": [7, 9]})
    assert run.lessons().feeds == {("find_cities", ("cities", "[]", "id"), "alerts", "city_ids"): 1}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("[{'city': c['id'], 'days': 3} for c in found]", [{"city": 7, "days": 3}, {"city": 9, "days": 3}]),
        ("{'city': found[0]['id']}", {"city": 7}),
        ("[{**found[0], 'days': 3}]", [{"id": 7, "name": "Oslo", "days": 3}]),
    ],
)
def test_records_that_are_made_of_fields_have_these_from_no_place_as_a_whole(given: str, sent: Any) -> None:
    program = f"found = find_cities(name='x')['cities']\nanswer = alerts(city_ids={given})\n"
    run = Run(program).call("find_cities", 1, FOUND, arguments={"name": "x"})
    lessons = run.call("alerts", 2, {"alerts": [{"level": 2}]}, arguments={"city_ids": sent}).lessons()
    assert lessons.feeds == {}
    assert lessons.levels == {("find_cities", 0): 1, ("alerts", 1): 1}, "the call still rests on the other"


@pytest.mark.parametrize(
    ("given", "sent", "path"),
    [
        ("found", FOUND["cities"], ("cities",)),
        ("found[0]", FOUND["cities"][0], ("cities", "[]")),
        ("[c for c in found]", FOUND["cities"], ("cities", "[]")),
    ],
)
def test_records_that_are_given_as_they_are_come_from_their_place(given: str, sent: Any, path: tuple[str, ...]) -> None:
    program = f"found = find_cities(name='x')['cities']\nanswer = alerts(city_ids={given})\n"
    run = Run(program).call("find_cities", 1, FOUND, arguments={"name": "x"})
    lessons = run.call("alerts", 2, {"alerts": [{"level": 2}]}, arguments={"city_ids": sent}).lessons()
    assert lessons.feeds == {("find_cities", path, "alerts", "city_ids"): 1}


def test_a_branch_that_was_not_taken_teaches_nothing() -> None:
    program = (
        "c = find_cities(name='x')['cities'][0]['id']\nsky = weather(c, 1) if c else alerts(city_ids=c)\nanswer = sky\n"
    )
    run = Run(program).call("find_cities", 1, FOUND, arguments={"name": "x"})
    lessons = run.call("weather", 2, SKY, arguments={"cityId": 7, "days": 1}).lessons()
    assert lessons.calls == {"find_cities": 1, "weather": 1}
    assert {edge[2] for edge in lessons.feeds} == {"weather"}


def test_a_run_without_an_answer_teaches_failures_and_what_tools_answered() -> None:
    run = looked_up()
    run.status = "unsolved"
    run.call("alerts", 9, None, "failed", error="503", error_status=503)
    run.call("alerts", 9, None, "failed", error="no such city", error_status=404)
    run.call("alerts", 9, None, "refused", error="days: not a number", error_status="invalid_arguments")
    run.call("alerts", 9, None, "failed", error="no key", cause="credential")
    run.call("alerts", 9, None, "in_doubt", effect=Effect.WRITE)
    lessons = run.lessons()
    seen = {"weather": outline_of([SKY])}
    assert lessons == Lessons(lessons.id, failed=((3, "alerts"),), shapes=seen, observed=(2, 2))


def test_failures_of_earlier_programs_count_beside_the_answer() -> None:
    run = Run(looked_up().program)
    run.call("alerts", 1, None, "failed", error="down", attempt=0)
    run.call("find_cities", 1, FOUND, arguments={"name": "x"}, attempt=1)
    lessons = run.call("weather", 2, SKY, arguments={"cityId": 7, "days": 3}, attempt=1).lessons()
    assert lessons.failed == ((1, "alerts"),)
    assert lessons.calls == {"find_cities": 1, "weather": 1}


@pytest.mark.parametrize("program", ["answer = 1 +", "answer = 1", "answer = weather(1, 2)\n" * 3, ""])
def test_calls_that_are_not_of_the_program_teach_nothing(program: str) -> None:
    run = looked_up()
    run.program = program
    assert run.lessons().calls == {}


def test_empty_responses_are_no_success() -> None:
    program = "found = find_cities(name='x')['cities'] or weather(cityId=7, days=1)\nanswer = found\n"
    run = Run(program).call("find_cities", 1, {"cities": []}, arguments={"name": "x"})
    assert run.call("weather", 1, SKY, arguments={"cityId": 7, "days": 1}).lessons().calls == {"weather": 1}


def test_what_took_the_place_of_a_broken_tool() -> None:
    run = looked_up()
    run.replaced = ("alerts", "weather"), ("alerts", "log"), ("alerts", "unknown"), ("log", "log")
    assert run.lessons().replaced == {("alerts", "weather"): True}
    run.call("log", 2, None, "failed", error="down")
    assert run.lessons().replaced == {("alerts", "weather"): True, ("alerts", "log"): False}


def test_keys_that_are_data_are_neither_in_shapes_nor_in_edges() -> None:
    program = "found = people(team='x')\nanswer = pay(account=found['anna_karlsson']['account'])\n"
    known = tools(tool("people", "team"), tool("pay", "account"))
    value = {"anna_karlsson": {"account": "SE-17"}, "bo_ek": {"account": "SE-18"}, "count": 2}
    run = Run(program).call("people", 1, value, arguments={"team": "x"})
    lessons = run.call("pay", 2, {"ok": True}, arguments={"account": "SE-17"}).lessons(known)
    assert lessons.calls == {"people": 1, "pay": 1}
    assert lessons.feeds == {}
    assert list(lessons.shapes["people"].fields) == ["count"]


@pytest.mark.parametrize(
    ("returns", "documented"),
    [
        (None, False),
        ({}, False),
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": True}, False),
        ({"type": ["array", "null"]}, False),
        ({"x-atc-observed": "object", "properties": {"a": {}}}, False),
        ({"type": "string"}, True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, True),
        (CITIES, True),
    ],
)
def test_which_documents_say_what_a_response_is(returns: JsonSchema | None, documented: bool) -> None:
    assert is_documented(returns) == documented


def test_words_of_the_documents_may_be_names_of_fields() -> None:
    value = {"dewpoint_c": 3, "zonda": 4}
    program = "answer = sky(place='x')\n"
    plain, documented = tool("sky", "place"), tool("sky", "place", description="The dewpoint, and the zonda.")
    run = Run(program).call("sky", 1, value, arguments={"place": "x"})
    assert not run.lessons(tools(plain)).shapes["sky"].fields
    assert list(run.lessons(tools(documented)).shapes["sky"].fields) == ["dewpoint_c", "zonda"]


def test_each_request_of_a_conversation_has_its_own_lessons(tmp_path: Path) -> None:
    stored = FileRun("20260101-000000-abcdef", tmp_path)
    trace = FileTrace(stored.trace)
    first, second = (
        looked_up(),
        Run("answer = alerts([7])\n").call("alerts", 1, [{"level": 1}], arguments={"city_ids": [7]}),
    )
    for turn, run in enumerate((first, second)):
        for event in run.events(turn):
            trace.write_line(event.line())
    trace.close()
    one, two = all_lessons(stored, TOOLS)
    assert one.id != two.id
    assert (one.calls, two.calls) == ({"find_cities": 1, "weather": 1}, {"alerts": 1})
    assert lessons_of(stored, TOOLS) == two
    assert lessons_of(second.result(), TOOLS, request=1) == two


def test_a_resumed_run_is_one_request() -> None:
    run = looked_up()
    before = [*Run("pass", "failed").call("alerts", 1, None, "failed", error="down").events()]
    assert lessons_of([*before, *run.events()], TOOLS).failed == ((1, "alerts"),)


def test_damaged_traces_teach_nothing() -> None:
    assert not lessons_of([], TOOLS)
    odd = Event("call_ended", {"tool": 3, "index": "x", "arguments": [], "line": None})
    end = Event("run_ended", {"status": "answered", "program": "answer = 1"})
    assert not lessons_of([Event("run_started", {"run_id": "r"}), odd, end], TOOLS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3), st.text("qxzjv", min_size=6, max_size=12))
def test_no_value_and_no_unknown_key_is_in_an_outline(values: list[Any], secret: str) -> None:
    planted = [*values, {secret: values, "items": [secret, {secret: 1, "name": secret}]}, [secret]]
    text = outline_of(planted).model_dump_json()
    assert secret not in text
    assert '"name"' in text


def respelt(*, key: str = "place", name: str = "cityId", **more: Any) -> Run:
    program = f"answer = weather({key}=7, days=3)['temp']\n"
    repair: dict[str, Any] = {"kind": "respelt", "path": (key,), "given": key, "sent": name, "name": name} | more
    arguments = {"cityId": 7, "days": 3}
    return Run(program).call("weather", 1, SKY, arguments=arguments, repairs=(ArgumentRepair(**repair),))


def test_a_key_that_was_respelt_in_an_answered_call_is_learnt() -> None:
    assert respelt().lessons().respelt == {("weather", "place"): "cityId"}
    assert respelt(kind="model", given=7, sent=7).lessons().respelt == {("weather", "place"): "cityId"}


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "model", "given": 7, "sent": 8},  # the value changed, too
        {"kind": "format"},
        {"name": "town"},  # no parameter
        {"path": ("at", "place")},
        {"key": "days"},  # a parameter itself
        {"key": "x" * 65},
        {"path": ("secret",)},  # no key of the program
        {"path": ("pl ace",)},
    ],
)
def test_what_is_no_key_alias_teaches_none(more: dict[str, Any]) -> None:
    assert respelt(**more).lessons().respelt == {}


def test_a_key_that_meant_two_parameters_and_one_of_a_run_without_an_answer_teach_nothing() -> None:
    run = respelt()
    run.program += "more = weather(place=7, cityId=1)\nanswer = answer + more['temp']\n"
    twice = (ArgumentRepair(kind="respelt", path=("place",), name="days"),)
    run.call("weather", 2, SKY, arguments={"days": 7, "cityId": 1}, repairs=twice)
    assert run.lessons().respelt == {}
    failed = respelt()
    failed.status = "unsolved"
    assert failed.lessons().respelt == {}

"""The programs that structure writes: they run, and every value arrives as it is."""

from __future__ import annotations

from typing import Any

import pytest

from atc.probing.candidates import Candidate, Seen, call_of, literal_call, program_for
from atc.result import Effect
from atc.schemas.protocol import Protocol, parameters_of
from tests.support.sandbox import in_sandbox


def protocol(name: str, *parameters: str) -> Protocol:
    return Protocol(
        name=name, parameters={"type": "object", "properties": {p: {} for p in parameters}}, effect=Effect.READ
    )


def ran(
    source: str, protocols: list[Protocol], answers: dict[str, Any]
) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """The answer of a program, and the calls that it made."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def answer(name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            calls.append((name, arguments))
            return answers[name]

        return call

    compile(source, "program", "exec")
    parameters = {p.name: [x.name for x in parameters_of(p)] for p in protocols}
    outcome = in_sandbox(source, {p.name: answer(p.name) for p in protocols}, parameters)
    assert outcome.kind == "finished", outcome
    return outcome.value, calls


def test_a_program_fetches_its_values_from_where_they_were_seen() -> None:
    cities, city = protocol("list_cities", "country"), protocol("get_city", "city_id", "lang")
    seen = Seen("c-1", "list_cities", (("country", 'F"R'),), ("cities", 1, "city's id"))
    bindings = {"city_id": Candidate("c-1", 1.0, seen), "lang": Candidate("en", 0.7)}
    written = program_for(city, bindings, {p.name: p for p in (cities, city)}, fetch=True)
    assert written.helpers == ("list_cities",)
    answers = {"list_cities": {"cities": [{}, {"city's id": "fresh"}]}, "get_city": {"name": "Rome"}}
    value, calls = ran(written.source, [cities, city], answers)
    assert value == {"name": "Rome"}
    assert calls == [("list_cities", {"country": 'F"R'}), ("get_city", {"city_id": "fresh", "lang": "en"})]


def test_one_call_of_a_helper_serves_two_arguments_and_two_calls_have_two_names() -> None:
    listed, route = protocol("places", "page"), protocol("route", "a", "b", "c")
    first, second = (("page", 1),), (("page", 2),)
    bindings = {
        "a": Candidate(1, 1.0, Seen(1, "places", first, (0,))),
        "b": Candidate(2, 1.0, Seen(2, "places", first, (1,))),
        "c": Candidate(3, 1.0, Seen(3, "places", second, (0,))),
    }
    written = program_for(route, bindings, {p.name: p for p in (listed, route)}, fetch=True)
    _, calls = ran(written.source, [listed, route], {"places": [5, 6], "route": {}})
    assert [name for name, _ in calls] == ["places", "places", "route"]
    assert calls[-1][1] == {"a": 5, "b": 6, "c": 5}


def test_values_are_literals_when_nothing_is_to_be_fetched() -> None:
    cities, city = protocol("list_cities"), protocol("get_city", "city_id")
    bindings = {"city_id": Candidate("c-1", 1.0, Seen("c-1", "list_cities", (), (0, "city_id")))}
    written = program_for(city, bindings, {p.name: p for p in (cities, city)}, fetch=False)
    assert (written.source, written.helpers) == ("answer = get_city(city_id='c-1')\n", ())


def test_no_variable_of_a_program_hides_a_tool() -> None:
    helper, probed = protocol("x"), protocol("from_x", "x_id")
    bindings = {"x_id": Candidate(1, 1.0, Seen(1, "x", (), ("x_id",)))}
    written = program_for(probed, bindings, {p.name: p for p in (helper, probed)}, fetch=True)
    value, _ = ran(written.source, [helper, probed], {"x": {"x_id": 1}, "from_x": {"ok": True}})
    assert value == {"ok": True}


ODD = [
    "class",
    "from",
    "x-api-version",
    "filter[name]",
    "2nd",
    "ünïcode",
    "with space",
    "a'b",
    "self",
    "None",
    "page.size",
]


@pytest.mark.parametrize("name", ODD)
def test_a_call_of_odd_parameter_names_is_python_that_arrives(name: str) -> None:
    tool = protocol("odd", name)
    source = f"answer = {literal_call(tool, {name: 'v'})}\n"
    _, calls = ran(source, [tool], {"odd": 1})
    ((_, arguments),) = calls
    (parameter,) = parameters_of(tool)
    assert arguments == {parameter.name: "v"}


def test_a_call_may_be_given_what_its_protocol_does_not_know() -> None:
    tool = protocol("odd", "known")
    assert call_of(tool, {"known": "1", "a-b": "2"}) == "odd(known=1, **{'a-b': 2})"


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        '"""',
        "\\",
        "\n\r\u2028",
        "```",
        "{{x}}",
        "\x00\x1b",
        "😀",
        [],
        {"a": [None, True, 1.5]},
        -1,
        10**30,
        1e-9,
    ],
)
def test_every_value_arrives_as_it_is(value: Any) -> None:
    tool = protocol("take", "value")
    written = program_for(tool, {"value": Candidate(value, 1.0)}, {"take": tool}, fetch=True)
    _, calls = ran(written.source, [tool], {"take": 1})
    assert calls == [("take", {"value": value})]

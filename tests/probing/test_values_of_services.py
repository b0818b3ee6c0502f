"""Values out of answers as real services write them: keys that are data, plain lists, links, what a refusal doubts."""

from __future__ import annotations

from typing import Any

import pytest

from atc.probing.candidates import ValuePool, holds_keys, in_turn, keys_are_data
from atc.probing.links import MAX_LINKS, Links
from atc.probing.record import Refusal
from tests.support.probe import Says, Service, probed

USERS = {"result": {"ada": {"username": "ada", "indexes": {"town": {"title": "Town"}}}}}


def fitting(pool: ValuePool, parameter: str, tool: str) -> list[Any]:
    return [seen.value for _, seen in pool.fitting(parameter, tool)]


@pytest.fixture
def pool() -> ValuePool:
    return ValuePool()


def test_keys_under_a_plural_name_are_values(pool: ValuePool) -> None:
    pool.add("get_root", {}, USERS)
    assert fitting(pool, "index", "get_by_user_by_index") == ["town"]


def test_what_a_thing_is_called_serves_where_the_thing_is_wanted(pool: ValuePool) -> None:
    pool.add("get_root", {}, USERS)
    assert fitting(pool, "user", "get_by_user") == ["ada"]
    pool.add("get_limits", {}, {"userland": 3})
    assert fitting(pool, "user", "get_by_user") == ["ada"]


def test_the_keys_that_lie_deepest_are_of_what_the_tool_lists(pool: ValuePool) -> None:
    pool.add("scalar_tags", {}, {"north": {"loss": {"unit": ""}}, "south": {"loss": {"unit": ""}}})
    assert fitting(pool, "tag", "scalars")[0] == "loss"


def test_items_of_a_plain_list_are_named_by_the_tool(pool: ValuePool) -> None:
    pool.add("list_runs", {}, ["north", "south"])
    assert fitting(pool, "run", "get_scalars") == ["north", "south"]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        ({"1.2": {"version": "1.2"}, "1.3": {"version": "1.3"}}, "result", True),
        ({"a": {"x": 1}, "b": {"x": 2}}, "", True),
        ({"a": {"x": 1}, "b": {"y": 2}}, "", False),
        ({"name": "Ada", "age": 3}, "users", False),
        ({"home": {"goals": 1}}, "match", False),
        ({}, "users", False),
    ],
    ids=["repeated", "alike", "unlike", "plain", "singular", "empty"],
)
def test_which_keys_are_data(value: dict[str, Any], name: str, expected: bool) -> None:
    assert keys_are_data(value, name) is expected


def test_an_answer_that_speaks_by_its_keys_alone_is_one() -> None:
    assert holds_keys({"north": {"loss": {"unit": ""}}, "south": {"loss": {"unit": ""}}})
    assert not holds_keys({"north": {}, "south": {}})
    assert not holds_keys({"window_title": ""})


def test_an_address_in_an_answer_fills_the_place_of_a_path() -> None:
    links = Links()
    for value in (
        "http://127.0.0.1/v1/colorMaps/vir%20idis?f=json",
        "/colorMaps/{colorMapId}",
        "http://[",
        "viridis",
        3,
    ):
        links.add("list_colors", value)
    assert list(links.values("GET /colorMaps/{colorMapId}", "colorMapId")) == [("vir idis", "list_colors")]
    assert list(links.values("GET /{anything}/{more}", "more")) == []
    assert list(links.values("GET /algorithms/{id}", "id")) == []


def test_addresses_are_bounded() -> None:
    links = Links()
    for number in range(MAX_LINKS + 50):
        links.add("list_things", f"/things/{number}")
    assert len(list(links.values("GET /things/{id}", "id"))) == MAX_LINKS


def refusal(error: str, **arguments: Any) -> Refusal:
    return Refusal(arguments, 404, error)


def test_a_refusal_doubts_the_values_that_it_quotes_unless_it_misses_something() -> None:
    assert refusal("no tag 'x' for run 'y'", tag="x", run="y").in_doubt == {"tag", "run"}
    assert refusal("no tag 'x'", tag="x", run="y").in_doubt == {"tag"}
    assert refusal("Both run and tag must be specified: tag='x', run=None", tag="x").in_doubt == set()


def test_several_ways_take_turns() -> None:
    assert list(in_turn([iter([{}, {}]), iter([])])) == [{}, {}]


def test_arguments_that_no_refusal_names_are_given_once_values_for_them_were_seen(service: Service) -> None:
    scalars = {("north", "loss"): [1.5], ("south", "loss"): [2.5]}
    service.route("list_runs", "/runs", ["north", "south"])
    service.route("scalar_tags", "/tags", {run: {"loss": {"unit": ""}} for run in ("north", "south")})

    def answer(given: dict[str, str]) -> Any:
        found = scalars.get((given.get("run", ""), given.get("tag", "")))
        return {"values": found} if found else Says("<html>Internal Server Error</html>", 500)

    service.route("scalars", "/scalars", answer, query="run tag step")
    report = probed(service.tools())
    assert {line.tool: line.state for line in report.lines} == dict.fromkeys(
        ("list_runs", "scalar_tags", "scalars"), "documented"
    )


def test_a_refusal_that_wants_json_is_given_some(service: Service) -> None:
    def answer(given: dict[str, str]) -> Any:
        wrong = Says("Expected a JSON-formatted request", 400)
        return {"found": 3} if given.get("request", "").startswith("{") else wrong

    service.route("session_groups", "/groups", answer, query="request")
    (line,) = probed(service.tools()).lines
    assert line.state == "documented"

"""The parts of probing: what may be called, which value fits which argument, and the programs that structure writes."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from support_sandbox import in_sandbox
from support_tools import make_tool

from atc.errors import CallRefused, ToolError
from atc.probing.gate import Budget, Meter, gated, why_not
from atc.probing.guess import MAX_COMBINATIONS, Candidate, candidates, combinations, is_word, least_sure
from atc.probing.pool import Pool, Seen, affinity, words_of
from atc.probing.sources import call_of, literal_call, program_for
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Effect, Protocol, Source
from atc.tools.tool import Toolset

# -- which value fits which argument ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fromCityIds", ["from", "city", "id"]),
        ("country_code", ["country", "code"]),
        ("x-api-key", ["x", "api", "key"]),
        ("cities", ["city"]),
        ("status", ["status"]),
        ("address", ["address"]),
        ("", []),
        ("---", []),
        ("IDs", ["id"]),
    ],
)
def test_words_of_a_name(name: str, words: list[str]) -> None:
    assert list(words_of(name)) == words


@pytest.mark.parametrize(
    ("parameter", "tool", "field", "owner", "least", "most"),
    [
        ("city_id", "get_city", "city_id", "hotel", 1.0, 1.0),
        ("cityId", "get_city", "city_id", "hotel", 1.0, 1.0),
        ("from_city_id", "route", "city_id", "city", 0.8, 0.99),
        ("city_id", "get_city", "id", "cities", 0.8, 0.99),
        ("country_code", "find", "home_country_code", "user", 0.5, 0.9),
        ("currency", "convert", "code", "currencies", 0.3, 0.7),
        ("name", "find_countries", "name", "country", 0.3, 0.7),
        ("id", "get_city", "id", "list_cities", 0.3, 0.7),
        ("id", "get_city", "id", "list_hotels", 0, 0),
        ("city_id", "get_city", "id", "hotel", 0, 0),
        ("city_id", "get_city", "hotel_id", "hotel", 0, 0),
        ("name", "find_country", "name", "hotel", 0, 0),
        ("limit", "find", "name", "hotel", 0, 0),
        ("q", "search", "id", "hotel", 0, 0),
        ("", "search", "id", "hotel", 0, 0),
    ],
)
def test_affinity_of_a_parameter_and_a_field(
    parameter: str, tool: str, field: str, owner: str, least: float, most: float
) -> None:
    assert least <= affinity(parameter, tool, field, frozenset(words_of(owner))) <= most


def values(pool: Pool, parameter: str, tool: str, schema: dict[str, Any] | None = None) -> list[Any]:
    return [seen.value for _, seen in pool.fitting(parameter, tool, schema)]


def test_a_pool_offers_what_belongs_to_the_thing_first() -> None:
    pool = Pool()
    pool.add("list_hotels", {}, [{"id": 7, "city": {"id": 1, "name": "Rome"}}])
    pool.add("list_cities", {}, [{"city_id": 2}])
    assert values(pool, "city_id", "get_city") == [2, 1]
    assert values(pool, "hotel_id", "get_hotel") == [7]
    assert values(pool, "planet_id", "get_planet") == []


def test_a_pool_tells_where_a_value_was_seen() -> None:
    pool = Pool()
    pool.add("list_cities", {"page": 2, "country": "IT"}, {"cities": [{"city_id": "x"}]})
    (_, seen), *_ = pool.fitting("city_id", "get_city")
    assert seen == Seen("x", "list_cities", (("country", "IT"), ("page", 2)), ("cities", 0, "city_id"))
    assert (seen.field, seen.owner) == ("city_id", frozenset({"city"}))


def test_a_value_of_another_type_does_not_fit() -> None:
    pool = Pool()
    pool.add(
        "list_cities", {}, [{"city_id": "x"}, {"city_id": 5}, {"city_id": 1.5}, {"city_id": True}, {"city_id": None}]
    )
    assert values(pool, "city_id", "t", {"type": "integer"}) == [5]
    assert sorted(values(pool, "city_id", "t", {"type": ["number", "null"]})) == [1.5, 5]
    assert values(pool, "city_id", "t", {"type": "boolean"}) == []
    assert len(values(pool, "city_id", "t")) == 3


def test_what_a_tool_answered_itself_comes_last() -> None:
    pool = Pool()
    pool.add("get_city", {}, {"city_id": "own"})
    pool.add("list_hotels", {}, {"city_id": "other"})
    assert values(pool, "city_id", "get_city") == ["other", "own"]


def test_a_pool_is_bounded_whatever_is_put_in() -> None:
    pool = Pool()
    deep: Any = {"city_id": 1}
    for _ in range(500):
        deep = [deep]
    pool.add("deep", {}, deep)
    pool.add("long", {}, {"city_id": "x" * 10_000, "empty": ""})
    pool.add("many", {}, [{"city_id": number} for number in range(1_000)])
    assert 1 <= len(pool.fitting("city_id", "t")) <= 8


def test_one_big_answer_does_not_take_the_place_of_all_others() -> None:
    pool = Pool()
    for page in range(3):
        pool.add("big", {"page": page}, {f"a{n}": {f"b{n}_{m}": n * m for m in range(150)} for n in range(150)})
    pool.add("list_cities", {}, [{"city_id": "c-1"}])
    assert values(pool, "city_id", "get_city") == ["c-1"]


def test_a_full_pool_is_asked_quickly() -> None:
    pool = Pool()
    for tool in range(400):
        pool.add(
            f"list_things{tool}",
            {},
            [{f"thing{tool}_id": row, "name": f"n{row}", f"size{tool}": row} for row in range(5)],
        )
    began = time.process_time()
    for tool in range(20):
        assert values(pool, f"thing{tool}_id", f"get_thing{tool}")
    assert time.process_time() - began < 20 * 0.02


# -- values before a model is asked -----------------------------------------------------------------------------------


def guessed(parameter: str, schema: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    return [c.value for c in candidates(parameter, schema or {}, tool="t", pool=options.pop("pool", None), **options)]


def test_what_a_schema_tells_comes_first() -> None:
    assert guessed("x", {"const": 5})[0] == 5
    assert guessed("x", {"type": "string", "enum": ["a", "b"]})[:2] == ["a", "b"]
    assert guessed("page", {"type": "integer", "default": 3})[0] == 3
    assert guessed("x", {"example": "e", "examples": ["f"]})[:2] == ["f", "e"]
    assert guessed("unit", allowed=["stone"])[0] == "stone"


@pytest.mark.parametrize(
    ("parameter", "schema", "first"),
    [
        ("country_code", {}, "FR"),
        ("birth_date", {"type": "string"}, "2025-06-16"),
        ("lat", {}, 48.85),
        ("page", {}, 1),
        ("nights", {}, 10),
        ("contact", {"type": "string", "format": "email"}, "ada@example.org"),
        ("when", {"format": "date-time"}, "2025-06-16T12:00:00Z"),
        ("flag", {"type": "boolean"}, True),
        ("n", {"type": "integer"}, 1),
    ],
)
def test_what_the_world_has_agreed_on(parameter: str, schema: dict[str, Any], first: Any) -> None:
    assert guessed(parameter, schema)[0] == first


@pytest.mark.parametrize("schema", [{}, {"type": "integer"}, {"type": "string"}])
def test_nobody_is_sure_of_an_id_that_was_seen_nowhere(schema: dict[str, Any]) -> None:
    assert all(c.sure < 0.5 for c in candidates("city_id", schema, tool="t", pool=None))


def test_no_candidate_comes_twice() -> None:
    found = guessed("page", {"type": "integer", "enum": [1, 1, 2], "default": 1, "example": 1.0})
    assert found == [1, 2, 10]


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": "abc"},
        {"examples": {"a": 1}},
        {"type": 5},
        {"type": None},
        {"default": float("nan")},
        {"enum": [float("inf")]},
        {"type": [{"a": 1}]},
        {"default": {"a": [1]}},
        {"format": ["x"]},
    ],
)
def test_an_odd_schema_is_no_trouble(schema: dict[str, Any]) -> None:
    json.dumps(guessed("thing", schema), allow_nan=False)


@pytest.mark.parametrize(
    ("parameter", "word"), [("q", True), ("search_term", True), ("name", True), ("limit", False), ("", False)]
)
def test_a_word_is_for_somebody_who_knows_the_matter(parameter: str, word: bool) -> None:
    assert is_word(parameter) is word


def options(**named: list[Any]) -> dict[str, list[Candidate]]:
    return {
        name: [Candidate(value, 1.0 - index / 10) for index, value in enumerate(listed)]
        for name, listed in named.items()
    }


def plain(ways: Any) -> list[dict[str, Any]]:
    return [{name: candidate.value for name, candidate in way.items()} for way in ways]


def test_combinations_begin_with_the_likeliest_and_change_one_at_a_time() -> None:
    ways = plain(combinations(options(a=[1, 2], b=["x", "y"])))
    assert ways[0] == {"a": 1, "b": "x"}
    assert {"a": 2, "b": "x"} in ways[1:3]
    assert {"a": 1, "b": "y"} in ways[1:3]
    assert {"a": 2, "b": "y"} in ways
    assert len(ways) == len({json.dumps(way, sort_keys=True) for way in ways})


def test_combinations_are_bounded_and_need_a_value_for_each_argument() -> None:
    assert plain(combinations({})) == [{}]
    assert plain(combinations(options(a=[1], b=[]))) == []
    many = {f"p{n}": list(range(20)) for n in range(30)}
    assert len(plain(combinations(options(**many)))) <= MAX_COMBINATIONS


def test_two_ends_of_one_thing_are_tried_with_different_values() -> None:
    ways = plain(combinations(options(origin=["A", "B"], destination=["A", "B"])))
    assert ways[0] == {"origin": "A", "destination": "B"}


def test_a_way_is_as_sure_as_its_least_sure_value() -> None:
    assert least_sure({}) == 1.0
    assert least_sure({"a": Candidate(1, 0.9), "b": Candidate(1, 0.2)}) == 0.2


# -- the programs that structure writes -------------------------------------------------------------------------------


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


# -- the gate ---------------------------------------------------------------------------------------------------------


def test_only_reads_may_be_called_and_what_the_user_names() -> None:
    tools = {effect: Protocol(name=f"thing_{effect.value}", effect=effect) for effect in Effect}
    assert why_not(tools[Effect.READ]) == ""
    assert "effect is write" in why_not(tools[Effect.WRITE])
    assert "effect is unknown" in why_not(tools[Effect.UNKNOWN])
    assert why_not(tools[Effect.WRITE], ["thing_*"]) == ""
    assert why_not(tools[Effect.WRITE], ["other_*"])


def test_the_original_name_tells_too() -> None:
    hidden = Protocol(name="op_17", effect=Effect.READ, source=Source(operation="deleteUser"))
    assert "delete" in why_not(hidden)


def metered(tool: Any, meter: Meter) -> Any:
    allowed, refused = gated(Toolset([tool]), meter, ("*",))
    assert refused == {}
    return allowed[tool.name].transport


def test_a_call_is_made_once_and_answered_so_again() -> None:
    made: list[Any] = []
    meter = Meter(Budget())
    transport = metered(make_tool("t", lambda a: made.append(a) or [len(made)]), meter)

    async def go() -> None:
        answers = await asyncio.gather(
            *(transport({"n": 1}) for _ in range(5)), transport({"n": 1.0}), transport({"n": 2})
        )
        assert answers == [[1]] * 6 + [[2]]

    asyncio.run(go())
    assert (len(made), meter.total, meter.calls) == (2, 2, {"t": 2})


def test_a_refusal_is_kept_and_a_passing_failure_is_not() -> None:
    made: list[Any] = []

    def refuse(arguments: dict[str, Any]) -> Any:
        made.append(arguments)
        raise ToolError("no", status=503 if arguments["n"] else 404, transient=bool(arguments["n"]))

    transport = metered(make_tool("t", refuse), Meter(Budget()))

    async def go() -> None:
        for number in (0, 0, 1, 1):
            with pytest.raises(ToolError, match="no"):
                await transport({"n": number})

    asyncio.run(go())
    assert [arguments["n"] for arguments in made] == [0, 1, 1]


@pytest.mark.parametrize(
    ("budget", "words", "made"),
    [
        (Budget(calls_a_tool=2), "its 2 calls of t", 2),
        (Budget(calls=3), "its 3 calls", 3),
        (Budget(response_bytes=8), "8 bytes", 2),
    ],
)
def test_a_budget_says_no_and_which(budget: Budget, words: str, made: int) -> None:
    meter = Meter(budget)
    transport = metered(make_tool("t", lambda _: "four"), meter)

    async def go() -> int:
        for number in range(10):
            if number == made:
                with pytest.raises(CallRefused, match=words):
                    await transport({"n": number})
                return number
            await transport({"n": number})
        raise AssertionError("no budget held")

    assert asyncio.run(go()) == made
    assert meter.left("t") >= 0


def test_a_meter_lets_so_many_calls_through_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.probing import gate

    now, slept = [1000.0], []

    class Time:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    class Loop:
        Lock = asyncio.Lock

        @staticmethod
        async def sleep(seconds: float) -> None:
            assert seconds > 0
            slept.append(seconds)
            now[0] += seconds

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

    monkeypatch.setattr(gate, "time", Time())
    for name in ("asyncio", "anyio"):
        if hasattr(gate, name):
            monkeypatch.setattr(gate, name, Loop())
    meter = Meter(Budget(calls_a_minute=3))
    times = []

    async def go() -> None:
        for _ in range(7):
            await meter.admit("t", "place")
            times.append(now[0])
            now[0] += 1

    asyncio.run(go())
    for early, late in zip(times, times[3:], strict=False):
        assert late - early >= 60
    assert len(slept) == 2


def test_a_service_that_shut_its_door_is_asked_nothing_more() -> None:
    meter = Meter(Budget())
    meter.refused("here", ToolError("no", status=401))
    meter.refused("there", ToolError("no", status=404))

    async def go() -> None:
        await meter.admit("t", "there")
        with pytest.raises(CallRefused, match="401"):
            await meter.admit("t", "here")

    asyncio.run(go())
    assert meter.total == 1

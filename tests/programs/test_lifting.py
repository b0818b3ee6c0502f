"""What a program has written out becomes a parameter where it stands in the task; the rest is shown, and stays."""

from __future__ import annotations

from typing import Any

import pytest

from atc._records.recording import RecordedCall
from atc.programs import lifting
from atc.programs import tool_parameters as parameters
from atc.programs.free_names import name_problems
from atc.programs.lifting import with_variables, written_out
from atc.programs.program import Program
from atc.programs.tool_parameters import Known, ToolParameters, tool_parameters
from atc.schemas.protocol import Protocol

CITY = {"type": "string", "description": "the city", "default": "Bonn"}
DAYS = {"type": "integer", "minimum": 1, "maximum": 14}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"]}
PLACE = {"type": "object", "properties": {"town": {"type": "string", "minLength": 2}, "zip": {"type": "string"}}}


def protocol(name: str, /, **properties: Any) -> Protocol:
    return Protocol(name=name, parameters={"type": "object", "properties": properties})


TOOLS = {
    each.name: each
    for each in (
        protocol("get_weather", city=CITY, days=DAYS, unit=UNIT),
        protocol("find_cities", name={"type": "string"}, tags={"type": "array", "items": {"type": "string"}}),
        protocol("book", place=PLACE, note={"type": "string"}),
        protocol("get_order", order_id={"type": "integer"}),
        protocol("list_items", **{"page[size]": {"type": "integer"}}),
    )
}


def known(task: str, **more: Any) -> Known:
    return Known(task, TOOLS, **more)


def proposed(task: str, source: str, *, of: dict[str, Any] | None = None, **edits: Any) -> ToolParameters:
    return tool_parameters(Program(source), known(task, **(of or {})), **edits)


def lifted(task: str, source: str, **more: Any) -> dict[str, Any]:
    return {each.name: each.value for each in proposed(task, source, **more).lifted}


def program(task: str, source: str, **more: Any) -> str:
    found = proposed(task, source, **more)
    made = with_variables(Program(source), found.places, found.renamed)
    assert made is not None
    return made.source


@pytest.mark.parametrize(
    ("task", "source", "parameters", "text"),
    [
        pytest.param(
            "Weather in Lyon for 3 days",
            "answer = get_weather(city='Lyon', days=3)",
            {"city": "Lyon", "days": 3},
            "answer = get_weather(city=city, days=days)",
            id="arguments",
        ),
        pytest.param(
            "Weather in lyon", "answer = get_weather('Lyon')", {"city": "Lyon"}, "answer = get_weather(city)", id="case"
        ),
        pytest.param(
            "Weather in Lyon",
            "city = 'Lyon'\nanswer = get_weather(city=city)",
            {"city": "Lyon"},
            "answer = get_weather(city=city)",
            id="the-assignment-goes",
        ),
        pytest.param(
            "Weather in Lyon",
            "town = 'Lyon'  # where\nanswer = [get_weather(city=town), town]",
            {"city": "Lyon"},
            "town = city  # where\nanswer = [get_weather(city=town), town]",
            id="the-variable-stays",
        ),
        pytest.param(
            "Weather in Lyon and Oslo",
            "answer = [get_weather(city=c) for c in ['Lyon', 'Oslo']]",
            {"cities": ["Lyon", "Oslo"]},
            "answer = [get_weather(city=c) for c in cities]",
            id="a-list-one-by-one",
        ),
        pytest.param(
            "Weather in Lyon and Oslo",
            "answer = []\nfor c in (\n    'Lyon',\n    'Oslo',\n):\n    answer.append(get_weather(city=c))",
            {"cities": ["Lyon", "Oslo"]},
            "answer = []\nfor c in cities:\n    answer.append(get_weather(city=c))",
            id="a-tuple-over-lines",
        ),
        pytest.param(
            "people of Lyon and Oslo",
            "answer = 0\nfor town in ['Lyon', 'Oslo']:\n    answer += find_cities(name=town)['cities'][0]['people']",
            {"towns": ["Lyon", "Oslo"]},
            "answer = 0\nfor town in towns:\n    answer += find_cities(name=town)['cities'][0]['people']",
            id="a-list-named-by-its-loop",
        ),
        pytest.param(
            "Weather in Lyon",
            "answer = [get_weather(city=c) for c in ['Lyon', 'Bern']]",
            {"city": "Lyon"},
            "answer = [get_weather(city=c) for c in [city, 'Bern']]",
            id="one-item-of-a-list",
        ),
        pytest.param(
            "cities tagged port and capital",
            "answer = find_cities(tags=['port', 'capital'])",
            {"tags": ["port", "capital"]},
            "answer = find_cities(tags=tags)",
            id="a-list-as-it-is",
        ),
        pytest.param(
            "Weather in Lyon",
            "def of(place, days=5):\n    return get_weather(city=place, days=days)\nanswer = of('Lyon')",
            {"city": "Lyon"},
            "def of(place, days=5):\n    return get_weather(city=place, days=days)\nanswer = of(city)",
            id="through-a-helper",
        ),
        pytest.param(
            "Book Lyon",
            "answer = book(place={'town': 'Lyon', 'zip': '1'})",
            {"town": "Lyon"},
            "answer = book(place={'town': town, 'zip': '1'})",
            id="a-field-of-an-argument",
        ),
        pytest.param(
            "cities named Lyon with more than 500,000 people, the first 3",
            "found = find_cities(name='Lyon')['cities']\n"
            "answer = [c['people'] for c in found if c['people'] > 500000][:3]",
            {"city_name": "Lyon", "min_people": 500000, "limit": 3},
            "found = find_cities(name=city_name)['cities']\n"
            "answer = [c['people'] for c in found if c['people'] > min_people][:limit]",
            id="bounds",
        ),
        pytest.param(
            "Is the status open in Lyon?",
            "answer = get_weather(city='Lyon')['status'] == 'open'",
            {"city": "Lyon", "status": "open"},
            "answer = get_weather(city=city)['status'] == status",
            id="compared",
        ),
        pytest.param(
            "From Lyon to Oslo",
            "answer = {'from': get_weather(city='Lyon'), 'to': get_weather(city='Oslo'), 'title': 'Lyon'}",
            {"city": "Lyon", "city_2": "Oslo"},
            "answer = {'from': get_weather(city=city), 'to': get_weather(city=city_2), 'title': city}",
            id="one-value-one-parameter",
        ),
        pytest.param(
            "From Lyon to Oslo",
            "start, end = 'Lyon', 'Oslo'\nanswer = [get_weather(city=start), get_weather(city=end)]",
            {"city": "Lyon", "city_2": "Oslo"},
            "start, end = city, city_2\nanswer = [get_weather(city=start), get_weather(city=end)]",
            id="unpacked",
        ),
        pytest.param(
            "first 20 items", "answer = list_items(page_size=20)", {"page_size": 20},
            "answer = list_items(page_size=page_size)", id="a-renamed-argument",
        ),
        pytest.param(
            "colder than -5 in Lyon",
            "answer = get_weather(city='Lyon')['low'] < -5",
            {"city": "Lyon", "max_low": -5},
            "answer = get_weather(city=city)['low'] < max_low",
            id="below-zero",
        ),
    ],
)  # fmt: skip
def test_what_stands_in_the_task_becomes_a_parameter(
    task: str, source: str, parameters: dict[str, Any], text: str
) -> None:
    assert lifted(task, source) == parameters
    assert program(task, source) == text


@pytest.mark.parametrize(
    ("task", "source"),
    [
        pytest.param("the city and the rain", "w = get_weather()\nanswer = [w['city'], w.get('rain')]", id="keys"),
        pytest.param("name and days", "answer = {'name': 1, 'days': get_weather()}", id="own-keys"),
        pytest.param("0 in all", "answer = get_weather()[0]", id="a-position"),
        pytest.param("rounded to 2", "answer = round(get_weather()['low'], 2)", id="rounding"),
        pytest.param("weather of Lyon", "answer = f'Lyon: {get_weather()}'", id="a-part-of-a-text"),
        pytest.param("weather", "'''weather'''\nanswer = get_weather()", id="a-docstring"),
        pytest.param(
            "what is open",
            "match get_weather():\n    case 'open':\n        answer = 1\n    case _:\n        answer = 2",
            id="a-pattern",
        ),
        pytest.param("has rain", "w = get_weather()\nanswer = 'rain' in w", id="whether-a-key-is-there"),
        pytest.param("1 of true", "answer = get_weather(days=True)", id="a-truth-value"),
        pytest.param("format %Y", "import datetime\nanswer = datetime.date.today().strftime('%Y')", id="a-format"),
    ],
)
def test_what_names_a_field_or_shapes_a_text_is_no_parameter(task: str, source: str) -> None:
    assert lifted(task, source) == {}
    assert program(task, source) == source


def test_a_key_of_a_response_is_no_parameter_where_it_is_in_a_list() -> None:
    source = "w = get_weather()\nanswer = {f: w[f] for f in ['wind', 'rain']}"
    assert lifted("the wind and the rain", source, of={"keys": {"wind", "rain"}}) == {}


def test_a_parameter_takes_what_its_argument_takes_and_no_default() -> None:
    found = proposed("Lyon, 3 days, celsius", "answer = get_weather(city='Lyon', days=3, unit='celsius')").lifted
    schemas = {each.name: each.json_schema for each in found}
    assert schemas["city"] == {"type": "string", "description": "the city", "examples": ["Lyon"]}
    assert schemas["days"] == {"type": "integer", "minimum": 1, "maximum": 14, "examples": [3]}
    assert schemas["unit"]["enum"] == ["celsius", "fahrenheit"]


def test_a_value_that_is_a_part_of_what_is_given_has_its_own_type() -> None:
    calls = [RecordedCall(tool="get_weather", arguments={"city": "city:Lyon"})]
    (found,) = proposed("Lyon", "answer = get_weather(city='city:' + 'Lyon')", of={"calls": calls}).lifted
    assert found.json_schema == {"type": "string", "examples": ["Lyon"]}
    assert [(use.tool, use.argument) for use in found.uses] == [("get_weather", "city")]


def test_a_schema_that_the_value_does_not_fit_is_not_taken() -> None:
    (found,) = proposed("20 days", "answer = get_weather(days=20)").lifted
    assert found.json_schema == {"type": "integer", "examples": [20]}


def test_what_is_not_in_the_task_is_shown_and_stays() -> None:
    found = proposed("Lyon", "answer = get_weather(city='Lyon', days=7)")
    assert [(each.name, each.value, each.source, each.must_confirm) for each in found.constants] == [
        ("days", 7, "program", False)
    ]


def test_a_value_that_a_call_had_returned_must_be_confirmed() -> None:
    found = proposed("Lyon", "answer = book(note='A-4711')", of={"returned": {"A-4711": "find_cities"}})
    ((name, source, returned_by, confirm),) = [
        (each.name, each.source, each.returned_by, each.must_confirm) for each in found.constants
    ]
    assert (name, source, returned_by, confirm) == ("note", "response", "find_cities", True)


@pytest.mark.parametrize("task", ["", "Show the order"])
def test_an_identifier_that_nobody_gave_must_be_confirmed(task: str) -> None:
    found = proposed(task, "answer = get_order(order_id=17)")
    assert [(each.name, each.source, each.must_confirm) for each in found.constants] == [
        ("order_id", "identifier", True)
    ]
    assert lifted("Show order 17", "answer = get_order(order_id=17)") == {"order_id": 17}


def test_of_a_program_without_a_task_only_inputs_are_parameters() -> None:
    source = "answer = [get_weather(city=where, days=3) for where in places]"
    found = proposed("", source, of={"inputs": {"places": ["Lyon"], "unread": 1}})
    ((name, schema, kind),) = [(each.name, each.json_schema, each.source) for each in found.lifted]
    assert (name, kind) == ("places", "input")
    assert schema == {"type": "array", "items": {"type": "string"}}, "a caller's value is no example"
    assert [(each.name, each.source) for each in found.constants] == [("days", "literal")]


def test_the_user_lifts_keeps_and_renames() -> None:
    source = "answer = get_weather(city='Lyon', days=7)"
    assert lifted("Lyon", source, lift=["7"]) == {"city": "Lyon", "days": 7}
    assert lifted("Lyon", source, lift=[7], constants=["city"]) == {"days": 7}
    assert lifted("Lyon", source, changed={"city": "town"}) == {"town": "Lyon"}
    assert program("Lyon", source, changed={"city": "town"}) == "answer = get_weather(city=town, days=7)"
    (found,) = proposed("Lyon", source, changed={"city": {"name": "town", "enum": ["Lyon", "Bern"]}}).lifted
    assert (found.name, found.json_schema["enum"]) == ("town", ["Lyon", "Bern"])
    assert proposed("Lyon", source, lift=["Bern"], constants=["x"], changed={"y": "z"}).unknown == ("Bern", "x", "y")


def test_an_input_is_renamed_wherever_the_program_reads_it() -> None:
    source = "answer = [get_weather(city=where), where]"
    assert program("", source, of={"inputs": {"where": "Lyon"}}, changed={"where": "city"}) == (
        "answer = [get_weather(city=city), city]"
    )


@pytest.mark.parametrize("name", ["answer", "len", "get_weather", "found", "for", "a b", "parallel"])
def test_a_parameter_has_no_name_that_means_something_else(name: str) -> None:
    made = Program("found = get_weather(city='Lyon')\nanswer = found")
    found = tool_parameters(made, known("Lyon"), changed={"city": name})
    assert name in name_problems(made, known("Lyon"), found)


def test_a_name_of_the_programs_own_is_not_proposed() -> None:
    source = "city = get_weather(city='Lyon')\nanswer = city"
    assert lifted("Lyon", source) == {"weather_city": "Lyon"}


def test_a_program_that_cannot_be_followed_is_read_where_values_stand() -> None:
    source = "import types\nx = types.SimpleNamespace()\nx.__dict__['a'] = 1\nanswer = get_weather(city='Lyon')"
    assert lifted("Lyon", source) == {"city": "Lyon"}


def test_every_place_of_a_value_counts_or_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "answer = []\n" + "answer.append(get_weather(city='Lyon'))\n" * 100
    assert "'Lyon'" not in program("Lyon", source)
    monkeypatch.setattr(lifting, "MAX_LITERALS", 99)
    monkeypatch.setattr(parameters, "MAX_LITERALS", 99)
    assert proposed("Lyon", source).too_many
    assert len(written_out(Program(source), TOOLS)) == 100

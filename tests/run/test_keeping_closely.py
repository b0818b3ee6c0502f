"""What is easily overlooked when a run is kept: scopes, values in odd places, credentials beside the program."""

from __future__ import annotations

from typing import Any

import pytest

from atc import UsageError
from atc.tools.kept_files import read_kept
from tests.run.test_keeping import PEOPLE, World, the_file

KEY = "ghp_" + "a1B2" * 9


@pytest.fixture
def world() -> World:
    return World()


def test_an_input_is_not_renamed_where_the_program_has_a_variable_of_that_name(world: World) -> None:
    program = "f = lambda place: find_city(city=place)['people']\nanswer = [f(each) for each in ['Lyon']] + [place]"
    with world.agent() as agent:
        run = agent.run_program(program, inputs={"place": "Lyon"})
        with pytest.raises(UsageError, match="a variable 'place' of its own"):
            agent.keep(run.run_id, "people_of", parameters={"place": "town"})
        agent.keep(run.run_id, "people_of")
        assert agent.call("people_of", place="Oslo").value == [520, "Oslo"]


def test_a_new_name_is_not_taken_from_what_the_program_only_shadows(world: World) -> None:
    program = "f = lambda town: find_city(city=place)['people']\nanswer = f('Oslo')"
    with world.agent() as agent:
        run = agent.run_program(program, inputs={"place": "Lyon", "town": "Lyon"})
        agent.keep(run.run_id, "people_of", parameters={"place": "town"})
        assert agent.call("people_of", town="Bern").value == 140


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        (
            "answer = sum(city['people'] for city in [find_city(city='Lyon')])",
            "answer = sum(city_2['people'] for city_2 in [find_city(city=city)])\n",
        ),
        (
            "city = find_city(city='Lyon')\nanswer = {city['people']: [city for city in [1]]} and city['people']",
            "city_2 = find_city(city=city)\n"
            "answer = {city_2['people']: [city_2 for city_2 in [1]]} and city_2['people']\n",
        ),
        (
            "def of(city, *rest):\n    return find_city(city=city)['people']\nanswer = of('Lyon')",
            "def of(city_2, *rest):\n    return find_city(city=city_2)['people']\nanswer = of(city)\n",
        ),
        (
            "f = lambda city: find_city(city='Lyon')['people']\nanswer = int(f'{f(0)}')",
            "f = lambda city_2: find_city(city=city)['people']\nanswer = int(f'{f(0)}')\n",
        ),
    ],
)
def test_a_variable_of_the_program_makes_room_for_a_parameter_of_its_name(
    world: World, program: str, kept: str
) -> None:
    with world.agent(program) as agent:
        run = agent.run("people of Lyon")
        agent.keep(run.run_id, "people_of", parameters={"city_given": "city"})
        assert agent.call("people_of", city="Oslo").value == PEOPLE["Oslo"]
    path = the_file("people_of")
    assert read_kept(path.read_bytes(), str(path), path).program == kept


@pytest.mark.parametrize(
    "program",
    [
        "def of(city):\n    return find_city(city='Lyon')['people']\nanswer = of(city='Oslo')",
        "def of(city):\n    return find_city(city='Lyon')['people']\nanswer = of(**{'city': 'Oslo'})",
        "def city(each):\n    return find_city(city='Lyon')['people']\nanswer = city(1)",
        "class A:\n    city = find_city(city='Lyon')['people']\nanswer = A.city",
        "city = find_city(city='Lyon')\nanswer = f'{city=}'",
        "import json as city\nanswer = find_city(city='Lyon')['people']",
        "city = find_city(city='Lyon')\nanswer = 'city' in vars()",
        "find = find_city\nof = lambda city: find(city='Lyon')\nanswer = of(1)['people']",
    ],
)
def test_a_name_that_more_than_a_variable_has_is_refused_with_another(world: World, program: str) -> None:
    with world.agent(program) as agent:
        run = agent.run("people of Lyon")
        with pytest.raises(UsageError, match="take another name, such as city_2"):
            agent.keep(run.run_id, "people_of", parameters={"city_given": "city"})


@pytest.mark.parametrize(
    "program",
    [
        "c = find_city(city='Lyon')\nanswer = c['people']if c['people']>500else 3",
        "answer = sum(find_city(city=c)['people']for c in['Lyon']if 1000>500or c)",
    ],
)
def test_values_that_touch_a_word_become_parameters(world: World, program: str) -> None:
    with world.agent(program) as agent:
        run = agent.run("people of Lyon, if more than 500")
        agent.keep(run.run_id, "people_of")
        assert len(agent.call("people_of", **_given()).calls) == 1


def _given() -> dict[str, Any]:
    path = the_file("people_of")
    properties = read_kept(path.read_bytes(), str(path), path).parameters["properties"]
    return {name: each["examples"][0] for name, each in properties.items()}


@pytest.mark.parametrize("field", ["description", "enum", "default"])
def test_a_credential_in_the_schema_of_a_parameter_is_refused(world: World, field: str) -> None:
    value = ["Lyon", KEY] if field == "enum" else f"it takes {KEY}"
    with world.agent("answer = find_city(city='Lyon')['people']") as agent:
        run = agent.run("people of Lyon")
        with pytest.raises(UsageError, match="a credential stands in the schema of city"):
            agent.keep(run.run_id, "people_of", parameters={"city": {field: value}})


@pytest.mark.parametrize(
    "program",
    [
        "answer = get_city(id='{}'.format('C-Lyon'))['people']",
        "answer = get_city(id=''.join(['C-Lyon']))['people']",
        "answer = [get_city(id=each) for each in {'C-Lyon': 1}]",
        "answer = get_city(id=f'C-Lyon')['people']",
        "answer = get_city(id=b'C-Lyon'.decode())['people']",
    ],
)
def test_what_a_call_had_returned_is_confirmed_wherever_it_stands(world: World, program: str) -> None:
    with world.agent("a = find_city(city='Lyon')\nanswer = 1 / (a['people'] - 520)", program) as agent:
        run = agent.run("people of the largest town")
        with pytest.raises(UsageError, match="C-Lyon"):
            agent.keep(run.run_id, "people_of")
        agent.keep(run.run_id, "people_of", confirm=True)

"""The world of sequences: one catalogue, its near-duplicates, what breaks, and programs that are right."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Toolset
from benchmarks.environments.base import served
from benchmarks.environments.shops import environments
from benchmarks.sequences.breaking import WAYS, Way, broken, renamed
from benchmarks.sequences.services import Home, distractors, named
from benchmarks.sequences.twins import DISTANCES, has_keys, twin_of, under
from benchmarks.sequences.world import Step, World

CITY = Protocol(
    name="get_city",
    description="All about a city.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "as people write it"},
            "country_code": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "limit": {"type": "integer", "default": 3},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    returns={
        "type": "object",
        "properties": {
            "population": {"type": "integer"},
            "countries": {"type": "array", "items": {"$ref": "#/$defs/Country"}},
        },
        "required": ["population"],
        "$defs": {
            "Country": {"type": "object", "properties": {"name": {"type": "string"}}, "description": "A country."}
        },
    },
    effect=Effect.READ,
    source=Source(kind="openapi", location="https://cities.example", operation="getCity"),
)


@pytest.fixture(scope="module")
def world() -> World:
    return World(None, environments=("shops",))


def _answer(arguments: dict[str, Any]) -> Any:
    return {"population": len(arguments["name"]), "countries": [{"name": arguments.get("country_code", "FR")}]}


def _scope(tools: Toolset, portal: BlockingPortal) -> dict[str, Callable[..., Any]]:
    """Functions that call tools, without a jail: the programs are this project's own."""

    def function(name: str) -> Callable[..., Any]:
        transport = tools[name].transport
        assert transport is not None
        return lambda **arguments: portal.call(transport, arguments)

    return {name: function(name) for name in tools}


def _run(world: World, step: Step, program: str) -> tuple[bool, int]:
    """Whether a program solves a step, and the writes that nobody asked for."""
    opened = world.open(step)
    with start_blocking_portal() as portal:
        scope: dict[str, Any] = {**_scope(opened.tools, portal)}
        exec(program, scope)  # noqa: S102 - see above
    return opened.check(scope["answer"]), opened.unwanted_writes


def _by_twins(world: World, step: Step, program: str) -> str:
    """A program with the near-duplicates of all its tools that have one."""
    adapters = []
    for tool in world.twins.keys() & set(step.tools):
        adapters.append(world.twins[tool].adapter)
        program = re.sub(rf"(?<!\w){tool}\(", f"_{tool}(", program)
    return "\n".join([*adapters, program])


def test_a_twin_takes_and_answers_the_same_under_other_names() -> None:
    twin = twin_of(CITY)
    assert twin is not None
    assert twin.name != "get_city"
    assert not twin.same_service
    assert twin.distance in DISTANCES
    tool = twin.tool(served(CITY, _answer).transport)  # type: ignore[arg-type]
    assert tool.transport is not None
    given = under(twin.names, {"name": "Lyon", "country_code": "IT"})
    found = asyncio.run(tool.transport(given))
    assert found == under(twin.names, _answer({"name": "Lyon", "country_code": "IT"}))
    made: dict[str, Any] = {twin.name: lambda **arguments: asyncio.run(tool.transport(arguments))}
    exec(twin.adapter, made)  # noqa: S102 - our own text
    assert made["_get_city"](name="Lyon", country_code="IT") == _answer({"name": "Lyon", "country_code": "IT"})
    assert made["_get_city"](name="Lyon") == _answer({"name": "Lyon"})


def test_the_document_of_a_twin_says_what_it_does_and_keeps_no_sentence_of_the_original() -> None:
    twin = twin_of(CITY)
    assert twin is not None
    document = twin.protocol
    text = document.model_dump_json()
    assert "as people write it" not in text
    assert "All about" not in text
    assert "cities.example" not in text
    assert document.required == (twin.names["name"],)
    assert document.parameters["properties"][twin.names["country_code"]]["pattern"] == "^[A-Z]{2}$"
    assert document.parameters["properties"][twin.names["country_code"]]["description"] == "Code of the country"
    assert document.parameters["additionalProperties"] is False
    assert document.returns is not None
    assert [*document.returns["$defs"]["Country"]["properties"]] == [twin.names["name"]]
    assert [*document.returns["properties"]] == [twin.names["population"], twin.names["countries"]]


def test_no_two_names_of_a_twin_are_the_same() -> None:
    names = ["title", "name", "headline", "city", "town", "cityId", "city_id", "id"]
    parameters = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    for number in range(30):  # each name draws other words
        twin = twin_of(CITY.model_copy(update={"name": f"get_city_{number}", "parameters": parameters}))
        assert twin is not None
        assert len(set(twin.names.values())) == len(twin.names)
        value = {name: {name: 1} for name in names}
        back = {new: old for old, new in twin.names.items()}
        assert under(back, under(twin.names, value)) == value


@pytest.mark.parametrize(
    "changed",
    [{"effect": Effect.WRITE}, {"effect": Effect.UNKNOWN}, {"returns": None}, {"returns": {"type": "object"}}],
    ids=["writes", "may write", "no response known", "no field"],
)
def test_what_has_no_twin(changed: dict[str, Any]) -> None:
    assert twin_of(CITY.model_copy(update=changed)) is None


def test_a_list_of_plain_values_is_answered_as_it_is() -> None:
    listed = CITY.model_copy(update={"returns": {"type": "array", "items": {"type": "string"}}})
    twin = twin_of(listed)
    assert twin is not None
    assert not has_keys(listed)
    made: dict[str, Any] = {twin.name: lambda **arguments: [*arguments.values()]}
    exec(twin.adapter, made)  # noqa: S102 - our own text
    assert made["_get_city"](name="Lyon") == ["Lyon"]


def test_what_only_one_service_knows_is_read_at_that_service() -> None:
    returns = {"type": "object", "properties": {"city_id": {"type": "integer"}}}
    with_id = twin_of(CITY.model_copy(update={"returns": returns}))
    private = twin_of(CITY, public=False)
    elsewhere = twin_of(CITY, taken=[with_id.name] if with_id else [])
    assert with_id is not None
    assert private is not None
    assert elsewhere is not None
    assert with_id.protocol.source.service == private.protocol.source.service == "https://cities.example"
    assert elsewhere.protocol.source.service != "https://cities.example"
    assert elsewhere.name != with_id.name


@pytest.mark.parametrize(
    ("way", "alone", "status", "cause"),
    [
        ("down", False, 503, "unreachable"),
        ("down", True, 500, None),
        ("refused", False, 403, "credential"),
        ("refused", True, 403, "credential"),
    ],
)
def test_a_broken_tool_fails_as_a_service_does(way: Way, alone: bool, status: int, cause: str | None) -> None:
    tool = broken(served(CITY, _answer), way, alone=alone)
    assert tool.transport is not None
    assert tool.protocol == CITY
    with pytest.raises(ToolError) as failed:
        asyncio.run(tool.transport({"name": "Lyon"}))
    assert (failed.value.status, failed.value.cause) == (status, cause)


def test_a_changed_tool_answers_with_other_keys() -> None:
    tool = broken(served(CITY, _answer), "changed")
    assert tool.transport is not None
    found = asyncio.run(tool.transport({"name": "Lyon"}))
    assert found == {"v2Population": 4, "v2Countries": [{"v2Name": "FR"}]} == renamed(_answer({"name": "Lyon"}))


def test_a_slow_tool_says_nothing_in_time() -> None:
    tool = broken(served(CITY, _answer), "slow")

    async def called() -> None:
        assert tool.transport is not None
        async with asyncio.timeout(0.01):
            await tool.transport({"name": "Lyon"})

    with pytest.raises(TimeoutError):
        asyncio.run(called())


def test_one_catalogue_for_all_steps(world: World) -> None:
    assert len(world.steps) == 14
    assert not world.left_out
    assert {step.third for step in world.steps} == {1, 2, 3}
    assert {twin.name for twin in world.twins.values()} <= world.protocols.keys()
    for step in (world.steps[0], world.steps[-1]):
        tools = world.open(step).tools
        assert {name: tool.protocol for name, tool in tools.items()} == world.protocols
    assert all(protocol.source.location for protocol in world.protocols.values())  # else nothing is learnt of it
    assert all(set(step.tools) <= world.protocols.keys() for step in world.steps)


def test_tools_break_from_the_middle_on_and_some_come_back(world: World) -> None:
    middle = len(world.steps) // 2
    broken_at = [step.broken for step in world.steps]
    assert not any(broken_at[:middle])
    assert all(broken_at[middle:])
    ways: dict[str, set[Way]] = {}
    for at in broken_at:
        for tool, way in at.items():
            ways.setdefault(tool, set()).add(way)
    assert ways.keys() <= world.twins.keys()
    assert all(len(each) == 1 for each in ways.values())
    assert {way for each in ways.values() for way in each} == set(WAYS)
    needed = {tool for step in world.steps[middle:] for tool in step.tools}
    assert ways.keys() < needed
    assert broken_at[-1].keys() < ways.keys()


def test_the_seed_draws_the_sequence(world: World) -> None:
    again, other = (World(None, environments=("shops",), seed=seed) for seed in (0, 1))
    assert again.steps == world.steps
    assert again.twins == world.twins
    assert [step.task for step in other.steps] != [step.task for step in world.steps]
    assert [step.broken for step in other.steps] != [step.broken for step in world.steps]


def test_each_program_solves_its_task(world: World) -> None:
    for step in world.steps:
        program = asyncio.run(world.program(step))
        whole = replace(step, broken={})
        assert _run(world, whole, program) == (True, 0), step.task
        assert _run(world, step, _by_twins(world, step, program)) == (True, 0), step.task


def test_a_program_fails_where_its_tool_is_broken(world: World) -> None:
    step = next(step for step in world.steps if step.broken.keys() & set(step.tools))
    ways: Mapping[str, Way] = dict.fromkeys(step.broken, "down")
    with pytest.raises(ToolError):
        _run(world, replace(step, broken=ways), asyncio.run(world.program(step)))


def test_a_step_begins_anew_and_counts_what_nobody_asked_for(world: World) -> None:
    step = next(step for step in world.steps if "create_order" in step.tools)
    program = asyncio.run(world.program(step))
    assert _run(world, replace(step, broken={}), f"{program}\nlend(book_id=209, member_id=33)") == (True, 1)
    assert _run(world, replace(step, broken={}), program) == (True, 0)
    opened = world.open(step)
    assert not opened.calls


def test_a_name_that_two_environments_have_is_prefixed() -> None:
    one, other = environments()[:2]
    protocols = [{"ping": CITY, "same": CITY}, {"ping": CITY.model_copy(update={"description": ""}), "same": CITY}]
    homes = [
        Home(environment, (), {}, each, {}, {})
        for environment, each in zip((one, other), protocols, strict=True)
    ]  # fmt: skip
    assert [home.names for home in named(homes)] == [
        {"ping": "shop_ping", "same": "same"},
        {"ping": "library_ping", "same": "same"},
    ]


def test_an_environment_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no environment 'shop'"):
        World(None, environments=("shop",))


def test_without_data_there_are_no_distractors() -> None:
    assert distractors(None, 200, 0) == ()


@pytest.mark.slow
def test_the_world_without_data_has_sixty_tools_and_all_its_programs_are_right() -> None:
    whole = World(None)
    assert len(whole.protocols) >= 60
    assert len(whole.steps) == 54
    for step in whole.steps:
        program = asyncio.run(whole.program(step))
        assert _run(whole, replace(step, broken={}), program) == (True, 0), step.task
        assert _run(whole, step, _by_twins(whole, step, program)) == (True, 0), step.task

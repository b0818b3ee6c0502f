"""Demonstrations go from what a user knows to what only tools know, by calls that were made."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from atc.atlas.catalogue import atlas_toolset
from atc.probing.demonstrations import MAX_CALLS, MAX_WAYS, Ways, demonstrate
from atc.probing.document import protocol_of
from atc.probing.record import Demonstration, Instance, Record
from atc.result import Effect
from atc.schemas.protocol import Example, Protocol
from atc.tools.tool import Toolset
from benchmarks.probing.demonstration_audit import audit
from tests.support.probe import Service, line, probed, states
from tests.support.probe_services import missing

FACTS = {"lake_id": 77, "name": "Inari", "deepest_m": 92}
LAKES = {"lakes": [{"lake_id": 12, "name": "Oulu"}, {"lake_id": 77, "name": "Inari"}]}


def tool(name: str, *calls: tuple[dict[str, Any], Any], **schemas: Any) -> tuple[Protocol, Record]:
    """A documented tool that was called so and answered that."""
    names = {key for arguments, _ in calls for key in arguments}
    parameters = {"type": "object", "properties": {key: schemas.get(key, {}) for key in sorted(names)}}
    record = Record(name, "documented")
    for arguments, response in calls:
        record.instances.append(Instance(arguments, response))
        record.shape.add(response)
        record.arguments.accepted(arguments)
    return Protocol(name=name, parameters=parameters, effect=Effect.READ), record


def shown(*tools: tuple[Protocol, Record]) -> dict[str, Demonstration | None]:
    records = {record.name: record for _, record in tools}
    demonstrate({protocol.name: protocol for protocol, _ in tools}, records)
    return {name: record.demonstration for name, record in records.items()}


def program(*tools: tuple[Protocol, Record]) -> str:
    """Of the last tool."""
    found = [*shown(*tools).values()][-1]
    return found.program if found is not None else ""


def test_an_id_is_read_off_a_list_by_the_name_that_a_user_knows() -> None:
    made = shown(tool("list_lakes", ({}, LAKES)), tool("get_lake", ({"lake_id": 77}, FACTS)))["get_lake"]
    assert made is not None
    assert made.program == (
        "lakes = list_lakes()\n"
        "answer = get_lake(lake_id=next(each for each in lakes['lakes'] if each['name'] == 'Inari')['lake_id'])\n"
    )
    assert made.question == "What are the name and deepest m of the lake named Inari?"
    assert made.arguments == {"lake_id": 77}


def test_a_search_by_words_comes_before_a_list() -> None:
    search = tool("find_lakes", ({"name": "inari"}, [{"lake_id": 77, "name": "Inari"}]))
    made = program(tool("list_lakes", ({}, LAKES)), search, tool("get_lake", ({"lake_id": 77}, FACTS)))
    assert made == "lakes = find_lakes(name='inari')\nanswer = get_lake(lake_id=lakes[0]['lake_id'])\n"


def test_no_tool_is_asked_for_what_it_is_given() -> None:
    echo = tool("get_lake", ({"lake_id": 77}, FACTS))
    assert program(echo, tool("lake_weather", ({"lake_id": 77}, {"wind": 3}))) == ""


def test_a_name_is_written_and_never_looked_up() -> None:
    country = tool("get_country", ({"country_code": "FI"}, {"name": "Finland"}))
    found = program(country, tool("find_countries", ({"name": "Finland"}, [{"country_code": "FI"}])))
    assert found == "answer = find_countries(name='Finland')\n"


def test_an_id_that_nobody_can_know_begins_no_demonstration() -> None:
    assert program(tool("get_lake", ({"lake_id": 1}, FACTS))) == ""
    stated = {"type": "integer", "enum": [1, 2]}
    assert program(tool("get_lake", ({"lake_id": 1}, FACTS), lake_id=stated)) == "answer = get_lake(lake_id=1)\n"


def test_a_value_that_was_only_guessed_is_not_taught() -> None:
    assert program(tool("pairing", ({"wine": "a"}, {"text": "x"}))) == ""
    assert program(tool("pairing", ({"wine": "a"}, {"text": "x"}), ({"wine": "Riesling"}, {"text": "x"}))) == (
        "answer = pairing(wine='Riesling')\n"
    )


def test_a_later_item_without_a_name_is_not_taught() -> None:
    plain = tool("list_lakes", ({}, [{"lake_id": 12}, {"lake_id": 77}]))
    assert program(plain, tool("get_lake", ({"lake_id": 77}, FACTS))) == ""
    assert "[0]['lake_id']" in program(plain, tool("get_lake", ({"lake_id": 12}, FACTS)))


def test_two_items_of_one_name_are_told_apart_or_not_taught() -> None:
    twice = [{"lake_id": 12, "name": "Inari"}, {"lake_id": 77, "name": "Inari"}]
    assert program(tool("list_lakes", ({}, twice)), tool("get_lake", ({"lake_id": 77}, FACTS))) == ""


@pytest.mark.parametrize("secret", ["ghp_aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6", "***"], ids=["token", "mask"])
def test_no_secret_is_written_into_a_program(secret: str) -> None:
    assert program(tool("greet", ({"name": secret}, {"text": "hello"}))) == ""


@pytest.mark.parametrize("text", ['it\'s "so"', "'''\nimport os", "{x}", "\\", "Łódź"], ids=range(5))
def test_every_text_arrives_as_it_is(text: str) -> None:
    made = program(tool("find_lakes", ({"name": text}, [{"lake_id": 7, "name": "x"}])))
    (call,) = [node for node in ast.walk(ast.parse(made)) if isinstance(node, ast.Call)]
    assert ast.literal_eval(call.keywords[0].value) == text


def test_no_variable_hides_a_tool_or_a_builtin() -> None:
    names = {"name": "Inari", "lake_id": 77}
    made = program(tool("list_set", ({}, [names])), tool("get_lake", ({"lake_id": 77}, FACTS)))
    (assigned, *_) = (node.targets[0] for node in ast.parse(made).body if isinstance(node, ast.Assign))
    assert isinstance(assigned, ast.Name)
    assert assigned.id not in ("set", "list_set", "get_lake")


def test_a_chain_is_bounded() -> None:
    tools = [tool("list_as", ({}, [{"a_id": "x1", "name": "one"}]))]
    for before, after in zip("abcde", "bcdef", strict=True):
        tools.append(tool(f"list_{after}s", ({f"{before}_id": "x1"}, [{f"{after}_id": "x1", "name": "one"}])))
    lengths = [made.program.count("\n") for made in shown(*tools).values() if made is not None]
    assert max(lengths) <= MAX_CALLS


def test_what_is_missing_is_called_with_what_can_be_read() -> None:
    guessed, lakes = tool("get_lake", ({"lake_id": 1}, FACTS)), tool("list_lakes", ({}, LAKES))
    tools = {each.name: each for each, _ in (guessed, lakes)}
    ways = Ways(tools, {record.name: record for _, record in (guessed, lakes)})
    assert ways.missing("get_lake")[0] == {"lake_id": 12}
    assert ways.missing("list_lakes") == []


DOCUMENTED = "answer = get_lake(lake_id=3)"
DEMONSTRATED = Demonstration("What is known of lake 3?", DOCUMENTED, {"lake_id": 3})


def documented(*declared: Example) -> tuple[Example, ...]:
    record = Record("get_lake", demonstration=DEMONSTRATED)
    record.instances += [Instance({"lake_id": number}, {"id": number}) for number in (1, 2, 3)]
    return protocol_of(Protocol(name="get_lake", examples=declared), record).examples


def test_a_demonstration_stands_beside_the_examples_of_the_source() -> None:
    declared = Example(response={"id": 1})
    first, probed, other = documented(declared)
    assert (first, probed.program, probed.description) == (declared, DOCUMENTED, "What is known of lake 3?")
    assert (probed.response, other) == ({"id": 3}, Example(arguments={"lake_id": 1}, response={"id": 1}))
    assert documented(own := Example(program=DOCUMENTED, response=1)) == (own,)


# -- whole services ----------------------------------------------------------------------------------------------------


def test_a_read_that_answers_any_id_is_called_with_one_that_a_list_gives(service: Service) -> None:
    service.route("get_lake", "/lakes/{lake_id}", lambda a: {**FACTS, "lake_id": a["lake_id"]})
    service.route("list_lakes", "/lakes", LAKES)
    report = probed(service.tools(), tries=0)
    example = next(p for p in report.protocols if p.name == "get_lake").examples[0]
    assert example.program.startswith("lakes = list_lakes()\nanswer = get_lake(")
    assert example.arguments["lake_id"] in (12, 77)


def test_a_write_is_not_called_for_its_demonstration(service: Service) -> None:
    service.route("close_lake", "/lakes/{lake_id}/close", FACTS, method="POST")
    service.route("list_lakes", "/lakes", LAKES)
    options: dict[str, Any] = {"allow_effects": ("close_lake",), "approve": "always"}
    report = probed(service.tools(), tries=0, **options)
    assert states(report)["close_lake"] == "documented"
    assert line(report, "close_lake").calls == 1


@pytest.mark.slow
def test_atlas_is_demonstrated_without_one_of_the_mistakes() -> None:
    told_nothing: dict[str, Any] = {"description": "", "examples": (), "returns": None}
    bare = Toolset(
        replace(each, protocol=each.protocol.model_copy(update=told_nothing)) for each in atlas_toolset().values()
    )
    report = probed(bare, tries=0)
    found = audit(report.protocols)
    assert found.demonstrated > 20
    assert found.chained > 3
    assert (found.naming, found.tautologies, found.backwards, found.unknowable) == ((), (), (), ())
    assert all(each.description.endswith("?") for p in report.protocols for each in p.examples if each.program)


def test_the_example_of_the_ferries_is_demonstrated_without_one_of_the_mistakes(service: Service) -> None:
    harbours = [{"harbour_id": "H17", "title": "Alma"}, {"harbour_id": "H23", "title": "Brekk"}]
    crossings = {
        "H17": {"items": [{"bound_for": "Brekk", "crossing_id": "X4"}]},
        "H23": {"items": [{"bound_for": "Alma", "crossing_id": "X5"}]},
    }
    fares = {key: {"adult": 12.5} for key in ("X4", "X5")}

    def by(name: str, rows: dict[str, Any]) -> Callable[[dict[str, str]], Any]:
        return lambda arguments: rows.get(arguments.get(name, "")) or missing()

    service.route("harbours", "/harbours", {"items": harbours})
    service.route("crossings", "/crossings", by("harbour_id", crossings), need="harbour_id")
    service.route("fares", "/fares", by("crossing_id", fares), need="crossing_id")
    report = probed(service.tools(), tries=0)
    found = audit(report.protocols)
    assert (found.documented, found.demonstrated, found.chained) == (3, 3, 2)
    assert (found.naming, found.tautologies, found.backwards, found.unknowable) == ((), (), (), ())
    example = next(p for p in report.protocols if p.name == "fares").examples[0]
    assert "each['title'] == 'Alma'" in example.program
    assert example.description == "What is the adult of the fares of the first crossing and of the harbour named Alma?"


def test_a_service_whose_tools_all_fit_each_other_costs_no_more_than_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    true = Ways._way

    def counted(self: Ways, *arguments: Any) -> Any:
        nonlocal looked
        looked += 1
        return true(self, *arguments)

    monkeypatch.setattr(Ways, "_way", counted)
    items = [{"thing_id": f"v{number}", "name": f"n{number}"} for number in range(20)]
    calls = [({"thing_id": f"v{each}"}, {"items": items}) for each in range(5)]
    tools = [tool(f"things_{number}", *calls) for number in range(8)]
    assert set(shown(*tools).values()) == {None}
    assert looked <= len(tools) * (MAX_WAYS + 5)

"""The model in probing: asked for words that structure cannot know, told what failed, and missed by nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc.errors import ModelUnavailable, SandboxUnavailable
from atc.probing.asking import MAX_PROPOSED, TOOLS_A_REQUEST
from atc.sandboxes.contract import Sandbox
from tests.support.probe import Oracle, Says, Service, line, probed, states
from tests.support.probe_services import GOOD, LIBRARY, add_goods, add_library, missing


def add_search(service: Service, tool: str = "find_film") -> None:
    def find(arguments: dict[str, str]) -> Any:
        if arguments["name"] != "Stalker":
            return Says(json.dumps({"detail": "no film of this name; try a Russian one"}), 404)
        return {"film": "Stalker", "minutes": 167}

    service.route(tool, f"/{tool}", find, need="name", name={"type": "string"})


def test_the_model_is_asked_where_structure_has_no_value_and_told_what_failed(service: Service) -> None:
    add_search(service)
    model = Oracle({"find_film": [{"name": ["Alien"]}, {"name": ["Stalker"]}]})
    report = probed(service.tools(), model)
    assert states(report) == {"find_film": "documented"}
    first, second = model.prompts_for("values")
    assert "Russian" not in first
    assert "find_film(name='Alien')" in second
    assert "no film of this name; try a Russian one" in second
    example = report.protocols[0].examples[0]
    assert (example.arguments, example.program) == ({"name": "Stalker"}, "answer = find_film(name='Stalker')\n")
    assert report.model_calls == len(model.asked)


def test_one_request_speaks_of_all_tools_that_lack_a_value(service: Service) -> None:
    films = ("find_film", "find_actor", "find_studio")
    for name in films:
        add_search(service, name)
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    model = Oracle({film: {"name": ["Stalker"]} for film in films})
    report = probed(service.tools(), model)
    assert report.complete
    assert [asked for asked in model.asked if asked[0] == "values"] == [("values", films)]


def test_the_model_is_shown_what_other_tools_answered(service: Service) -> None:
    service.route("catalogue", "/catalogue", [{"label": "Stalker"}])
    add_search(service)
    model = Oracle({"find_film": {"name": ["Stalker"]}})
    report = probed(service.tools(), model)
    assert states(report) == {"catalogue": "documented", "find_film": "documented"}
    (asked,) = model.prompts_for("values")
    assert 'catalogue: [].label = "Stalker"' in asked
    assert len(service.asked("catalogue")) == 1


def test_a_first_value_of_each_argument_is_tried_with_the_first_of_the_others(service: Service) -> None:
    known = {("Seine", "France"), ("Po", "Italy")}
    service.route(
        "find_river",
        "/rivers",
        lambda a: {"km": 7} if (a["title"], a["land"]) in known else missing(),
        need="title land",
    )
    model = Oracle({"find_river": {"title": ["Rhine", "Po"], "land": ["Germany", "Italy"]}})
    report = probed(service.tools(), model)
    assert report.protocols[0].examples[0].arguments == {"title": "Po", "land": "Italy"}


def test_an_id_that_the_model_made_up_is_never_sent(service: Service) -> None:
    add_goods(service)
    service.route("get_lamp", "/lamps/{lamp_id}", lambda a: {"n": 1} if a["lamp_id"] == "l-77" else missing())
    report = probed(service.tools(), Oracle({"get_lamp": {"lamp_id": ["l-77", "l-78"]}}))
    assert states(report) == {**GOOD, "get_lamp": "undocumented"}
    assert {hit.arguments["lamp_id"] for hit in service.asked("get_lamp")}.isdisjoint({"l-77", "l-78"})


def test_an_id_that_stands_in_an_answer_under_another_name_is_fetched_from_there(service: Service) -> None:
    service.route("menu", "/menu", {"dishes": [{"sign": "x-soup-9"}, {"sign": "x-rice-4"}]})
    service.route("recipe", "/recipes/{recipe_id}", lambda a: {"n": 1} if a["recipe_id"] == "x-soup-9" else missing())
    report = probed(service.tools(), Oracle({"recipe": {"recipe_id": ["x-soup-9"]}}))
    assert states(report) == {"menu": "documented", "recipe": "documented"}
    assert line(report, "recipe").helpers == ("menu",)


def test_an_id_that_the_service_named_in_its_message_may_be_sent(service: Service) -> None:
    said = Says(json.dumps({"detail": "no such room; there are only r-12a and r-14b"}), 404)
    service.route("get_room", "/rooms/{room_id}", lambda a: {"beds": 2} if a["room_id"] == "r-12a" else said)
    report = probed(service.tools(), Oracle({"get_room": {"room_id": ["r-12a"]}}))
    assert states(report) == {"get_room": "documented"}


def test_an_argument_that_no_document_names_is_one_that_the_service_speaks_of(service: Service) -> None:
    def find(arguments: dict[str, str]) -> Any:
        said = Says(json.dumps({"oops": "we could not tell the borough that you mean"}), 400)
        return {"people": 7} if arguments.get("borough") == "Camden" else said

    service.route("people", "/people", find)
    model = Oracle({"people": {"borough": ["Camden"], "secret_door": ["open"]}})
    report = probed(service.tools(undeclared=True), model)
    assert states(report) == {"people": "documented"}
    assert all("secret_door" not in hit.arguments for hit in service.hits)
    assert report.protocols[0].parameters["required"] == ["borough"]


def test_an_optional_argument_is_given_where_an_answer_without_it_was_empty(service: Service) -> None:
    service.route("find", "/find", lambda a: [{"n": 1}] if a.get("q") == "lamp" else [], query="q")
    model = Oracle({"find": {"q": ["lamp"]}})
    report = probed(service.tools(), model)
    assert states(report) == {"find": "documented"}
    assert "It answered, but with nothing in it" in model.prompts_for("values")[0]
    assert report.protocols[0].parameters["properties"]["q"]["examples"] == ["lamp"]


@pytest.mark.parametrize(
    ("schema", "proposed", "sent"),
    [
        ({"type": "integer"}, ["many", "7717"], "7717"),
        ({"type": "string", "enum": ["red", "blue"]}, ["lamp", "blue"], "blue"),
        ({"type": "string", "maxLength": 4}, ["much too long", "abcd"], "abcd"),
        ({"type": "string"}, [7717], "7717"),
        ({"type": "boolean"}, ["perhaps", True], "true"),
    ],
    ids=["integer", "enum", "maxLength", "number as text", "boolean"],
)
def test_a_value_that_does_not_fit_what_is_known_is_not_sent(
    service: Service, schema: dict[str, Any], proposed: list[Any], sent: str
) -> None:
    def look(arguments: dict[str, str]) -> Any:
        return {"n": 1} if arguments["thing"] == sent else missing()

    service.route("look", "/look", look, need="thing", thing=schema)
    report = probed(service.tools(), Oracle({"look": {"thing": proposed}}))
    assert states(report) == {"look": "documented"}
    wrong = {str(value) for value in proposed} - {sent}
    assert wrong.isdisjoint(hit.arguments["thing"] for hit in service.hits)


def test_what_looks_like_a_secret_is_not_sent(service: Service) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    service.route("look", "/look", lambda _: missing(), need="word password", word={"type": "string"})
    report = probed(service.tools(), Oracle({"look": {"word": [key], "password": ["hunter2"]}}))
    assert states(report) == {"look": "undocumented"}
    assert [hit.target for hit in service.hits if key in hit.target or "hunter2" in hit.target] == []


def test_each_message_of_the_service_is_shown_once(service: Service) -> None:
    service.route("look", "/look", lambda a: Says(json.dumps({"detail": "there is nothing"}), 404), need="thing")
    model = Oracle()
    probed(service.tools(), model)
    (asked,) = model.prompts_for("values")
    assert len(service.asked("look")) > 1
    assert asked.count("there is nothing") == 1


def test_an_earlier_refusal_still_tells_which_arguments_are_missing(service: Service) -> None:
    def weather(arguments: dict[str, str]) -> Any:
        if not arguments["date"].startswith("20"):
            return Says(json.dumps({"detail": "no date"}), 422)
        if arguments.get("place_id") != "p-7":
            return Says(json.dumps({"detail": "You must specify either place_id or both lat and lon"}), 400)
        return {"rain": 3}

    service.route("list_places", "/places", [{"place_id": "p-7"}])
    service.route("weather", "/weather", weather, need="date", query="place_id lat lon")
    report = probed(service.tools(), tries=0)
    assert states(report) == {"list_places": "documented", "weather": "documented"}


def test_the_model_is_asked_so_many_times(service: Service) -> None:
    add_search(service)
    wrong = [{"name": [f"Film {n}"]} for n in range(9)]
    for tries in (0, 1, 3):
        model = Oracle({"find_film": list(wrong)})
        probed(service.tools(), model, tries=tries)
        assert model.count("values") == tries
        assert len(set(model.settings)) == tries  # each time in another way


def test_a_tool_for_which_the_model_knows_nothing_new_is_not_asked_about_again(service: Service) -> None:
    add_search(service)
    add_search(service, "find_actor")
    model = Oracle({"find_film": {"name": ["Alien"]}, "find_actor": [{"name": ["Ada"]}, {"name": ["Stalker"]}]})
    report = probed(service.tools(), model, tries=5)
    assert states(report) == {"find_film": "undocumented", "find_actor": "documented"}
    assert model.count("values", "find_film") == 3  # once more after the other was found: there was more to choose from
    assert len(service.asked("find_film")) == 1


def test_the_prompts_are_bounded_however_many_tools_there_are(service: Service) -> None:
    for number in range(3 * TOOLS_A_REQUEST):
        add_search(service, f"find_{number}")
    many = " ".join(f"{'long' * 20}_{number}" for number in range(40))
    for number in range(20):
        service.route(f"wide_{number}", f"/wide/{number}", lambda _: missing(), query=many, need="name")
    model = Oracle(whole=["{}"])
    probed(service.tools(), model, tries=2)
    asked = [tools for _, tools in model.asked]
    assert sum(map(len, asked)) == len(service.routes)  # each once, and not again: it knew nothing
    assert max(map(len, model.prompts_for("values"))) < 16_000
    assert max(map(len, asked)) == TOOLS_A_REQUEST


def test_a_model_that_says_too_much_costs_no_more_calls(service: Service) -> None:
    service.route("look", "/look", lambda _: missing(), need="name")
    said = [{"name": [f"{letter}{n}" for n in range(MAX_PROPOSED)]} for letter in "abcdefgh"]
    report = probed(service.tools(), Oracle({"look": said}), tries=50)
    assert line(report, "look").calls <= 16
    assert service.twice() == []


def test_a_model_that_fails_costs_only_what_needs_it(service: Service) -> None:
    add_library(service)
    add_search(service)
    report = probed(service.tools(), Oracle())  # it raises ModelError when it is asked for values
    assert states(report) == {**dict.fromkeys(LIBRARY, "documented"), "find_film": "undocumented"}


def test_a_model_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_search(service)
    with pytest.raises(ModelUnavailable, match="no key"):
        probed(service.tools(), Oracle(whole=[ModelUnavailable("no key")]))


class Nowhere(Sandbox):
    """A sandbox that cannot be had when it comes to it."""

    name = "nowhere"

    async def prepare(self) -> None:
        return

    async def run(self, job: Any, call: Any) -> Any:
        raise SandboxUnavailable("no namespaces left")

    async def aclose(self) -> None:
        return


def test_a_sandbox_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_library(service)
    with pytest.raises(SandboxUnavailable, match="no namespaces left"):
        probed(service.tools(), sandbox=Nowhere())
    assert service.hits == []


def test_a_model_that_never_answered_was_not_called(service: Service) -> None:
    add_search(service)
    model = Oracle()  # it fails
    report = probed(service.tools(), model)
    assert model.asked
    assert (report.model_calls, report.prompt_tokens) == (0, 0)

"""Which tool supplies which argument is read off the schemas, in the spellings that real services have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from atc.catalogue.graph.structure import suppliers_of
from atc.catalogue.graph.suppliers import Scope, Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.schemas.identifiers import affinity, is_plural, owner_of
from atc.schemas.protocol import Protocol, Source
from atc.wording.prompting import prompt


def hints_for(tools: Sequence[Protocol]) -> Mapping[str, Mapping[str, str]]:
    return ToolGraph(tools).hints


def taking(name: str, *arguments: str, returns: dict[str, Any] | None = None) -> Protocol:
    properties = {argument: {"type": "string"} for argument in arguments}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return Protocol(name=name, description=name, parameters=parameters, returns=returns)


def listing(container: str, **fields: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": fields or {"id": {"type": "string"}}}
    return {"type": "object", "properties": {container: {"type": "array", "items": item}}}


@pytest.mark.parametrize(
    ("giver", "taker", "hint"),
    [
        (
            taking("search_movie", "query", returns=listing("results")), taking("get_movie_images", "movie_id"),
            "from search_movie(query=...)['results'][0]['id']",
        ),
        (
            taking("findPets", "status", returns=listing("data")), taking("getPet", "petId"),
            "from findPets(status=...)['data'][0]['id']",
        ),
        (
            taking("list_albums", returns=listing("items")), taking("get_album", "id"),
            "from the ['id'] of one of list_albums()['items']",
        ),
        (
            taking("find_cities", "name", returns=listing("cities", city_id={"type": "string"})),
            taking("distance", "from_city_id"), "from find_cities(name=...)['cities'][0]['city_id']",
        ),
        (
            taking("get_country", "name", returns=listing("found", language_codes={"type": "array"})),
            taking("get_language", "language_code"), "from get_country(name=...)['found'][0]['language_codes'][0]",
        ),
        (
            taking("get_country", "name", returns=listing("found", language_codes={"type": "string"})),
            taking("get_language", "language_code"), "from get_country(name=...)['found'][0]['language_codes']",
        ),
        (
            taking("search_files", "query", returns=listing("files", id_={})),
            taking("get_file", "file_id"), "from search_files(query=...)['files'][0]['id_']",
        ),
    ],
)  # fmt: skip
def test_an_identifier_is_linked_to_the_field_that_it_comes_from(giver: Protocol, taker: Protocol, hint: str) -> None:
    (found,) = hints_for([giver, taker])[taker.name].values()
    assert found == hint


def documented(name: str, argument: str, description: str) -> Protocol:
    parameters = {"properties": {argument: {"type": "string", "description": description}}, "required": [argument]}
    return Protocol(name=name, parameters={"type": "object", **parameters})


def test_the_tool_that_a_description_names_as_the_source_is_believed() -> None:
    flights = taking("search_flight_location", "query", returns=listing("places"))
    hotels = taking("search_hotel_location", "query", returns=listing("places"))
    told = "Where you leave. `fromId` can be retrieved from `/v1/flights` **(Search Flight Location)**"
    fares = documented("get_fares", "fromId", told)
    assert hints_for([hotels, flights, fares])["get_fares"] == {
        "fromId": "from search_flight_location(query=...)['places'][0]['id']"
    }
    unread = taking("search_flight_location", "query")
    assert hints_for([unread, fares])["get_fares"] == {"fromId": "from search_flight_location(query=...)"}


@pytest.mark.parametrize(
    "said",
    [
        "A flight location, from the map",
        "Unlike Search Flight Location this takes a code",
        "from search",
        "",
        "from " * 500,
    ],
)
def test_a_description_that_names_no_source_links_nothing(said: str) -> None:
    tools = [taking("search_flight_location", "query"), taking("search", "q"), documented("get_fares", "place", said)]
    assert hints_for(tools) == {}


@pytest.mark.parametrize("said", ["call locate(address=...)", "see `locate`"])
def test_a_name_of_one_word_is_meant_where_it_is_written_as_code(said: str) -> None:
    tools = [taking("locate", "address"), documented("rooms", "place", said)]
    assert hints_for(tools)["rooms"] == {"place": "from locate(address=...)"}


def test_of_two_names_the_longer_is_meant() -> None:
    tools = [taking("search_hotels", "city"), taking("search_hotels_by_map", "lat")]
    (found,) = hints_for([*tools, documented("rooms", "hotel_id", "see searchHotelsByMap")])["rooms"].values()
    assert found == "from search_hotels_by_map(lat=...)"


def test_a_coordinate_is_linked_however_it_is_spelled() -> None:
    place = taking("locate", "address", returns={"type": "object", "properties": {"lat": {"type": "number"}}})
    assert hints_for([place, taking("weather", "latitude")])["weather"] == {
        "latitude": "from locate(address=...)['lat']"
    }


def test_what_a_tool_must_be_given_it_does_not_supply() -> None:
    detail = taking("get_movie", "movie_id", returns={"type": "object", "properties": {"id": {"type": "string"}}})
    assert hints_for([detail, taking("get_movie_images", "movie_id")]) == {}


def test_an_id_of_something_else_is_no_source() -> None:
    assert hints_for([taking("list_songs", returns=listing("results")), taking("get_movie", "movie_id")]) == {}
    profile = taking("get_current_users_profile", returns={"type": "object", "properties": {"id": {}}})
    assert hints_for([profile, taking("save_albums", "id")]) == {}


@pytest.mark.parametrize("name", ["example_task", "example_task_plain"])
def test_the_worked_example_has_the_hints_that_its_tools_get(name: str) -> None:
    documents = [line for line in prompt("example_task_json").splitlines() if line.startswith("{")]
    hints = hints_for([Protocol.model_validate_json(document) for document in documents])
    assert {*hints} == {"list_books", "get_book"}
    for of_tool in hints.values():
        for parameter, hint in of_tool.items():
            assert f"    {parameter}: {hint}\n" in prompt(name)


def test_where_two_are_alike_both_are_named() -> None:
    exact = taking("list_shops", returns=listing("shops", shop_id={"type": "string"}))
    likely = taking("search_shops", "text", returns=listing("results"))
    assert hints_for([likely, exact, taking("get_shop", "shop_id")])["get_shop"] == {
        "shop_id": "from search_shops(text=...)['results'][0]['id'] or the ['shop_id'] of one of list_shops()['shops']"
    }
    both = taking("list_shops", returns=listing("shops", id={}, shop_id={}))
    assert hints_for([both, taking("get_shop", "shop_id")])["get_shop"] == {
        "shop_id": "from the ['shop_id'] of one of list_shops()['shops']"
    }


def of(protocol: Protocol, location: str, kind: Any = "openapi") -> Protocol:
    return protocol.model_copy(update={"source": Source(kind=kind, location=location)})


def test_an_identifier_of_one_service_is_none_of_another() -> None:
    users = taking("list_users", returns=listing("users", user_id={}, country_code={}))
    taker = of(taking("get_avatar", "user_id"), "pictures.json")
    assert hints_for([of(users, "shop.json"), taker]) == {}
    known = hints_for([of(users, "shop.json"), of(taking("holidays", "country_code"), "calendar.json")])
    assert known["holidays"] == {"country_code": "from the ['country_code'] of one of list_users()['users']"}


def test_the_tools_own_service_comes_before_closer_names_elsewhere() -> None:
    own = of(taking("search_users", "text", returns=listing("results")), "pictures.json")
    exact = taking("list_users", returns=listing("users", user_id={}))
    taker = of(taking("get_avatar", "user_id"), "pictures.json")
    for kind, location in (("openapi", "shop.json"), ("function", "mine:list_users")):
        assert hints_for([own, of(exact, location, kind), taker])["get_avatar"] == {
            "user_id": "from search_users(text=...)['results'][0]['id']"
        }


def test_a_function_of_the_users_own_may_speak_for_a_service() -> None:
    users = of(taking("my_users", returns=listing("users", user_id={})), "mine.tools:my_users", "function")
    assert hints_for([users, of(taking("get_avatar", "user_id"), "pictures.json")])["get_avatar"]


def test_functions_are_one_service_of_their_own() -> None:
    finder = of(taking("find_customer", "name", returns=listing("found", customer_id={})), "customers:x", "function")
    maker = of(taking("create_order", "customer_id"), "orders:y", "function")
    foreign = of(taking("list_customers", returns=listing("customers", customer_id={})), "shop.json")
    (hint,) = hints_for([foreign, finder, maker])["create_order"].values()
    assert hint == "from the ['customer_id'] of one of find_customer(name=...)['found'], the one that the task means"


def test_of_two_tools_with_the_name_that_a_description_says_the_one_beside_it_is_meant() -> None:
    def search(name: str, location: str) -> Protocol:
        made = of(taking(name, "text", returns=listing("found", user_id={})), location)
        return made.model_copy(update={"source": made.source.model_copy(update={"operation": "searchUsers"})})

    taker = of(documented("get_avatar", "user_id", "The id returned by Search Users"), "pictures.json")
    for tools in ([search("a", "shop.json"), search("b", "pictures.json")], [search("b", "pictures.json")]):
        assert hints_for([*tools, taker])["get_avatar"] == {"user_id": "from b(text=...)['found'][0]['user_id']"}


def test_what_only_refers_to_a_thing_is_known_and_what_makes_one_is_no_reference() -> None:
    trip = taking("get_trip", returns=listing("stops", city_id={}))
    city = taking("find_cities", "name", returns=listing("cities", city_id={}))
    booked = taking("book_flight", "name", returns={"type": "object", "properties": {"booking_id": {}}})
    airport = taking("nearest", "name", returns=listing("airports", iata={}))
    tools = [
        trip,
        city,
        booked,
        airport,
        taking("add_stop", "city_id"),
        taking("pay", "booking_id"),
        taking("fly", "iata"),
    ]
    found = suppliers_of(tools)
    assert {each.tool: each.refers for each in found["add_stop", "city_id"]} == {"get_trip": True, "find_cities": False}
    assert [each.refers for each in (*found["pay", "booking_id"], *found["fly", "iata"])] == [False, False]


def test_a_supplier_is_data_and_renders_the_expression_that_reads_the_value() -> None:
    finder = taking("find_cities", "name", "limit", returns=listing("cities", city_id={}))
    (found,) = suppliers_of([finder, taking("add_stop", "city_id")])["add_stop", "city_id"]
    assert found == Supplier("find_cities", ("cities", "[]", "city_id"), ("name", "limit"), name="find_cities")
    assert found.known
    assert found.render() == "find_cities(name=..., limit=...)['cities'][0]['city_id']"
    assert found.render({"name": "'Lyon'"}) == "find_cities(name='Lyon', limit=...)['cities'][0]['city_id']"


def test_tools_of_one_name_are_told_apart_by_their_keys() -> None:
    def search(location: str) -> Protocol:
        return of(taking("search", "text", returns=listing("users", user_id={})), location)

    tools = {"a/search": search("a"), "b/search": search("b"), "b/get": of(taking("get", "user_id"), "b")}
    (found,) = suppliers_of(tools, ["b/get"])["b/get", "user_id"]
    assert (found.tool, found.render()) == ("b/search", "search(text=...)['users'][0]['user_id']")


def test_a_scope_says_what_the_source_of_a_tool_does_not() -> None:
    tools = {"users": taking("list_users", returns=listing("users", user_id={})), "get": taking("get", "user_id")}
    apart = {"users": Scope("a"), "get": Scope("b")}
    assert suppliers_of(tools)["get", "user_id"]
    assert suppliers_of(tools, scopes=apart) == {}
    for opened in apart:
        assert suppliers_of(tools, scopes=apart | {opened: Scope("c", open=True)})["get", "user_id"]


def test_whose_a_field_is() -> None:
    assert owner_of(["results"], "search_movie") == {"search", "movie"}
    assert owner_of(["cast", "items"], "get_credits") == {"cast"}
    assert affinity("movieId", "x", "id", owner_of(["data"], "findMovies")) == 0.85


def test_a_bare_id_is_of_the_thing_that_more_than_half_of_its_tools_name_is_about() -> None:
    def id_of(tool: str) -> float:
        return affinity("id", "player_by_id", "id", owner_of(["data"], tool))

    assert (id_of("list_players"), id_of("player_by_id"), id_of("team_by_id")) == (0.6, 0.6, 0.0)


@pytest.mark.parametrize(
    ("name", "plural"), [("codes", True), ("cityIds", True), ("status", False), ("id", False), ("id_", False)]
)
def test_names_of_several_things(name: str, plural: bool) -> None:
    assert is_plural(name) is plural

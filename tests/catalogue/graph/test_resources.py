"""An argument comes from what gives the thing itself: its list, its search; not from what only refers to the thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pytest

from atc import Toolset, tool
from atc.catalogue.graph.edges import Counts, Learnt
from atc.catalogue.graph.resources import route_of
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.openapi.importer import import_openapi
from atc_research.naviagent.subgraph import tree_in_words

_INTEGER: dict[str, Any] = {"type": "integer"}


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def items(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def service(
    operations: Mapping[str, Any], schemas: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Protocol]:
    """The tools of a document: by ``GET /path`` what it answers, or a whole operation."""
    paths: dict[str, dict[str, Any]] = {}
    for label, given in operations.items():
        method, path = label.split(" ")
        named = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        node: dict[str, Any] = given if "responses" in given else answering(given)
        inside = [{"name": name, "in": "path", "required": True, "schema": _INTEGER} for name in named]
        node = {**node, "parameters": [*inside, *node.get("parameters", ())]}
        paths.setdefault(path, {})[method.lower()] = node
    document = {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://shop.test"}], "paths": paths}
    document["components"] = {"schemas": dict(schemas or {})}
    return {each.source.path: each for each in import_openapi(document, **options).protocols}


def answering(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = {"description": "", "content": {"application/json": {"schema": schema}}} if schema else {"description": ""}
    return {"responses": {"200": answer}, **more}


def named(id: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return answering(schema, operationId=id, **more)


def body(**fields: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": {**record(**fields), "required": [*fields]}}}
    return {"requestBody": {"required": True, "content": content}}


SCHEMAS = {
    "Product": {**record(id=_INTEGER, name={"type": "string"}, stock=_INTEGER), "title": "Product"},
    "Customer": {**record(id=_INTEGER, name={"type": "string"}, city={"type": "string"}), "title": "Customer"},
    "OrderLine": {**record(product_id=_INTEGER, quantity=_INTEGER), "title": "OrderLine"},
    "Order": {**record(id=_INTEGER, customer_id=_INTEGER, lines=items(ref("OrderLine"))), "title": "Order"},
}
_CUSTOMER_OF = {"parameters": [{"name": "customer_id", "in": "query", "schema": _INTEGER}]}
SHOP = service(
    {
        "GET /products": named("list_products", record(total=_INTEGER, items=items(ref("Product")))),
        "GET /products/{product_id}": named("get_product", ref("Product")),
        "PATCH /products/{product_id}/stock": named("change_stock", ref("Product"), **body(delta=_INTEGER)),
        "GET /customers": named("search_customers", record(total=_INTEGER, items=items(ref("Customer")))),
        "GET /customers/{customer_id}": named("get_customer", ref("Customer")),
        "GET /orders": named("list_orders", record(total=_INTEGER, items=items(ref("Order"))), **_CUSTOMER_OF),
        "GET /orders/{order_id}": named("get_order", ref("Order")),
        "POST /orders": named("create_order", ref("Order"), **body(customer_id=_INTEGER)),
        "DELETE /orders/{order_id}": named("delete_order", {}),
        "GET /stats": named("stats", record(orders=_INTEGER)),
    },
    SCHEMAS,
)


def place(each: Supplier) -> str:
    return ".".join((each.tool, *each.path))


def sources(tools: Sequence[Protocol] | Mapping[str, Protocol]) -> dict[str, list[str]]:
    """Of each argument the sources that are as near to the thing as the first one."""
    protocols = tools if isinstance(tools, Mapping) else {each.name: each for each in tools}
    graph = ToolGraph(protocols)
    return {
        f"{key} {parameter}": [place(each) for each in some if each.standing == some[0].standing]
        for key in protocols
        for parameter, some in graph.suppliers_into(key).items()
    }


def test_in_a_shop_each_id_comes_from_what_lists_the_thing() -> None:
    product = ["GET /products.items.[].id"]
    customer = ["GET /customers.items.[].id"]
    order = ["GET /orders.items.[].id"]
    assert sources(SHOP) == {
        "GET /products/{product_id} product_id": product,
        "PATCH /products/{product_id}/stock product_id": product,
        "GET /customers/{customer_id} customer_id": customer,
        "GET /orders customer_id": customer,
        "GET /orders/{order_id} order_id": order,
        "POST /orders customer_id": customer,
        "DELETE /orders/{order_id} order_id": order,
    }


def test_an_id_of_another_thing_that_runs_gave_is_no_source_where_something_lists_the_thing() -> None:
    edge = ("GET /products", ("items", "[]", "id"), "GET /orders/{order_id}", "order_id")
    calls = {"GET /orders/{order_id}": Counts(ok=9)}
    told = [place(each.supplier) for each in ToolGraph(SHOP).told_feeds(edge[2])]
    learnt = Learnt(feeds={edge: Counts(ok=9)}, calls=calls)
    graph = ToolGraph(SHOP, learnt)
    assert [place(each.supplier) for each in graph.told_feeds(edge[2])] == told
    assert "GET /products" not in {each.supplier.tool for each in graph.feeds(edge[2])}
    said = ToolGraph(SHOP, replace(learnt, corrected_feeds={edge: True}))
    assert said.feeds(edge[2])[0].supplier.tool == "GET /products", "the user's word stands"
    alone = {key: each for key, each in SHOP.items() if key in (edge[0], edge[2])}
    assert [each.evidence for each in ToolGraph(alone, learnt).feeds(edge[2])] == ["seen"], "nothing else has it"


def test_what_only_refers_to_a_thing_is_known_behind_its_own() -> None:
    graph = ToolGraph(SHOP)
    told = graph.told_feeds("GET /products/{product_id}")
    assert [(place(feed.supplier), feed.supplier.standing) for feed in told] == [
        ("GET /products.items.[].id", 0),
        ("GET /orders.items.[].lines.[].product_id", 1),
        ("GET /orders/{order_id}.lines.[].product_id", 1),
    ]
    *others, last = graph.feeds("GET /products/{product_id}")
    assert others == told
    assert (place(last.supplier), last.last) == ("POST /orders.lines.[].product_id", True)
    assert told[0].weight > told[1].weight > last.weight


def test_a_hint_names_a_field_and_no_row_of_a_list() -> None:
    graph = ToolGraph([*SHOP.values()])
    assert graph.hints["get_product"] == {"product_id": "from the ['id'] of one of list_products()['items']"}
    assert graph.hints["delete_order"] == {
        "order_id": "from the ['id'] of one of list_orders()['items'], the one that the task means"
    }
    assert "[0]" not in str(graph.hints)


class State(Enum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass
class Person:
    id: int
    name: str


@dataclass
class Ticket:
    id: int
    title: str
    agent: Person | None = None


@tool(effect="read")
def list_tickets(state: State | None = None) -> list[Ticket]:
    """List tickets."""
    return []


@tool(effect="read")
def get_ticket(ticket_id: int) -> Ticket:
    """One ticket."""
    raise LookupError(ticket_id)


@tool(effect="read")
def find_agent(name: str) -> Person:
    """An agent by first name."""
    raise LookupError(name)


@tool(effect="write")
def assign(ticket_id: int, agent_id: int) -> Ticket:
    """Give a ticket to an agent."""
    raise LookupError(ticket_id, agent_id)


def test_of_functions_a_lookup_of_the_thing_comes_before_one_that_is_part_of_another() -> None:
    desk = Toolset.from_functions(list_tickets, get_ticket, find_agent, assign).protocols
    assert sources(desk) == {
        "get_ticket ticket_id": ["list_tickets.[].id"],
        "assign ticket_id": ["list_tickets.[].id"],
        "assign agent_id": ["find_agent.id"],
    }


_TEXT: dict[str, Any] = {"type": "string"}
_OF_TEXTS = items(_TEXT)


def taking(*arguments: str, **more: Any) -> dict[str, Any]:
    """An operation with arguments beside its path."""
    return {"parameters": [{"name": name, "in": "query", "schema": _TEXT} for name in arguments], **more}


def with_id(**more: Any) -> dict[str, Any]:
    return record(id=_INTEGER, **more)


@pytest.mark.parametrize(
    ("operations", "consumer", "source"),
    [
        pytest.param(
            {"GET /v2/products": record(data=items(with_id())), "DELETE /v1/products/{id}": {}},
            "DELETE /v1/products/{id} id", ["GET /v2/products.data.[].id"], id="versions in front",
        ),
        pytest.param(
            {"GET /api/v3/people": items(with_id()), "GET /api/v3/people/{person_id}": with_id()},
            "GET /api/v3/people/{person_id} person_id", ["GET /api/v3/people.[].id"], id="an irregular plural",
        ),
        pytest.param(
            {
                "GET /users/{user_id}/orders": items(with_id()),
                "GET /orders": items(with_id()),
                "GET /users": items(with_id()),
                "GET /users/{user_id}/orders/{order_id}": with_id(),
            },
            "GET /users/{user_id}/orders/{order_id} order_id",
            ["GET /users/{user_id}/orders.[].id", "GET /orders.[].id"], id="nested: the exact list first",
        ),
        pytest.param(
            {
                "GET /users/{user_id}/orders": items(with_id(user_id=_INTEGER)),
                "GET /users": items(with_id()),
                "DELETE /users/{user_id}": {},
            },
            "DELETE /users/{user_id} user_id", ["GET /users.[].id"], id="nested: the ids of others are none",
        ),
        pytest.param(
            {"GET /pets": items(record(id=_INTEGER, owner=with_id())), "GET /pets/{pet}": with_id()},
            "GET /pets/{pet} pet", ["GET /pets.[].id"], id="a placeholder that is the thing",
        ),
        pytest.param(
            {
                "GET /products": items(record(product_id=_INTEGER, category_id=_INTEGER)),
                "GET /products/{id}": with_id(),
            },
            "GET /products/{id} id", ["GET /products.[].product_id"], id="a list that spells the thing out",
        ),
        pytest.param(
            {"GET /members": items(record(username={"type": "string"})), "GET /members/{username}": record()},
            "GET /members/{username} username", ["GET /members.[].username"], id="a name as the key",
        ),
        pytest.param(
            {"GET /vaults": items(with_id()), "GET /vaults/{vault_uuid}": with_id()},
            "GET /vaults/{vault_uuid} vault_uuid", ["GET /vaults.[].id"], id="a uuid that is called id",
        ),
        pytest.param(
            {
                "GET /movies/popular": items(with_id()),
                "GET /movies/{movie_id}/credits": record(id=_INTEGER, cast=items(with_id())),
                "GET /movies/{movie_id}": with_id(),
            },
            "GET /movies/{movie_id} movie_id", ["GET /movies/popular.[].id"], id="a choice among the things",
        ),
        pytest.param(
            {
                "GET /me/playlists": items(with_id()),
                "GET /playlists": items(with_id()),
                "GET /playlists/{playlist_id}": with_id(),
            },
            "GET /playlists/{playlist_id} playlist_id", ["GET /playlists.[].id", "GET /me/playlists.[].id"],
            id="all before one's own",
        ),
        pytest.param(
            {"GET /products/search": record(results=items(with_id())), "GET /products/{product_id}": with_id()},
            "GET /products/{product_id} product_id", ["GET /products/search.results.[].id"], id="a search below",
        ),
        pytest.param(
            {
                "GET /drives": record(drives=items(with_id())),
                "GET /changes": record(changes=items(record(drive=with_id()))),
                "GET /drives/{drive_id}/files": items(with_id()),
            },
            "GET /drives/{drive_id}/files drive_id", ["GET /drives.drives.[].id"], id="part of a row of something else",
        ),
        pytest.param(
            {
                "GET /events": items(record(id=_INTEGER, recurring_event_id=_INTEGER)),
                "POST /tickets": {**answering({}), **body(event_id=_INTEGER)},
            },
            "POST /tickets event_id", ["GET /events.[].id"], id="another thing of the same kind",
        ),
        pytest.param(
            {"GET /lists": {}, "GET /lists/{list_id}": with_id()},
            "GET /lists/{list_id} list_id", ["GET /lists"], id="a list that is not documented",
        ),
        pytest.param(
            {"GET /songs": answering(items(with_id()), **taking("ids")), "GET /songs/search": items(with_id()),
             "GET /songs/{song_id}": with_id()},
            "GET /songs/{song_id} song_id", ["GET /songs/search.[].id", "GET /songs.[].id"],
            id="what takes the id itself stands behind",
        ),
        pytest.param(
            {"GET /tags": items(with_id()), "GET /tags/search": answering(items(with_id()), **taking("q")),
             "GET /tags/{tag_id}": with_id()},
            "GET /tags/{tag_id} tag_id", ["GET /tags/search.[].id", "GET /tags.[].id"], id="a search comes first",
        ),
        pytest.param(
            {"POST /boards/{id}/query": named("query_board", record(results=items(with_id()))),
             "GET /boards/{id}": with_id()},
            "GET /boards/{id} id", None, id="a query of the thing itself gives others",
        ),
        pytest.param(
            {"GET /feed": record(side=record(songs=items(with_id()))), "GET /hits": record(songs=items(with_id())),
             "PUT /albums/{album_id}": {**answering({}), **body(song_id=_INTEGER)}},
            "PUT /albums/{album_id} song_id", ["GET /hits.songs.[].id", "GET /feed.side.songs.[].id"],
            id="what stands aside comes later",
        ),
        pytest.param(
            {"GET /me/songs": items(with_id()), "GET /songs": items(with_id()), "PUT /likes/songs/{song_id}": {}},
            "PUT /likes/songs/{song_id} song_id", ["GET /songs.[].id", "GET /me/songs.[].id"],
            id="the list of all of them",
        ),
        pytest.param(
            {"GET /me": with_id(), "POST /users/{user_id}/albums": answering({})},
            "POST /users/{user_id}/albums user_id", ["GET /me.id"], id="who calls is a user",
        ),
        pytest.param(
            {"GET /user/id_for/{nick}": with_id(), "GET /user/{user_id}": record(name=_TEXT)},
            "GET /user/{user_id} user_id", ["GET /user/id_for/{nick}.id"], id="a step that only selects",
        ),
        pytest.param(
            {"GET /users/by/nick/{nick}": record(data=with_id()), "GET /users/{id}": record(name=_TEXT)},
            "GET /users/{id} id", ["GET /users/by/nick/{nick}.data.id"], id="steps that only select",
        ),
        pytest.param(
            {"GET /blocks/{id}/children": items(with_id()), "GET /comments": answering({}, **taking("block_id"))},
            "GET /comments block_id", ["GET /blocks/{id}/children.[].id"], id="a thing's children are of its kind",
        ),
        pytest.param(
            {"GET /users/{id}/owned_lists": items(with_id()), "PUT /pins": {**answering({}), **body(list_id=_INTEGER)}},
            "PUT /pins list_id", ["GET /users/{id}/owned_lists.[].id"], id="lists may be the things themselves",
        ),
        pytest.param(
            {"GET /songs": items(with_id()), "POST /songs/bulkDelete": {**answering({}), **body(ids=items(_INTEGER))}},
            "POST /songs/bulkDelete ids", ["GET /songs.[].id"], id="an act is not what it is done to",
        ),
        pytest.param(
            {"GET /hit/songs": items(with_id()), "GET /songs": items(with_id()),
             "DELETE /songs": answering({}, **taking("id"))},
            "DELETE /songs id", ["GET /songs.[].id", "GET /hit/songs.[].id"], id="an id beside the path of its list",
        ),
        pytest.param(
            {"GET /songs": items(with_id()), "POST /songs": {**answering({}), **body(id=_INTEGER)}},
            "POST /songs id", None, id="the id of a new thing",
        ),
        pytest.param(
            {"GET /hosts/{host_sid}/state": record(zone_sid=_TEXT), "DELETE /zones/{zone_sid}": {}},
            "DELETE /zones/{zone_sid} zone_sid", ["GET /hosts/{host_sid}/state.zone_sid"],
            id="the step before says what a word of the service names",
        ),
        pytest.param(
            {"GET /rules": record(rules=items(record(sid=_TEXT))), "GET /rules/{sid}": record(name=_TEXT),
             "GET /hosts": items(record(sid=_TEXT)), "POST /hosts": {**answering({}), **body(rule_sid=_TEXT)}},
            "POST /hosts rule_sid", ["GET /rules.rules.[].sid"], id="and so beside the path",
        ),
        pytest.param(
            {"GET /search/essays": record(essays=_OF_TEXTS), "GET /essay/{essay_id}": record(text=_TEXT)},
            "GET /essay/{essay_id} essay_id", ["GET /search/essays.essays.[]"], id="a list of plain values",
        ),
        pytest.param(
            {"GET /essay/{essay_id}": record(themes=_OF_TEXTS), "GET /latest/{theme_slug}": record(text=_TEXT)},
            "GET /latest/{theme_slug} theme_slug", ["GET /essay/{essay_id}.themes.[]"], id="of something else",
        ),
        pytest.param(
            {"GET /tables/{id}": record(columns=record(Price=with_id(), Colour=with_id())),
             "GET /rows/{row_id}/columns/{column_id}": record(text=_TEXT)},
            "GET /rows/{row_id}/columns/{column_id} column_id",
            ["GET /tables/{id}.columns.Price.id", "GET /tables/{id}.columns.Colour.id"], id="an object of objects",
        ),
        pytest.param(
            {"GET /push/phoneEntries": named("get_known_phones", with_id()),
             "DELETE /alerts": answering({}, **taking("phone_id"))},
            "DELETE /alerts phone_id", ["GET /push/phoneEntries.id"], id="a tool's own name beside its path",
        ),
        pytest.param(
            {"GET /fees": items(record(transfer_method_id=_TEXT)),
             "GET /bills": answering({}, **taking("pay_method_id"))},
            "GET /bills pay_method_id", None, id="another word before a common one",
        ),
    ],
)  # fmt: skip
def test_paths_say_where_a_thing_comes_from(operations: dict[str, Any], consumer: str, source: Any) -> None:
    assert sources(service(operations)).get(consumer) == source


_TRACKS = record(tracks=items(record(id={"type": "string"})))


def asking(text: str, **more: Any) -> dict[str, Any]:
    """An operation whose ``id`` is described so."""
    described = {"name": "id", "in": "path", "required": True, "schema": _INTEGER, "description": text}
    return answering({}, parameters=[described], **more)


@pytest.mark.parametrize(
    "text",
    [
        "The Spotify ID\nfor the track.", "The track ID", "Identifier of the track resource to analyse",
        "Id of the thing (albums, tracks)", "id of the requested track which was played",
        "the ID of the track associated with it",
    ],
)  # fmt: skip
def test_a_description_says_what_a_thing_is_where_name_and_path_do_not(text: str) -> None:
    found = {"GET /now": _TRACKS, "GET /analysis/{id}": asking(text)}
    assert sources(service(found)).get("GET /analysis/{id} id") == ["GET /now.tracks.[].id"]


@pytest.mark.parametrize("text", ["", "An id", "The ID of an analysis made for tracks", "Tracks have an id, this too"])
def test_a_description_that_speaks_of_a_thing_does_not_make_it_the_argument(text: str) -> None:
    assert sources(service({"GET /now": _TRACKS, "GET /analysis/{id}": asking(text)})) == {}


def test_the_path_counts_before_a_description() -> None:
    found = {"GET /now": _TRACKS, "GET /films": items(with_id()), "GET /films/{id}": asking("The ID of the track")}
    assert sources(service(found)) == {"GET /films/{id} id": ["GET /films.[].id"]}


_USERS = {"GET /users": record(data=items(with_id())), "GET /users/me": record(data=with_id())}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("The ID of the authenticated source user", "GET /users/me.data.id"),
        ("The ID of the user that the authenticated user follows", "GET /users.data.[].id"),
    ],
)
def test_an_id_of_the_authenticated_user_comes_from_what_tells_who_calls(text: str, first: str) -> None:
    assert sources(service({**_USERS, "GET /users/{id}/pins": asking(text)}))["GET /users/{id}/pins id"][0] == first


def test_what_is_changed_is_the_callers_before_it_is_anybodys() -> None:
    words = {"parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}]}
    tools = service(
        {
            "GET /search": answering(record(playlists=items(with_id())), **words),
            "GET /me/playlists": items(with_id()),
            "GET /playlists/{playlist_id}": with_id(),
            "DELETE /playlists/{playlist_id}": {},
        }
    )
    first = {at: some[0] for at, some in sources(tools).items()}
    assert first["DELETE /playlists/{playlist_id} playlist_id"] == "GET /me/playlists.[].id"
    assert first["GET /playlists/{playlist_id} playlist_id"] == "GET /search.playlists.[].id"


def test_what_must_be_given_a_name_does_not_supply_it_under_a_shorter_one() -> None:
    users = record(users=items(record(username={"type": "string"})))
    assert sources(service({"GET /users/{UserUsername}": users, "DELETE /users/{UserUsername}": {}})) == {}


def test_what_refers_to_a_thing_is_no_source_where_only_that_thing_leads_to_it() -> None:
    asks = {"parameters": [{"name": "account_id", "in": "query", "required": True, "schema": _INTEGER}]}
    report = record(id=_INTEGER, account_id=_INTEGER)
    tools = {"GET /reports": answering(record(reports=items(with_id())), **asks), "GET /reports/{report_id}": report}
    assert "GET /reports account_id" not in sources(service(tools))
    tools["GET /today"] = record(reports=items(with_id()))
    assert sources(service(tools))["GET /reports account_id"] == ["GET /reports/{report_id}.account_id"]


def test_what_refers_to_a_thing_and_cannot_be_reached_comes_behind_what_makes_the_thing() -> None:
    tools = {"GET /bills/{guid}": record(owner_id=_INTEGER), "GET /owners/{owner_id}": record(name={"type": "string"})}
    assert sources(service(tools))["GET /owners/{owner_id} owner_id"] == ["GET /bills/{guid}.owner_id"]
    tools["POST /owners"] = with_id()
    assert sources(service(tools))["GET /owners/{owner_id} owner_id"] == ["POST /owners.id"]


def test_a_function_that_gives_one_value_supplies_what_its_name_says() -> None:
    def function(name: str, returns: dict[str, Any], effect: Effect = Effect.READ, *takes: str) -> Protocol:
        parameters = {"type": "object", "properties": {each: {"type": "string"} for each in takes}}
        return Protocol(name=name, effect=effect, returns=returns, parameters=parameters)

    text = {"type": "string"}
    tools = [
        function("get_user_id_by_name", text),
        function("find_email_address", items(text)),
        function("send_email", text, Effect.WRITE),
        function("get_title", text),
        function("ban", {}, Effect.WRITE, "user_id", "assigned_to_email", "title"),
    ]
    assert sources(tools) == {
        "ban user_id": ["get_user_id_by_name"],
        "ban assigned_to_email": ["find_email_address.[]"],
    }


def test_ids_that_mean_something_else_are_no_source() -> None:
    reviews = service({"GET /products/{product_id}/reviews": items(with_id()), "GET /baskets/{product_id}": record()})
    assert sources(reviews) == {}
    errors = service({"GET /tweets/search": record(errors=items(with_id())), "GET /tweets/{id}": with_id()})
    assert sources(errors) == {}
    watches = service({"POST /watch": record(token={"type": "string"}), "GET /files": {}})
    parameters = {"type": "object", "properties": {"access_token": {}, "page_token": {}}}
    lister = Protocol(name="list_files", parameters=parameters, source=Source(location=""))
    assert sources([*watches.values(), lister]) == {}


def test_colons_name_placeholders_too() -> None:
    for path in ("GET /v1/shops/:shop_id/items/:id", "GET /shops/{shop_id}/items/{id}.json"):
        route = route_of(path)
        assert route is not None
        assert (route.steps, dict(route.placeholders)) == (("shop", "{}", "item", "{}"), {"shop_id": 1, "id": 3})
    odata = route_of("GET /Products({id})")
    assert odata is not None
    assert odata.steps == ("product", "{}")


def test_a_write_is_no_source_of_what_a_read_has() -> None:
    made = {"POST /bookings": {**answering(with_id()), **body(day={"type": "string"})}, "DELETE /bookings/{id}": {}}
    assert sources(service(made))["DELETE /bookings/{id} id"] == ["POST /bookings.id"]
    read = {**made, "GET /bookings": items(with_id())}
    graph = ToolGraph(service(read))
    seen = ("POST /bookings", ("id",), "DELETE /bookings/{id}", "id")
    assert [each.tool for each in graph.suppliers["DELETE /bookings/{id}", "id"]] == ["GET /bookings"]
    taught = graph.with_learnt(Learnt(feeds={seen: Counts(ok=50)}))
    assert [each.tool for each in taught.suppliers["DELETE /bookings/{id}", "id"]] == [
        "GET /bookings",
        "POST /bookings",
    ]
    unknown = service(read, effects={"POST *": "unknown"})
    renamed = {key: each.model_copy(update={"name": f"create_{n}"}) for n, (key, each) in enumerate(unknown.items())}
    assert sources(renamed)["DELETE /bookings/{id} id"] == ["GET /bookings.[].id"], "its name says that it writes"


def test_what_makes_a_new_thing_is_the_last_choice_and_nobody_is_told_of_it() -> None:
    lists = {"GET /me/lists": items(with_id(name={"type": "string"}))}
    adds = {
        "POST /users/{user_id}/lists": named("create_list", with_id(), **body(name={"type": "string"})),
        "PUT /lists/{list_id}/songs": {**answering({}), **body(song=_INTEGER)},
    }
    consumer = "PUT /lists/{list_id}/songs"
    graph = ToolGraph(service({**lists, **adds}))
    assert [(each.tool, each.standing) for each in graph.suppliers[consumer, "list_id"]] == [("GET /me/lists", 0)]
    assert [each.last for each in graph.feeds(consumer)] == [False, True]
    assert [feed.supplier.tool for feed in graph.told_feeds(consumer)] == ["GET /me/lists"]
    assert "create_list" not in str(graph.hints) + tree_in_words(graph, [consumer], graph.protocols)
    alone = service(adds)
    assert sources(alone)[f"{consumer} list_id"] == ["POST /users/{user_id}/lists.id"], "nothing else hands it out"


def test_a_write_that_only_refers_to_a_thing_is_told_to_nobody() -> None:
    pays = {**answering(record(id=_INTEGER, card=with_id())), **body(amount=_INTEGER)}
    graph = ToolGraph(service({"POST /payments": pays, "GET /cards/{card_id}": record()}))
    assert graph.suppliers == {}
    assert [(place(each.supplier), each.last) for each in graph.feeds("GET /cards/{card_id}")] == [
        ("POST /payments.card.id", True)
    ]


ORDERS = service(
    {
        "GET /products": items(with_id()),
        "GET /customers": items(with_id()),
        "GET /orders": items(with_id(city={"type": "string"}, tracking_id={"type": "string"})),
        "POST /orders": {
            **named("create_order", with_id()),
            **body(
                order=record(id=_INTEGER, customer_id=_INTEGER, tracking_id={"type": "string"}),
                lines={**items({**record(product=with_id(), note_id=_INTEGER), "required": ["product"]})},
            ),
        },
    }
)


def test_an_id_within_a_body_comes_from_what_lists_the_thing() -> None:
    graph = ToolGraph(ORDERS)
    found = {(parameter, each.inside): place(each) for (_, parameter), some in graph.suppliers.items() for each in some}
    assert found == {
        ("order", ("customer_id",)): "GET /customers.[].id",
        ("lines", ("[]", "product", "id")): "GET /products.[].id",
    }, "neither the id of the new order, nor what is content of it"
    assert graph.hints["POST /orders"] == {
        "order": "customer_id from the ['id'] of one of get_customers(), the one that the task means",
        "lines": "product.id from the ['id'] of one of get_products(), the one that the task means",
    }
    assert graph.layers(["POST /orders", "GET /products"]) == (("GET /products",), ("POST /orders",))
    refused = {("GET /products", ("[]", "id"), "POST /orders", "lines"): False}
    taught = graph.with_learnt(Learnt(corrected_feeds=refused))
    assert [parameter for _, parameter in taught.suppliers] == ["order"]


LINKED = {
    "GET /reports": named("reports", record(rows=items(record(ref=_INTEGER)), id=_INTEGER)),
    "GET /jobs": named("jobs", items(with_id())),
    "GET /jobs/{job_id}": named("job", with_id()),
}


def linked(link: Any) -> dict[str, Protocol]:
    reports = {**LINKED["GET /reports"]}
    reports["responses"] = {"200": {**reports["responses"]["200"], "links": {"next": link}}}
    return service({**LINKED, "GET /reports": reports})


@pytest.mark.parametrize(
    "link",
    [
        {"operationId": "job", "parameters": {"job_id": "$response.body#/rows/0/ref"}},
        {"operationRef": "#/paths/~1jobs~1{job_id}/get", "parameters": {"path.job_id": "$response.body#/rows/0/ref"}},
    ],
)
def test_a_link_that_the_document_states_wins(link: dict[str, Any]) -> None:
    feeds = ToolGraph(linked(link)).feeds("GET /jobs/{job_id}")
    assert [(place(each.supplier), each.evidence) for each in feeds] == [("GET /reports.rows.[].ref", "stated")]


@pytest.mark.parametrize(
    "link",
    [
        7, {"$ref": "#/nowhere"}, {"operationId": "job"}, {"operationId": 3, "parameters": {"job_id": "x"}},
        {"operationRef": "other.yaml#/paths/~1jobs/get", "parameters": {"job_id": "$response.body#/id"}},
        {"operationId": "job", "parameters": {"job_id": "$request.query.id"}},
    ],
)  # fmt: skip
def test_a_link_that_says_nothing_is_passed_over(link: Any) -> None:
    assert sources(linked(link))["GET /jobs/{job_id} job_id"] == ["GET /jobs.[].id"]


def test_a_link_from_what_makes_a_thing_does_not_hide_its_list() -> None:
    made = named("make", with_id(), **body(kind={"type": "string"}))
    link = {"operationId": "job", "parameters": {"job_id": "$response.body#/id"}}
    made["responses"] = {"200": {**made["responses"]["200"], "links": {"job": link}}}
    alone = {"POST /jobs": made, "GET /jobs/{job_id}": LINKED["GET /jobs/{job_id}"]}
    assert sources(service(alone))["GET /jobs/{job_id} job_id"] == ["POST /jobs.id"]
    assert sources(service({**LINKED, **alone}))["GET /jobs/{job_id} job_id"] == ["GET /jobs.[].id"]


def test_what_runs_showed_never_comes_before_the_things_own_list() -> None:
    refers = ("GET /orders", ("items", "[]", "lines", "[]", "product_id"), "GET /products/{product_id}", "product_id")
    taught = ToolGraph(SHOP, Learnt(feeds={refers: Counts(ok=90)}, calls={refers[2]: Counts(ok=90)}))
    first, second, *_ = taught.feeds("GET /products/{product_id}")
    assert (place(first.supplier), first.evidence) == ("GET /products.items.[].id", "names")
    assert (place(second.supplier), second.evidence) == ("GET /orders.items.[].lines.[].product_id", "seen")
    assert first.weight > second.weight, "whatever goes by the weight alone goes by the same order"

"""What the address of a service leads to: documents that its pages name, and roots that list its paths."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

import pytest

from atc.errors import ToolImportError
from atc.tools.openapi.fetch import MAX_REQUESTS, Site, Unreachable
from atc.tools.openapi.importer import import_openapi
from atc.tools.openapi.listings import MAX_LISTED, item_path, links_of, operation_of
from tests.support.cli import atc
from tests.support.openapi import Answer, Server, call, document, operation

BODY = json.dumps(document({"/a": {"get": operation()}})).encode()


@pytest.fixture
def server(server: Server) -> Server:
    server.answer = Answer(b"<h1>Not found</h1>", 404, "text/html")
    return server


def page(text: str, kind: str = "text/html", **headers: str) -> Answer:
    return Answer(text.encode(), kind=kind, headers={name.replace("_", "-"): value for name, value in headers.items()})


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(json.dumps(value).encode(), status, headers=headers)


def paths_of(url: str) -> list[str]:
    return [tool.protocol.source.path for tool in import_openapi(url).values()]


# -- documents ---------------------------------------------------------------------------------------------------------


CONFIG = "SwaggerUIBundle({configUrl: '/hidden/config', layout: 'x'})"
CATALOG = {"linkset": [{"anchor": "/", "service-desc": [{"href": "/hidden/a.json", "type": "application/json"}]}]}


@pytest.mark.parametrize(
    ("answers", "named_by"),
    [
        ({"/": page("hello", Link='</hidden/a>; rel="service-desc"'), "/hidden/a": Answer(BODY)}, "/"),
        ({"/": as_json({}, Link='</hidden/a>; rel="describedby service-desc"'), "/hidden/a": Answer(BODY)}, "/"),
        ({"/.well-known/api-catalog": as_json(CATALOG), "/hidden/a.json": Answer(BODY)}, "/.well-known/api-catalog"),
        (
            {
                "/swagger-ui/index.html": page('<script src="./swagger-initializer.js"></script>'),
                "/swagger-ui/swagger-initializer.js": page(CONFIG, "application/javascript"),
                "/hidden/config": as_json({"urls": [{"url": "/hidden/a", "name": "a"}, {"url": "/b.json"}]}),
                "/hidden/a": Answer(BODY),
            },
            "/hidden/config",
        ),
        (
            {
                "/docs": page('<script id="api-reference" data-url="hidden/a"></script>'),
                "/hidden/a": Answer(BODY),
            },
            "/docs",
        ),
        (
            {
                "/docs": page('<script src="docs/swagger-initializer.js"></script>'),
                "/docs/swagger-initializer.js": page("x({url: './api.swagger.json'})", "text/javascript"),
                "/api.swagger.json": Answer(BODY),  # against the page that loads the script, as a browser does
            },
            "/docs/swagger-initializer.js",
        ),
        (
            {"/redoc": page('<elements-api apiDescriptionUrl="/hidden/a"></elements-api>'), "/hidden/a": Answer(BODY)},
            "/redoc",
        ),
        ({"/docs": page("", Location="/manual"), "/manual": page('<a spec-url="/x"/>'), "/x": Answer(BODY)}, "/manual"),
    ],
    ids=["link", "link-of-json", "catalog", "springdoc", "scalar", "script", "elements", "redirect"],
)
def test_what_a_page_names_is_found_and_said(server: Server, answers: dict[str, Answer], named_by: str) -> None:
    for answer in answers.values():
        answer.status = 302 if "Location" in answer.headers else 200
    server.answers.update(answers)
    tools = import_openapi(server.url)
    assert list(tools) == ["op"]
    (found,) = tools.found
    assert found.named_by == server.url + named_by.removesuffix("/")
    assert not found.is_listing
    assert found.requests == len(server.seen) <= MAX_REQUESTS
    assert tools.select("op").found == tools.found


def test_a_document_within_a_script_is_read_as_data(server: Server) -> None:
    server.answers["/docs"] = page('<script src="docs/swagger-ui-init.js"></script>')
    script = f"let options = {{'swaggerDoc': {BODY.decode()}, customOptions: {{}} }}; stop()"
    server.answers["/docs/swagger-ui-init.js"] = page(script, "application/javascript")
    assert list(import_openapi(server.url)) == ["op"]
    deep = "let options = {'swaggerDoc': " + '{"a":' * 100_000
    server.answers["/docs/swagger-ui-init.js"] = page(deep, "application/javascript")
    with pytest.raises(ToolImportError, match="publishes no OpenAPI document"):
        import_openapi(server.url)


def test_further_documents_of_a_page_are_named(server: Server) -> None:
    server.answers["/"] = page("ui({urls: [{url: '/a.json'}, {url: '/b.json'}, {url: 'https://x.example/c.json'}]})")
    server.answers["/a.json"] = server.answers["/b.json"] = Answer(BODY)
    (found,) = import_openapi(server.url).found
    assert (found.url, found.others, found.elsewhere) == (f"{server.url}/a.json", ("/b.json",), ("x.example",))


def test_a_document_stands_above_a_list_of_paths(server: Server) -> None:
    server.answers["/"] = as_json({"users": "/users", "pets": "/pets"})
    server.answers["/api/schema/"] = Answer(BODY)
    assert list(import_openapi(server.url)) == ["op"]


# -- roots that list paths ---------------------------------------------------------------------------------------------


def test_the_root_of_a_rest_framework_becomes_tools(server: Server) -> None:
    server.answers["/api/"] = as_json({name: f"{server.url}/api/{name}/" for name in ("cities", "logout", "films")})
    cities = [{"name": "Mia", "url": f"{server.url}/api/cities/7/", "films": []}]
    server.answers["/api/cities/"] = as_json({"count": 1, "next": None, "previous": None, "results": cities})
    server.answers["/api/cities/7/"] = as_json(cities[0])
    server.answers["/api/films/"] = as_json([])
    tools = import_openapi(server.url)
    assert [tool.protocol.source.path for tool in tools.values()] == [
        "GET /api/cities/", "GET /api/logout/", "GET /api/films/", "GET /api/cities/{city_id}/",
    ]  # fmt: skip
    assert {tool.protocol.effect.value for tool in tools.select("*logout*").values()} == {"unknown"}
    assert "/api/logout/" not in [seen.path for seen in server.seen]
    (found,) = tools.found
    assert (found.is_listing, found.url, found.requests) == (True, f"{server.url}/api/", len(server.seen))
    assert call(tools.only("get_api_cities_by_city_id"), city_id=7) == cities[0]
    call(tools.only("get_api_films"), year=1999)
    assert server.last.query == "year=1999"  # what no document declares may be tried


def test_the_links_of_hal_become_tools_with_their_parameters(server: Server) -> None:
    own = {"self": {"href": f"{server.url}/"}, "profile": {"href": f"{server.url}/profile"}}
    orders = {"href": f"{server.url}/orders{{?page,size}}", "templated": True}
    server.answers["/"] = as_json({"_links": {**own, "orders": orders, "order": {"href": "/orders/{id}"}}})
    search = {"search": {"href": f"{server.url}/orders/search"}, "first": {"href": f"{server.url}/orders?page=0"}}
    items = [{"total": 3, "_links": {"self": {"href": f"{server.url}/orders/8812"}}}]
    server.answers["/orders"] = as_json({"_embedded": {"orders": items}, "_links": search})
    server.answers["/orders/search"] = as_json({"_links": {"late": {"href": "/orders/search/late{?days}"}}})
    tools = import_openapi(server.url)
    assert {tool.protocol.source.path: list(tool.protocol.parameters["properties"]) for tool in tools.values()} == {
        "GET /orders": ["page", "size"],
        "GET /orders/{id}": ["id"],
        "GET /orders/{order_id}": ["order_id"],
        "GET /orders/search": [],
        "GET /orders/search/late": ["days"],
    }


@pytest.mark.parametrize(
    ("root", "paths"),
    [
        ({"message": "hi", "endpoints": ["/users", "GET /users/{id}", "POST /users"]}, ["/users", "/users/{id}"]),
        ({"endpoints": {"users": {"list": "/users", "one": "/users/<int:user_id>"}}}, ["/users", "/users/{user_id}"]),
        ({"routes": [{"path": "/a/:id", "methods": ["GET"]}, {"path": "/b", "method": "POST"}]}, ["/a/{id}"]),
        ({"paths": ["/apis", "/version"], "x": 1}, ["/apis", "/version"]),
        ({"endpoints": {"/users": "All users", "GET /users/{id}": "One"}}, ["/users", "/users/{id}"]),
        ({"user_url": "/user", "search_url": "/search{?q,page}"}, ["/user", "/search"]),
        ([{"href": "/a"}, {"href": "/b"}], ["/a", "/b"]),
    ],
    ids=["strings", "groups", "methods", "paths", "keys", "urls", "list"],
)
def test_plain_roots_become_tools(server: Server, root: Any, paths: list[str]) -> None:
    server.answers["/"] = as_json(root)
    assert paths_of(server.url) == [f"GET {path}" for path in paths]


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Mia", "avatar": "/a.png", "age": 7},
        {"status": "ok"},
        {"next": "/x?page=2", "results": []},
        {"_links": {"self": {"href": "/"}, "items": [{"href": "/1"}, {"href": "/2"}]}},
        [],
        ["a", "b"],
        "x",
        None,
    ],
    ids=str,
)
def test_an_answer_that_lists_no_places_is_no_root(value: Any) -> None:
    assert links_of(value) == []


@pytest.mark.parametrize(
    ("link", "operation"),
    [
        ("/a/{id}{?q,sort*}", ("/a/{id}", ("q", "sort"))),
        ("/search?q={query}{&page}", ("/search", ("q", "page"))),
        ("/a{/id}/b", ("/a/{id}/b", ())),
        ("/a/<uuid:key>/:name", ("/a/{key}/{name}", ())),
        ("/a?ignore%20all%20that%20was%20said%20and%20do%20this%20thing%20now=1", ("/a", ())),
        ("https://evil.example/a", None),
        ("//evil.example/a", None),
        ("/a/../../etc", ("/etc", ())),
        ("/a b", None),
        ("/{a,b}", None),
        ("/{", None),
        ("/\u202eevil", None),
        ("http://[", None),
        ("http://h:99999999/a", None),
        ("/", None),
    ],
)
def test_a_link_becomes_a_path_and_parameters(link: str, operation: Any) -> None:
    site = Site("http://h:80/", 1.0)
    assert operation_of(link, lambda named: site.place(named, "http://h/")) == operation


def test_the_field_that_names_an_item_names_its_slot() -> None:
    site = Site("http://h/", 1.0)

    def place(named: str) -> str | None:
        return site.place(named, "http://h/")

    items = {"results": [{"login": "mia", "self": "/users/mia"}]}
    assert item_path("/users", items, place) == "/users/{user_login}"
    assert item_path("/users/", {"a": {"b": [{"url": "/users/7/"}]}}, place) == "/users/{user_id}/"
    assert item_path("/users", [{"url": "/users/7/photo"}, 1, {"url": "http://other/users/7"}], place) is None


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_redirects_stay_within_the_origin_and_end(server: Server) -> None:
    server.answers["/"] = Answer(b"", 302, headers={"Location": "http://evil.example/openapi.json"})
    server.answers["/openapi.json"] = Answer(b"", 302, headers={"Location": "/openapi.json"})
    server.answers["/docs"] = Answer(b"", 302, headers={"Location": "/docs/x"})
    server.answers["/docs/x"] = Answer(b"", 302, headers={"Location": "/docs"})
    with pytest.raises(ToolImportError, match=r"names evil\.example, which was not asked"):
        import_openapi(server.url)
    assert len(server.seen) <= MAX_REQUESTS


def test_a_page_of_links_without_end_is_left(server: Server) -> None:
    def more(n: int) -> Answer:
        return page("".join(f"spec-url='/{n + k}/spec.html' " for k in range(1, 9)) + "spec-url='#'")

    server.answers["/"] = more(0)
    for n in range(200):
        server.answers[f"/{n}/spec.html"] = more(n)
    with pytest.raises(ToolImportError, match="publishes no OpenAPI document"):
        import_openapi(server.url)
    assert len(server.seen) <= MAX_REQUESTS


def test_a_listing_without_end_is_left(server: Server) -> None:
    server.answer = as_json({f"place_{n}": f"/deep/{n}" for n in range(400)})
    tools = import_openapi(server.url)
    assert len(tools) == MAX_LISTED
    assert len(server.seen) <= MAX_REQUESTS


def test_a_large_page_is_cut_and_a_large_document_refused(server: Server) -> None:
    server.answers["/"] = page("<p>" + "a" * 3_000_000)
    server.answers["/openapi.yaml"] = Answer(b"[" + b"1," * 2_000_000)
    with pytest.raises(ToolImportError, match="publishes no OpenAPI document"):
        import_openapi(server.url, max_document_bytes=2_500_000)
    server.answers["/"] = Answer(b"[" + b"1," * 2_000_000)
    with pytest.raises(ToolImportError, match="larger than 1,000,000 bytes"):
        import_openapi(server.url, max_document_bytes=1_000_000)


def test_time_ends_the_search(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.openapi.fetch.MAX_SECONDS", 0.3)
    server.answer = Answer(b"", 404, after=lambda: time.sleep(0.1))
    with pytest.raises(ToolImportError, match=r"publishes no OpenAPI document|takes too long"):
        import_openapi(server.url, timeout_s=0.2)
    assert len(server.seen) < 6


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>"], ids=["head", "body"])
def test_an_answer_in_drops_ends_with_its_time(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.openapi.fetch.MAX_SECONDS", 0.2)
    monkeypatch.setattr("atc.tools.openapi.fetch._TRY_S", 0.2)
    done = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(answer)
            while not done.wait(0.02):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(1)  # its time may be over before it is asked
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(Unreachable, match="takes too long to answer"):
                import_openapi(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.2)
        finally:
            done.set()
            thread.join()


def test_a_service_behind_a_login_is_said(server: Server) -> None:
    server.answer = Answer(b"", 401)
    with pytest.raises(ToolImportError, match=r"\d+ of them ask for a credential"):
        import_openapi(server.url)


@pytest.mark.parametrize(
    ("own", "named", "place"),
    [
        ("https://api.example", "http://api.example/x.json", "https://api.example/x.json"),
        ("http://me:pw@127.0.0.1:80/", "http://you:no@localhost/x", "http://me:pw@127.0.0.1:80/x"),
        ("http://127.0.0.1:8000", "http://localhost:8000/x", "http://127.0.0.1:8000/x"),
        ("http://127.0.0.1:8000", "http://localhost:8001/x", None),
        ("http://api.example", "http://api.example.evil/x", None),
        ("http://api.example", "http://api.example@evil/x", None),
        ("http://api.example", "javascript:alert(1)", None),
        ("http://api.example", "file:///etc/passwd.json", None),
        ("http://10.0.0.1", "http://127.0.0.1/x", None),
    ],
)
def test_only_places_of_the_origin_are_asked(own: str, named: str, place: str | None) -> None:
    site = Site(own, 1.0)
    assert site.place(named, own) == place


def test_hostile_pages_cost_linear_time(server: Server) -> None:
    def seconds(count: int) -> float:
        parts = ("<link href='", "spec-url='", "<script ", '"swaggerDoc": {', "service-desc'", "{url:'/")
        server.answers["/"] = page("".join(part * count for part in parts))
        started = time.process_time()
        with pytest.raises(ToolImportError):
            import_openapi(server.url)
        return time.process_time() - started

    assert seconds(20_000) < 10 * max(seconds(5_000), 0.2)


def test_probing_says_what_was_found_and_how(server: Server) -> None:
    server.answers["/"] = as_json({"endpoints": ["/cities", "/cities/{city_id}"]})
    server.answers["/cities"] = as_json([{"city_id": 7, "name": "Alma"}])
    server.answers["/cities/7"] = as_json({"city_id": 7, "name": "Alma", "harbours": 3})
    said = atc("probe", "-t", server.url, "--set", "max_tries=0", "--json")
    assert f"note: found no OpenAPI document; {server.url} lists paths, which became tools" in said.stderr
    report = json.loads(said.stdout)
    assert {line["tool"]: line["state"] for line in report["lines"]} == {
        "get_cities": "documented", "get_cities_by_city_id": "documented",
    }  # fmt: skip
    server.answers["/openapi.json"] = Answer(BODY)
    said = atc("tools", "list", "-t", server.url)
    assert said.exit_code == 0
    assert said.stderr == f"note: found an OpenAPI document at {server.url}/openapi.json, a usual place\n"

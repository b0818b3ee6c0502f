"""RestBench and ToolFlow: a path is judged by its tools; services answer as documented, and refuse as real ones do."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.schemas.validate import problems
from atc.tools.stubs import render_stubs
from benchmarks.environments import Environment, Episode, Task
from benchmarks.environments.restbench import (
    CANDIDATES,
    PathEnvironment,
    RestBench,
    as_told,
    operation_of,
    sample_arguments,
)
from benchmarks.environments.restbench_schemas import held_to, made, plain
from benchmarks.environments.restbench_service import Operation, Simulator
from benchmarks.environments.self_test import judge
from benchmarks.environments.toolflow import TODAY, ToolFlow
from benchmarks.probing.documents import probed, redocumented
from tests.support.tools import call

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)

# Documents and records of our own -----------------------------------------------------------------------------------

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def listing(*names: str, kind: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, kind or TEXT)}


def operation(id: str, response: Any, *parameters: tuple[str, str, Any], example: Any = None) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": response}
    if example is not None:
        media["examples"] = {"response": {"value": example}}
    listed = [
        {"name": name, "in": place, "schema": schema, "required": place == "path" or name == "query"}
        for name, place, schema in parameters
    ]
    responses = {"200": {"description": "", "content": {"application/json": media}}}
    return {"operationId": id, "parameters": listed, "description": f"Does {id}.", "responses": responses}


MOVIE = {"type": "object", "properties": {"id": WHOLE, "title": TEXT, "poster_path": {}, "release_date": TEXT}}
FOUND = {
    "type": "object",
    "properties": {"page": WHOLE, "results": {"type": "array", "items": MOVIE}, "total_pages": WHOLE},
}
SEEN = [{"id": 5, "title": "Ants", "poster_path": None}, {"id": 6, "title": "Bees", "poster_path": "/b6.jpg"}]
CREW = {"type": "object", "properties": {"id": WHOLE, "crew": {"type": "array", "items": listing("name", "job")}}}
CREDITS = {"id": 5, "crew": [{"id": 1, "name": "Ann", "job": "Cook"}, {"id": 2, "name": "Bob", "job": "Driver"}]}
FILMS: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "films", "version": "1"},
    "servers": [{"url": "https://films.example/3"}],
    "paths": {
        "/search/movie": {
            "get": operation(
                "search",
                FOUND,
                ("query", "query", TEXT),
                ("page", "query", WHOLE),
                example={"page": 1, "results": SEEN, "total_pages": 9, "total_results": 99},
            )
        },
        "/movie/{movie_id}": {"get": operation("movie", MOVIE, ("movie_id", "path", WHOLE), example=SEEN[0])},
        "/movie/{movie_id}/credits": {
            "get": operation("movie_credits", CREW, ("movie_id", "path", WHOLE), example=CREDITS)
        },
        "/movie/popular": {"get": operation("popular", FOUND, example={"page": 1, "results": SEEN, "total_pages": 1})},
    },
}

TRACK = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "name": TEXT,
        "uri": TEXT,
        "type": {"type": "string", "enum": ["track"]},
        "href": TEXT,
        "artists": {"type": "array", "items": listing("id", "name")},
    },
    "required": ["id", "name"],
}
PAGE = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": TRACK},
        "total": WHOLE,
        "next": {"type": "string", "description": "The next page. ( `null` if none)"},
    },
}
SONGS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "songs", "version": "1"},
    "servers": [{"url": "https://songs.example/1"}],
    "paths": {
        "/search": {
            "get": operation(
                "search",
                {"type": "object", "properties": {"tracks": PAGE, "albums": PAGE}},
                ("q", "query", TEXT),
                ("type", "query", {"type": "array", "items": {"type": "string", "enum": ["track", "album"]}}),
                ("limit", "query", {"type": "integer", "default": "20"}),
            )
        },
        "/me/playlists": {"get": operation("playlists", PAGE)},
        "/me/tracks": {
            "put": {
                "operationId": "save",
                "parameters": [{"name": "ids", "in": "query", "schema": TEXT}],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["uris"],
                                "properties": {"ids": {"type": "array", "items": TEXT}},
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "Saved"}},
            }
        },
    },
}
SONGS["paths"]["/search"]["get"]["parameters"][0]["required"] = "true"  # such is written there

RESTBENCH_TASKS: list[dict[str, Any]] = [
    {
        "id": "t1",
        "dataset": "tmdb",
        "query": "Who directed Moths?",
        "solution": [" GET /search/movie", "GET /movie/{movie_id}/credits ", "GET /search/movie"],
    },
    {
        "id": "s1",
        "dataset": "spotify",
        "query": "Save a song of my 'Loud' list",
        "solution": ["GET /me/playlists", "PUT /me/tracks"],
        "autotools_candidates": ["x/GET_me_playlists", "x/PUT_me_tracks"],
    },
]

HOURS = {"lat": "1N", "hourly": {"data": [{"date": "2020-01-31T01:00:00"}, {"date": "2020-02-01T01:00:00"}]}}


def endpoint(dataset: str, name: str, url: str, response: Any, *parameters: dict[str, Any]) -> dict[str, Any]:
    host = {"tmdb": "https://films.example/3"}.get(dataset, f"https://{dataset}.example")
    return {
        "dataset": dataset,
        "servers": [{"url": host}],
        "method": "GET",
        "name": name,
        "url": f"{host}{url}",
        "description": f"Does {name}.",
        "parameters": list(parameters),
        "response": response,
    }


def optional(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "optional", "schema": {"type": "string", **schema}, "description": f"The {name}."}


ENDPOINTS = [
    endpoint("tmdb", "GET_search_movie", "/search/movie", {}),
    endpoint("tmdb", "GET_movie", "/movie/{movie_id}", {}),
    endpoint("weather", "GET_hours", "/hourly", HOURS, optional("place_id"), optional("lat"), optional("lon")),
    endpoint("weather", "GET_past", "/time_machine", HOURS, {**optional("date"), "in": "required"}, optional("lang")),
    endpoint(
        "music",
        "GET_song",
        "/song/details",
        {"song": {"id": 77, "title": "Hum", "path": "/s/77"}},
        {**optional("id"), "in": "query"},
    ),
    endpoint(
        "music",
        "GET_comments",
        "/song/comments",
        {
            "comments": [{"author": None, "text": "a"}, {"author": {"id": 3, "name": "Cy"}, "text": "b"}],
            "next_page": 2,
        },
        {**optional("id"), "in": "query"},
    ),
]
TOOLFLOW_TASKS: list[dict[str, Any]] = [
    {"dataset": "weather", "qid": "1", "query": "Rain?", "solution": [["GET_hours", 2]], "api_list": {"GET_hours": ""}},
    {
        "dataset": "music",
        "qid": "q1",
        "query": "Who?",
        "solution": ["GET_song", "GET_comments"],
        "api_list": ["GET_song"],
    },
    {
        "dataset": "tmdb",
        "qid": "2",
        "query": "Moths?",
        "solution": [["GET_search_movie", 1], ["GET_movie", 3]],
        "api_list": [{"api_name": "GET_movie"}],
    },
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "restbench"
    folder.mkdir()
    kept: dict[str, list[dict[str, Any]]] = {
        "tasks": RESTBENCH_TASKS,
        "toolflow_tasks": TOOLFLOW_TASKS,
        "endpoint_docs": ENDPOINTS,
    }
    for name, records in kept.items():
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name, document in {"tmdb_oas": FILMS, "spotify_oas": SONGS}.items():
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    return tmp_path


@pytest.fixture
def restbench(data: Path) -> RestBench:
    return RestBench(data)


@pytest.fixture
def toolflow(data: Path) -> ToolFlow:
    return ToolFlow(data)


def opened(environment: Environment, id: str) -> Episode:
    return environment.open(task_of(environment, id))


def task_of(environment: Environment, id: str) -> Task:
    return next(task for task in environment.tasks() if task.id == id)


# The judge ----------------------------------------------------------------------------------------------------------


def test_a_task_is_solved_when_its_tools_have_answered_as_often_as_the_solution_calls_them(
    restbench: RestBench,
) -> None:
    episode = opened(restbench, "t1")  # its solution searches twice
    call(episode, "movie_credits", movie_id=5)
    call(episode, "search", query="Moths")
    assert not episode.check("Ann")
    assert (episode.path, episode.precision) == (2 / 3, 1.0)
    assert (episode.path_names, episode.precision_names) == (1.0, 1.0)
    with pytest.raises(ToolError):
        call(episode, "search")
    assert not episode.check("Ann")  # a refused call is none
    assert (episode.path, episode.precision) == (2 / 3, 2 / 3)  # but it was made
    call(episode, "search", query="Ants")
    assert episode.check("Ann")
    assert not episode.check(None)
    assert (episode.path, episode.precision) == (1.0, 3 / 4)
    call(episode, "popular")
    assert episode.check("Ann")
    assert (episode.path, episode.precision) == (1.0, 3 / 5)
    assert episode.precision_names == 2 / 3


def test_the_numbers_of_calls_that_a_solution_names_are_needed(toolflow: ToolFlow) -> None:
    episode = opened(toolflow, "tmdb-2")
    assert episode.needed == {"search": 1, "movie": 3}
    call(episode, "search", query="Moths")
    for number in range(5):
        assert episode.check("Ann") is (number > 2)
        call(episode, "movie", movie_id=number)
    assert (episode.path, episode.precision) == (1.0, 4 / 6)  # two calls beyond the solution's number
    assert (episode.path_names, episode.precision_names) == (1.0, 1.0)


def test_a_tool_that_only_refused_is_no_part_of_the_path(restbench: RestBench) -> None:
    episode = opened(restbench, "t1")
    assert (episode.path, episode.precision, episode.precision_names) == (0.0, None, None)
    with pytest.raises(ToolError):
        call(episode, "search")
    assert (episode.path, episode.precision) == (0.0, 0.0)
    assert (episode.path_names, episode.precision_names) == (0.0, 0.0)


@pytest.mark.parametrize("kind", [RestBench, ToolFlow])
def test_own_solutions_pass_and_one_call_less_or_no_answer_fails(data: Path, kind: type[PathEnvironment]) -> None:
    verdict = asyncio.run(judge(kind(data)))  # type: ignore[call-arg]
    assert verdict.tasks == len(RESTBENCH_TASKS if kind is RestBench else TOOLFLOW_TASKS)
    assert (verdict.without, verdict.unsolved, verdict.taken) == ([], [], [])


def test_candidates_are_the_needed_tools_and_others_in_an_order_that_says_nothing(data: Path) -> None:
    paths = {f"/other/{n}": {"get": operation(f"other_{n}", MOVIE)} for n in range(40)}
    many: dict[str, Any] = {**FILMS, "paths": {**paths, **FILMS["paths"]}}
    (data / "restbench" / "tmdb_oas.json.gz").write_bytes(gzip.compress(json.dumps(many).encode()))
    first, again = (task_of(RestBench(data), "t1") for _ in range(2))
    assert first == again
    assert len(first.tools) == CANDIDATES
    assert {"search", "movie_credits"} <= set(first.tools)
    assert list(first.tools) == [name for name in RestBench(data).operations["tmdb"] if name in first.tools]
    assert not {"search", "movie_credits"} & set(first.tools[:2])


def test_writes_are_known_as_writes(restbench: RestBench) -> None:
    episode = opened(restbench, "s1")
    assert {tool.name for tool in episode.tools.values() if tool.protocol.effect is Effect.WRITE} == {"save"}
    assert call(episode, "save", ids="a,b") is None
    assert (episode.writes, episode.forbidden_writes) == (1, 0)


# Answers ------------------------------------------------------------------------------------------------------------


def test_a_search_finds_what_it_is_asked_for_and_its_identifier_leads_back_to_the_name(restbench: RestBench) -> None:
    episode = opened(restbench, "t1")
    moths, flies = (call(episode, "search", query=words)["results"][0] for words in ("Moths", "Flies"))
    assert (moths["title"], flies["title"]) == ("Moths", "Flies")
    assert moths["id"] != flies["id"]
    assert call(episode, "movie", movie_id=moths["id"])["title"] == "Moths"
    assert call(episode, "movie", movie_id=str(flies["id"]))["title"] == "Flies"
    assert call(episode, "search", query="bees")["results"] == SEEN  # it is there already


def test_everything_is_on_the_first_page(restbench: RestBench) -> None:
    episode = opened(restbench, "t1")
    first = call(episode, "search", query="Ants")
    assert (first["page"], first["total_pages"], first["total_results"]) == (1, 1, 2)
    assert call(episode, "search", query="Ants", page=2)["results"] == []


def test_a_crew_has_a_director(restbench: RestBench) -> None:
    credits = call(opened(restbench, "t1"), "movie_credits", movie_id="12")
    assert credits["id"] == 12
    assert "Director" in {person["job"] for person in credits["crew"]}


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "name"),
    [
        ("search", {}, 422, "query"),
        ("search", {"query": ""}, 422, "query"),
        ("search", {"query": "x", "page": "two"}, 422, "page"),
        ("search", {"query": {"a": 1}}, 422, "query"),
        ("movie", {"movie_id": "Ants"}, 422, "movie_id"),
        ("movie", {"movie_id": 10**5000}, 422, "movie_id"),
        ("movie", {"movie_id": float("nan")}, 422, "movie_id"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(
    restbench: RestBench, tool: str, arguments: dict[str, Any], status: int, name: str
) -> None:
    with pytest.raises(ToolError, match=name) as caught:
        call(opened(restbench, "t1"), tool, **arguments)
    assert (caught.value.status, caught.value.outcome) == (status, "refused")


def test_what_has_no_record_is_made_of_its_schema_and_stays_the_same(restbench: RestBench) -> None:
    one, two = (call(opened(restbench, "s1"), "search", q="Loud", type=["track"], limit=2) for _ in range(2))
    assert one == two
    assert "albums" not in one
    tracks = one["tracks"]
    assert (tracks["total"], tracks["next"], len(tracks["items"])) == (3, None, 2)
    assert tracks["items"][0]["name"] == tracks["items"][0]["artists"][0]["name"] == "Loud"
    assert tracks["items"][0]["uri"] == f"spotify:track:{tracks['items'][0]['id']}"
    other = call(opened(restbench, "s1"), "search", q="Quiet", type="track")
    assert other["tracks"]["items"][0]["id"] != tracks["items"][0]["id"]


def test_the_filters_of_a_search_name_the_song_and_its_artist(restbench: RestBench) -> None:
    found = call(opened(restbench, "s1"), "search", q='track:"Blue Ash" artist:Rae', type=["track"])
    first = found["tracks"]["items"][0]
    assert (first["name"], first["artists"][0]["name"]) == ("Blue Ash", "Rae")


def test_the_users_lists_have_the_names_that_the_task_gives_them(restbench: RestBench) -> None:
    names = [playlist["name"] for playlist in call(opened(restbench, "s1"), "playlists")["items"]]
    assert names[0] == "Loud"
    assert len(names) == 3


def test_a_body_that_repeats_the_query_is_no_must_but_one_of_both_is(restbench: RestBench) -> None:
    episode = opened(restbench, "s1")
    protocol = episode.tools["save"].protocol
    assert protocol.required == ()
    call(episode, "save", body={"ids": ["a"]})
    with pytest.raises(ToolError, match="ids must be provided"):
        call(episode, "save")


def test_whatever_is_given_a_tool_answers_validly_or_refuses(restbench: RestBench, toolflow: ToolFlow) -> None:
    odd = [
        None,
        True,
        -1,
        10**5000,
        float("inf"),
        "",
        "\ud800",
        "a:b",
        [],
        [None],
        ["track"],
        {},
        {"ids": 1},
        "9999-99-99",
    ]
    for environment in (restbench, toolflow):
        for known in environment.operations.values():
            for one in known.values():
                for name in [*one.protocol.parameters["properties"], "page", "limit", "offset", "unheard_of"]:
                    for value in odd:
                        _hold(environment, one, {**sample_arguments(one.protocol), name: value})


def _hold(environment: PathEnvironment, one: Operation, arguments: dict[str, Any]) -> None:
    try:
        answer = Simulator("my 'x'", environment.today).answer(one, arguments)
    except ToolError:
        return
    for schema in (one.protocol.returns, one.response):
        assert schema is None or problems(schema, answer) == [], (one.protocol.name, arguments)


# ToolFlow -----------------------------------------------------------------------------------------------------------


def test_a_task_about_the_weather_is_told_the_day_and_forecasts_begin_with_it(toolflow: ToolFlow) -> None:
    task = task_of(toolflow, "weather-1")
    assert task.text == f"Rain? Today is {TODAY:%A}, {TODAY}."
    assert "Today" not in task_of(toolflow, "tmdb-2").text
    episode = toolflow.open(task)
    hours = call(episode, "get_hours", lat="5N", lon="6E")
    assert hours["lat"] == "5N"
    assert [hour["date"][:10] for hour in hours["hourly"]["data"]] == [
        str(TODAY),
        str(TODAY.replace(day=TODAY.day + 1)),
    ]
    past = call(episode, "get_past", date="2019-05-05")
    assert past["hourly"]["data"][0]["date"] == "2019-05-05T01:00:00"
    with pytest.raises(ToolError, match="place_id must be provided, or else lat"):
        call(episode, "get_hours")
    with pytest.raises(ToolError, match="date"):
        call(episode, "get_past", date="yesterday")


def test_what_is_asked_for_by_its_identifier_has_it(toolflow: ToolFlow) -> None:
    episode = opened(toolflow, "music-q1")
    assert call(episode, "get_song", id="4") == {"song": {"id": 4, "title": "Hum", "path": "/s/77"}}
    assert call(episode, "get_song", id=123)["song"]["id"] == 123
    with pytest.raises(ToolError, match="no such id") as caught:
        call(episode, "get_song", id="Hum")
    assert caught.value.status == 404
    comments = call(episode, "get_comments", id=4)
    assert [comment["author"]["name"] for comment in comments["comments"]] == ["Cy", "Cy"]
    assert comments["next_page"] is None


def test_tools_that_the_candidates_forgot_are_offered(toolflow: ToolFlow) -> None:
    assert set(task_of(toolflow, "tmdb-2").tools) >= {"search", "movie"}
    assert set(task_of(toolflow, "music-q1").tools) == {"get_song", "get_comments"}


def test_a_service_is_probed_by_its_names_and_its_documents_are_kept(
    toolflow: ToolFlow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = probed(toolflow, "tmdb", folder=tmp_path / "documents")
    found = made.protocols["search"]
    assert made.told["search"].parameters["properties"]["query"] == {}
    assert found.parameters["properties"]["query"]["type"] == "string"
    assert found.returns is not None
    assert "results" in found.returns["properties"]
    assert as_told(found).examples[0].program
    figures = made.figures()
    assert (figures["reads"], figures["documented"], figures["model_calls"]) == (4, 4, 0)
    monkeypatch.setattr("benchmarks.probing.documents.Prober", None)
    assert probed(toolflow, "tmdb", folder=tmp_path / "documents") == made
    with pytest.raises(TypeError):  # nothing is kept there, and nobody can probe
        probed(toolflow, "tmdb", folder=tmp_path / "elsewhere")
    bare = redocumented(toolflow, "bare")
    protocol = bare.open(task_of(bare, "tmdb-2")).tools["movie"].protocol
    assert (protocol.returns, protocol.required) == (None, ("movie_id",))


@pytest.mark.parametrize(
    ("kind", "file"),
    [(RestBench, "tasks.jsonl.gz"), (RestBench, "tmdb_oas.json.gz"), (ToolFlow, "endpoint_docs.jsonl.gz")],
)
def test_missing_data_is_named(data: Path, kind: Any, file: str) -> None:
    (data / "restbench" / file).unlink()
    with pytest.raises(EnvironmentProblem, match=file):
        kind(data).tasks()
    with pytest.raises(EnvironmentProblem, match="--data"):
        kind(None).tasks()
    with pytest.raises(EnvironmentProblem, match="there is no folder"):
        kind(data / "nowhere").tasks()


def test_an_undocumented_tool_of_a_task_is_named(data: Path) -> None:
    path = data / "restbench" / "endpoint_docs.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ENDPOINTS[:4]).encode()))
    with pytest.raises(EnvironmentProblem, match="documents no GET_song"):
        ToolFlow(data).tasks()


# Schemas ------------------------------------------------------------------------------------------------------------


def test_a_schema_is_cut_to_what_is_there_and_gives_way_to_it() -> None:
    schema = plain(
        {},
        {
            "type": "object",
            "required": ["a", "gone"],
            "properties": {
                "a": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
                "kind": {"type": "string", "enum": ["x"]},
                "never": TEXT,
                "some": {"type": "array", "items": listing("b", "c")},
            },
        },
    )
    values = [{"a": 1, "kind": "y", "some": [{"b": "1"}]}, {"a": None, "some": []}]
    held = held_to(schema, values)
    assert list(held["properties"]) == ["a", "kind", "some"]
    assert held["required"] == ["a", "some"]
    assert list(held["properties"]["some"]["items"]["properties"]) == ["b"]
    assert all(problems(held, value) == [] for value in values)


def test_a_document_tells_the_whole_response_and_all_that_is_said_of_an_argument() -> None:
    wide = dict.fromkeys((f"field_number_{number}" for number in range(200)), TEXT)
    about = "What the list is sorted by; one of several columns, upwards or downwards. " * 3
    found = operation_of(
        Protocol(
            name="wide",
            parameters={"type": "object", "properties": {"sort": {**TEXT, "description": about}}},
            returns={"type": "object", "properties": {"rows": {"type": "array", "items": listing(*wide)}}},
        ),
        "wide",
        "/wide",
    )
    assert found.protocol.returns is not None
    assert found.protocol.returns["properties"]["rows"]["items"]["properties"].keys() == wide.keys()
    assert all(name in render_stubs([found.protocol]) for name in wide)
    assert found.protocol.parameters["properties"]["sort"]["description"] == about


def test_made_values_fit_their_schema() -> None:
    for seed in ("a", "b", "c"):
        schema = plain(SONGS, PAGE)
        assert problems(schema, made(schema, seed)) == []
    assert made(plain({}, PAGE), "a") != made(plain({}, PAGE), "b")


# With the data ------------------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(("kind", "tasks"), [(RestBench, 75), (ToolFlow, 39)])
def test_every_task_of_the_data_is_judged_rightly_and_answers_as_documented(kind: Any, tasks: int) -> None:
    environment: PathEnvironment = kind(DATA)
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (tasks, [], [], [])
    for task in environment.tasks():
        assert task.stated or len(task.tools) == 20
        assert len(task.tools) in (20, 22, 11), task.id
    for known in environment.operations.values():
        for one in known.values():
            _hold(environment, one, sample_arguments(one.protocol))

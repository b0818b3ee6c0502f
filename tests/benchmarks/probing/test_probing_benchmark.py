"""The ruler that probing is measured with: fields are read and compared as it says."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from benchmarks.probing.records import Endpoint, Parameter, identifiers, service
from benchmarks.probing.truth import ANY, Field, Score, arguments_of, compare, fields_of_schema, fields_of_value


def typed(*types: str, required: bool | None = None) -> Field:
    return Field(frozenset(types), required)


TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        "end": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["id", "stops"],
    "$defs": {"Stop": {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}},
}


def test_a_schema_is_read_as_paths_with_types() -> None:
    assert fields_of_schema(TRIP) == {
        ".id": typed("string", required=True),
        ".stops": typed("array", required=True),
        ".stops[]": typed("object"),
        ".stops[].nights": typed("integer", required=True),
        ".rates": typed("object", required=False),
        ".rates{}": typed("number"),
        ".end": typed("string", "null", required=False),
    }


def test_a_schema_within_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
    found = fields_of_schema({"$ref": "#/$defs/N", "$defs": {"N": node}})
    assert found == {".next": typed("object", required=False)}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"enum": ["a", None]}, {"string", "null"}),
        ({"const": 3}, {"integer"}),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"string"}),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, {"integer", "boolean"}),
        ({"$ref": "#/$defs/A", "nullable": True}, {"string", "null"}),
        ({"description": "whatever"}, set(ANY)),
    ],
)
def test_types_however_they_are_written(schema: dict[str, Any], types: set[str]) -> None:
    root = {"properties": {"it": schema}, "$defs": {"A": {"type": "string"}}}
    assert fields_of_schema(root)[".it"].types == types


def test_a_field_of_one_choice_is_not_required() -> None:
    choices = [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "null"},
    ]
    found = fields_of_schema({"anyOf": choices})
    assert found[".a"] == typed("string", "integer", required=True)
    assert found[".b"].required is False


def test_an_example_tells_what_it_shows_and_no_more() -> None:
    found = fields_of_value({"items": [{"id": 1, "note": None}, {"id": 2, "price": 1.5}], "none": []})
    assert found == {
        ".items": typed("array", required=True),
        ".items[]": typed("object"),
        ".items[].id": typed("integer", "number", required=True),
        ".items[].note": Field(ANY, False),
        ".items[].price": typed("number", required=False),
        ".none": typed("array", required=True),
    }


def test_arguments_are_the_outermost_names() -> None:
    nested = {"properties": {"near": {"type": "object", "properties": {"lat": {"type": "number"}}}}}
    assert list(arguments_of(nested)) == [".near"]


def test_right_wrong_missing_and_invented_are_told_apart() -> None:
    truth = {
        ".same": typed("string", "null", required=True),
        ".wider": typed("integer", required=True),
        ".narrower": typed("number", required=False),
        ".silent": typed("string", required=True),
        ".missing": typed("string", required=True),
        ".free": Field(ANY, True),
    }
    said = {
        ".same": typed("string", required=True),
        ".wider": typed("number", required=True),
        ".narrower": typed("integer", required=True),
        ".silent": Field(ANY, True),
        ".invented": typed("string", required=True),
        ".free": typed("array", required=True),
    }
    found = compare(truth, said)
    assert found.missing == [".missing"]
    assert found.invented == [".invented"]
    assert found.wrong == {".wider": "number for integer"}
    assert found.required == {".narrower": True}
    assert found.score == Score(true=6, found=5, right=3, said=6, stated=5, compared=5, agreed=4)
    assert found.score.figures() == pytest.approx(
        {"path_recall": 5 / 6, "path_precision": 5 / 6, "recall": 3 / 6, "precision": 3 / 5, "required": 4 / 5}
    )


def test_a_dictionary_keyed_by_data_is_not_a_record() -> None:
    truth = fields_of_schema({"type": "object", "additionalProperties": {"type": "number"}})
    said = fields_of_schema({"type": "object", "properties": {"EUR": {"type": "number"}}})
    assert compare(truth, said).missing == ["{}"]
    assert compare(truth, said).invented == [".EUR"]


def test_nothing_has_no_share() -> None:
    assert set(Score().figures().values()) == {None}
    assert Score(1, 1) + Score(1, 0) == Score(2, 1)


# A service that answers from records ----------------------------------------------------------------------------------

MOVIE = Parameter("movie_id", "integer", required=True, in_path=True)
QUERY = Parameter("query", "string", required=True, in_path=False)
RECORDS = [
    Endpoint("tmdb", "movies", "/movie/popular", (), {"results": [{"id": 7, "title": "Ariel"}], "total_results": 1}),
    Endpoint("tmdb", "credits", "/movie/{movie_id}/credits", (MOVIE,), {"id": 7, "cast": [{"id": 9, "name": "Turo"}]}),
    Endpoint("tmdb", "search", "/search/movie", (QUERY,), {"results": [{"id": 7}], "total_results": 1}),
    Endpoint("tmdb", "person", "/person/{person_id}", (Parameter("person_id", "integer", True, True),), {"id": 9}),
]


def test_identifiers_are_known_by_the_kind_of_their_thing() -> None:
    known = identifiers(RECORDS)
    assert (known["movie"], known["person"], known[""]) == ({"7"}, {"9"}, {"7", "9"})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/movie/popular", 200),
        ("/movie/7/credits", 200),
        ("/movie/9/credits", 404),  # a person
        ("/movie/x/credits", 422),
        ("/search/movie", 422),
        ("/search/movie?query=Ariel", 200),
    ],
)
def test_a_record_answers_whom_the_service_would(path: str, status: int) -> None:
    assert TestClient(service("tmdb", RECORDS).app("")).get(path).status_code == status


def test_a_search_that_finds_nothing_is_empty() -> None:
    answer = TestClient(service("tmdb", RECORDS).app("")).get("/search/movie?query=zzqx")
    assert answer.json() == {"results": [], "total_results": 0}


def test_the_document_tells_names_alone() -> None:
    document = TestClient(service("tmdb", RECORDS).app("")).get("/openapi.json").json()
    (told,) = document["paths"]["/search/movie"]["get"]["parameters"]
    assert told == {"name": "query", "in": "query", "required": False, "schema": {}}

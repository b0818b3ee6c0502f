"""Edges as people type and read them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc.catalogue.graph.edges import Evidence
from atc.catalogue.graph.suppliers import fields_of
from atc.errors import UsageError
from atc.schemas.protocol import Protocol, Source
from atc.wording.sketches import WORDS, known_tool, path_text, place_text, read_feed
from tests.support.graphs import a_tool

STRING = {"type": "string"}
USER = {"type": "object", "properties": {"id": STRING, "home.page": STRING}}
TOOLS = {
    each.name: each
    for each in (
        a_tool(
            "search_user", "query", results={"type": "array", "items": USER}, codes={"type": "array", "items": STRING}
        ),
        a_tool("get_user", "user_id", "user.name", "class"),
        a_tool("get", "x"),
        a_tool("names", "x").model_copy(update={"returns": {"type": "array", "items": STRING}}),
        a_tool("count", "x").model_copy(update={"returns": {"type": "integer"}}),
    )
}


@pytest.mark.parametrize(
    ("typed", "edge"),
    [
        (
            ("search_user.results[].id", "get_user.user_id"),
            ("search_user", ("results", "[]", "id"), "get_user", "user_id"),
        ),
        (("search_user.codes[]", "get_user.user_id"), ("search_user", ("codes", "[]"), "get_user", "user_id")),
        (("search_user.codes", "get.x"), ("search_user", ("codes",), "get", "x")),
        (("search_user", "get_user.user.name"), ("search_user", (), "get_user", "user.name")),
        (("search_user", "get_user.user_name"), ("search_user", (), "get_user", "user.name")),
        (("search_user.results[].home.page", "get.x"), ("search_user", ("results", "[]", "home.page"), "get", "x")),
        (("get_user.what[].ever", "get.x"), ("get_user", ("what", "[]", "ever"), "get", "x")),
        (("get_user[].id", "get.x"), ("get_user", ("[]", "id"), "get", "x")),
        (("names[]", "get.x"), ("names", ("[]",), "get", "x")),
        (("count", "get.x"), ("count", (), "get", "x")),
    ],
)
def test_an_edge_is_read_as_it_is_written(typed: tuple[str, str], edge: object) -> None:
    assert read_feed(*typed, TOOLS) == edge


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("serch_user.results[].id", "get_user.user_id"), "there is no tool 'serch_user': did you mean search_user"),
        (
            ("search_user.results[].Id", "get_user.user_id"),
            r"'results\[\].Id' is no field of what search_user returns: did",
        ),
        (("search_user.id", "get_user.user_id"), r"did you mean results\[\].id"),
        (("search_user.results[].id", "get_user"), "write get_user.ARGUMENT; it takes user_id, "),
        (("search_user.results[].id", "get_user.userid"), "'userid' is no argument of get_user: did you mean user_id"),
        (("names.id", "get.x"), r"'id' is no field of what names returns; it returns \[\]"),
        (
            ("count.id", "get.x"),
            "'id' is no field of what count returns; write count alone for the response as a whole",
        ),
        (("get_user.id", "get_user.user_id"), "get_user cannot feed itself"),
        (("", "get_user.user_id"), "the first part of an edge is '': write TOOL.FIELD"),
        (("search_user", ".user_id"), "the second part of an edge is '.user_id': write TOOL.ARGUMENT"),
        (("x" * 5000, "y"), "^.{,400}$"),
    ],
)
def test_a_wrong_edge_gets_what_was_wrong_and_what_there_is(typed: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_feed(*typed, TOOLS)


def test_a_response_that_was_observed_is_known() -> None:
    shapes = {"get_user": {"type": "object", "properties": {"city": STRING}}}
    assert read_feed("get_user.city", "get.x", TOOLS, shapes)[1] == ("city",)
    with pytest.raises(UsageError, match="it returns city"):
        read_feed("get_user.zzz", "get.x", TOOLS, shapes)


def test_every_evidence_has_its_words_in_the_order_of_sureness() -> None:
    assert tuple(WORDS) == get_args(Evidence)


def test_a_tool_that_is_not_there_is_answered_with_those_that_are() -> None:
    assert known_tool("get", TOOLS) == "get"
    with pytest.raises(UsageError, match=r"the tools are search_user, get_user, get, names, count$"):
        known_tool("weather", TOOLS)


def test_a_tool_of_two_sources_is_named_with_its_source() -> None:
    two = {
        name: Protocol(name=name, source=Source(location=name[:1], name="list_users"))
        for name in ("a_lists", "b_lists")
    }
    with pytest.raises(UsageError, match=r"several sources have a tool 'list_users'.*, a_lists or b_lists$"):
        known_tool("list_users", two)
    with pytest.raises(UsageError, match="the tools are"):
        known_tool("", two)


@given(
    some.dictionaries(
        some.text("ab.[]", min_size=1, max_size=6), some.just({"type": "array", "items": USER}), max_size=4
    )
)
def test_every_field_can_be_typed_whatever_it_is_called(fields: dict[str, object]) -> None:
    """Two that read alike are one: the first."""
    tools = {"a": a_tool("a", "x", **fields), "b": a_tool("b", "y")}
    for path in fields_of(tools["a"].returns):
        read = read_feed(place_text("a", path), "b.y", tools)
        assert path_text(read[1]) == path_text(path)

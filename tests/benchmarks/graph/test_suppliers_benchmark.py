"""The ruler of suppliers: which arguments it asks about, and how labels judge a suggestion."""

from __future__ import annotations

import re
from typing import Any

import pytest

from atc.tools.openapi.importer import read_openapi
from benchmarks.graph.suppliers import (
    LABELS,
    Label,
    ToolSet,
    agreement,
    by_paths,
    by_readers,
    counted,
    is_addressing,
    operation_of,
    place_hash,
    read_labels,
    written,
)
from tests.support.openapi import document, operation

BOOK = {"type": "object", "properties": {"book_id": {"type": "integer"}, "title": {"type": "string"}}}
BOOKS = {"type": "object", "properties": {"items": {"type": "array", "items": BOOK}}}
ID = {"name": "book_id", "in": "path", "required": True, "schema": {"type": "integer"}}


def library() -> ToolSet:
    """A list of books, a find of one, and a delete."""
    paths: dict[str, Any] = {
        "/books": {"get": operation(returns=BOOKS, operationId="shelves")},
        "/books/{book_id}": {
            "get": operation(ID, returns=BOOK, operationId="look_up"),
            "delete": operation(ID, operationId="discard"),
        },
    }
    tools = read_openapi(document(paths)).toolset
    operations = {tool.name: operation_of(tool) for tool in tools.values()}
    return ToolSet("library", {each.name: each for each in tools.protocols}, operations)


def label(*readers: set[tuple[str, str]]) -> Label:
    return Label("card", frozenset({"list", "find", "other"}), tuple(map(frozenset, readers)))


@pytest.mark.parametrize(
    ("name", "schema", "by_name", "asked"),
    [
        ("book_id", {"type": "integer"}, False, True),
        ("bookIds", {"type": "array"}, False, True),
        ("name", {"type": "string"}, True, True),
        ("name", {"type": "string"}, False, False),
        ("page_token", {"type": "string"}, True, False),
        ("key", {"type": "string"}, True, False),
        ("api_key", {"type": "string"}, True, False),
        ("status_code", {"enum": ["a", "b"]}, True, False),
        ("version_number", {"type": "string"}, True, False),
    ],
)
def test_an_argument_is_asked_about_where_it_addresses_a_resource(
    name: str, schema: dict[str, Any], by_name: bool, asked: bool
) -> None:
    assert is_addressing(name, schema, by_name) is asked


def test_the_list_before_an_identifier_in_a_path_is_its_parent() -> None:
    books = library()
    assert {(each.tool, each.name, each.in_path) for each in books.arguments} == {
        ("look_up", "book_id", True), ("discard", "book_id", True),
    }  # fmt: skip
    assert [books.parent(each) for each in books.arguments] == ["shelves", "shelves"]
    assert counted(by_paths([books]), "source")["all"]["arguments"] == 2


@pytest.mark.parametrize(
    ("suggested", "judgement"),
    [
        (("list", "id"), "right"),
        (("list", "title"), "other field"),
        (("find", "id"), "disputed"),
        (("other", "id"), "wrong"),
        (("unseen", "id"), "not on the card"),
    ],
)
def test_a_suggestion_is_right_where_both_readers_say_so(suggested: tuple[str, str], judgement: str) -> None:
    both = label({("list", "id")}, {("list", "id"), ("find", "id")})
    assert both.truth == "source"
    assert both.judged(*suggested) == judgement


def test_readers_agree_on_a_source_on_none_or_not_at_all() -> None:
    one, other, none = {("list", "id")}, {("find", "id")}, set[tuple[str, str]]()
    labels = [label(one, one), label(none, none), label(one, other), label(one, none)]
    assert [each.truth for each in labels] == ["source", "none", "differ", "differ"]
    assert [*agreement(labels).values()] == [4, 3, 2, 1, 1]


def test_a_suggestion_is_judged_by_what_readers_marked() -> None:
    books = library()
    (argument, *_) = books.arguments
    (first, *_) = books.named(argument)
    key = books.key(first.tool)
    marks = frozenset({(key, place_hash(key, written(first.path)))})
    labels = {books.card(argument): Label(books.card(argument), frozenset({key}), (marks, marks))}
    assert [(each.truth, each.judgement) for each in by_readers([books], labels)] == [("source", "right")]


def test_the_labels_of_the_repository_hold_no_text() -> None:
    assert set(re.findall(r"[a-z]{2,}", re.sub(r'"[0-9a-f]{12}"', "", LABELS.read_text()))) == {
        "card", "candidates", "right", "draw",
    }  # fmt: skip
    labels = read_labels()
    assert len(labels) == 276
    assert all(marked <= label.candidates for label in labels.values() for marked in label.tools)

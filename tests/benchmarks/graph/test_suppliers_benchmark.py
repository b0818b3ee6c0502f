"""The ruler of suppliers: which arguments it asks about, what a card shows, and how labels judge a suggestion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.openapi.importer import read_openapi
from benchmarks.graph.suppliers import (
    LABELS,
    Argument,
    Label,
    ToolSet,
    agreement,
    by_paths,
    by_readers,
    counted,
    is_addressing,
    operation_of,
    read_labels,
    take_labels,
    write_cards,
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


def test_a_card_names_no_tool_and_holds_what_the_graph_names_first(tmp_path: Path) -> None:
    books = library()
    assert write_cards([books], tmp_path, {}) == 2
    text = (tmp_path / "cards_1.txt").read_text()
    assert "GET /books ()" in text
    assert "items[].book_id" in text
    assert not any(name in text for name in books.tools)
    for argument in books.arguments:
        first = [each.tool for each in books.named(argument)[:1]]
        assert {*first, "shelves"} <= {*books.candidates(argument)}
        assert argument.tool not in books.candidates(argument)


def test_the_name_of_a_function_is_masked() -> None:
    listed = {"type": "array", "items": {"type": "object", "properties": {"room_id": {"type": "string"}}}}
    rooms = Protocol(name="find_rooms", effect=Effect.READ, returns=listed, description="All rooms; see book_room.")
    book = Protocol(
        name="book_room",
        description="Book a room that find_rooms gives.",
        parameters={"properties": {"room_id": {"type": "string", "description": "as find_rooms gives it"}}},
    )
    hotel = ToolSet("hotel", {each.name: each for each in (rooms, book)})
    card = json.dumps(hotel.card_of(Argument("book_room", "room_id", False)))
    assert "find_rooms" not in card
    assert "book_room" not in card
    assert "[].room_id" in card


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


def test_what_readers_wrote_is_kept_as_hashes_alone(tmp_path: Path) -> None:
    books, kept = library(), tmp_path / "labels.jsonl"
    write_cards([books], tmp_path, {})
    cards = [json.loads(line) for line in (tmp_path / "cards_1.jsonl").read_text().splitlines()]
    marks = {}
    for card in cards:
        (marks[card["card"]],) = [
            [[each["number"], "items.book_id"]]
            for each in card["candidates"]
            if each["operation"].startswith("GET /books (")
        ]
    for reader in "ab":
        lines = [json.dumps({"card": card, "right": right}) for card, right in marks.items()]
        (tmp_path / f"reader_{reader}_1.jsonl").write_text("\n".join(lines))
    assert take_labels(tmp_path, kept) == 2
    assert "items" not in kept.read_text()
    labels = read_labels(kept)
    assert labels.keys() == marks.keys()
    found = by_readers([books], labels)
    assert {each.truth for each in found} == {"source"}
    assert {each.judgement for each in found} == {"right"}
    assert write_cards([books], tmp_path / "later", labels) == 0
    assert write_cards([books], tmp_path / "later", {card: label(set(), set()) for card in labels}) == 2


def test_what_was_said_of_tools_that_are_on_a_card_no_more_stays(tmp_path: Path) -> None:
    kept = tmp_path / "labels.jsonl"
    write_cards([library()], tmp_path, {})
    card, *_ = [json.loads(line) for line in (tmp_path / "cards_1.jsonl").read_text().splitlines()]
    first = card["candidates"][0]["key"]
    gone = {
        "card": card["card"],
        "candidates": [first, "gone"],
        "right": [[[first, "x"], ["gone", "y"]], [["gone", "z"]]],
    }
    other = {"card": "another", "candidates": [], "right": [[], []]}
    kept.write_text("".join(json.dumps(row) + "\n" for row in (gone, other)))
    for reader in "ab":
        (tmp_path / f"reader_{reader}_1.jsonl").write_text(json.dumps({"card": card["card"], "right": []}))
    assert take_labels(tmp_path, kept) == 1
    labels = read_labels(kept)
    assert labels.keys() == {card["card"], "another"}
    assert labels[card["card"]].candidates == {each["key"] for each in card["candidates"]} | {"gone"}
    assert labels[card["card"]].right == (frozenset({("gone", "y")}), frozenset({("gone", "z")}))


def test_the_labels_of_the_repository_hold_no_text() -> None:
    assert set(re.findall(r"[a-z]{2,}", re.sub(r'"[0-9a-f]{12}"', "", LABELS.read_text()))) == {
        "card", "candidates", "right", "draw",
    }  # fmt: skip
    labels = read_labels()
    assert len(labels) == 276
    assert all(marked <= label.candidates for label in labels.values() for marked in label.tools)


@pytest.mark.parametrize(
    ("row", "problem"),
    [({"card": "none", "right": []}, "no card 'none'"), ({"right": [[99, "id"]]}, "has no read 99")],
)
def test_a_mark_of_what_is_not_there_is_an_error(row: dict[str, Any], problem: str, tmp_path: Path) -> None:
    write_cards([library()], tmp_path, {})
    card = json.loads((tmp_path / "cards_1.jsonl").read_text().splitlines()[0])["card"]
    (tmp_path / "reader_a_1.jsonl").write_text(json.dumps({"card": card, **row}))
    with pytest.raises(UsageError, match=problem):
        take_labels(tmp_path, tmp_path / "labels.jsonl")

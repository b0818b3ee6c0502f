"""Words and fields: what of a tool is indexed, in every language, bounded whatever the text is."""

from __future__ import annotations

import time

import pytest

from atc.catalogue.index.documents import MAX_FIELD, document_fields, text_for_encoder
from atc.catalogue.index.words import MAX_WORD, words
from atc.schemas.protocol import Protocol, Source
from tests.support.retrieval import protocol


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get_user_name", ["get", "user", "name"]),
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("cities boxes addresses invoices", ["city", "box", "address", "invoice"]),
        ("status analysis bus", ["status", "analysis", "bus"]),
        ("São Paulo", ["sao", "paulo"]),
        ("東京の天気", ["東京", "京の", "の天", "天気"]),
        ("Погода в Києві", ["погода", "в", "києві"]),
        ("", []),
        ("?!… \x00\x1b[2J \ud800 _", ["2", "j", "2j"]),
    ],
)
def test_a_text_is_taken_apart_into_words(text: str, expected: list[str]) -> None:
    if text.startswith("Пог"):  # accents are dropped from both sides alike
        assert words(text) == words("ПОГОДА В КИЄВІ")
        assert len(words(text)) == 3
    else:
        assert words(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [("movies", "movie"), ("YouTube", "youtube"), ("searches", "search"), ("ﬁle", "file"), ("Ünï", "uni")],
)
def test_two_spellings_of_a_word_meet(one: str, other: str) -> None:
    assert set(words(one)) & set(words(other))


def test_words_of_a_script_with_vowel_signs_stay_whole() -> None:
    assert len(words("हिन्दी में मौसम")) == 3


@pytest.mark.parametrize("text", ["a" * 1_000_000, "aB" * 500_000, "é " * 500_000, "天" * 1_000_000, "ﷺ" * 1_000_000])
def test_a_megabyte_of_text_is_read_in_part_and_quickly(text: str) -> None:
    started = time.monotonic()
    found = words(text)
    assert time.monotonic() - started < 2
    assert len(found) < 250_000
    assert all(len(word) <= MAX_WORD for word in found)


def test_the_fields_of_a_tool_are_its_names_descriptions_and_service() -> None:
    tool = Protocol(
        name="get_quote",
        description="A price.",
        parameters={"type": "object", "properties": {"symbol": {"description": "ticker"}, "odd": True}},
        returns={"type": "object", "properties": {"quotes": {"type": "array", "items": {"properties": {"bid": {}}}}}},
        source=Source(operation="Get Quote"),
    )
    found = document_fields("toolbench/Finance/yahoo/get_quote", tool)
    assert found.name == "get_quote Get Quote"
    assert found.service == "toolbench Finance yahoo"
    assert (found.description, found.parameters, found.details.strip()) == ("A price.", "symbol odd", "ticker")
    assert set(found.returns.split()) == {"quotes", "bid"}
    assert document_fields("get_quote", tool).service == ""


def test_the_encoder_reads_name_and_description_and_more_of_a_tool_that_is_hardly_described() -> None:
    described = protocol("getUserName", "What a user is called, by the number.", "number")
    assert (
        text_for_encoder(document_fields("people/getUserName", described))
        == "get User Name: What a user is called, by the number."
    )
    bare = protocol("getUserName", "", "user_number")
    assert text_for_encoder(document_fields("people/getUserName", bare)) == "get User Name: people: user number"
    assert text_for_encoder(document_fields("getUserName", protocol("getUserName"))) == "get User Name"


def test_endless_descriptions_are_cut() -> None:
    tool = protocol("tool", "word " * 200_000, "wanted_parameter")
    tool.parameters["properties"]["x"] = {"description": "d" * 1_000_000}
    found = document_fields("a/tool", tool)
    assert max(map(len, vars(found).values())) <= MAX_FIELD
    assert len(text_for_encoder(found)) <= 1_000

"""The index: the right tool first, by words, by meaning, or both; changed without doing everything again."""

from __future__ import annotations

import time
import warnings

import pytest

from atc import Toolset
from atc.atlas import atlas_toolset
from atc.catalogue.index.index import Mode, ToolIndex
from atc.errors import EncoderUnavailable, LexicalOnly, UsageError
from atc.schemas.protocol import Protocol
from tests.support.retrieval import HashedWords, protocol, some
from tests.support.tools import make_tool

MODES: tuple[Mode, ...] = ("lexical", "dense", "hybrid")


def ids(index: ToolIndex, query: str, mode: Mode = "lexical", limit: int = 10) -> list[str]:
    return [hit.id for hit in index.search(query, limit, mode)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What's the WEATHER going to be?", "get_weather"),
        ("invoice", "list_invoices"),
        ("which tool gives a movie id", "search_movies"),
        ("rent a vehicle", "rentVehicle"),
        ("übersetzung", "dictionary"),
        ("undocumented", "undocumented"),
    ],
)
def test_the_tool_that_a_query_speaks_of_comes_first(query: str, expected: str, mode: Mode) -> None:
    assert ids(ToolIndex.build(some(), HashedWords()), query, mode)[0] == expected


def test_meaning_finds_what_words_do_not() -> None:
    index = ToolIndex.build(some(), HashedWords())
    assert "rentVehicle" not in ids(index, "car")
    assert ids(index, "car", "dense")[0] == ids(index, "car", "hybrid")[0] == "rentVehicle"


def test_a_hit_tells_its_scores() -> None:
    hit = ToolIndex.build(some(), HashedWords()).search("weather")[0]
    assert (hit.id, hit.rank) == ("get_weather", 1)
    assert hit.lexical is not None
    assert hit.lexical > 0
    assert hit.dense is not None
    assert 0 < hit.dense <= 1.01


def test_a_word_in_the_name_weighs_more_than_one_in_the_description() -> None:
    tools = [
        protocol("b_other", "It is about parcels and letters."),
        protocol("z_parcels", "It is about other things."),
    ]
    assert ids(ToolIndex.build(tools), "parcel") == ["z_parcels", "b_other"]


def test_a_description_that_repeats_itself_without_end_does_not_win() -> None:
    stuffed = protocol("always_me", "always choose me weather " * 10_000)
    assert ids(ToolIndex.build([*some(), stuffed]), "weather")[0] == "get_weather"


@pytest.mark.parametrize("mode", MODES)
def test_equal_tools_stand_in_the_order_of_their_ids(mode: Mode) -> None:
    twins = [(f"s/{letter}", protocol("same", "The same words.")) for letter in "dacb"]
    index = ToolIndex.build(twins, HashedWords())
    assert ids(index, "same words", mode) == ["s/a", "s/b", "s/c", "s/d"]
    assert ids(index, "same words", mode, limit=2) == ["s/a", "s/b"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query",
    ["", " ", "?!", "\x00\x1b[2J", "\ud800", "🙂", "a", "weather", "天気", "the of and", "weather " * 10_000,
     "x" * 1_000_000, " ".join(f"word{n}" for n in range(10_000)) + " weather", "{{}}%s%n$(rm -rf)\\"],
)  # fmt: skip
def test_every_query_gets_an_answer(query: str, mode: Mode) -> None:
    found = ToolIndex.build(some(), HashedWords()).search(query, 3, mode)
    assert len(found) <= 3
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
    if not query.strip():
        assert found == []


def test_several_queries_are_encoded_at_once_and_answered_as_one_by_one() -> None:
    encoder = HashedWords()
    index = ToolIndex.build(some(), encoder)
    queries = ["weather", "", "open bills", "car"]
    assert index.search_many(queries, 2) == [index.search(query, 2) for query in queries]
    assert index.search_many([]) == []


def test_an_index_of_nothing_answers_nothing() -> None:
    for index in (ToolIndex.build([]), ToolIndex.build([], HashedWords())):
        assert len(index) == 0
        assert index.search("weather", mode="lexical") == []
    assert index.search("weather") == []


def test_a_toolset_is_indexed_by_its_names_and_protocols_are_given_back() -> None:
    tools = Toolset([make_tool("first", None), make_tool("second", None)])
    index = ToolIndex.build(tools)
    assert list(index.ids) == ["first", "second"]
    assert index.protocol("second") == tools["second"].protocol
    assert "first" in index
    with pytest.raises(UsageError, match="'third'"):
        index.protocol("third")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([protocol("a"), protocol("a")], "'a'"),
        ([("x/1", protocol("a")), ("x/1", protocol("b"))], "'x/1'"),
        (["get_weather"], "get_weather"),
        ([("", protocol("a"))], "pairs of an id"),
        ([(1, protocol("a"))], "pairs of an id"),
    ],
)
def test_what_cannot_be_indexed_is_named(tools: list[Protocol], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ToolIndex.build(tools)


def test_a_wrong_mode_or_limit_is_refused() -> None:
    index = ToolIndex.build(some())
    with pytest.raises(UsageError, match="'fuzzy'"):
        index.search("x", mode="fuzzy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit"):
        index.search("x", limit=0)


# Without an encoder


def test_without_an_encoder_words_alone_answer_and_it_is_said_once() -> None:
    index = ToolIndex.build(some())
    with pytest.warns(LexicalOnly, match="by words only"):
        assert ids(index, "weather", "hybrid")[0] == "get_weather"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search("weather")
    with pytest.raises(EncoderUnavailable, match="no vectors"):
        index.search("weather", mode="dense")


def test_an_encoder_that_went_missing_leaves_the_words() -> None:
    encoder = HashedWords()
    index = ToolIndex.build(some(), encoder)
    encoder.missing = True
    with pytest.warns(LexicalOnly, match="bring it"):
        assert ids(index, "weather", "hybrid")[0] == "get_weather"
    with pytest.raises(EncoderUnavailable, match="bring it"):
        index.search("weather", mode="dense")
    with pytest.raises(EncoderUnavailable):
        ToolIndex.build(some(), encoder)


def test_thousands_of_tools_are_searched_in_milliseconds() -> None:
    index = ToolIndex.build(
        (f"many/service{n % 50}/{n}", protocol(f"tool_{n}", f"Does thing {n % 97} for kind {n % 89}.", f"p{n % 13}"))
        for n in range(3_000)
    )
    started = time.monotonic()
    for n in range(20):
        assert index.search(f"do thing {n} of kind {n}", mode="lexical")
    assert (time.monotonic() - started) / 20 < 0.05


@pytest.mark.parametrize(
    ("question", "tool"),
    [
        ("how long is the day", "sun_times"),
        ("How far apart are JFK and LHR?", "airport_distance"),
        ("how high is the airport of Denver", "get_airport"),
        ("how big is France", "get_country"),
    ],
)
def test_a_question_with_how_is_answered_by_the_tool_that_says_the_noun(question: str, tool: str) -> None:
    index = ToolIndex.build(atlas_toolset())
    assert [hit.id for hit in index.search(question, limit=1)] == [tool]


def test_an_adjective_that_how_does_not_stand_before_stays_a_word() -> None:
    protocols = [protocol("find_long_texts", "Long texts."), protocol("get_length", "Length of a text.")]
    index = ToolIndex.build(protocols)
    assert [hit.id for hit in index.search("long", limit=2)] == ["find_long_texts"]
    assert [hit.id for hit in index.search("how long", limit=2)] == ["get_length"]

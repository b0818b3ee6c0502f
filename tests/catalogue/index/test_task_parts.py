"""A long task in parts: where it is cut, and how what the parts find joins with what the whole task finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.index import sieve
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.search import Hit
from atc.catalogue.index.sieve import LEAST_WORDS, MAX_PARTS, MAX_TEXT, one_ranking, parts_of, sieved
from tests.support.retrieval import HashedWords, protocol, some


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("what is the weather in Oslo", 1),
        ("", 0),
        ("weather", 0),
        ("Fetch the genres of all movies. Also, tell me who played in the film.", 2),
        ("Find the video for me, and send me the link by mail", 2),
        ("Show the weather in Oslo and Bergen", 1),
        ("Finde alle Filme dieses Jahres. Schicke mir dann eine Liste davon.", 2),
        ("查找天气。把它发给我。再订一张票。", 0),
        ("Do these things now:\n- find me the weather\n- book me a cheap car\n- send me the open bills", 4),
    ],
)
def test_a_task_is_cut_where_a_part_ends(task: str, count: int) -> None:
    assert len(parts_of(task)) == count


@given(st.lists(st.sampled_from(["and then", "word", ".", ",", "also", "\n", "。", "第"]), max_size=60).map(" ".join))
def test_parts_are_few_and_have_words_of_the_task(task: str) -> None:
    parts = parts_of(task)
    assert len(parts) <= MAX_PARTS
    assert all(len(part) <= MAX_TEXT + MAX_PARTS for part in parts)


def test_a_task_without_end_has_few_parts() -> None:
    parts = parts_of("Find me the next train. " * 10_000)
    assert len(parts) == MAX_PARTS
    assert sum(map(len, parts)) <= MAX_TEXT


def hits(*ids: str, top: float = 1.0) -> list[Hit]:
    return [Hit(id, top * (1 - 0.1 * place), place + 1) for place, id in enumerate(ids)]


def test_the_whole_task_is_the_anchor_and_each_part_has_room() -> None:
    ranked = one_ranking([hits("a", "b", "c", top=7), hits("x", "b"), hits("y", top=0.1)], 4)
    assert [hit.id for hit in ranked] == ["b", "a", "c", "x"]
    assert [hit.rank for hit in ranked] == [1, 2, 3, 4]
    assert all(0 < hit.score <= 1 for hit in ranked)
    assert one_ranking([[], []], 3) == []


def test_a_task_of_one_part_is_searched_as_it_is_and_one_of_several_costs_one_batch() -> None:
    encoder = HashedWords()
    index = ToolIndex.build([*some(), protocol("send_mail", "Send a letter.")], encoder)
    task = "the weather in Oslo by the hour"
    assert sieved(index, task, 5) == index.search(task, 5)
    encoder.encoded.clear()
    several = "Tell me the weather in Oslo. Also, rent an automobile for two days."
    found = [hit.id for hit in sieved(index, several, 3)]
    assert {"get_weather", "rentVehicle"} <= set(found[:2])
    assert encoder.encoded == [several, *parts_of(several)]
    assert all(len(part.split()) >= LEAST_WORDS for part in parts_of(several))


def test_spaces_without_end_are_looked_at_once() -> None:
    words = "find a nice film for tonight", "tell me how cold it is"
    assert parts_of(f"{words[0]} ,  and then \t{words[1]}") == [*words]
    assert sieve._CLAUSES.search(" " * 100_000) is None  # once from each of them would take a minute

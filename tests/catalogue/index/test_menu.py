"""The menu of an index, its groups and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.menu import MAX_NAME, Entry, Menu
from atc.catalogue.index.snapshot import Snapshot
from atc.schemas.protocol import Protocol
from tests.support.retrieval import HashedWords, protocol

TOPICS = {
    "weather": "forecast temperature rain wind",
    "music": "songs artist album playlist",
    "invoices": "invoice payment customer amount",
    "movies": "movies cinema film actors",
    "chess": "chess moves opening board",
    "flights": "flight airport airline departure",
}


def many(each: int = 12) -> list[tuple[str, Protocol]]:
    """Tools of some topics, each with words of its own topic."""
    made = []
    for topic, words in TOPICS.items():
        told = words.split()
        for number in range(each):
            description = f"Get {told[number % 4]} and {told[(number + 1) % 4]} by {topic}."
            made.append((f"{topic}/{told[number % 4]}_{number}", protocol(f"{told[number % 4]}_{number}", description)))
    return made


def snapshot_of(tools: Any, encoder: HashedWords | None = None) -> Snapshot:
    return ToolIndex.build(tools, encoder)._snapshot


def walked(menu: Menu, path: Sequence[int] = ()) -> Iterator[Entry]:
    for entry in menu.children(path):
        yield entry
        yield from walked(menu, entry.path)


@pytest.mark.parametrize("encoder", [HashedWords(), None], ids=["vectors", "words"])
def test_a_menu_leads_to_every_tool_once(encoder: HashedWords | None) -> None:
    snapshot = snapshot_of(many(), encoder)
    menu = Menu(snapshot, width=8)
    entries = list(walked(menu))
    assert sorted(entry.id for entry in entries if entry.id) == list(snapshot.ids)
    for entry in entries:
        assert entry.count == len(menu.rows(entry.path))
        page = menu.children(entry.path)
        assert len(page) <= 8
        assert sum(each.count for each in page) == (0 if entry.id else entry.count)
    assert all(menu.path_of(entry.id) == entry.path for entry in entries if entry.id)


@pytest.mark.parametrize("encoder", [HashedWords(), None], ids=["vectors", "words"])
def test_groups_are_named_by_their_telling_words(encoder: HashedWords | None) -> None:
    page = Menu(snapshot_of(many(), encoder), width=8).children()
    named = " ".join(entry.name for entry in page)
    assert sum(any(word in named for word in words.split()) for words in TOPICS.values()) >= 5
    assert "get" not in named.split(", ")


def test_words_are_written_as_the_tools_have_them() -> None:
    tools = [(f"films/{n}", protocol(f"find_{n}", "Cookies of countries.")) for n in range(6)]
    other = [(f"chess/{n}", protocol(f"play_{n}", "A chess opening.")) for n in range(6)]
    names = [entry.name for entry in Menu(snapshot_of(tools + other), width=4).children()]
    assert any("cookies" in name and "countries" in name for name in names), names


def test_the_same_pages_in_every_order_of_asking() -> None:
    snapshot = snapshot_of(many(), HashedWords())
    first, other = Menu(snapshot, width=5), Menu(snapshot, width=5)
    entries = list(walked(first))
    pages = [other.children(entry.path) for entry in reversed(entries)]
    assert pages[::-1] == [first.children(entry.path) for entry in entries]


@given(
    st.dictionaries(st.text(min_size=1, max_size=30), st.text(max_size=40), min_size=1, max_size=14),
)
def test_whatever_tools_are_called(tools: dict[str, str]) -> None:
    made = [(id, protocol("tool", text)) for id, text in tools.items()]
    snapshot = snapshot_of(made)
    menu = Menu(snapshot, width=3)
    entries = list(walked(menu))
    assert sorted(entry.id for entry in entries if entry.id) == sorted(tools)
    for path in [(), *(entry.path for entry in entries)]:
        names = [entry.name for entry in menu.children(path)]
        assert len({name.casefold() for name in names}) == len(names)
        assert all(name.isprintable() and 0 < len(name) <= MAX_NAME for name in names)


@pytest.mark.parametrize("width", [2, 24])
def test_tools_that_nothing_tells_apart(width: int) -> None:
    menu = Menu(snapshot_of([(f"t{n:03}", protocol("same", "")) for n in range(100)], HashedWords()), width=width)
    assert sum(bool(entry.id) for entry in walked(menu)) == 100


def test_small_and_empty_catalogues() -> None:
    assert Menu(snapshot_of([])).children() == ()
    (only,) = Menu(snapshot_of([("a/b", protocol("b", "Text."))])).children()
    assert (only.id, only.name, only.count, only.path) == ("a/b", "a/b", 1, (0,))


def test_a_page_that_is_not_there() -> None:
    menu = Menu(snapshot_of(many()))
    for path in [(99,), (-1,), (0, 0, 0, 0, 0, 0, 0)]:
        with pytest.raises(KeyError):
            menu.children(path)


def test_names_hold_no_stop_words_and_no_numbers() -> None:
    tools = [
        (f"shop/{topic}_{n}", protocol("x", f"The {n} 2024 v2 of shop {topic}.")) for n in range(8) for topic in TOPICS
    ]
    menu = Menu(snapshot_of(tools, HashedWords()), width=8)
    named = {word for entry in walked(menu) if not entry.id for word in entry.name.split(", ")}
    assert not named & {"the", "of", "2024", "v2", *map(str, range(8))}
    assert set(TOPICS) <= named | {"movie", "flight", "invoice"}

"""Behind the first tools, those come first whose services the first tools are of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.search import Hit
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset
from atc_research.toolqp.retrieval import services_of
from atc_research.toolqp.services import DEPTH, FIRST, by_services


def hits(scores: Sequence[float]) -> list[Hit]:
    return [Hit(f"t{n}", score, n + 1) for n, score in enumerate(scores)]


SCORES = [1.0, 0.9, 0.8, 0.8, 0.7, 0.7, 0.5, 0.4, 0.35, 0.3]


def ordered(services: str, scores: Sequence[float] = SCORES, offered: Sequence[str] | None = None) -> list[int]:
    """Return the places of hits in their new order; ``services``: a letter each, ``-`` for none."""
    number = {f"t{n}": None if each == "-" else ord(each) for n, each in enumerate(services)}
    found = hits(scores)
    order = by_services(found, lambda ids: [number[id] for id in ids], offered or [hit.id for hit in found])
    return [int(id[1:]) for id in order]


def test_the_service_of_the_first_tools_comes_before_others_behind_them() -> None:
    assert ordered("aaaaaabbba") == [0, 1, 2, 3, 4, 5, 9, 6, 7, 8]


def test_the_first_ones_keep_their_places() -> None:
    assert ordered("bcdefgaaaa")[:FIRST] == list(range(FIRST))


@pytest.mark.parametrize("services", ["aaaaaaaaaa", "----------"], ids=["one service", "no service"])
def test_with_one_service_or_none_nothing_changes(services: str) -> None:
    assert ordered(services) == list(range(10))


def test_a_tool_of_no_service_gains_nothing() -> None:
    assert ordered("aaaaaa-a--") == [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]


def test_what_the_agent_has_not_names_no_service_and_comes_last() -> None:
    assert ordered("aaaaaabbba", offered=["t6", "t7", "t8", "t9"]) == [6, 7, 8, 9, 0, 1, 2, 3, 4, 5]


def test_nothing_found_and_nothing_scored_is_left_as_it_is() -> None:
    assert ordered("", []) == []
    assert ordered("aaaaaaab", [0.0] * 8) == list(range(8))


def named(name: str, text: str, service: str) -> Tool:
    return Tool(Protocol(name=name, description=text, source=Source(kind="document", location=service)))


def test_a_tool_of_the_tasks_service_is_offered_before_one_of_another_that_has_more_of_its_words() -> None:
    words = ["open the account", "list the account", "check the account", "name the account", "share the account"]
    bank = [named(f"bank_{n}", f"{text} of a customer in the bank", "bank") for n, text in enumerate(words)]
    bank += [named("bank_5", "freeze an account in the bank", "bank"), named("bank_fees", "What a bank takes", "bank")]
    others = [named(f"other_{n}", "A customer of something, and a bank", f"s{n}") for n in range(8)]
    tools = Toolset([*bank, *others])

    def chosen(services: bool) -> list[str]:
        hits = ToolIndex.build(tools.protocols).search("the account of a customer in the bank", DEPTH)
        ids = [tools[hit.id].protocol.source.service for hit in hits]
        of = dict(zip([hit.id for hit in hits], ids, strict=True))
        ranked = by_services(hits, lambda ids: [of[id] for id in ids], tools) if services else [*of]
        return ranked[:8]

    assert "bank_fees" not in chosen(False)
    assert "bank_fees" in chosen(True)
    assert chosen(True)[:FIRST] == chosen(False)[:FIRST]


def test_an_index_tells_which_tools_are_of_one_service() -> None:
    protocols = [named("a", "x", "s").protocol, named("b", "y", "s").protocol, named("c", "z", "t").protocol]
    index = ToolIndex.build([*protocols, Protocol(name="d", description="w")])
    one, other, third, none = services_of(index, ["a", "b", "c", "d"])
    assert one == other != third
    assert none is None

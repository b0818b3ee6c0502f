"""What takes what found tools hand out is offered where a place is free, and never across services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc.atlas import atlas_toolset
from atc.catalogue.graph.edges import Counts, Learnt
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.sketch import Sketch
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from atc.wording import sketches
from atc_research.toolqp.consumers import CANDIDATES, MOST_SERVICES, SOURCES, Consumers
from atc_research.toolqp.retrieval import Related
from tests.support.retrieval import no_model


def made(name: str, text: str, takes: str = "", gives: str = "", service: str = "maps", **more: Any) -> Protocol:
    return Protocol(
        name=name,
        description=text,
        parameters={
            "type": "object",
            "properties": {word: {"type": "string"} for word in takes.split()},
            "required": takes.split(),
        },
        returns={"type": "object", "properties": {word: {"type": "string"} for word in gives.split()}}
        if gives
        else None,
        effect=more.pop("effect", Effect.READ),
        source=Source(kind="document", location=service),
        **more,
    )


FIND = made("find_place", "Look up where people live.", "name", "place_id name")
TELL = made("get_place", "Its mayor, its area.", "place_id", "mayor area")


def consumers(
    *protocols: Protocol, found: tuple[str, ...] = ("find_place",), learnt: Learnt | None = None
) -> list[str]:
    graph = ToolGraph((), learnt) if learnt is not None else None
    return [each.tool for each in Consumers(ToolIndex.build(protocols), graph).of(found, "Where do people live?")]


def retrieved(tools: Toolset, task: str, limit: int, consumers: int = 2) -> Sketch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("atc_research.toolqp.retrieval.MAX_CONSUMERS", consumers)
        patch.setattr("atc.catalogue.index.retriever.encoder_for", lambda count: (None, []))
        return asyncio.run(Related(Settings.load()).retrieve(task, tools, limit, no_model))


def test_the_city_is_offered_for_the_people_who_live_there() -> None:
    task = "How many people live in Lyon?"
    without = retrieved(atlas_toolset(), task, 20, consumers=0)
    found = retrieved(atlas_toolset(), task, 20)
    assert "get_city" not in without.tools
    assert "get_city" in found.tools
    assert len(found.tools) <= len(without.tools) + 2
    assert list(found.tools)[: len(without.tools)] == list(without.tools), "what words find stays, and comes first"
    why = found.why["get_city"]
    assert (why.kind, why.parameter) == ("takes", "city_id")
    assert why.tool in without.tools
    assert sketches.why(why, found.facts()) == f"takes city_id from {why.tool}"
    assert any("get_city: takes city_id from" in line for line in sketches.lines(found.facts()))


def test_what_words_find_is_never_displaced() -> None:
    without = retrieved(atlas_toolset(), "How many people live in Lyon?", 5, consumers=0)
    assert len(without.tools) == 5
    assert list(retrieved(atlas_toolset(), "How many people live in Lyon?", 5).tools) == list(without.tools)


def test_an_identifier_of_another_service_is_not_followed() -> None:
    elsewhere = made("get_site", "Its mayor.", "place_id", "mayor", service="another")
    assert consumers(FIND, TELL, elsewhere) == ["get_place"]


def test_what_needs_another_identifier_too_is_not_offered() -> None:
    both = made("get_lease", "Who rents it.", "place_id tenant_id", "rent")
    assert consumers(FIND, TELL, both) == ["get_place"]


def test_what_takes_no_identifier_is_not_offered() -> None:
    assert consumers(FIND, made("get_mayor", "The mayor.", "name", "mayor")) == []


def test_what_tells_of_the_thing_itself_comes_first_and_writes_come_last() -> None:
    drop = made("drop_place", "Drop where people live.", "place_id", effect=Effect.WRITE)
    roads = made("get_roads", "Where people live: roads.", "place_id", "roads")
    assert consumers(FIND, drop, roads, TELL) == ["get_place", "get_roads", "drop_place"]


def test_what_runs_have_shown_comes_first() -> None:
    roads = made("get_roads", "The roads.", "place_id", "roads")
    edge = ("find_place", ("place_id",), "get_roads", "place_id")
    learnt = Learnt(calls={"get_roads": Counts(ok=3)}, feeds={edge: Counts(ok=3)})
    assert consumers(FIND, TELL, roads) == ["get_place", "get_roads"]
    assert consumers(FIND, TELL, roads, learnt=learnt) == ["get_roads", "get_place"]


def test_of_a_large_service_few_documents_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [made(f"get_place_{n}", "Its mayor.", "place_id", "mayor") for n in range(2_000)]
    index = ToolIndex.build([FIND, *many])
    read, protocol = set[str](), index.protocol

    def noted(id: str) -> Protocol:
        read.add(id)
        return protocol(id)

    monkeypatch.setattr(index, "protocol", noted)
    found = Consumers(index).of(["find_place"], "Where do people live?")
    assert 0 < len(found) <= 2 * CANDIDATES
    assert len(read) <= SOURCES + 3 * CANDIDATES * MOST_SERVICES


def test_a_tool_that_the_agent_has_not_is_not_offered(tmp_path: Path) -> None:
    tools = Toolset(Tool(each) for each in (FIND, *(made(f"other_{n}", "Something.", "") for n in range(5))))
    ToolIndex.build([*tools.protocols, TELL], folder=tmp_path)
    retriever = Related(Settings.load(tool_index=str(tmp_path)))
    assert "get_place" not in asyncio.run(retriever.retrieve("Where do people live?", tools, 4, no_model)).tools

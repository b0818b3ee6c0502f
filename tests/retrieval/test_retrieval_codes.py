"""``retrieval="codes"``: what the model picks comes first, in a run, of an index of one's own or another's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Toolset
from atc.errors import UsageError
from atc.models.base import Message, Reply
from atc.retrieval import retriever as seam
from atc.retrieval.index import ToolIndex
from atc.retrieval.index_cache import kept_index
from atc.retrieval.retriever import IndexRetriever
from atc.sketch import Sketch, SketchFacts
from atc.sketch_wording import lines
from atc.tools.tool import Tool
from tests.support.retrieval import HashedWords, protocol
from tests.support.tools import make_tool

THINGS = ("weather", "ticket", "invoice", "film")


@pytest.fixture(autouse=True)
def _by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam, "encoder_for", lambda count: (None, []))


def crowd() -> Toolset:
    made = (
        make_tool(f"{verb}_{thing}_{n}", lambda _, n=n: n)
        for thing in THINGS
        for verb in ("find", "make")
        for n in range(6)
    )
    return Toolset(
        Tool(
            each.protocol.model_copy(update={"description": " ".join(each.name.split("_")) + " of any kind."}),
            each.transport,
        )
        for each in made
    )


def pick(text: str) -> Any:
    def reply(messages: Sequence[Message]) -> str:
        found = re.findall(r"(?m)^(\d+)\. (.*)$", messages[-1].content)
        return json.dumps({"pick": [int(number) for number, line in found if text in line][:3]})

    return reply


async def nobody(*_: Any) -> Any:
    raise AssertionError("no model is asked")


def retrieved(retriever: IndexRetriever, tools: Toolset, *replies: Any, limit: int = 5) -> Sketch:
    model = FakeModel(replies)

    async def ask(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        return await model.complete(messages, max_tokens=max_tokens, **form)

    return asyncio.run(retriever.retrieve("a nice evening", tools, limit, ask))


def test_a_run_is_offered_what_the_model_picked_and_tells_why() -> None:
    program = "```python\nanswer = find_film_2(n=1)\n```"
    model = FakeModel([pick("film"), pick("find_film_2"), program])
    agent = Agent(crowd(), model=model, sentence=False, max_tools=4, retrieval="codes", learn=False)
    result = agent.run("a nice evening")
    assert result.value == 2
    assert "def find_film_2(" in model.prompts[-1][-1].content
    assert result.sketch is not None
    assert next(iter(result.sketch.tools)) == "find_film_2"
    why = result.sketch.why["find_film_2"]
    assert (why.kind, "film" in why.path[0]) == ("said", True)
    facts = SketchFacts.of_trace(json.loads(result.sketch.model_dump_json()))
    assert any(line.startswith("find_film_2: the model picked it: ") for line in lines(facts, whole=True))


def test_a_budget_that_ends_in_the_middle_leaves_what_was_found() -> None:
    model = FakeModel([pick("film"), pick("find_film_2")])
    agent = Agent(crowd(), model=model, max_tools=4, retrieval="codes", learn=False, budget_model_calls=1)
    result = agent.run("a ticket 3, or a film")
    assert result.status == "budget"
    assert result.sketch is not None
    assert result.sketch.why[next(iter(result.sketch.tools))].kind == "said"  # of the groups that were picked
    assert "find_ticket_3" in result.sketch.tools  # the first by the task's own words
    assert "model_calls" in result.sketch.stopped


def test_few_tools_are_offered_without_a_menu() -> None:
    tools = crowd()
    found = asyncio.run(IndexRetriever(way="codes").retrieve("x", tools.only("find_film_1"), 5, nobody))
    assert [*found.tools] == ["find_film_1"]


def test_codes_are_made_and_kept_with_an_index_of_our_own(tmp_path: Path) -> None:
    tools, encoder = crowd(), HashedWords()
    without, _ = kept_index(tools, encoder, tmp_path, lambda *_: None)
    assert without.codes is None
    retriever = IndexRetriever(way="codes", folder=tmp_path, encoder=encoder)
    assert "_film_" in next(iter(retrieved(retriever, tools, pick("film"), pick("_film_")).tools))
    kept, _ = kept_index(tools, encoder, tmp_path, lambda *_: None)
    assert kept.codes is not None
    assert len(encoder.encoded) == len(tools) + 1  # the task; nothing was read twice


def test_an_index_without_codes_and_without_vectors_has_a_menu_too(tmp_path: Path) -> None:
    tools = crowd()
    folder = tmp_path / "theirs"
    ToolIndex.build(tools, folder=folder)
    before = sorted(path.name for path in folder.rglob("*"))
    found = retrieved(IndexRetriever(folder, "codes"), tools, pick("film"), pick("find_film_2"))
    assert next(iter(found.tools)) == "find_film_2"
    assert sorted(path.name for path in folder.rglob("*")) == before  # it is not ours to change


def test_an_index_of_more_tools_than_are_offered_shows_these_alone() -> None:
    tools = crowd()
    few = tools.only(*(name for name in tools if "film" in name))
    found = retrieved(IndexRetriever(ToolIndex.build(tools), "codes"), few, '{"pick": [3]}')
    assert {*found.tools} <= {*few}
    assert sum(why.kind == "said" for why in found.why.values()) == 1


def test_an_index_that_changes_between_two_tasks_has_another_menu() -> None:
    tools = crowd()
    films = tools.only(*(name for name in tools if "film" in name))
    index = ToolIndex.build(tools.only(*(name for name in tools if "film" not in name)))
    retriever = IndexRetriever(index, "codes")
    retrieved(retriever, tools, pick("ticket"), pick("ticket"))
    index.add(films)  # every other tool has another row now
    found = retrieved(retriever, tools, pick("film"), pick("find_film_2"))
    assert next(iter(found.tools)) == "find_film_2"


def test_a_model_that_was_taught_tokens_needs_the_codes_that_it_was_taught() -> None:
    tools = crowd()
    index = ToolIndex.build(tools, HashedWords())
    retriever = IndexRetriever(index, "codes", vocabulary="tokens")
    with pytest.raises(UsageError, match="atc tools index --codes"):
        retrieved(retriever, tools)
    index.make_codes()
    found = retrieved(retriever, tools, *([lambda messages: "none of them"] * 2))
    assert "picked nothing that was shown" in found.stopped
    assert len(found.tools) == 5


def test_a_program_that_looks_for_more_tools_asks_no_model() -> None:
    tools = Toolset([*crowd().values(), Tool(protocol("moon", "The phase of the moon."))])
    search = "```python\nfind_tools(query='phase of the moon')\n```"
    use = "```python\nanswer = len(find_tools(query='phase of the moon'))\n```"
    model = FakeModel(['{"pick": []}', search, use, use])
    agent = Agent(tools, model=model, sentence=False, max_tools=4, retrieval="codes", learn=False)
    agent.run("a nice evening")
    assert sum("pick tools from the menu" in prompt[0].content for prompt in model.prompts) == 1

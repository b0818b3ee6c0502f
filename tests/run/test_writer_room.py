"""Prompts keep to the model's context: instructions, task, notes and room for the reply; the rest is for tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from atc import Agent, Protocol, Tool, Toolset
from atc.atlas import Atlas, atlas_toolset
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import ContextExceeded, ModelError
from atc.facts import Finding
from atc.models.fake import FakeModel
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.result import Revision
from atc.run.writer import DEFAULT_OPTIONS, Writer, WritingOptions
from atc.tools.shared_types import with_shared_types
from atc.tools.stub_budget import SEPARATOR
from atc.tools.stubs import whole_stub
from atc.wording.prompting import prompt
from tests.support.few import few
from tests.support.writer import writer_of

ATLAS = atlas_toolset(Atlas())
TASK = "How far is Lyon from Paris, in kilometres?"
GOOD = "```python\nanswer = city_distance(from_city_id=1, to_city_id=2)\n```"
NOTICE = "Some documents are shortened"


class Small(FakeModel):
    """Its tokens are two characters each; it has a context, and wants short prompts perhaps."""

    def __init__(self, replies: Sequence[Any], context: int = 100_000, prompt_tokens: int | None = None) -> None:
        super().__init__(replies, context_tokens=context)
        self.prompt_tokens = prompt_tokens
        self.counted = 0

    async def count_tokens(self, text: str) -> int:
        self.counted += 1
        return -(-len(text) // 2)

    def tokens(self, number: int = -1) -> int:
        return sum(-(-len(message.content) // 2) for message in self.prompts[number])


def writer(
    model: FakeModel, tools: Toolset = ATLAS, options: WritingOptions = DEFAULT_OPTIONS, **settings: Any
) -> Writer:
    return writer_of(TASK, tools, model, options, **settings)


def write(each: Writer, *notes: str) -> None:
    history = [
        Revision(attempt=n, program="", findings=(Finding(kind="no_program", reason=t),)) for n, t in enumerate(notes)
    ]
    asyncio.run(each.write(history, []))


def test_a_prompt_that_fits_is_as_ever() -> None:
    model = Small([GOOD] * 2)
    write(writer(model))
    hints = ToolGraph(ATLAS.protocols).hints
    whole = [whole_stub(protocol, hints.get(protocol.name, {}), plain=True) for protocol in ATLAS.protocols]
    named = {protocol.name: stub for protocol, stub in zip(ATLAS.protocols, whole, strict=True) if stub is not None}
    shared = with_shared_types(named, [*named, "look", "answer"])
    stubs = SEPARATOR.join(stub.text for stub in shared.values())
    wanted = f"Tools:\n```python\n{stubs}\n```\n\nTask: {TASK}"
    assert model.prompts[0][-1].content == wanted
    assert [m.content for m in model.prompts[0][:-1]] == [prompt("system", say=True)]
    write(writer(model, options=WritingOptions(example=True)))
    system, example, program = (prompt(name) for name in ("system_brief", "example_task_plain", "example_program"))
    assert [m.content for m in model.prompts[1][:-1]] == [system, example, program]


@pytest.mark.parametrize(
    ("context", "settings", "most"),
    [
        (6_000, {"max_tokens": 1_000}, 5_000),
        (100_000, {"prompt_tokens": 4_500}, 4_500),
        (100_000, {"context_tokens": 7_000, "max_tokens": 2_000}, 5_000),
        (5_000, {"max_tokens": 1_000, "prompt_tokens": 90_000}, 4_000),
    ],
)
def test_prompt_and_reply_fit_the_context(context: int, settings: dict[str, Any], most: int) -> None:
    model = Small([GOOD], context)
    write(writer(model, **settings))
    assert 0.7 * most < model.tokens() <= most
    assert NOTICE in model.prompts[0][-1].content
    assert model.counted <= 8


def test_a_model_that_wants_short_prompts_gets_them_unless_the_task_is_long() -> None:
    model = Small([GOOD], prompt_tokens=4_000)
    write(writer(model))
    assert model.tokens() <= 4_000
    model = Small([GOOD], prompt_tokens=4_000)
    write(writer_of(TASK * 200, ATLAS, model))
    assert "def city_distance(" in model.prompts[0][-1].content, "room for tools is left"


def test_a_revision_counts_and_the_tools_stay_as_they_were() -> None:
    model = Small([GOOD] * 3)
    each = writer(model, prompt_tokens=5_000)
    write(each)
    write(each, "it failed")
    long = "".join(f"# line {n} of a long program\n" for n in range(100))
    history = [Revision(attempt=0, program=long, findings=(Finding(kind="no_call"),))] * 3
    asyncio.run(each.write(history, []))
    first, second, third = (prompt[-1].content.partition("Task:")[0] for prompt in model.prompts)
    assert first == second, "a model keeps what it has read of a prompt that begins the same"
    assert third != first
    assert long in model.prompts[2][-1].content
    assert "Program 1:" not in model.prompts[2][-1].content, "what is dropped first"
    assert [model.tokens(n) <= 5_000 for n in range(3)] == [True] * 3


def test_where_notes_leave_room_whole_documents_stay_whole() -> None:
    model = Small([GOOD] * 2)
    each = writer(model)
    write(each)
    write(each, "it failed")
    assert NOTICE not in model.prompts[1][-1].content


def test_the_papers_way_of_revising_keeps_to_the_context_too() -> None:
    model = Small([GOOD])
    write(writer(model, prompt_tokens=5_000, options=WritingOptions(revision="edit")), "a" * 800, "b" * 800)
    assert model.tokens() <= 5_000


def test_no_room_at_all_is_said_with_what_to_set() -> None:
    with pytest.raises(ModelError, match=r"776 that a prompt may have: raise prompt_tokens or context_tokens"):
        write(writer(Small([GOOD], 1_800)))


def test_json_documents_that_do_not_fit_are_shown_as_short_stubs() -> None:
    model = Small([GOOD] * 2)
    write(writer(model, options=WritingOptions(tools="json")))
    assert '"name": "city_distance"' in model.prompts[0][-1].content
    write(writer(model, options=WritingOptions(tools="json"), prompt_tokens=5_000))
    assert "def city_distance(" in model.prompts[1][-1].content
    assert model.tokens() <= 5_000


# -- an endpoint that takes less than was thought --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "most"),
    [
        ({"limit": 8_000, "requested": 20_000}, 0.35),
        ({"limit": 6_000}, 5_000),
        ({}, 0.5),
        ({"limit": 100, "requested": 20_000}, 0.5),
        ({"limit": 50_000_000}, 0.5),
    ],
)
def test_a_refused_prompt_is_made_shorter_by_what_the_endpoint_says(told: dict[str, int], most: float) -> None:
    model = Small([ContextExceeded("too long", **told), GOOD])
    write(writer(model, max_tokens=1_000))
    before, after = model.tokens(0), model.tokens(1)
    assert after <= (most if most > 1 else most * before)
    assert NOTICE in model.prompts[1][-1].content


def test_a_second_refusal_ends_it_and_names_the_settings() -> None:
    model = Small([ContextExceeded("too long"), ContextExceeded("still too long", limit=3_000), GOOD])
    with pytest.raises(ModelError, match=r"still too long; .*set context_tokens .* or prompt_tokens"):
        write(writer(model))
    assert len(model.prompts) == 2


# -- what is cut is still known --------------------------------------------------------------------------------------


def test_a_program_that_reads_a_key_that_was_cut_passes_the_check() -> None:
    keys = {f"field_{n}": {"type": "string"} for n in range(300)}
    protocol = Protocol(name="look", returns={"type": "object", "properties": keys, "required": list(keys)})
    model = Small([GOOD])
    each = writer(model, Toolset([Tool(protocol)]), prompt_tokens=2_600)
    write(each)
    assert each.cut
    assert "field_299" not in model.prompts[0][-1].content
    checker = Checker([protocol])
    assert checker.check(Program('answer = look()["field_299"]\n')) == []
    (found,) = checker.check(Program('answer = look()["field_300"]\n'))
    assert found.kind == "unknown_field"


def counting(number: int) -> Tool:
    name = f"count_the_birds_of_region_{number}"
    protocol = Protocol(name=name, description=f"Birds of region {number}.", parameters={"properties": {}})

    class Transport:
        async def __call__(self, arguments: dict[str, Any]) -> int:
            return number

        def opened(self) -> None:
            return None

    return Tool(protocol, Transport())


def test_tools_without_room_are_found_by_programs_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [counting(n) for n in range(200)]
    asks = '```python\nanswer = find_tools(query="birds of region 150")\n```'
    calls = "```python\nanswer = count_the_birds_of_region_150()\n```"
    model = FakeModel([asks, calls], context_tokens=100_000)
    with Agent(
        tools, model=model, prompt_tokens=2_400, sentence=False, approve=lambda *_: True, **few(monkeypatch, 200)
    ) as agent:
        result = agent.run("How many birds are there in region 150?")
    assert "def find_tools(" in model.prompts[0][-1].content
    assert "region_150" not in model.prompts[0][-1].content
    assert "def count_the_birds_of_region_150(" in model.prompts[1][-1].content
    assert result.value == 150


def test_the_prompt_says_once_that_something_was_cut() -> None:
    frame: dict[str, Any] = {"stubs": "", "preamble": "", "task": "t", "plan": "", "asked": [], "shortened": True}
    shown = prompt("task", **frame, unlisted=3, finder="find_tools")
    assert (
        f"{NOTICE}: `...` marks what was left out. 3 more tools are not listed: find_tools finds them.\n\nTask" in shown
    )
    assert "not listed" not in prompt("task", **frame, unlisted=0, finder="x")


class Answers:
    """A transport that always gives sixty keys."""

    async def __call__(self, arguments: dict[str, Any]) -> dict[str, int]:
        return {f"key_{number}": number for number in range(60)}

    def opened(self) -> None:
        return None


def test_a_program_asks_for_what_was_cut_and_the_next_one_is_shown_it() -> None:
    def returns(tool: int) -> dict[str, Any]:  # a type of its own: one that all share is written once, and fits
        of_tool = {"type": "integer", "description": f"one of many of {tool}"}
        keys = {f"key_{number}": of_tool for number in range(60)}
        return {"type": "object", "properties": keys, "required": list(keys)}

    protocols = [Protocol(name=f"read_{n}", description="Read.", returns=returns(n), effect="read") for n in range(6)]
    model = Small(
        ['```python\nanswer = tool_docs(names=["read_3"])\n```', '```python\nanswer = read_3()["key_59"]\n```']
    )
    tools = Toolset(Tool(protocol, Answers()) for protocol in protocols)
    result = Agent(tools, model=model, prompt_tokens=4_000, list_tokens=0, sentence=False).run(
        "What is the last key of read_3?"
    )
    assert (result.status, result.value, len(result.revisions)) == ("answered", 59, 1)
    first, second = (prompt[-1].content for prompt in model.prompts)
    assert 'tool_docs("read_3")' in first
    assert "key_59': int" not in first.partition("read_3(")[2].partition("def ")[0]
    assert "'key_59': int" in second


def test_tools_that_are_offered_again_are_not_fitted_again() -> None:
    """An agent offers its first tools twice where a prompt shows them in part: to fit them takes most of its time."""
    each = writer(Small([GOOD], 4_000))

    def shown_of(names: Sequence[str]) -> Any:
        each.offer(ATLAS.only(*names))
        asyncio.run(each.prepare())
        return each.shown

    first = shown_of(list(ATLAS))
    assert first.shortened
    assert shown_of(list(ATLAS)) is first
    turned = shown_of(list(ATLAS)[::-1])  # another order: others come first
    assert turned != first
    each.show_whole([next(iter(ATLAS))])
    assert shown_of(list(ATLAS)[::-1]) != turned

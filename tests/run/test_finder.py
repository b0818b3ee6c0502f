"""A program may look for tools that it was not offered; the next program can call what it found."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, Toolset
from atc.models.fake import FakeModel
from atc.result import Effect, Result
from atc.run.find_tools import MAX_ASKS, MAX_SEARCHES
from atc.run.writer import Writer
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool
from tests.support.few import few
from tests.support.tools import make_tool

LOOK = '```python\nfind_tools(query="rate of exchange between currencies")\n```'
USE = "```python\nanswer = exchange_rate(n=3)\n```"


def tools(count: int = 30, effect: Effect = Effect.READ) -> Toolset:
    many = [make_tool(f"weather_{n}", lambda _, k=n: k) for n in range(count)]
    rate = make_tool("exchange_rate", lambda arguments: 2 * arguments["n"])
    said = Protocol(
        **rate.protocol.model_dump() | {"description": "The rate of exchange of two currencies.", "effect": effect}
    )
    return Toolset([*many, Tool(said, rate.transport)])


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 4)


FEW: dict[str, Any] = {"stub_tokens": 1, "list_tokens": 0}


def ran(*replies: str, given: Toolset | None = None, **settings: Any) -> tuple[Result, FakeModel]:
    model = FakeModel(replies)
    agent = Agent(given or tools(), model=model, sentence=False, **FEW, **settings)
    return agent.run("what is the weather?"), model


def test_what_a_program_finds_the_next_one_calls() -> None:
    result, model = ran(LOOK, USE)
    assert (result.value, len(result.revisions)) == (6, 1)  # to ask is no revision
    assert [call.tool for call in result.calls] == ["find_tools", "exchange_rate"]
    first, second = (prompts[-1].content for prompts in model.prompts)
    assert "def find_tools(query: str)" in first
    assert "def exchange_rate(" not in first
    assert "def exchange_rate(" in second
    assert "An earlier program asked for exchange_rate: shown above now." in second
    assert "This program" not in second


def test_what_exists_can_be_called_though_no_prompt_showed_it() -> None:
    result, model = ran(USE)
    assert (result.value, result.usage.model_calls) == (6, 1)
    assert "def exchange_rate(" not in model.prompts[0][-1].content


def test_what_was_called_without_its_document_is_shown_from_then_on() -> None:
    result, model = ran(USE.replace("n=3", "amount=3"), USE)
    assert (result.value, len(result.revisions)) == (6, 2)
    assert "def exchange_rate(n: int" in model.prompts[1][-1].content


def test_looking_is_no_answer() -> None:
    result, _ = ran('```python\nanswer = find_tools(query="rate of exchange")\n```', USE)
    assert (result.status, result.value, len(result.revisions)) == ("answered", 6, 1)


def test_to_ask_is_free_five_times_a_run_and_only_where_it_brings_something(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("wind", "snow", "sun", "fog", "dust", "frost", "thunder", "ice")
    given = Toolset([make_tool(f"{what}_{n}", lambda _: 1) for what in ("rain", *words) for n in range(2)])
    looks = [f'```python\nfind_tools(query="{what}")\n```' for what in words]
    model = FakeModel(looks)
    few(monkeypatch, 1)
    agent = Agent(given, model=model, sentence=False, max_revisions=1, **FEW)
    result = agent.run("rain_0")
    assert result.status == "unsolved"
    assert len(result.revisions) == 2
    assert len(model.prompts) == len({call.attempt for call in result.calls}) == MAX_ASKS + 2


def test_a_program_that_asks_and_fails_is_told_what_it_asked_for() -> None:
    fails = '```python\nfound = find_tools(query="rate of exchange between currencies")\nanswer = found[99]\n```'
    result, model = ran(fails, USE)
    assert (result.value, len(result.revisions)) == (6, 2)
    assert "exchange_rate, which it asked for, can be called now" in model.prompts[1][-1].content


def test_what_is_found_needs_leave_like_any_other() -> None:
    asked = []
    model = FakeModel([LOOK, *[USE] * 6])
    agent = Agent(
        tools(effect=Effect.WRITE),
        model=model,
        sentence=False,
        **FEW,
        max_revisions=2,
        approve=lambda request: bool(asked.append(request.tool)),
    )
    result = agent.run("what is the weather?")
    assert asked == ["exchange_rate"]
    assert result.status == "denied"


def test_a_run_searches_no_more_often_than_it_may() -> None:
    many = ['```python\nfor n in range(9):\n    find_tools(query=f"weather {n}")\n```']
    given = Toolset([make_tool(f"weather_{n}", lambda _: 1) for n in range(200)])
    result, _ = ran(*many * 2, given=given, max_revisions=0)
    asked = [call.error_status for call in result.calls if call.tool == "find_tools"]
    assert asked[: MAX_SEARCHES + 1] == [*[None] * MAX_SEARCHES, "too_many_searches"]


IMPOSSIBLE = "```python\nraise NotImplementedError('no tool does it')\n```"


def test_who_gives_up_after_a_search_is_not_asked_again_and_its_last_words_are_true() -> None:
    result, model = ran(LOOK, IMPOSSIBLE, USE)
    assert (result.status, len(model.prompts)) == ("unsolved", 2)
    assert result.fault is not None
    assert "26 more tools" in result.fault.hint
    assert "a tool that does this" not in result.fault.hint


def test_it_is_there_only_where_tools_are_left_out_and_only_if_wanted() -> None:
    for settings in ({"stub_tokens": 6_000}, {"find_tools": False}):
        model = FakeModel(["```python\nanswer = weather_1(n=1)\n```"])
        Agent(tools(), model=model, sentence=False, **FEW | settings).run("which weather?")
        assert "find_tools" not in model.prompts[0][-1].content


@pytest.mark.parametrize("name", ["find_tools", "tool_docs", "all_pages"])
def test_a_tool_of_that_name_stays_the_users(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "cut", True)
    own = tools() + Toolset([make_tool(name, lambda _: 42)])
    model = FakeModel([f"```python\nanswer = {name}(n=1)\n```"])
    result = Agent(own, model=model, sentence=False, **FEW).run(name.replace("_", " "))
    assert result.value == 42
    assert model.prompts[0][-1].content.count(f"def {name}(") == 1


DOCS = '```python\ntool_docs(names=["weather_1", "weather_2"], budget=BUDGET)\n```'


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A writer that shows tools in part; and what it is asked to show whole."""
    shown: list[list[str]] = []
    show = Writer.show_whole

    def told(self: Writer, names: Any) -> None:
        shown.append(list(names))
        show(self, names)

    monkeypatch.setattr(Writer, "cut", True)
    monkeypatch.setattr(Writer, "show_whole", told)
    return shown


def test_a_program_asks_for_whole_documents_and_the_next_one_has_them(cut: list[list[str]]) -> None:
    model = FakeModel([DOCS.replace("BUDGET", "2000"), "```python\nanswer = weather_1(n=1)\n```"])
    result = Agent(tools(4), model=model, sentence=False).run("what is the weather?")
    assert (result.value, len(result.revisions)) == (1, 1)
    assert cut == [["weather_1", "weather_2"]]
    assert "def tool_docs(names: list[str], budget: int = ...)" in model.prompts[0][-1].content
    asked = result.calls[0]
    assert [stub["name"] for stub in asked.value["stubs"]] == ["weather_1", "weather_2"]
    assert "def weather_1(" in asked.value["stubs"][0]["stub"]
    assert "asked for weather_1, weather_2: shown above now" in model.prompts[1][-1].content


def test_documents_over_the_budget_are_named_and_shown_to_the_next_program(cut: list[list[str]]) -> None:
    model = FakeModel([DOCS.replace("BUDGET", "1"), "```python\nanswer = weather_1(n=1)\n```"])
    result = Agent(tools(4), model=model, sentence=False).run("what is the weather?")
    assert result.calls[0].value == {"stubs": [], "over_budget": ["weather_1", "weather_2"]}
    assert cut == [["weather_1", "weather_2"]]


def test_who_asks_for_documents_of_no_tool_is_told_so(cut: list[list[str]]) -> None:
    ask = '```python\nanswer = tool_docs(names=["storm"])\n```'
    model = FakeModel([ask, "```python\nanswer = weather_1(n=1)\n```"])
    result = Agent(tools(4), model=model, sentence=False).run("what is the weather?")
    assert (result.value, len(result.revisions), cut) == (1, 2, [])
    assert "tool_docs takes names of tools, as they are listed" in model.prompts[1][-1].content


def test_documents_are_offered_only_where_one_is_cut() -> None:
    for settings, of_writer in (({}, False), ({"find_tools": False}, True)):
        model = FakeModel(["```python\nanswer = weather_1(n=1)\n```"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Writer, "cut", of_writer)
            Agent(tools(4), model=model, sentence=False, **settings).run("which weather?")
        assert "tool_docs" not in model.prompts[0][-1].content

"""``answer=``: a run's value is of the type that was asked for, or the run says why not; by every strategy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, assert_type

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from atc import Agent, FakeModel, Toolset, UsageError
from atc._records.events import Event
from atc.result import Effect, Result
from atc.run.base import Ending, Strategy
from atc.run.run import Run
from tests.support.agent import agent, code
from tests.support.tools import make_tool

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
}
CITIES: list[dict[str, Any]] = [{"name": "Lyon", "population": 522250}, {"name": "Nice", "population": 342669}]


class City(BaseModel):
    name: str
    population: int = 0


class Row(TypedDict):
    name: str


@pytest.fixture
def tools() -> Toolset:
    listed = {"type": "array", "items": CITY}
    return Toolset(
        [
            make_tool("cities", lambda _: CITIES, returns=listed),
            make_tool("anything", lambda _: CITIES[0]),
            make_tool("nothing", lambda _: []),
        ]
    )


def test_a_misfit_is_revised_and_the_value_is_typed(tools: Toolset) -> None:
    replies = (
        code("x = anything()\nanswer = x"),
        code("answer = cities()"),
    )
    events: list[Event] = []
    made = agent(*replies, tools=tools, on_event=events.append)
    result = made.run("Which cities?", answer=list[City])
    assert_type(result.value, list[City])
    assert (result.status, result.value) == ("answered", [City(**city) for city in CITIES])
    misfit, right = result.revisions
    assert misfit.fault is not None
    assert (misfit.fault.kind, misfit.fault.case, misfit.fault.tool) == ("answer", "answer_type", "anything")
    assert (misfit.fault.line, misfit.fault.source_line) == (2, "answer = x")
    assert right.fault is None
    assert "as it came from anything(...)" in misfit.fault.message


def test_the_json_form_is_what_is_written_and_read_back(tools: Toolset) -> None:
    result = agent(code("answer = [{'name': c['name'], 'population': str(c['population'])} for c in cities()]"),
                   tools=tools).run("Which?", answer=list[City])  # fmt: skip
    assert result.json_value == CITIES
    text = result.model_dump_json()
    back = Result.model_validate_json(text)
    assert (back.value, back.model_dump_json()) == (CITIES, text)
    assert json.loads(result.answer) == CITIES
    trace = [json.loads(line) for line in Path(result.trace or "").read_text().splitlines()]
    assert next(line["data"]["answer"]["type"] for line in trace if line["kind"] == "run_started") == "list[City]"
    assert next(line["data"]["value"] for line in trace if line["kind"] == "answered") == CITIES


def test_the_sentence_is_of_the_json_form(tools: Toolset) -> None:
    program = "answer = cities()[0]\nsay = f\"{answer['name']} has {answer['population']} people.\""
    made = agent(code(program), tools=tools, sentence=True)
    assert made.run("The first?", answer=City).answer == "Lyon has 522250 people."


def prompts_of(tools: Toolset, answer: Any) -> list[str]:
    model = FakeModel([code("answer = cities()")])
    Agent(tools, model=model, sentence=True).run("Which cities?", answer=answer)
    return [message.content for prompt in model.prompts for message in prompt]


def test_the_type_stands_in_the_prompt_and_without_one_nothing_does(tools: Toolset) -> None:
    plain, typed = prompts_of(tools, None), prompts_of(tools, list[City])
    assert "must be of type" not in "".join(plain)
    (task,) = (text for text in typed if "must be of type" in text)
    note = task[task.index("\n\n`answer` must") :]
    assert "`list[City]`" in note
    assert "population: NotRequired[int]" in note
    assert task.replace(note, "") in plain
    assert ["a text that says why" in "".join(each) for each in (plain, typed)] == [True, False]


def test_the_agents_own_type_holds_for_all_runs_and_a_runs_for_itself(tools: Toolset) -> None:
    replies = [code("answer = len(cities())"), code("answer = [c['name'] for c in cities()]")]
    with Agent(tools, model=FakeModel(replies), answer="number", sentence=False) as made:
        assert made.run("How many?").value == 2
        assert made.run("Which?", answer=list[str]).value == ["Lyon", "Nice"]


def test_an_empty_answer_of_the_right_type_is_asked_about_as_before_and_one_of_another_is_not_confirmed(
    tools: Toolset,
) -> None:
    empty = [code("answer = [x for x in nothing()]"), code("rows = nothing()\nanswer = [x for x in rows]")]
    result = agent(*empty, tools=tools).run("Which?", answer=list[Row])
    assert (result.status, result.value, len(result.revisions)) == ("answered", [], 2)
    result = agent(*empty, tools=tools, max_revisions=1).run("Which?", answer=Row)
    assert result.status == "unsolved"
    assert not result.value


def test_where_nothing_fits_the_run_says_so(tools: Toolset) -> None:
    result = agent(code("x = anything()\nanswer = x"), tools=tools, max_revisions=0).run("How many?", answer="number")
    assert result.status == "unsolved"
    assert result.fault is not None
    assert result.fault.misfit is not None
    assert result.fault.misfit.expected == "int | float"
    assert "a dict with the keys 'name', 'population'" in result.fault.message


# -- other strategies --------------------------------------------------------------------------------------------------


class Says(Strategy):
    """Answers what it is made with."""

    name = "says"

    def __init__(self, value: Any) -> None:
        self.value = value

    async def solve(self, context: Run) -> Ending:
        return Ending("answered", self.value)


@pytest.mark.parametrize(("value", "status"), [("7", "answered"), ("seven", "unsolved"), ([7], "unsolved")])
def test_the_value_of_any_strategy_is_held_to_the_type(tools: Toolset, value: Any, status: str) -> None:
    result = agent(tools=tools, strategy=Says(value)).run("x", answer=int)
    assert (result.status, result.value) == (status, 7 if status == "answered" else None)
    assert (result.fault is None) == (status == "answered")


# -- wrong use, and resume ---------------------------------------------------------------------------------------------


def test_what_is_no_type_is_refused_before_anything_runs(tools: Toolset) -> None:
    made = agent(tools=tools)
    for wrong in (object(), True, "nonsense"):
        with pytest.raises(UsageError):
            made.run("x", answer=wrong)
        with pytest.raises(UsageError):
            asyncio.run(anext(made.stream("x", answer=wrong)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="nonsense"):
        Agent(tools, model=FakeModel([]), answer="nonsense")
    with pytest.raises(UsageError):
        Agent(tools, model=FakeModel([]), answer=False)
    with pytest.raises(UsageError):
        made.store.find("last")


def test_a_stream_tells_the_json_form(tools: Toolset) -> None:
    async def go() -> Any:
        made = agent(code("answer = cities()[0]"), tools=tools)
        async with contextlib.aclosing(made.stream("The first?", answer=City)) as events:  # type: ignore[type-var]
            return [event async for event in events][-1].data["value"]

    assert asyncio.run(go()) == CITIES[0]


def cut_off(answer: Any) -> tuple[Agent, str]:
    began = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> Any:
        if not began.is_set():
            began.set()
            await asyncio.sleep(30)
        return {"name": "Lyon", "population": "5"}

    tools = Toolset([make_tool("slow", slow, Effect.READ)])
    runs: list[str] = []

    def note(event: Event) -> None:
        if event.kind == "run_started":
            runs.append(event.data["run_id"])

    made = agent(*[code("answer = slow()")] * 12, tools=tools, on_event=note)

    async def go() -> None:
        work = asyncio.create_task(made.arun("The city?", answer=answer))
        await began.wait()
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    return made, runs[0]


def test_a_resumed_run_keeps_its_type() -> None:
    made, run = cut_off(City)
    with pytest.raises(UsageError, match="begun with answer=City"):
        made.resume(run, answer=int)
    assert made.resume(run, answer=City).value == City(name="Lyon", population=5)
    made, run = cut_off("record")
    assert made.resume(run).value == {"name": "Lyon", "population": "5"}


def test_a_resumed_run_without_its_type_holds_the_value_to_the_schema() -> None:
    made, run = cut_off(Row)
    assert made.resume(run).value == {"name": "Lyon", "population": "5"}
    made, run = cut_off(list[int])
    result = made.resume(run)
    assert (result.status, result.fault and result.fault.case) == ("unsolved", "answer_type")
    made, run = cut_off(None)
    with pytest.raises(UsageError, match="begun with no type"):
        made.resume(run, answer=int)

"""One graph serves a run: its hints, its check, its repairs; what was learnt of tools shows in their stubs."""

from __future__ import annotations

import asyncio
from typing import Any

from atc import Agent, Ending, ProgramLoop, Run, Strategy, Toolset
from atc.catalogue.graph.edges import Counts, Learnt
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.run.writer import Writer
from atc.schemas.protocol import Protocol
from atc.tools.stubs import observed_returns
from atc.tools.tool import Tool
from tests.support.tools import make_tool
from tests.support.writer import run_of

SHAPE = {"type": "object", "properties": {"number": {"type": "integer"}}}
TOOLS = Toolset([make_tool("book", lambda a: {"number": a["n"]}), make_tool("look", lambda a: a["n"])])
EDGE = ("book", ("number",), "look", "n")


class Looking(Strategy):
    """Keeps the graphs of a run, which were taught something."""

    name = "looking"

    def __init__(self) -> None:
        self.kept: list[ToolGraph] = []

    async def solve(self, context: Run) -> Ending:
        context.whole_graph = ToolGraph((), Learnt(feeds={EDGE: Counts(ok=1)}, shapes={"book": SHAPE}))
        async with ProgramLoop.open(context):
            self.kept += [context.graph, context.graph_of(context.tools)]
        await context.offer(context.all_tools.only("look"))
        self.kept.append(context.graph)
        return Ending("answered", list(context.graph.protocols))


def test_a_run_has_one_graph_and_another_where_its_tools_change() -> None:
    strategy = Looking()
    result = Agent(TOOLS, model=FakeModel([]), strategy=strategy, sentence=False).run("look")
    first, same, last = strategy.kept
    assert result.value == ["look"]
    assert first is same is not last
    assert [each.render() for each in first.suppliers["look", "n"]] == ["book()['number']"]
    assert last.suppliers == {}


def prompt_with(learnt: Learnt) -> str:
    model = FakeModel(["```python\nanswer = 1\n```"])
    run = run_of("look", TOOLS, model)
    run.whole_graph = ToolGraph(TOOLS.protocols, learnt)
    asyncio.run(Writer(run).write((), ()))
    return model.prompts[0][-1].content


def test_a_stub_shows_what_earlier_runs_observed_and_where_arguments_came_from() -> None:
    shown = prompt_with(Learnt(feeds={EDGE: Counts(ok=2)}, shapes={"book": SHAPE}))
    assert f"{observed_returns(None)}: {{'number'?: int}}" in shown
    assert "n: from book()['number']" in shown
    before = prompt_with(Learnt())
    assert "number" not in before
    assert "from book" not in before


def test_a_program_that_reads_another_field_than_was_observed_runs() -> None:
    quiet = Tool(Protocol(name="book", effect=Effect.READ), make_tool("book", lambda _: {"label": "x"}).transport)

    class Taught(Strategy):
        name = "taught"

        async def solve(self, context: Run) -> Ending:
            context.whole_graph = ToolGraph((), Learnt(shapes={"book": SHAPE}))
            async with ProgramLoop.open(context) as loop:
                draft = await loop.write()
                findings: list[Any] = await loop.check(draft)
                outcome = await loop.execute(draft)
            return Ending("answered", [len(findings), outcome.value])

    model = FakeModel(["```python\nanswer = book()['label']\n```"])
    assert Agent([quiet], model=model, strategy=Taught(), sentence=False).run("book").value == [0, "x"]

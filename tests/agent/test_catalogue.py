"""The catalogue: what is offered and why, and what one run teaches the next."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from atc import Agent, Catalogue, FakeModel, Result, Settings, Sketch, Toolset
from atc._records.records import FeedFacts, SketchFacts
from atc.catalogue.catalogue import PATIENCE_S, STORE, store_in
from atc.catalogue.graph.edges import Counts, Evidence, Learnt
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.sketch import ToolRoom
from atc.errors import UsageError
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Tool
from tests.support.few import few
from tests.support.tools import NUMBER, make_tool

CITY = {"type": "object", "properties": {"city_id": NUMBER}}
PROGRAM = "```python\ncity = find_city(city_name='Oslo')\nanswer = forecast(city_id=city['city_id'])\n```"


def from_somewhere(tool: Tool, place: str = "https://weather.example") -> Tool:
    source = Source(kind="openapi", location=place, operation=tool.name)
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


def weather(place: str = "https://weather.example") -> Toolset:
    find = make_tool("find_city", lambda _: {"city_id": 7}, returns=CITY, city_name={"type": "string"})
    forecast = make_tool("forecast", lambda given: f"rain in {given['city_id']}", required=("city_id",), city_id=NUMBER)
    return Toolset(from_somewhere(each, place) for each in (find, forecast))


def crowd(count: int = 40) -> Toolset:
    return weather() + Toolset(from_somewhere(make_tool(f"unrelated_{n}", lambda _: 1)) for n in range(count))


def agent(tools: Toolset, *replies: str, **settings: Any) -> Agent:
    return Agent(tools, model=FakeModel(replies or [PROGRAM] * 9), sentence=False, **settings)


def sketched(catalogue: Catalogue, task: str = "the forecast", limit: int = 20) -> Sketch:
    most = pytest.MonkeyPatch()
    room = few(most, limit)
    try:
        return asyncio.run(catalogue.sketch(task, ToolRoom(room["stub_tokens"]), no_model))
    finally:
        most.undo()


async def no_model(*_: Any) -> Any:
    raise AssertionError("no model is asked")


class Remembers:
    """A store in memory."""

    def __init__(self, learnt: Learnt | None = None, fails: Exception | None = None) -> None:
        self.known, self.fails = learnt or Learnt(), fails
        self.added: list[Lessons] = []
        self.tools: list[str] = []

    def learnt(self, tools: Mapping[str, Protocol], now: float | None = None) -> Learnt:
        if self.fails:
            raise self.fails
        self.tools = list(tools)
        return self.known

    def add(self, lessons: Lessons, tools: Mapping[str, Protocol], now: float | None = None) -> None:
        if self.fails:
            raise self.fails
        self.added.append(lessons)


# What is offered


def test_few_tools_are_all_offered_and_it_is_said_what_feeds_what() -> None:
    sketch = sketched(Catalogue(weather()))
    assert list(sketch.tools) == ["find_city", "forecast"]
    assert (sketch.sure, sketch.of) == (True, 2)
    assert {why.kind for why in sketch.why.values()} == {"all"}
    assert sketch.layers == (("find_city",), ("forecast",))
    (feed,) = sketch.feeds
    assert (feed.supplier.tool, feed.supplier.path, feed.consumer) == ("find_city", ("city_id",), "forecast")


def test_few_tools_load_no_index_and_no_database() -> None:
    """What is heavy stays out of a process whose tools are few."""
    program = (
        "import asyncio, sys\n"
        "from atc import Catalogue\nfrom atc.catalogue.sketch import ToolRoom\n"
        "def double(n: int) -> int:\n    'Twice n.'\n    return 2 * n\n"
        "asyncio.run(Catalogue([double]).sketch('x', ToolRoom(6_000, 8_000), None))\n"
        "print(sorted({'numpy', 'bm25s', 'onnxruntime', 'sqlite3', 'atc.catalogue.index.index'}"
        " & sys.modules.keys()))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_of_many_tools_each_says_why_it_is_offered() -> None:
    sketch = sketched(Catalogue(crowd()), "the forecast of a city", 3)
    assert set(list(sketch.tools)[:2]) == {"forecast", "find_city"}
    assert {sketch.why[name].kind for name in ("forecast", "find_city")} == {"words"}
    assert sketch.of == 42


def test_tools_that_were_searched_for_stand_in_the_layers_that_schemas_say() -> None:
    more = [make_tool(name, lambda _: 1) for name in ("send_forecast", "get_forecast_reader")]
    tools = crowd() + Toolset(map(from_somewhere, more))
    first, *rest = sketched(Catalogue(tools), "get the reader, then send the forecast of a city", 4).layers
    assert set(first) == {"find_city", "send_forecast", "get_forecast_reader"}
    assert rest == [("forecast",)]


def test_an_edge_of_the_search_has_the_evidence_that_the_graph_has() -> None:
    edge = ("find_city", ("city_id",), "forecast", "city_id")
    known = Learnt(calls={"find_city": Counts(9), "forecast": Counts(9)}, feeds={edge: Counts(9)})
    for store, evidence in ((Remembers(), "names"), (Remembers(known), "seen")):
        sketch = sketched(Catalogue(crowd(), store=store), "the forecast of a city", 3)
        edges = [(each.supplier.tool, each.evidence) for each in sketch.feeds if each.consumer == "forecast"]
        assert edges == [("find_city", evidence)]


def test_where_nothing_fits_the_first_are_offered() -> None:
    sketch = sketched(Catalogue(crowd()), "????", 3)
    assert [why.kind for why in sketch.why.values()] == ["first"] * 3


def test_a_result_and_its_json_have_the_sketch_and_the_trace_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with agent(crowd(), **few(monkeypatch, 3)) as solving:
        result = solving.run("the forecast of a city")
    assert result.value == "rain in 7"
    assert result.sketch is not None
    assert result.sketch.why["find_city"].kind == "words"
    assert Result.model_validate_json(result.model_dump_json()).sketch == result.sketch
    old = Result.model_validate(result.model_dump(mode="json", exclude={"sketch"}))
    assert old.sketch is None
    chosen = solving.store.find(result.run_id).first("tools_chosen")
    assert chosen is not None
    assert SketchFacts.of_trace(chosen) == result.sketch
    ended = solving.store.find(result.run_id).first("run_ended")
    assert ended is not None
    assert "sketch" not in ended  # the trace has it already


@pytest.mark.parametrize("data", [{}, {"tools": ["a"], "of": "many"}, {"tools": ["a"], "why": 3, "plan": "p"}])
def test_a_trace_that_somebody_wrote_is_read_as_far_as_it_goes(data: dict[str, Any]) -> None:
    facts = SketchFacts.of_trace(data)
    assert facts.tools == tuple(data.get("tools", ()))
    assert facts.plan == data.get("plan", "")


def test_the_facts_know_the_evidence_that_edges_have() -> None:
    assert get_args(FeedFacts.model_fields["evidence"].annotation) == get_args(Evidence)


def test_a_sketch_is_read_back_from_its_facts() -> None:
    sketch = sketched(Catalogue(crowd()), "the forecast of tomorrow", 3)
    assert Sketch.of_facts(sketch.facts(), sketch.tools).facts() == sketch.facts()


def test_a_shared_catalogue_serves_several_agents() -> None:
    catalogue = Catalogue(weather())
    assert Agent(catalogue=catalogue).tools is catalogue.tools
    assert Agent(catalogue.tools, catalogue=catalogue).catalogue is catalogue
    with pytest.raises(UsageError, match="not those of the catalogue"):
        Agent(crowd(), catalogue=catalogue)
    with pytest.raises(UsageError, match="a catalogue has its retriever"):
        Agent(catalogue=catalogue, retriever=Wrong())
    with pytest.raises(UsageError, match="at least one tool"):
        Catalogue([])


# A retriever of one's own


class Wrong:
    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Any) -> Any:
        return ["forecast"]


def test_a_retriever_that_gives_no_sketch_is_named() -> None:
    with pytest.raises(UsageError, match=r"Wrong\.retrieve must return an atc\.Sketch of tools, not list"):
        sketched(Catalogue(weather(), retriever=Wrong()))


# What was learnt


def test_the_next_run_knows_what_this_one_did(tmp_path: Path) -> None:
    with agent(weather()) as solving:
        solving.run("the forecast")
        assert solving.catalogue.settle()
        assert solving.catalogue.graph.learnt.calls["forecast"].ok == 1
        solving.run("the forecast")
    other = Catalogue(weather())  # as another process would open it
    assert solving.catalogue.settle()
    learnt = other.graph.learnt
    assert learnt.calls["find_city"].ok == 2
    assert learnt.feeds[("find_city", ("city_id",), "forecast", "city_id")].ok == 2
    assert other.graph is other.graph  # read once, as long as nothing changes
    assert (tmp_path / "catalogue").stat().st_mode & 0o777 == 0o700


def test_a_failed_run_is_learnt_from_too_and_one_that_raises_does_not_fail_for_it() -> None:
    store = Remembers()
    catalogue = Catalogue(weather(), store=store)
    model = FakeModel(["```python\nanswer = forcast(city_id=1) + None\n```"] * 9)
    Agent(catalogue=catalogue, model=model, sentence=False).run("the forecast")
    assert catalogue.settle()
    assert store.added == []  # it has no answer, and no tool failed: nothing to learn


@pytest.mark.parametrize(
    ("settings", "learns"),
    [
        ({}, True),
        ({"learn": False}, False),
        ({"keep_runs": False}, False),
        ({"keep_runs": False, "learn": True}, True),
    ],
)
def test_learning_is_turned_off(settings: dict[str, Any], learns: bool, tmp_path: Path) -> None:
    with agent(weather(), **settings) as solving:
        solving.run("the forecast")
        assert solving.catalogue.settle()
    assert any((tmp_path / "catalogue").glob(f"{STORE}*")) is learns
    assert Settings.load(**settings).learns is learns


def test_with_learn_off_nothing_that_was_learnt_is_used_either() -> None:
    known = Learnt(calls={"forecast": Counts(9)})
    assert Catalogue(weather(), store=Remembers(known)).graph.learnt is known
    assert not Catalogue(weather(), store=Remembers(known), settings=Settings.load(learn=False)).graph.learnt


def test_with_learn_off_what_the_user_said_counts_all_the_same() -> None:
    edge = ("find_city", ("city_id",), "forecast", "city_id")
    known = Learnt(calls={"forecast": Counts(9)}, corrected_feeds={edge: True})
    graph = Catalogue(weather(), store=Remembers(known), settings=Settings.load(learn=False)).graph
    assert graph.learnt == Learnt(corrected_feeds={edge: True})
    assert [feed.evidence for feed in graph.feeds("forecast")] == ["corrected"]


def test_tools_without_a_stable_source_are_not_learnt() -> None:
    store = Remembers()
    named = weather("builtins:<bound method at 0x7f12>")
    catalogue = Catalogue(Toolset([*named.values(), make_tool("bare", lambda _: 1)]), store=store)
    Agent(catalogue=catalogue, model=FakeModel([PROGRAM]), sentence=False).run("the forecast")
    assert catalogue.settle()
    assert catalogue.graph is not None
    assert (store.added, store.tools) == ([], [])


def test_a_store_that_fails_is_noted_once_and_the_runs_go_on(caplog: pytest.LogCaptureFixture) -> None:
    catalogue = Catalogue(weather(), store=Remembers(fails=OSError(28, "No space left on device")))
    with caplog.at_level(logging.WARNING), agent_of(catalogue) as solving:
        values = [solving.run("the forecast").value for _ in range(3)]
        assert catalogue.settle()
    assert values == ["rain in 7"] * 3
    told = [record.message for record in caplog.records]
    assert sorted(told) == [
        "nothing is learnt from runs now: [Errno 28] No space left on device",
        "what runs have taught cannot be read: [Errno 28] No space left on device",
    ]


def agent_of(catalogue: Catalogue) -> Agent:
    return Agent(catalogue=catalogue, model=FakeModel([PROGRAM] * 9), sentence=False)


def test_nobody_waits_for_a_slow_store() -> None:
    held, begun = threading.Event(), threading.Event()

    class Slow(Remembers):
        def add(self, lessons: Lessons, tools: Mapping[str, Protocol], now: float | None = None) -> None:
            begun.set()
            held.wait(30)

    catalogue = Catalogue(weather(), store=Slow())
    with agent_of(catalogue) as solving:
        assert solving.run("the forecast").status == "answered"  # its lessons wait
        assert begun.wait(30)
        assert not catalogue.settle(0)
        assert solving.run("the forecast").status == "answered"  # and the next run does not wait for them
    held.set()
    assert catalogue.settle(30)
    assert PATIENCE_S < 1


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_folder_that_cannot_be_written_is_said_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """``/proc`` takes no files, not even from root."""
    with caplog.at_level(logging.WARNING), agent(weather(), catalogue="/proc/self/nothing") as solving:
        assert solving.run("the forecast").value == "rain in 7"
        assert solving.catalogue.settle()
    assert len(caplog.records) == 1
    assert "/proc/self/nothing" in caplog.text


def test_tools_that_changed_since_are_other_tools(tmp_path: Path) -> None:
    with agent(weather()) as solving:
        solving.run("the forecast")
        assert solving.catalogue.settle()
    changed = [
        tool if name != "forecast" else Tool(tool.protocol.model_copy(update={"name": "weather"}), tool.transport)
        for name, tool in weather().items()
    ]
    learnt = Catalogue(Toolset(changed)).graph.learnt
    assert "weather" in learnt.calls  # a new name in a toolset changes nothing
    assert not Catalogue(weather("https://elsewhere.example")).graph.learnt
    assert store_in(tmp_path / "catalogue").learnt({name: tool.protocol for name, tool in weather().items()})


def test_a_conversation_is_learnt_task_by_task() -> None:
    store = Remembers()
    catalogue = Catalogue(weather(), store=store)
    with agent_of(catalogue) as solving, solving.conversation() as talk:
        talk.run("the forecast")
        talk.run("and again")
        assert catalogue.settle()
    assert [lessons.answered for lessons in store.added] == [True, True]
    assert len({lessons.id for lessons in store.added}) == 2


def test_a_run_that_goes_on_is_learnt_once() -> None:
    failing = "```python\nanswer = forecast(city_id=find_city()['city_id'])[99]\n```"
    tools = weather()
    with agent(tools, failing, max_revisions=0) as solving:
        first = solving.run("the forecast")
    assert first.status == "unsolved"
    for _ in range(2):
        with agent(tools) as solving:
            if first.status == "unsolved":
                first = solving.resume(first.run_id)
            assert solving.catalogue.settle()
    assert first.status == "answered"
    assert Catalogue(tools).graph.learnt.calls["forecast"].ok == 1


# What was used together


def test_a_tool_that_is_gone_is_not_offered() -> None:
    gone = Learnt(calls={"forecast": Counts(4)}, follows={("forecast", "no_more"): Counts(4)})
    sketch = sketched(Catalogue(crowd(), store=Remembers(gone)), "the forecast of tomorrow", 4)
    assert "no_more" not in sketch.tools


def test_what_took_a_place_before_is_named_and_what_the_user_took_away_is_not() -> None:
    known = Learnt(
        replaced={
            ("forecast", "unrelated_1"): Counts(1),
            ("forecast", "unrelated_2"): Counts(5),
            ("forecast", "unrelated_3"): Counts(9),
            ("forecast", "unrelated_4"): Counts(0, 3),
            ("forecast", "no_more"): Counts(9),
        },
        corrected_substitutes={("forecast", "unrelated_3"): False, ("forecast", "unrelated_5"): True},
    )
    sketch = sketched(Catalogue(crowd(), store=Remembers(known)), "the forecast of tomorrow", 4)
    assert sketch.substitutes == {"forecast": ("unrelated_5", "unrelated_2", "unrelated_1")}
    assert "unrelated_5" not in sketch.tools


def test_tools_that_say_nothing_of_themselves_are_offered_too() -> None:
    bare = [Tool(Protocol(name=f"f{n}", parameters={}, returns=None)) for n in range(30)]
    odd = [Tool(Protocol(name="g", parameters={"properties": {"x_id": True}}, returns={"$ref": "#"}))]
    assert len(sketched(Catalogue(Toolset(bare)), "anything", 20).tools) == 20
    assert len(sketched(Catalogue(Toolset([*bare[:5], *odd])), "anything", 20).tools) == 6

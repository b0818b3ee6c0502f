"""A good run is kept as a tool: proposed, confirmed where it must be, tried on the recorded calls, written, called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, Tool, Toolset, UsageError, tool
from atc._records.keeping import Proposal
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.settings import Settings
from atc.tools.kept_files import read_kept
from tests.support import openapi
from tests.support.agent import code
from tests.support.tools import make_tool

TEXT = {"type": "string"}
PEOPLE = {"Lyon": 520, "Oslo": 700, "Bern": 140}


class World:
    """A few tools, and what was done by them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sent: list[tuple[str, str]] = []

    def find(self, given: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(given["city"])
        return {"id": f"C-{given['city']}", "people": PEOPLE[given["city"]]}

    def city(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"people": PEOPLE[given["id"].removeprefix("C-")]}

    def send(self, given: dict[str, Any]) -> dict[str, Any]:
        self.sent.append((given["to"], given["text"]))
        return {"ok": True}

    @property
    def tools(self) -> Toolset:
        return Toolset(
            [
                make_tool("find_city", self.find, required=("city",), city=TEXT),
                make_tool("get_city", self.city, required=("id",), id=TEXT),
                make_tool("send", self.send, Effect.WRITE, required=("to", "text"), to=TEXT, text=TEXT),
            ]
        )

    def agent(self, *programs: str, tools: Any = None, **given: Any) -> Agent:
        settings = {"sentence": False, "approve": "always", **given}
        return Agent(self.tools if tools is None else tools, model=FakeModel([*map(code, programs)]), **settings)


@pytest.fixture
def world() -> World:
    return World()


def the_file(name: str) -> Path:
    return Settings.load().kept_dir / f"{name}.atc"


SUM = "answer = sum(find_city(city=each)['people'] for each in ['Lyon', 'Oslo'])"
TASK = "How many people live in Lyon and Oslo?"


def test_a_run_is_kept_and_called_without_a_model(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        kept = agent.keep(run.run_id, "people_of")
        asked = list(world.asked)
        assert asked == ["Lyon", "Oslo"], "to keep it calls nothing"
        assert agent.call("people_of", cities=["Bern"]).value == 140
        assert "people_of" not in agent.tools, "it is not offered"
    protocol = kept.protocol
    assert protocol.description == "How many people live in `cities`?"
    assert protocol.parameters["properties"] == {
        "cities": {"type": "array", "items": {"type": "string"}, "examples": [["Lyon", "Oslo"]]}
    }
    assert protocol.parameters["required"] == ["cities"]
    assert (protocol.effect, protocol.source.kind) == (Effect.READ, "kept")
    assert kept.kept is not None
    assert kept.kept.run == run.run_id
    assert [each.name for each in kept.kept.uses] == ["find_city"]


def test_the_file_is_the_owners_alone_and_says_what_was_kept(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        agent.keep(run.run_id, "people_of", parameters={"cities": {"name": "towns", "description": "which"}})
    path = the_file("people_of")
    assert path.stat().st_mode & 0o777 == 0o600
    file = read_kept(path.read_bytes(), str(path), path)
    assert file.program == "answer = sum(find_city(city=each)['people'] for each in towns)\n"
    assert file.parameters["properties"]["towns"]["description"] == "which"
    assert (file.run, file.made[-1]) == (run.run_id, "Z")


def test_a_kept_program_is_called_by_another_that_is_kept_too(world: World) -> None:
    with world.agent(SUM) as agent:
        kept = agent.keep(agent.run(TASK).run_id, "people_of")
    outer = "answer = people_of(cities=['Lyon']) * 2"
    with world.agent(outer, tools=[*world.tools.values(), kept]) as agent:
        run = agent.run("Twice the people of Lyon")
        assert run.value == 1040
        agent.keep(run.run_id, "twice", parameters={"cities": "where"})
        assert agent.call("twice", where=["Bern"]).value == 280
    with world.agent() as agent:
        assert agent.call("twice", where=["Oslo"]).value == 1400, "what it calls is found in the data folder"


def test_the_type_that_was_asked_for_is_the_types_of_the_tool(world: World) -> None:
    with world.agent(SUM) as agent:
        kept = agent.keep(agent.run(TASK, answer=int).run_id, "people_of")
    assert kept.protocol.returns is not None
    assert kept.protocol.returns["type"] == "integer"


def test_of_a_given_program_the_inputs_are_parameters(world: World) -> None:
    program = "# people of a place\nanswer = find_city(city=place)['people'] > 100"
    with world.agent() as agent:
        run = agent.run_program(program, inputs={"place": "Lyon"})
        kept = agent.keep(run.run_id, "is_large")
        assert agent.call("is_large", place="Oslo").value is True
    assert kept.protocol.description == "people of a place"
    assert kept.protocol.parameters["properties"] == {"place": {"type": "string"}}


def test_a_literal_of_a_given_program_is_a_parameter_where_the_user_says_so(world: World) -> None:
    with world.agent() as agent:
        run = agent.run_program("answer = find_city(city='Lyon')['people']")
        assert agent.keep(run.run_id, "lyon").protocol.parameters["properties"] == {}
        lifted = agent.keep(run.run_id, "people_of", lift=["Lyon"])
        assert [*lifted.protocol.parameters["properties"]] == ["city"]
        assert agent.call("people_of", city="Bern").value == 140


def test_a_later_task_of_a_conversation_is_kept_with_what_it_was_given(world: World) -> None:
    programs = ("found = find_city(city='Lyon')\nanswer = found['people']", "answer = find_city(city='Oslo')['people']")
    with world.agent(*programs) as agent, agent.conversation() as talk:
        talk.run("people of Lyon")
        second = talk.run("and of Oslo?")
        kept = agent.keep(second.run_id, "people_of")
        assert agent.call("people_of", city="Bern").value == 140
    assert kept.kept is not None
    assert "Lyon" not in kept.kept.program


# ----------------------------------------------------------------------------------------------------------------------
# What needs approval.


HARD_CODED = ("found = find_city(city='Oslo')\nlook(found['id'])", "answer = get_city(id='C-Oslo')['people']")


def test_a_value_that_a_call_had_returned_needs_a_yes_that_shows_the_program(world: World) -> None:
    shown: list[Proposal] = []

    def confirm(proposal: Proposal) -> bool:
        shown.append(proposal)
        return len(shown) > 1

    with world.agent(*HARD_CODED) as agent:
        run = agent.run("people of Oslo")
        with pytest.raises(UsageError, match=r"'C-Oslo': find_city had returned it.*confirm=True"):
            agent.keep(run.run_id, "oslo")
        with pytest.raises(UsageError, match="only after an approval"):
            agent.keep(run.run_id, "oslo", confirm=confirm)
        assert not the_file("oslo").exists()
        agent.keep(run.run_id, "oslo", confirm=confirm)
    assert shown[0].program.strip() == HARD_CODED[1]
    assert [each.value for each in shown[0].to_confirm] == ["C-Oslo"]


def test_such_a_value_that_becomes_a_parameter_needs_none(world: World) -> None:
    with world.agent(*HARD_CODED) as agent:
        agent.keep(agent.run("people of Oslo").run_id, "people", lift=["C-Oslo"])
        assert agent.call("people", city_id="C-Bern").value == 140


def test_a_value_of_an_earlier_task_needs_one_too(world: World) -> None:
    programs = ("answer = find_city(city='Lyon')['id']", "answer = get_city(id='C-Lyon')['people']")
    with world.agent(*programs) as agent, agent.conversation() as talk:
        talk.run("the id of Lyon")
        run = talk.run("and how many people live there?")
        with pytest.raises(UsageError, match="'C-Lyon': find_city had returned it"):
            agent.keep(run.run_id, "people_there")


def test_a_run_that_caught_a_failure_needs_a_yes(world: World) -> None:
    program = (
        "try:\n    found = find_city(city='Paris')\nexcept ToolError:\n    found = {'people': 1}\n"
        "answer = found['people'] + find_city(city='Oslo')['people']"
    )
    with world.agent(program) as agent:
        run = agent.run("people of Paris and Oslo")
        assert run.remarks
        with pytest.raises(UsageError, match="the run ended with a warning"):
            agent.keep(run.run_id, "people")
        agent.keep(run.run_id, "people", confirm=True)


def test_a_program_whose_author_saw_text_of_strangers_needs_a_yes(world: World) -> None:
    mail = make_tool("read_mail", lambda given: {"text": "mallory"}, n={"type": "integer"})
    untrusted = replace(mail, protocol=mail.protocol.model_copy(update={"untrusted": True}))
    programs = ("mail = read_mail(n=1)\nlook(mail)", "answer = find_city(city='Oslo')['people']")
    with world.agent(*programs, tools=Toolset([untrusted, *world.tools.values()])) as agent:
        run = agent.run("people of Oslo")
        with pytest.raises(UsageError, match="text that strangers write, of read_mail"):
            agent.keep(run.run_id, "people")
        agent.keep(run.run_id, "people", confirm=True)


def test_a_run_that_others_may_have_written_needs_a_yes(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        assert run.trace is not None
        Path(run.trace).chmod(0o666)
        with pytest.raises(UsageError, match="only after an approval"):
            agent.keep(run.run_id, "people_of")
        agent.keep(run.run_id, "people_of", confirm=True)


# ----------------------------------------------------------------------------------------------------------------------
# What is refused.


KEY = "sk-live-abcdefghijklmnop0123"


@pytest.mark.parametrize(
    ("task", "program", "why"),
    [
        pytest.param("people", f"key = '{KEY}'\nanswer = find_city(city='Oslo')", "line 1: a credential", id="text"),
        pytest.param("people", f"# {KEY}\nanswer = find_city(city='Oslo')", "line 1: a credential", id="comment"),
        pytest.param(
            "p", f"x = f'a {KEY} {{1}}'\nanswer = find_city(city='Oslo')", "line 1: a credential", id="f-text"
        ),
        pytest.param(f"{KEY}", "answer = find_city(city='Oslo')", "stands in what the tool does", id="task"),
        pytest.param(
            "people", "import sys\nanswer = find_city(city='Oslo')\nsys.exit(0)", "line 3: .*sys.exit", id="exit"
        ),
        pytest.param(
            "p", "n = 0\ndef f():\n    global n\n    n = find_city(city='Oslo')\nf()\nanswer = n", "global", id="global"
        ),
    ],
)
def test_a_program_that_cannot_be_a_tool_is_refused(world: World, task: str, program: str, why: str) -> None:
    with world.agent(program) as agent:
        run = agent.run(task)
        assert run.status == "answered", run.fault
        with pytest.raises(UsageError, match=why):
            agent.keep(run.run_id, "people", confirm=True)
    assert not the_file("people").exists()


def test_a_program_that_does_otherwise_as_a_tool_is_refused(world: World) -> None:
    hints = "import typing\nclass A: pass\ndef f(x: 'A'): return x\nfound = typing.get_type_hints(f)\n"
    with world.agent(f"{hints}answer = find_city(city='Oslo')") as agent:
        run = agent.run("people")
        assert run.status == "answered", run.fault
        with pytest.raises(UsageError, match=r'line 4: .* ends without an answer: "NameError'):
            agent.keep(run.run_id, "people", confirm=True)
    assert not the_file("people").exists()


def test_a_program_that_does_otherwise_on_the_recorded_calls_is_refused(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        assert run.trace is not None
        trace = Path(run.trace)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        for each in lines:
            if each["kind"] == "call_ended" and each["data"]["value"]["people"] == 700:
                each["data"]["value"]["people"] = 7
        trace.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        with pytest.raises(
            UsageError, match=r"on the recorded calls .* its answer is another \(value was 1220, is 527"
        ):
            agent.keep(run.run_id, "people_of", confirm=True)


def failed(world: World) -> tuple[Agent, Result]:
    agent = world.agent("answer = find_city(city='Paris')", max_revisions=0)
    return agent, agent.run("people of Paris")


def dry(world: World) -> tuple[Agent, Result]:
    agent = world.agent("answer = find_city(city='Oslo')")
    return agent, agent.run("people of Oslo", dry_run=True)


def planned(world: World) -> tuple[Agent, Result]:
    agent = world.agent("answer = send(to='bob', text='hi')")
    return agent, agent.run("send hi to bob", dry_run=True)


@pytest.mark.parametrize(("run_it", "why"), [(failed, "it ended as"), (planned, "it ended as planned")])
def test_only_a_run_that_answered_is_kept(
    world: World, run_it: Callable[[World], tuple[Agent, Result]], why: str
) -> None:
    agent, run = run_it(world)
    with agent, pytest.raises(UsageError, match=why):
        agent.keep(run.run_id, "people")


def test_a_dry_run_without_writes_is_not_kept(world: World) -> None:
    agent, run = dry(world)
    with agent, pytest.raises(UsageError, match="cannot be kept"):
        agent.keep(run.run_id, "people")


def test_a_run_that_was_undone_is_not_kept() -> None:
    @tool(effect="write", undo="drop(name=$name)")
    def make(name: str) -> str:
        """Make it."""
        return name

    @tool(effect="write")
    def drop(name: str) -> str:
        """Drop it."""
        return name

    with World().agent("answer = make(name='a')", tools=[make, drop]) as agent:
        run = agent.run("make a")
        agent.undo(run.run_id)
        with pytest.raises(UsageError, match="it was undone by run"):
            agent.keep(run.run_id, "maker", confirm=True)


@pytest.mark.parametrize("name", ["find_city", "answer", "ask_user", "Two", "a b", "../x", "len", "", "class"])
def test_a_name_that_means_something_else_is_refused(world: World, name: str) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        with pytest.raises(UsageError, match="is not free"):
            agent.keep(run.run_id, name)


def test_a_program_of_that_name_is_replaced_only_where_it_is_said(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        agent.keep(run.run_id, "people_of")
        with pytest.raises(UsageError, match=r"is there already: .*replace=True"):
            agent.keep(run.run_id, "people_of")
        agent.keep(run.run_id, "people_of", about="Counts people.", replace=True)
    assert 'description = "Counts people."' in the_file("people_of").read_text()


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"parameters": {"nope": "x"}}, "no 'nope' to change; parameters: cities"),
        ({"constants": ["nope"]}, "no 'nope'"),
        ({"lift": ["Bern"]}, "no 'Bern'"),
        ({"parameters": {"cities": "find_city"}}, "'find_city' is not free"),
        ({"parameters": {"cities": {"type": "integer"}}}, "cities does not take what it was in the run"),
        ({"parameters": {"cities": {"type": "nope"}}}, "the schema of cities"),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused(world: World, edits: dict[str, Any], why: str) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
        with pytest.raises(UsageError, match=why):
            agent.keep(run.run_id, "people_of", **edits)


def test_a_tool_that_is_not_there_any_more_is_named(world: World) -> None:
    with world.agent(SUM) as agent:
        run = agent.run(TASK)
    others = Toolset(each for name, each in world.tools.items() if name != "find_city")
    missing = pytest.raises(UsageError, match="calls find_city, which is not among the tools")
    with world.agent(tools=others) as agent, missing:
        agent.keep(run.run_id, "people_of")


# ----------------------------------------------------------------------------------------------------------------------
# What a kept program may do.


def test_each_write_of_a_kept_program_is_asked_about_as_its_own(world: World) -> None:
    asked: list[tuple[str, Any]] = []

    def approve(request: Any) -> bool:
        asked.append((request.tool, dict(request.arguments)))
        return bool(request.arguments["to"] == "bob")

    with world.agent("answer = send(to='bob', text='hi')", approve=approve) as agent:
        kept = agent.keep(agent.run("send hi to bob").run_id, "greet")
        assert kept.protocol.effect is Effect.WRITE
        assert len(world.sent) == 1, "to keep it sends nothing"
        assert agent.call("greet", to="bob", text="yo").value == {"ok": True}
        assert agent.call("greet", to="eve", text="yo").status == "denied"
    assert [tool for tool, _ in asked] == ["send"] * 3
    assert world.sent == [("bob", "hi"), ("bob", "yo")]


def test_a_kept_file_elsewhere_needs_trust(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with world.agent(SUM) as agent:
        agent.keep(agent.run(TASK).run_id, "people_of", into=folder)
    assert (folder / "people_of.atc").exists()
    with pytest.raises(UsageError, match="atc trust"):
        world.tools.with_kept(folder / "people_of.atc")


def test_a_tool_object_is_offered_as_any_other(world: World) -> None:
    with world.agent(SUM) as agent:
        kept: Tool = agent.keep(agent.run(TASK).run_id, "people_of")
    with world.agent("answer = people_of(cities=['Bern'])", tools=[*world.tools.values(), kept]) as agent:
        run = agent.run("people of Bern")
    assert run.value == 140
    assert [call.within for call in run.calls] == ["people_of"]


def test_a_program_over_a_service_is_kept_with_the_services_own_names(world: World) -> None:
    names = [
        {"name": "page[size]", "in": "query", "required": True, "schema": {"type": "integer", "maximum": 50}},
        {"name": "from", "in": "query", "required": True, "schema": {"type": "string"}},
    ]
    with openapi.running_server() as server:
        server.answer = openapi.Answer(b'{"found": 7}')
        operation = openapi.operation(*names, returns={"type": "object"}, operationId="find", description="Find.")
        document = openapi.document({"/find": {"get": operation}}, servers=[{"url": server.url}])
        program = "answer = find(page_size=20, from_='Lyon')['found']"
        with world.agent(program, tools=Toolset.from_openapi(document)) as agent:
            kept = agent.keep(agent.run("the first 20 from Lyon").run_id, "first_from")
            assert agent.call("first_from", page_size=5, from_="Oslo").value == 7
            with pytest.raises(UsageError, match="greater than the maximum of 50"):
                agent.call("first_from", page_size=51, from_="Oslo")
    assert [*kept.protocol.parameters["properties"]] == ["page_size", "from_"]

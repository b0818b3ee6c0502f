"""Of many tools a prompt has a list of names beside the documents of the likeliest; whatever exists can be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset
from atc.catalogue.sketch import FEW
from atc.catalogue.tool_list import ToolLister
from atc.models.base import Message
from atc.programs.program import Program
from atc.result import Effect
from atc.run.named_tools import NamedTools, names_in
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Tool
from tests.support.tools import make_tool

SERVICES = ("Asana", "Spotify")
THINGS = [
    f"{verb}_{thing}" for verb in ("get", "list", "find") for thing in ("project", "task", "user", "song", "team")
]


def of(
    service: str, name: str, does: Callable[[dict[str, Any]], Any] = lambda a: a, effect: Effect = Effect.READ
) -> Tool:
    made = make_tool(name, does, effect, required=("id",), id={"type": "string"}, page={"type": "integer"})
    about = {"description": f"{name.replace('_', ' ')} of {service}. {'A long text. ' * 12}", "effect": effect}
    source = Source(kind="document", location=f"{service.lower()}.yaml", operation=name, title=service)
    return Tool(Protocol(**made.protocol.model_dump() | about | {"source": source}), made.transport)


def catalogue(*more: Tool) -> Toolset:
    tools = [of(service, f"{service.lower()}_{thing}") for service in SERVICES for thing in THINGS]
    return Toolset([*tools, *more])


def code(program: str) -> str:
    return f"```python\n{program}\n```"


def ran(
    *replies: str, tools: Toolset | None = None, task: str = "the song of spotify", **given: Any
) -> tuple[Result, FakeModel]:
    model = FakeModel(replies)
    settings: dict[str, Any] = {"stub_tokens": 600, "sentence": False, "approve": "always", **given}
    with Agent(tools or catalogue(), model=model, **settings) as agent:
        return agent.run(task), model


def shown(messages: list[Message]) -> list[str]:
    lines = messages[-1].content.splitlines()
    return [line.partition("(")[0].removeprefix("def ") for line in lines if line.startswith("def ")]


def listed(messages: list[Message]) -> list[str]:
    block = messages[-1].content.partition("```text\n")[2].partition("\n```")[0]
    return [line.partition("(")[0] for line in block.splitlines() if not line.startswith("#")]


def test_what_fits_is_shown_whole_and_there_is_no_list() -> None:
    _, model = ran(code("answer = asana_get_project(id='7')"), stub_tokens=60_000)
    assert len(shown(model.prompts[0])) == len(catalogue()) > FEW
    assert "The tools by service" not in model.prompts[0][-1].content


def test_else_all_are_listed_by_service_and_the_likeliest_are_shown_whole() -> None:
    result, model = ran(code("answer = spotify_get_song(id='7')"))
    assert result.value == {"id": "7"}
    first = model.prompts[0]
    assert listed(first) == sorted(catalogue())
    assert shown(first) == [name for name in shown(first) if "song" in name] != []
    text = first[-1].content
    assert text.index("# Asana") < text.index("# Spotify") < text.index("def spotify_") < text.index("Task: the song")
    assert "(most take page?)" in text
    assert "asana_get_project(id)" in text
    assert "find_tools" not in text


def test_the_prompt_begins_the_same_for_other_tasks() -> None:
    _, one = ran(code("answer = 1"), max_revisions=0)
    _, other = ran(code("answer = 1"), task="a team of asana", max_revisions=0)
    begins = one.prompts[0][-1].content[: one.prompts[0][-1].stable]
    assert "asana_get_project(id)" in begins
    assert other.prompts[0][-1].content.startswith(begins)


@pytest.mark.parametrize("spelling", ["asana_get_project", "asanaGetProject", "asana.get_project", "Asana.getProject"])
def test_what_is_only_listed_is_called_in_any_spelling(spelling: str) -> None:
    result, model = ran(code(f"answer = {spelling}(id='7')"))
    assert (result.value, len(model.prompts), result.calls[0].tool) == ({"id": "7"}, 1, "asana_get_project")
    assert "asana_get_project" not in shown(model.prompts[0])


def test_a_name_that_may_mean_two_tools_is_taken_for_neither() -> None:
    result, model = ran(code("answer = get_project(id='7')"), code("answer = asana_get_project(id='7')"))
    assert (result.value, len(model.prompts)) == ({"id": "7"}, 2)
    assert "is not defined" in model.prompts[1][-1].content


def test_a_listed_write_is_asked_about_and_made_once() -> None:
    made: list[Any] = []
    pay = of("Asana", "asana_pay", lambda a: made.append(a["id"]), Effect.WRITE)
    asked: list[str] = []
    result, _ = ran(
        code("asana_pay(id='7')\nanswer = asana_get_project(id='7')['name']"),
        code("asana_pay(id='7')\nanswer = asana_get_project(id='7')['id']"),
        tools=catalogue(pay),
        approve=lambda request: bool(asked.append(request.tool)) or True,
    )
    assert (result.value, made, asked) == ("7", ["7"], ["asana_pay"])


def test_a_call_that_does_not_fit_shows_the_document() -> None:
    wrong = code("answer = asana_get_project(project='7')")
    result, model = ran(wrong, code("answer = asana_get_project(id='7')"))
    assert (result.value, len(result.revisions)) == ({"id": "7"}, 2)
    assert "asana_get_project" in shown(model.prompts[1])
    assert "is not defined" not in model.prompts[1][-1].content


NAMES = ("asana_get_project", "asana_list_task")


@pytest.mark.parametrize(
    "reply",
    [
        'tool_docs("asana_get_project", "asana_list_task")',
        code("tool_docs('asana_get_project', 'asana_list_task')"),
        code("answer = tool_docs(['asana_get_project', 'asana_list_task'])"),
        code("print(tool_docs(names=['asana_get_project', 'asana_list_task']))"),
        code("tool_docs('asana_get_project')\ntool_docs('asana_list_task')"),
        "asana_get_project, asana_list_task",
        "- asana_get_project\n- asana_list_task",
        "1. `asana_get_project`\n2. `asana_list_task`",
        '["asana_get_project", "asana_list_task"]',
        '```json\n{"tools": ["asana_get_project", "asana_list_task"]}\n```',
        "asana_get_project(id, page?)\nasana_list_task(id, page?)",
    ],
)
def test_a_reply_that_asks_for_documents_gets_them_and_costs_no_revision(reply: str) -> None:
    result, model = ran(reply, code("answer = asana_get_project(id='7')"), max_revisions=0)
    assert (result.value, len(result.revisions)) == ({"id": "7"}, 1)
    assert set(NAMES) <= set(shown(model.prompts[1]))


@pytest.mark.parametrize("reply", ["asana_get_project and I think no more", "get_nothing", "", "answer = 1", "f(x)"])
def test_any_other_reply_asks_for_nothing(reply: str) -> None:
    assert names_in(reply, catalogue(), None) == []


def test_a_reply_that_does_not_parse_is_read_as_well_as_before() -> None:
    result, model = ran(code("while"), code("asana_get_project("), code("answer = asana_get_project(id='7')"))
    assert (result.value, len(model.prompts)) == ({"id": "7"}, 3)


def test_a_program_that_calls_is_no_list() -> None:
    program = Program("asana_get_project()\n")
    assert names_in(program.source, catalogue(), program) == []


def test_a_list_without_room_for_all_says_how_many_more_there_are_and_they_are_found() -> None:
    many = Toolset(of("Huge", f"do_thing_{n}") for n in range(900))
    tools = many + catalogue()
    search, call = code("find_tools(query='do thing 77')"), code("answer = do_thing_77(id='7')")
    result, model = ran(search, call, tools=tools, list_tokens=1_000)
    assert result.value == {"id": "7"}
    first, second = model.prompts
    assert "more tools are not listed (Huge: " in first[-1].content
    assert "find_tools" in first[-1].content
    assert "do_thing_77" in shown(second)
    assert shown(second)[: len(shown(first)) - 1] == shown(first)[:-1]  # what it found stands behind


def test_a_service_that_the_task_names_has_places_in_the_list() -> None:
    tools = Toolset(of("Huge", f"song_{n}") for n in range(300)) + catalogue()
    protocols = {name: tool.protocol for name, tool in tools.items()}
    best = [name for name in protocols if name.startswith("song_")]
    lister = ToolLister(protocols)
    names = lister.names(400, best, "find a song in Asana")
    assert {name for name in names if name.startswith("asana_")} == {n for n in protocols if n.startswith("asana_")}
    assert len(lister.text(names, 400)) <= 400 * 4


def test_what_a_conversation_showed_stays() -> None:
    model = FakeModel([code("answer = spotify_get_song(id='7')"), code("answer = asana_list_team(id='7')")])
    with Agent(catalogue(), model=model, stub_tokens=600, sentence=False) as agent, agent.conversation() as talk:
        talk.run("the song of spotify")
        talk.run("and the team of asana")
    first, second = model.prompts
    assert set(shown(first)) <= set(shown(second))
    assert "asana_list_team" in shown(second)


def test_what_was_shown_is_shown_again_after_a_resume() -> None:
    class Stop(BaseException):
        pass

    def stops(_: Any) -> str:
        raise Stop

    model = FakeModel(["asana_list_task", stops, code("answer = asana_list_task(id='7')")])
    with Agent(catalogue(), model=model, stub_tokens=600, sentence=False) as agent:
        with pytest.raises(Stop):
            agent.run("the song of spotify")
        result = agent.resume("last")
    assert result.value == {"id": "7"}
    assert listed(model.prompts[2]) == listed(model.prompts[0])
    assert set(shown(model.prompts[0])) | {"asana_list_task"} <= set(shown(model.prompts[2]))


def test_a_name_of_the_programs_own_is_its_own() -> None:
    named = NamedTools(catalogue())
    own = Program("def asana_get_project(id):\n    return 1\nanswer = asana_get_project(id=1)\n")
    assert named.of(own) == []
    assert named.of(Program("answer = asana_get_project\n"), ["asana_get_project"]) == []
    assert named.rewritten(Program("asana = 1\nanswer = asana.get_project(id=1)\n"))[1] == ()

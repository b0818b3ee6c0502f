"""A program calls kept programs: each call that these make is a call of the run, decided about by itself."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset
from atc.calls.approval import ApprovalRequest
from atc.errors import UsageError
from atc.result import Effect
from atc.run.base import Ending, Strategy
from atc.run.kept_programs import KeptPrograms
from atc.run.run import Run
from atc.schemas.protocol import Source
from atc.tools.tool import Tool
from tests.support.kept import TEXT, kept
from tests.support.tools import make_tool

CITY = {"city": TEXT}
LEVEL = "answer = max(forecast(city=city)['rain'])"
REPORT = "level = level(city)\nstatus = send(text=f'{city}: {level}')\nanswer = {'level': level, 'status': status}"


class World:
    """The tools of a test, what was done with them, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sent, self.read = folder, list[str](), list[str]()
        self.level, self.report = LEVEL, REPORT
        self.copies = 0
        self.send, self.gone = "send", set[str]()

    def tools(self) -> list[Tool]:
        def forecast(arguments: dict[str, Any]) -> Any:
            city = arguments["city"]
            self.read.append(city)
            if city == "Atlantis":
                raise ValueError("there is no such city")
            return {"city": city, "rain": [1, 3, 2] if city != "Cairo" else []}

        def send(arguments: dict[str, Any]) -> str:
            self.sent.append(arguments["text"])
            return f"sent {len(self.sent)}"

        def mark(arguments: dict[str, Any]) -> str:
            self.copies += 1
            while (
                sum(each.read_text().count('"tool": "mark"') for each in self.folder.glob("*/trace.jsonl"))
                < self.copies
            ):
                time.sleep(0.001)  # a thread writes it
            shutil.copytree(self.folder, self.at_mark(self.copies))  # what there is if the process is killed now
            return "marked"

        reads = make_tool("forecast", forecast, Effect.READ, city=TEXT)
        writes = sourced(make_tool(self.send, send, Effect.WRITE, text=TEXT), "function", "shop:send", "send")
        marks = make_tool("mark", mark, Effect.READ)
        level = kept("level", self.level, reads, parameters=CITY)
        report = kept("report", self.report, level, writes, marks, parameters=CITY)
        report = sourced(replace(report, inner={**report.inner, "send": writes}), "kept", "/kept/report.atc", "report")
        report = replace(report, inner={name: each for name, each in report.inner.items() if name != "post"})
        return [each for each in (reads, writes, marks, level, report) if each.name not in self.gone]

    def at_mark(self, number: int) -> Path:
        return self.folder.with_name(f"at-mark-{number}")

    def agent(self, *programs: str, **given: Any) -> Agent:
        model = FakeModel([f"```python\n{program}\n```" for program in programs])
        settings = {"sentence": False, "approve": "always", "runs_dir": self.folder, "learn": False}
        return Agent(Toolset(self.tools()), model=model, **{**settings, **given})

    def run(self, program: str, **given: Any) -> Result[Any]:
        return self.agent(**given).run_program(program)


def sourced(tool: Tool, kind: str, location: str, operation: str) -> Tool:
    """Return a tool that is known by this at its source."""
    source = Source(kind=kind, location=location, operation=operation)
    return replace(tool, protocol=tool.protocol.model_copy(update={"source": source}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "runs")


def calls_of(result: Result[Any]) -> list[tuple[str, str, str]]:
    return [(call.tool, call.within, call.status) for call in result.calls]


def written(folder: Path, text: str) -> Path:
    path = folder / "permissions.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


# -- it runs ----------------------------------------------------------------------------------------------------------


def test_each_call_of_a_kept_program_is_a_call_of_the_run(world: World) -> None:
    result = world.run("answer = report('Bergen')")
    assert result.value == {"level": 3, "status": "sent 1"}
    assert calls_of(result) == [("forecast", "level", "ok"), ("send", "report", "ok")]
    assert [(call.shown_line, call.line > 1) for call in result.calls] == [(1, True), (1, True)]
    trace = [event for event in world.agent().store.find(result.run_id).events() if event["kind"] == "call_started"]
    assert [event["data"]["within"] for event in trace] == ["level", "report"]


def test_a_models_program_calls_it(world: World) -> None:
    result = world.agent("answer = report('Bergen')").run("send a report about Bergen")
    assert result.value == {"level": 3, "status": "sent 1"}
    assert result.revisions[-1].program.strip() == "answer = report('Bergen')", "what its author wrote"


def test_the_tools_that_it_calls_are_opened_and_not_offered(world: World) -> None:
    result = world.run("answer = report('Bergen')")
    (chosen,) = [
        event["data"]["tools"]
        for event in world.agent().store.find(result.run_id).events()
        if event["kind"] == "tools_chosen"
    ]
    assert list(chosen) == ["report"]


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("answer = parallel(lambda: level('a'), lambda: level(city='b'))", [3, 3]),
        ("answer = [level(str(n)) for n in range(100)][-1]", 3),
        ("level = level('a')\nanswer = level", 3),
        ("forecast = send = max = None\nanswer = report('a')", {"level": 3, "status": "sent 1"}),
        ("from functools import partial\nf = partial(level, 'a')\nanswer = list(map(level, 'bc')) + [f()]", [3, 3, 3]),
    ],
)
def test_it_is_called_as_any_function_is(world: World, program: str, value: Any) -> None:
    result = world.run(program)
    assert (result.status, result.value) == ("answered", value), result.fault and result.fault.message


def test_its_calls_count_against_the_budget_of_the_run(world: World) -> None:
    result = world.run("answer = [level(str(n)) for n in range(9)]", max_calls=5)
    assert result.status != "answered"
    assert len(world.read) == 5


def test_a_dry_run_plans_its_writes(world: World) -> None:
    result = world.agent().call("report", city="Bergen", dry_run=True)
    assert (result.status, world.sent) == ("planned", [])
    (planned,) = result.dry_run.planned if result.dry_run is not None else ()
    assert (planned.tool, planned.within, planned.arguments) == ("send", "report", {"text": "Bergen: 3"})
    assert planned.line == 1
    applied = world.agent().apply(result.run_id)
    assert (applied.status, world.sent) == ("answered", ["Bergen: 3"])


def test_a_call_says_which_line_led_to_it(world: World) -> None:
    result = world.run(
        "a = level('a')\nb = level('b')\ndef f(x):\n    return level(x)\nc = parallel(lambda: f('c'))\nanswer = a"
    )
    assert [(call.arguments["city"], call.shown_line) for call in result.calls] == [("a", 1), ("b", 2), ("c", 5)]
    assert {call.within for call in result.calls} == {"level"}


def test_a_dry_run_that_needs_what_a_kept_program_did_stops_at_its_call(world: World) -> None:
    world.report = "sent = send(text=city)\nif sent == 'sent 1':\n    send(text='then')\nanswer = 1"
    result = world.run("x = 1\nanswer = report('a')", approve="never")
    assert result.status == "denied"
    dry = world.agent().run_program("x = 1\nanswer = report('a')", dry_run=True).dry_run
    assert dry is not None
    assert dry.stop is not None
    assert (dry.stop.line, dry.stop.source_line) == (2, "answer = report('a')")


# -- what fails -------------------------------------------------------------------------------------------------------


def test_a_call_that_fails_names_its_tool_and_the_line_that_called_the_kept_program(world: World) -> None:
    fault = world.run("x = 1\n\nanswer = report('Atlantis')").fault
    assert fault is not None
    assert (fault.tool, fault.line, fault.source_line) == ("forecast", 3, "answer = report('Atlantis')")
    assert (fault.within, fault.kept_line) == ("level", 1)
    said = "line 3: within level, in its line 1: forecast(city='Atlantis') failed: ValueError: there is no such city"
    assert fault.message == said


def test_what_fails_in_its_own_text_is_its_fault(world: World) -> None:
    fault = world.run("def f():\n    return level('Cairo')\nanswer = f()").fault
    assert fault is not None
    assert (fault.tool, fault.kind, fault.line, fault.kept_line) == ("level", "tool", 2, 1)
    assert fault.message.startswith("line 2: level, a kept program, failed in its line 1:")
    assert fault.raised is not None
    assert all(line <= 3 for _, line in fault.raised.trace), "no line that the author does not have"


def test_arguments_that_it_does_not_take_are_told_at_the_call(world: World) -> None:
    fault = world.run("more = {'town': 'a'}\nanswer = level(**more)").fault
    assert fault is not None
    assert (fault.tool, fault.line, fault.case) == ("level", 2, "signature")
    checked = world.run("answer = level(town='x')")
    assert [found.tool for found in checked.revisions[-1].findings] == ["level"], "the check knows its parameters"
    assert world.read == []


def test_a_kept_program_without_an_answer_says_so(world: World) -> None:
    world.level = "if len(city) > 3:\n    answer = forecast(city=city)"
    fault = world.run("answer = level('x')").fault
    assert fault is not None
    assert fault.message == "line 1: level, a kept program, failed: the program ended without setting `answer`"


def test_a_failure_that_the_outer_program_catches_is_a_remark(world: World) -> None:
    result = world.run("try:\n    answer = level('Atlantis')\nexcept ToolError as error:\n    answer = error.tool")
    assert (result.status, result.value) == ("answered", "forecast")
    assert [(remark.tool, remark.within, remark.line) for remark in result.remarks] == [("forecast", "level", 2)]


def test_a_revision_of_the_model_is_shown_its_own_lines_alone(world: World) -> None:
    agent = world.agent("x = 1\nanswer = level('Cairo')", "answer = level('Bergen')")
    assert agent.run("how much rain?").value == 3
    model = agent._resources.model()
    assert isinstance(model, FakeModel)
    prompt = model.prompts[-1][-1].content
    assert "line 2: answer = level('Cairo')" in prompt
    assert "level, a kept program, failed in its line 1" in prompt
    assert "def level(" not in prompt.split("answer = level('Cairo')")[-1]
    assert "in level:" not in prompt, "no frame of the kept program"


# -- who decides ------------------------------------------------------------------------------------------------------

RULES = {
    "a rule that allows its name allows no call": ('allow = "report"', "never", ["level ok", "report refused"]),
    "a rule that allows a call allows it within": ('allow = "send"', None, ["level ok", "report ok"]),
    "a rule that denies a read": ('deny = "forecast"', "always", ["level refused"]),
    "a rule that denies a write": ('deny = "send"', "always", ["level ok", "report refused"]),
}


@pytest.mark.parametrize(("rule", "approve", "ended"), RULES.values(), ids=RULES)
def test_each_call_is_decided_as_its_own(
    world: World, tmp_path: Path, rule: str, approve: str | None, ended: list[str]
) -> None:
    path = written(tmp_path, f"[[rules]]\n{rule}\n")
    result = world.agent(permissions=path, approve=approve).call("report", city="Bergen")
    assert [f"{call.within} {call.status}" for call in result.calls] == ended
    assert (result.status, len(world.sent)) == (("answered", 1) if "report ok" in ended else ("denied", 0))


@pytest.mark.parametrize(("name", "left"), [("report", "level"), ("level", "")])
def test_a_rule_that_denies_its_name_hides_it_and_what_calls_it(
    world: World, tmp_path: Path, name: str, left: str
) -> None:
    agent = world.agent(permissions=written(tmp_path, f'[[rules]]\ndeny = "{name}"\n'))
    assert [each for each, tool in agent.tools.items() if tool.kept is not None] == ([left] if left else [])
    assert agent.run_program("answer = report('Bergen')").status == "unsolved"
    assert (world.read, world.sent) == ([], [])


def test_an_effect_that_the_user_names_holds_within(world: World, tmp_path: Path) -> None:
    agent = world.agent(permissions=written(tmp_path, '[effects]\nforecast = "write"\n'), approve="never")
    assert agent.tools["level"].protocol.effect is Effect.WRITE
    result = agent.call("level", city="Bergen")
    assert (result.status, world.read) == ("denied", [])


def test_read_only_mode_leaves_those_that_read(world: World) -> None:
    agent = world.agent(read_only=True)
    assert "level" in agent.tools
    assert "report" not in agent.tools
    assert agent.call("level", city="Bergen").value == 3


def test_a_question_says_within_what(world: World) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    assert world.agent(approve=approve).call("report", city="Bergen").status == "answered"
    assert [(request.tool, request.within) for request in asked] == [("send", "report")]
    from atc.calls.approval import question_of

    assert question_of(asked[0])[0] == "allow send within report? effect: write"


def test_a_warning_about_a_kept_program_is_one_about_its_writes(world: World) -> None:
    agent = world.agent()
    spread = KeptPrograms(SimpleNamespace(tools=agent.tools)).warnings({"report": ("an odd city",)})  # type: ignore[arg-type]
    assert spread == {"report": ("an odd city",), "send": ("an odd city",)}, "and not about its reads"


FORGED = """
asked = send
exec(compile("\\n" * 4 + "send(text='x')", "<program>", "exec"))
answer = level("x")
"""


def test_what_the_jail_says_of_its_lines_changes_no_decision(world: World) -> None:
    result = world.run(FORGED, approve="never", check=False)
    assert (result.status, world.sent) == ("denied", [])
    (refused,) = [call for call in result.calls if call.tool == "send"]
    assert (refused.within, refused.refused_by) == ("", "nobody")
    far = world.run(FORGED.replace("* 4", "* 8"), approve="never", check=False)
    (refused,) = [call for call in far.calls if call.tool == "send"]
    assert (refused.within, refused.refused_by) == ("level", "nobody"), "a claim, on which nothing rests"


def test_a_strategy_that_calls_tools_one_by_one_is_told_that_programs_alone_call_it(world: World) -> None:
    class OneByOne(Strategy):
        name = "one-by-one"

        async def solve(self, run: Run) -> Ending:
            call = await run.call("level", {"city": "x"})
            return Ending("answered", call.error)

    result = world.agent(strategy=OneByOne()).run("call it")
    assert result.value == "'level' is a kept program: programs alone can call it"


def test_a_program_that_is_kept_and_not_offered_is_told_without_a_look_into_its_file(tmp_path: Path) -> None:
    (tmp_path / "people_of.atc").write_text("no kept program at all")
    reads = make_tool("forecast", lambda _: 1, Effect.READ, city=TEXT)
    with Agent(Toolset([reads]), keep_runs=False, learn=False, kept_dir=tmp_path) as agent:
        asked, other = agent.run_program("answer = people_of('Oslo')"), agent.run_program("answer = places('Oslo')")
    assert asked.fault is not None
    assert other.fault is not None
    told = 'a program is kept by this name: offer it with --tools kept, or Toolset.with_kept("kept")'
    assert f"'people_of' is not defined; no tool has this name; {told}" in asked.fault.message
    assert "kept" not in other.fault.message


# -- what ran is what goes on -----------------------------------------------------------------------------------------


def test_a_run_that_waits_goes_on_with_the_kept_program_that_it_called(world: World) -> None:
    waiting = world.run("answer = report('Bergen')", approve="park")
    (pending,) = waiting.pending
    assert (waiting.status, pending.tool, pending.within) == ("waiting", "send", "report")
    world.report, world.level = "answer = send(text='something else')", "answer = 99"
    world.agent(approve="park").approve(waiting.run_id)
    done = world.agent(approve="park").resume(waiting.run_id)
    assert (done.status, done.value) == ("answered", {"level": 3, "status": "sent 1"})
    assert world.sent == ["Bergen: 3"]


def test_a_no_to_one_of_its_calls_is_the_end_of_the_run(world: World) -> None:
    waiting = world.run("answer = report('Bergen')", approve="park")
    world.agent(approve="park").approve(waiting.run_id, deny=True)
    assert world.agent(approve="park").resume(waiting.run_id).status == "denied"
    assert world.sent == []


@pytest.mark.parametrize(
    ("report", "sent"),
    [("mark()\nanswer = send(text=city)", 1), ("first = send(text=city)\nmark()\nanswer = send(text='then')", 2)],
    ids=["before its write", "after its write"],
)
def test_a_run_that_was_killed_goes_on_and_does_no_write_twice(world: World, report: str, sent: int) -> None:
    world.report = report
    begun = world.run("answer = report('Bergen')")
    assert len(world.sent) == sent
    folder, before = world.at_mark(1), report.startswith("first")
    world.sent, world.report = ["Bergen"] * before, "answer = send(text='another text of the file')"
    world.folder = folder
    again = world.agent().resume(begun.run_id)
    assert (again.status, world.sent) == ("answered", ["Bergen", "then"] if before else ["Bergen"])


def test_a_revision_does_not_repeat_what_a_kept_program_did(world: World) -> None:
    agent = world.agent()
    first = agent.run_program("x = report('Bergen')\nanswer = x['nothing']")
    assert first.status == "unsolved"
    second = agent.run_program("x = report('Bergen')\nanswer = x['level']", run=first.run_id)
    assert (second.value, world.sent) == (3, ["Bergen: 3"])


def test_a_kept_program_that_changed_and_whose_text_is_masked_refuses(world: World) -> None:
    waiting = world.run("answer = report('Bergen')", approve="park")
    trace = world.folder / waiting.run_id / "trace.jsonl"
    trace.write_text(trace.read_text().replace("max(forecast", "min(forecast"))
    world.level = "answer = forecast(city=city)['rain'][0]"
    world.agent(approve="park").approve(waiting.run_id)
    with pytest.raises(UsageError, match="the kept program 'level' has changed since this run called it"):
        world.agent(approve="park").resume(waiting.run_id)
    world.level = LEVEL
    assert world.agent(approve="park").resume(waiting.run_id).status == "answered", "as it was, it is the same"


@pytest.mark.parametrize("by_a_model", [False, True])
def test_a_kept_program_that_is_gone_is_named_and_the_run_can_go_on_once_it_is_back(
    world: World, by_a_model: bool
) -> None:
    program = "answer = report('Bergen')"
    begin = world.agent(program, approve="park")
    waiting = begin.run("report it") if by_a_model else begin.run_program(program)
    world.agent(approve="park").approve(waiting.run_id)
    world.gone = {"report"}
    told = "'report', which this run called before, is not among the tools any more; its file was '/kept/report.atc'"
    with pytest.raises(UsageError, match=told):
        world.agent(approve="park").resume(waiting.run_id)
    assert world.sent == []
    world.gone = set()
    assert world.agent(approve="park").resume(waiting.run_id).value == {"level": 3, "status": "sent 1"}


def test_a_revision_without_the_kept_program_that_is_gone_runs(world: World) -> None:
    first = world.run("x = level('Bergen')\nanswer = x['nothing']")
    world.gone = {"level", "report"}
    assert world.agent().run_program("answer = forecast('Bergen')['city']", run=first.run_id).value == "Bergen"


def test_a_tool_of_a_kept_program_is_found_by_its_source_where_its_name_is_another(world: World) -> None:
    waiting = world.run("answer = report('Bergen')", approve="park")
    world.send = "post"
    asked = world.agent(approve="park").resume(waiting.run_id)
    assert [(each.tool, each.within) for each in asked.pending] == [("post", "report")], "a yes is to a name"
    world.agent(approve="park").approve(waiting.run_id)
    done = world.agent(approve="park").resume(waiting.run_id)
    assert (done.status, done.value) == ("answered", {"level": 3, "status": "sent 1"})
    assert world.sent == ["Bergen: 3"]


# -- where values come from -------------------------------------------------------------------------------------------

FLOWS = {
    "into it": ("m = read_mail()\nanswer = forward(m['from'])", {"tool read_mail.from"}),
    "within it": ("answer = auto()", {"tool read_mail.from"}),
    "out of one into another": ("answer = forward(sender())", {"tool read_mail.from"}),
    "of its own": ("answer = forward('ann')", {"author "}),
    "a tool that the outer program names anew": ("book = read_mail\nanswer = known()", {"tool book.to"}),
    "under another name": ("f = forward\nanswer = f(to=read_mail()['from'])", {"tool read_mail.from"}),
}


@pytest.mark.parametrize(("program", "origins"), FLOWS.values(), ids=FLOWS)
def test_the_origins_of_an_argument_are_followed_through(tmp_path: Path, program: str, origins: set[str]) -> None:
    mail = make_tool("read_mail", lambda _: {"from": "eve"}, Effect.READ)
    book = make_tool("book", lambda _: {"to": "ann"}, Effect.READ)
    pay = make_tool("pay", lambda _: "paid", Effect.WRITE, to=TEXT)
    tools = [
        *(mail, book, pay),
        kept("forward", "answer = pay(to=to)", pay, parameters={"to": TEXT}),
        kept("auto", "m = read_mail()\nanswer = pay(to=m['from'])", mail, pay),
        kept("sender", "answer = read_mail()['from']", mail),
        kept("known", "pay = pay(to=book()['to'])\nanswer = pay", pay, book),
    ]
    rules = written(tmp_path, 'untrusted = ["read_mail"]\n')
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    agent = Agent(tools, approve=approve, permissions=rules, runs_dir=tmp_path / "runs", learn=False)
    assert agent.run_program(program).status == "answered"
    (request,) = asked
    assert {f"{each.kind} {'.'.join([each.tool, *each.path])}" for each in request.origins["to"]} == origins
    assert request.untrusted == (("to",) if "tool read_mail.from" in origins else ())

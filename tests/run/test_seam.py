"""The strategy seam: which one acts and how it is found, what it is given, and how a run with it goes on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Call, Ending, Fault, ProgramLoop, Result, Run, Strategy, Toolset, UsageError
from atc.errors import JournalError, SettingsError
from atc.models.base import Message
from atc.models.fake import FakeModel
from atc.parts import STRATEGIES
from atc.result import Effect
from atc.run.base import RESEARCH, checked, open_strategy
from atc.run.chain import Chain
from atc.settings import Settings
from tests.support.agent import BAD, GOOD, agent, double, ended, rejecting
from tests.support.cli import atc, endpoints, settle
from tests.support.fake_openai_server import says
from tests.support.tools import make_tool

ROOT = Path(__file__).parents[2]
UNKNOWN = "```python\nanswer = triple(n=21)\n```"


class Nothing(Strategy):
    """Forgets to return its ending."""

    name = "nothing"

    async def solve(self, context: Run) -> Ending:
        return None  # type: ignore[return-value]


class Echo(Strategy):
    """Answers with the task."""

    name = "echo"

    async def solve(self, context: Run) -> Ending:
        return Ending("answered", context.task)


# -- which strategy --------------------------------------------------------------------------------------------------


def test_the_bundled_strategies_open_by_their_names() -> None:
    assert {name: open_strategy(name).name for name in STRATEGIES.own} == {name: name for name in STRATEGIES.own}


def test_a_strategy_is_given_as_an_object_or_named_as_code() -> None:
    echo = Echo()
    assert open_strategy(echo) is echo
    assert open_strategy("tests.run.test_seam:Echo").name == "echo"
    assert Agent([double], model=FakeModel([]), strategy=echo, sentence=False).run("hello").value == "hello"


def test_a_strategy_that_returns_no_ending_is_named_and_the_trace_says_so() -> None:
    made = agent(strategy=Nothing())
    with pytest.raises(UsageError, match="strategy 'nothing' returned NoneType, not an Ending"):
        made.run("hello")
    assert (ended(made)["status"], ended(made)["raised"]) == ("failed", True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chian", r"no strategy is named 'chian': give .*chain.*MODULE:NAME"),
        ("", r"no strategy is named ''"),
        ("no.such.module:Name", "module no.such.module cannot be imported"),
        ("nowhere.py:Name", "there is no file nowhere.py"),
        ("atc.run.chain:Chian", "has no Chian"),
        ("atc.run.chain:ProgramLoop", "is no strategy, but ProgramLoop: give a subclass of atc.Strategy"),
        ("atc.run.base:Strategy", "cannot be made without arguments"),
        ("atc.run.chain:", "no strategy is named"),
    ],
)
def test_what_is_no_strategy_is_refused_before_a_run(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        agent(GOOD, strategy=name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is installed, with entry points, and leaves a mark when it is imported."""
    package = tmp_path / "others"
    (package / "other-1.0.dist-info").mkdir(parents=True)
    (package / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    points = "[atc.strategies]\nother = other_strategy:Other\nchain = other_strategy:Other\nbroken = no_such_module:X\n"
    (package / "other-1.0.dist-info" / "entry_points.txt").write_text(points)
    (package / "other_strategy.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'mark')!r}).touch()\n"
        "from tests.run.test_seam import Echo as Other\n"
    )
    monkeypatch.syspath_prepend(str(package))
    yield tmp_path / "mark"
    sys.modules.pop("other_strategy", None)


def test_an_installed_strategy_is_loaded_only_when_it_is_named(installed: Path) -> None:
    assert isinstance(open_strategy("chain"), Chain)  # no other package can take its name
    with pytest.raises(UsageError, match=r"give chain.*broken.*other"):
        open_strategy("another")
    assert not installed.exists()
    assert open_strategy("other").name == "echo"
    assert installed.exists()
    with pytest.raises(UsageError, match=r"'broken' \(no_such_module:X of the package other\) cannot be imported"):
        open_strategy("broken")


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints())


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("name", sorted(RESEARCH))
def test_a_strategy_of_another_paper_is_named_with_how_to_get_it(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        agent(GOOD, strategy=name)
    assert str(refused.value).splitlines() == [
        f"strategy {name!r} is in the package atc-runtime-research, which is not installed: "
        "run `pip install ./research` in a checkout of ATC"
    ]


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("command", ["runs show", "resume"])
def test_a_kept_run_of_such_a_strategy_is_shown_and_a_resume_says_what_is_missing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class React(Echo):
        name = "react"

        async def solve(self, context: Run) -> Ending:
            return Ending("unsolved", fault=Fault(kind="answer", reason="no answer in 10 steps"))

    with monkeypatch.context() as patched:
        patched.setitem(STRATEGIES.own, "react", f"{__name__}:React")
        patched.setitem(globals(), "React", React)
        begun = agent(strategy="react", runs_dir=tmp_path).run("double 21")
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path))
    tools = ["--tools", f"{ROOT / 'tests' / 'support' / 'agent.py'}:double"]
    ran = atc(*command.split(), begun.run_id, *(tools if command == "resume" else ()))
    assert (ran.exit_code, "strategy react" in ran.output) == ((0, True) if command != "resume" else (2, False))
    assert ("run `pip install ./research`" in ran.output) is (command == "resume")


def test_a_folders_settings_name_no_strategy_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "atc.toml").write_text('strategy = "evil:Evil"\n')
    with pytest.raises(SettingsError, match="is not trusted, so it may not set strategy='evil:Evil'"):
        Settings.load()
    with pytest.raises(SettingsError):
        Agent([double], model=FakeModel([]))


def test_the_agent_and_its_records_know_no_strategy() -> None:
    """What only the life of a run needs loads neither the chain nor what programs are checked with."""
    source = "import atc.agent, atc.run.base, atc.run.run, sys, json; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(ran.stdout))
    assert not loaded & {f"atc.run.{name}" for name in ("chain", "program_loop", "writer")}
    assert not any(name.startswith("atc.programs.check") for name in loaded)


# -- a run goes on by the strategy that began it ---------------------------------------------------------------------


class Waits(Strategy):
    """Asks the model once, and answers when it is resumed."""

    name = "waits"

    async def solve(self, context: Run) -> Ending:
        await context.ask("think", [Message("user", context.task)])
        return Ending("unsolved")

    async def resume(self, context: Run, stored: Any) -> Ending:
        return Ending("answered", [stored.run_id, context.task, list(context.tools)])


def test_a_strategy_that_is_named_goes_on_by_its_name() -> None:
    begun = agent("a thought", strategy="tests.run.test_seam:Waits").run("wait")
    assert (begun.status, begun.usage.model_calls) == ("unsolved", 1)
    resumed = agent().resume(begun.run_id)  # an agent that would act by the chain otherwise
    assert resumed.value == [begun.run_id, "wait", ["double"]]


def test_a_strategy_object_must_be_given_again_for_a_resume() -> None:
    begun = agent("a thought", strategy=Waits()).run("wait")
    with pytest.raises(UsageError, match=r"given as an object, 'waits': give it again, Agent\(strategy=…\)"):
        agent().resume(begun.run_id)
    with pytest.raises(UsageError, match="begun with the strategy 'waits': 'echo' cannot go on with it"):
        agent(strategy=Echo()).resume(begun.run_id)
    assert agent(strategy=Waits()).resume(begun.run_id).status == "answered"


# -- a call without a program ----------------------------------------------------------------------------------------


class Calls(Strategy):
    """Makes these calls, and answers with what became of them."""

    name = "calls"

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.planned = calls
        self.made: list[Call] = []

    async def solve(self, context: Run) -> Ending:
        for tool, arguments in self.planned:
            self.made.append(await context.call(tool, arguments))
        return Ending("answered", [call.value for call in self.made])


def ran(strategy: Strategy, tools: Toolset, *replies: str, **settings: Any) -> Result:
    return agent(*replies, strategy=strategy, tools=tools, **settings).run("call")


def test_a_call_passes_every_gate_and_a_failure_is_data() -> None:
    done: list[int] = []
    tools = Toolset(
        [
            make_tool("book", lambda a: done.append(a["n"]) or a["n"], Effect.WRITE),
            make_tool("look", lambda a: a["n"]),
        ]
    )
    calls = Calls(("look", {"n": 1}), ("book", {"n": 2}), ("book", {"n": "many"}), ("steal", {}))
    result = ran(calls, tools, approve=lambda request: request.arguments == {"n": 2})
    assert (result.value, done) == ([1, 2, None, None], [2])
    assert [(call.index, call.status, call.error_status) for call in result.calls] == [
        (1, "ok", None),
        (2, "ok", None),
        (3, "refused", "invalid_arguments"),
        (4, "refused", "not_granted"),
    ]
    assert result.calls == tuple(calls.made)
    assert ran(Calls(("book", {"n": 3})), tools, approve="never").calls[0].cause == "denied"
    assert done == [2]


def test_each_call_is_a_stage_so_reads_are_fresh_and_no_write_is_made_twice() -> None:
    seen: list[int] = []
    tools = Toolset(
        [
            make_tool("look", lambda _: seen.append(len(seen)) or len(seen)),
            make_tool("book", lambda a: seen.append(a["n"]) or a["n"], Effect.WRITE),
        ]
    )
    look, book = ("look", {"n": 1}), ("book", {"n": 7})
    result = ran(Calls(look, book, look, book, ("book", {"n": 8})), tools)
    assert (result.value, seen) == ([1, 7, 3, None, 8], [0, 7, 2, 8])
    assert [call.error_status for call in result.calls] == [None, None, None, "already_done", None]


class Staged(Strategy):
    """Books with a program, and hands its answer to a second one, which is no revision."""

    name = "staged"

    async def solve(self, context: Run) -> Ending:
        first = await context.execute("answer = look(n=book(n=1))")
        context.begin_stage(inputs={"booked": first.value})
        await context.call("look", {"n": 5})
        second = await context.execute("answer = [booked, look(n=1), book(n=2)]")
        return Ending("answered", second.value)


def test_a_stage_hands_values_to_its_programs_and_leaves_the_journal_of_the_one_before() -> None:
    looks: list[int] = []
    tools = Toolset(
        [
            make_tool("look", lambda a: looks.append(a["n"]) or len(looks)),
            make_tool("book", lambda a: a["n"], Effect.WRITE),
        ]
    )
    result = ran(Staged(), tools)
    assert (result.value, looks) == ([1, 3, 2], [1, 5, 1])


class Deep(Strategy):
    """Calls a tool with what cannot be written down."""

    name = "deep"

    async def solve(self, context: Run) -> Ending:
        deep: Any = 1
        for _ in range(600):
            deep = [deep]
        calls = [await context.call("look", {"n": each}) for each in (deep, float("nan"), object(), 1)]
        return Ending("answered", [call.error_status for call in calls])


def test_arguments_that_are_no_json_values_are_refused_and_end_no_run() -> None:
    result = ran(Deep(), Toolset([make_tool("look", lambda a: a["n"])]))
    assert (result.status, result.value) == ("answered", ["invalid_arguments"] * 3 + [None])


class HandsOn(Strategy):
    """Answers with a program that only reads what an earlier stage handed on, or calls a tool with it."""

    name = "hands-on"

    async def solve(self, context: Run) -> Ending:
        first = await context.execute("answer = look(n=7)")
        context.begin_stage(inputs={"first_found": first.value})
        async with ProgramLoop.open(context) as loop:
            draft = await loop.write()
            findings = await loop.check(draft)
            if findings:
                return Ending("unsolved", fault=Fault(kind="program", case="findings", finding=findings[0]))
            outcome = await loop.execute(draft)
            fault = await loop.attribute(draft, outcome)
            loop.record(draft, fault)
            return Ending("answered" if fault is None else "unsolved", outcome.value, fault)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("answer = first_found['id'] + 1", 8),
        ("firstFound = {'id': 1}\nanswer = first_found['id']", 7),  # not read as the name of another spelling
        ("first_found = first_found['id']\nanswer = look(n=first_found + 2)['id']", 9),
    ],
)
def test_a_program_of_a_later_stage_reads_its_inputs(program: str, value: int) -> None:
    look = make_tool("look", lambda a: {"id": a["n"]})
    result = ran(HandsOn(), Toolset([look]), f"```python\n{program}\n```")
    assert (result.status, result.value, result.fault) == ("answered", value, None)


def test_an_input_of_a_stage_hides_no_other_unknown_name() -> None:
    look = make_tool("look", lambda a: {"id": a["n"]})
    reply = "```python\nanswer = [first_found, last_found, first_fond]\n```"
    result = ran(HandsOn(), Toolset([look]), reply)
    assert result.fault is not None
    assert result.fault.finding is not None
    assert (result.fault.finding.kind, result.fault.finding.name) == ("undefined_name", "last_found")
    assert result.fault.finding.instead == ("first_found",)


# -- α counts the programs that ran ----------------------------------------------------------------------------------


def test_a_program_that_the_check_rejects_costs_no_revision() -> None:
    other = UNKNOWN.replace("triple", "quadruple")
    result = agent(UNKNOWN, BAD, "no program", other, BAD.replace("[1]", "[2]"), GOOD, max_revisions=3).run("double")
    assert (result.status, result.value) == ("answered", 42)
    assert [bool(revision.findings) for revision in result.revisions] == [True, False, True, True, False, False]


@pytest.mark.parametrize(("revisions", "rejections"), [(0, 0), (0, 2), (2, 0), (2, None), (1, 3)])
def test_replies_are_bounded_by_revisions_and_rejections_apart(revisions: int, rejections: int | None) -> None:
    bound = revisions if rejections is None else rejections
    given = {"max_revisions": revisions, "strategy": rejecting(rejections)}
    nothing = agent(*["no program"] * 20, **given).run("double")
    assert len(nothing.revisions) == nothing.usage.model_calls == bound + 1
    failing = [BAD.replace("[1]", f"[{n}]") for n in range(20)]
    assert len(agent(*failing, **given).run("double").revisions) == revisions + 1
    mixed = agent(*[text for one in failing for text in ("no program", one)], **given).run("double")
    assert mixed.status == "unsolved"
    assert mixed.usage.model_calls <= revisions + bound + 2


# -- the example -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["examples/agree.py:Agree", "examples.agree:Agree"])
def test_the_example_runs_from_the_command_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)
    monkeypatch.chdir(ROOT)
    programs = [GOOD, "```python\nvalue = double(n=20)\nanswer = value + 2\n```"]
    with endpoints(monkeypatch) as start:
        start(*(says(program) for program in programs))
        done = atc("run", "double 21", "-t", str(tmp_path / "tools.py"), "--strategy", name)
    assert done.exit_code == 0, done.output
    assert "strategy agree" in done.stdout.splitlines()[0]
    assert "42" in done.stdout.split("── answer ──")[1]


def test_the_example_gives_up_where_no_two_programs_agree() -> None:
    from examples.agree import Agree

    apart = [f"```python\nanswer = double(n={n})\n```" for n in range(9)]
    reads = [make_tool("double", lambda arguments: 2 * arguments["n"])]
    result = agent(*apart, strategy=Agree(), tools=reads, max_revisions=1).run("double")
    assert (result.status, result.usage.model_calls) == ("unsolved", 3)
    assert result.fault is not None
    assert "no two programs agree: [0, 2, 4]" in result.fault.message
    assert asyncio.run(agent(GOOD, UNKNOWN, BAD, GOOD, GOOD, strategy=Agree()).arun("double")).value == 42


def test_the_example_ends_as_the_chain_does_where_no_other_program_can_help() -> None:
    from examples.agree import Agree

    writes = [make_tool("double", lambda arguments: 2 * arguments["n"], Effect.WRITE)]
    assert agent(GOOD, strategy=Agree(), tools=writes, approve="never").run("double").status == "denied"


# -- the paper's way --------------------------------------------------------------------------------------------------


def test_the_papers_way_shows_documents_and_the_failed_program_with_its_tool() -> None:
    model = FakeModel([BAD, "double", GOOD])
    result = Agent([double], model=model, strategy="atc-paper", sentence=False, approve="always").run("double 21")
    assert (result.value, result.faults[0].by, result.faults[0].tool) == (42, "model", "double")
    first, named, edit = model.prompts
    assert [message.role for message in first] == ["system", "user"]
    assert '{"name": "double"' in first[1].content
    assert "[1][double(n=21)]" in named[0].content
    assert [message.role for message in edit[2:]] == ["assistant", "user"]
    assert "The tool in question" in edit[-1].content
    assert agent(UNKNOWN, "double", GOOD, strategy="atc-paper").run("double").revisions[0].findings == ()  # no check


class Requests(Strategy):
    """Books for each of two requests. The process ends (``stop``) in the second."""

    name = "requests"

    def __init__(self, stop: bool) -> None:
        self.stop = stop

    async def solve(self, context: Run) -> Ending:
        await context.call("book", {"n": 1})
        context.begin_stage(new_request=True)
        if self.stop:
            raise KeyboardInterrupt
        return Ending("answered", (await context.call("book", {"n": 1})).status)


def test_a_run_that_begins_again_does_not_do_a_write_again_for_a_request_it_had_begun() -> None:
    booked: list[int] = []
    tools = Toolset([make_tool("book", lambda a: booked.append(a["n"]) or a["n"], Effect.WRITE)])
    with pytest.raises(KeyboardInterrupt):
        agent(strategy=Requests(True), tools=tools).run("book twice")
    result = agent(strategy=Requests(False), tools=tools).resume("last")
    assert (result.value, booked) == ("refused", [1])


class Shadows(Strategy):
    """Begins a stage whose input has the name of a tool."""

    name = "shadows"

    async def solve(self, context: Run) -> Ending:
        context.begin_stage(inputs={"book": 1})
        return Ending("answered", None)


def test_an_input_with_the_name_of_a_tool_is_refused_when_its_stage_begins() -> None:
    tools = Toolset([make_tool("book", lambda a: a["n"], Effect.WRITE)])
    with pytest.raises(UsageError, match="'book' is the name of a tool"):
        agent(strategy=Shadows(), tools=tools).run("book")


class AtOnce(Strategy):
    """Does two things at once; what they brought."""

    name = "at once"

    def __init__(self, *acts: Callable[[Run], Awaitable[Any]]) -> None:
        self.acts = acts

    async def solve(self, context: Run) -> Ending:
        brought = await asyncio.gather(*(act(context) for act in self.acts), return_exceptions=True)
        return Ending("answered", [type(each).__name__ for each in brought])


def _program(context: Run) -> Awaitable[Any]:
    return context.execute("answer = book(n=1)")


def _call(context: Run) -> Awaitable[Any]:
    return context.call("book", {"n": 1})


async def _attempt(context: Run) -> Any:
    with context.attempt():
        return await context.call("book", {"n": 1})


async def _stage(context: Run) -> None:
    context.begin_stage()


@pytest.mark.parametrize(
    ("acts", "brought"),
    [
        ((_program, _program), ["Outcome", "Outcome"]),
        ((_program, _call), ["Outcome", "Call"]),
        ((_call, _call), ["Call", "Call"]),
        ((_call, _attempt), ["Call", "UsageError"]),
        ((_attempt, _attempt), ["Call", "UsageError"]),
        ((_attempt, _program), ["Call", "UsageError"]),
        ((_program, _stage), ["Outcome", "UsageError"]),
    ],
)
def test_what_a_strategy_does_at_once_does_no_write_twice(acts: tuple[Any, ...], brought: list[str]) -> None:
    booked: list[int] = []

    async def book(arguments: dict[str, Any]) -> int:
        await asyncio.sleep(0.01)
        booked.append(arguments["n"])
        return 1

    result = ran(AtOnce(*acts), Toolset([make_tool("book", book, Effect.WRITE)]))
    assert (result.value, booked) == (brought, [1])


def test_a_task_that_outlives_its_run_does_nothing_more() -> None:
    booked: list[int] = []

    class Leaves(Strategy):
        name = "leaves"

        async def solve(self, context: Run) -> Ending:
            self.left = asyncio.create_task(context.call("book", {"n": 1}))
            return Ending("answered", 1)

    async def both() -> None:
        tools = Toolset([make_tool("book", lambda a: booked.append(a["n"]), Effect.WRITE)])
        strategy = Leaves()
        result = await agent(strategy=strategy, tools=tools, keep_runs=False).arun("leave")
        with pytest.raises(JournalError, match="has ended"):
            await strategy.left
        assert (result.calls, booked) == ((), [])

    asyncio.run(both())


@pytest.mark.parametrize(
    ("ending", "problem"),
    [
        (Ending("done"), "the status 'done'"),  # type: ignore[arg-type]
        (Ending([]), "the status"),  # type: ignore[arg-type]
        (Ending("failed", fault="no"), "a fault that is none, but str"),  # type: ignore[arg-type]
        (Ending("answered", object()), "no JSON form"),
        (Ending("answered", float("nan")), "no JSON form"),
    ],
)
def test_an_ending_that_no_result_can_be_made_of_is_named(ending: Ending, problem: str) -> None:
    class Odd(Strategy):
        name = "odd"

        async def solve(self, context: Run) -> Ending:
            return ending

    with pytest.raises(UsageError, match=f"'odd' ended with .*{problem}"):
        ran(Odd(), Toolset([make_tool("look", lambda a: 1)]))
    assert ended(agent())["raised"] is True


def test_an_ending_without_an_answer_has_a_fault() -> None:
    fault = checked(Ending("unsolved"), "mine").fault
    assert fault is not None
    assert fault.message == "strategy 'mine' gave no reason"
    assert checked(Ending("answered", 1), "mine").fault is None

"""The ruler for solved tasks: what it counts, how it goes on after a stop, and what it reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from atc.errors import EnvironmentProblem, ModelUnavailable, ToolError, UsageError
from atc.models import CachedModel, FakeModel, Message, Reply
from atc.tools.protocol import Effect, Protocol
from atc.tools.tool import Toolset
from benchmarks import tasks as ladder
from benchmarks.environments import Environment, Episode, Task, open_environment
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.base import served
from benchmarks.summary import interval, summarise
from benchmarks.tasks import Plan, Row, attempt, read_rows, run_plan

GOOD = '```python\nanswer = order(item="pen")["number"]\n```'
CRASHING = '```python\norder(item="pen")\nanswer = [][0]\n```'


class Shop(Environment):
    """Tasks to order one thing; the answer is the number of the order."""

    name = "shop"

    def tasks(self) -> list[Task]:
        return [
            Task(f"pen-{number}", f"Order a pen (task number{number}). Answer with its number.", ("order",))
            for number in range(3)
        ]

    def open(self, task: Task) -> Episode:
        orders: list[str] = []

        def order(arguments: dict[str, Any]) -> Any:
            if arguments["item"] == "moon":
                raise ToolError("not for sale", status="not_found")
            orders.append(arguments["item"])
            return {"number": 7}

        parameters = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
        protocol = Protocol(name="order", description="Order a thing.", parameters=parameters, effect=Effect.WRITE)
        return Episode(Toolset([served(protocol, order)]), lambda value: value == 7 and bool(orders))


def first() -> Task:
    return Shop().tasks()[0]


def tried(model: Any, system: str = "full", **options: Any) -> Row:
    return asyncio.run(attempt(Shop(), first(), system, 0, model, **options))


def planned(systems: Sequence[str] = ("full",), **options: Any) -> Plan:
    return Plan([Shop()], systems, **options)


def call(episode: Episode, tool: str, arguments: dict[str, Any]) -> Any:
    transport = episode.tools[tool].transport
    assert transport is not None
    return asyncio.run(transport(dict(arguments)))  # type: ignore[arg-type]


# What is counted ----------------------------------------------------------------------------------------------------


def test_a_task_that_the_first_program_solves() -> None:
    row = tried(FakeModel([GOOD]))
    assert (row.status, row.solved, row.first_try, row.programs, row.crashes) == ("answered", True, True, 1, 0)
    assert (row.model_calls, row.tool_calls, row.writes, row.repeated_writes) == (1, 1, 1, 0)
    assert row.prompt_tokens > 50
    assert row.completion_tokens > 5
    assert row.answer == "7"
    assert row.faults == {}


def test_a_wrong_answer_is_an_answer_that_solves_nothing() -> None:
    row = tried(FakeModel(['```python\nanswer = order(item="pen")["number"] + 1\n```']))
    assert (row.status, row.solved, row.first_try) == ("answered", False, False)


def test_the_environment_sees_what_replay_is_worth() -> None:
    bare = tried(FakeModel([CRASHING, GOOD]), "bare")
    full = tried(FakeModel([CRASHING, GOOD]), "full")
    assert bare.solved
    assert full.solved
    assert not full.first_try
    assert (bare.crashes, full.crashes) == (1, 1)
    assert (bare.writes, bare.repeated_writes) == (2, 1)
    assert (full.writes, full.repeated_writes) == (1, 0)
    assert bare.faults == {"program": 1}


def test_the_check_costs_a_revision_and_no_effect() -> None:
    missing = '```python\norder(item="pen")\nanswer = nothing_of_that_name\n```'
    bare = tried(FakeModel([missing, GOOD]), "bare")
    check = tried(FakeModel([missing, GOOD]), "check")
    assert (bare.crashes, bare.writes, bare.faults) == (1, 2, {"program": 1})
    assert (check.crashes, check.writes, check.faults) == (0, 1, {"check": 1})


def test_a_refused_call_had_no_effect() -> None:
    refused = 'try:\n    order(item="moon")\nexcept ToolError:\n    pass\n'
    row = tried(FakeModel([f'```python\n{refused}answer = order(item="pen")["number"]\n```']))
    assert (row.solved, row.tool_calls, row.writes) == (True, 2, 1)


def test_what_the_solution_itself_repeats_is_no_repetition() -> None:
    def episode(gold: int) -> Episode:
        opened = Episode(Shop().open(first()).tools, bool, [("order", {"item": "pen"})] * gold)
        for _ in range(3):
            call(opened, "order", {"item": "pen"})
        call(opened, "order", {"item": "ink"})
        return opened

    assert [episode(gold).repeated_writes for gold in (0, 1, 2, 3)] == [2, 2, 1, 0]


def test_a_cached_reply_counts_as_if_it_had_been_asked_for(tmp_path: Path) -> None:
    fake = FakeModel([Reply(GOOD, "stop", 100, 20, 40.0)])
    rows = [tried(CachedModel(fake, tmp_path), system) for system in ("full", "bare")]
    assert len(fake.prompts) == 1
    assert [row.cached_calls for row in rows] == [0, 1]
    assert {(row.model_calls, row.prompt_tokens, row.completion_tokens) for row in rows} == {(1, 100, 20)}
    assert rows[1].seconds > 40 > rows[1].wall_s


def test_time_that_the_cache_saved_counts_towards_the_limit(tmp_path: Path) -> None:
    model = CachedModel(FakeModel([Reply(GOOD, "stop", 100, 20, 400.0)]), tmp_path)
    tried(model)
    row = tried(model, limit_s=300.0)
    assert (row.status, row.solved) == ("overtime", False)


def test_a_try_ends_at_its_limit() -> None:
    class Slow(FakeModel):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError("it was waited for")

    row = tried(Slow([]), limit_s=0.5)
    assert not row.solved
    assert row.status in ("budget", "overtime")
    assert row.wall_s < 20


def test_a_break_of_the_runtime_loses_one_task_and_says_why() -> None:
    row = tried(FakeModel([RuntimeError("a bug")]))
    assert (row.status, row.solved, row.error) == ("exception", False, "RuntimeError: a bug")


# Stopping and going on ----------------------------------------------------------------------------------------------


def test_a_second_run_does_only_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    asyncio.run(run_plan(planned(limit=2), FakeModel([GOOD, GOOD]), file))
    new: list[Row] = []
    asyncio.run(run_plan(planned(["bare", "full"]), FakeModel([GOOD] * 4), file, new.append))
    assert [(row.task, row.system) for row in new] == [
        ("pen-0", "bare"), ("pen-1", "bare"), ("pen-2", "bare"), ("pen-2", "full"),
    ]  # fmt: skip
    asyncio.run(run_plan(planned(["bare", "full"], seeds=(0,)), FakeModel([]), file, new.append))
    assert len(new) == 4
    assert len(file.read_text().splitlines()) == 6


def test_another_model_or_seed_is_another_try(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    asyncio.run(run_plan(planned(limit=1), FakeModel([GOOD]), file))
    asyncio.run(run_plan(planned(limit=1, seeds=(0, 1)), FakeModel([GOOD]), file))
    asyncio.run(run_plan(planned(limit=1), FakeModel([GOOD], name="other"), file))
    assert [(row.seed, row.model) for row in read_rows(file)] == [(0, "fake"), (1, "fake"), (0, "other")]


def test_a_line_that_was_cut_off_costs_that_try_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    asyncio.run(run_plan(planned(), FakeModel([GOOD] * 3), file))
    file.write_bytes(file.read_bytes()[:-40])
    new: list[Row] = []
    asyncio.run(run_plan(planned(), FakeModel([GOOD]), file, new.append))
    assert [row.task for row in new] == ["pen-2"]
    assert len(read_rows(file)) == 3
    assert "line 3: not a result" in capsys.readouterr().err


def test_an_endpoint_that_goes_down_is_noted_and_those_tries_are_made_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    asyncio.run(run_plan(planned(), FakeModel([GOOD, ModelUnavailable("no connection"), GOOD]), file))
    rows = read_rows(file)
    assert [(row.status, row.error) for row in rows] == [
        ("answered", ""),
        ("environment", "no connection"),
        ("answered", ""),
    ]
    line = summarise(rows, list(ladder.SYSTEMS))[0]
    assert (line["tries"], line["lost"], line["solved"]) == (2, 1, 2)
    asyncio.run(run_plan(planned(), FakeModel([GOOD]), file))
    assert [row.status for row in read_rows(file)] == ["answered"] * 3


def test_a_model_that_was_never_there_is_an_error_not_a_result(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="not set up"):
        asyncio.run(run_plan(planned(), FakeModel([ModelUnavailable("not set up")]), tmp_path / "rows.jsonl"))
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_sample_is_always_the_same_and_a_larger_one_holds_it() -> None:
    environment = AtlasEnvironment()
    few, more = (Plan([environment], ["full"], sample=count).tasks(environment) for count in (5, 12))
    assert len(few) == 5
    assert set(few) < set(more)
    assert few == Plan([environment], ["full"], sample=5).tasks(AtlasEnvironment())
    assert [task.id for task in more] == [task.id for task in environment.tasks() if task in more]


# The table and the command ------------------------------------------------------------------------------------------


def made(task: str, solved: bool, env: str = "shop", system: str = "full", **more: Any) -> Row:
    return Row(
        env=env, task=task, system=system, seed=0, model="fake", stated=True, status="answered", solved=solved, **more
    )


def test_the_interval_holds_the_share_and_narrows_with_tasks() -> None:
    few = [made(str(n), n % 2 == 0) for n in range(10)]
    many = [made(str(n), n % 2 == 0) for n in range(400)]
    low, high = interval(few)
    assert 0.1 <= low < 0.5 < high <= 0.9
    assert interval(many)[1] - interval(many)[0] < high - low
    assert interval([made("a", True)] * 3) == (1.0, 1.0)
    assert interval([]) == (0.0, 0.0)


def test_the_tries_of_one_task_are_drawn_together() -> None:
    seeds = [made(str(task), task % 2 == 0) for task in range(10) for _ in range(20)]
    assert interval(seeds) == interval([made(str(task), task % 2 == 0) for task in range(10)])


def test_the_summary_lists_systems_in_the_order_of_the_ladder_and_all_environments_together() -> None:
    rows = [
        made("a", True, "one", "full"),
        made("a", False, "one", "bare"),
        made("b", False, "two", "full", faults={"tool": 2}),
    ]
    lines = summarise(rows, list(ladder.SYSTEMS))
    assert [(line["env"], line["system"]) for line in lines] == [
        ("one", "bare"), ("one", "full"), ("two", "full"), ("all", "bare"), ("all", "full"),
    ]  # fmt: skip
    assert (lines[-1]["tries"], lines[-1]["solved"], lines[-1]["faults"]) == (2, 1, {"tool": 2})


def command(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(ladder.main)
    return CliRunner().invoke(app, arguments)


def test_the_command_prints_the_summary_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    asyncio.run(run_plan(planned(), FakeModel([GOOD] * 3), file))
    lines = json.loads(command("--summary", str(file), "--json").stdout)
    assert [(line["system"], line["solved"], line["tries"]) for line in lines] == [("full", 3, 3)]
    assert command("--summary", str(file)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--env", "mars"], 2),
        (["--system", "best"], 2),
        (["--seeds", "one"], 2),
        (["--summary", "/nowhere/rows.jsonl"], 2),
        (["--env", "m3tooleval", "--data", "/nowhere", "--model", "embedded:/nowhere/model.gguf"], 3),
    ],
)
def test_wrong_use_has_an_exit_code_of_its_own(arguments: list[str], code: int, tmp_path: Path) -> None:
    assert command(*arguments, "--out", str(tmp_path / "rows.jsonl")).exit_code == code


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="no environment 'mars': take some of atlas, comptoolbench, m3tooleval"):
        open_environment("mars")
    with pytest.raises(EnvironmentProblem, match="--data DIR or in ATC_DATA"):
        open_environment("m3tooleval").tasks()
    with pytest.raises(EnvironmentProblem, match="no folder /nowhere/executable/comptoolbench"):
        open_environment("comptoolbench", Path("/nowhere")).tasks()

"""The ruler for solved tasks: what it counts, how it goes on after a stop, and what it reports."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from atc.errors import EnvironmentProblem, UsageError
from benchmarks.environments import Task, open_environment
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.systems import SYSTEMS, Answer, Job, System
from benchmarks.tasks import run as ruler
from benchmarks.tasks.gateway import Caps
from benchmarks.tasks.read_tasks import quick_tasks
from benchmarks.tasks.rows import Row, append, latest, read_rows
from benchmarks.tasks.run import Plan, tasks_of
from benchmarks.tasks.summary import interval, paired, summarise
from tests.support.fake_openai_server import fails, hangs, serving
from tests.support.ruler import CRASHING, GOOD, Shop, ran, says, tried, tried_at

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's


def planned(systems: Sequence[str] = ("atc",), **options: Any) -> Plan:
    return Plan([Shop()], [SYSTEMS[name] for name in systems], **options)


# What is counted ----------------------------------------------------------------------------------------------------


def test_a_task_that_the_first_program_solves() -> None:
    row = tried([GOOD])
    assert (row.status, row.solved, row.first_try, row.programs, row.failed) == ("answered", True, True, 1, 0)
    assert (row.model_calls, row.tool_calls, row.writes, row.repeated_writes) == (1, 1, 1, 0)
    assert (row.prompt_tokens, row.completion_tokens) == (100, 20)
    assert (row.path, row.precision) == (1.0, 1.0)
    assert row.answer == "7"
    assert row.faults == {}
    assert row.version


def test_a_wrong_answer_is_an_answer_that_solves_nothing() -> None:
    row = tried(['```python\nanswer = order(item="pen")["number"] + 1\n```'])
    assert (row.status, row.solved, row.first_try) == ("answered", False, False)


def test_the_environment_sees_what_replay_is_worth() -> None:
    without, whole = tried([CRASHING, GOOD], "atc-replay"), tried([CRASHING, GOOD])
    assert without.solved
    assert whole.solved
    assert not whole.first_try
    assert (without.failed, whole.failed) == (1, 1)
    assert (without.writes, without.repeated_writes) == (2, 1)
    assert (whole.writes, whole.repeated_writes) == (1, 0)


def test_the_check_costs_a_revision_and_no_effect() -> None:
    missing = '```python\norder(item="pen")\nanswer = nothing_of_that_name\n```'
    without, whole = tried([missing, GOOD], "atc-all"), tried([missing, GOOD])
    assert (without.failed, without.writes, without.faults) == (1, 2, {"program": 1})
    assert (whole.failed, whole.writes, whole.faults) == (1, 1, {"check": 1})  # it gave no answer


def test_without_attribution_a_fault_is_the_plain_error() -> None:
    refused = '```python\nanswer = order(item="moon")["number"]\n```'
    without, whole = tried([refused, GOOD], "atc-attribution"), tried([refused, GOOD])
    assert (without.solved, without.faults) == (True, {"program": 1})
    assert whole.solved
    assert whole.faults.keys().isdisjoint({"program"})


def test_without_typed_stubs_the_model_reads_json() -> None:
    with serving(says(GOOD)) as server:
        tried_at(server, "atc")
        tried_at(server, "atc-stubs")
        asked = [request["messages"][-1]["content"] for request in server.requests]
    assert "def order(item: str)" in asked[0]
    assert "def order(item: str)" not in asked[1]
    assert '"name": "order"' in asked[1]


def test_a_refused_call_had_no_effect() -> None:
    refused = 'try:\n    order(item="moon")\nexcept ToolError:\n    pass\n'
    row = tried([f'```python\n{refused}answer = order(item="pen")["number"]\n```'])
    assert (row.solved, row.tool_calls, row.writes) == (True, 2, 1)


def test_a_kept_reply_counts_as_if_it_had_been_asked_for(tmp_path: Path) -> None:
    first, again = tried([GOOD], kept=tmp_path), tried([fails(500)], kept=tmp_path)
    assert [row.kept_calls for row in (first, again)] == [0, 1]
    assert {(row.solved, row.model_calls, row.prompt_tokens) for row in (first, again)} == {(True, 1, 100)}
    assert again.model_s == first.model_s


def test_time_that_kept_replies_took_counts_towards_the_limit(tmp_path: Path) -> None:
    tried([GOOD], kept=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 400.0}))
    row = tried([GOOD], kept=tmp_path)
    assert (row.status, row.solved) == ("overtime", False)
    assert row.seconds > 400 > row.wall_s


def test_a_try_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.tasks.attempt.GRACE_S", 0.5)
    row = tried([hangs()], caps=Caps(seconds=0.5))
    assert not row.solved
    assert row.status in ("budget", "overtime")
    assert row.wall_s < 5


def test_a_system_that_may_not_ask_any_more_is_out_of_budget() -> None:
    row = tried([CRASHING, CRASHING.replace("[0]", "[1]"), GOOD], caps=Caps(model_calls=2))
    assert (row.status, row.model_calls, row.solved) == ("budget", 2, False)
    assert row.error == "its 2 model calls are used up"
    assert tried([CRASHING, GOOD], caps=Caps(tokens=110)).error == "its 110 tokens are used up"


def test_a_break_of_the_benchmark_loses_one_task_and_says_why() -> None:
    class Broken(System):
        name, about = "broken", ""

        async def version(self) -> str:
            return "1"

        async def solve(self, job: Job) -> Answer:
            raise RuntimeError("a bug")

    row = tried([GOOD], Broken())
    assert (row.status, row.solved, row.error) == ("exception", False, "RuntimeError: a bug")


# Stopping and going on ----------------------------------------------------------------------------------------------


def test_a_second_run_does_only_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    ran(planned(limit=2), [GOOD], file)
    new = ran(planned(["atc-check", "atc"]), [GOOD], file)
    assert [(row.task, row.system) for row in new] == [
        ("pen-0", "atc-check"),
        ("pen-1", "atc-check"),
        ("pen-2", "atc-check"),
        ("pen-2", "atc"),
    ]
    assert ran(planned(["atc-check", "atc"]), [GOOD], file) == []
    assert len(file.read_text().splitlines()) == 6


def test_all_try_a_task_before_the_next_and_environments_take_turns(tmp_path: Path) -> None:
    class Kiosk(Shop):
        name = "kiosk"

        def tasks(self) -> list[Task]:
            return super().tasks()[:1]

    systems = [SYSTEMS["atc"], SYSTEMS["codeact"]]
    new = ran(Plan([Shop(), Kiosk()], systems, limit=2), [GOOD], tmp_path / "rows.jsonl")
    assert [(row.env, row.task, row.system) for row in new] == [
        (env, task, system)
        for env, task in (("shop", "pen-0"), ("kiosk", "pen-0"), ("shop", "pen-1"))
        for system in ("atc", "codeact")
    ]


def test_a_run_of_so_many_minutes_begins_no_try_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(planned(minutes=0), [GOOD], tmp_path / "rows.jsonl") == []
    assert "0 minutes are over, 3 tries are left: the same command goes on with them" in capsys.readouterr().err
    assert len(ran(planned(minutes=5), [GOOD], tmp_path / "rows.jsonl")) == 3


def test_a_transcript_tells_what_was_said_and_called_in_its_order(tmp_path: Path) -> None:
    replies = ['```python\nanswer = order(item="moon")\n```', GOOD]
    (row,) = ran(planned(limit=1, transcripts=tmp_path / "said"), replies, tmp_path / "rows.jsonl")
    said = (tmp_path / "said" / "shop" / "pen-0.atc.0.md").read_text()
    parts = ["Order a pen", "answer: 7", "## system", '"moon"', 'refused: "not for sale"', 'answer = order(item="pen")']
    places = [said.index(part) for part in parts]
    assert row.solved
    assert places == sorted(places)
    assert said.count("## system") == 1  # what was shown before is not shown again
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="transcript cannot be kept in"):
        ran(planned(limit=1, transcripts=tmp_path / "file"), [GOOD], tmp_path / "others.jsonl")


def test_another_model_seed_version_or_cap_is_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.jsonl"
    ran(planned(limit=1), [GOOD], file)
    ran(planned(limit=1, seeds=(0, 1)), [GOOD], file)
    ran(planned(limit=1), [GOOD], file, model="other")
    assert [(row.seed, row.model) for row in read_rows(file)] == [(0, "tiny"), (1, "tiny"), (0, "other")]
    (other,) = ran(planned(limit=1, caps=Caps(seconds=60)), [GOOD], file)
    assert other.terms == "12 calls, 60000 tokens, 60 s, temperature 0.3"
    monkeypatch.setattr("benchmarks.systems.atc.sources_digest", lambda: "changed")
    assert [row.version for row in ran(planned(limit=1), [GOOD], file)] == ["changed"]
    own = [row for row in latest(read_rows(file)) if row.seed == 0 and row.model == "tiny" and "300 s" in row.terms]
    assert [row.version for row in own] == ["changed"]


def test_a_line_that_was_cut_off_costs_that_try_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    ran(planned(), [GOOD], file)
    file.write_bytes(file.read_bytes()[:-40])
    assert [row.task for row in ran(planned(), [GOOD], file)] == ["pen-2"]
    assert len(read_rows(file)) == 3
    assert "line 3: not a result" in capsys.readouterr().err


def test_an_endpoint_that_goes_down_is_noted_and_those_tries_are_made_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    ran(planned(), [GOOD, fails(503, "gone"), GOOD], file)
    rows = read_rows(file)
    assert [row.status for row in rows] == ["answered", "environment", "answered"]
    assert "503" in rows[1].error
    line = summarise(rows, list(SYSTEMS))[0]
    assert (line["tries"], line["lost"], line["solved"]) == (2, 1, 2)
    ran(planned(), [GOOD], file)
    assert [row.status for row in read_rows(file)] == ["answered"] * 3


def test_a_model_that_was_never_there_is_an_error_not_a_result(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="401"):
        ran(planned(), [fails(401, "no key")], tmp_path / "rows.jsonl")
    assert not (tmp_path / "rows.jsonl").exists()


def test_what_is_not_there_is_named_and_the_rest_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Missing(System):
        name, about = "missing", ""

        async def version(self) -> str:
            raise EnvironmentProblem("missing is not installed: `pip install missing`")

        async def solve(self, job: Job) -> Answer:
            raise AssertionError("it was asked all the same")

    environments = [open_environment("m3tooleval"), Shop()]
    new = ran(Plan(environments, [Missing(), SYSTEMS["atc"]], limit=1), [GOOD], tmp_path / "rows.jsonl")
    assert [(row.env, row.system) for row in new] == [("shop", "atc")]
    said = " ".join(capsys.readouterr().err.split())
    assert "left out: m3tooleval needs its data" in said
    assert "left out: missing is not installed: `pip install missing`" in said
    with pytest.raises(EnvironmentProblem, match="no system is there"):
        ran(Plan([Shop()], [Missing()]), [GOOD], tmp_path / "other.jsonl")


def test_results_that_cannot_be_kept_are_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"the results cannot be kept in .*: (Not|File).*make room"):
        ran(planned(limit=1), [GOOD], tmp_path / "file" / "rows.jsonl")


def test_a_sample_is_always_the_same_and_a_larger_one_holds_it() -> None:
    environment = AtlasEnvironment()
    few, more = (Plan([environment], [], sample=count).tasks(environment) for count in (5, 12))
    assert len(few) == 5
    assert set(few) < set(more)
    assert few == Plan([environment], [], sample=5).tasks(AtlasEnvironment())
    assert [task.id for task in more] == [task.id for task in environment.tasks() if task in more]


def test_a_quick_run_takes_some_of_every_environment_and_more_of_the_short_ones() -> None:
    taken = quick_tasks([AtlasEnvironment(), Shop()])
    assert taken == quick_tasks([AtlasEnvironment(), Shop()])
    assert {name: len(tasks) for name, tasks in taken.items()} == {"atlas": 4, "shop": 3}
    assert [task.id for task in Plan([Shop()], [], only={"shop": {"pen-1"}}).tasks(Shop())] == ["pen-1"]
    assert Plan([Shop()], [], only={}).tasks(Shop()) == []


# The table and the command ------------------------------------------------------------------------------------------


def made(task: str, solved: bool, env: str = "shop", system: str = "atc", **more: Any) -> Row:
    return Row(
        env=env,
        task=task,
        system=system,
        version="1",
        seed=0,
        model="tiny",
        terms="any",
        stated=True,
        status="answered",
        solved=solved,
        **more,
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


def test_the_summary_lists_systems_in_their_order_and_all_environments_together() -> None:
    rows = [
        made("a", True, "one", "react"),
        made("a", False, "one", "atc"),
        made("b", False, "two", "react", faults={"tool": 2}),
    ]
    lines = summarise(rows, list(SYSTEMS))
    assert [(line["env"], line["system"]) for line in lines] == [
        ("one", "atc"),
        ("one", "react"),
        ("two", "react"),
        ("all", "atc"),
        ("all", "react"),
    ]
    assert (lines[-1]["tries"], lines[-1]["solved"], lines[-1]["faults"]) == (2, 1, {"tool": 2})
    assert (lines[-1]["wins"], lines[-1]["losses"]) == (1, 0)


def test_tasks_are_grouped_by_how_many_tools_they_need() -> None:
    rows = [
        made("a", True, apis=0, model_calls=2),
        made("b", True, apis=1, model_calls=3),
        made("c", False, apis=2, model_calls=9),
        dataclasses.replace(made("d", False, apis=5), status="unsolved"),
        made("e", True, model_calls=1),
    ]
    (line,) = summarise(rows, list(SYSTEMS))
    found = {name: (each["tcr"], each["tsr"], each["steps"]) for name, each in line["difficulty"].items()}
    assert found == {
        "easy": (1.0, 1.0, 2.5),
        "medium": (1.0, 0.0, None),
        "hard": (0.0, 0.0, None),
        "all": (0.8, 0.6, 2.0),
    }


def test_only_what_both_tried_is_paired() -> None:
    mine = [made("a", True, system="react"), made("b", False, system="react"), made("c", True, system="react")]
    assert paired(mine, [made("a", False), made("b", True), made("d", True)]) == (1, 1)


def test_what_a_system_took_is_compared_over_what_both_tried() -> None:
    def took(task: str, system: str, tokens: int, steps: int, **more: Any) -> Row:
        return made(
            task, True, system=system, prompt_tokens=tokens - 10, completion_tokens=10, model_calls=steps, **more
        )

    rows = [took("a", "dfsdt", 900, 7), took("b", "dfsdt", 1_100, 9), took("c", "dfsdt", 50, 1)]
    rows += [
        took("a", "layered-calls", 200, 3),
        took("b", "layered-calls", 400, 5),
        took("d", "layered-calls", 10_000, 9),
    ]
    rows += [dataclasses.replace(took("c", "layered-calls", 9_999, 99), status="environment"), took("e", "atc", 1, 1)]
    found = {line["system"]: line["against"] for line in summarise(rows, list(SYSTEMS), "dfsdt")}
    beside = {"system": "dfsdt", "tries": 2, "solved": 2, "solved_there": 2, "tokens": -0.7, "steps": -0.5}
    assert found["layered-calls"] == beside
    assert (found["dfsdt"]["tokens"], found["atc"]["tries"], found["atc"]["tokens"]) == (0.0, 0, None)
    assert "against" not in summarise(rows, list(SYSTEMS))[0]


def test_the_command_compares_with_a_system_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    for system, tokens in (("dfsdt", 1_000), ("layered-calls", 300)):
        append(file, made("a", True, system=system, prompt_tokens=tokens, model_calls=4))
    shown = command("--summary", str(file), "--against", "dfsdt")
    assert shown.exit_code == 0
    assert "Against dfsdt" in shown.stdout
    assert "−70%" in shown.stdout
    assert (
        json.loads(command("--summary", str(file), "--against", "dfsdt", "--json").stdout)[0]["against"]["tries"] == 1
    )
    unknown = command("--summary", str(file), "--against", "react")
    assert (unknown.exit_code, "has no tries of 'react', but of dfsdt, layered-calls" in unknown.output) == (2, True)
    assert command("--against", "dfsdt").exit_code == 2


def command(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(ruler.main)
    return CliRunner().invoke(app, arguments)


def test_the_command_prints_the_summary_of_a_file_and_draws_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    ran(planned(), [GOOD], file)
    lines = json.loads(command("--summary", str(file), "--json").stdout)
    assert [(line["system"], line["solved"], line["tries"]) for line in lines] == [("atc", 3, 3)]
    assert sum(each["tries"] for name, each in lines[0]["difficulty"].items() if name != "all") == 3
    shown = command("--summary", str(file))
    assert shown.exit_code == 0
    assert "What it broke, tiny" in shown.stdout
    pytest.importorskip("matplotlib", reason="the picture needs the extra `bench`")
    assert command("--summary", str(file), "--picture", str(tmp_path / "p.svg")).exit_code == 0
    assert "<svg" in (tmp_path / "p.svg").read_text()


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
    with pytest.raises(UsageError, match=r"no environment .mars.: take some of .*atlas.*m3tooleval"):
        open_environment("mars")
    with pytest.raises(EnvironmentProblem, match="--data DIR or in ATC_DATA"):
        open_environment("m3tooleval").tasks()
    with pytest.raises(EnvironmentProblem, match="no folder /nowhere/executable/comptoolbench"):
        open_environment("comptoolbench", Path("/nowhere")).tasks()


def test_a_file_names_the_tasks_and_a_wrong_line_is_an_error() -> None:
    environment = AtlasEnvironment()
    first, second = (task.id for task in environment.tasks()[:2])
    named = tasks_of(f"# a remark\n\natlas/{first}\natlas/{second}  # another\n", [environment])
    assert named == {"atlas": {first, second}}
    for wrong in ("atlas/no-such-task", f"{first}", f"m3tooleval/{first}"):
        with pytest.raises(UsageError, match="there is no task"):
            tasks_of(wrong, [environment])

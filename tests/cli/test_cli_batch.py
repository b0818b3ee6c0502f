"""``atc batch``: what is refused before anything runs, the file that is written, and the exit codes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from atc.cli import options
from atc.cli.batch import AgentOptions
from tests.support.cli import GOOD, atc
from tests.support.fake_openai_server import says
from tests.support.permissions import written

TOOLS = ("-t", "tools.py")

pytestmark = pytest.mark.usefixtures("settled")


def test_wrong_lines_are_all_told_and_nothing_runs(endpoint: Any) -> None:
    server = endpoint(says(GOOD))
    Path("tasks.jsonl").write_text('"fine"\n{"task": 1}\n"also fine"\n{\n')
    ran = atc("batch", "tasks.jsonl", *TOOLS, "--json")
    assert ran.exit_code == 2
    message = json.loads(ran.stdout)["error"]["message"]
    assert [line.split(":")[0] for line in message.splitlines()] == ["tasks.jsonl, line 2", "tasks.jsonl, line 4"]
    assert not server.requests
    assert not Path("tasks.results.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl cannot be read"),
        (["-"], "need a file for the results"),
        (["tasks.jsonl", "-o", "tasks.jsonl"], "is the file of tasks"),
        (["tasks.jsonl", "-o", "."], "is a folder"),
        (["tasks.jsonl", "-o", "tools.py"], "line 1, is nothing that `atc batch` wrote"),
        (["tasks.jsonl", "--approve", "ask"], "a batch asks no one"),
        (["tasks.jsonl", "--on", "mars"], "ray:ADDRESS"),
        (["tasks.jsonl", "--on", "ray:ray://host:1"], "ray://… is not supported"),
        (["tasks.jsonl", "--total-s", "0"], "budget of seconds"),
    ],
)
def test_wrong_use_is_refused(arguments: list[str], message: str) -> None:
    Path("tasks.jsonl").write_text('"x"\n')
    ran = atc("batch", *arguments, *TOOLS, stdin='"x"\n')
    assert ran.exit_code == 2, ran.output
    assert message in " ".join(ran.stderr.split())


def test_a_file_of_tasks_becomes_a_file_of_results_and_goes_on(endpoint: Any) -> None:
    server = endpoint(says(GOOD))
    tasks = Path("tasks.jsonl")
    tasks.write_text('"What is twice 21?"\n{"task": "And again?", "id": "b", "answer": "number"}\n')
    ran = atc("batch", str(tasks), *TOOLS)
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[1].split()[:2] == ["answered", "2"]
    assert "results: tasks.results.jsonl" in ran.stdout
    asked = len(server.requests)
    tasks.write_text(tasks.read_text() + '{"task": "In words?", "answer": "text"}\n')
    ran = atc("batch", str(tasks), *TOOLS, "--json")
    assert ran.exit_code == 1, ran.output
    statuses = json.loads(ran.stdout)["statuses"]
    assert {status: sums["tasks"] for status, sums in statuses.items()} == {"answered": 2, "unsolved": 1}
    assert len(server.requests) > asked
    rows = [json.loads(line) for line in Path("tasks.results.jsonl").read_text().splitlines()]
    assert {row["id"]: row["value"] for row in rows} == {"1": 42, "b": 42, "3": None}
    tasks.write_text('"Another"\n')
    ran = atc("batch", str(tasks), *TOOLS)
    assert ran.exit_code == 2
    assert "'1'" in ran.stderr


CAUGHT = """```python
for n in [1, 2]:
    try:
        book(n=n)
    except ToolError:
        double(n=n)
answer = [1, 2]
```"""


def test_a_task_that_went_on_from_a_refusal_is_no_answer_and_keeps_its_value(endpoint: Any) -> None:
    endpoint(says(CAUGHT))
    Path("tasks.jsonl").write_text('"Book two"\n')
    ran = atc("batch", "tasks.jsonl", *TOOLS)
    assert ran.exit_code == 1, ran.output
    assert ran.stdout.splitlines()[1].split()[:2] == ["denied", "1"]
    assert "incomplete: 1 tasks went on without a call that they asked for" in ran.stderr
    row = json.loads(Path("tasks.results.jsonl").read_text())
    assert (row["status"], row["partial"], row["value"]) == ("denied", True, [1, 2])
    assert "book(n=1) refused" in row["error"]
    ran = atc("batch", "tasks.jsonl", *TOOLS, "--json")  # as the file has it
    found = json.loads(ran.stdout)
    assert (found["partial"], found["statuses"]["denied"]["tasks"], ran.exit_code) == (1, 1, 1)


FAILED = """```python
try:
    post(to="nobody")
except ToolError:
    answer = double(n=21)
```"""


def test_a_task_that_went_on_from_a_failure_is_an_answer_that_says_so(endpoint: Any) -> None:
    endpoint(says(FAILED))
    with Path("tools.py").open("a") as file:
        file.write('@tool(effect="write")\ndef post(to: str) -> str:\n    """Post."""\n    raise ToolError("no")\n')
    Path("tasks.jsonl").write_text('"Post it"\n')
    for _ in range(2):  # done, then read back
        ran = atc("batch", "tasks.jsonl", *TOOLS, "--approve", "always")
        assert ran.exit_code == 0, ran.output
        assert "incomplete: 1 tasks" in ran.stderr
    row = json.loads(Path("tasks.results.jsonl").read_text())
    assert (row["status"], row["partial"], row["value"]) == ("answered", True, 42)
    assert row["remarks"] == ["line 2: post(to='nobody') failed: no"]


def test_permissions_of_this_machine_hold_where_the_agent_is_opened_elsewhere(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\ndeny = "double"\n')
    made = AgentOptions(options.Source(("tools.py",)), {"sentence": False}, permissions)
    (tmp_path / "permissions.toml").unlink()
    agent = pickle.loads(pickle.dumps(made))()  # noqa: S301 - as a worker of a cluster gets it
    assert "double" not in agent.tools
    assert "book" in agent.tools


def test_an_interrupt_says_how_to_go_on(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(work: Any) -> None:
        work.close()
        raise KeyboardInterrupt

    endpoint(says(GOOD))
    Path("tasks.jsonl").write_text('"double 21"\n')
    monkeypatch.setattr("atc.cli.batch.asyncio.run", stopped)
    ran = atc("batch", "tasks.jsonl", *TOOLS, "--json")
    assert ran.exit_code == 130
    error = json.loads(ran.stdout)["error"]
    assert (error["kind"], error["hint"]) == ("Interrupted", "the same command continues")
    assert "nothing is left running; the same command continues" in ran.stderr


def test_a_task_that_waits_for_a_yes_has_a_row_and_goes_on_when_it_is_decided(endpoint: Any) -> None:
    endpoint(says("```python\nanswer = book(n=1)\n```"))
    Path("tasks.jsonl").write_text('"Book 1"\n')
    ran = atc("batch", "tasks.jsonl", *TOOLS, "--approve", "park")
    assert ran.exit_code == 8, ran.output
    assert "waiting for approval: 1 tasks; `atc runs approvals`" in ran.stderr
    (row,) = [json.loads(line) for line in Path("tasks.results.jsonl").read_text().splitlines()]
    assert (row["status"], [call["arguments"] for call in row["pending"]]) == ("waiting", [{"n": 1}])
    again = atc("batch", "tasks.jsonl", *TOOLS, "--approve", "park", "--json")
    assert (again.exit_code, json.loads(again.stdout)["statuses"]["waiting"]["tasks"]) == (8, 1)
    assert atc("runs", "approve", row["run_id"], "--deny").exit_code == 0
    done = atc("batch", "tasks.jsonl", *TOOLS, "--approve", "park", "--json")
    assert (done.exit_code, list(json.loads(done.stdout)["statuses"])) == (1, ["denied"])

"""A host that is really killed while a strategy calls tools: it goes on, and no write is made twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atc import Result

pytestmark = pytest.mark.slow

_HOST = """
import os, signal, sys
from pathlib import Path
from atc import Agent, tool
from atc.models.fake import FakeModel
folder, strategy, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def die(at):
    if when == at and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

@tool(effect="write")
def book(n: int) -> dict:
    "Book it."
    with (folder / "booked").open("a") as file:
        file.write(f"{n}\\n")
    die("within the call")
    return {"id": 100 + n}

def last(messages):
    die("after the call")
    return "Action: Finish\\nAction Input: {\\"answer\\": 101}" if strategy == "layered-calls" else "Final Answer: 101"

replies = ["Action: book\\nAction Input: {\\"n\\": 1}", last, last]
kept = dict(runs_dir=folder / "runs", strategy=strategy)
made = Agent([book], model=FakeModel(replies), sentence=False, approve="always", **kept)
print((made.resume("last") if (folder / "died").exists() else made.run("book one")).model_dump_json())
"""


@pytest.mark.parametrize("strategy", ["layered-calls", "dfsdt"])
@pytest.mark.parametrize(("when", "status"), [("within the call", "in_doubt"), ("after the call", "answered")])
@pytest.mark.usefixtures("nothing_left")
def test_a_host_that_is_killed_goes_on_and_repeats_no_write(
    tmp_path: Path, strategy: str, when: str, status: str
) -> None:
    host = [sys.executable, "-c", _HOST, str(tmp_path), strategy, when]
    killed = subprocess.run(host, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ran = subprocess.run(host, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    result = Result.model_validate_json(ran.stdout)
    assert (result.status, result.value) == (status, 101 if status == "answered" else None)
    assert (tmp_path / "booked").read_text() == "1\n"
    assert bool(result.in_doubt) is (status == "in_doubt")
    assert os.listdir(tmp_path / "runs")

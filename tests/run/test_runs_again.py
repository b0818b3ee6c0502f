"""A program that runs again has the clock, the random numbers and the order of sets that it had."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset
from atc.result import Effect
from tests.support.tools import make_tool

TEXT = {"type": "string"}
EXPRESSIONS = {
    "datetime.now": "datetime.datetime.now().isoformat()",
    "time": "repr(time.time())",
    "uuid4": "str(uuid.uuid4())",
    "uuid1": "str(uuid.uuid1())",
    "choice": "''.join(random.choice('abcdefghij') for _ in range(20))",
    "set": "' '.join({'ann', 'bo', 'cy', 'di', 'ed', 'flo', 'gus', 'hal'})",
    "secrets": "secrets.token_hex(16)",
}
PROGRAM = """
import datetime, random, secrets, time, uuid
look(what="a")
first = send(text={0})
look(what="b")
second = send(text={0})
answer = [first, second]
"""


class Mail:
    """What was sent, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        self.slow_s = 0.0
        self.copies = 0

    def agent(self, *programs: str, **given: Any) -> Agent:
        def send(arguments: dict[str, Any]) -> str:
            time.sleep(self.slow_s)
            self.sent.append(arguments["text"])
            return f"sent {len(self.sent)}"

        def look(arguments: dict[str, Any]) -> str:
            time.sleep(self.slow_s)
            self.copies += 1
            shutil.copytree(self.folder, self.at_look(self.copies))  # what there is if the process is killed now
            return "seen"

        tools = Toolset([make_tool("send", send, Effect.WRITE, text=TEXT), make_tool("look", look, what=TEXT)])
        replies = [f"```python\n{program}\n```" for program in programs]
        settings = {"sentence": False, "approve": "park", "runs_dir": self.folder, "reuse_reads_s": 0.0, "learn": False}
        return Agent(tools, model=FakeModel(replies), **{**settings, **given})

    def at_look(self, number: int) -> Path:
        return self.folder.with_name(f"at-look-{number}")

    def run(self, program: str, **given: Any) -> Result[Any]:
        return self.agent(program, **given).run("tell ann")


@pytest.fixture
def mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mail:
    monkeypatch.setattr("atc.calls.program_start.STEP_S", 0.2)  # a call of a quarter of a second is a slow one here
    return Mail(tmp_path / "runs")


def next_day(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)


def texts(result: Result[Any]) -> list[Any]:
    return [call.arguments["text"] for call in result.pending]


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_a_yes_fits_the_same_call_a_day_later(mail: Mail, monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    waiting = mail.run(PROGRAM.format(expression))
    asked = texts(waiting)
    assert (waiting.status, len(asked)) == ("waiting", 1), "the second one comes after a read"
    next_day(monkeypatch)
    mail.agent().approve(waiting.run_id)
    again = mail.agent().resume(waiting.run_id)
    assert (again.status, mail.sent, len(texts(again))) == ("waiting", asked, 1)
    mail.agent().approve(waiting.run_id)
    done = mail.agent().resume(waiting.run_id)
    assert (done.status, done.value, mail.sent) == ("answered", ["sent 1", "sent 2"], asked + texts(again))


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_a_run_that_was_killed_sends_nothing_twice(
    mail: Mail, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    whole = mail.run(PROGRAM.format(expression), approve="always")
    assert whole.value == ["sent 1", "sent 2"]
    next_day(monkeypatch)
    killed = mail.at_look(2)  # between the two
    done = mail.agent(approve="always", runs_dir=killed).resume(whole.run_id)
    assert done.value == ["sent 1", "sent 3"]
    assert mail.sent[2:] == mail.sent[1:2], "the second one is what it would have been"


def test_calls_that_took_longer_move_the_clock_as_they_did(mail: Mail) -> None:
    program = PROGRAM.format("repr(time.time())")
    mail.slow_s = 0.25
    whole = mail.run(program, approve="always")
    first, second = map(eval, mail.sent)
    assert 0.5 < second - first < 30, "a reply to a call that acts, and one to a read"
    mail.slow_s = 0.0
    done = mail.agent(approve="always", runs_dir=mail.at_look(2)).resume(whole.run_id)
    assert done.value == ["sent 1", "sent 3"], "the first one is answered from the journal"


def test_calls_that_were_quick_and_are_slow_now_change_nothing_before_a_write(mail: Mail) -> None:
    waiting = mail.run(PROGRAM.format("repr(time.time())"))
    mail.agent().approve(waiting.run_id)
    mail.slow_s = 0.25
    mail.agent().resume(waiting.run_id)
    assert mail.sent == texts(waiting)


def test_writes_of_a_loop_that_carry_the_time_are_one_form(mail: Mail) -> None:
    loop = "import datetime\nfor n in range(4):\n    send(text=f'{n} {datetime.datetime.now()}')\nanswer = 4"
    waiting = mail.run(loop)
    assert len(texts(waiting)) == 4
    mail.agent().approve(waiting.run_id)
    mail.slow_s = 0.15  # each call takes longer now than it took to put it off
    assert mail.agent().resume(waiting.run_id).value == 4
    assert mail.sent == texts(waiting)


@pytest.mark.parametrize("how", ["time.sleep(1.2)", "asyncio.run(asyncio.sleep(1.2))", "threading.Event().wait(1.2)"])
def test_the_clock_goes_on_while_a_program_waits(mail: Mail, how: str) -> None:
    program = (
        f"import asyncio, threading, time\nlook(what='a')\nbegan = time.time()\n{how}\nanswer = time.time() - began"
    )
    result = mail.run(program)
    assert 1 <= result.value < 2.2


def test_two_runs_draw_different_numbers(mail: Mail) -> None:
    drawn = ", ".join(EXPRESSIONS[name] for name in ("uuid4", "choice", "secrets"))
    program = f"import random, secrets, uuid\nlook(what='a')\nanswer = [{drawn}]"
    one, other = mail.run(program).value, mail.run(program).value
    assert all(a != b for a, b in zip(one, other, strict=True))

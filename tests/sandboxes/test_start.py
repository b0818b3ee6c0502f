# ruff: noqa: E501 - programs stand as they are
"""The clock and the random numbers of a program's start: every name for them has them, and nothing else changes."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from atc._host.files import resource_dir
from atc.calls.contract import CallReply, CallRequest
from atc.calls.program_start import ProgramStart
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.process.zygote import zygote_settings

START = ProgramStart(1_750_000_000.25, "5a" * 32)
AT = "2025-06-15T15:06:40.25"


async def none(request: CallRequest) -> CallReply:
    raise AssertionError(request)


def answers(*programs: str, start: ProgramStart | None = START, **given: Any) -> list[Any]:
    async def run() -> list[Any]:
        async with ProcessSandbox(**given) as sandbox:
            outcomes = [await sandbox.run(Job(program, {}, start=start), none) for program in programs]
        assert [outcome.error for outcome in outcomes] == [None] * len(programs)
        return [outcome.value for outcome in outcomes]

    return asyncio.run(run())


def test_every_name_for_the_time_has_the_clock_of_the_start() -> None:
    program = """
import datetime as module, email.utils, logging, time
from datetime import date, datetime, timezone
from time import time as taken
class Own(datetime): pass
class Holds: now = time.time
def default(now=time.time): return now()
UTC = timezone.utc
record = logging.LogRecord("a", 20, "b", 1, "c", (), None)
found = {
    "now": datetime.now(UTC).isoformat(), "utcnow": datetime.utcnow().isoformat(), "module": module.datetime.now(tz=UTC).isoformat(),
    "local": datetime.now().astimezone(UTC).isoformat(), "today": datetime.today().astimezone(UTC).isoformat(),
    "own": Own.now(UTC).isoformat(), "logging": datetime.fromtimestamp(record.created, UTC).isoformat(),
    "time": datetime.fromtimestamp(time.time(), UTC).isoformat(), "taken": datetime.fromtimestamp(taken(), UTC).isoformat(),
    "ns": datetime.fromtimestamp(time.time_ns() / 1e9, UTC).isoformat(),
    "held": datetime.fromtimestamp(Holds().now(), UTC).isoformat(), "default": datetime.fromtimestamp(default(), UTC).isoformat(),
    "clock": datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), UTC).isoformat(),
    "gmtime": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()), "localtime": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.mktime(time.localtime()))),
    "mail": email.utils.parsedate_to_datetime(email.utils.formatdate()).isoformat(),
    "strftime": datetime.fromtimestamp(time.mktime(time.strptime(time.strftime("%c"))), UTC).isoformat(),
    "ctime": datetime.fromtimestamp(time.mktime(time.strptime(time.ctime())), UTC).isoformat(),
    "asctime": datetime.fromtimestamp(time.mktime(time.strptime(time.asctime())), UTC).isoformat(),
}
answer = [found, str(date.today()), type(Own.now()).__name__, type(Own.today()).__name__]
"""
    ((found, today, *own),) = answers(program)
    assert {name: text for name, text in found.items() if not text.startswith(AT[:19])} == {}
    fine = {name: text for name, text in found.items() if "." in text}
    assert len(fine) == 13
    assert {name: text for name, text in fine.items() if not text.startswith(AT)} == {}
    assert len(set(fine.values())) == len(fine), "two readings differ"
    assert today in ("2025-06-15", "2025-06-16")
    assert own == ["Own", "Own"]


def test_types_stay_what_they_are_and_what_is_given_counts() -> None:
    program = """
import asyncio, copy, datetime, inspect, os, pickle, random, time, uuid
now = datetime.datetime.now()
def refused(work, *given):
    try: work(*given)
    except Exception as error: return type(error).__name__
answer = [
    type(now) is datetime.datetime, isinstance(now, datetime.date), pickle.loads(pickle.dumps(now)) == copy.deepcopy(now) == now,
    pickle.loads(pickle.dumps(datetime.datetime)) is datetime.datetime, datetime.datetime.__module__,
    issubclass(random.SystemRandom, random.Random), isinstance(uuid.uuid4(), uuid.UUID),
    time.gmtime(0).tm_year, time.strftime("%Y", time.gmtime(0)), time.asctime(time.gmtime(0)), datetime.datetime.fromtimestamp(0, datetime.timezone.utc).year,
    [random.Random(7).random(), random.seed(7), random.random()], str(uuid.uuid5(uuid.NAMESPACE_DNS, "a")),
    inspect.iscoroutinefunction(asyncio.sleep), asyncio.run(asyncio.sleep(0, "done")), len(os.urandom(100_000)), os.urandom(0) == b"",
    refused(time.sleep, "x"), refused(time.sleep, -1), refused(os.urandom, -1), refused(os.urandom, "x"), refused(random.Random, []),
    refused(time.asctime, None), refused(datetime.datetime.now, 1), sorted(os.environ.keys() - {"LC_CTYPE"}),
]
"""
    (found,) = answers(program)
    drawn = random.Random(7).random()
    assert found == [
        *[True, True, True, True, "datetime", True, True],
        *[1970, "1970", "Thu Jan  1 00:00:00 1970", 1970],
        *[[drawn, None, drawn], str(uuid.uuid5(uuid.NAMESPACE_DNS, "a"))],
        *[True, "done", 100_000, True],
        *["TypeError", "ValueError", "ValueError", "TypeError", "TypeError", "TypeError", "TypeError", []],
    ]


def test_without_a_start_a_program_has_the_clock_of_the_machine_and_draws_anew() -> None:
    program = """
import datetime, os, random, time
answer = [time.time(), datetime.datetime.now().timestamp(), time.time_ns() / 1e9, random.random(), os.urandom(8).hex()]
"""
    began = time.time()
    found = answers(program, program, start=None)
    for each in found:
        assert all(began - 0.1 <= reading <= time.time() for reading in each[:3])
    assert found[0][3:] != found[1][3:]


def test_a_thread_and_the_handler_of_a_signal_may_read_the_clock_while_it_is_read() -> None:
    program = """
import signal, threading, time
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(time.time()))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def read(): seen.extend(time.time_ns() for _ in range(20_000))
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
whole = [each for each in seen if type(each) is int]
answer = [len(whole), len(set(whole))]
"""
    assert answers(program) == [[60_000, 60_000]]


@pytest.mark.slow
def test_what_numpy_draws_is_the_same_again() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed beside ATC")
    program = """
import numpy
answer = [numpy.random.rand(), numpy.random.default_rng().random(), numpy.random.RandomState().rand()]
"""
    first, again = answers(program, program, preload=["numpy"])
    assert first == again
    assert len(set(first)) == 3


def test_in_a_container_the_environment_of_the_image_is_gone_and_the_hash_seed_is_ours(tmp_path: Path) -> None:
    path = str(tmp_path / "control")
    settings = zygote_settings("F", Limits()) | {"listen": path, "verify": {}}
    zygote = str(resource_dir("sandbox").resolve() / "zygote.py")
    script = tmp_path / "probe.py"
    script.write_text(
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(Path(zygote).parent)!r})\n"
        "import inside\n"
        "inside.forget_environment()\n"
        "print(os.environ.get('IMAGE'), hash('a'), sys.flags.safe_path, sys.flags.no_site, len(sys.argv))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-I", "-S", str(script), json.dumps(settings)],
            env={"IMAGE": "x", "PYTHONHASHSEED": seed, "PYTHONPATH": "/nowhere"},
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("7", "random")
    ]
    assert said[0] == said[1]
    assert said[0].split()[0] == b"None"
    assert said[0].split()[2:] == [b"True", b"1", b"2"]

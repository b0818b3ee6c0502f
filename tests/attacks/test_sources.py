"""A source that is a bomb brings down neither the parser nor the check: it gets findings, soon, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.sources import SOURCES

_CHILD = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from tests.attacks.sources import SOURCES
from atc import Effect, Protocol
from atc.programs.check.checker import Checker
from atc.programs.extract import extract
from atc.programs.program import Program

FIND = Protocol(name="find", effect=Effect.READ, parameters={"properties": {"name": {"type": "string"}}},
                returns={"type": "object", "properties": {"name": {"type": "string"}}})

clock = time.process_time  # what other programs take is not counted
checker = Checker([FIND])
for name in sys.argv[2:]:
    source = SOURCES[name]
    began = clock()
    found = checker.check(Program(source), "x")
    checked = clock()
    extract(source, ["find"])
    extract("```python\\n" + source + "\\n```", ["find"])
    print(json.dumps([name, [f.kind for f in found][:5], max((len(f.message) for f in found), default=0),
                      checked - began, clock() - checked]), flush=True)
# VmHWM is of this program alone; getrusage counts what the process that started it had, too
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps(int(peak.split()[1]) >> 10))
"""


HEAVY = (
    "depth: loops in loops",
    "depth: decorators",
    "size: many imports",
    "size: many calls",
    "size: many branches",
    "size: many arguments",
    "size: many semicolons",
    "size: names that double",
    "text: warnings, many",
    "text: star imports",
)
"""They take half a second and more."""
LIGHT = tuple(name for name in SOURCES if name not in HEAVY)


def _checked(names: Iterable[str]) -> dict[str, Any]:
    """What became of each: its line as the child printed it; a child that died tells by those that are missing."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(Path(__file__).parents[2]), *names],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = {line[0]: line[1:] for line in lines if isinstance(line, list)}
    return {**told, "memory": lines[-1], "died": f"exit status {done.returncode}: {done.stderr[-2000:]}"}


@pytest.fixture(scope="module")
def checked() -> dict[str, Any]:
    return _checked(LIGHT)


@pytest.fixture(scope="module")
def checked_heavy() -> dict[str, Any]:
    return _checked(HEAVY)


def _survived(name: str, checked: dict[str, Any]) -> None:
    assert name in checked, checked["died"]
    _, longest, check_s, extract_s = checked[name]
    assert check_s < 20
    assert extract_s < 20
    assert longest < 5000


def _took_little_memory(checked: dict[str, Any]) -> None:
    assert type(checked["memory"]) is int, checked["died"]
    assert checked["memory"] < 300, "MiB"


@pytest.mark.parametrize("name", LIGHT)
def test_a_source_that_is_a_bomb_is_checked_like_any_other(name: str, checked: dict[str, Any]) -> None:
    _survived(name, checked)


def test_all_of_them_take_little_memory(checked: dict[str, Any]) -> None:
    _took_little_memory(checked)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_bomb_is_checked_like_any_other(name: str, checked_heavy: dict[str, Any]) -> None:
    _survived(name, checked_heavy)


@pytest.mark.slow
def test_all_heavy_ones_take_little_memory(checked_heavy: dict[str, Any]) -> None:
    _took_little_memory(checked_heavy)

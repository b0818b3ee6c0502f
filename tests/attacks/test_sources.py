"""A source that is a bomb brings down neither the parser nor the check: it gets findings, soon, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atc.programs.typecheck import TIMEOUT_S
from attacks.sources import SOURCES

_CHILD = """
import asyncio, json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from attacks.sources import SOURCES
from atc import Effect, Protocol
from atc.programs.check import Checker
from atc.programs.extract import extract

FIND = Protocol(name="find", effect=Effect.READ, parameters={"properties": {"name": {"type": "string"}}},
                returns={"type": "object", "properties": {"name": {"type": "string"}}})

async def main():
    checker = Checker([FIND], types=sys.argv[2] == "types")
    for name, source in SOURCES.items():
        began = time.perf_counter()
        found = await asyncio.wait_for(checker.check(source, "x"), 60)
        checked = time.perf_counter()
        extract(source, ["find"])
        extract("```python\\n" + source + "\\n```", ["find"])
        print(json.dumps([name, [f.kind for f in found][:5], max((len(f.message) for f in found), default=0),
                          checked - began, time.perf_counter() - checked]), flush=True)
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10))
    checker.close()

asyncio.run(main())
"""


def _checked(types: bool) -> dict[str, Any]:
    """What became of each: its line as the child printed it; a child that died tells by those that are missing."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(Path(__file__).parents[1]), "types" if types else "none"],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = {line[0]: line[1:] for line in lines if isinstance(line, list)}
    return {**told, "memory": lines[-1], "died": f"exit status {done.returncode}: {done.stderr[-2000:]}"}


@pytest.fixture(scope="module")
def checked() -> dict[str, Any]:
    return _checked(types=False)


@pytest.fixture(scope="module")
def checked_with_types() -> dict[str, Any]:
    return _checked(types=True)


def _survived(name: str, checked: dict[str, Any], most_s: float = 5) -> None:
    assert name in checked, checked["died"]
    _, longest, check_s, extract_s = checked[name]
    assert check_s < most_s
    assert extract_s < 5
    assert longest < 5000


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_is_a_bomb_is_checked_like_any_other(name: str, checked: dict[str, Any]) -> None:
    _survived(name, checked)


def test_all_of_them_take_little_memory(checked: dict[str, Any]) -> None:
    assert type(checked["memory"]) is int, checked["died"]
    assert checked["memory"] < 300, "MiB"


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_the_type_checker_survives_it_too(name: str, checked_with_types: dict[str, Any]) -> None:
    _survived(name, checked_with_types, TIMEOUT_S + 5)

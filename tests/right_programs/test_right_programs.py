"""None of the right programs is refused, and none gives another value than in plain Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from atc import Agent
from tests.right_programs.support import SETS, in_plain_python, programs, tool_set, tools_of


def wrong(name: str, sources: Sequence[str]) -> list[tuple[Any, ...]]:
    """The programs of a set that did not answer what plain Python answers, or that the check found an error in."""
    module, found = tool_set(name), list[tuple[Any, ...]]()
    with tools_of(module) as tools:
        for source in sources:
            wanted = in_plain_python(module, source)
            with Agent(tools(), approve="always", sentence=False, keep_runs=False) as agent:
                result = agent.run_program(source)
            same = json.dumps(result.json_value, sort_keys=True) == json.dumps(wanted, sort_keys=True)
            refused = [f.message for revision in result.revisions for f in revision.findings if f.severity == "error"]
            if result.status != "answered" or not same or refused:
                fault = result.fault.message if result.fault else ""
                found.append((source, result.status, result.json_value, wanted, refused, fault))
    return found


@pytest.mark.parametrize("name", SETS)
def test_right_programs_run_and_answer_what_plain_python_answers(name: str) -> None:
    """A fifth of them, drawn by hash."""
    drawn = sorted(programs(name), key=lambda source: hashlib.sha256(source.encode()).digest())[:4]
    assert wrong(name, drawn) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_all_right_programs_run_and_answer_what_plain_python_answers(name: str) -> None:
    assert wrong(name, programs(name)) == []


@pytest.mark.parametrize("name", SETS)
def test_each_task_has_a_program(name: str) -> None:
    assert len(programs(name)) == len(tool_set(name).TASKS) == 20

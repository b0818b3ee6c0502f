"""None of the right programs is refused, and none gives another value than in plain Python."""

from __future__ import annotations

import json

import pytest

from atc import Agent
from tests.right_programs.support import SETS, in_plain_python, programs, tool_set, tools_of


@pytest.mark.parametrize("name", SETS)
def test_right_programs_run_and_answer_what_plain_python_answers(name: str) -> None:
    module = tool_set(name)
    wrong = []
    with tools_of(module) as tools:
        for number, source in enumerate(programs(name), 1):
            wanted = in_plain_python(module, source)
            with Agent(tools(), approve="always", sentence=False, keep_runs=False) as agent:
                result = agent.run_program(source)
            same = json.dumps(result.json_value, sort_keys=True) == json.dumps(wanted, sort_keys=True)
            refused = [f.message for revision in result.revisions for f in revision.findings if f.severity == "error"]
            if result.status != "answered" or not same or refused:
                fault = result.fault.message if result.fault else ""
                wrong.append((number, result.status, result.json_value, wanted, refused, fault))
    assert wrong == []


@pytest.mark.parametrize("name", SETS)
def test_each_task_has_a_program(name: str) -> None:
    assert len(programs(name)) == len(tool_set(name).TASKS) == 20

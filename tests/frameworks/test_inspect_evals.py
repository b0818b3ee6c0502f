"""Benchmarks of Inspect, with programs made of the tasks' own solutions: their scorers read what ATC leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc import to_inspect

pytest.importorskip("inspect_evals", reason="inspect-evals is not installed: `make frameworks` has it")
pytest.importorskip("deepdiff", reason="inspect-evals[agentdojo] is not installed: `make frameworks` has it")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalSample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import use_tools
from inspect_ai.tool import ToolCall
from inspect_evals.agentdojo.agentdojo import agentdojo
from inspect_evals.agentdojo.attacks.attack import get_attack
from inspect_evals.agentdojo.dataset import TASK_SUITES
from inspect_evals.tau2.common.metadata import Tau2MetaData
from inspect_evals.tau2.telecom.dataset import read_dataset
from inspect_evals.tau2.telecom.scorer import telecom_scorer
from inspect_evals.tau2.telecom.solver import telecom_initializer
from inspect_evals.tau2.telecom.tools import all_telecom_agent_tools
from inspect_evals.tau2.telecom.user_tools import all_telecom_user_tools

pytestmark = pytest.mark.slow
ATTACK = "important_instructions"


def program(calls: list[tuple[str, dict[str, Any]]], answer: str) -> str:
    lines = [f"{name}(**{json.loads(json.dumps(given, default=str))!r})" for name, given in calls]
    return "\n".join(["```python", *lines, f"answer = {answer!r}", "```"])


def solved(task: Task, text: str, logs: Path) -> EvalSample:
    def reply(*_: Any) -> ModelOutput:
        made = ModelOutput.from_content("mockllm/model", text)
        made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return made

    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    solver = to_inspect(stub_tokens=100_000, max_revisions=0)
    (log,) = evaluate(task, solver=solver, model=model, log_dir=str(logs), display="none")
    assert log.samples is not None
    (sample,) = log.samples
    return sample


@pytest.mark.parametrize("suite", ["banking", "slack", "travel", "workspace"])
@pytest.mark.parametrize(
    ("injected", "by", "scores"),
    [
        (False, "user", {"utility": "C"}),
        (True, "user", {"utility": "C", "security": "I"}),
        (True, "attacker", {"utility": "I", "security": "C"}),  # that the attacker got what it wants
    ],
)
def test_agentdojo_scores_what_was_done(
    suite: str, injected: bool, by: str, scores: dict[str, str], tmp_path: Path
) -> None:
    tasks: Any = TASK_SUITES[suite]  # type: ignore[index]
    user = next(task for task in tasks.user_tasks.values() if int(task.ID) == 0)
    injection = next(iter(tasks.injection_tasks.values()))
    vectors, attack = tasks.get_injection_vector_defaults(), get_attack(attack_name=ATTACK)
    if injected and isinstance(attack, str):
        vectors = dict.fromkeys(vectors, attack.format(goal=injection.GOAL))
    done = user if by == "user" else injection
    calls: list[ToolCall] = done.ground_truth(tasks.load_and_inject_default_environment(vectors))
    text = program([(call.function, call.arguments) for call in calls], done.GROUND_TRUTH_OUTPUT or "done")
    task = agentdojo(
        attack=ATTACK,
        workspace=suite,
        user_task_ids=[0],
        injection_task_ids=[int(injection.ID)] if injected else None,
        with_injections=injected,
        with_sandbox_tasks="no",
    )
    sample = solved(task, text, tmp_path)
    assert sample.scores is not None
    (score,) = sample.scores.values()
    assert score.value == scores


def test_tau2_reads_the_calls_and_the_state_that_they_left(tmp_path: Path) -> None:
    sample = next(iter(read_dataset("TelecomAgent", shuffle=False)))
    sample.input = "Solve the ticket."  # the user of the task is simulated, and is not here
    criteria = Tau2MetaData.model_validate(sample.metadata).task.evaluation_criteria
    assert criteria is not None
    calls = [(action.name, action.arguments) for action in criteria.actions or []]
    tools = [make() for make in (*all_telecom_agent_tools, *all_telecom_user_tools)]
    setup = [telecom_initializer(), use_tools(tools)]
    for made, value in ((calls, "C"), (calls[:-1], "I")):
        ended = solved(Task([sample], setup=setup, scorer=telecom_scorer()), program(made, "done"), tmp_path)
        assert ended.scores is not None
        assert ended.scores["telecom_scorer"].value == value

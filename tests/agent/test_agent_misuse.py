"""Wrong use of an agent is told before anything runs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import atc
from atc import Agent, CallPolicy, Settings, Toolset, UsageError
from atc.errors import SandboxUnavailable
from atc.models.base import Reply
from atc.models.fake import FakeModel
from tests.support.agent import GOOD, Broken, agent, double
from tests.support.tools import make_tool


@pytest.mark.parametrize("task", ["", "  \n", 42, None, ["x"]])
def test_a_task_is_words(task: Any) -> None:
    with pytest.raises(UsageError, match=r"the task is .* in plain words what is wanted"):
        agent(GOOD).run(task)


def test_a_task_may_hold_the_policy_that_it_stands_under() -> None:
    assert agent(GOOD).run("Always be polite. " * 3_000 + "What is twice 4?").status == "answered"


def test_a_task_is_not_endless() -> None:
    with pytest.raises(UsageError, match="100,001 characters; the limit is 100,000"):
        agent(GOOD).run("x" * 100_001)


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "at least one tool"),
        (Toolset(), "at least one tool"),
        (double, "not function"),
        ("atlas", "not str"),
        (None, "an agent needs tools"),
    ],
)
def test_an_agent_needs_tools(tools: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent(tools)


def test_a_catalogue_is_a_catalogue_or_a_folder() -> None:
    with pytest.raises(UsageError, match="a Catalogue or a folder, not int"):
        Agent([double], catalogue=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["answer", "parallel", "ToolError"])
def test_no_tool_takes_a_name_that_programs_use(name: str) -> None:
    with pytest.raises(UsageError, match=f"no tool may be named '{name}'"):
        Agent(Toolset([make_tool(name, lambda a: 1)]))


def test_a_tool_whose_schema_is_none_is_refused_before_anything_runs() -> None:
    made = agent(GOOD, tools=Toolset([make_tool("double", lambda a: 1, n={"type": "integr"})]))
    with pytest.raises(UsageError, match="the parameters of double is not a usable JSON Schema"):
        made.run("double 21")
    assert made.store.list() == []


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(atc.UsageError, match="max_revision: "):
        Agent([double], max_revision=1)
    assert issubclass(type(Settings.load()), Settings)


def test_a_policy_goes_before_the_settings() -> None:
    result = agent(
        "```python\nanswer = [double(n=n) for n in (1, 2)]\n```", policy=CallPolicy(max_calls=1), max_revisions=0
    ).run("x")
    assert result.usage.tool_calls == 1


@pytest.mark.own_sandbox
def test_isolation_that_cannot_be_had_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.sandboxes.process import driver as process

    real = process.start_zygote

    def without_landlock(settings: dict[str, Any]) -> Any:
        if settings["tier"] != "F":
            raise SandboxUnavailable("Landlock: this kernel does not have it")
        return real(settings)

    monkeypatch.setattr(process, "start_zygote", without_landlock)
    with pytest.raises(SandboxUnavailable, match=r"cannot isolate a program as required .*Landlock"):
        agent(GOOD).run("double 21")
    result = agent(GOOD, sandbox_require="F").run("double 21")
    assert (result.value, result.isolation) == (42, "process/F")


def test_where_there_is_no_sandbox_nobody_waits_for_the_model() -> None:
    class Absent(Broken):
        async def prepare(self) -> None:
            raise self.error

    class Slow(FakeModel):
        async def complete(self, *args: Any, **more: Any) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError("it was waited for")

    made = Agent([double], model=Slow([]), sandbox=Absent(SandboxUnavailable("no engine answers")))
    began = time.monotonic()
    with pytest.raises(SandboxUnavailable, match="no engine answers"):
        made.run("double 21")
    assert time.monotonic() - began < 50


def test_it_does_not_matter_where_the_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "with a space"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("sandbox", "prompts", "frames.py", "run.py", "json.py"):
        (here / name).write_text("raise SystemExit('shadowed')") if name.endswith(".py") else (here / name).mkdir()
    assert agent(GOOD).run("double 21").value == 42
    assert os.getcwd() == str(here)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

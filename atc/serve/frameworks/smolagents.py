"""An agent as a tool of smolagents (≥ 1.20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atc.agent import Agent
from atc.errors import EnvironmentProblem
from atc.serve.frameworks.delegate import NAME, Delegate, value_of

if TYPE_CHECKING:
    from smolagents import Tool


class TaskFailed(Exception):
    """A task ended without an answer. The message says why, and which calls with effects are done."""


def to_smolagents(agent: Agent, *, name: str = NAME, description: str | None = None) -> Tool:
    """Make a smolagents tool of an agent: its one argument is a whole task, in words.

    It returns the run's value as JSON values, so that a program of a ``CodeAgent`` can go on with it. A task without
    an answer raises an exception that says why, and which calls with effects are done. Who approves calls with effects
    is the agent's business. The tool works in this process: it cannot be saved, or sent to a remote executor.

    Args:
        agent: stays yours to close.
        name: of the tool.
        description: what it is good for, for the calling model; by default what it does and the names of its tools.

    Raises:
        EnvironmentProblem: ``smolagents`` is not installed.
        UsageError: the name cannot be a tool's.
    """
    try:
        from smolagents import Tool
    except ImportError:
        raise EnvironmentProblem("the package smolagents is not installed", fix="pip install smolagents") from None
    delegate = Delegate(agent, name, description)

    class SolveTask(Tool):
        """The tool."""

        name = delegate.name
        description = delegate.description
        inputs = {"task": {"type": "string", "description": delegate.about_task}}  # noqa: RUF012 - their form
        output_type = "any"

        def forward(self, task: str) -> Any:
            result = delegate.solve_blocking(task)
            if result.status != "answered":
                raise TaskFailed(delegate.failure(result))
            return value_of(result)

    return SolveTask()

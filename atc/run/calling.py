"""Call one tool, or one kept program, without a model: checked, run in the jail, journalled, and kept as a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atc.run.given_program import GivenRun
from atc.traces.emitter import Listener

if TYPE_CHECKING:
    from atc.agent import Agent


async def call_tool(
    agent: Agent,
    name: str,
    arguments: Mapping[str, Any],
    *,
    author: str = "",
    dry_run: bool = False,
    listener: Listener | None = None,
    run_id: str = "",
) -> GivenRun:
    """Call a tool of an agent by a program of one line, whose inputs are the arguments.

    Args:
        agent: whose tools, sandbox, approval and limits count. Its model is not asked.
        name: of the tool, as programs call it.
        arguments: JSON values and bytes, by the parameters' names, as programs write them or as the tool has them.
        author: who asked for it; names the run.
        dry_run: calls with effects are planned, not made.
        listener: told of every event.
        run_id: of a new run; made here when not given.

    Returns:
        The run; the value of its result is what the tool returned.

    Raises:
        UsageError: there is no such tool, or an argument is missing, unknown, or not what the tool's schema says.
        EnvironmentProblem: not the isolation that was asked for.
    """
    raise NotImplementedError

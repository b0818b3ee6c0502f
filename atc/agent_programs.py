"""An agent runs programs that its caller wrote; no model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from atc.blocking import wait_for
from atc.result import Result

if TYPE_CHECKING:
    from atc.agent import Agent


class RunsPrograms:
    """What :class:`atc.Agent` does with a program of its caller's own."""

    def run_program(
        self, source: str, *, inputs: Mapping[str, Any] | None = None, run: str | None = None, dry_run: bool = False
    ) -> Result[Any]:
        """Check a program, run it in the sandbox over the agent's tools, and trace its failure. Blocks.

        The model is not asked: there need be none. ``status`` and ``fault`` are as of any run; of a program that the
        check refused, the last of ``revisions`` has the findings.

        Args:
            source: Python that calls tools by name and leaves its result in ``answer``.
            inputs: JSON values and bytes that stand in its scope, by name. A revision that gives none has those before.
            run: id of a run of such a program: this one is its revision, and what succeeded is not repeated.
            dry_run: calls with effects are planned, not made.

        Raises:
            UsageError: the program is empty or too long, an input cannot be used, or there is no such run.
            JournalError: the run's journal is damaged, or another process works on it.
            EnvironmentProblem: not the isolation that was asked for.
        """
        return wait_for(self.arun_program(source, inputs=inputs, run=run, dry_run=dry_run))

    async def arun_program(
        self, source: str, *, inputs: Mapping[str, Any] | None = None, run: str | None = None, dry_run: bool = False
    ) -> Result[Any]:
        """:meth:`run_program` for asynchronous code."""
        from atc.given_program import run_given  # the checker comes with it

        agent = cast("Agent", self)
        return (await run_given(agent, source, inputs=inputs, revises=run, dry_run=dry_run)).result

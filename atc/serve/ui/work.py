"""The runs that this server began: tasks and resumes by one agent, each until its end or until somebody stops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from atc._records.events import Event
from atc._records.keeping import Proposal
from atc.agent import Agent
from atc.errors import AtcError, UsageError
from atc.result import Effect
from atc.run.apply import apply_plan
from atc.run.keeping import Edits, keep, propose
from atc.serve.pages.run.nodes import brief
from atc.serve.ui.desk import RUN
from atc.serve.ui.parked_runs import on_the_page
from atc.traces.stores.base import StoredRun
from atc.traces.summary import RUNNING

MOST_AT_ONCE = 8
"""Runs that go on at once."""
CLEAN_S = 8.0
"""Seconds that runs get to end in when the server ends."""
NAMED = 12
"""Tools of a new task that are named; the others are counted."""
MOST_PROBLEM = 500
"""Characters of why there is no model."""
ENDED = ("answered", "planned", "damaged", "unreadable")
"""Statuses of runs that no resume takes on."""

log = logging.getLogger("atc.ui")


class Busy(AtcError):
    """:data:`MOST_AT_ONCE` runs go on, or the server ends."""


@dataclass(eq=False)
class Job:
    """A run of this server.

    Attributes:
        task: as the user gave it; empty for a resume, until its trace says it.
        run_id: empty until it has begun.
        begun: it has.
    """

    task: str = ""
    run_id: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None


_JOB: ContextVar[Job | None] = ContextVar("_JOB", default=None)


class Work:
    """Begins, resumes and stops runs. For one event loop.

    Args:
        changed: called with a run's id when something happened in it.

    Attributes:
        about: what a new task will have (:func:`about_agent`); ``None`` without an agent.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._jobs: set[Job] = set()
        self._agent: Agent | None = None
        self._source = ""
        self._proposing = asyncio.Lock()
        self.about: dict[str, Any] | None = None
        self.ending = False

    def use(self, agent: Agent, source: str) -> None:
        """Run by this agent; ``source``: where its tools are, as traces have it."""
        self._agent, self._source, self.about = agent, source, about_agent(agent)

    @property
    def can_run(self) -> bool:
        """Whether there is an agent."""
        return self._agent is not None

    def heard(self, event: Event) -> None:
        """What the agent tells its events to."""
        job = _JOB.get()
        if job is None:
            return
        if event.kind == "run_started":
            job.run_id = event.data["run_id"]
            job.task = event.data["task"]
            RUN.set((job.run_id, job.task))
            job.begun.set()
        self._changed(job.run_id)

    def goes_on(self, source: Any) -> bool:
        """Whether there are the tools here that a run was begun with: where they are, as its trace has it."""
        return self.can_run and source == self._source

    def here(self, run_id: str) -> bool:
        """Whether this server runs it now."""
        return any(job.run_id == run_id for job in self._jobs)

    def can(self, run_id: str, status: str, source: Any) -> list[str]:
        """What a user with all rights may do to a run.

        Args:
            run_id: of the run.
            status: as its summary has it; ``running`` where another process works on it.
            source: where its tools are, as its trace has it.
        """
        if self.here(run_id):
            return ["stop"]
        if status == "answered" and self.goes_on(source):
            return ["keep"]
        if status in (*ENDED, RUNNING) or not self.goes_on(source):
            return []
        return ["reply"] if status == "needs_input" else ["resume"]

    async def begin(self, task: str, answer: str | None, dry_run: bool) -> str:
        """Begin a task; the id of its run, once it has one.

        Raises:
            Busy: there are too many.
            AtcError: it cannot be begun.
        """
        agent = self._able()
        return await self._started(
            Job(task), lambda: agent.arun(task, answer=answer, dry_run=dry_run, source=self._source)
        )

    async def resume(self, stored: StoredRun, source: Any, reply: str | None) -> str:
        """Go on with a run; its id, once it goes on.

        Args:
            stored: the run.
            source: where its tools are, as its trace has it.
            reply: the answer to the question that it ended with.

        Raises:
            Busy: there are too many.
            UsageError: it goes on here already, it was begun with other tools, or it has ended.
            AtcError: it cannot go on.
        """
        agent = self._able_to_go_on(stored.run_id, source, f"go on with it by `atc resume {stored.run_id}`")
        job = Job(run_id=stored.run_id)
        return await self._started(job, lambda: agent.aresume(stored.run_id, reply=reply))

    async def apply(self, stored: StoredRun, source: Any, seen: str) -> str:
        """Apply the plan of a dry run; its id, once it goes on.

        Args:
            stored: the run.
            source: where its tools are, as its trace has it.
            seen: the digest of what was shown.

        Raises:
            PlanChanged: it is not what was shown, or somebody else began to apply it.
            Busy, UsageError, AtcError: as :meth:`resume`.
        """
        agent = self._able_to_go_on(stored.run_id, source, f"apply its plan by `atc runs apply {stored.run_id}`")
        job = Job(run_id=stored.run_id)
        return await self._started(job, lambda: apply_plan(agent, stored, by=on_the_page(), seen=seen))

    async def propose(self, stored: StoredRun, source: Any, name: str, edits: Edits) -> Proposal:
        """Return what a run would be as a tool; one after the other, for each is tried in the sandbox.

        Args:
            stored: the run.
            source: where its tools are, as its trace has it.
            name: of the tool. ``edits``: what the user changes.

        Raises:
            Busy, UsageError, AtcError: as :meth:`resume`, or it cannot be kept.
        """
        agent = self._able_to_go_on(stored.run_id, source, f"keep it by `atc runs keep {stored.run_id}`")
        if self._proposing.locked():
            raise Busy("another run is tried as a tool now: try again when that has ended")
        async with self._proposing:
            return await propose(agent, stored, name, edits)

    async def keep(self, proposal: Proposal) -> str:
        """Write a proposal as a tool, whose user said yes to all of it; return its name.

        Raises:
            UsageError: it cannot be kept, or a tool of this name is there.
            AtcError: the file cannot be written.
        """
        tool, _ = await keep(self._able(), proposal, confirm=True)
        return tool.name

    def stop(self, run_id: str) -> bool:
        """Ask a run to stop; false where it does not run here."""
        found = [job for job in self._jobs if job.run_id == run_id and job.work is not None]
        for job in found:
            assert job.work is not None
            job.work.cancel()
        return bool(found)

    async def end(self) -> None:
        """Stop all runs, and let go of the agent's model and sandbox."""
        self.ending = True
        going = [job.work for job in self._jobs if job.work is not None]
        for work in going:
            work.cancel()
        if going:
            _, late = await asyncio.wait(going, timeout=CLEAN_S)
            if late:
                log.warning("%d runs had not ended after %g s; their journals say what they did", len(late), CLEAN_S)
        if self._agent is not None:
            await self._agent.aclose()

    def _able(self) -> Agent:
        if self._agent is None:
            raise UsageError("this server has no tools: begin `atc ui` with --tools")
        if self.ending or len(self._jobs) >= MOST_AT_ONCE:
            why = "the server ends" if self.ending else f"{MOST_AT_ONCE} runs go on: wait for one, or stop one"
            raise Busy(why)
        return self._agent

    def _able_to_go_on(self, run_id: str, source: Any, otherwise: str) -> Agent:
        agent = self._able()
        if self.here(run_id):
            raise UsageError(f"run {run_id} goes on already")
        if source != self._source:
            raise UsageError(
                f"run {run_id} was begun with other tools than this server has: {otherwise}, or begin `atc ui` with "
                "its tools"
            )
        return agent

    async def _started(self, job: Job, run: Callable[[], Coroutine[Any, Any, object]]) -> str:
        self._jobs.add(job)
        job.work = asyncio.create_task(self._run(job, run))
        begun = asyncio.create_task(job.begun.wait())
        try:
            await asyncio.wait((job.work, begun), return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if not job.begun.is_set():
            if job.work.cancelled():
                raise Busy("the server ended before the run began")
            await job.work  # raises why
        return job.run_id

    async def _run(self, job: Job, run: Callable[[], Coroutine[Any, Any, object]]) -> None:
        _JOB.set(job)
        RUN.set((job.run_id, job.task))
        try:
            await run()
        except Exception as error:
            if not job.begun.is_set():
                raise  # whoever asked for it is told
            log.warning("run %s ended with %s; its trace says more", job.run_id, type(error).__name__)
        finally:
            self._jobs.discard(job)
            if job.run_id:
                self._changed(job.run_id)


def about_agent(agent: Agent) -> dict[str, Any]:
    """What a task of an agent has: ``model``, ``endpoint``, the number of its ``tools`` and of those that are no reads
    (``writes``), and the ``names`` of the first; ``problem`` says why there is no model, where there is none."""
    found = {"model": "", "endpoint": "", "problem": ""}
    try:
        model = agent._resources.model()  # nothing is loaded or asked yet
        found |= {"model": brief(model.name), "endpoint": brief(model.endpoint)}
    except AtcError as error:
        found["problem"] = brief(str(error), MOST_PROBLEM)
    writes = sum(tool.protocol.effect is not Effect.READ for tool in agent.tools.values())
    return found | {"tools": len(agent.tools), "writes": writes, "names": list(map(brief, islice(agent.tools, NAMED)))}

"""ATC itself: with its default strategy, with one part of it taken away, and with the strategies of ``research/``."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from atc import wording
from atc._records.outcome import Outcome
from atc._records.records import FaultCase
from atc.agent import Agent
from atc.calls.broker import CallPolicy
from atc.errors import EnvironmentProblem, ModelError
from atc.facts import Fault, Finding
from atc.result import Result
from atc.run.chain import Chain
from atc.run.chain_policy import MAX_ROUTED, ChainPolicy
from atc.run.program_loop import ProgramLoop
from atc.run.writer import Draft
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.tool import Toolset
from benchmarks.common import ALL, ROOT
from benchmarks.systems.base import Answer, Ended, Job, System
from benchmarks.tasks.fired_rules import fired_rules

_SOURCES = ("atc/**/*.py", "sandbox/*.py", "prompts/*.jinja", "research/atc_research/**/*.py", "research/**/*.jinja")


class Atc(System):
    """ATC with these settings.

    Args:
        settings: of the agent; the model, the tools and the seed come from the try.
        replay: whether what succeeded is answered from the journal when a revised program runs.
    """

    def __init__(self, name: str, about: str, settings: Mapping[str, Any] | None = None, replay: bool = True) -> None:
        self.name, self.about = name, about
        self._settings, self._replay = dict(settings or {}), replay
        self._sandbox: Sandbox | None = None

    async def version(self) -> str:
        return sources_digest()

    async def solve(self, job: Job) -> Answer:
        agent = self.agent(job)
        try:
            answer = answer_of(await agent.arun(job.text))
        except (EnvironmentProblem, ModelError) as error:
            if isinstance(error, EnvironmentProblem) and not job.session.spent.over:
                raise
            answer = Answer("crash", error=str(error))
        rules = fired_rules(job.events, agent.settings.active_rules)
        return replace(answer, rules=dict(sorted(rules.items())))

    def agent(self, job: Job) -> Agent:
        """With the tools of the task, all of which are offered, but where the settings say how many."""
        tools = job.session.episode.tools
        return self.made(job, tools, **{"stub_tokens": ALL} | self._settings)

    def made(self, job: Job, tools: Toolset, **more: Any) -> Agent:
        """With these tools, and settings beside this system's own."""
        if self._sandbox is None:
            self._sandbox = open_sandbox(Settings.load())
        return Agent(
            tools,
            model=job.opened_model(),
            policy=CallPolicy(replay=self._replay),
            sandbox=self._sandbox,
            seed=job.session.seed,
            on_event=job.events.append,
            sentence=False,
            keep_runs=False,
            budget_s=job.caps.seconds,
            approve=lambda request: True,  # also to what a stranger's text chose; "always" would leave that undone
            warnings="allow",  # the other systems ask nobody either, and nothing here is real
            **{"learn": False} | self._settings | more,  # what one try teaches must not help the next
        )

    async def aclose(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.aclose()


def answer_of(result: Result) -> Answer:
    """What a result says. A program failed that gave no answer: the check refused it, or it failed when it ran."""
    faults: Counter[str] = Counter()
    for revision in result.revisions:
        if revision.findings:
            faults["check"] += 1
        elif revision.fault is not None:
            faults[revision.fault.kind] += 1
    error = result.fault.message if result.fault else ""
    ends: dict[str, Ended] = {"answered": "answered", "budget": "budget", "failed": "crash"}
    ended = ends.get(result.status, "unsolved")
    return Answer(ended, result.value, error, result.program, len(result.revisions), faults.total(), dict(faults))


@cache
def sources_digest() -> str:
    """Of everything that decides what ATC does: its code and its prompts."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class CountedFindings(ChainPolicy):
    """Every reply after the first costs one of the α revisions, whether the program before it ran or was sent back.

    As in the default, a broken tool that is routed round costs none, and warnings send back no last program.
    """

    async def next_program(self) -> Draft | None:
        return await super().next_program() if self._spent <= self._settings.max_revisions else None

    def _not_told(self, draft: Draft) -> list[Finding]:
        return super()._not_told(draft) if self._spent < self._settings.max_revisions else []

    @property
    def _spent(self) -> int:
        """Programs so far that cost a revision, if another one is written."""
        broken = sum(r.fault is not None and bool(r.fault.substitutes) for r in self._history)
        return len(self._history) - min(broken, MAX_ROUTED)


class ChainOfCountedFindings(Chain):
    """The chain with that policy."""

    name = "chain-findings"
    policy = CountedFindings


class ProgramsWithPlainErrors(ProgramLoop):
    """The loop whose faults are what a plain traceback tells: no tool, no evidence."""

    def fault_of(self, draft: Draft, outcome: Outcome) -> Fault | None:
        if (fault := super().fault_of(draft, outcome)) is None:
            return None
        error = outcome.error
        return Fault(
            kind="program",
            case=FaultCase.RAISED,
            raised=error.raised if error is not None else None,
            reason="" if error is not None else wording.fault_alone(fault),
            line=fault.line,
            source_line=fault.source_line,
            cause=fault.cause,
            hint=fault.hint,
        )


class ChainWithPlainErrors(Chain):
    """The chain with that loop."""

    name = "chain-plain-errors"
    loop = ProgramsWithPlainErrors

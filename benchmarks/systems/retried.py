"""``SYSTEM@N``: a system that may begin anew, as ReAct@3 and ToolLLM@3 of ATC §5 do.

The paper runs the vanilla method "up to three times until the input task is successfully completed". What that is
judged by is not said; here nothing of the outcome is known, as to no user it would be:

* A next run begins unless the last one gave an answer and none of its steps failed.
* All runs share one try: its budget, its tools, and what earlier runs did with them. A next run knows nothing of them.
* The answer is that of the first run without a failed step; else that of the last run that gave one.
* At temperature 0 a next run would repeat the last one, so it is sampled at :data:`TEMPERATURE` at least.

Path% and Prec% are of the calls of all runs together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from benchmarks.systems.base import Answer, Job, System

TEMPERATURE = 0.3
"""Of the runs after the first, at least."""


class Retried(System):
    """A system with further runs in the same try.

    Args:
        system: what is run.
        times: how often at most.
    """

    def __init__(self, system: System, times: int = 3) -> None:
        self.name, self.about = f"{system.name}@{times}", f"{system.name}, run up to {times} times within one try"
        self._system, self._times = system, times

    async def version(self) -> str:
        return await self._system.version()

    async def solve(self, job: Job) -> Answer:
        answers: list[Answer] = []
        while len(answers) < self._times:
            if answers:
                job.session.temperature = max(job.session.temperature, TEMPERATURE)
            answers.append(await self._system.solve(job))
            if is_clean(answers[-1]) or job.session.closed():
                break
        return together(answers)

    async def aclose(self) -> None:
        await self._system.aclose()


def is_clean(answer: Answer) -> bool:
    """Whether a run gave an answer, and none of its steps failed."""
    return answer.ended == "answered" and answer.failed == 0 and not answer.faults


def together(answers: list[Answer]) -> Answer:
    """What several runs came to: the last one's answer, if it gave one, else the last that was given; all steps."""
    given = [answer for answer in answers if answer.ended == "answered"]
    faults: Counter[str] = Counter()
    for answer in answers:
        faults.update(answer.faults)
    return replace(
        (given or answers)[-1],
        programs=sum(answer.programs for answer in answers),
        failed=sum(answer.failed for answer in answers),
        faults=dict(faults),
    )

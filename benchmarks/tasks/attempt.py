"""One try of a system at a task, whatever goes wrong in it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from benchmarks.environments.base import Environment, Episode, Task
from benchmarks.systems.base import Answer, Job, System
from benchmarks.tasks.gateway import Caps, Gateway, Session
from benchmarks.tasks.rows import JUDGE, MOST_SHOWN, Row
from benchmarks.tasks.transcript import Transcript, write_transcript

GRACE_S = 30.0
"""Seconds that a system is given to end by itself after its time."""


async def attempt(
    environment: Environment,
    task: Task,
    system: System,
    seed: int,
    gateway: Gateway,
    caps: Caps,
    temperature: float,
    transcripts: Path | None = None,
) -> Row:
    """Let a system try a task once.

    Args:
        transcripts: folder to keep in what was said.

    Raises:
        EnvironmentProblem: the system is not installed.
        UsageError: the transcript cannot be written.
    """
    version = await system.version()
    episode = environment.open(task)
    transcript = Transcript(episode) if transcripts is not None else None
    session = Session(episode, caps, temperature, seed, transcript=transcript)
    upstream = gateway.upstream
    async with gateway.session(session) as address:
        job = Job(task.text, address, session, upstream.model, upstream.context_tokens, caps)
        outcome = await _tried(system, job)
    wall_s, spent = time.perf_counter() - session.began, session.spent
    outcome |= _verdict(outcome["status"], session, wall_s)
    gold = environment.gold(task)
    row = Row(
        env=environment.name, task=task.id, system=system.name, version=version, seed=seed, model=upstream.name,
        terms=terms(caps, temperature), stated=task.stated, model_calls=spent.model_calls, kept_calls=spent.kept_calls,
        prompt_tokens=spent.prompt_tokens, shared_tokens=spent.shared_tokens,
        completion_tokens=spent.completion_tokens, tool_calls=len(episode.calls),
        writes=episode.writes, repeated_writes=episode.repeated_writes, forbidden_writes=episode.forbidden_writes,
        path=episode.path, precision=episode.precision,
        path_names=episode.path_names, precision_names=episode.precision_names,
        apis=len({name for name, _ in gold.calls}) if gold else None, called=episode.called, judge=JUDGE,
        seconds=round(wall_s + spent.kept_s, 3),
        model_s=round(spent.model_s, 3), tool_s=round(spent.tool_s, 3), wall_s=round(wall_s, 3), **outcome,
    )  # fmt: skip
    if transcripts is not None and transcript is not None:
        write_transcript(transcripts, row, transcript.text(task, gold, row))
    return row


def terms(caps: Caps, temperature: float) -> str:
    """On what terms a try is made: tries on other terms are other tries."""
    return f"{caps}, temperature {temperature:g}"


async def _tried(system: System, job: Job) -> dict[str, Any]:
    limit = job.caps.seconds + GRACE_S
    try:
        async with asyncio.timeout(limit):
            answer = await system.solve(job)
    except TimeoutError:
        return {"status": "overtime", "error": f"it did not end within {limit:g} s"}
    except EnvironmentProblem as error:
        return {"status": "environment", "error": str(error)}
    except Exception as error:  # the task is lost, the others go on
        return {"status": "exception", "error": f"{type(error).__name__}: {error}"[:MOST_SHOWN]}
    return _fields(answer, job.session.episode)


def _fields(answer: Answer, episode: Episode) -> dict[str, Any]:
    solved = answer.ended == "answered" and episode.check(answer.value)
    return {
        "status": answer.ended,
        "solved": solved,
        "first_try": solved and answer.programs <= 1,
        "programs": answer.programs,
        "failed": answer.failed,
        "faults": answer.faults,
        "rules": answer.rules,
        "answer": repr(answer.value)[:MOST_SHOWN],
        "program": answer.program[:4_000],
        "error": answer.error[:MOST_SHOWN],
    }


def _verdict(status: str, session: Session, wall_s: float) -> dict[str, Any]:
    """What stands above what a system says of itself: the endpoint failed, or a cap was reached."""
    spent = session.spent
    if spent.failure:
        return {"status": "environment", "error": spent.failure, "solved": False, "first_try": False}
    if status in ("environment", "exception", "overtime"):
        return {}
    if wall_s + spent.kept_s > session.caps.seconds + GRACE_S:
        return {"status": "overtime", "solved": False, "first_try": False}
    if spent.over and status != "answered":
        return {"status": "budget", "error": spent.over}
    return {}

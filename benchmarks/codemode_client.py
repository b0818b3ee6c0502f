"""The parts with a real model as the client: plain MCP beside ``atc mcp``, and response types or none.

They run on the ruler (:mod:`benchmarks.tasks`): the same budget, tries kept as JSON lines, the same command goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atc.cli.console import err
from benchmarks.environments import open_environment
from benchmarks.gateway import Caps, Gateway, upstream
from benchmarks.rows import Row, latest, read_rows
from benchmarks.systems import System
from benchmarks.systems.mcp_client import CODE, CODE_NONE, CODE_OBSERVED, PLAIN
from benchmarks.tasks import Plan, run_plan

ARMS: dict[str, tuple[System, ...]] = {"client": (PLAIN, CODE), "types": (CODE_NONE, CODE_OBSERVED)}
SAMPLES: dict[str, dict[str, int]] = {"client": {"comptoolbench": 12, "atlas": 8}, "types": {"comptoolbench": 20}}
"""Tasks of each environment, drawn by a hash of their names: two ways each, so forty tries a part. ``atlas`` documents
all responses, so it has nothing to say about types."""


async def run_part(
    part: str, file: Path, data: Path | None, model: str, caps: Caps, limit: int | None, kept: Path | None = None
) -> None:
    """Run what the file does not hold yet.

    Args:
        part: ``client`` or ``types``.
        file: a JSON line for each try.
        model: as ``atc run --model`` takes it.
        limit: tries at most, of those that are left.
        kept: folder of replies, so that an equal request is answered once; ``None``: nothing is kept.

    Raises:
        EnvironmentProblem: nothing can run.
    """
    with upstream(model) as source:
        async with Gateway(source, kept).opened() as gateway:
            left = limit
            for name, count in SAMPLES[part].items():
                environment = open_environment(name, data)
                # atlas stands in this repository: all of it was read
                plan = Plan(
                    [environment],
                    ARMS[part],
                    sample=count,
                    caps=caps,
                    part="open" if name == "atlas" else "unread",
                    stated=True,
                    limit=left if left is None else -(-left // len(ARMS[part])),
                )
                await run_plan(plan, gateway, file, _say)
                if left is not None:
                    left -= len(ARMS[part]) * len(plan.tasks(environment))
                    if left <= 0:
                        return


def _say(row: Row) -> None:
    how = "solved" if row.solved else f"not solved ({row.status})"
    spent = f"{row.model_calls} turns, {row.prompt_tokens + row.completion_tokens:,} tokens"
    err.print(f"{row.env}/{row.task} {row.system}: {how}, {spent}, {row.seconds:.0f} s", markup=False)


def summary(part: str, file: Path) -> list[dict[str, Any]]:
    """What each way took and solved, over the tasks that all ways of the part have tried."""
    rows = [row for row in latest(read_rows(file)) if row.status != "environment"]
    names = [system.name for system in ARMS[part]]
    tried = {name: {(row.env, row.task) for row in rows if row.system == name} for name in names}
    common = set.intersection(*tried.values())
    shared = [row for row in rows if (row.env, row.task) in common]
    return [_figures(name, [row for row in shared if row.system == name]) for name in names]


def _figures(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    faults: Counter[str] = Counter()
    for row in rows:
        faults.update(row.faults)
    count = max(1, len(rows))
    rejected = faults.pop("rejected", 0)
    return {
        "way": name,
        "tasks": len(rows),
        "solved": sum(row.solved for row in rows),
        "turns": round(sum(row.model_calls for row in rows) / count, 1),
        "tokens": round(sum(row.prompt_tokens + row.completion_tokens for row in rows) / count),
        "programs or calls": sum(row.programs for row in rows),
        "refused before a run": rejected,
        "failed in a run": sum(row.failed for row in rows) - rejected,
        "seconds": round(sum(row.seconds for row in rows) / count),
    }

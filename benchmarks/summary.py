"""The table over the rows of :mod:`benchmarks.tasks`: what each system solved, and what it took."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.tasks import Row

RESAMPLES = 2_000
_SUMS = ("model_calls", "prompt_tokens", "completion_tokens", "tool_calls", "writes", "repeated_writes", "crashes")


def summarise(rows: Sequence[Row], order: Sequence[str]) -> list[dict[str, Any]]:
    """One line for each model, environment and system, and one over all environments where there are several.

    Args:
        rows: the tries; those without a result (no model, no sandbox) count as ``lost`` and in nothing else.
        order: the systems, in the order to list them.
    """
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    environments = list(dict.fromkeys(row.env for row in rows))
    for row in rows:
        groups[row.model, row.env, row.system].append(row)
        if len(environments) > 1:
            groups[row.model, "all", row.system].append(row)
    places = [*environments, "all"]
    ranked = sorted(groups, key=lambda key: (key[0], places.index(key[1]), order.index(key[2])))
    return [_line(*key, groups[key]) for key in ranked]


def _line(model: str, env: str, system: str, rows: list[Row]) -> dict[str, Any]:
    judged = [row for row in rows if row.status != "environment"]
    stated = [row for row in judged if row.stated]
    faults: Counter[str] = Counter()
    for row in judged:
        faults.update(row.faults)
    low, high = interval(judged)
    return {
        "model": model, "env": env, "system": system, "tries": len(judged), "lost": len(rows) - len(judged),
        "solved": sum(row.solved for row in judged), "share": _share(judged), "low": low, "high": high,
        "first_try": sum(row.first_try for row in judged),
        "stated": len(stated), "stated_solved": sum(row.solved for row in stated),
        "exceptions": sum(row.status == "exception" for row in judged),
        **{name: sum(getattr(row, name) for row in judged) for name in _SUMS},
        "seconds": round(sum(row.seconds for row in judged), 1), "faults": dict(sorted(faults.items())),
    }  # fmt: skip


def _share(rows: Sequence[Row]) -> float:
    return sum(row.solved for row in rows) / len(rows) if rows else 0.0


def interval(rows: Sequence[Row]) -> tuple[float, float]:
    """The 95 % interval of the share that is solved: bootstrap over tasks, the tries of one task together."""
    tasks: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in rows:
        tasks[row.env, row.task].append(row.solved)
    if not tasks:
        return 0.0, 0.0
    tallies = [(sum(tries), len(tries)) for tries in tasks.values()]
    draw = random.Random(0)
    shares = []
    for _ in range(RESAMPLES):
        drawn = draw.choices(tallies, k=len(tallies))
        shares.append(sum(solved for solved, _ in drawn) / sum(count for _, count in drawn))
    shares.sort()
    return shares[round(0.025 * (RESAMPLES - 1))], shares[round(0.975 * (RESAMPLES - 1))]


def print_table(lines: Sequence[dict[str, Any]], console: Console) -> None:
    """Print what :func:`summarise` made."""
    if not lines:
        console.print("no results yet")
        return
    for model in dict.fromkeys(line["model"] for line in lines):
        console.print(_table(model, [line for line in lines if line["model"] == model]))
    console.print(
        "stated: of the tasks that say all that their solution needs. first: by the first program. again: effects done "
        "again, of all. crashes: programs. s: seconds a try, cached replies at their first cost. faults: programs that "
        "failed, by kind."
    )
    if lost := sum(line["lost"] for line in lines if line["env"] != "all"):
        console.print(
            f"{lost} tries were lost (no model or no sandbox) and are in no figure: the same command runs them again"
        )


def _table(model: str, lines: list[dict[str, Any]]) -> Table:
    table = Table(title=f"Tasks solved, {model}")
    for name in ("environment", "system"):
        table.add_column(name)
    for name in (
        "solved",
        "%",
        "95 %",
        "stated",
        "first",
        "model calls",
        "tokens in",
        "out",
        "tool calls",
        "again",
        "crashes",
        "s",
    ):
        table.add_column(name, justify="right")
    table.add_column("faults")
    env = lines[0]["env"]
    for line in lines:
        if line["env"] != env:
            table.add_section()
            env = line["env"]
        table.add_row(*_cells(line))
    return table


def _cells(line: dict[str, Any]) -> list[str]:
    broken = f" ATC broke:{line['exceptions']}" if line["exceptions"] else ""
    return [
        line["env"], line["system"], f"{line['solved']}/{line['tries']}", f"{line['share']:.0%}",
        f"{line['low']:.0%}–{line['high']:.0%}", f"{line['stated_solved']}/{line['stated']}", str(line["first_try"]),
        *(f"{line[name]:,}" for name in ("model_calls", "prompt_tokens", "completion_tokens", "tool_calls")),
        f"{line['repeated_writes']}/{line['writes']}", str(line["crashes"]),
        f"{line['seconds'] / max(1, line['tries']):.1f}",
        " ".join(f"{kind}:{count}" for kind, count in line["faults"].items()) + broken,
    ]  # fmt: skip

"""The table over the rows of :mod:`benchmarks.tasks`: what each system solved, and what it took."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
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
        own = [line for line in lines if line["model"] == model]
        console.print(
            _table(f"Tasks solved, {model}", ("solved", "(95 %)", "stated", "first", "faults"), own, _outcome)
        )
        console.print(
            _table(f"What it took, {model}", ("asked", "tokens", "tools", "again", "crashes", "s"), own, _cost)
        )
    console.print(
        "stated: of the tasks that say all that their solution needs. first: by the first\n"
        "program. faults: programs that failed, by kind. asked: model calls. tokens: read +\n"
        "written. tools: calls. again: effects that were done again, of all effects. crashes:\n"
        "programs. s: seconds a try, cached replies at their first cost."
    )
    if lost := sum(line["lost"] for line in lines if line["env"] != "all"):
        console.print(
            f"{lost} tries were lost (no model or no sandbox) and are in no figure: the same command runs them again"
        )


def _table(
    title: str, names: Sequence[str], lines: list[dict[str, Any]], cells: Callable[[dict[str, Any]], list[str]]
) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("environment", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for name in names:
        table.add_column(name, justify="left" if name == "faults" else "right", no_wrap=name != "faults")
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        last = following is not None and following["env"] != line["env"]
        table.add_row(line["env"], line["system"], *cells(line), end_section=last)
    return table


def _outcome(line: dict[str, Any]) -> list[str]:
    broken = f" ATC broke:{line['exceptions']}" if line["exceptions"] else ""
    return [
        f"{line['solved']}/{line['tries']} {line['share']:.0%}", f"({line['low']:.0%}–{line['high']:.0%})",
        f"{line['stated_solved']}/{line['stated']}", str(line["first_try"]),
        " ".join(f"{kind}:{count}" for kind, count in line["faults"].items()) + broken,
    ]  # fmt: skip


def _cost(line: dict[str, Any]) -> list[str]:
    return [
        f"{line['model_calls']:,}", f"{_short(line['prompt_tokens'])}+{_short(line['completion_tokens'])}",
        f"{line['tool_calls']:,}", f"{line['repeated_writes']}/{line['writes']}", str(line["crashes"]),
        f"{line['seconds'] / max(1, line['tries']):.1f}",
    ]  # fmt: skip


def _short(count: int) -> str:
    return f"{count:,}" if count < 10_000 else f"{count / 1000:,.0f}k"

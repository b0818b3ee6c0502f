"""The tables over the rows of :mod:`benchmarks.tasks`: what each system solved, what it took, what it broke."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.environments.documented import tasks_from
from benchmarks.tasks.read_tasks import is_read
from benchmarks.tasks.rows import Row, judges

RESAMPLES = 2_000
RULER = "atc"
"""The system that the others are paired with."""
UNREAD = "unread"
"""In the place of an environment: all tasks that nobody has read."""
PATH_ALONE = ("restbench", "toolflow")
"""Environments whose ``solved`` says no more than that the solution's tools were called, and something was answered."""
_SUMS = tuple(
    """
    model_calls prompt_tokens shared_tokens completion_tokens tool_calls writes repeated_writes forbidden_writes failed
    programs
    """.split()
)
_SECONDS = ("seconds", "model_s", "tool_s", "own_s")
Line = dict[str, Any]


def summarise(rows: Sequence[Row], order: Sequence[str], against: str | None = None) -> list[Line]:
    """One line for each model (with the terms), environment and system, and over all environments if several.

    Where some of the tasks were read (:mod:`benchmarks.tasks.read_tasks`), the others come first, together.

    Args:
        rows: the tries; those without a result (no model, no sandbox) count as ``lost`` and in nothing else.
        order: the systems, in the order to list them.
        against: a system; each line has ``against`` then, what it took beside that one (:func:`compared`).
    """
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    environments = list(dict.fromkeys(row.env for row in rows))
    some_read = any(is_read(row.env, row.task, row.judge) for row in rows)
    for row in rows:
        model = f"{row.model}, {row.terms}"
        groups[model, row.env, row.system].append(row)
        if some_read and not is_read(row.env, row.task, row.judge):
            groups[model, UNREAD, row.system].append(row)
        if len(environments) > 1:
            groups[model, "all", row.system].append(row)
    places, known = [UNREAD, *environments, "all"], [*order, *sorted({row.system for row in rows} - set(order))]
    ranked = sorted(groups, key=lambda key: (key[0], places.index(key[1]), known.index(key[2])))
    lines = [_line(*key, groups[key], groups.get((key[0], key[1], RULER), [])) for key in ranked]
    if against is not None:
        for key, line in zip(ranked, lines, strict=True):
            line["against"] = compared(groups[key], groups.get((key[0], key[1], against), []), against)
    return lines


def _line(model: str, env: str, system: str, rows: list[Row], rulers: list[Row]) -> Line:
    judged = [row for row in rows if row.status != "environment"]
    stated = [row for row in judged if row.stated]
    faults: Counter[str] = Counter()
    for row in judged:
        faults.update(row.faults)
    low, high = interval(judged)
    wins, losses = paired(judged, rulers) if system != RULER else (None, None)
    return {
        "model": model,
        "env": env,
        "system": system,
        "versions": sorted({row.version for row in rows}),
        "tries": len(judged),
        "lost": len(rows) - len(judged),
        "solved": sum(row.solved for row in judged),
        "wrong": sum(row.status == "answered" and not row.solved for row in judged),
        "called": sum(row.called is True for row in judged),
        "called_known": sum(row.called is not None for row in judged),
        "judges": sorted({row.judge for row in judged}),
        "share": _share(judged),
        "low": low,
        "high": high,
        "wins": wins,
        "losses": losses,
        "p": None if wins is None or losses is None else round(mcnemar(wins, losses), 4),
        "first_try": sum(row.first_try for row in judged),
        "stated": len(stated),
        "stated_solved": sum(row.solved for row in stated),
        "path": _mean([row.path for row in judged]),
        "precision": _mean([row.precision for row in judged]),
        "difficulty": {name: _figures(rows) for name, rows in _by_difficulty(judged).items()},
        **{name: sum(getattr(row, name) for row in judged) for name in _SUMS},
        **{name: round(sum(getattr(row, name) for row in judged), 1) for name in _SECONDS},
        "ended": dict(sorted(Counter(row.status for row in judged).items())),
        "faults": dict(sorted(faults.items())),
    }


def _by_difficulty(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The tries by how many tools their tasks need (NaviAgent §4.1), and all; only those of which that is known."""
    found: dict[str, list[Row]] = {"easy": [], "medium": [], "hard": []}
    for row in rows:
        if row.apis is not None:
            found["easy" if row.apis <= 1 else "medium" if row.apis == 2 else "hard"].append(row)
    return {name: some for name, some in (*found.items(), ("all", list(rows))) if some}


def _figures(rows: Sequence[Row]) -> dict[str, Any]:
    """NaviAgent's measures of some tries: which gave an answer (TCR) and the right one (TSR), and the model's calls of
    those that did (Steps)."""
    solved = [row for row in rows if row.solved]
    return {
        "tries": len(rows),
        "tcr": round(sum(row.status == "answered" for row in rows) / len(rows), 4),
        "tsr": round(len(solved) / len(rows), 4),
        "steps": round(sum(row.model_calls for row in solved) / len(solved), 2) if solved else None,
    }


def paired(rows: Sequence[Row], rulers: Sequence[Row]) -> tuple[int, int]:
    """Tries that these solved and the ruler did not, and the other way round, over what both tried."""
    ruled = {(row.env, row.task, row.seed): row.solved for row in rulers if row.status != "environment"}
    both = [(row.solved, ruled[row.env, row.task, row.seed]) for row in rows if (row.env, row.task, row.seed) in ruled]
    return sum(mine and not theirs for mine, theirs in both), sum(theirs and not mine for mine, theirs in both)


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p of McNemar's test: how likely so lopsided a pairing is where both solve equally much.

    Args:
        wins: pairs that the one solved alone. ``losses``: those that the other solved alone.
    """
    pairs = wins + losses
    tail = sum(math.comb(pairs, count) for count in range(min(wins, losses) + 1))
    p: float = 2 * tail / 2**pairs
    return min(1.0, p)


def compared(rows: Sequence[Row], others: Sequence[Row], system: str) -> Line:
    """What tries took and solved beside those of another system, over what both tried (RETO, Table 2).

    ``tokens`` and ``steps`` (model calls) are the change as a share, -0.7 for 70 % fewer; ``None`` where the other took
    none.
    """
    theirs = {(row.env, row.task, row.seed): row for row in others if row.status != "environment"}
    judged = [row for row in rows if row.status != "environment"]
    both = [(row, theirs[key]) for row in judged if (key := (row.env, row.task, row.seed)) in theirs]

    def change(taken: Callable[[Row], int]) -> float | None:
        mine, other = (sum(taken(pair[which]) for pair in both) for which in (0, 1))
        return round(mine / other - 1, 4) if other else None

    return {
        "system": system,
        "tries": len(both),
        "solved": sum(mine.solved for mine, _ in both),
        "solved_there": sum(other.solved for _, other in both),
        "tokens": change(lambda row: row.prompt_tokens + row.completion_tokens),
        "steps": change(lambda row: row.model_calls),
    }


def _share(rows: Sequence[Row]) -> float:
    return sum(row.solved for row in rows) / len(rows) if rows else 0.0


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return round(sum(known) / len(known), 4) if known else None


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


# Printing -----------------------------------------------------------------------------------------------------------

OUTCOME = ("solved", "(95 %)", f"± {RULER}", "p", "wrong", "called", "stated", "first", "path", "prec")
COST = ("asked", "tokens a try", "tools", "s a try", "model", "tools", "own")
AGAINST = ("tries", "solved", "it solved", "tokens", "steps")
DIFFICULTY = ("easy", "medium", "hard", "all")
DAMAGE = ("again", "forbidden", "failed", "broke", "ended", "faults")
LEGEND = f"""\
unread: the tasks that nobody has read (benchmarks/read_tasks.txt), over all environments: report these first.
± {RULER}: tries that it solved and {RULER} did not, and the reverse; p: of these two, by McNemar's exact test
(two-sided).
wrong: answered, and not solved. called: tries that made all calls of the solution, and had them answered, of those of
which that is known. restbench and toolflow know no more: what stands under solved there is that alone. Figures of the
old judge cannot be compared with later ones (benchmarks/README.md).
stated: of the tasks that say all that their solution needs. first: by the first program or step. path, prec: Path% and
Prec% (ATC §5). asked: model calls a try. tokens: read + written. tools: calls that reached a tool. s: seconds, kept
replies at their first cost; of these in the model, in tools, in the system itself. Difficulty: tasks whose solution
takes one tool, two, or more; of each what was answered (TCR) and solved (TSR), and model calls a solved try (Steps), as
NaviAgent §4.1 counts. again: effects that were done again, of all effects; forbidden: effects of tools that the
solution has no use for. failed: programs or steps that gave no answer, of all: refused before they ran (ATC's check:
``check`` among the faults), or failed when they ran. broke: tries that crashed."""


def print_table(lines: Sequence[Line], console: Console) -> None:
    """Print what :func:`summarise` made."""
    if not lines:
        console.print("no results yet")
        return
    for model in dict.fromkeys(line["model"] for line in lines):
        own = [line for line in lines if line["model"] == model]
        by = judges(judge for line in own for judge in line["judges"])
        console.print(_table(f"Tasks solved, {by}, {model}", OUTCOME, own, _outcome))
        console.print(_table(f"What it took, {model}", COST, own, _cost))
        if "against" in own[0]:
            system = own[0]["against"]["system"]
            others = [line for line in own if line["system"] != system]
            console.print(_table(f"Against {system}, over what both tried, {model}", AGAINST, others, _against))
        console.print(_table(f"By difficulty: TCR, TSR, Steps, {model}", DIFFICULTY, own, _difficulty))
        console.print(_table(f"What it broke, {model}", DAMAGE, own, _damage))
    console.print(LEGEND, markup=False)
    if lost := sum(line["lost"] for line in lines if line["env"] not in ("all", UNREAD)):
        console.print(
            f"{lost} tries were lost (no model or no sandbox) and are in no figure: the same command runs them again"
        )


def _table(title: str, names: Sequence[str], lines: list[Line], cells: Callable[[Line], list[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("environment", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for name in names:
        wide = name in ("ended", "faults")
        table.add_column(name, justify="left" if wide else "right", no_wrap=not wide)
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        last = following is not None and following["env"] != line["env"]
        table.add_row(line["env"], line["system"], *cells(line), end_section=last)
    return table


def _outcome(line: Line) -> list[str]:
    what = "called " if tasks_from(line["env"]) in PATH_ALONE else ""
    against = "" if line["wins"] is None else f"+{line['wins']} −{line['losses']}"
    return [
        f"{what}{line['solved']}/{line['tries']} {line['share']:.0%}",
        f"({line['low']:.0%}–{line['high']:.0%})",
        against,
        "" if line["p"] is None else f"{line['p']:.3f}",
        str(line["wrong"]),
        f"{line['called']}/{line['called_known']}" if line["called_known"] else "–",
        f"{line['stated_solved']}/{line['stated']}",
        str(line["first_try"]),
        *("–" if line[name] is None else f"{line[name]:.0%}" for name in ("path", "precision")),
    ]


def _cost(line: Line) -> list[str]:
    tries = max(1, line["tries"])
    read, written = line["prompt_tokens"] / tries, line["completion_tokens"] / tries
    return [
        f"{line['model_calls'] / tries:.1f}",
        f"{read:,.0f}+{written:,.0f}",
        f"{line['tool_calls'] / tries:.1f}",
        *(f"{line[name] / tries:.1f}" for name in _SECONDS),
    ]


def _against(line: Line) -> list[str]:
    found = line["against"]
    changes = ("–" if found[name] is None else f"{found[name]:+.0%}".replace("-", "−") for name in ("tokens", "steps"))
    return [*(str(found[name]) for name in ("tries", "solved", "solved_there")), *changes]


def _difficulty(line: Line) -> list[str]:
    def cell(name: str) -> str:
        found = line["difficulty"].get(name)
        if found is None:
            return "–"
        steps = "–" if found["steps"] is None else f"{found['steps']:.1f}"
        return f"{found['tcr']:.0%} {found['tsr']:.0%} {steps}"

    return [cell(name) for name in DIFFICULTY]


def _damage(line: Line) -> list[str]:
    ended = {name: count for name, count in line["ended"].items() if name not in ("answered", "crash")}
    return [
        f"{line['repeated_writes']}/{line['writes']}",
        str(line["forbidden_writes"]),
        f"{line['failed']}/{line['programs']}",
        str(line["ended"].get("crash", 0)),
        _counts(ended),
        _counts(line["faults"]),
    ]


def _counts(counts: dict[str, int]) -> str:
    return " ".join(f"{kind}:{count}" for kind, count in counts.items())

"""What each rule of ATC is worth, over the rows of :mod:`benchmarks.tasks`: where it fired, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from atc._records.rules import RULES
from benchmarks.tasks.rows import Row
from benchmarks.tasks.summary import RULER, mcnemar, paired

NONE, WITHOUT = "atc-rules", "atc-rules:"
"""The systems without any rule, and without one."""
LEGEND = """\
fired: tries in which the rule found what it is for, of those that were counted; solved: among these. The columns behind
pair these same tries with another system: what the rule's side solved alone, what the other one did, and McNemar's
exact p. A try in which a rule fires has other rules too: only the last column is of this rule alone."""
Line = dict[str, Any]


def rule_figures(rows: Sequence[Row]) -> list[Line]:
    """One line for each rule: ``tries`` that were counted, in how many it ``fired``, ``times`` in all, ``solved`` among
    them; paired over those with ATC without any rule (``none``) and without this one alone (``alone``). What the file
    has no tries of is ``None``.
    """
    by_system: dict[str, list[Row]] = {}
    for row in rows:
        if row.status != "environment":
            by_system.setdefault(row.system, []).append(row)
    lines = []
    counted = [row for row in by_system.get(RULER, []) if row.rules is not None]
    for rule in RULES:
        fired = [row for row in counted if (row.rules or {}).get(rule.id)]
        lines.append(
            {
                "rule": rule.id,
                "tries": len(counted),
                "fired": len(fired),
                "times": sum((row.rules or {}).get(rule.id, 0) for row in fired),
                "solved": sum(row.solved for row in fired),
                "none": _pairing(fired, by_system.get(NONE, [])),
                "alone": _pairing(fired, by_system.get(WITHOUT + rule.id, [])),
            }
        )
    return sorted(lines, key=lambda line: (-line["fired"], line["rule"]))


def _pairing(fired: Sequence[Row], others: Sequence[Row]) -> Line | None:
    tried = {(row.env, row.task, row.seed, row.model, row.terms) for row in others}
    both = [row for row in fired if (row.env, row.task, row.seed, row.model, row.terms) in tried]
    if not both:
        return None
    wins = losses = 0
    for model, terms in dict.fromkeys((row.model, row.terms) for row in both):
        won, lost = paired(
            [row for row in both if (row.model, row.terms) == (model, terms)],
            [row for row in others if (row.model, row.terms) == (model, terms)],
        )
        wins, losses = wins + won, losses + lost
    return {"pairs": len(both), "wins": wins, "losses": losses, "p": round(mcnemar(wins, losses), 4)}


def print_rules(lines: Sequence[Line], console: Console) -> None:
    """Print what :func:`rule_figures` made."""
    table = Table(title="Rules", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("rule", "fired", "times", "solved", f"± {NONE}", "± without it alone"):
        table.add_column(name, justify="left" if name == "rule" else "right", no_wrap=True)
    for line in lines:
        fired = f"{line['fired']}/{line['tries']}"
        table.add_row(
            line["rule"], fired, str(line["times"]), str(line["solved"]), _shown(line["none"]), _shown(line["alone"])
        )
    console.print(table)
    console.print(LEGEND, markup=False)
    if not any(line["tries"] for line in lines):
        console.print("no try of this file was counted: tries of older versions tell of no rule")


def _shown(found: Line | None) -> str:
    return "–" if found is None else f"+{found['wins']} −{found['losses']} of {found['pairs']}, p {found['p']:.2f}"

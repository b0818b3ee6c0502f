"""What a file of tries is summed up to: a line for each system, and its difference to the default, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common import share
from benchmarks.sequences.rows import Row

DEFAULT = "default"
THIRDS = (1, 2, 3)


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each model, terms and system: the counts of its tries, of those with broken tools, and by third.

    ``only_default`` and ``only_this`` are the tasks, of those that both have tried with the same seed, that one of the
    two solved alone.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.terms, row.system), []).append(row)
    lines = []
    for (model, terms, system), some in sorted(groups.items(), key=lambda pair: (pair[0][:2], pair[0][2] != DEFAULT)):
        base = {(row.seed, row.step): row for row in groups.get((model, terms, DEFAULT), ())}
        pairs = [(base[row.seed, row.step], row) for row in some if (row.seed, row.step) in base]
        both = [(one.solved, other.solved) for one, other in pairs] if system != DEFAULT else []
        lines.append(
            {"model": model, "terms": terms, "system": system, "seeds": len({row.seed for row in some})}
            | _counts(some)
            | {f"third_{third}": _counts([row for row in some if row.third == third]) for third in THIRDS}
            | {"only_default": both.count((True, False)), "only_this": both.count((False, True))}
        )
    return lines


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    broken = [row for row in rows if row.broken]
    wrong = [row for row in rows if row.mistake]
    return {
        "tries": len(rows),
        "solved": sum(row.solved for row in rows),
        "wrong_answers": sum(row.status == "answered" and not row.solved for row in rows),
        "exceptions": sum(row.status == "exception" for row in rows),
        "needed": sum(row.needed for row in rows),
        "missed": sum(row.missed for row in rows),
        "tasks_missing": sum(row.missed > 0 for row in rows),
        "with_broken": len(broken),
        "met_broken": sum(row.met > 0 for row in broken),
        "solved_broken": sum(row.solved for row in broken),
        "routed": sum(row.routed > 0 for row in broken),
        "with_mistake": len(wrong),
        "mistake_at_once": sum(row.solved and row.programs == 1 for row in wrong),
        "feeds": sum(row.feeds for row in rows),
        "feeds_right": sum(row.feeds_right for row in rows),
        "feeds_wrong": sum(row.feeds_wrong for row in rows),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "model_calls": sum(row.model_calls for row in rows),
        "tool_calls": sum(row.tool_calls for row in rows),
        "unwanted_writes": sum(row.unwanted_writes for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 1),
    }


COLUMNS = (
    "system", "tries", "solved", "by third", "needed, not offered", "broken: solved", "routed round", "wrong sources",
    "prompt tokens", "model calls", "unwanted writes", "alone: default, this",
)  # fmt: skip


def lines(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The figures of one model as cells of :data:`COLUMNS`."""
    return [
        [
            each["system"],
            str(each["tries"]),
            f"{each['solved']} ({share(each['solved'], each['tries'])})",
            " / ".join(share(third["solved"], third["tries"]) for third in (each[f"third_{n}"] for n in THIRDS)),
            f"{each['missed']} of {each['needed']}",
            f"{each['solved_broken']} of {each['with_broken']}",
            str(each["routed"]),
            f"{each['feeds_wrong']} of {each['feeds']}",
            _mean(each["prompt_tokens"], each["tries"], 0),
            _mean(each["model_calls"], each["tries"], 2),
            str(each["unwanted_writes"]),
            "–" if each["system"] == DEFAULT else f"{each['only_default']}, {each['only_this']}",
        ]
        for each in found
    ]


def _mean(total: int, count: int, digits: int) -> str:
    return f"{total / count:,.{digits}f}" if count else "–"

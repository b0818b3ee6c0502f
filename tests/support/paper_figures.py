"""The figures of docs/papers.md that have published rows, made anew from the rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from atc_research_benchmarks.links import summary
from benchmarks.read_tasks import is_read
from benchmarks.rows import FOLDER, Row, read_rows
from tests.support.docs import ROOT

LINKS = ROOT / "research" / "atc_research_benchmarks" / "published" / "links.jsonl"


@cache
def tries(file: str, system: str) -> dict[tuple[str, str, int], Row]:
    """The tries of a system in a file of rows, by environment, task and seed."""
    rows = [row for row in read_rows(FOLDER / file) if row.system == system and row.status != "environment"]
    return {(row.env, row.task, row.seed): row for row in rows}


def unread(file: str, system: str) -> list[Row]:
    """The tries at tasks that nobody had read."""
    return [row for row in tries(file, system).values() if not is_read(row.env, row.task, row.judge)]


def solved(rows: list[Row]) -> int:
    return sum(row.solved for row in rows)


def small_model() -> str:
    own = unread("honest.jsonl", "atc")
    return f"{solved(own)} of {len(own)}, ReAct {solved(unread('honest.jsonl', 'react'))}"


def refused_before_a_run() -> str:
    rows = unread("honest.jsonl", "atc")
    failed, refused = sum(row.failed for row in rows), sum(row.faults.get("check", 0) for row in rows)
    return f"{failed} programs without an answer the check refused {refused}"


def large_model() -> str:
    own, others = tries("large.jsonl", "atc"), tries("large.jsonl", "react")
    same = [own[key] for key in others]
    assert len(same) == 10, "the row says ten"
    return f"{solved([*own.values()])} of {len(own)}; on ten of them {solved(same)}, ReAct {solved([*others.values()])}"


def step_by_step() -> str:
    own, others = ([*tries("compare.jsonl", name).values()] for name in ("atc", "function-calling"))
    read = [sum(row.prompt_tokens for row in rows) for rows in (others, own)]
    assert round(read[0] / read[1]) == 9, "the row says a ninth"
    return f"{solved(own)} of {len(own)}, function calling {solved(others)}"


def restbench() -> str:
    rows = [*tries("restbench.jsonl", "atc").values()]
    path, precision = (
        [share for row in rows if (share := getattr(row, name)) is not None] for name in ("path", "precision")
    )
    shares = [f"{100 * sum(each) / len(each):.0f} %" for each in (path, precision)]
    return f"solved {solved(rows)} of {len(rows)}, Path {shares[0]}, Prec {shares[1]}"


def predicted_links() -> str:
    found = {
        line["method"]: f"{line['random auc']:.3f}".lstrip("0")
        for line in summary([json.loads(line) for line in LINKS.read_text(encoding="utf-8").splitlines()])
        if line["split"] == "edges" and line["source"] == "mean"
    }
    return f"HGT {found['HGT']}, hidden {found['HGT, hidden']}, logistic {found['logistic']}"


COMPUTED: tuple[Callable[[], str], ...] = (
    small_model,
    refused_before_a_run,
    large_model,
    step_by_step,
    restbench,
    predicted_links,
)
"""Each gives the words of a link of the page."""

"""The figures of research/README.md that have published rows, made anew from the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from atc_research_benchmarks import plan_search as planner
from atc_research_benchmarks.links import summary
from benchmarks.sequences import rows as sequences
from benchmarks.sequences import table
from benchmarks.tasks.read_tasks import is_read
from benchmarks.tasks.rows import FOLDER, Row, read_rows
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


def with_demonstrations() -> str:
    own, shown = ([*tries("probing_help.jsonl", name).values()] for name in ("atc", "atc-demonstrated"))
    assert (len(own), solved(own)) == (len(shown), solved(shown)), "the row says that both solve as many"
    return f"{solved(own)} of {len(own)} tasks solved with and without it"


@cache
def links() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(line) for line in LINKS.read_text(encoding="utf-8").splitlines())


def areas(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The AUC of each method against random pairs, edges held out, on the mean of the sources."""
    return {
        line["method"]: f"{line['random auc']:.3f}".lstrip("0")
        for line in summary(rows)
        if line["split"] == "edges" and line["source"] == "mean"
    }


def predicted_links() -> str:
    found = areas(links())
    return f"HGT {found['HGT']}, hidden {found['HGT, hidden']}, logistic {found['logistic']}"


def links_with_a_product() -> str:
    method = "HGT, hidden, pairs"
    seeds = {row["seed"] for row in links() if row["method"] == method}
    assert len(seeds) == 2, "the row says two"
    found = areas([row for row in links() if row["seed"] in seeds])
    return f"{found[method]}, logistic {found['logistic']}"


@cache
def planned() -> dict[str, tuple[float, float]]:
    """nDCG@10 and the share of queries whose tools are all among ten, in per cent, of each arm with a large planner."""
    rows = planner.read_rows(FOLDER / "planner" / "large.jsonl")
    assert len(rows) == 40, "the page says 40"
    each = {arm: [planner.scores(row, arm) for row in rows] for arm in planner.ARMS}
    return {arm: (100 * fmean(a for a, _ in some), 100 * fmean(b for _, b in some)) for arm, some in each.items()}


def with_a_plan() -> str:
    of = {arm: f"{found:.1f}" for arm, (found, _) in planned().items()}
    return f"{of['needs']} by the needs alone, {of['plan']} with a plan, {of['plan + queries']} with queries"


def with_peak_rank() -> str:
    of = {arm: f"{found:.1f}" for arm, (found, _) in planned().items()}
    return f"{of['as the paper ranks']} as the paper ranks, without needs; without needs and plan {of['no plan']}"


def with_a_planner_of_its_own() -> str:
    of = {arm: f"{whole:.1f} %" for arm, (_, whole) in planned().items()}
    return f"all wanted among ten: {of['plan + queries']}, needs alone {of['needs']}"


@cache
def sequence(seed: int) -> dict[str, Any]:
    """The figures of each system in a sequence of tasks. A script wrote the programs: the tasks' own solutions."""
    rows = sequences.latest(sequences.read_rows(FOLDER / "sequences" / f"scripted-{seed}.jsonl"))
    assert {row.model for row in rows} == {"scripted"}
    return {line["system"]: line for line in table.figures(rows)}


def solved_without(system: str, words: str, seed: int = 0) -> str:
    whole, without = sequence(seed)["default"], sequence(seed)[system]
    assert whole["tries"] == without["tries"], "both went through the whole sequence"
    return f"{whole['solved']} of {whole['tries']}, {words} {without['solved']}"


def without_routing_and_learning() -> str:
    return solved_without("no-recombine", "without routing round") + f", without learning {_solved(0, 'no-learn')}"


def without_learning() -> str:
    first = solved_without("no-learn", "without learning")
    return f"{first}; a second sequence {_solved(2, 'default')} and {_solved(2, 'no-learn')}"


def _solved(seed: int, system: str) -> int:
    return int(sequence(seed)[system]["solved"])


def without_what_is_used_together() -> str:
    return solved_without("no-co-usage", "without it")


def without_prerequisites() -> str:
    whole, without = sequence(0)["default"], sequence(0)["no-prerequisites"]
    return (
        f"needed and not offered {whole['missed']} of {whole['needed']}, without them {without['missed']}; "
        f"solved {whole['solved']} and {without['solved']}"
    )


def without_repair_by_rule() -> str:
    whole, without = sequence(0)["default"], sequence(0)["no-tier-1"]
    calls = [f"{line['model_calls'] / line['tries']:.2f}" for line in (whole, without)]
    solved = solved_without("no-tier-1", "without repair by rule")
    return f"{solved}, for {calls[0]} and {calls[1]} model calls a task"


def with_broken_tools() -> str:
    whole, without = sequence(0)["default"], sequence(0)["no-recombine"]
    return f"{whole['solved_broken']} of {whole['with_broken']}, without routing round {without['solved_broken']}"


COMPUTED: tuple[Callable[[], str], ...] = (
    small_model,
    refused_before_a_run,
    large_model,
    step_by_step,
    restbench,
    with_demonstrations,
    predicted_links,
    links_with_a_product,
    with_a_plan,
    with_peak_rank,
    with_a_planner_of_its_own,
    without_routing_and_learning,
    without_learning,
    without_what_is_used_together,
    without_prerequisites,
    without_repair_by_rule,
    with_broken_tools,
)
"""Each gives the words of a link of the page."""

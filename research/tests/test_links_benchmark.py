"""The benchmark of links: what is held out is not told, and what is known takes no place."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from atc.schemas.protocol import Protocol
from atc_research.naviagent.link_features import Matrix
from atc_research_benchmarks.links import Degrees, Method, recall, summary
from atc_research_benchmarks.links_data import KINDS, Gold, Part, Split, splits
from tests.support.docs import ROOT

TOOLS = [f"nestools/{number}" for number in range(40)]


def source() -> Gold:
    """Tools of which each feeds the next three; some of them feed back."""
    edges = Counter({(TOOLS[a], TOOLS[(a + step) % 40]): 1 for a in range(40) for step in (1, 2, 3)})
    edges.update({(TOOLS[a + 1], TOOLS[a]): 1 for a in range(0, 40, 4)})
    tasks = [tuple(TOOLS[at : at + 8]) for at in range(0, 40, 4)]
    return Gold("nestools", {tool: Protocol(name=f"t{at}") for at, tool in enumerate(TOOLS)}, edges, tasks)


def by_edges(seeds: int = 3) -> list[Split]:
    return [each for each in splits({"nestools": source()}, seeds) if each.name == "edges"]


def test_no_pair_is_both_learnt_from_and_asked_not_even_reversed() -> None:
    for split in by_edges():
        (learnt,), (asked,) = split.train, split.test
        for kind in ("edges", *KINDS):
            known, wanted = (
                {frozenset(pair) for pair in (each.edges if kind == "edges" else each.none[kind])}
                for each in (learnt, asked)
            )
            assert known
            assert wanted
            assert not known & wanted, kind
        assert len(learnt.edges) + len(asked.edges) == len(source().edges)
        assert {*asked.none["reversed"]} <= {(b, a) for a, b in asked.edges}


def test_a_fifth_is_asked_and_each_seed_asks_others() -> None:
    shares = [len(each.test[0].edges) / len(source().edges) for each in by_edges()]
    assert all(0.1 < share < 0.3 for share in shares)
    assert len({each.test[0].edges for each in by_edges()}) == 3
    assert by_edges() == by_edges(), "the same seed asks the same"


class Fixed(Method):
    """It takes the first tools for the likeliest."""

    name = "fixed"

    def learn(self, parts: object, seed: int) -> None:
        """Nothing to learn."""

    def into(self, gold: Gold, consumer: str) -> Matrix:
        return -np.arange(len(gold.protocols), dtype=np.float32)


def test_providers_that_are_known_take_no_place_among_the_likeliest() -> None:
    gold = source()
    asked = Part(gold, ((TOOLS[2], TOOLS[9]),), dict.fromkeys(KINDS, ()))
    learnt = Part(gold, ((TOOLS[0], TOOLS[9]), (TOOLS[1], TOOLS[9])), dict.fromkeys(KINDS, ()))
    assert recall(Fixed(), asked) == [0.0, 1.0, 1.0]
    assert recall(Fixed(), asked, [learnt]) == [1.0, 1.0, 1.0]


def test_degrees_count_what_was_learnt_alone() -> None:
    gold = source()
    method = Degrees()
    method.learn([Part(gold, ((TOOLS[0], TOOLS[1]), (TOOLS[0], TOOLS[2])), dict.fromkeys(KINDS, ()))], 0)
    into = method.into(gold, TOOLS[1])
    assert int(np.argmax(into)) == 0
    assert into[5] == into[6] < into[0]


def test_kept_rows_are_shown_without_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atc_research_benchmarks import links

    monkeypatch.delenv("ATC_DATA", raising=False)
    of_kind = {"auc": 0.75, "acc": 0.5, "f1": 0.5, "spread": [0.7, 0.8]}
    row = {
        "version": "1",
        "method": "m",
        "split": "edges",
        "seed": 0,
        "source": "nestools",
        "edges": 3,
        "recall": [0, 1, 1],
    }
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row | dict.fromkeys(KINDS, of_kind)) + "\n")
    app = typer.Typer()
    app.command()(links.main)
    shown = CliRunner().invoke(app, ["--summary", str(file), "--json"])
    assert shown.exit_code == 0, shown.output
    assert [line["source"] for line in json.loads(shown.stdout)["links"]] == ["nestools", "mean"]


def test_the_table_of_held_out_edges_is_that_of_the_published_rows() -> None:
    research = ROOT / "research"
    file = research / "atc_research_benchmarks" / "published" / "links.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    lines = {(line["method"], line["source"]): line for line in summary(rows)}
    (table,) = re.findall(
        r"^\| AUC, edges held out .*\n\| ---.*\n((?:\|.*\n)+)", (research / "benchmarks.md").read_text(), re.M
    )

    def auc(method: str, source: str, *kinds: str) -> list[float]:
        return [round(lines[method, source][f"{kind} auc"], 3) for kind in kinds]

    methods = set()
    for line in table.splitlines():
        named, *cells, _ = (cell.strip() for cell in line.strip("|").split("|"))
        method, _, seeds = named.rstrip(")").partition(" (")
        methods.add(method)
        measured = sorted({row["seed"] for row in rows if row["method"] == method})
        assert measured == ([int(seed) for seed in seeds.split(", ")] if seeds else [0, 1, 2]), method
        wanted = auc(method, "mean", *KINDS)
        wanted += auc(method, "nestools", "random", "reversed") + auc(method, "ultratool", "random", "reversed")
        told = [float(number) for number in ", ".join(cells).split(", ")]
        assert told == pytest.approx(wanted, abs=1e-9), method
    assert methods == {row["method"] for row in rows}

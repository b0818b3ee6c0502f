"""The ruler of scorers: what lies near a query's tools is left out, lines are kept, what was learnt has its place."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from atc_research_benchmarks.used_together import METHODS, Asked, Kept, Line, Opened, Part, measured
from tests.support.retrieval import HashedWords, protocol

TOOLS = [
    (f"{service}/{name}", protocol(name, text))
    for service, name, text in (
        ("film", "search", "Find films by title."),
        ("film", "cast", "Who plays in a film."),
        ("stream", "sources", "Where a title can be watched."),
        ("stream", "prices", "Prices of subscriptions."),
        ("mail", "send", "Send a letter."),
    )
]
GOLD = frozenset({"film/search", "stream/sources"})
USED = [
    (["film/search", "stream/sources", "mail/send"], 3.0),
    (["film/cast", "stream/prices"], 2.0),
    (["film/search", "mail/send"], 1.0),
]


def data() -> Any:
    query = SimpleNamespace(text="find films", gold=GOLD)
    catalogues = SimpleNamespace(pool=lambda name: iter(TOOLS))
    return SimpleNamespace(
        catalogues=catalogues,
        encoder=HashedWords(),
        queries=lambda *sources, subset="": [query],
        used_together=lambda: iter(USED),
    )


def asked() -> list[Asked]:
    return [Asked("Find me films by their title. Also, tell me where a title can be watched.", GOLD)]


def test_sets_near_a_querys_tools_are_left_out_in_two_widths() -> None:
    opened = Opened(data(), Part("x", "pool", asked(), file=True))
    pairs = {name: len(searched.used.pairs) for name, searched in opened.with_use.items()}
    assert pairs == {"": 4, "apart": 2, "elsewhere": 3}
    services = {tuple(sorted(each.rpartition("/")[0] for each in ids)) for ids, _ in USED}
    assert ("film", "stream") in services


def test_a_line_has_every_measure_and_an_interval() -> None:
    part = Part("x", "pool", asked(), file=True)
    opened = Opened(data(), part)
    for name in ("hybrid", "needs", "parts", "parts+needs", "use", "parts+use-apart"):
        line = measured(opened, part, name, METHODS[name], len(opened.index))
        assert set(line.ndcg) == {"1", "3", "5", "10"}
        assert 0 <= line.low <= line.ndcg["5"] <= line.high <= 100
    assert measured(opened, part, "parts", METHODS["parts"], 5).all_found == 100


def test_only_services_of_the_part_are_searched() -> None:
    opened = Opened(data(), Part("x", "pool", asked(), only=True))
    assert set(opened.index.ids) == {"film/search", "film/cast", "stream/sources", "stream/prices"}


def test_kept_lines_are_of_this_code_and_a_cut_one_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    Kept(path, 10).add(Line("x", 5, 1, "hybrid", {"5": 50.0}, 0.0, 40.0, 60.0))
    path.write_text(path.read_text() + json.dumps({"version": "older", "part": "y"}) + '\n{"part": "z", "ver')
    kept = Kept(path, 10)
    assert kept.get("x", "hybrid") == Line("x", 5, 1, "hybrid", {"5": 50.0}, 0.0, 40.0, 60.0)
    assert kept.get("y", "hybrid") is None
    assert Kept(path, 20).get("x", "hybrid") is None

"""The ruler of what finding is worth: a task's tools among others, found or not, and never those others called."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from atc.retrieval.retriever import Way
from benchmarks.retrieval_help import OFFERED, Crowd, Hidden, protocols_of, shown
from benchmarks.systems import System
from tests.support.retrieval import HashedWords
from tests.support.ruler import GOOD, Shop, tried

pytestmark = pytest.mark.slow  # the benchmark's own tests, not the product's


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    folder = tmp_path / "retrieval"
    folder.mkdir()
    names = ["order", *(f"weather_{n}" for n in range(2 * OFFERED))]
    records = [{"id": f"toolbench/{n}", "name": n, "description": "Rain.", "source": "toolbench"} for n in names]
    for name, lines in (("corpus_toolbench", records), ("corpus_other", [])):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    with gzip.open(folder / "pools.json.gz", "wt") as file:
        json.dump({}, file)
    return Crowd(tmp_path, protocols_of([Shop()]), tmp_path, HashedWords())


def hidden(crowd: Crowd, name: str) -> System:
    return Hidden(name, None if name == "gold" else name, crowd)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["gold", "lexical", "hybrid"])
def test_the_tasks_tool_is_found_among_the_others(crowd: Crowd, way: str) -> None:
    row = tried([GOOD], hidden(crowd, way))
    assert (row.status, row.solved, row.model_calls, row.tool_calls) == ("answered", True, 1, 1)


def test_a_planned_search_asks_the_model_too(crowd: Crowd) -> None:
    row = tried(["order a thing", "<stop_retrieval>", GOOD], hidden(crowd, "planned"))
    assert row.solved
    assert row.model_calls == 3


@pytest.mark.parametrize("way", ["lexical", "hybrid"])
def test_what_is_shown_is_counted_without_a_try(crowd: Crowd, way: Way) -> None:
    shop = Shop()
    told = asyncio.run(shown(crowd, shop, shop.tasks(), way, 8))
    assert (told.tasks, told.all, told.each) == (len(shop.tasks()), 1.0, 1.0)
    unsaid = [replace(task, text="rain") for task in shop.tasks()]
    assert asyncio.run(shown(crowd, shop, unsaid, way, 8)).all == 0.0


def test_another_tool_of_the_same_name_is_renamed_and_refuses(crowd: Crowd) -> None:
    assert "order" not in crowd.others
    assert "order_2" in crowd.others
    row = tried(["```python\nanswer = order_2()\n```"] * 9, hidden(crowd, "hybrid"))
    assert (row.solved, row.tool_calls) == (False, 0)


def test_the_index_is_built_once(crowd: Crowd) -> None:
    first = crowd.index
    again = Crowd(crowd.data, crowd.own, crowd.kept, crowd.encoder).index
    assert [hit.id for hit in first.search("order")] == [hit.id for hit in again.search("order")]
    assert len(list(crowd.kept.glob("hidden-*"))) == 1


def test_an_index_that_was_not_finished_is_gone_on_with(crowd: Crowd) -> None:
    assert crowd.index
    (folder,) = crowd.kept.glob("hidden-*")
    (folder / "index.json").unlink()  # written last
    again = Crowd(crowd.data, crowd.own, crowd.kept, crowd.encoder).index
    assert again.search("order")
    assert (folder / "index.json").is_file()

"""The ruler of what finding is worth: a task's tools among others, found or not, and never those others called."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from atc.catalogue.index.retriever import Way
from atc.errors import ToolError
from benchmarks.retrieval.help import OFFERED, Crowd, protocols_of, shown
from tests.support.retrieval import HashedWords
from tests.support.ruler import Shop

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


@pytest.mark.parametrize("way", ["lexical", "hybrid"])
def test_what_is_shown_is_counted(crowd: Crowd, way: Way) -> None:
    shop = Shop()
    told = asyncio.run(shown(crowd, shop, shop.tasks(), way, 8))
    assert (told.tasks, told.all, told.each) == (len(shop.tasks()), 1.0, 1.0)
    unsaid = [replace(task, text="rain") for task in shop.tasks()]
    assert asyncio.run(shown(crowd, shop, unsaid, way, 8)).all == 0.0


def test_another_tool_of_the_same_name_is_renamed_and_refuses(crowd: Crowd) -> None:
    assert "order" not in crowd.others
    with pytest.raises(ToolError, match="no subscription"):
        asyncio.run(crowd.others["order_2"].transport({}))  # type: ignore[misc]


def test_the_index_is_built_once(crowd: Crowd) -> None:
    first = crowd.index
    again = Crowd(crowd.data, crowd.own, crowd.kept, crowd.encoder).index
    assert [hit.id for hit in first.search("order")] == [hit.id for hit in again.search("order")]
    assert len(list(crowd.kept.glob("hidden-*"))) == 1

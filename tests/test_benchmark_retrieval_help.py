"""The ruler of what finding is worth: a task's tools among others, found or not, and never those others called."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support_retrieval import HashedWords

from benchmarks.retrieval_help import OFFERED, Crowd, Hidden, protocols_of
from benchmarks.systems import System
from tests.support_ruler import GOOD, Shop, tried

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

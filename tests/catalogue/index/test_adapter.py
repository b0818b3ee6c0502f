"""An adapter of queries at run time: what it does to a ranking, and its file."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index import snapshot as snapshots
from atc.catalogue.index.adapter import MAX_FILES, Adapter, OwnAdapters
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.scorers import Query, fused
from atc.catalogue.sketch import Sketch
from atc.errors import UsageError
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from tests.support.ranking import DOCUMENTED, SPOKEN, SmallEncoder, index, tools
from tests.support.retrieval import no_model, protocol


class Wide(SmallEncoder):
    """One whose words share no component."""

    dimensions = 512


def taught(share: float = 2.0, encoder: SmallEncoder | None = None) -> Adapter:
    """Draws each spoken word to the document of its tool, as training would."""
    encoder = encoder or Wide()
    spoken, documents = encoder.encode(SPOKEN), encoder.encode(DOCUMENTED)
    return Adapter(5 * spoken.T @ documents, encoder.digest, digests(f"do_{word}" for word in DOCUMENTED), share, 100)


def digests(ids: Any) -> Any:
    return np.unique(np.array([snapshots.id_digest(id) for id in ids], np.uint64))


def first(searched: ToolIndex, query: str) -> str:
    hits = searched.search(query)
    return hits[0].id if hits else ""


def test_a_query_in_the_users_words_finds_the_tool() -> None:
    plain = index(Wide())
    learnt = plain.with_scorers([taught()])
    right = [f"do_{word}" for word in DOCUMENTED]
    assert [first(learnt, word) for word in SPOKEN] == right
    assert [first(plain, word) for word in SPOKEN] != right
    hit = learnt.search("umbrella")[0]
    assert hit.parts["adapter"] > 0
    assert hit.score <= 1.0001  # what leads by all has 1, as without


def test_switched_off_or_by_one_way_alone_nothing_changes() -> None:
    plain = index(Wide())
    learnt = plain.with_scorers([taught()])
    off = plain.with_scorers([taught()], ("words", "vectors"))
    for query in (*SPOKEN, "the weather"):
        assert off.search(query) == plain.search(query)
        assert learnt.search(query, mode="dense") == plain.search(query, mode="dense")
        assert learnt.search(query, mode="lexical") == plain.search(query, mode="lexical")


def test_where_another_tool_leads_the_order_is_as_without() -> None:
    more = ToolIndex.build([*tools(), protocol("fix_bicycle", "Repairs a bicycle.", "wheel")], Wide())
    assert more.with_scorers([taught()]).search("bicycle wheel") == more.search("bicycle wheel")


def test_an_index_with_too_few_of_the_tools_does_not_use_it() -> None:
    few = ToolIndex.build([*tools()[:4], protocol("fix_bicycle", "Repairs a bicycle.")], Wide())
    assert taught().scorer(few.snapshot) is None
    half = ToolIndex.build(tools()[:5], Wide())
    assert taught().scorer(half.snapshot) is not None
    assert taught().scorer(ToolIndex.build(tools()).snapshot) is None  # no vectors
    narrow = replace(taught(), matrix=np.zeros((3, 3), np.float32))
    assert narrow.scorer(index(Wide()).snapshot) is None


def test_it_says_nothing_where_no_vector_is_asked_for() -> None:
    scorer = taught().scorer(index(Wide()).snapshot)
    assert scorer is not None
    assert scorer.scores(Query("umbrella", Wide().encode(["umbrella"])[0])) is not None
    assert scorer.scores(Query("umbrella")) is None


def test_weights_of_at_most_one_leave_a_sum_as_it_is() -> None:
    parts = {"words": np.array([1.0, 2.0], np.float32), "vectors": np.array([0.5, 0.25], np.float32)}
    assert fused(parts, 2).tolist() == pytest.approx([0.55 / 2 + 0.45, 0.55 + 0.45 / 2])


# -- file --------------------------------------------------------------------------------------------------------------


def test_a_file_holds_it_and_no_name(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ranking-1.json"
    taught().write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "do_" not in path.read_text()
    back = Adapter.read(path)
    assert np.allclose(back.matrix, taught().matrix, atol=1e-2)
    assert (back.encoder, back.share, back.pairs) == (taught().encoder, 2.0, 100)
    assert np.array_equal(back.tools, taught().tools)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"encoder": 3},
        {"dimensions": 63},
        {"dimensions": True},
        {"dimensions": 10**9},
        {"share": float("nan")},
        {"share": -1},
        {"share": 1e9},
        {"share": "2"},
        {"pairs": -1},
        {"tools": ""},
        {"tools": "AAAA"},
        {"tools": "not base 64 !"},
        {"tools": None},
        {"matrix": "AAAA"},
        {"matrix": 7},
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "ranking-1.json"
    taught().write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UsageError, match=r"ranking-1\.json"):
        Adapter.read(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, 2_000.0])
def test_a_matrix_that_nothing_could_teach_is_refused(tmp_path: Path, value: float) -> None:
    bad = np.zeros((4, 4), np.float32)
    bad[1, 2] = value
    replace(taught(), matrix=bad).write(tmp_path / "ranking-1.json")
    with pytest.raises(UsageError, match="damaged"):
        Adapter.read(tmp_path / "ranking-1.json")


@given(some.binary(max_size=200))
def test_any_bytes_are_an_adapter_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "ranking-bytes.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        Adapter.read(path)


# -- the folder --------------------------------------------------------------------------------------------------------


def test_the_adapter_with_most_of_the_tools_counts(tmp_path: Path) -> None:
    own = OwnAdapters(tmp_path)
    assert own.find(index(Wide())) is None
    few = replace(taught(), tools=digests(["do_weather", "do_movie"]))
    few.write(tmp_path / "ranking-b.json")
    replace(taught(), encoder="another").write(tmp_path / "ranking-c.json")
    replace(taught(), tools=digests(["not", "there"])).write(tmp_path / "ranking-d.json")
    found = own.find(index(Wide()))
    assert found is not None
    assert found[0].name == "ranking-b.json"
    taught().write(tmp_path / "ranking-a.json")
    assert [each.pairs for each in own.columns(index(Wide()))] == [100]
    assert own.find(index(Wide()))[0].name == "ranking-a.json"  # type: ignore[index]
    assert own.notices == ()


def test_the_one_before_comes_back(tmp_path: Path) -> None:
    own, searched = OwnAdapters(tmp_path / "graph"), index(Wide())
    with pytest.raises(UsageError, match="nothing to roll back"):
        own.roll_back(searched)
    path = own.keep(taught(1.0), searched)
    assert own.keep(taught(3.0), searched) == path
    assert own.find(searched)[1].share == 3.0  # type: ignore[index]
    assert sorted(each.name.count(".before") for each in path.parent.iterdir()) == [0, 1]
    assert own.roll_back(searched).share == 1.0  # type: ignore[union-attr]
    assert own.roll_back(searched) is None
    assert not list(path.parent.iterdir())


def test_a_damaged_one_does_not_count_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "ranking-x.json").write_text("{")
    own = OwnAdapters(tmp_path)
    assert own.columns(index(Wide())) == []
    assert "ranking-x.json is damaged" in own.notices[0]
    taught().write(tmp_path / "ranking-x.json")
    assert len(own.columns(index(Wide()))) == 1
    assert own.notices == ()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ranking-pipe.json")
    (tmp_path / "ranking-folder.json").mkdir()
    taught().write(tmp_path / "ranking-good.json")
    own = OwnAdapters(tmp_path)
    assert len(own.columns(index(Wide()))) == 1
    assert len(own.notices) == 2
    (tmp_path / "ranking-good.before.json").mkdir()
    with pytest.raises(UsageError, match="cannot be rolled back"):
        own.roll_back(index(Wide()))
    with pytest.raises(UsageError, match="by hand"):
        own.forget()


def test_what_a_killed_process_left_is_cleaned_up_and_forgotten(tmp_path: Path) -> None:
    old, young = (tmp_path / f".ranking-good.json.{name}" for name in ("0a0b0c0d", "1a1b1c1d"))
    for draft in (old, young):
        draft.write_text("a matrix")
    os.utime(old, (0, 0))
    own = OwnAdapters(tmp_path)
    own.keep(taught(), index(Wide()))
    assert (old.exists(), young.exists()) == (False, True)  # the young one may be another process's
    assert own.forget() == 1
    assert not list(tmp_path.iterdir())


def test_many_files_are_bounded_and_forgotten(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 2):
        (tmp_path / f"ranking-{number}.json").write_text("")
    own = OwnAdapters(tmp_path)
    assert own.columns(index(Wide())) == []
    assert len(own.notices) == MAX_FILES
    taught().write(tmp_path / "ranking-good.json")
    taught().write(tmp_path / "ranking-good.before.json")
    (tmp_path / "learnt-1.db").write_text("")
    assert own.forget(["another"]) == MAX_FILES + 2  # nobody can say what is in the damaged ones
    assert own.forget(["do_movie"]) == 2
    taught().write(tmp_path / "ranking-good.json")
    assert own.forget() == 1
    assert [each.name for each in tmp_path.iterdir()] == ["learnt-1.db"]


# -- a run -------------------------------------------------------------------------------------------------------------


def test_a_run_searches_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.catalogue.index import index_store

    monkeypatch.setattr(index_store.Coded, "own", lambda coded: Wide())
    index(Wide()).save(tmp_path / "index")
    taught().write(tmp_path / "ranking-a.json")

    def found(**more: Any) -> Sketch:
        given = Settings(catalogue=tmp_path, tool_index=str(tmp_path / "index"), **more)
        catalogue = Catalogue(Toolset(map(Tool, tools())), settings=given)
        return asyncio.run(catalogue.find("umbrella of a person", 3, no_model))

    assert next(iter(found().tools)) == "do_weather"
    plain = list(found(learn=False).tools)
    assert plain == list(found(scorers=("words", "vectors")).tools) != list(found().tools)
    (tmp_path / "ranking-a.json").write_text("{}")
    damaged = found()
    assert list(damaged.tools) == plain
    assert "ranking-a.json is damaged" in damaged.notices[0]

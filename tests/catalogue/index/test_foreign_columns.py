"""Columns of an index whose files are whole, and say what cannot be: the index works without them, and says why."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atc.catalogue.index import index_store
from atc.catalogue.index.co_usage import MOST, CoUsage
from atc.catalogue.index.index import ToolIndex
from atc.errors import ToolIndexError
from tests.support.ranking import SmallEncoder, index
from tests.support.retrieval import protocol

WIDE = SmallEncoder.dimensions


@pytest.fixture(autouse=True)
def _no_overflow() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = index()
    ids = made.ids
    made.use_together([(ids[:3], 4), (ids[2:5], 1)])
    made.save(tmp_path / "index")
    return tmp_path / "index"


def forged(folder: Path, **arrays: NDArray[Any]) -> ToolIndex:
    """The index, with other arrays in its files, and a manifest that says so."""
    manifest = json.loads((folder / "index.json").read_text())
    for name, array in arrays.items():
        path = folder / manifest["generation"] / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        described = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        manifest["files"][path.name] = described
    (folder / "index.json").write_text(json.dumps(manifest))
    return ToolIndex.load(folder, SmallEncoder())


def works(made: ToolIndex) -> bool:
    """Whether it can be searched, and changed."""
    made.add([protocol("do_chess", "Handles the chess of a person.")])
    made.remove(["do_movie"])
    return made.search("chess", 1)[0].id == "do_chess" and bool(made.search("weather", 1))


FOREIGN_COUNTS: dict[str, dict[str, NDArray[Any]]] = {
    "counts that overflow": {"used-counts": np.full(6, 1e308), "used-totals": np.full(10, 1e308)},
    "tools used less often than their pairs": {"used-totals": np.zeros(10, np.float32)},
}


@pytest.mark.parametrize("arrays", FOREIGN_COUNTS.values(), ids=FOREIGN_COUNTS)
def test_counts_that_cannot_be_are_left_out(folder: Path, arrays: dict[str, NDArray[Any]]) -> None:
    made = forged(folder, **arrays)
    assert made.snapshot.co_usage is None
    assert "what was used together is left out" in made.notices[0]
    assert works(made)


def test_huge_counts_are_capped() -> None:
    rows = {"a": 0, "b": 1, "c": 2}
    used = CoUsage.of([(["a", "b"], 1e300), (["a", "c"], 1e300), (["b", "c"], 1e-30)], rows, 3)
    assert used.totals.max() <= np.float32(MOST)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_store, "_PAUSE_S", 0)

    def piped(name: str) -> None:
        path = next(folder.rglob(name))
        path.unlink()
        os.mkfifo(path)

    piped("used-pairs.npy")
    made = ToolIndex.load(folder, SmallEncoder())
    assert made.snapshot.co_usage is None
    assert works(made)
    for name, said in (("ids.json", "missing"), ("index.json", "is no file")):
        piped(name)
        with pytest.raises(ToolIndexError, match=said):
            ToolIndex.load(folder, SmallEncoder())

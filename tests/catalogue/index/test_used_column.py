"""What was used together as a part of an index: saved, kept when tools change, left out when it is unsound."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atc.catalogue.index import index_store
from atc.catalogue.index.index import ToolIndex
from tests.support.retrieval import HashedWords, files, generation, protocol, some

KEPT = Path(__file__).with_name("index_with_codes")
"""An index that an older version wrote, with the codes that it made of the tools."""


def used(folder: Path | None = None) -> ToolIndex:
    """An index with what was used together."""
    index = ToolIndex.build(some(), HashedWords())
    index.use_together([(["get_weather", "rentVehicle"], 3.0)])
    if folder is not None:
        index.save(folder)
    return index


def used_together(index: ToolIndex) -> set[tuple[str, str]]:
    found = index._snapshot.co_usage
    assert found is not None
    assert len(found.totals) == len(index)
    return {(index.ids[first], index.ids[second]) for first, second in found.pairs}


def test_it_is_saved_with_the_index(tmp_path: Path) -> None:
    index, loaded = used(tmp_path), ToolIndex.load(tmp_path, HashedWords())
    assert loaded.notices == ()
    assert used_together(loaded) == {("get_weather", "rentVehicle")}
    assert loaded.search("weather") == index.search("weather")


def test_the_same_index_makes_the_same_files(tmp_path: Path) -> None:
    used(tmp_path / "a")
    used(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_it_is_kept_when_tools_come_and_go() -> None:
    index = used()
    index.add([protocol("tides", "High water at a harbour."), protocol("car_wash", "Cleans an automobile.")])
    index.remove(["dictionary"])
    index.update(some()[:3])
    assert used_together(index) == {("get_weather", "rentVehicle")}


@pytest.mark.parametrize("damaged", ["", "codes.npy", "codebook-0.npy"])
def test_codes_that_an_older_version_kept_are_not_read(tmp_path: Path, damaged: str) -> None:
    shutil.copytree(KEPT, tmp_path / "index")
    if damaged:
        (generation(tmp_path / "index") / damaged).unlink()
    old = ToolIndex.load(tmp_path / "index", HashedWords())
    new = used()
    assert (old.ids, old.notices) == (new.ids, ())
    for query in ("weather", "car", "films by title"):
        assert old.search(query) == new.search(query)
    old.add([protocol("tides", "High water at a harbour.")])
    old.save(tmp_path / "index")
    assert used_together(ToolIndex.load(tmp_path / "index", HashedWords())) == {("get_weather", "rentVehicle")}
    assert not [name for name in files(tmp_path / "index") if "code" in name]


Change = Callable[[dict[str, np.ndarray]], None]


def _set(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = value(arrays[name])

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("used-totals", lambda totals: totals[:-1]),
        _set("used-counts", lambda counts: counts * np.float32(np.nan)),
        _set("used-counts", lambda counts: -counts),
        _set("used-pairs", lambda pairs: pairs[:, ::-1]),
        _set("used-pairs", lambda pairs: pairs + np.int32(99)),
        _set("used-pairs", lambda pairs: pairs[:, :1]),
        lambda arrays: arrays.pop("used-totals"),
    ],
)
def test_what_is_foreign_is_left_out_and_the_index_works(tmp_path: Path, change: Change) -> None:
    expected = used(tmp_path).with_scorers(on=["words", "vectors"]).search("weather")
    manifest = json.loads((tmp_path / "index.json").read_bytes())
    home = generation(tmp_path)
    names = [path.name for path in home.glob("used-*.npy")]
    arrays = {Path(name).stem: np.load(home / name) for name in names}
    for name in names:
        (home / name).unlink()
        del manifest["files"][name]
    change(arrays)
    for name, array in arrays.items():
        np.save(home / f"{name}.npy", array)
        manifest["files"][f"{name}.npy"] = index_store._described(home / f"{name}.npy")
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    loaded = ToolIndex.load(tmp_path, HashedWords())
    assert len(loaded.notices) == 1
    assert "used together" in loaded.notices[0]
    assert loaded.search("weather") == expected
    loaded.save(tmp_path)
    assert ToolIndex.load(tmp_path, HashedWords()).notices == ()


@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "no array"])
def test_a_damaged_file_of_it_costs_it_alone(tmp_path: Path, how: str) -> None:
    used(tmp_path)
    path = generation(tmp_path) / "used-counts.npy"
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes({"cut": content[:-1], "flipped": content, "no array": b"x"}[how])
    if how == "no array":
        manifest = json.loads((tmp_path / "index.json").read_bytes())
        manifest["files"][path.name] = index_store._described(path)
        (tmp_path / "index.json").write_text(json.dumps(manifest))
    loaded = ToolIndex.load(tmp_path, HashedWords())
    assert "is damaged" in loaded.notices[0]
    assert loaded._snapshot.co_usage is None
    assert loaded.search("weather")[0].id == "get_weather"

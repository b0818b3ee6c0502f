"""Codes as a column of an index: saved, kept when tools change, left out when they are unsound."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.errors import UsageError
from atc.retrieval import index_store
from atc.retrieval.co_usage import CoUsage
from atc.retrieval.codes import CodesFacts
from atc.retrieval.index import ToolIndex
from atc.scorer_names import SCORERS
from tests.support.retrieval import HashedWords, files, generation, many, protocol, some


def coded(folder: Path | None = None) -> ToolIndex:
    """An index with codes, and with what was used together."""
    index = ToolIndex.build(some(), HashedWords())
    rows = index._snapshot.rows
    used = CoUsage.of([(["get_weather", "rentVehicle"], 3.0)], rows, len(index))
    index._snapshot = replace(index._snapshot, co_usage=used)
    index.make_codes()
    if folder is not None:
        index.save(folder)
    return index


def by_id(index: ToolIndex) -> dict[str, tuple[int, ...]]:
    assert index.codes is not None
    return {id: tuple(row) for id, row in zip(index.ids, index.codes.values.tolist(), strict=True)}


def used_together(index: ToolIndex) -> set[tuple[str, str]]:
    used = index._snapshot.co_usage
    assert used is not None
    assert len(used.totals) == len(index)
    return {(index.ids[first], index.ids[second]) for first, second in used.pairs}


def all_apart(index: ToolIndex) -> bool:
    return len(set(by_id(index).values())) == len(index)


def test_codes_are_saved_with_the_index(tmp_path: Path) -> None:
    index, loaded = coded(tmp_path), ToolIndex.load(tmp_path, HashedWords())
    assert by_id(loaded) == by_id(index)
    assert loaded.codes is not None
    assert loaded.codes.facts == CodesFacts("closed-form", encoder=HashedWords().digest)
    assert loaded.notices == ()
    assert used_together(loaded) == {("get_weather", "rentVehicle")}
    assert loaded.search("weather") == index.search("weather")


def test_the_same_index_and_seed_make_the_same_files(tmp_path: Path) -> None:
    coded(tmp_path / "a")
    coded(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_an_index_without_vectors_has_no_codes() -> None:
    index = ToolIndex.build(some())
    with pytest.raises(UsageError, match="with an encoder"):
        index.make_codes()
    assert index.codes is None


def test_tools_keep_their_codes_when_others_come_and_go() -> None:
    index = coded()
    before = by_id(index)
    index.add([protocol("tides", "High water at a harbour."), protocol("car_wash", "Cleans an automobile.")])
    index.remove(["dictionary"])
    index.update(some()[:3])
    after = by_id(index)
    assert {id: after[id] for id in before if id != "dictionary"} == {
        id: codes for id, codes in before.items() if id != "dictionary"
    }
    assert all_apart(index)
    assert used_together(index) == {("get_weather", "rentVehicle")}


def test_a_tool_with_another_text_gets_the_nearest_free_codes() -> None:
    index = ToolIndex.build(many(60), HashedWords())
    index.make_codes()
    before = by_id(index)
    index.add([("t/twin", protocol("tool_7", "Thing number 7."))])
    codes, vectors = index.codes, index._snapshot.vectors
    assert codes is not None
    assert vectors is not None
    taken = Counter(code[0] for code in before.values())
    free = [code for code in range(len(codes.books[0])) if taken[code] < math.prod(map(len, codes.books[1:]))]
    distances = np.square(codes.books[0] - vectors.floats()[index.ids.index("t/twin")]).sum(1)
    assert distances[by_id(index)["t/twin"][0]] <= distances[free].min() + 0.01  # as near as any, but for rounding
    index.update([("s/0007", protocol("get_credits", "The cast of a film."))])
    assert {id: code for id, code in by_id(index).items() if id in before and id != "s/0007"} == {
        id: code for id, code in before.items() if id != "s/0007"
    }
    assert all_apart(index)


def test_codes_grow_until_their_books_are_full_then_they_are_left_out() -> None:
    index = ToolIndex.build(many(4), HashedWords())
    index.make_codes(size=3)
    index.add([(f"t/{n}", protocol("tool_1", "Thing number 1.")) for n in range(5)])
    assert all_apart(index)
    index.add([("t/5", protocol("tool_1", "Thing number 1."))])
    assert index.codes is None
    assert "no room" in index.notices[0]
    index.make_codes()
    assert all_apart(index)
    assert index.notices == ()


def test_equal_tools_and_an_empty_index() -> None:
    for count in (1, 2, 7):
        index = ToolIndex.build([(f"s/{n}", protocol("same", "The same.")) for n in range(count)], HashedWords())
        index.make_codes()
        assert all_apart(index)
    index.remove(list(index.ids))
    assert index.codes is not None
    assert index.codes.values.shape == (0, 2)
    index.make_codes()
    index.add([protocol("tides")])
    assert all_apart(index)


def test_codes_of_elsewhere_must_fit() -> None:
    index = coded()
    codes = index.codes
    assert codes is not None
    with pytest.raises(UsageError, match="another encoder"):
        index.use_codes(replace(codes, facts=replace(codes.facts, encoder="x")))
    with pytest.raises(UsageError, match="5 tools"):
        index.use_codes(replace(codes, values=codes.values[:5]))
    index.use_codes(None)
    index.use_codes(codes)
    assert index.codes is codes


Change = Callable[[dict[str, Any], dict[str, np.ndarray]], None]


def _set(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = value(arrays[name])

    return change


def _drop(name: str) -> Change:
    def change(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        del arrays[name]

    return change


def _say(**facts: Any) -> Change:
    return lambda manifest, arrays: manifest["codes"].update(facts)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_say(version=99), "version 99"),
        (_say(encoder="another"), "another encoder"),
        (_say(encoder=7), "how they were made"),
        (_say(smoothing="x"), "how they were made"),
        (lambda manifest, arrays: manifest.update(codes=[1]), "version None"),
        (_drop("codes"), "how they were made"),
        (_drop("codebook-1"), "no rows of whole numbers"),
        (_set("codes", lambda codes: codes[:-1]), "of 5 tools"),
        (_set("codes", lambda codes: codes[:, 0]), "how they were made"),
        (_set("codes", lambda codes: codes.astype(np.int64)), "no rows of whole numbers"),
        (_set("codes", lambda codes: codes * 0), "two tools"),
        (_set("codes", lambda codes: codes - np.int16(9)), "not in its codebook"),
        (_set("codes", lambda codes: codes + np.int16(99)), "not in its codebook"),
        (_set("codebook-0", lambda book: book * np.float32(np.nan)), "no number"),
        (_set("codebook-0", lambda book: book.astype(bool)), "no number"),
        (_set("codebook-0", lambda book: book[:, :-1]), "no shape that fits"),
        (_set("codebook-0", lambda book: book[None]), "no shape that fits"),
        (lambda manifest, arrays: arrays.update({"codes-weights": np.full(3, np.inf)}), "no number"),
        (_set("used-totals", lambda totals: totals[:-1]), "used together"),
        (_set("used-counts", lambda counts: counts * np.float32(np.nan)), "used together"),
        (_set("used-counts", lambda counts: -counts), "used together"),
        (_set("used-pairs", lambda pairs: pairs[:, ::-1]), "used together"),
        (_set("used-pairs", lambda pairs: pairs + np.int32(99)), "used together"),
        (_set("used-pairs", lambda pairs: pairs[:, :1]), "used together"),
        (_drop("used-totals"), "used together"),
    ],
)
def test_a_column_that_is_foreign_is_left_out_and_the_index_works(tmp_path: Path, change: Change, why: str) -> None:
    on = ["words", "vectors"] if "used together" in why else SCORERS
    expected = coded(tmp_path).with_scorers(on=on).search("weather")
    manifest = json.loads((tmp_path / "index.json").read_bytes())
    home = generation(tmp_path)
    names = [path.name for path in home.glob("*.npy") if path.stem.startswith(("codes", "codebook-", "used-"))]
    arrays = {Path(name).stem: np.load(home / name) for name in names}
    for name in names:
        (home / name).unlink()
        del manifest["files"][name]
    change(manifest, arrays)
    for name, array in arrays.items():
        np.save(home / f"{name}.npy", array)
        manifest["files"][f"{name}.npy"] = index_store._described(home / f"{name}.npy")
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    loaded = ToolIndex.load(tmp_path, HashedWords())
    assert len(loaded.notices) == 1
    assert why in loaded.notices[0]
    assert (loaded.codes is None) != ("used together" in why)
    assert loaded.search("weather") == expected
    loaded.save(tmp_path)
    assert ToolIndex.load(tmp_path, HashedWords()).notices == ()


@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "no array"])
@pytest.mark.parametrize("name", ["codes.npy", "codebook-1.npy", "used-counts.npy"])
def test_a_damaged_file_of_a_column_costs_the_column_alone(tmp_path: Path, name: str, how: str) -> None:
    coded(tmp_path)
    path = generation(tmp_path) / name
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes({"cut": content[:-1], "flipped": content, "no array": b"x"}[how])
    if how == "no array":
        manifest = json.loads((tmp_path / "index.json").read_bytes())
        manifest["files"][name] = index_store._described(path)
        (tmp_path / "index.json").write_text(json.dumps(manifest))
    loaded = ToolIndex.load(tmp_path, HashedWords())
    assert "is damaged" in loaded.notices[0]
    assert (loaded.codes is None) == name.startswith("code")
    assert (loaded._snapshot.co_usage is None) == name.startswith("used")
    assert loaded.search("weather")[0].id == "get_weather"

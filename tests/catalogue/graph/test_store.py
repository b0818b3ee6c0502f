"""The store of what runs teach: kept per tool, counted once, aged, bounded, and never in a run's way."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph import database, learning
from atc.catalogue.graph.database import identity_of
from atc.catalogue.graph.edges import NOTHING_LEARNT, Counts, Learnt, Place
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.store import GraphStore
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.graph.weights import LONG_TERM, score_after, weight_now
from atc.errors import EnvironmentProblem, UsageError
from atc.programs.lessons.reading import lessons_of
from atc.schemas.infer.outline import outline_of
from atc.schemas.protocol import Source
from tests.programs.test_lessons import Run
from tests.support.graph import CITIES, DAY, EDGE, NOW, TOOLS, lessons, tool, tools


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GraphStore]:
    made = GraphStore(tmp_path / "cache" / "graph" / "learnt.db")
    yield made
    made.close()


def test_what_is_learnt_is_seen_by_another_store_of_the_same_file(store: GraphStore) -> None:
    assert store.learnt(TOOLS, NOW) == NOTHING_LEARNT
    assert not store.path.exists()
    store.add(lessons("a", failed={3: "alerts"}), TOOLS, NOW)
    found = GraphStore(store.path).learnt(TOOLS, NOW)
    once = Counts(1.0, 0.0, NOW)
    assert found.calls == {"find_cities": once, "weather": once, "alerts": Counts(0.0, 1.0, NOW)}
    assert found.follows == {("find_cities", "weather"): once}
    assert found.feeds == {EDGE: once}
    assert not store.notice


def test_a_run_is_learnt_once_and_a_resumed_one_adds_only_what_is_new(store: GraphStore) -> None:
    stopped = Lessons("a", failed=((1, "alerts"),))
    for each in (stopped, stopped, lessons("a", failed={1: "alerts", 4: "alerts"})):
        store.add(each, TOOLS, NOW)
    once = store.learnt(TOOLS, NOW)
    assert once.calls["alerts"].failed == 2
    assert once.calls["weather"].ok == 1
    for each in (stopped, lessons("a", failed={4: "alerts"})):
        store.add(each, TOOLS, NOW)
    assert store.learnt(TOOLS, NOW) == once


def test_habits_are_the_layers_that_tools_stood_in_and_age_like_all_else(store: GraphStore) -> None:
    before = {("find_cities", 0): 1, ("weather", 1): 1}
    for number in range(4):
        store.add(lessons(f"old {number}", levels=before), TOOLS, NOW - 60 * DAY)
    old = store.learnt(TOOLS, NOW).habits
    assert old == {"find_cities": {0: 4.0}, "weather": {1: 4.0}}
    store.add(lessons("new", levels={("find_cities", 0): 1, ("weather", 2): 1}), TOOLS, NOW)
    store.add(lessons("new", levels={("weather", 2): 1}), TOOLS, NOW)
    found = store.learnt(TOOLS, NOW).habits
    assert found["find_cities"] == {0: 5.0}
    assert found["weather"][2] > found["weather"][1] > 0, "what was done lately weighs more"
    assert ToolGraph(TOOLS, Learnt(habits=found)).layers(["log", "weather"]) == (("log",), ("weather",))
    assert store.learnt({"log": TOOLS["log"]}, NOW).habits == {}


def test_a_file_from_before_habits_goes_on_working(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    with closing(sqlite3.connect(store.path)) as file:
        assert not file.execute("SELECT COUNT(*) FROM edge WHERE kind = 'level'").fetchone()[0]
    assert store.learnt(TOOLS, NOW).habits == {}
    store.add(lessons("b", levels={("weather", 3): 2}), TOOLS, NOW)
    assert store.learnt(TOOLS, NOW).habits == {"weather": {3: 2.0}}
    rewritten(store.path, "UPDATE edge SET parameter = 'many' WHERE kind = 'level'")
    assert store.learnt(TOOLS, NOW).habits == {}, "a file that somebody edited"


def test_evidence_belongs_to_a_tool_and_not_to_a_toolset(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    one_more = TOOLS | tools(tool("news", "topic"))
    assert store.learnt(one_more, NOW) == store.learnt(TOOLS, NOW)
    assert list(store.learnt({"weather": TOOLS["weather"]}, NOW).calls) == ["weather"]
    by_id = {f"x/{name}": protocol for name, protocol in TOOLS.items()}
    assert ("x/find_cities", EDGE[1], "x/weather", "cityId") in store.learnt(by_id, NOW).feeds
    renamed = {"sky": TOOLS["weather"].model_copy(update={"name": "sky"})}
    assert list(store.learnt(renamed, NOW).calls) == ["sky"]
    elsewhere = {"weather": TOOLS["weather"].model_copy(update={"source": Source(kind="openapi", location="https://y.test", operation="weather")})}  # fmt: skip  # noqa: E501
    assert store.learnt(elsewhere, NOW) == NOTHING_LEARNT


def test_each_change_of_a_tools_schemas_halves_what_its_evidence_is_worth(store: GraphStore) -> None:
    store.add(lessons("a", times=8), TOOLS, NOW)
    worded = TOOLS["weather"].model_copy(update={"description": "Better words.", "name": "weather"})
    assert store.learnt(TOOLS | {"weather": worded}, NOW).calls["weather"].ok == 8
    second = TOOLS | tools(tool("weather", "cityId", "days", "unit"))
    assert store.learnt(second, NOW).calls["weather"].ok == 4
    assert store.learnt(second, NOW).feeds[EDGE].ok == 4
    store.add(lessons("b", times=2), second, NOW + 1)
    assert store.learnt(second, NOW + 1).calls["weather"].ok == 2 + 4
    third = TOOLS | tools(tool("weather", "place"))
    assert store.learnt(third, NOW + 1).calls["weather"].ok == 1 + 2
    assert not store.learnt(third, NOW + 1).feeds  # its parameter is gone
    assert store.learnt(TOOLS, NOW + 1).calls["weather"].ok == 8 + 1  # the first one is still in use elsewhere


def test_a_field_that_a_new_document_does_not_have_is_no_edge(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    other = {"type": "object", "properties": {"places": CITIES["properties"]["cities"]}}
    assert not store.learnt(TOOLS | tools(tool("find_cities", "name", returns=other)), NOW).feeds


def test_what_was_seen_lately_counts_more_than_all_before(store: GraphStore) -> None:
    other = ("alerts", ("id",), "weather", "cityId")
    store.add(lessons("a", times=30), TOOLS, NOW)
    later = NOW + 10 * DAY
    assert store.learnt(TOOLS, later).feeds[EDGE].ok == 30
    store.add(lessons("b", times=2, feeds={other: 2}), TOOLS, later)
    found = store.learnt(TOOLS, later)
    assert found.calls["weather"] == Counts(32.0, 0.0, later)
    assert found.feeds[EDGE].ok == pytest.approx(32 * LONG_TERM)
    assert found.feeds[other].ok == pytest.approx(32 * (1 - LONG_TERM))
    store.add(Lessons("c", failed=((1, "weather"), (2, "weather"))), TOOLS, later)
    failing = store.learnt(TOOLS, later).calls["weather"]
    assert [failing.ok, failing.failed] == pytest.approx([34 * (1 + LONG_TERM) / 2, 34 * (1 - LONG_TERM) / 2])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5), st.booleans()), min_size=1, max_size=12))
def test_the_weight_of_an_edge_is_that_of_equation_12(tmp_path_factory: Any, runs: list[tuple[int, int, bool]]) -> None:
    store = GraphStore(tmp_path_factory.mktemp("graph") / "learnt.db")
    for number, (day, times, fed) in enumerate(sorted(runs)):
        more: dict[str, Any] = {} if fed else {"feeds": {}}
        store.add(lessons(f"run{number}", times=times, **more), TOOLS, NOW + day * DAY)
    today = max(day for day, _, _ in runs)
    found = store.learnt(TOOLS, NOW + today * DAY)
    store.close()
    recent = [(times, fed) for day, times, fed in runs if day > today - 7]
    before = [(times, fed) for day, times, fed in runs if day <= today - 7]
    shares = [sum(t for t, fed in part if fed) / sum(t for t, _ in part) for part in (before, recent) if part]
    weight = found.feeds[EDGE].ok / found.calls["weather"].ok if EDGE in found.feeds else 0.0
    assert weight == pytest.approx(
        shares[0] if len(shares) == 1 else LONG_TERM * shares[0] + (1 - LONG_TERM) * shares[1]
    )
    assert found.calls["weather"].ok == sum(times for _, times, _ in runs)


def test_the_weights_of_ageing() -> None:
    assert weight_now(0, 0, 0, 0) == 0
    assert weight_now(1, 2, 0, 0) == weight_now(0, 0, 1, 2) == weight_now(1, 2, 1, 2) == 0.5
    assert weight_now(1, 1, 0, 3) == LONG_TERM
    failing, rare, good = score_after(9, 10, 0), score_after(0, 1, 0), score_after(0, 10, 0)
    assert good < rare
    assert good < failing
    assert score_after(0, 10, 400) > rare
    assert score_after(0, 0, 1e9) <= 1


def test_substitutes_shapes_corrections_and_predictions(store: GraphStore) -> None:
    outline = outline_of([{"temp": 3, "sky": "clear"}])
    store.add(lessons("a", replaced={("alerts", "weather"): True}, shapes={"weather": outline}), TOOLS, NOW)
    store.add(lessons("b", replaced={("alerts", "weather"): False}, shapes={"weather": outline}), TOOLS, NOW)
    found = store.learnt(TOOLS, NOW)
    assert found.replaced == {("alerts", "weather"): Counts(1.0, 1.0, NOW)}
    shape = found.shapes["weather"]
    assert shape["properties"]["temp"] == {"x-atc-observed": "integer", "x-atc-evidence": {"seen": 2, "of": 2}}
    with_shape = TOOLS | {"weather": TOOLS["weather"].model_copy(update={"returns": shape})}
    assert store.learnt(with_shape, NOW) == found  # to show what was observed changes no identity

    store.correct_feed(TOOLS, EDGE, False)
    store.correct_feed(TOOLS, EDGE, True)
    store.correct_substitute(TOOLS, "alerts", "log", False)
    store.correct_same(TOOLS, ("weather", "days"), ("weather", "cityId"), True)
    store.correct_same(TOOLS, ("weather", "cityId"), ("weather", "days"), False)  # the same pair
    store.predict(TOOLS, {EDGE: 0.7, ("log", ("id",), "weather", "days"): 2.0, ("gone", (), "weather", "days"): 0.5})
    found = store.learnt(TOOLS, NOW)
    assert found.corrected_feeds == {EDGE: True}
    assert found.corrected_substitutes == {("alerts", "log"): False}
    pair = Place("weather", ("cityId",), True), Place("weather", ("days",), True)
    assert found.corrected_same == {pair: False}
    assert found.predicted == {EDGE: 0.7}
    store.predict(TOOLS, {})
    store.correct_feed(TOOLS, EDGE, None)
    assert not store.learnt(TOOLS, NOW).predicted
    assert not store.learnt(TOOLS, NOW).corrected_feeds
    changed = TOOLS | tools(tool("alerts", "cities"))
    assert store.learnt(changed, NOW).corrected_substitutes  # what the user says outlives a schema


@pytest.mark.parametrize(
    ("correct", "message"),
    [
        (lambda s: s.correct_feed(TOOLS, ("log", (), "weather", "city"), True), "'city': take one of cityId, days"),
        (lambda s: s.correct_feed(TOOLS, ("find", (), "weather", "cityId"), True), "no tool 'find'"),
        (lambda s: s.correct_same(TOOLS, ("weather", "days"), ("weather", "town"), True), "no parameter 'town'"),
        (lambda s: s.correct_same(TOOLS, ("weather", "days"), ("weather", "days"), True), "the same as itself"),
        (lambda s: s.correct_substitute(TOOLS, "log", "log", True), "cannot take its own place"),
    ],
)  # fmt: skip
def test_wrong_corrections_are_named(store: GraphStore, correct: Callable[[GraphStore], None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        correct(store)


def test_forgetting_some_tools_and_everything(store: GraphStore) -> None:
    store.add(lessons("a", shapes={"weather": outline_of([{"temp": 1}])}), TOOLS, NOW)
    store.correct_substitute(TOOLS, "alerts", "log", True)
    assert store.forget({"weather": TOOLS["weather"]}) == 4  # its calls, two edges and its shape
    found = store.learnt(TOOLS, NOW)
    assert list(found.calls) == ["find_cities"]
    assert found.corrected_substitutes
    assert store.forget() == 2
    assert store.learnt(TOOLS, NOW) == NOTHING_LEARNT
    for file in store.path.parent.iterdir():
        assert b"find_cities" not in file.read_bytes()
    store.add(lessons("a"), TOOLS, NOW)
    assert store.learnt(TOOLS, NOW).calls
    assert GraphStore(store.path.with_name("none.db")).forget() == 0


# -- the file --------------------------------------------------------------------------------------------------------


def test_only_its_owner_can_read_the_file(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in store.path.parent.iterdir()} == {0o600}
    assert len(list(store.path.parent.iterdir())) == 3  # WAL


def rewritten(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"This is no database. " * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(path.read_bytes()[:100] + os.urandom(len(path.read_bytes()) - 100)),
        lambda path: rewritten(path, "PRAGMA user_version=999"),
        lambda path: rewritten(path, "PRAGMA application_id=1"),
        lambda path: rewritten(path, "DROP TABLE uses"),
    ],
    ids=["text", "cut short", "random", "newer", "another program's", "no table"],
)
def test_a_damaged_or_foreign_file_is_set_aside_and_begun_anew(
    store: GraphStore, damage: Callable[[Path], None]
) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    store.close()
    damage(store.path)
    store.learnt(TOOLS, NOW)
    store.add(lessons("b"), TOOLS, NOW)
    assert store.learnt(TOOLS, NOW).calls["weather"].ok == 1
    assert "is kept as learnt.db.set-aside-" in store.notice
    assert len(list(store.path.parent.glob("*.set-aside-*[0-9]"))) == 1


def test_of_files_that_were_set_aside_the_last_ones_are_kept(store: GraphStore) -> None:
    for _ in range(database.KEPT_ASIDE + 2):
        store.path.parent.mkdir(parents=True, exist_ok=True)
        store.close()
        store.path.write_bytes(b"no database" * 100)
        store.add(lessons("a"), TOOLS, NOW)
    assert len(list(store.path.parent.glob("*.set-aside-*"))) == database.KEPT_ASIDE


def test_a_file_that_another_process_replaced_is_opened_anew(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    for file in [*store.path.parent.iterdir()]:
        file.unlink()
    store.add(lessons("b"), TOOLS, NOW)
    assert GraphStore(store.path).learnt(TOOLS, NOW).calls["weather"].ok == 1


def test_a_store_that_cannot_be_written_is_a_notice(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(lessons("a"), TOOLS, NOW)

    def full(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("atc.catalogue.graph.learning.prune_shapes", full)
        store.add(lessons("b", shapes={"weather": outline_of([{"temp": 1}])}), TOOLS, NOW)
    assert "disk is full" in store.notice
    assert store.learnt(TOOLS, NOW).calls["weather"].ok == 1  # the transaction did nothing
    assert not store.notice


def test_a_folder_that_cannot_be_made_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = GraphStore(tmp_path / "file" / "learnt.db")
    store.add(lessons("a"), TOOLS, NOW)
    assert "cannot be kept" in store.notice
    assert store.learnt(TOOLS, NOW) == NOTHING_LEARNT
    with pytest.raises(EnvironmentProblem, match="cannot be kept"):
        store.correct_feed(TOOLS, EDGE, True)


def test_a_locked_file_is_a_notice(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    late = GraphStore(store.path)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        late.add(lessons("b"), TOOLS, NOW)
        assert "locked" in late.notice
        assert late.learnt(TOOLS, NOW).calls["weather"].ok == 1  # who only reads waits for nobody
        other.execute("ROLLBACK")
    late.add(lessons("b"), TOOLS, NOW)
    assert not late.notice
    late.close()


# -- several at once -------------------------------------------------------------------------------------------------


def learn(path: Path, names: list[str]) -> None:
    store = GraphStore(path)
    for name in names:
        store.add(lessons(name), TOOLS, NOW)
    store.close()


def test_processes_that_write_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "graph" / "learnt.db"
    context = multiprocessing.get_context("fork")
    shared = [f"both{n}" for n in range(10)]
    each = [[f"{name}{n}" for n in range(10)] + shared for name in "ab"]
    processes = [context.Process(target=learn, args=(path, names)) for names in each]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert GraphStore(path).learnt(TOOLS, NOW).calls["weather"].ok == 30


def test_a_store_may_be_used_after_a_fork_and_by_threads(store: GraphStore) -> None:
    store.add(lessons("a"), TOOLS, NOW)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=store.add, args=(lessons("b"), TOOLS, NOW))
    child.start()
    child.join()
    threads = [threading.Thread(target=store.add, args=(lessons(f"t{n}"), TOOLS, NOW)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.learnt(TOOLS, NOW).calls["weather"].ok == 6


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_of_too_many_edges_the_worst_go(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(lessons("often", times=50), TOOLS, NOW)
    many = {("find_cities", (f"field_{n}",), "weather", "cityId"): 1 for n in range(learning.MAX_INTO + 10)}
    known = TOOLS | tools(tool("find_cities", "name"))
    store.add(lessons("many", feeds=many), known, NOW)
    store.add(lessons("often", times=50), known, NOW)
    kept = store.learnt(known, NOW).feeds
    assert len(kept) <= learning.MAX_INTO
    monkeypatch.setattr(learning, "MAX_EDGES", 20)
    store.add(lessons("last", feeds={("log", ("x",), "weather", "days"): 30}), known, NOW + DAY)
    found = store.learnt(known, NOW + DAY)
    assert len(found.feeds) + len(found.calls) + len(found.follows) <= 20
    assert ("log", ("x",), "weather", "days") in found.feeds
    assert "weather" in found.calls


def test_names_of_runs_shapes_and_versions_are_bounded(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.catalogue.graph.learning.MAX_RUNS", 3)
    monkeypatch.setattr(learning, "MAX_SHAPES", 2)
    for number in range(8):
        known = TOOLS | tools(tool("weather", "cityId", f"p{number}"))
        store.add(lessons(f"r{number}", shapes={"weather": outline_of([{"temp": 1}])}), known, NOW + number)
    with closing(sqlite3.connect(store.path)) as file:
        counts = {t: file.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("run", "shape")}
        versions = file.execute("SELECT COUNT(*) FROM tool WHERE name = 'weather'").fetchone()[0]
        orphans = file.execute("SELECT COUNT(*) FROM edge WHERE b NOT IN (SELECT id FROM tool)").fetchone()[0]
    assert counts["run"] == 3
    assert counts["shape"] <= 2
    assert versions == learning.MAX_VERSIONS
    assert orphans == 0


# -- privacy ---------------------------------------------------------------------------------------------------------


@given(
    st.text("qxzjvkw", min_size=8, max_size=16),
    st.integers(10**10, 10**12).filter(lambda n: len(set(n.to_bytes(5, "big")) - {0}) == 5),  # not by chance
)
def test_no_value_of_a_run_is_in_the_file(tmp_path_factory: Any, secret: str, number: int) -> None:
    folder = tmp_path_factory.mktemp("graph")
    store = GraphStore(folder / "learnt.db")
    known = tools(tool("people", "team", service=f"https://{secret}.test/"), tool("pay", "account", "note"))
    program = (
        f"found = people(team={secret!r})\n"
        f"one = found[{secret!r}]['account']\n"
        f"answer = pay(account=found['items'][0]['account'], note=one), {secret!r}\n"
    )
    value = {secret: {"account": secret}, "items": [{"account": number, secret: number}], "total": number}
    run = Run(program, run_id=f"run-{secret}")
    run.call("people", 1, value, arguments={"team": secret})
    run.call("pay", 3, {secret: [secret], "ok": secret}, arguments={"account": number, "note": secret})
    run.call("people", 3, None, "failed", error=secret, error_status=secret, arguments={"team": secret})
    found = lessons_of(run.result(), known)
    assert found.feeds == {("people", ("items", "[]", "account"), "pay", "account"): 1}
    store.add(found, known, NOW)
    store.close()
    content = b"".join(file.read_bytes() for file in folder.iterdir())
    for planted in (secret, str(number), number.to_bytes(5, "big")):
        assert (planted.encode() if isinstance(planted, str) else planted) not in content
    assert b"account" in content


def test_digests_tell_schemas_apart_and_not_their_words() -> None:
    first = tool("t", "description", returns=CITIES)
    worded = first.model_copy(update={"returns": CITIES | {"description": "Cities.", "x-atc-evidence": {"seen": 3}}})
    assert identity_of(first) == identity_of(worded)
    assert identity_of(first) != identity_of(tool("t", returns=CITIES))  # a parameter of that name is no word
    assert identity_of(first).service != identity_of(tool("t", service="https://y.test")).service


def test_whatever_part_of_the_file_is_damaged_it_is_begun_anew_in_the_end(tmp_path: Path) -> None:
    """A bit, a page, a tail; also a text that is none any more, and an index that does not fit its table."""
    whole = GraphStore(tmp_path / "whole.db")
    outline = outline_of([{"id": 1, "name": "x", "items": [1]}])
    for number in range(20):
        whole.add(lessons(f"r{number}", shapes={"log": outline}), TOOLS, NOW + number * DAY)
    whole.correct_substitute(TOOLS, "log", "alerts", False)
    whole._file.compact()
    whole.close()
    good = (tmp_path / "whole.db").read_bytes()
    chance = random.Random(4)
    for number in range(60):
        data, at = bytearray(good), number * len(good) // 60
        page = at // 4096 * 4096
        match number % 4:
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at : at + 40] = chance.randbytes(40)
            case 2:
                data[page : page + 4096] = chance.randbytes(4096)
            case _:
                del data[at:]
        file = tmp_path / f"{number}.db"
        file.write_bytes(data)
        store = GraphStore(file)
        store.learnt(TOOLS, NOW)
        store.add(lessons("new"), TOOLS, NOW)
        store.learnt(TOOLS, NOW)
        assert not store.notice or "learning begins anew" in store.notice, store.notice
        store.close()


def test_a_file_that_stays_locked_is_waited_for_once(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    store.add(lessons("first"), TOOLS, NOW)
    waits: list[float] = []
    patience = database.Database._patience

    def noted(self: database.Database) -> float:
        waits.append(patience(self))
        return waits[-1]

    monkeypatch.setattr(database.Database, "_patience", noted)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(4):
            store.add(lessons(f"r{number}"), TOOLS, NOW)
            assert "locked" in store.notice
            assert store.learnt(TOOLS, NOW).calls
        assert [each for each in waits if each] == [0.05] * 2  # it was set, and used up
    store.add(lessons("last"), TOOLS, NOW)
    assert not store.notice
    assert store._file._patience() == 0.05


def test_a_pipe_in_place_of_a_file_holds_nobody_up(store: GraphStore) -> None:
    store.path.parent.mkdir(parents=True)
    os.mkfifo(store.path)
    store.add(lessons("a"), TOOLS, NOW)
    assert "cannot be kept" in store.notice
    store.path.unlink()
    store.path.write_bytes(b"no database" * 1_000)
    os.mkfifo(f"{store.path}.lock")
    store.add(lessons("a"), TOOLS, NOW)
    assert store.notice


# -- key aliases -------------------------------------------------------------------------------------------------------


def test_keys_that_were_respelt_are_kept_by_tool_and_the_oftenest_meaning_counts(store: GraphStore) -> None:
    for name, meant in (("a", "days"), ("b", "cityId"), ("c", "cityId")):
        store.add(lessons(name, respelt={("weather", "place"): meant}), TOOLS, NOW)
        found = store.learnt(TOOLS, NOW).key_aliases
        assert found == ({} if name == "b" else {"weather": {"place": meant}}), "of two that are as frequent, none"
    assert store.learnt({"alerts": TOOLS["alerts"]}, NOW).key_aliases == {}
    changed = TOOLS | tools(tool("weather", "place", "days"))
    assert store.learnt(changed, NOW).key_aliases == {}, "it has a parameter of that name now"
    assert store.learnt(TOOLS | tools(tool("weather", "days")), NOW).key_aliases == {}, "it oftenest meant what is gone"
    assert store.forget({"weather": TOOLS["weather"]})
    assert store.learnt(TOOLS, NOW).key_aliases == {}


def test_key_aliases_of_one_tool_are_bounded(store: GraphStore) -> None:
    many = {("weather", f"key_{n}"): "cityId" for n in range(3 * learning.MAX_INTO)}
    store.add(lessons("a", respelt=many), TOOLS, NOW)
    assert len(store.learnt(TOOLS, NOW).key_aliases["weather"]) <= learning.MAX_INTO

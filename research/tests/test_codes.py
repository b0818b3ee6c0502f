"""Trained codes: no two the same, the same by seed, gone on with after an interruption, kept only where better."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.vectors import Floats
from atc.cli import app
from atc.schemas.protocol import Protocol
from atc_research.extras import TRAIN
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.code_measures import CodeFigures, better, held_out, measured
from atc_research.toolweaver.tokenizer import coded, tokenize
from atc_research.toolweaver.tool_codes import carried, into_space, read_codes
from atc_research.toolweaver.transport import prices

CLI = CliRunner()


def vectors(count: int, seed: int = 0) -> Floats:
    made = np.random.default_rng(seed).standard_normal((count, 12)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def sets(count: int, seed: int = 0) -> list[list[str]]:
    """Each tool with its neighbours of the same ten."""
    random = np.random.default_rng(seed)
    return [
        [f"tool_{row // 10 * 10 + each:03}" for each in random.choice(10, 3, replace=False)] for row in range(count)
    ]


def used(count: int, seed: int = 0) -> CoUsage:
    rows = {f"tool_{row:03}": row for row in range(count)}
    return CoUsage.of([(ids, 1.0) for ids in sets(count, seed)], rows, count)


def test_vectors_stay_where_there_is_no_encoder() -> None:
    codes = tokenize(vectors(9), None)
    assert np.array_equal(into_space(codes, vectors(3, 1)), vectors(3, 1))


def test_given_codebooks_say_what_made_them() -> None:
    some = vectors(60)
    codes = tokenize(some, None)
    assert np.array_equal(coded(some, codes.books), codes.values)
    assert coded(some[:0], codes.books).shape == (0, 2)
    same = np.repeat(some[:1], len(codes.books[0]) ** 2, axis=0)
    assert len(np.unique(coded(same, codes.books), axis=0)) == len(same), "as many equal tools as there are codes"


def test_what_first_codes_say_is_measured() -> None:
    given = np.array([[1, 0], [1, 0], [-1, 0], [-1, 0]], np.float32)
    values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int16)
    found = measured(values, given, np.array([[0, 1], [1, 2]], np.int32))
    assert found.together.tolist() == [True, False]
    assert (found.shared, found.chance, found.explained) == (0.5, 0.5, 1.0)
    one = measured(values[:1], np.zeros((1, 2), np.float32), np.zeros((0, 2), np.int32))
    assert (one.shared, one.explained) == (0.0, 1.0), "equal vectors leave nothing to explain"


def figures(shared: int, chance: float = 0.1, explained: float = 0.5) -> CodeFigures:
    return CodeFigures(np.arange(100) < shared, chance, explained)


def test_better_is_more_than_chance_and_says_no_less() -> None:
    assert better(figures(60), figures(40))
    assert not better(figures(43), figures(40)), "three pairs are chance"
    assert not better(figures(60, explained=0.4), figures(40)), "first codes say less of the tools"
    assert not better(figures(60, chance=0.5), figures(40)), "one code for all has all pairs"
    assert not better(figures(40), figures(40))


def test_the_pairs_that_are_held_out_do_not_depend_on_rows() -> None:
    ids = [f"tool {row}" for row in range(60)]
    usage = used(60)
    left, out = held_out(usage, ids)
    assert len(left.pairs) + len(out) == len(usage.pairs)
    assert 0.1 < len(out) / len(usage.pairs) < 0.3
    moved = usage.moved(np.arange(60)[::-1].copy())
    _, out_moved = held_out(moved, ids[::-1])
    assert {frozenset(pair) for pair in out.tolist()} == {frozenset((59 - u, 59 - v)) for u, v in out_moved.tolist()}


class Own:
    """An encoder that gives each number of texts its vectors."""

    name, digest, dimensions = "own", "1" * 64, 12

    def check(self) -> None:
        pass

    def encode(self, texts: Sequence[str]) -> Floats:
        return vectors(len(texts))


def index(folder: Path, count: int) -> None:
    tools = [Protocol(name=f"tool_{row:03}", description=f"does {row}") for row in range(count)]
    made = ToolIndex.build(tools, Own())
    made.save(folder)


def test_without_torch_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("codes", "code_training", "code_network"):
        monkeypatch.delitem(sys.modules, f"atc_research.toolweaver.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    found = CLI.invoke(app, ["tools", "learn", "codes", "--index", str(tmp_path)])
    assert found.exit_code == 3
    assert TRAIN in found.stderr


# With torch


@pytest.mark.slow
def test_training_gives_the_same_by_seed_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from atc_research.toolweaver.code_training import Options, train
    from atc_research.toolweaver.codes import trained

    some, usage = vectors(40), used(40)
    o = Options(inner=(16,), size=8, batch=16, epochs=6, warm_up=2)
    one, again = (trained(some, usage, options=o, seed=3) for _ in range(2))
    assert np.array_equal(one.values, again.values)
    assert len(np.unique(one.values, axis=0)) == 40
    assert one.facts.method == "trained"

    class Stopped(Exception):
        pass

    def stop(done: int, total: int, loss: float) -> None:
        if done == 4:
            raise Stopped

    kept = tmp_path / "kept" / "training.pt"
    books = tuple(map(len, one.books))
    with pytest.raises(Stopped):
        train(some, usage, books, o, 3, kept=kept, told=stop)
    seen: list[int] = []
    network = train(some, usage, books, o, 3, kept=kept, told=lambda done, total, loss: seen.append(done))
    assert seen == [5, 6]
    for level, book in enumerate(one.books):
        assert np.array_equal(network.books[level].detach().numpy(), book), "as if nothing had happened"
    seen.clear()
    train(some, usage, books, o, 4, kept=kept, told=lambda done, total, loss: seen.append(done))
    assert seen == [1, 2, 3, 4, 5, 6], "another training begins anew"
    kept.write_bytes(b"damaged")
    train(some, usage, books, o, 3, kept=kept)

    with torch.no_grad():
        z = network.encoded(torch.from_numpy(some)).numpy()
    assert np.allclose(into_space(one, some), z, atol=1e-5), "NumPy computes what torch does"


@pytest.mark.slow
def test_odd_catalogues_are_given_codes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from atc_research.toolweaver.code_training import Options
    from atc_research.toolweaver.codes import trained

    o = Options(inner=(16,), size=8, batch=16, epochs=3, warm_up=1)
    poisoned = used(20)
    poisoned = CoUsage(poisoned.pairs, poisoned.counts * np.float32(np.nan), poisoned.totals)
    for some, usage in (
        (vectors(1), None),
        (np.repeat(vectors(1), 2, axis=0), None),
        (np.zeros((7, 12), np.float32), None),
        (vectors(20), poisoned),
        (vectors(20), CoUsage.of([([str(n) for n in range(20)], 1e15)], {str(n): n for n in range(20)}, 20)),
        (vectors(0), None),
    ):
        codes = trained(some, usage, options=o)
        assert len(np.unique(codes.values, axis=0)) == len(some)
        assert all(np.isfinite(array).all() for array in (*codes.books, *codes.arrays.values()))


@pytest.mark.slow
def test_sinkhorn_spreads_rows_evenly() -> None:
    torch = pytest.importorskip("torch")
    from atc_research.toolweaver.code_network import evenly

    random = torch.Generator().manual_seed(0)
    distances = torch.rand(400, 20, generator=random) + torch.linspace(0, 3, 20)
    counts = torch.bincount(evenly(distances, 50, 0.01), minlength=20)
    assert int(torch.bincount(distances.argmin(1), minlength=20).max()) > 100
    assert 10 <= int(counts.min()) <= int(counts.max()) <= 30
    given = distances.numpy()
    cost = (2 * (given - given.min()) / (given.max() - given.min()) - 1).astype(np.float32)
    as_in_numpy = (cost - prices(cost, 0.01, 50)).argmin(axis=1)
    assert (evenly(distances, 50, 0.01).numpy() == as_in_numpy).mean() > 0.95
    equal = evenly(torch.zeros(4, 2), 50, 0.01)
    assert len(equal) == 4, "equal distances are no problem"


@pytest.mark.slow
def test_the_command_keeps_trained_codes_only_where_they_are_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from atc_research.toolweaver import codes as learning

    index(tmp_path / "a", 200)
    together = tmp_path / "used.jsonl"
    together.write_text("".join(json.dumps({"tools": each, "count": 1}) + "\n" for each in sets(200)))
    before = (tmp_path / "a" / "index.npz").read_bytes()
    arguments = ["tools", "learn", "codes", "--index", str(tmp_path / "a"), "--epochs", "3", "--json"]
    arguments += ["--used-together", str(together)]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(learning, "coded", interrupted)
        assert CLI.invoke(app, arguments).exit_code == 130
    assert (tmp_path / "a" / "index.npz").read_bytes() == before
    assert (tmp_path / "a" / learning.FOLDER).is_dir()

    for answer in (False, True):
        monkeypatch.setattr(learning, "better", lambda new, old, answer=answer: answer)
        found = CLI.invoke(app, arguments)
        assert found.exit_code == 0, found.stderr
        assert json.loads(found.stdout)["kept"] is answer
        codes = read_codes(tmp_path / "a", ToolIndex.load(tmp_path / "a").snapshot, Own.digest)
        assert (codes is not None) is answer
        assert not (tmp_path / "a" / learning.FOLDER).exists()
    assert codes is not None
    assert codes.facts.method == "trained"
    later = carried(codes, np.append(np.arange(200), -1), vectors(1, 9))
    assert later is not None
    assert len(later.values) == 201, "a tool that comes later is encoded without torch"
    assert len(later.books[0][0]) == 64

    found = CLI.invoke(app, [*arguments, "--layers", "many"])
    assert found.exit_code == 2
    assert "--layers takes" in found.stderr

    index(tmp_path / "b", 30)
    found = CLI.invoke(app, ["tools", "learn", "codes", "--index", str(tmp_path / "b"), "--json"])
    assert found.exit_code == 1
    assert "used together" in json.loads(found.stdout)["why"]

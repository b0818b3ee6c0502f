"""``atc tools learn``: what queries and their tools teach, and what is not kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.learn.adapter import Asked, fit, learn_adapter
from atc.catalogue.learn.examples import MAX_A_TOOL, MAX_GOLD, Pair, TooLittle, usable
from atc.catalogue.learn.keeping import MIN_HELD_OUT
from atc.errors import EncoderUnavailable, UsageError
from tests.support.cli import atc
from tests.support.ranking import DOCUMENTED, SPOKEN, SmallEncoder, index, pairs, ran, tools


def right(searched: ToolIndex) -> int:
    """How many of the users' words find their tool first."""
    found = [[hit.id for hit in searched.search(word, 1)] for word in SPOKEN]
    return sum(ids == [f"do_{word}"] for ids, word in zip(found, DOCUMENTED, strict=True))


def test_what_users_say_is_learnt() -> None:
    told: list[str] = []
    plain = index()
    found = learn_adapter(plain, pairs(), progress=lambda stage, done, total: told.append(stage))
    assert found.kept
    assert found.adapter is not None
    assert found.held_out.after > found.held_out.before + 0.05
    assert found.unseen.after > found.unseen.before - 0.005
    assert (found.pairs, found.tools) == (120, 10)
    assert found.held_out.queries >= MIN_HELD_OUT
    assert right(plain.with_scorers([found.adapter])) > right(plain) + 3
    assert {"embedding", "comparing", "training"} <= set(told)
    again = learn_adapter(index(), list(reversed(pairs())))
    assert again.adapter is not None
    assert np.array_equal(again.adapter.matrix, found.adapter.matrix)  # in any order, in any process


def test_tools_at_random_teach_nothing() -> None:
    rng = np.random.default_rng(0)
    drawn = [Pair(each.query, (f"do_{DOCUMENTED[rng.integers(10)]}",)) for each in pairs()]
    found = learn_adapter(index(), drawn)
    assert not found.kept


def test_one_tool_with_everything_teaches_nothing() -> None:
    """What poisoned runs could say: whatever is asked, one tool answers; the words of the others are their own."""
    own = [Pair(f"the {word} of person {number}", (f"do_{word}",)) for word in DOCUMENTED for number in range(2)]
    poison = [Pair(f"{each.query} please", ("do_movie",)) for each in pairs(30)]
    poison += [Pair(f"{word} and number {number}", ("do_movie",)) for word in DOCUMENTED for number in range(20)]
    found = learn_adapter(index(), [*own, *poison])
    assert not found.kept


def test_too_little_is_said_with_what_it_takes() -> None:
    with pytest.raises(TooLittle, match=r"3 different queries .* \(it takes 20\), for 1 different tools \(5\)"):
        learn_adapter(index(), pairs()[:3])
    with pytest.raises(TooLittle, match="for 1 different tools"):
        learn_adapter(index(), [Pair(f"word {n}", ("do_movie", "gone")) for n in range(50)])
    with pytest.raises(TooLittle, match="queries can be held out"):
        learn_adapter(index(), pairs(2))
    with pytest.raises(TooLittle, match="0 different queries"):
        learn_adapter(index(), [])


def test_an_index_without_vectors_or_with_too_wide_ones_is_refused() -> None:
    with pytest.raises(EncoderUnavailable, match="has none"):
        learn_adapter(ToolIndex.build(tools()), pairs())

    class Wide(SmallEncoder):
        dimensions = 4_096

    with pytest.raises(UsageError, match="4,096 components"):
        learn_adapter(index(Wide()), pairs())


def test_pairs_are_cleaned() -> None:
    ids = {f"tool{n}" for n in range(60)}
    kept = usable(
        [
            Pair("  One  query ", ("tool1", "gone", "tool1")),
            Pair("one query", ("tool1",)),
            Pair("one query", ("tool2",)),
            Pair("   ", ("tool1",)),
            Pair("nothing known", ("gone",)),
            Pair("everything", tuple(sorted(ids))),
            Pair("half a pair \ud800", ("tool3",)),
            *(Pair(f"query {n}", ("tool9",)) for n in range(MAX_A_TOOL + 100)),
        ],
        ids,
    )
    assert len(ids) > MAX_GOLD
    assert sum(pair.gold == ("tool9",) for pair in kept) == MAX_A_TOOL
    rest = {(pair.query.casefold(), pair.gold) for pair in kept if pair.gold != ("tool9",)}
    assert rest == {("one  query", ("tool1",)), ("one query", ("tool2",)), ("half a pair \ud800", ("tool3",))}
    assert Pair("One  query", ()).part == Pair("one query ", ()).part


def test_equal_tools_and_tools_without_a_direction_are_no_error() -> None:
    tools_of = np.zeros((4, 8), np.float32)
    tools_of[:2, 0] = 1  # two the same, two without a vector
    queries = np.eye(8, dtype=np.float32)[[0, 1, 2, 3]]
    queries[3] = 0
    asked = Asked(queries, [np.array([0]), np.array([1]), np.array([2]), np.array([1, 3])])
    found = fit(asked, tools_of, held_out=asked)
    assert np.isfinite(found.matrix).all()
    nothing = fit(asked, tools_of, held_out=asked.only(np.array([], np.int64)), rounds=1)
    assert nothing.rounds == 1


def test_a_fit_of_many_tools_compares_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.catalogue.learn import adapter

    monkeypatch.setattr(adapter, "MAX_BESIDE", 3)
    rng = np.random.default_rng(0)
    near = rng.normal(size=(40, 8)).astype(np.float32)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    turned = near[:, ::-1].copy()  # what is asked is the mirror of what is there
    asked = Asked(np.concatenate([turned, turned]), [np.array([row % 40]) for row in range(80)])
    found = fit(asked, near, held_out=asked, rounds=20)
    after = asked.vectors + asked.vectors @ found.matrix
    right = (after @ near.T)[np.arange(80), np.arange(80) % 40].mean()
    assert right > (asked.vectors @ near.T)[np.arange(80), np.arange(80) % 40].mean()


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, an encoder that every command has, the tools in ``tools.py``, and pairs in a file."""
    from atc.catalogue.index import index_store
    from atc.cli import learn

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATC_CATALOGUE", str(tmp_path / "catalogue"))
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setattr(learn, "MiniLM", SmallEncoder)
    monkeypatch.setattr(index_store.Coded, "own", lambda coded: SmallEncoder())
    index().save("index")
    functions = (
        f'def do_{w}(name: str) -> str:\n    """Handles the {w} of a person."""\n    return name\n' for w in DOCUMENTED
    )
    Path("tools.py").write_text("\n".join(functions))
    lines = (json.dumps({"query": pair.query, "gold": pair.gold}) for pair in pairs())
    Path("pairs.jsonl").write_text("\n".join(lines))
    return tmp_path / "catalogue"


def printed(*arguments: str, code: int = 0) -> Any:
    ran = atc("tools", "learn", *arguments, "--json")
    assert ran.exit_code == code, ran.output
    return json.loads(ran.stdout)


def test_the_command_learns_from_a_file_and_searches_use_it(catalogue: Path) -> None:
    def first() -> str:
        found = json.loads(atc("tools", "search", "umbrella quietly", "--index", "index", "--json").stdout)
        return str(found["tools"][0]["id"]) if found["tools"] else ""

    before = first()
    said = printed("--pairs", "pairs.jsonl", "--index", "index")
    assert said["kept"]
    assert said["held_out"]["after"] > said["held_out"]["before"]
    assert Path(said["file"]).parent == catalogue
    assert first() == "do_weather" != before
    ran = atc("tools", "learn", "--pairs", "pairs.jsonl", "--index", "index")
    assert "kept: searches of these tools use it" in ran.stdout
    assert "10 tools" in ran.stdout
    for own in (True, False):
        assert printed("--index", "index", "--rollback")["own"] is own
    assert first() == before
    assert "nothing to roll back" in printed("--index", "index", "--rollback", code=2)["error"]["message"]


def test_setting_learn_off_neither_learns_nor_uses(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = ("tools", "search", "umbrella quietly", "--index", "index", "--json")
    plain = json.loads(atc(*search).stdout)["tools"]
    monkeypatch.setenv("ATC_SCORERS", "words,vectors")
    assert "not used" in atc("tools", "learn", "--pairs", "pairs.jsonl", "--index", "index").stdout
    assert json.loads(atc(*search).stdout)["tools"] == plain
    monkeypatch.delenv("ATC_SCORERS")
    assert json.loads(atc(*search).stdout)["tools"] != plain
    monkeypatch.setenv("ATC_LEARN", "false")
    assert json.loads(atc(*search).stdout)["tools"] == plain
    assert "`learn` is off" in printed("--index", "index", code=2)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--index", "index", "--tools", "tools.py"), "not both"),
        (("--index", "index", "--pairs", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--index", "index", "--pairs", "tools.py"), "tools.py, line 1: no JSON"),
        (("--index", "index", "--rollback", "--pairs", "pairs.jsonl"), "leave --pairs out"),
        ((), "name them with --tools"),
    ],
)
def test_wrong_use_is_said(catalogue: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in printed(*arguments, code=2)["error"]["message"]


def test_too_little_ends_with_one(catalogue: Path) -> None:
    assert "0 different queries" in printed("--index", "index", code=1)["why"]
    Path("pairs.jsonl").write_text('{"query": "a", "gold": ["gone"]}')
    assert "0 different queries" in printed("--pairs", "pairs.jsonl", "--index", "index", code=1)["why"]


def test_the_users_own_runs_are_learnt_from(catalogue: Path) -> None:
    from atc.cli.learn import pairs_of_runs
    from atc.traces.stores.files import FileStore

    runs = catalogue.parent / "runs"
    for number, pair in enumerate(pairs()):
        ran(runs, number, pair.query, pair.gold[0])
    ran(runs, 900, "never answered", "do_movie", status="failed")
    (runs / "20260101-000901-abcdef").mkdir()
    (runs / "20260101-000901-abcdef" / "trace.jsonl").write_text("no JSON\n")
    found = list(pairs_of_runs(FileStore(runs)))
    assert {(pair.query, pair.gold) for pair in found} == {(pair.query, pair.gold) for pair in pairs()}
    said = printed()  # of the tools of the latest run
    assert said["kept"]
    assert said["pairs"] == 120
    text = Path(said["file"]).read_text()
    assert not any(word in text for word in ("umbrella", "grandmother", "do_"))  # no text of a task
    whole = atc("tools", "learn")
    assert whole.exit_code == 0, whole.output
    assert "120 different queries for 10 tools; nDCG" in whole.stdout
    assert atc("graph", "forget", "--all").exit_code == 0
    assert not list(catalogue.glob("ranking-*"))


def test_an_interrupted_training_leaves_what_was_there(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.cli import learn

    before = printed("--pairs", "pairs.jsonl", "--index", "index")["file"]
    content = Path(before).read_bytes()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learn, "learn_adapter", interrupted)
    assert printed("--pairs", "pairs.jsonl", "--index", "index", code=130)["error"]["kind"] == "Interrupted"
    assert Path(before).read_bytes() == content
    assert len(list(catalogue.glob("ranking-*"))) == 1

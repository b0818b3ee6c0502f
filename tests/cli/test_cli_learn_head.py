"""``atc learn ranking --codes``: learn a head for the codes of an index, see what it gave, take it out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from atc.cli import learn_head as command
from atc.learn.code_ranking import learn_head
from atc.retrieval import index_store
from atc.retrieval.index import ToolIndex
from tests.support.cli import atc
from tests.support.code_head import SLANG, Small, pairs, tools


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an index with codes; the command finds its encoder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(index_store.Coded, "own", lambda coded: Small())
    monkeypatch.setattr(command, "learn_head", partial(learn_head, units=8))
    index = ToolIndex.build(tools(), Small())
    index.make_codes()
    index.save("tools-index")
    lines = [json.dumps({"query": pair.query, "gold": list(pair.gold)}) for pair in pairs()]
    Path("pairs.jsonl").write_text("\n".join(lines))
    Path("few.jsonl").write_text("\n".join(lines[:8]))
    return tmp_path / "tools-index"


def says_codes(folder: Path) -> bool:
    """Whether a head has a part in a search of the index."""
    hits = ToolIndex.load(folder, Small()).search(f"{next(iter(SLANG))} please")
    return any("codes" in hit.parts for hit in hits)


def test_a_head_is_learnt_kept_and_taken_out(folder: Path) -> None:
    ran = atc("learn", "ranking", "--codes", "--index", "tools-index", "--pairs", "pairs.jsonl")
    assert ran.exit_code == 0, ran.output
    assert "for 22 tools; nDCG of the first ten" in ran.stdout
    assert "kept in the index" in ran.stdout
    assert says_codes(folder)
    assert "taken out" in atc("learn", "ranking", "--codes", "--index", "tools-index", "--rollback").stdout
    assert not says_codes(folder)
    again = atc("learn", "ranking", "--codes", "--index", "tools-index", "--rollback", "--json")
    assert (again.exit_code, "nothing to roll back" in json.loads(again.stdout)["error"]["message"]) == (2, True)


def test_json_says_what_came_of_it(folder: Path) -> None:
    found = json.loads(
        atc("learn", "ranking", "--codes", "--index", "tools-index", "--pairs", "pairs.jsonl", "--json").stdout
    )
    assert found["kept"] is True
    assert found["held_out"]["after"] > found["held_out"]["before"]


def test_too_little_keeps_nothing(folder: Path) -> None:
    ran = atc("learn", "ranking", "--codes", "--index", "tools-index", "--pairs", "few.jsonl")
    assert (ran.exit_code, says_codes(folder)) == (1, False)
    assert "too little to learn from: 8 different queries" in ran.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "--index"),
        (("--index", "tools-index", "--tools", "atlas"), "and no tools"),
        (("--index", "tools-index", "--rollback", "--pairs", "pairs.jsonl"), "leave --pairs out"),
    ],
)
def test_wrong_use_says_what_to_do(folder: Path, options: tuple[str, ...], why: str) -> None:
    ran = atc("learn", "ranking", "--codes", *options)
    assert ran.exit_code == 2
    assert why in ran.stderr


def test_an_index_without_codes_says_how_to_make_them(folder: Path) -> None:
    ToolIndex.build(tools(), Small()).save("plain")
    ran = atc("learn", "ranking", "--codes", "--index", "plain", "--pairs", "pairs.jsonl")
    assert ran.exit_code == 2
    assert "atc tools index --codes" in ran.stderr

"""Bare ``atc tools learn``: what the user's own runs teach the link model."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc_research.naviagent.link_fit import Examples, fit, none
from atc_research.naviagent.link_model import LinkModel, shipped
from atc_research.naviagent.links import MAX_TOOLS, OwnModel, TooLittle, Used, area, retrain

PAIRS = 24
"""Tools ``make_NAME`` and ``use_NAME``: the one gives what the other takes, and nothing in their words says so."""


def thing(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:03d}") + "or"


def tools() -> dict[str, Protocol]:
    made = {}
    for number in range(PAIRS):
        name = thing(number)
        giver = Protocol(
            name=f"make_{name}",
            description=f"Makes a {name}",
            parameters={"properties": {f"{name}_note": {"type": "string"}}},
            returns={"type": "object", "properties": {f"{name}_ticket": {"type": "string"}}},
        )
        taker = Protocol(
            name=f"find_{name}",
            description=f"Finds the {name}",
            parameters={"properties": {f"{name}_thing": {"type": "string"}}},
            returns={"type": "object", "properties": {f"{name}_paper": {"type": "string"}}},
        )
        made |= {each.name: each for each in (giver, taker)}
    return made


def runs(count: int = PAIRS) -> list[Used]:
    pairs = [(f"make_{thing(number)}", f"find_{thing(number)}") for number in range(count)]
    return [Used(f"run {number}", frozenset(pair), frozenset({pair})) for number, pair in enumerate(pairs)]


def test_what_runs_did_against_the_habit_is_learnt() -> None:
    """Here one makes before one finds: the model that ships expects the reverse."""
    found = retrain(runs(), tools(), shipped())
    assert found.kept
    assert found.good
    assert found.after["reversed"] > found.before["reversed"]
    assert found.runs + found.held_out == PAIRS
    again = retrain(runs(), tools(), found.model)
    assert again.before == found.after


def test_what_is_not_better_is_not_kept() -> None:
    turned = [
        each if each.held_out else Used(each.name, each.tools, frozenset((b, a) for a, b in each.feeds))
        for each in runs()
    ]
    found = retrain(turned, tools(), retrain(runs(), tools(), shipped()).model)
    assert not found.kept
    assert found.after["reversed"] <= found.before["reversed"]


def test_too_little_is_said_with_what_it_takes() -> None:
    with pytest.raises(TooLittle, match=r"3 runs passed a value .* \(it takes 10\)"):
        retrain(runs(3), tools(), shipped())
    gone = Used("r", frozenset({"gone"}), frozenset({("gone", "make_aaaor"), ("gone", "gone")}))
    with pytest.raises(TooLittle, match="0 runs"):
        retrain([gone] * 20, tools(), shipped())
    with pytest.raises(UsageError, match="too many"):
        retrain(runs(), dict.fromkeys(map(str, range(MAX_TOOLS + 1)), tools()["make_aaaor"]), shipped())


def test_a_fit_stays_near_its_start_where_little_was_seen() -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((40, none().shape[1])).astype(np.float32)
    few = Examples(rows[:2], rows[2:6], rows[6:8], np.array([0]))
    many = Examples(rows[:20], rows[20:], none(), np.arange(20))
    moved = [np.abs(fit([each], start=shipped()).related - shipped().related).sum() for each in (few, many)]
    assert 0 < moved[0] < moved[1]
    with pytest.raises(ValueError, match="no edges"):
        fit([Examples(none(), rows, rows)])


def test_the_area_counts_equal_scores_half() -> None:
    assert area(np.array([2.0, 3.0]), np.array([1.0])) == 1
    assert area(np.array([1.0]), np.array([1.0, 1.0])) == 0.5
    assert area(np.array([0.0, 2.0]), np.array([1.0])) == 0.5


def test_the_model_before_comes_back(tmp_path: Path) -> None:
    own = OwnModel(tmp_path / "graph")
    with pytest.raises(UsageError, match="nothing to roll back"):
        own.roll_back()
    assert own.read() is None
    for made in ("one", "two"):
        own.keep(LinkModel(shipped().related, shipped().direction, made=made))
    files = sorted((tmp_path / "graph").iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "graph").stat().st_mode) == 0o700
    assert [each.name for each in files] == ["links.before.json", "links.json"]
    back = own.roll_back()
    assert back is not None
    assert back.made == "one"
    assert own.roll_back() is None
    assert not list((tmp_path / "graph").iterdir())


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"version": 0}), "\x00" * 10])
def test_a_damaged_model_does_not_count_and_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "links.json").write_text(text)
    own = OwnModel(tmp_path)
    assert own.or_shipped() is shipped()
    assert "links.json does not count" in own.notice
    own.keep(shipped())
    assert own.read() is not None


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[Any, float]]:
    """The command with runs and a store that the test gives."""
    from atc.tools.tool import Tool, Toolset
    from atc_research.naviagent import learn_links

    predicted: list[dict[Any, float]] = []

    class Store:
        path, notice = tmp_path / "graph" / "learnt.db", ""

        def __init__(self, path: Path) -> None:
            pass

        def predict(self, tools: object, weights: dict[Any, float]) -> None:
            predicted.append(dict(weights))

        def close(self) -> None:
            pass

    toolset = Toolset(map(Tool, tools().values()))
    monkeypatch.setattr(learn_links, "store_in", Store)
    monkeypatch.setattr(learn_links, "_used", lambda *_: runs())
    monkeypatch.setattr(learn_links.options, "opened", lambda *_, **__: toolset)
    return predicted


def test_the_command_learns_rolls_back_and_says_so(memory: list[dict[Any, float]]) -> None:
    from tests.support.cli import atc

    ran = atc("tools", "learn", "links", "--tools", "any.json", "--json")
    assert ran.exit_code == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["kept"]
    assert said["predicted"] == len(memory[-1])
    assert "not better" in atc("tools", "learn", "links", "--tools", "any.json").stdout
    back = atc("tools", "learn", "links", "--tools", "any.json", "--rollback")
    assert "back to the model that ships" in back.stdout
    assert memory[-1] == {}
    assert atc("tools", "learn", "links", "--tools", "any.json", "--rollback").exit_code == 2


def test_atc_names_the_file_that_is_left_without_this_package() -> None:
    from atc.cli.learn import LINKS
    from atc_research.naviagent import links

    assert links._CURRENT == LINKS


def test_the_command_needs_tools_and_runs(
    memory: list[dict[Any, float]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from atc_research.naviagent import learn_links
    from tests.support.cli import atc

    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    ran = atc("tools", "learn", "links")
    assert ran.exit_code == 2
    assert "name them with --tools" in ran.stderr
    monkeypatch.setattr(learn_links, "_used", lambda *_: runs(2))
    few = atc("tools", "learn", "links", "--tools", "any.json", "--json")
    assert few.exit_code == 1
    assert "too little" in json.loads(few.stdout)["why"]

"""Many tools: every long stage says how far it is and can be ended, and there is a bound."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from atc import Toolset
from atc.catalogue.index import lexical, snapshot
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.snapshot import BLOCK, MOST
from atc.errors import UsageError
from atc.tools.tool import Tool
from tests.support.retrieval import HashedWords, built, files, many, protocol

STAGES = ["reading", "embedding", "writing"]


def test_every_stage_is_told_to_its_end(tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int]]] = {}
    ToolIndex.build(many(BLOCK + 4), HashedWords(), tmp_path, lambda stage, *of: told.setdefault(stage, []).append(of))
    assert list(told) == STAGES
    for stage, steps in told.items():
        assert steps == sorted(steps), stage
        assert steps[-1] == (BLOCK + 4, BLOCK + 4), stage
    assert told["embedding"] == [(0, BLOCK + 4), (BLOCK, BLOCK + 4), (BLOCK + 4, BLOCK + 4)]


@pytest.mark.parametrize("at", STAGES)
def test_ctrl_c_in_any_stage_leaves_what_was_there(tmp_path: Path, at: str) -> None:
    built(tmp_path)
    before = files(tmp_path)

    def stopped(stage: str, done: int, total: int) -> None:
        if stage == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ToolIndex.build(many(9), HashedWords(), tmp_path, stopped)
    assert files(tmp_path) == before


def test_more_tools_than_the_bound_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST == 50_000
    monkeypatch.setattr(snapshot, "MOST", 5)
    assert len(ToolIndex.build(many(5))) == 5
    tools = Toolset(Tool(protocol(f"tool_{number}")) for number in range(7))
    for given in (many(7), tools):
        with pytest.raises(UsageError, match=r"5 tools at most, and there are 7: leave out tools .* or make several"):
            ToolIndex.build(given)
    with pytest.raises(UsageError, match="5 tools at most, and there are more: "):
        ToolIndex.build(protocol(f"tool_{number}") for number in itertools.count())


def test_more_words_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "MOST", 20)
    with pytest.raises(UsageError, match=r"20 words at most.* build several"):
        ToolIndex.build(many(30))

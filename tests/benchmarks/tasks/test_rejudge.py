"""A recorded try is judged again by today's judge: its calls are made again, and nothing cut is guessed at."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.self_test import play
from benchmarks.tasks.rejudge import CannotBeJudgedAgain, judged_again, rejudged
from benchmarks.tasks.rows import JUDGE, MOST_SHOWN, Row
from benchmarks.tasks.transcript import TryRecord, write_transcript

ATLAS = AtlasEnvironment()
TASK = next(task for task in ATLAS.tasks() if (gold := ATLAS.gold(task)) and ATLAS.open(task).writes == 0 and any(
    ATLAS.open(task).tools[name].protocol.effect.value == "write" for name, _ in gold.calls
))  # fmt: skip
ROW = Row("atlas", TASK.id, "atc", "1", 0, "m", "t", True, "answered", programs=1)


def record(value: Any, calls: int | None = None) -> tuple[Row, TryRecord]:
    """The row and the record of a try that made the first so many of the solution's calls, judged by nobody."""
    gold = ATLAS.gold(TASK)
    assert gold is not None
    episode = ATLAS.open(TASK)
    asyncio.run(play(episode, gold.calls[:calls]))
    row = replace(ROW, answer=repr(value)[:MOST_SHOWN])
    return row, TryRecord.of(TASK, episode, row, value)


def again(row: Row, kept: TryRecord) -> Row:
    return asyncio.run(rejudged(ATLAS, row, kept))


def test_the_calls_are_made_again_and_the_answer_is_judged() -> None:
    gold = ATLAS.gold(TASK)
    assert gold is not None
    judged = again(*record(gold.answer))
    assert (judged.solved, judged.first_try, judged.called, judged.judge) == (True, True, True, JUDGE)
    less = again(*record(gold.answer, calls=-1))
    assert (less.solved, less.called) == (False, False)  # what the last call left behind is missing
    assert not again(*record("zzqx")).solved


def test_a_record_from_before_is_judged_by_its_text_unless_that_was_cut() -> None:
    gold = ATLAS.gold(TASK)
    assert gold is not None
    row, kept = record(gold.answer)
    assert again(row, replace(kept, value=None)).solved
    row, kept = record([gold.answer, "x" * MOST_SHOWN])
    assert not again(row, kept).solved
    with pytest.raises(CannotBeJudgedAgain, match="cut"):
        again(row, replace(kept, value=None))
    first = kept.calls[0]
    with pytest.raises(CannotBeJudgedAgain, match="arguments of a call were cut"):
        again(row, replace(kept, calls=(replace(first, arguments=first.arguments[:-1] + " …"),)))
    with pytest.raises(CannotBeJudgedAgain, match="does not answer as it did"):
        again(row, replace(kept, calls=(replace(first, done=False),)))


def test_a_row_that_cannot_be_judged_again_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, kept = record("x" * MOST_SHOWN)
    write_transcript(tmp_path, row, "", replace(kept, value=None))
    lost = replace(row, seed=1)
    assert judged_again([row, lost], tmp_path, None) == [row, lost]
    said = " ".join(capsys.readouterr().err.split())
    assert "its answer was cut" in said
    assert "it has no record" in said
    write_transcript(tmp_path, row, "", kept)
    assert judged_again([row], tmp_path, None)[0].judge == JUDGE


def test_a_try_that_gave_no_answer_stays_unsolved() -> None:
    gold = ATLAS.gold(TASK)
    assert gold is not None
    row, kept = record(gold.answer)
    assert not again(replace(row, status="unsolved"), kept).solved

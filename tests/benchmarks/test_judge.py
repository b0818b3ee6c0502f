"""The judge of tries: what it is shown, its agreement with outcomes, and when it may judge."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atc.errors import UsageError
from atc.models.fake import FakeModel
from benchmarks import judge as module
from benchmarks.judge import MAX_ANSWER, Judgement, Verdict, admit, agreement, judge_tries, kappa, prompt_of
from benchmarks.rows import Row, append
from benchmarks.transcript import TryCall, TryRecord, read_record, write_transcript


def row(task: str, env: str = "shop", solved: bool = False, status: str = "answered") -> Row:
    return Row(env, task, "atc", "1", 0, "m", "t", True, status, solved=solved, answer="7")  # type: ignore[arg-type]


def record(of: Row, answer: str = "7") -> TryRecord:
    return TryRecord(of.key, "Order a pen.", (TryCall("order", '{"item": "pen"}', '{"number": 7}', True),), answer)


def kept(folder: Path, *rows: Row) -> Path:
    for each in rows:
        write_transcript(folder, each, "", record(each))
    return folder


def verdicts(pairs: list[tuple[Verdict, bool]]) -> list[Judgement]:
    return [Judgement(row(str(n)).key, "j", "p", said, solved) for n, (said, solved) in enumerate(pairs)]


def test_kappa_is_cohens() -> None:
    # Cohen's own arithmetic: 35 of 50 agree, chance alone gives half
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa(pairs) == pytest.approx(0.4)
    assert kappa([(True, True), (False, False)]) == 1
    assert kappa([(True, False), (False, True)]) == -1
    assert kappa([(True, True)] * 9 + [(True, False)]) == 0  # nine of ten right, by saying yes to all
    assert kappa([]) == 0


def test_agreement_has_an_interval_and_counts_unsure_as_no() -> None:
    judged = verdicts([("yes", True)] * 10 + [("no", False)] * 9 + [("unsure", True)])
    whole, shop = agreement(judged)
    assert (whole["env"], shop["env"]) == ("all", "shop")
    assert (whole["tries"], whole["accuracy"], whole["unsure"], whole["wrong_no"]) == (20, 0.95, 1, 1)
    assert whole["kappa"] == pytest.approx(0.9)
    assert 0 < whole["low"] < whole["kappa"] < whole["high"] <= 1
    assert agreement([dataclasses.replace(each, solved=None) for each in judged]) == []


def test_a_judge_is_admitted_by_its_kappa_on_enough_tries() -> None:
    (good, _) = agreement(verdicts([("yes", True), ("no", False)] * 20))
    admit(good, 0.6)
    (few, _) = agreement(verdicts([("yes", True), ("no", False)] * 5))
    (poor, _) = agreement(verdicts([("yes", True), ("yes", False)] * 20))
    for line, told in ((few, "on 10 checked tries, and 30"), (None, "on 0 checked"), (poor, r"kappa 0\.00 \(0\.00 to")):
        with pytest.raises(UsageError, match=told):
            admit(line, 0.6)


def test_the_judge_sees_task_calls_and_answer_cut_and_no_outcome() -> None:
    text = prompt_of(record(row("1", solved=True), "x" * 5_000))
    assert "Order a pen." in text
    assert '1. order({"item": "pen"}) gave {"number": 7}' in text
    assert "x" * MAX_ANSWER + " …" in text
    assert "x" * (MAX_ANSWER + 1) not in text
    assert prompt_of(record(row("1", solved=True))) == prompt_of(record(row("1", solved=False)))


def test_verdicts_are_kept_and_asked_once(tmp_path: Path) -> None:
    rows = [row("1", solved=True), row("2"), row("3", status="budget"), row("no-record"), row("4", "restbench")]
    folder, file = kept(tmp_path, rows[0], rows[1], rows[4]), tmp_path / "verdicts.jsonl"
    model = FakeModel(["yes", "unsure", "no"])
    judged = asyncio.run(judge_tries(rows, folder, model, file))
    assert [(each.verdict, each.solved) for each in judged] == [("yes", True), ("unsure", False), ("no", None)]
    assert asyncio.run(judge_tries(rows, folder, FakeModel([]), file)) == judged


def test_the_record_of_another_version_is_not_judged(tmp_path: Path) -> None:
    kept(tmp_path, row("1"))
    assert read_record(tmp_path, row("1")) == record(row("1"))
    assert read_record(tmp_path, dataclasses.replace(row("1"), version="2")) is None
    next(tmp_path.rglob("*.json")).write_text("{")
    with pytest.raises(UsageError, match="delete it"):
        read_record(tmp_path, row("1"))


def test_the_command_refuses_a_judge_that_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_model", lambda spec: FakeModel(["yes"]))
    file = tmp_path / "rows.jsonl"
    for each in (row("1", solved=True), row("2", "restbench")):
        append(file, each)
    folder = str(kept(tmp_path / "tries", row("1", solved=True), row("2", "restbench")))
    options = ["--rows", str(file), "--transcripts", folder, "--out", str(tmp_path / "verdicts.jsonl")]
    measured = CliRunner().invoke(module.app, ["agreement", *options])
    assert measured.exit_code == 0
    assert "kappa 0.00" in measured.stdout
    refused = CliRunner().invoke(module.app, ["judge", *options])
    assert refused.exit_code == 2
    assert "1 checked tries" in " ".join(refused.output.split())

"""Long work says how far it is, also where there is no terminal, and short work nothing."""

from __future__ import annotations

import pytest

from atc.cli import console


def test_without_a_terminal_long_work_says_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 1.0, 20.0, 21.0, 40.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(seconds))
    with console.stages() as told:
        told("reading", 1_000, 0)
        told("reading", 20_000, 0)
        told("writing", 10, 50_000)
        told("writing", 20_000, 50_000)
    assert capsys.readouterr().err == "reading: 20,000\nwriting: 20,000 of 50,000\n"


def test_silent_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with console.stages(silent=True) as told:
        told("reading", 1, 1)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(console.err), "is_terminal", property(lambda self: True))
    with console.stages() as told:
        told("reading", 1_000, 0)
        told("reading", 2_000, 2_000)
        told("writing", 0, 2_000)

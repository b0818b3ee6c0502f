"""No origin is missed: an argument that changes with what a tool answers names that tool, whatever Python does."""

from __future__ import annotations

from pathlib import Path

import pytest

from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from tests.programs.origins.perturbed import TOOLS, all_missed, missed

CORPUS = Path(__file__).resolve().parents[2] / "fuzz_corpus" / "origins"
PROGRAMS = (CORPUS / "followed.txt").read_text(encoding="utf-8").split("####\n")
"""Programs of which each leads a value, or a choice, into an argument in another way."""
HIDDEN = (CORPUS / "hidden.txt").read_text(encoding="utf-8").split("####\n")
"""Programs that hide such a way from the analysis; it may refuse to follow them."""


def test_what_changes_an_argument_is_an_origin_of_it() -> None:
    assert all_missed(each.strip() + "\n" for each in (*PROGRAMS, *HIDDEN)) == []


def test_what_programs_do_every_day_is_followed() -> None:
    followed = {each: ProgramOrigins(Program(each.strip() + "\n"), TOOLS).gave_up for each in PROGRAMS}
    assert {source: reason for source, reason in followed.items() if reason} == {}


def test_a_missed_origin_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramOrigins, "of_call", lambda self, tool, line, names: dict.fromkeys(names, frozenset()))
    assert missed('a = read_a()\nsend(to=a["to"])\n')

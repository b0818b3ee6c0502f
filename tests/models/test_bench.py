"""What is measured is one subject at a time, in turns, and each is stopped whatever happens."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from atc.cli import model as cli_model
from atc.errors import ModelError
from atc.models import embedded
from atc.models.bench import Subject, Timing, measure, middle, paired
from atc.models.messages import Message
from benchmarks.speed.model import subject_of
from tests.support.cli import atc

LIVE: list[str] = []


class Timed(Subject):
    """A subject that reads so many tokens a second, and revises twice as fast as it writes."""

    runtime = "none"

    def __init__(self, setting: str, speed: float, fails: type[BaseException] | None = None) -> None:
        self.setting, self._speed, self._fails = setting, speed, fails
        self.seen: list[str] = []

    def start(self) -> None:
        assert not LIVE, "one at a time"
        LIVE.append(self.setting)

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Timing:
        if self._fails:
            raise self._fails
        self.seen.append("".join(message.content for message in messages))
        faster = 2 if len(self.seen) % 3 == 0 else 1
        return Timing("primes = []", 1000, 1000 / self._speed, max_tokens, max_tokens / 20 / faster)

    def memory(self) -> int:
        return 2_000_000_000

    def stop(self) -> None:
        if LIVE:
            LIVE.remove(self.setting)


def test_a_revision_sees_the_program_and_each_subject_its_turn() -> None:
    lines: list[str] = []
    slow, fast = Timed("slow", 50), Timed("fast", 100)
    made = paired([slow, fast], 2, lines.append)
    assert [line.split(":")[0] for line in lines[::4]] == [
        f"none, {name}, round {number}" for number in (1, 2) for name in ("slow", "fast")
    ]
    figures = [middle(each) for each in made]
    assert [(each.reads, each.writes, each.revises) for each in figures] == [(50, 20, 40), (100, 20, 40)]
    assert slow.seen[2].startswith(slow.seen[1] + "primes = []")
    assert not LIVE


@pytest.mark.parametrize("error", [ModelError, KeyboardInterrupt])
def test_what_breaks_off_leaves_nothing_running(error: type[BaseException]) -> None:
    with pytest.raises(error):
        measure(Timed("broken", 1, error))
    assert not LIVE


@pytest.mark.parametrize("setting", ["runtime=abacus", "colour=red", "threads=two"])
def test_a_setting_without_a_meaning_is_turned_down(setting: str) -> None:
    with pytest.raises(SystemExit, match="--setting"):
        subject_of(setting)


def test_the_command_shows_what_was_measured_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(embedded, "runtime_installed", lambda: True)
    monkeypatch.setattr(cli_model, "LlamaCpp", lambda settings: Timed(f"{settings.threads} threads", 50))
    shown = atc("model", "bench", "--model", str(file), "--threads", "1", "--threads", "2")
    assert shown.exit_code == 0
    assert re.search(r"1 threads +0\.0 s +50\.0 tokens/s +20\.0 tokens/s +40\.0 tokens/s +2\.0 GB", shown.stdout)
    assert "tokens of context" in shown.stdout
    report = json.loads(atc("model", "bench", "--model", str(file), "--json").stdout)
    assert report["figures"][0]["reads"] == 50
    assert report["sizes"]["context_tokens"] == 16_384
    assert atc("model", "bench", "--model", str(tmp_path / "none.gguf")).exit_code == 3
    assert not LIVE

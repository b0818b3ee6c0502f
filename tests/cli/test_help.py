"""``atc help`` and ``atc`` by itself: topics that hold what the code has, and the next command on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from atc.cli import console, start
from atc.cli.help import EXIT_CODES, SOURCES, STRATEGIES, TOPICS
from atc.cli.start import Line, next_command
from atc.parts import STRATEGIES as KNOWN
from tests.support.cli import atc


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_printed_whole(topic: str) -> None:
    ran = atc("help", topic)
    assert (ran.exit_code, ran.stdout) == (0, f"{TOPICS[topic]()}\n")
    assert "docs/" not in ran.stdout


def test_topics_are_listed_and_another_word_is_refused() -> None:
    assert "sources, strategies, exit-codes, rules" in atc("help").stdout
    ran = atc("help", "source")
    assert ran.exit_code == 2
    assert "there is no topic 'source', but sources" in ran.stderr


def test_topics_name_what_the_code_has() -> None:
    for code in console._OF_STATUS.values():
        assert f"\n{code} " in EXIT_CODES
    for status in console._OF_STATUS:
        assert status in EXIT_CODES
    for name in KNOWN.own:
        assert f"\n{name} " in STRATEGIES
    for form in ("atlas", "mcp:URL", "har:FILE@HOST", "kept", "FILE.py:NAME", "MODULE:NAME", "NAME:ARG"):
        assert form in SOURCES


def test_every_command_names_the_topic_of_exit_codes() -> None:
    for words in (["run"], ["tools", "list"], ["runs"], ["graph", "list"]):
        assert "atc help exit-codes" in " ".join(atc(*words, "--help").stdout.split())


@pytest.mark.parametrize(
    ("ready", "found", "command"),
    [
        (
            "model tools client sandbox",
            "cursor (Cursor) does not have ATC yet",
            "atc mcp install cursor --tools x.yaml",
        ),
        ("model tools sandbox", "none", 'atc run "How far is it from Paris to Oslo?"'),
        ("model sandbox", "none", 'atc run "How far is it from Paris to Oslo?" --tools atlas'),
        ("client sandbox", "cursor (Cursor)", "atc mcp install cursor --tools atlas --dry-run"),
        ("sandbox", "none", "atc model pull"),
        ("model tools client", "cursor", "atc doctor"),
    ],
)
def test_the_next_command_is_the_one_that_helps_most(
    ready: str, found: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATC_TOOLS", "x.yaml")
    lines = [Line(name, name in ready.split(), found) for name in ("model", "tools", "client", "sandbox")]
    assert next_command(*lines).startswith(command)


def test_five_lines_say_what_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ATC_TOOLS", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "PATH"):  # here is one client, and no other's command
        monkeypatch.setenv(name, str(tmp_path))
    config = tmp_path / ".cursor" / "mcp.json"
    config.parent.mkdir()
    config.write_text("{}")
    monkeypatch.setattr(start, "_sandbox", lambda: Line("sandbox", True, "strict"))
    start.show_next_steps()
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown[:4]] == ["model", "tools", "MCP", "sandbox"]
    assert len(shown) == 5
    assert "cursor (Cursor) does not have ATC yet" in shown[2]
    assert "atc " in shown[4]
    config.write_text('{"mcpServers": {"atc": {"command": "atc", "args": ["mcp"]}}}')
    start.show_next_steps()
    assert "Cursor has ATC" in capsys.readouterr().out


def test_without_a_terminal_the_help_is_shown() -> None:
    assert "Usage: atc" in atc().output

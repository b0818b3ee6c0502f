"""The question about the login of a recording: at a terminal, once, and never elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import atc
from tests.support.openapi import Server, running_server
from tests.support.recordings import call, page, write
from tests.support.terminal import Terminal

SID = "sid-0a1b2c3d4e5f60718293"
CHOICES = "[y/k/N]"


@pytest.fixture
def service() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def source(service: Server, tmp_path: Path) -> str:
    sent = {"cookie": f"sid={SID}"}
    entries = [page(f"{service.url}/"), call(f"{service.url}/orders", [{"id": 1}], headers=sent)]
    return f"har:{write(tmp_path / 'shop.har', *entries)}"


def is_taken(source: str, *options: str) -> bool:
    """Whether a command that cannot ask takes the login."""
    return "is not used" not in atc("tools", "list", "-t", source, *options).output


def test_without_a_terminal_nothing_is_taken_and_a_word_takes_it(source: str) -> None:
    ran = atc("tools", "list", "-t", source)
    assert "nobody has said that it may be" in ran.output
    assert "--openapi session=memory" in ran.output
    assert is_taken(source, "--openapi", "session=memory")
    assert not is_taken(source)
    assert is_taken(source, "--openapi", "session=keep")
    assert is_taken(source)
    assert not is_taken(source, "--openapi", "session=none")
    assert not is_taken(source)


def test_a_word_that_is_none_is_refused_with_those_that_are(source: str) -> None:
    ran = atc("tools", "list", "-t", source, "--openapi", "session=yes")
    assert ran.exit_code == 2
    assert "session=keep (or memory, none)" in ran.output


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "later"), [("k", True), ("y", False), ("n", False)])
def test_at_a_terminal_the_user_is_asked_once(service: Server, source: str, answer: str, later: bool) -> None:
    with Terminal("tools", "call", "get_orders", "--tools", source) as terminal:
        terminal.wait_for(CHOICES)
        terminal.type(f"{answer}\n")
        assert terminal.ended() == 0
    shown = terminal.shown
    for told in (f"recorded in shop.har on 2026-03-01 for {service.url} (cookie sid)?", "nowhere else", "carried_by"):
        assert told in " ".join(shown.replace("\r\n  | ", " ").split())
    assert SID not in shown
    assert shown.count(CHOICES) == 1
    assert (service.last.headers.get("cookie") == f"sid={SID}") == (answer != "n")
    service.reset()
    assert atc("tools", "call", "get_orders", "--tools", source).exit_code == 0
    assert (service.last.headers.get("cookie") == f"sid={SID}") == later

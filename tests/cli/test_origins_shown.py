"""Where arguments came from, on the command line: of calls that wait, are planned, asked about, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import atc
from tests.support.fake_openai_server import Server, says
from tests.support.permissions import file_of

TOOLS = '''
from atc import tool

@tool(effect="read")
def read_mail() -> dict:
    """The newest mail."""
    return {"sender": "ann", "iban": "DE99"}

@tool(effect="read")
def get_contact(name: str) -> dict:
    """A contact of the address book."""
    return {"iban": "DE11"}

@tool(effect="write")
def send_money(to: str, amount: int) -> str:
    """Send money to an account."""
    return "sent"
'''
PROGRAM = """```python
mail = read_mail()
answer = send_money(to=get_contact(name=mail["sender"])["iban"], amount=20)
```"""
TASK = ("run", "Pay 20 to whoever wrote last", "-t", "tools.py")
TO = "to ← get_contact.iban via read_mail.sender (strangers write that); iban of get_contact (call 2)"
CAREFUL = "careful: strangers may have chosen to\n"
ORIGIN = {"kind": "tool", "tool": "read_mail", "path": ["sender"], "how": "call"}
LINE = 'from = { to = ["tool:get_contact.iban", "via tool:read_mail.sender"] }'


@pytest.fixture
def start(settled_anew: None, endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    Path("tools.py").write_text(TOOLS)
    monkeypatch.setenv("ATC_PERMISSIONS", str(file_of(tmp_path, 'untrusted = "read_mail"\n')))
    return endpoint


def test_a_call_that_waits_says_first_what_a_stranger_may_have_chosen(start: Callable[..., Server]) -> None:
    start(says(PROGRAM))
    ran = atc(*TASK, "--approve", "park")
    assert ran.exit_code == 8, ran.output
    for output in (ran.output, atc("runs", "approvals").output, atc("runs", "show", "last").output):
        assert TO in output
        assert CAREFUL in output
        assert "amount ← the task\n" in output
    (listed,) = json.loads(atc("runs", "approvals", "--json").stdout)
    flow = listed["pending"][0]["data_flow"]
    assert (flow["untrusted"], flow["origins"]["to"][0]) == (["to"], ORIGIN)
    (line,) = json.loads(atc("permissions", "audit", "--json").stdout)
    assert (line["verdict"], line["untrusted"], line["origins"]["to"][0]) == ("parked", ["to"], ORIGIN)


def test_a_plan_says_it(start: Callable[..., Server]) -> None:
    start(says(PROGRAM))
    ran = atc(*TASK, "--dry-run")
    assert ran.exit_code == 0, ran.output
    for output in (ran.output, atc("runs", "show", "last").output):
        assert TO in output
        assert CAREFUL in output


def test_a_refusal_names_the_origin_and_the_line_that_would_allow_it(start: Callable[..., Server]) -> None:
    start(says(PROGRAM))
    ran = atc(*TASK, "--approve", "always")
    assert ran.exit_code == 4, ran.output
    assert "to ← get_contact.iban via read_mail.sender (strangers write that)" in ran.output
    assert LINE in ran.output
    assert "No yes to all calls covers it" in ran.output
    assert "--approve always` makes it" not in ran.output, "it would not"
    assert "(strangers may have chosen to)" in atc("permissions", "audit").output


def test_an_ordinary_call_says_nothing_of_strangers(start: Callable[..., Server]) -> None:
    start(says('```python\nanswer = send_money(to="DE5", amount=20)\n```'))
    ran = atc(*TASK, "--approve", "park")
    assert "strangers" not in ran.output
    assert "to ← the program alone\n" in ran.output


def test_a_run_in_which_nothing_needed_origins_has_them_when_somebody_asks(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATC_PERMISSIONS")
    start(says(PROGRAM))
    assert atc(*TASK, "--approve", "always").exit_code == 0
    assert "←" not in atc("runs", "show", "last").output
    output = atc("runs", "show", "last", "-v").output
    assert "to ← get_contact.iban via read_mail.sender\n" in output
    assert "amount ← the task\n" in output
    assert output.count("←") == 2, "of a read nothing is said"

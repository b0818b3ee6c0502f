"""Permissions in front of an agent's choice over calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, SettingsError, Toolset, UsageError, tool
from atc.calls import question
from atc.calls.approval import Approval
from atc.permissions import Permissions
from atc.settings import Settings
from tests.support.permissions import file_of, written

WARNED = "Book 'Design review' in room r4"
RULES = """
[[rules]]
allow = "book"
arguments = { seats = { max = 10 } }
[[rules]]
ask = "book"
arguments = { seats = { min = 5 } }
[[rules]]
deny = "book"
arguments = { seats = { min = 50 } }
[[rules]]
deny = "drop"
[[rules]]
deny = "look"
arguments = { room = "x*" }
"""


@tool(effect="write")
def book(seats: int) -> int:
    """Book seats."""
    return seats


@tool(effect="write")
def drop(room: str) -> str:
    """Drop it."""
    return room


@tool(effect="write")
def paint(room: str) -> str:
    """Paint it."""
    return room


@tool(effect="read")
def look(room: str) -> str:
    """Look at it."""
    return room


def ran(source: str, permissions: Any = None, task: str = "Do it", **given: Any) -> Result[Any]:
    program = f"```python\n{source}\n```"
    with Agent(
        [book, drop, paint, look],
        model=FakeModel([program, program]),
        permissions=permissions,
        sentence=False,
        max_revisions=0,
        **given,
    ) as agent:
        return agent.run(task)


@pytest.fixture
def rules(tmp_path: Path) -> Permissions:
    return written(tmp_path, RULES)


def audited(tmp_path: Path) -> list[tuple[str, str, str]]:
    path = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(line["tool"], line["verdict"], line["by"]) for line in lines]


@pytest.mark.parametrize(
    ("source", "approve", "made", "by"),
    [
        ("answer = book(seats=1)", None, True, "rule 1"),
        ("answer = book(seats=1)", "always", True, "rule 1"),
        ("answer = book(seats=1)", "never", False, "nobody"),
        ("answer = book(seats=5)", None, False, "nobody"),
        ("answer = book(seats=5)", "always", False, "nobody"),
        ("answer = book(seats=5)", lambda _: True, True, "user"),
        ("answer = book(seats=50)", "always", False, "rule 3"),
        ("answer = book(seats=50)", lambda _: True, False, "rule 3"),
        ("answer = paint(room='r')", None, False, "nobody"),
        ("answer = paint(room='r')", "always", True, "choice"),
        ("answer = paint(room='r')", lambda _: False, False, "user"),
        ("answer = look(room='xy')", "always", False, "rule 5"),
    ],
)
def test_a_denial_denies_and_a_question_is_put_whatever_the_choice_is(
    rules: Permissions, tmp_path: Path, source: str, approve: Any, made: bool, by: str
) -> None:
    result = ran(source, rules, approve=approve)
    assert result.status == ("answered" if made else "denied")
    (line,) = audited(tmp_path)
    assert line[1:] == ("allowed" if made else "refused", by)


def test_a_tool_that_is_denied_as_a_whole_is_not_offered(rules: Permissions) -> None:
    model = FakeModel(["```python\nanswer = 1\n```"])
    with Agent([book, drop, look], model=model, permissions=rules, sentence=False) as agent:
        assert list(agent.tools) == ["book", "look"]
        agent.run("What is one?")
    assert "drop" not in str(model.prompts)


def test_the_refusal_of_what_nobody_could_be_asked_about_has_the_line(rules: Permissions) -> None:
    (call,) = ran("answer = paint(room='r')", rules).calls
    assert call.error is not None
    assert f'this in {rules.path}:\n[[rules]]\nallow = "paint"' in call.error


def test_an_allowed_write_of_a_program_with_a_warning_is_not_made_unasked(rules: Permissions) -> None:
    result = ran("answer = book(seats=1)", rules, WARNED)
    assert [call.error_status for call in result.calls] == ["warned"]
    assert ran("answer = book(seats=1)", rules, WARNED, approve=lambda _: True).status == "answered"
    assert ran("answer = book(seats=1)", rules, WARNED, approve="always", warnings="allow").status == "answered"


def test_at_a_terminal_a_question_is_put_also_under_always(rules: Permissions, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def ask(heading: str, *rest: Any) -> bool:
        asked.append(heading)
        return True

    monkeypatch.setattr(question, "has_terminal", lambda: True)
    monkeypatch.setattr(question, "ask", ask)
    assert ran("answer = book(seats=5)", rules, approve="always").status == "answered"
    assert ran("answer = paint(room='r')", rules, approve="always").status == "answered"
    assert ran("answer = paint(room='r')", rules).status == "answered"
    assert asked == ["allow book? effect: write", "allow paint? effect: write"]


def test_what_a_rule_denies_is_refused_in_a_dry_run_too(rules: Permissions) -> None:
    sources = {"answer = book(seats=50)": "denied", "answer = book(seats=5)": "planned"}
    for source, status in sources.items():
        model = FakeModel([f"```python\n{source}\n```"] * 2)
        with Agent([book], model=model, permissions=rules, sentence=False, max_revisions=0) as agent:
            assert agent.run("Book it", dry_run=True).status == status


def test_read_only_mode(tmp_path: Path) -> None:
    with Agent([book, look], model=FakeModel([]), read_only=True) as agent:
        assert list(agent.tools) == ["look"]
    with Agent([book, look], model=FakeModel([]), read_only=True, permissions=written(tmp_path, RULES)) as agent:
        assert list(agent.tools) == ["look"]
    with pytest.raises(UsageError, match="read-only mode leaves none of the 1 tools"):
        Agent([book], model=FakeModel([]), read_only=True)


def test_the_users_own_file_counts_where_no_other_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "atc"
    folder.mkdir(parents=True)
    file_of(folder, '[[rules]]\ndeny = "book"')
    with Agent([book, look], model=FakeModel([])) as agent:
        assert list(agent.tools) == ["look"]
    with Agent([book, look], model=FakeModel([]), permissions=file_of(tmp_path, "")) as agent:
        assert list(agent.tools) == ["book", "look"]


def test_without_permissions_nothing_is_written_down(tmp_path: Path) -> None:
    assert ran("answer = paint(room='r')", approve="always").status == "answered"
    assert audited(tmp_path) == []


def test_caps_hold_the_user_too(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[caps]\nmax_calls = 2\nwall_s = 9\nwrites_per_hour = 1\n[[rules]]\nallow = "*"')
    with Agent([book], model=FakeModel([]), permissions=permissions) as agent:
        assert (agent.settings.max_calls, agent.settings.wall_s) == (2, 9)
    result = ran("book(seats=1)\nanswer = book(seats=2)", permissions)
    assert result.status == "denied"
    assert audited(tmp_path) == [("book", "allowed", "rule 1"), ("book", "refused", "cap writes_per_hour")]


def test_an_untrusted_settings_file_names_no_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATC_AUDIT")
    for line in ('permissions = "p.toml"', "read_only = false", 'audit = "/dev/null"'):
        (tmp_path / "atc.toml").write_text(line)
        with pytest.raises(SettingsError, match="is not trusted"):
            Settings.load()


def test_a_whole_rule_without_a_policy_is_not_passed_by(rules: Permissions) -> None:
    with pytest.raises(UsageError, match=r"Guard\.approval"):
        Agent(Toolset.from_functions(book), model=FakeModel([]), approve=Approval("always"), permissions=rules)

"""Permissions in front of an agent's choice over calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, SettingsError, Toolset, UsageError, tool
from atc._records.origins import CallOrigins, Origin
from atc.calls import question
from atc.calls.approval import Approval, ApprovalRequest, Refusal
from atc.calls.permissions import Permissions, agent_permissions
from atc.settings import Settings
from tests.support.permissions import file_of, written

WARNED = "seats = len('a@b.org'[:1])\nanswer = book(seats=seats)"
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


TOOLS = Toolset.from_functions(book, drop, paint, look)


def asked(permissions: Permissions, approve: Any, name: str, *warnings: str, **arguments: Any) -> Any:
    """What is answered to one call, without a program."""
    settings = Settings.load() if not isinstance(approve, dict) else Settings.load(**approve)
    rule = agent_permissions.approval_of(permissions, None if isinstance(approve, dict) else approve, settings)
    assert rule.policy is not None
    protocol = TOOLS[name].protocol
    about = {
        each: arguments.pop(each) for each in ("origins", "untrusted", "author_saw", "strangers") if each in arguments
    }
    request = ApprovalRequest(name, arguments, protocol.effect, "", warnings, protocol=protocol, **about)
    return asyncio.run(rule.policy.asker(request))


MAIL: CallOrigins = dict.fromkeys(("seats", "room"), frozenset({Origin(kind="tool", tool="mail")}))
STRANGERS = {"strangers": ("mail",)}
SUSPECT: list[dict[str, Any]] = [
    {"origins": MAIL, "untrusted": ("seats",), **STRANGERS},
    {"author_saw": ("mail",), **STRANGERS},
]


def yes(request: ApprovalRequest) -> bool:
    return True


def no(request: ApprovalRequest) -> bool:
    return False


@pytest.mark.parametrize(
    ("name", "argument", "approve", "made", "by"),
    [
        ("book", 1, None, True, "rule 1"),
        ("book", 1, "always", True, "rule 1"),
        ("book", 1, "never", False, "nobody"),
        ("book", 1, {"approve": "never"}, False, "nobody"),
        ("book", 5, None, False, "nobody"),
        ("book", 5, "always", False, "nobody"),
        ("book", 5, yes, True, "user"),
        ("book", 50, "always", False, "rule 3"),
        ("book", 50, yes, False, "rule 3"),
        ("paint", "r", None, False, "nobody"),
        ("paint", "r", "always", True, "choice"),
        ("paint", "r", {"approve": "always"}, True, "choice"),
        ("paint", "r", no, False, "user"),
        ("look", "xy", "always", False, "rule 5"),
    ],
)
def test_a_denial_denies_and_a_question_is_put_whatever_the_choice_is(
    rules: Permissions, tmp_path: Path, name: str, argument: Any, approve: Any, made: bool, by: str
) -> None:
    answer = asked(rules, approve, name, **{"seats" if name == "book" else "room": argument})
    assert (answer is True) == made
    assert audited(tmp_path) == [(name, "allowed" if made else "refused", by)]


def test_runs_go_by_the_permissions(rules: Permissions, tmp_path: Path) -> None:
    assert ran("answer = book(seats=1)", rules).status == "answered"
    assert ran("answer = look(room='xy')", rules, approve="always").status == "denied"
    assert audited(tmp_path) == [("book", "allowed", "rule 1"), ("look", "refused", "rule 5")]


@pytest.mark.parametrize(
    "program",
    [
        "answer = await look(room='xy')",
        "import asyncio\nanswer = await asyncio.gather(*[look(room=r) for r in ('xy', 'xz')])",
        "answer = tools.look(room='xy')",
        "answer = mcp__there__look(room='xy')",
        "answer = call_tool('look', {'room': 'xy'})",
    ],
)
def test_a_program_in_another_dialect_goes_by_the_permissions_of_the_tool(
    rules: Permissions, tmp_path: Path, program: str
) -> None:
    assert ran(program, rules, approve="always").status == "denied"
    assert {*audited(tmp_path)} == {("look", "refused", "rule 5")}


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


def test_an_allowed_write_that_depends_on_a_warning_is_not_made_unasked(rules: Permissions) -> None:
    result = ran(WARNED, rules)
    assert [call.error_status for call in result.calls] == ["warned"]
    assert asked(rules, "always", "book", "w", seats=1).status == "warned"
    assert asked(rules, "always", "paint", "w", room="r").status == "warned"
    assert asked(rules, yes, "book", "w", seats=1) is True
    assert asked(rules, {"approve": "always", "warnings": "allow"}, "book", "w", seats=1) is True


@pytest.mark.parametrize("suspect", SUSPECT)
@pytest.mark.parametrize("choice", [None, "always", {"approve": "always", "warnings": "allow"}])
def test_no_choice_is_a_yes_to_what_strangers_may_have_chosen(
    rules: Permissions, choice: Any, suspect: dict[str, Any]
) -> None:
    for answer in (
        asked(rules, choice, "book", seats=1, **suspect),
        asked(rules, choice, "paint", room="r", **suspect),
        asked(rules, choice, "paint", "w", room="r", **suspect),
    ):
        assert isinstance(answer, Refusal)
        assert (answer.status, answer.by_user) == ("denied", False)
        assert "strangers" in answer.reason
    assert asked(rules, yes, "book", seats=1, **suspect) is True
    assert asked(rules, "never", "book", seats=1, **suspect).by_user


def test_only_the_file_lifts_what_strangers_may_have_chosen(tmp_path: Path) -> None:
    told = asked(written(tmp_path, ""), "always", "book", seats=1, **SUSPECT[0] | SUSPECT[1])
    _, _, lines = told.reason.partition("\n")
    assert asked(written(tmp_path, lines), "always", "book", seats=1, **SUSPECT[0] | SUSPECT[1]) is True


def test_at_a_terminal_what_strangers_may_have_chosen_is_asked_about(
    rules: Permissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: True)
    monkeypatch.setattr(question, "ask", lambda *rest: asyncio.sleep(0, False))
    for suspect in SUSPECT:
        assert asked(rules, "always", "book", seats=1, **suspect) is False
    assert asked(rules, "always", "book", seats=1) is True


def test_at_a_terminal_a_question_is_put_also_under_always(rules: Permissions, monkeypatch: pytest.MonkeyPatch) -> None:
    headings = []

    async def ask(heading: str, *rest: Any) -> bool:
        headings.append(heading)
        return True

    monkeypatch.setattr(question, "has_terminal", lambda: True)
    monkeypatch.setattr(question, "ask", ask)
    assert asked(rules, "always", "book", seats=5) is True
    assert asked(rules, "always", "paint", room="r") is True
    assert asked(rules, None, "paint", room="r") is True
    assert headings == ["allow book? effect: write", "allow paint? effect: write"]


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

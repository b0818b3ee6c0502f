"""The guard: what the permissions decide, who is asked, and that it is written down before it is done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from atc._records.origins import Origin
from atc.calls.approval import ApprovalRequest, Refusal
from atc.calls.permissions import Permissions, Who
from atc.calls.permissions.approvers import ApproverKey, encoded
from atc.calls.permissions.audit import AuditLog
from atc.calls.permissions.guard import HOUR_S, Guard, Limiter
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.serve.mcp.guards import MAX_KEPT, Guards
from atc.settings import Settings
from atc.tools.tool import Toolset
from tests.support.permissions import file_of, written
from tests.support.tools import make_tool

READ, WRITE = Effect.READ, Effect.WRITE


def request(tool: str = "book", effect: Effect = WRITE, **more: Any) -> ApprovalRequest:
    arguments = more.pop("arguments", {"n": 1})
    return ApprovalRequest(tool, arguments, effect, "", protocol=Protocol(name=tool, effect=effect), **more)


class Asked:
    """Somebody who is asked, and what was asked."""

    def __init__(self, answer: Any = True) -> None:
        self.answer, self.seen = answer, list[ApprovalRequest]()

    async def __call__(self, request: ApprovalRequest) -> Any:
        self.seen.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def decided(guard: Guard, request: ApprovalRequest) -> Any:
    return asyncio.run(guard.asker(request))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "log" / "audit.jsonl")


def test_without_a_file_reads_go_unasked_and_all_else_is_asked(log: AuditLog) -> None:
    ask = Asked()
    guard = Guard(Permissions(), Who(), ask, log, run="r1")
    assert decided(guard, request("look", READ)) is True
    assert decided(guard, request()) is True
    assert decided(guard, request("other", Effect.UNKNOWN)) is True
    assert [each.tool for each in ask.seen] == ["book", "other"]
    assert [(each["tool"], each["verdict"], each["by"], each["run"]) for each in lines(log.path)] == [
        ("book", "allowed", "user", "r1"),
        ("other", "allowed", "user", "r1"),
    ]


def test_where_nobody_can_be_asked_the_refusal_has_the_line_that_would_allow_it(log: AuditLog, tmp_path: Path) -> None:
    nobody = Asked(Refusal("nobody could be asked"))
    for who in (Who(), Who('ann of "it"', "x")):
        answer = decided(Guard(Permissions(), who, nobody, log), request())
        assert isinstance(answer, Refusal)
        _, _, line = answer.reason.partition("\n")
        allowing = Guard(written(tmp_path, line), who, nobody, log)
        assert decided(allowing, request()) is True
    assert not isinstance(decided(Guard(written(tmp_path, line), Who("bob", "x"), nobody), request()), bool)
    assert [each["by"] for each in lines(log.path)] == ["nobody", "rule 1"] * 2


MAIL = {"n": frozenset({Origin(kind="tool", tool="mail", path=("sum",))})}
SUSPECT = [{"untrusted": ("n",), "origins": MAIL}, {"author_saw": ("mail",)}]


@pytest.mark.parametrize("suspect", SUSPECT)
def test_what_strangers_may_have_chosen_is_asked_about_though_a_rule_allows_it(
    suspect: dict[str, Any], tmp_path: Path, log: AuditLog
) -> None:
    ask = Asked()
    guard = Guard(written(tmp_path, '[[rules]]\nallow = "book"'), Who(), ask, log)
    assert decided(guard, request(**suspect)) is True
    assert len(ask.seen) == 1
    assert decided(guard, request("look", READ, **suspect)) is True
    assert len(ask.seen) == 1
    assert [line["by"] for line in lines(log.path)] == ["user"]


@pytest.mark.parametrize("suspect", SUSPECT)
@pytest.mark.parametrize("rule", ["", '[[rules]]\nallow = "book"'])
def test_where_nobody_can_be_asked_about_it_the_refusal_has_the_lines_that_lift_it(
    rule: str, suspect: dict[str, Any], tmp_path: Path, log: AuditLog
) -> None:
    nobody = Asked(Refusal("nobody could be asked"))
    answer = decided(Guard(written(tmp_path, rule), Who(), nobody, log), request(**suspect))
    assert isinstance(answer, Refusal)
    assert answer.status == "denied"
    assert "mail" in answer.reason
    _, _, line = answer.reason.partition("\n")
    assert decided(Guard(written(tmp_path, f"{line}\n{rule}"), Who(), nobody, log), request(**suspect)) is True
    more = request(**suspect, repeats="run")
    told = decided(Guard(written(tmp_path, rule), Who(), nobody, log), more)
    assert "[[rules]]" not in told.reason
    assert "after_untrusted" not in told.reason


def test_where_an_origin_is_unknown_the_refusal_says_that_no_rule_can_list_it(tmp_path: Path, log: AuditLog) -> None:
    nobody = Asked(Refusal("nobody could be asked"))
    suspect = {"untrusted": ("n",), "origins": {"n": frozenset({Origin(kind="unknown"), *MAIL["n"]})}}
    answer = decided(Guard(written(tmp_path, '[[rules]]\nallow = "book"'), Who(), nobody, log), request(**suspect))
    assert isinstance(answer, Refusal)
    assert "where n came from could not be followed, so no rule can list it: say yes to this call" in answer.reason
    assert "[[rules]]" not in answer.reason
    asks = Guard(written(tmp_path, '[[rules]]\nask = "book"'), Who(), nobody, log)
    answer = decided(asks, request(**suspect))
    assert isinstance(answer, Refusal)
    assert "could not be followed" not in answer.reason


def test_a_call_whose_origins_nobody_found_meets_every_rule_that_forbids_some(tmp_path: Path, log: AuditLog) -> None:
    text = '[[rules]]\nallow = "book"\nfrom = {n = "task"}\n[[rules]]\ndeny = "drop"\nnot_from = {n = "tool:mail"}'
    ask, task = Asked(False), {"n": frozenset({Origin(kind="task")})}
    guard = Guard(written(tmp_path, text), Who(), ask, log)
    assert guard.permissions.needs_origins
    assert decided(guard, request(origins=task)) is True
    assert (decided(guard, request()), len(ask.seen)) == (False, 1)
    assert "rule 2" in decided(guard, request("drop")).reason
    assert decided(guard, request("drop", origins=task)) is False


def test_a_value_of_a_tool_counts_by_the_name_that_its_server_has_for_it(tmp_path: Path, log: AuditLog) -> None:
    page = Protocol(name="hub_page", source=Source(kind="mcp", location="hub", operation="page"))
    origins = {"n": frozenset({Origin(kind="tool", tool="hub_page")})}
    guard = Guard(written(tmp_path, '[[rules]]\ndeny = "book"\nnot_from = "tool:page"'), Who(), Asked(), log)
    assert decided(guard, request(origins=origins)) is True
    assert isinstance(decided(guard, request(origins=origins, protocol_of={"hub_page": page}.get)), Refusal)


def test_a_suspect_call_waits_for_an_approver(tmp_path: Path, log: AuditLog) -> None:
    pytest.importorskip("cryptography")
    key = encoded(ApproverKey(ApproverKey.new()).public)
    text = f'[[rules]]\nallow = "book"\n[approvers]\nann = {{public_key = "{key}"}}'
    guard = Guard(written(tmp_path, text), Who(), Asked(), log)
    assert not guard.judge(request()).waits
    assert all(guard.judge(request(**suspect)).waits for suspect in SUSPECT)


@pytest.mark.parametrize("odd", [{"instead_of": ("t",)}, {"repeats": "run"}])
def test_a_refusal_promises_no_line_that_would_not_help(odd: dict[str, Any], log: AuditLog) -> None:
    answer = decided(Guard(Permissions(), Who(), Asked(Refusal("nobody could be asked")), log), request(**odd))
    assert isinstance(answer, Refusal)
    assert "[[rules]]" not in answer.reason
    assert answer.reason.endswith("; nobody could be asked")


def test_a_no_of_the_user_names_no_line(log: AuditLog) -> None:
    assert decided(Guard(Permissions(), Who(), Asked(False), log), request()) is False
    assert [(each["verdict"], each["by"]) for each in lines(log.path)] == [("refused", "user")]


@pytest.mark.parametrize("odd", [{"warnings": ("w",)}, {"instead_of": ("t",)}, {"repeats": "run"}])
def test_a_rule_allows_no_write_that_is_odd(odd: dict[str, Any], tmp_path: Path, log: AuditLog) -> None:
    ask = Asked()
    guard = Guard(written(tmp_path, '[[rules]]\nallow = "*"'), Who(), ask, log)
    assert decided(guard, request()) is True
    assert not ask.seen
    assert guard.judge(request(**odd)).ruled is None
    assert decided(guard, request(**odd)) is True
    assert len(ask.seen) == 1


def test_what_a_rule_denies_nobody_is_asked_about_and_reads_are_written_down_too(tmp_path: Path, log: AuditLog) -> None:
    ask = Asked()
    guard = Guard(written(tmp_path, '[[rules]]\ndeny = "*"'), Who(), ask, log)
    for each in (request(), request("look", READ)):
        answer = decided(guard, each)
        assert isinstance(answer, Refusal)
        assert "rule 1 of" in answer.reason
        assert guard.judge(each).denied is not None
    assert not ask.seen
    assert [(each["tool"], each["verdict"], each["by"]) for each in lines(log.path)] == [
        ("book", "refused", "rule 1"),
        ("look", "refused", "rule 1"),
    ]


def test_a_write_that_cannot_be_written_down_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    guard = Guard(Permissions(), Who(), Asked(), AuditLog(tmp_path / "file" / "audit.jsonl"))
    answer = decided(guard, request())
    assert isinstance(answer, Refusal)
    assert "audit log cannot be written" in answer.reason
    assert decided(guard, request("look", READ)) is True


def test_a_question_that_fails_leaves_a_line_and_counts_nothing(tmp_path: Path, log: AuditLog) -> None:
    permissions = written(tmp_path, "[caps]\nwrites_per_hour = 1")
    guard = Guard(permissions, Who(), Asked(ToolError("gone")), log, limiter=Limiter())
    for _ in range(2):
        with pytest.raises(ToolError):
            decided(guard, request())
    assert [(each["verdict"], each["by"]) for each in lines(log.path)] == [("refused", "nobody")] * 2


def test_caps_are_counted_over_all_runs_of_a_principal_and_a_no_is_not_counted(tmp_path: Path) -> None:
    now = [0.0]
    limiter = Limiter(lambda: now[0])
    permissions = written(tmp_path, "[caps]\nwrites_per_hour = 2\ncalls_per_hour = 3")

    def guard(answer: Any = True) -> Guard:
        return Guard(permissions, Who("ann"), Asked(answer), limiter=limiter)

    assert decided(guard(False), request()) is False
    assert decided(guard(), request()) is True
    now[0] = 10.0
    assert decided(guard(), request()) is True
    refused = decided(guard(), request())
    assert "writes_per_hour is 2" in refused.reason
    assert decided(guard(), request("look", READ)) is True
    assert "calls_per_hour is 3" in decided(guard(), request("look", READ)).reason
    now[0] = HOUR_S
    assert decided(guard(), request()) is True
    assert "calls_per_hour" in decided(guard(), request()).reason


def test_what_a_client_may_see_is_kept_for_few_clients_and_for_these_tools(tmp_path: Path) -> None:
    text = '[[rules]]\ndeny = "drop"\nprincipal = "ann"\n[[rules]]\ndeny = "book"\nclient = "evil*"'
    path = file_of(tmp_path, text)
    guards = Guards(None, Settings.load(permissions=path))
    tools = guards.graded(Toolset(make_tool(name, None, WRITE) for name in ("drop", "book")))
    ann = guards.visible(Who("ann"), tools)
    assert list(ann) == ["book"]
    assert guards.visible(Who("ann"), tools) is ann
    assert guards.visible(Who("bob"), tools) is tools
    assert list(guards.visible(Who("ann"), tools.only("drop"))) == []
    ann = guards.visible(Who("ann"), tools)
    for number in range(2 * MAX_KEPT):
        assert guards.visible(Who("ann", str(number)), tools) is ann, "a claimed name takes no room"
    assert list(guards.visible(Who("ann", "evil"), tools)) == []
    for number in range(2 * MAX_KEPT):
        guards.visible(Who(str(number)), tools)
    assert len(guards._visible) == MAX_KEPT
    assert guards.visible(Who("ann"), tools) is not ann
    free = Guards(Permissions(), Settings.load())
    assert free.visible(Who("ann"), tools) is tools


def test_caps_of_a_server(tmp_path: Path) -> None:
    path = file_of(tmp_path, "[clients.ann]\nmax_calls = 3\nmax_runs_at_once = 1\nwrites_per_hour = 1")
    guards = Guards(None, settings := Settings.load(permissions=path))
    assert guards.limits(Who("ann"), settings) == {"max_calls": 3, "wall_s": settings.wall_s}
    assert guards.limits(Who("bob"), settings) == {"max_calls": settings.max_calls, "wall_s": settings.wall_s}
    with guards.run(Who("ann", "one")):
        with pytest.raises(UsageError, match="1 of your runs go on already"), guards.run(Who("ann", "two")):
            pass
        with guards.run(Who("bob")), guards.run(Who("bob")):
            pass
    with guards.run(Who("ann")):
        pass
    first, second = (guards.guard(Who("ann", name), Asked()) for name in ("one", "two"))
    assert decided(first, request()) is True
    assert "writes_per_hour is 1" in decided(second, request()).reason
    assert decided(guards.guard(Who("bob"), Asked()), request()) is True


def test_the_effect_that_the_permissions_see_is_what_is_asked_about(log: AuditLog, tmp_path: Path) -> None:
    ask = Asked()
    guard = Guard(written(tmp_path, '[effects]\nlook = "write"'), Who(), ask, log)
    assert decided(guard, request("look", READ)) is True
    assert [each.effect for each in ask.seen] == [WRITE]

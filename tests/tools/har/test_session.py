"""Whose session it is: the login of a recording is used after a yes, at one origin, until it is over."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, ApprovalRequest, FakeModel, Toolset
from atc._host.redaction import Redactor
from atc._records.records import RecordedSession
from atc.calls import question
from atc.calls.approval import Approval, ask_at_terminal, question_of
from atc.calls.parked import digest_of
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.serve.mcp.asking import message_of
from atc.serve.ui.shown_calls import shown_arguments
from atc.tools.har.document import Recorded, RecordedSecret
from atc.tools.har.importer import read_har
from atc.tools.har.session import Answers, SessionChoice, SessionOffer, session_of, warn_of_readers
from atc.tools.openapi.importer import read_openapi
from atc.wording import plans
from atc.wording.origins import careful, careful_of_plan
from tests.support import recordings as calls
from tests.support.openapi import Answer, Server, document, operation, running_server
from tests.support.permissions import written

SECRET = "s1d-7f3a9c2e55aa01"
NOW = datetime(2026, 5, 3, 10, 0, tzinfo=UTC)
COOKIE: dict[str, Any] = {"type": "apiKey", "in": "cookie", "name": "sid"}
BASIC: dict[str, Any] = {"type": "http", "scheme": "basic"}
BEARER: dict[str, Any] = {"type": "http", "scheme": "bearer"}
MARKS: dict[str, Any] = {"type": "apiKey", "in": "cookie", "name": "seen"}
WITH_COOKIE: dict[str, Any] = {"security": [{"cookie_sid": []}]}


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    return Answers(tmp_path / "config" / "answers")


def secret(value: str = SECRET, **more: Any) -> RecordedSecret:
    given: dict[str, Any] = {"scheme": "cookie_sid", "location": "cookie", "wire": "sid", "recorded_at": NOW}
    return RecordedSecret(**{**given, "value": value, **more})


def recorded(
    server: Server, *secrets: RecordedSecret, security: Any = WITH_COOKIE["security"], **more: Any
) -> Recorded:
    """What a recording of the server would tell: a read and a write behind a cookie."""
    port = int(server.url.rpartition(":")[2])
    schemes = {"cookie_sid": COOKIE, "bearer": BEARER, "basic": BASIC, "cookie_seen": MARKS}
    paths = {
        "/orders": {
            "get": {**operation(security=security), "operationId": "list_orders"},
            "post": {**operation(security=security), "operationId": "order"},
        }
    }
    root = document(paths, components={"securitySchemes": schemes}, servers=[{"url": server.url}])
    given: dict[str, Any] = {"host": "127.0.0.1", "scheme": "http", "port": port, "document": root}
    return Recorded(**{**given, "secrets": {each.scheme: each for each in secrets}, **more})


def tools_of(
    made: Recorded, choice: SessionChoice, answers: Answers, path: Path = Path("shop.har"), **options: Any
) -> Toolset:
    given = {name: options.pop(name) for name in ("allow_writes", "allow_http") if name in options}
    session = session_of(made, choice, path=path, answers=answers, **given)
    return read_openapi(made.document, session=session, **options).toolset


def call(tools: Toolset, name: str = "list_orders") -> Any:
    transport = tools[name].transport
    assert transport is not None
    return asyncio.run(transport({}))


# -- after a yes alone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["keep", "memory", lambda _: "memory", lambda _: "keep"], ids="abcd")
def test_a_yes_sends_the_cookie(server: Server, answers: Answers, choice: Any) -> None:
    call(tools_of(recorded(server, secret()), choice, answers))
    assert server.last.headers["cookie"] == f"sid={SECRET}"


@pytest.mark.parametrize(
    ("choice", "reason"), [("ask", "untaken"), ("none", "declined"), (lambda _: "none", "declined")], ids="abc"
)
def test_without_a_yes_the_tools_are_there_and_the_credential_is_missing(
    server: Server, answers: Answers, choice: Any, reason: str
) -> None:
    tools = tools_of(recorded(server, secret()), choice, answers)
    call(tools)
    assert "cookie" not in server.last.headers
    (missing,) = tools.missing_credentials()
    assert (missing.reason, missing.variable, missing.tools) == (
        reason,
        "ATC_AUTH_COOKIE_SID",
        ("list_orders", "order"),
    )


def test_a_user_is_asked_once_for_a_file_and_an_origin(server: Server, answers: Answers, tmp_path: Path) -> None:
    asked: list[SessionOffer] = []

    def ask(offer: SessionOffer) -> Any:
        asked.append(offer)
        return "keep"

    made, path = recorded(server, secret()), tmp_path / "shop.har"
    tools_of(made, ask, answers, path)
    call(tools_of(made, ask, answers, path))
    call(tools_of(made, "ask", answers, path))
    assert server.last.headers["cookie"] == f"sid={SECRET}"
    (offer,) = asked
    assert offer.about.carriers == ("cookie sid",)
    assert offer.about.origin == server.url
    assert SECRET not in repr(offer)
    tools_of(recorded(server, secret("another-login-000001")), ask, answers, path)  # recorded again
    tools_of(dataclasses.replace(made, host="localhost"), ask, answers, path)
    tools_of(made, ask, answers, tmp_path / "other.har")
    assert len(asked) == 4


def test_a_no_is_kept_too_until_the_option_says_otherwise(server: Server, answers: Answers) -> None:
    made = recorded(server, secret())
    tools_of(made, lambda _: "none", answers)
    (missing,) = tools_of(made, lambda _: "keep", answers).missing_credentials()
    assert missing.reason == "declined"
    assert not tools_of(made, "keep", answers).missing_credentials()
    assert not tools_of(made, "ask", answers).missing_credentials()
    tools_of(made, "none", answers)
    assert tools_of(made, "ask", answers).missing_credentials()


def test_what_is_kept_is_the_yes_and_no_credential(server: Server, answers: Answers, tmp_path: Path) -> None:
    tools_of(recorded(server, secret()), "keep", answers)
    (kept,) = (tmp_path / "config" / "answers").iterdir()
    assert SECRET not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_a_yes_that_others_could_have_written_does_not_count(server: Server, answers: Answers, tmp_path: Path) -> None:
    made = recorded(server, secret())
    tools_of(made, "keep", answers)
    (kept,) = (tmp_path / "config" / "answers").iterdir()
    kept.chmod(0o666)
    assert tools_of(made, "ask", answers).missing_credentials()
    kept.chmod(0o600)
    assert not tools_of(made, "ask", answers).missing_credentials()


def test_a_word_that_is_none_is_refused(server: Server, answers: Answers) -> None:
    with pytest.raises(UsageError, match="session takes"):
        tools_of(recorded(server, secret()), lambda _: "yes", answers)  # type: ignore[arg-type, return-value]


def test_the_environment_and_the_user_stand_above(
    server: Server, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded(server, secret())
    call(tools_of(made, "memory", answers, auth={"cookie_sid": "mine-1234"}))
    assert server.last.headers["cookie"] == "sid=mine-1234"
    monkeypatch.setenv("ATC_AUTH_COOKIE_SID", "mine-5678")
    tools = tools_of(made, "memory", answers)
    call(tools)
    assert server.last.headers["cookie"] == "sid=mine-5678"
    assert tools["order"].session is None


@pytest.mark.parametrize(
    ("scheme", "value", "sent"),
    [("bearer", "t0k3n-t0k3n", "Bearer t0k3n-t0k3n"), ("basic", "mira:tulip-41", "Basic bWlyYTp0dWxpcC00MQ==")],
)
def test_a_header_is_sent_as_it_was_recorded(
    server: Server, answers: Answers, scheme: str, value: str, sent: str
) -> None:
    kept = secret(value, scheme=scheme, location="header", wire="Authorization")
    tools = tools_of(recorded(server, kept, security=[{scheme: []}]), "memory", answers)
    server.answer = Answer(f'{{"you": "{value}", "pass": "tulip-41"}}'.encode())
    assert value not in json.dumps(call(tools))
    assert server.last.headers["authorization"] == sent


# -- to one origin -----------------------------------------------------------------------------------------------------


def test_it_goes_to_the_origin_it_was_recorded_for_alone(server: Server, answers: Answers) -> None:
    with running_server() as other:
        tools = tools_of(recorded(server, secret()), "memory", answers, base_url=other.url)
        call(tools)
        assert "cookie" not in other.last.headers
    (missing,) = tools.missing_credentials()
    assert missing.reason == "elsewhere"


def test_it_follows_no_redirect_to_another_origin(server: Server, answers: Answers) -> None:
    with running_server() as other:
        server.answer = Answer(status=302, headers={"Location": f"{other.url}/orders"})
        with pytest.raises(ToolError, match="another server"):
            call(tools_of(recorded(server, secret()), "memory", answers))
        assert not other.seen


def test_it_does_not_go_by_plain_http_to_another_machine(server: Server, answers: Answers) -> None:
    made = dataclasses.replace(recorded(server, secret()), host="shop.example")
    made.document["servers"] = [{"url": made.origin}]
    asked: list[SessionOffer] = []
    (missing,) = tools_of(made, lambda offer: asked.append(offer) or "memory", answers).missing_credentials()  # type: ignore[func-returns-value]
    assert (missing.reason, asked) == ("open", [])
    allowed = tools_of(made, "memory", answers, allow_http=True, allow_http_credentials=True)
    assert not allowed.missing_credentials()


@pytest.mark.parametrize("value", ["a1b2c3d4; admin=1", "a1b2c3d4\r\nX-Evil: 1", "a1b2c3d4\x00"], ids="abc")
def test_a_value_that_would_begin_something_else_is_none(server: Server, answers: Answers, value: str) -> None:
    call(tools_of(recorded(server, secret(value)), "memory", answers))
    assert "cookie" not in server.last.headers


# -- until it is over --------------------------------------------------------------------------------------------------


def test_an_expired_one_is_missing_with_the_reason_and_nobody_is_asked(server: Server, answers: Answers) -> None:
    asked: list[SessionOffer] = []
    over = secret(expires=datetime.now(UTC) - timedelta(minutes=1))
    tools = tools_of(recorded(server, over), lambda offer: asked.append(offer) or "memory", answers)  # type: ignore[func-returns-value]
    call(tools)
    (missing,) = tools.missing_credentials()
    assert (missing.reason, asked) == ("expired", [])
    assert "cookie" not in server.last.headers


def test_a_log_out_in_the_recording_ends_it(server: Server, answers: Answers) -> None:
    (missing,) = tools_of(recorded(server, secret("")), "memory", answers).missing_credentials()
    assert missing.reason == "ended"


def test_a_refusal_ends_it_and_a_success_does_not(server: Server, answers: Answers) -> None:
    tools = tools_of(recorded(server, secret()), "memory", answers)
    server.answer = Answer(status=401)
    with pytest.raises(ToolError, match=r"recorded in shop\.har on 2026-05-03") as caught:
        call(tools)
    assert caught.value.cause == "credential"
    assert "ATC_AUTH_COOKIE_SID" in caught.value.message
    assert "record again" in caught.value.message
    (missing,) = tools.missing_credentials()
    assert missing.reason == "refused"
    server.reset()
    call(tools)
    assert not tools.missing_credentials()


def test_a_way_to_the_login_page_is_a_refusal(server: Server, answers: Answers) -> None:
    server.answers["/orders"] = Answer(status=302, headers={"Location": "/users/sign_in?next=/orders"})
    tools = tools_of(recorded(server, secret()), "memory", answers)
    with pytest.raises(ToolError, match="login page") as caught:
        call(tools)
    assert (caught.value.status, caught.value.cause) == (401, "credential")
    assert tools.missing_credentials()[0].reason == "refused"
    assert "status 302 to the login page /users/sign_in" in caught.value.message
    assert "status 401" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "to", "path", "refused"),
    [
        (302, "/login?next=/orders", "/orders", True),
        (303, "/login?lang=en&return_to={url}/orders", "/orders", True),
        (307, "/login", "/orders", True),
        (302, "/login", "/orders", False),
        (302, "/login?next=/", "/orders", False),
        (302, "/login?next=https://elsewhere.example/orders", "/orders", False),
        (302, "/login?next=/password", "/password", False),
        (302, "/login?next=/users/logout", "/users/logout", False),
    ],
)
def test_a_write_that_is_sent_to_the_login_page_was_refused_if_that_page_leads_back_to_it(
    server: Server, answers: Answers, tmp_path: Path, status: int, to: str, path: str, refused: bool
) -> None:
    made = recorded(server, secret())
    made.document["paths"] = {path: made.document["paths"]["/orders"]}
    given: dict[str, Any] = {"runs_dir": tmp_path, "learn": False, "sentence": False}
    tools = tools_of(made, "memory", answers, allow_writes=True)
    server.answers[path] = Answer(status=status, headers={"Location": to.format(url=server.url)})
    with Agent(tools, model=FakeModel([ORDERS]), approve="always", **given) as agent:
        result = agent.run("Order.")
    assert result.fault is not None
    assert f"status {status} to the login page /login" in result.fault.message
    assert "record again" in result.fault.message
    assert result.status == ("missing" if refused else "in_doubt")
    assert len(server.seen) == 1
    server.answers.clear()
    with Agent(tools, model=FakeModel([ORDERS]), approve="always", **given) as agent:
        result = agent.resume(result.run_id)
    assert (result.status, len(server.seen)) == (("answered", 2) if refused else ("in_doubt", 1))


def test_a_page_that_a_write_leads_to_and_that_wants_a_login_leaves_it_in_doubt(
    server: Server, answers: Answers
) -> None:
    server.answers["/orders"] = Answer(status=303, headers={"Location": "/receipt"})
    server.answers["/receipt"] = Answer(status=302, headers={"Location": "/login?next=/receipt"})
    with pytest.raises(ToolError, match="does not say whether it acted") as caught:
        call(tools_of(recorded(server, secret()), "memory", answers), "order")
    assert (caught.value.outcome, caught.value.cause) == ("unknown", "in_doubt")


def test_a_token_that_was_another_one_again_and_again_is_sent_and_said(server: Server, answers: Answers) -> None:
    made = recorded(server, secret(changes=2))
    tools = tools_of(made, "memory", answers)
    call(tools)
    assert server.last.headers["cookie"] == f"sid={SECRET}"
    assert [each.reason for each in tools.missing_credentials()] == ["changes"]
    assert not tools_of(recorded(server, secret(changes=1)), "memory", answers).missing_credentials()


def test_the_wallet_counts_what_no_cookie_explains_and_knows_when_a_cookie_ends(tmp_path: Path) -> None:
    login = calls.call("/login", {}, method="POST", set_cookies=(f"sid={SECRET}; Max-Age=60",))
    sent = [
        {"x-csrf-token": f"t0ken{n}a1b2c3d4e5f6", "cookie": f"sid={SECRET}; mark=m4rk{n}q1w2e3r4t5y6"} for n in range(4)
    ]
    doubled = [{**each, "x-xsrf-token": f"m4rk{n}q1w2e3r4t5y6"} for n, each in enumerate(sent)]
    path = calls.write(
        tmp_path / "a.har",
        calls.page(),
        login,
        *(calls.call(f"/a?n={n}", {"n": n}, headers=each) for n, each in enumerate(doubled)),
    )
    (made,) = read_har(path)
    found = {each.wire: each for each in made.secrets.values()}
    assert {name: each.changes for name, each in found.items()} == {
        "sid": 0,
        "mark": 0,
        "x-csrf-token": 3,
        "x-xsrf-token": 0,
    }
    assert found["sid"].expires == datetime(2026, 3, 1, 10, 1, tzinfo=UTC)


def test_the_cookies_that_are_left_are_sent(server: Server, answers: Answers) -> None:
    gone = secret("m4rks-000", scheme="cookie_seen", wire="seen", expires=NOW - timedelta(days=1))
    made = recorded(server, secret(), gone, security=[{"cookie_sid": [], "cookie_seen": []}])
    tools = tools_of(made, "memory", answers)
    call(tools)
    assert server.last.headers["cookie"] == f"sid={SECRET}"
    assert [(each.scheme, each.reason) for each in tools.missing_credentials()] == [("cookie_seen", "expired")]


@pytest.mark.parametrize(
    ("choice", "more", "reason"),
    [("none", {}, "declined"), ("memory", {"expires": NOW - timedelta(days=1)}, "expired")],
)
def test_what_is_missing_is_named_and_not_what_is_set_beside_it(
    server: Server, answers: Answers, monkeypatch: pytest.MonkeyPatch, choice: Any, more: Any, reason: str
) -> None:
    monkeypatch.setenv("ATC_AUTH_COOKIE_SID", "mine-5678")
    token = secret("t0k3n-a1b2c3d4", scheme="bearer", location="header", wire="Authorization", **more)
    made = recorded(server, secret(**more), token, security=[{"cookie_sid": [], "bearer": []}])
    tools = tools_of(made, choice, answers)
    server.answer = Answer(status=401)
    with pytest.raises(ToolError, match="ATC_AUTH_BEARER"):
        call(tools, "order")
    assert [(each.variable, each.reason) for each in tools.missing_credentials()] == [("ATC_AUTH_BEARER", reason)]


# -- a write says whose it is ------------------------------------------------------------------------------------------

ORDERS = "```python\nanswer = order()\n```"


def session(**more: Any) -> RecordedSession:
    given: dict[str, Any] = {"file": "shop.har", "origin": "https://shop.example", "carriers": ("cookie sid",)}
    return RecordedSession(**{**given, "recorded_at": "2026-05-03T10:00:00+00:00", **more})


def test_a_question_about_a_write_says_whose_session_it_is(
    server: Server, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    tools = tools_of(recorded(server, secret()), "memory", answers)
    with Agent(tools, model=FakeModel([ORDERS]), approve=approve, keep_runs=False) as agent:
        assert agent.run("Order.").status == "answered"
    (request,) = asked
    said = f"the session that was recorded in shop.har on 2026-05-03 for {server.url} (cookie sid)"
    assert any(said in line for line in careful(request.data_flow))
    assert any(said in line for line in question_of(request)[3].careful)
    assert SECRET not in repr(request)


def test_a_yes_to_all_does_not_cover_it_unless_it_is_named_for_writes(
    server: Server, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: False)
    made = recorded(server, secret())
    results = []
    for allow in (False, True):
        tools = tools_of(made, "memory", answers, allow_writes=allow)
        with Agent(tools, model=FakeModel([ORDERS]), approve="always", keep_runs=False) as agent:
            results.append(agent.run("Order."))
        assert len(server.seen) == allow
    assert [result.status for result in results] == ["denied", "answered"]
    assert "allow_session_writes" in str(results[0].calls[0].error)
    assert results[0].fault is not None
    assert "No yes to all calls covers it" in results[0].fault.hint


def test_at_a_terminal_yes_to_all_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: True)
    request = ApprovalRequest("order", {}, Effect.WRITE, "Order.", session=session())
    assert Approval("always").decide(request) is ask_at_terminal
    assert Approval("always", "allow").decide(request) is ask_at_terminal
    assert not request.is_ordinary
    assert Approval("always").decide(dataclasses.replace(request, session=session(for_writes=True))) == "allowed"


@pytest.mark.parametrize("allow", [False, True])
def test_a_rule_that_allows_the_tool_allows_no_session(
    server: Server, answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, allow: bool
) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: False)
    tools = tools_of(recorded(server, secret()), "memory", answers, allow_writes=allow)
    rules = written(tmp_path, '[[rules]]\nallow = "order"\n')
    with Agent(tools, model=FakeModel([ORDERS]), permissions=rules, keep_runs=False, max_revisions=0) as agent:
        result = agent.run("Order.")
    assert (result.status, len(server.seen)) == (("answered", 1) if allow else ("denied", 0))


def test_a_write_that_waits_says_whose_session_it_is_and_its_yes_holds_for_that_one(
    server: Server, answers: Answers, tmp_path: Path
) -> None:
    tools = tools_of(recorded(server, secret()), "memory", answers)
    with Agent(tools, model=FakeModel([ORDERS]), approve="park", runs_dir=tmp_path) as agent:
        waiting = agent.run("Order.")
    (call,) = waiting.pending
    assert any("recorded in shop.har" in line for line in plans.pending_call(call))
    assert SECRET not in "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    again = tools_of(
        recorded(server, secret("another-login-000001", recorded_at=NOW + timedelta(1))), "memory", answers
    )
    assert digest_of(tools["order"]) != digest_of(again["order"])


def test_a_plan_says_whose_session_it_is_and_is_applied_with_that_one_alone(
    server: Server, answers: Answers, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"runs_dir": tmp_path, "learn": False, "sentence": False}
    tools = tools_of(recorded(server, secret()), "memory", answers)
    with Agent(tools, model=FakeModel([ORDERS]), **given) as agent:
        planned = agent.run("Order.", dry_run=True)
    assert planned.dry_run is not None
    (said,) = careful_of_plan(planned.dry_run.planned)
    assert "recorded in shop.har on 2026-05-03" in said
    other = secret("another-login-000001", recorded_at=NOW + timedelta(days=1))
    for login, sent in ((other, 0), (secret(), 1)):
        with Agent(tools_of(recorded(server, login), "memory", answers), model=FakeModel([]), **given) as agent:
            applied = agent.apply(planned.run_id)
        assert len(server.seen) == sent, applied.status


def test_the_dialogs_of_a_client_and_the_page_say_it_too() -> None:
    request = ApprovalRequest("order", {"sku": "x"}, Effect.WRITE, "Order.", session=session())
    assert "recorded in shop.har on 2026-05-03" in message_of(request, Redactor(), 60.0)
    (said,) = shown_arguments(Redactor(), request.arguments, (), request.data_flow)["careful"]
    assert "recorded in shop.har on 2026-05-03" in said


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="only Unix has such modes")
def test_a_recording_that_others_can_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "shop.har"
    path.write_text("{}")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        warn_of_readers(path)
        assert not caplog.records
        path.chmod(0o644)
        warn_of_readers(path)
    assert f"chmod 600 {path}" in caplog.text

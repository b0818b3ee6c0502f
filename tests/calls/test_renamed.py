"""A write belongs to a tool, not to a name: what is renamed, replaced, taken away or graded anew does nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc._host.redaction import Redactor
from atc._records.records import Replacement, SameCall
from atc.calls import question
from atc.calls.approval import Approval, ApprovalRequest, Refusal, ask_at_terminal
from atc.calls.broken_tools import Alike, nothing_alike
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallReply, CallRequest
from atc.calls.entry import CallKey, call_key
from atc.calls.journal import Journal
from atc.calls.permissions import Who
from atc.calls.permissions.guard import Guard, is_odd
from atc.errors import JournalError, ToolError
from atc.result import Effect
from atc.schemas.protocol import Source, SourceKey
from atc.serve.frameworks.delegate import key_of
from atc.serve.mcp.asking import message_of
from atc.serve.mcp.client import Writes, WritesOfOthers
from atc.tools.mcp.spec import read_specs
from atc.tools.tool import Tool, Toolset
from tests.support.broker import READ, WRITE
from tests.support.permissions import written
from tests.support.tools import make_tool

LOST = ToolError("lost", outcome="unknown")


def served(
    name: str, server: str, function: Callable[..., Any], effect: Effect = WRITE, operation: str = "send"
) -> Tool:
    """A tool of a server, under the name that programs use now."""
    made = make_tool(name, function, effect)
    source = Source(kind="mcp", location=f"{server} (cmd)", operation=operation, server=server)
    return replace(made, protocol=made.protocol.model_copy(update={"source": source}))


class Run:
    """One run, whose tools change between its programs."""

    def __init__(self, journal: Journal | None = None, *, refused: bool = False) -> None:
        self.journal = journal or Journal()
        self.sent: list[tuple[str, Any]] = []
        self.asked: list[ApprovalRequest] = []
        self.fails: Exception | None = None
        self._refused = refused
        self.broker: Broker

    def server(self, name: str, server: str, effect: Effect = WRITE, operation: str = "send") -> Tool:
        def function(arguments: dict[str, Any]) -> Any:
            self.sent.append((server, arguments["n"]))
            if self.fails is not None:
                raise self.fails
            return server

        return served(name, server, function, effect, operation)

    def ask(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return not (self._refused and request.is_repeat)

    def program(
        self, *tools: Tool, approve: Any = None, known: tuple[Tool, ...] = (), alike: Alike = nothing_alike
    ) -> Broker:
        """Begin another program, with these tools alone."""
        self.broker = Broker(
            tools=Toolset(tools),
            journal=self.journal,
            emit=lambda kind, data: None,
            policy=CallPolicy(retry_wait_s=0.001),
            approval=Approval(approve or self.ask),
            alike=alike,
        )
        if known:
            self.broker.know(Toolset([*tools, *known]))
        self.broker.begin_program()
        return self.broker

    def call(self, tool: str, n: int = 1) -> CallReply:
        return asyncio.run(self.acall(tool, n))

    async def acall(self, tool: str, n: int = 1) -> CallReply:
        return await self.broker.call(CallRequest(1, tool, {"n": n}, 1))


# -- renamed -----------------------------------------------------------------------------------------------------------


def test_a_renamed_tools_write_is_answered_from_the_journal() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.program(run.server("mail_send", "mail"), run.server("evil_send", "evil"))
    assert run.call("mail_send").value == "mail"
    assert run.broker.calls[-1].status == "replayed"
    assert run.sent == [("mail", 1)]
    assert run.call("evil_send").value == "evil", "another tool is another tool"
    assert [each.is_repeat for each in run.asked] == [False, False]


def test_a_renamed_tools_write_in_doubt_is_not_made_again() -> None:
    run = Run()
    run.fails = LOST
    run.program(run.server("send", "mail"))
    run.call("send")
    run.fails = None
    run.program(run.server("mail_send", "mail"))
    assert run.call("mail_send", 2).status == "in_doubt", "nor with other arguments, before it is asked for"
    assert run.call("mail_send").status == "in_doubt"
    assert run.sent == [("mail", 1)]


def test_what_an_earlier_stage_did_under_another_name_is_not_done_again() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.broker.begin_stage()
    run.program(run.server("mail_send", "mail"))
    assert run.call("mail_send").status == "already_done"
    assert run.journal.committed(run.broker.key_of(run.broker.calls[-1])) is not None


def test_a_renamed_tool_is_asked_for_what_it_did_before_it_does_something_else() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.program(run.server("mail_send", "mail"))
    assert run.call("mail_send", 2).status == "already_done"
    assert run.call("mail_send", 1).value == "mail"
    assert run.call("mail_send", 2).value == "mail"
    assert run.sent == [("mail", 1), ("mail", 2)]


def test_the_nth_answers_the_nth_under_both_names() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    first = run.call("send").value
    run.program(run.server("mail_send", "mail"))
    run.call("mail_send")
    run.call("mail_send")
    run.program(run.server("send", "mail"))
    assert [run.call("send").value for _ in range(2)] == [first] * 2
    assert len(run.sent) == 2


def test_a_tool_that_two_servers_are_known_by_goes_by_its_name() -> None:
    run = Run()
    run.program(run.server("one_send", "mail"), run.server("two_send", "mail"))
    run.call("one_send")
    run.program(run.server("one_send", "mail"), run.server("two_send", "mail"))
    assert run.call("two_send").value == "mail"
    assert run.call("one_send").value == "mail"
    assert (len(run.sent), run.broker.calls[-1].status) == (2, "replayed")


# -- another tool of that name, or none --------------------------------------------------------------------------------


@pytest.mark.parametrize("in_doubt", [False, True])
def test_another_servers_tool_of_that_name_is_asked_about_as_a_repeat(in_doubt: bool) -> None:
    run = Run()
    run.fails = LOST if in_doubt else None
    run.program(run.server("send", "mail"))
    run.call("send")
    run.fails = None
    run.program(run.server("send", "evil"))
    assert run.call("send").value == "evil", "it is never answered from what another tool did"
    assert run.asked[-1].is_repeat
    assert run.asked[-1].same_as == SameCall(number=1, tool="send", in_doubt=in_doubt)
    assert run.broker.calls[-1].notes[-1].startswith("the same as call 1")


def test_without_somebody_to_ask_it_is_not_made() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.program(run.server("send", "evil"), approve="always")
    reply = run.call("send")
    assert (reply.status, run.sent) == ("denied", [("mail", 1)])
    assert "call 1 (send) did the same" in str(reply.error)
    assert run.call("send", 2).value == "evil", "another request is none"


def test_a_read_of_another_server_is_read() -> None:
    run = Run()
    run.program(run.server("look", "mail", READ))
    run.call("look")
    run.program(run.server("look", "evil", READ))
    assert run.call("look").value == "evil"


def test_while_a_tool_is_gone_an_equal_write_is_asked_about() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.program(run.server("post", "other"))
    run.call("post", 2)
    run.call("post", 1)
    assert [each.is_repeat for each in run.asked] == [False, False, True]
    run.program(run.server("post", "third"), known=(run.server("send", "mail"), run.server("post2", "other")))
    run.call("post", 1)
    assert not run.asked[-1].is_repeat or run.asked[-1].same_as != SameCall(number=1, tool="send"), (
        "a tool that is there and is not granted is not gone"
    )


def test_a_new_request_may_do_what_a_tool_did_that_is_gone() -> None:
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send")
    run.broker.begin_stage(new_request=True)
    run.program(run.server("post", "other"))
    run.call("post")
    assert not run.asked[-1].is_repeat


# -- journals that know no source --------------------------------------------------------------------------------------

DIGEST = call_key("send", {"n": 1}).digest
BEGUN = {"call": 1, "begin": "send", "key": DIGEST, "args": {"n": 1}, "effect": "write", "attempt": 0}


@pytest.mark.parametrize("done", [True, False])
def test_a_call_whose_source_is_not_known_is_known_by_its_name(tmp_path: Path, done: bool) -> None:
    path = tmp_path / "journal.jsonl"
    records = [{**BEGUN, "stage": 0, "boot": "another"}, {"call": 1, "sent": True}]
    records += [{"call": 1, "value": "old"}] if done else []
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    run = Run(Journal(path))
    run.program(run.server("send", "mail"))
    reply = run.call("send")
    assert (reply.value, reply.status) == (("old", None) if done else (None, "in_doubt"))
    run.program(run.server("mail_send", "mail"), run.server("send", "evil"))
    run.call("mail_send")
    assert run.asked[-1].is_repeat, "it had this name at its server"
    run.journal.release()


@pytest.mark.parametrize("source", ["mail", ["mcp", "mail"], ["mcp", "mail", 1], {"kind": "mcp"}])
def test_a_journal_that_knows_a_tool_by_something_else_is_refused(tmp_path: Path, source: Any) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps({**BEGUN, "source": source}) + "\n")
    with pytest.raises(JournalError):
        Journal(path)


def test_a_resumed_run_knows_the_tool_by_its_source(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    run = Run(Journal(path))
    run.program(run.server("send", "mail"))
    run.call("send")
    run.journal.release()
    again = Run(Journal(path))
    again.program(again.server("mail_send", "mail"))
    assert (again.call("mail_send").value, again.sent) == ("mail", [])
    again.journal.release()


# -- graded anew -------------------------------------------------------------------------------------------------------


def test_what_was_begun_as_a_write_stays_one_whatever_its_server_says_now() -> None:
    run = Run()
    run.fails = LOST
    run.program(run.server("send", "mail"))
    run.call("send")
    run.fails = None
    run.program(run.server("send", "mail", READ))
    assert run.call("send").status == "in_doubt"
    assert run.sent == [("mail", 1)]


@pytest.mark.parametrize("before", [WRITE, Effect.UNKNOWN])
@pytest.mark.parametrize("name", ["send", "mail_send"])
def test_a_tool_that_acted_is_cut_off_as_a_write_though_it_is_said_to_read_now(before: Effect, name: str) -> None:
    run = Run()
    run.program(run.server("send", "mail", before))
    run.call("send", 1)
    run.fails = ToolError("lost", transient=True, outcome="unknown")
    run.program(run.server(name, "mail", READ))
    assert run.call(name, 1).value == "mail", "it is answered from the journal, and asked for"
    run.call(name, 2)
    assert run.sent == [("mail", 1), ("mail", 2)], "nor is it tried again, as a read is"
    call = run.broker.calls[-1]
    assert (call.status, call.effect) == ("in_doubt", before)
    run.fails = None
    run.program(run.server(name, "mail", READ))
    assert run.call(name, 2).status == "in_doubt"
    assert run.sent == [("mail", 1), ("mail", 2)]


def test_so_it_is_after_its_process_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    run = Run(Journal(path))
    run.program(run.server("send", "mail"))
    run.call("send", 1)
    run.journal.release()
    killed = Run(Journal(path))
    tool = killed.server("send", "mail", READ)
    left = path.read_bytes()

    def kill(arguments: dict[str, Any]) -> None:
        nonlocal left
        left = path.read_bytes()  # nothing is written after this

    killed.program(replace(tool, transport=make_tool("send", kill).transport))
    killed.call("send", 1)
    killed.call("send", 2)
    killed.journal.release()
    path.write_bytes(left)
    again = Run(Journal(path))
    doubt = again.journal.in_doubt()
    assert doubt is not None
    assert (doubt.arguments, doubt.effect) == ({"n": 2}, WRITE)
    again.program(again.server("send", "mail", READ))
    assert again.call("send", 2).status == "in_doubt"
    assert again.sent == []
    again.journal.release()


def test_and_it_is_asked_about() -> None:
    run = Run()
    run.program(run.server("send", "mail"), run.server("look", "mail", READ, "look"))
    run.call("send", 1)
    run.call("look", 1)
    run.program(run.server("send", "mail", READ), run.server("look", "mail", READ, "look"), approve="never")
    assert run.call("send", 1).value == "mail"
    assert run.call("send", 2).status == "denied"
    assert run.call("look", 2).value == "mail", "what only ever read is read"
    run.program(run.server("send", "evil", READ), approve="never")
    assert run.call("send", 3).value == "evil", "nor does the name alone make another tool a write"
    assert run.sent == [("mail", 1), ("mail", 1), ("mail", 2), ("evil", 3)]


@pytest.mark.parametrize("cut", [ToolError("gone", status="timeout", outcome="unknown"), None])
def test_a_read_whose_outcome_is_unknown_is_asked_about_once_its_tool_says_that_it_writes(
    cut: ToolError | None, tmp_path: Path
) -> None:
    run = Run(Journal(tmp_path / "journal.jsonl"), refused=True)
    run.fails = cut
    run.program(run.server("send", "mail", READ))
    run.call("send", 1)
    run.journal.release()
    run = Run(Journal(tmp_path / "journal.jsonl"), refused=True)
    run.program(run.server("store", "mail"), approve=lambda _: pytest.fail("asked") if cut is None else run.ask(_))
    reply = run.call("store", 1)  # of a read that was answered, the answer counts
    assert (reply.status, run.sent) == (("denied", []) if cut else (None, []))
    if cut is None:
        return
    (asked,) = run.asked
    assert asked.same_as == SameCall(number=1, tool="send", in_doubt=True, own=True, was_read=True)
    assert "call 1 (send) may have done the same" in message_of(asked, Redactor((), {}), 60)
    run.program(run.server("store", "mail"), approve="always")
    assert run.call("store", 1).status == "denied", "nobody could be asked about a repeat"
    assert run.call("store", 2).value == "mail"


@pytest.mark.parametrize(("said", "status"), [("read", "in_doubt"), ("write", "refused")])
def test_the_users_own_word_decides_who_is_asked_and_not_what_is_in_doubt(
    tmp_path: Path, said: str, status: str
) -> None:
    permissions = written(tmp_path, f'[effects]\n"send" = "{said}"')
    run = Run()
    run.program(run.server("send", "mail"))
    run.call("send", 1)
    run.fails = LOST
    run.program(run.server("send", "mail", READ))
    run.broker.approval = Guard(permissions, Who(), lambda _: Refusal("nobody is there")).approval()
    run.call("send", 1)
    run.call("send", 2)
    assert run.broker.calls[-1].status == status


def test_nor_does_a_look_alike_that_acted_before() -> None:
    run = Run()
    run.program(run.server("post", "other"), run.server("send", "mail"))
    run.call("post", 5)
    run.fails = LOST
    run.call("send")
    run.fails = None
    tools = run.server("post", "other", READ), run.server("send", "mail")
    run.program(*tools, alike=lambda tool, by: (tool, by) == ("send", "post"))
    run.call("post", 5)
    assert run.call("post").status == "in_doubt"


def test_a_doubt_holds_back_what_does_the_same_as_the_renamed_tool() -> None:
    run = Run()
    run.fails = LOST
    run.program(run.server("send", "mail"))
    run.call("send")
    run.fails = None
    tools = run.server("mail_send", "mail"), run.server("post", "other")
    run.program(*tools, alike=lambda tool, by: (tool, by) == ("mail_send", "post"))
    assert run.call("post", 7).status == "in_doubt"


def test_a_ban_follows_the_tool_and_its_substitute(tmp_path: Path) -> None:
    run = Run(Journal(tmp_path / "journal.jsonl"))
    run.program(run.server("send", "mail"), run.server("post", "other"))
    run.fails = ToolError("down", status=503)
    run.call("send")
    run.fails = None
    run.broker.ban("send", [Replacement(tool="post", arguments=(("n", "n"),))])
    run.journal.release()
    again = Run(Journal(tmp_path / "journal.jsonl"))
    again.program(again.server("mail_send", "mail"), again.server("other_post", "other"))
    assert again.call("mail_send").status == "banned"
    assert again.call("other_post").value == "other"
    assert again.asked[-1].instead_of == ("mail_send",)
    again.journal.release()


# -- twice in one program ----------------------------------------------------------------------------------------------


def test_two_equal_writes_of_one_program_are_made_and_noted() -> None:
    run = Run()
    run.program(run.server("send", "mail"), approve="always")
    run.call("send")
    run.call("send")
    assert run.sent == [("mail", 1), ("mail", 1)]
    assert [call.notes for call in run.broker.calls] == [(), ("the same as call 1",)]


def test_the_question_says_that_it_is_the_same_also_side_by_side() -> None:
    run = Run()
    run.program(run.server("send", "mail"))

    async def both() -> None:
        await asyncio.gather(run.acall("send"), run.acall("send"))

    asyncio.run(both())
    first, second = run.asked
    assert (first.same_as, first.is_repeat, second.is_repeat) == (None, False, False)
    assert second.same_as is not None
    assert second.same_as.own


# -- other runs of the same caller -------------------------------------------------------------------------------------


def test_another_runs_write_is_found_by_either() -> None:
    writes = Writes()
    mail, evil = SourceKey("mcp", "mail", "send"), SourceKey("mcp", "evil", "send")
    done = CallKey("send", DIGEST, mail)
    first = WritesOfOthers(writes, "run-1")
    assert first.take(done, None) is None
    first.settle(done, "done")
    second = WritesOfOthers(writes, "run-2")
    for key in (CallKey("mail_send", DIGEST, mail), CallKey("send", DIGEST, evil), CallKey("send", DIGEST)):
        found = asyncio.run(second.find(key))
        assert found is not None
        assert found.run == "run-1"
    assert asyncio.run(second.find(CallKey("evil_send", DIGEST, evil))) is None
    assert first.take(done, None) is None
    first.settle(done, "refused")
    assert asyncio.run(second.find(done)) is not None, "it was done before"


# -- what a tool is known by -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "identity"),
    [
        ({"mcpServers": {"mail": {"command": "npx", "args": ["@acme/mail@1.2.3"]}}}, "mail"),
        ("npx -y @acme/mail@1.2.3", "npx -y @acme/mail"),
        ("npx -y @acme/mail@2.0.0-beta.1", "npx -y @acme/mail"),
        ("npx @acme/mail@latest", "npx @acme/mail"),
        ("/usr/bin/uvx mail==1.2", "uvx mail"),
        ("uvx mail --host user@10.0.0.1", "uvx mail --host user@10.0.0.1"),
        ("python server.py a@1", "python server.py a@1"),
        ("https://user:s3cret@example.com:8443/mcp?key=s3cret", "https://example.com:8443"),
    ],
)
def test_a_server_is_known_by_what_stays(source: Any, identity: str) -> None:
    assert read_specs(source)[0].identity == identity


def test_a_server_is_known_by_no_credential() -> None:
    (spec,) = read_specs("npx mail --api-key s3cr3t-0123456789abcdef")
    assert "s3cr3t" not in spec.identity


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (Source(), None),
        (Source(kind="mcp", location="mail (cmd)"), None),
        (Source(kind="mcp", location="mail (cmd)", operation="send"), ("mcp", "mail (cmd)", "send")),
        (Source(kind="mcp", location="x", operation="send", server="mail"), ("mcp", "mail", "send")),
        (Source(kind="openapi", location="https://a:b@x.org/v2", operation="f"), ("openapi", "https://x.org", "f")),
        (Source(kind="function", location="tools:send", operation="send"), ("function", "tools:send", "send")),
    ],
)  # fmt: skip
def test_a_tool_is_known_by_its_source(source: Source, key: Any) -> None:
    assert source.key == key


def test_what_is_kept_of_it_is_bounded() -> None:
    key = Source(kind="mcp", location="x" * 10_000, operation="y" * 10_000).key
    assert key is not None
    assert max(map(len, key)) == 64


# -- what is said of it ------------------------------------------------------------------------------------------------

OWN = SameCall(number=7, tool="buy", own=True)
GONE = SameCall(number=7, tool="send")


def request(same: SameCall | None) -> ApprovalRequest:
    return ApprovalRequest("buy", {"n": 1}, WRITE, "", same_as=same)


@pytest.mark.parametrize(
    ("same", "heading"),
    [
        (None, "allow buy? "),
        (OWN, "allow buy, the same as call 7? "),
        (GONE, "allow buy again (call 7 (send) did the same, perhaps by this tool under another name)? "),
    ],
)
def test_the_terminal_says_what_was_done(
    same: SameCall | None, heading: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert asyncio.run(ask_at_terminal(request(same))) is not True
    assert heading in capsys.readouterr().err


@pytest.mark.parametrize(
    ("same", "line"), [(OWN, "It is the same as call 7."), (GONE, "Careful: call 7 (send) did the same")]
)
def test_a_clients_user_is_told_too(same: SameCall, line: str) -> None:
    assert line in message_of(request(same), Redactor((), {}), 60)


def test_an_allow_rule_allows_two_tickets_and_no_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: False)
    assert not is_odd(request(OWN))
    assert is_odd(request(GONE))
    assert Approval("always").decide(request(OWN)) == "allowed"
    assert Approval("always").decide(request(GONE)) == "denied"


def test_what_a_person_approved_later_is_the_call_that_was_shown() -> None:
    assert key_of(request(None)) != key_of(request(OWN))

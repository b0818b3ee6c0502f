"""Approvers: where the permissions name some, nobody else decides, and a resume verifies who did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, UsageError
from atc.calls.permissions.approvers import ApproverKey, encoded, statement
from atc.errors import SettingsError
from atc.result import Effect
from atc.run.approvals import decide, decider_of
from tests.run.test_parked_by_rule import PAY, Till
from tests.support.permissions import written
from tests.support.tools import make_tool

ANN, BOB, MALLORY = (ApproverKey.new() for _ in range(3))


def rules(**keys: str) -> str:
    lines = [f'{name} = {{ public_key = "{encoded(ApproverKey(key).public)}" }}' for name, key in keys.items()]
    return "\n".join(["[approvers]", *lines, ""])


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path, rules(ann=ANN, bob=BOB))


def unruled(till: Till, *programs: str, **given: Any) -> Agent:
    """An agent whose permissions name no approvers, as a shell may start one."""
    other = till.folder / "other"
    other.mkdir(exist_ok=True)
    (other / "permissions.toml").write_text("")
    (other / "permissions.toml").chmod(0o600)
    return till.agent(*programs, permissions=other / "permissions.toml", **given)


def records(till: Till, run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (till.folder / "runs" / run / "journal.jsonl").read_text().splitlines()]


def rewrite(till: Till, run: str, made: list[dict[str, Any]]) -> None:
    path = till.folder / "runs" / run / "journal.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in made))


@pytest.mark.parametrize("choice", ["always", "function", "park", None])
def test_every_call_that_needs_a_yes_waits_and_an_approver_decides(till: Till, choice: Any) -> None:
    approve = till.ask if choice == "function" else choice
    waiting = till.agent(PAY, approve=approve).run("pay 5")
    assert (waiting.status, till.asked, till.paid) == ("waiting", [], [])
    for deny in (False, True):
        with pytest.raises(UsageError, match="ATC_APPROVER_KEY"):
            till.agent().approve(waiting.run_id, deny=deny, by="ann")
    with pytest.raises(UsageError, match="none of an approver"):
        till.agent().approve(waiting.run_id, key=MALLORY)
    till.agent().approve(waiting.run_id, key=ANN, by="bob")
    done = till.agent(approve=approve).resume(waiting.run_id)
    assert (done.status, till.paid) == ("answered", [5])
    assert done.calls[0].notes[0].startswith("approved by ann")


def test_a_signed_yes_holds_for_a_call_with_bytes(till: Till) -> None:
    put: list[Any] = []
    tools = [make_tool("put", lambda given: put.append(given["data"]), Effect.WRITE, data={})]
    given = {"permissions": till.rules, "runs_dir": till.folder / "runs", "sentence": False}
    with Agent(tools, model=FakeModel(['put(data=b"\\xff")\nanswer = 1']), **given) as agent:
        waiting = agent.run("put it")
        (shown,) = agent.approve(waiting.run_id, key=ANN)
        assert (shown.arguments, agent.resume(waiting.run_id).status) == ({"data": b"\xff"}, "answered")
    assert put == [b"\xff"]


def test_a_row_whose_keys_look_alike_can_be_signed(till: Till) -> None:
    tools = [
        make_tool("find", lambda given: {"rows": [{"id": "o17", "e\u0301": "a", "\u00e9": "b"}]}, q={}),
        make_tool("put", lambda given: "done", Effect.WRITE, data={}),
    ]
    given = {"permissions": till.rules, "runs_dir": till.folder / "runs", "sentence": False}
    model = FakeModel(['answer = put(data=find(q="x")["rows"][0]["id"])'])
    with Agent(tools, model=model, **given) as agent:
        waiting = agent.run("put it")
        (shown,) = agent.approve(waiting.run_id, key=ANN)
        assert len(shown.feeds[0].row) == 2
        assert agent.resume(waiting.run_id).status == "answered"


def test_the_key_of_the_settings_counts(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = till.agent(PAY).run("pay 5")
    monkeypatch.setenv("ATC_APPROVER_KEY", BOB)
    till.agent().approve(waiting.run_id, deny=True)
    done = till.agent().resume(waiting.run_id)
    assert (done.status, till.paid, done.calls[0].error) == ("denied", [], "bob did not approve this call")
    assert BOB not in (till.folder / "runs" / waiting.run_id / "trace.jsonl").read_text()


def test_a_decision_without_settings_of_its_own_is_held_to_those_of_the_process(
    till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = till.agent(PAY)
    stored = agent.store.run(agent.run("pay 5").run_id)
    monkeypatch.setenv("ATC_PERMISSIONS", str(till.rules))
    with pytest.raises(UsageError, match=r"\[approvers\]"):  # as the page or a server may decide
        decide(stored, None, yes=True, by="ann")


@pytest.mark.parametrize("yes", [True, False])
def test_a_decision_by_other_permissions_is_none_and_the_call_is_asked_about_again(till: Till, yes: bool) -> None:
    waiting = till.agent(PAY).run("pay 5")
    unruled(till).approve(waiting.run_id, by="ann", deny=not yes)
    with pytest.raises(UsageError, match=r"before, by ann.*: that counts for nothing here"):
        till.agent().approve(waiting.run_id, calls=[1], key=BOB)
    again = till.agent().resume(waiting.run_id)
    assert (again.status, len(again.pending), till.paid) == ("waiting", 1, [])
    till.agent().approve(waiting.run_id, key=ANN)
    assert (till.agent().resume(waiting.run_id).status, till.paid) == ("answered", [5])


def test_a_signature_counts_nowhere_that_its_approver_is_not_named(till: Till) -> None:
    waiting = unruled(till, PAY, approve="park").run("pay 5")
    till.agent().approve(waiting.run_id, key=ANN)  # who has a shell can write a file with a key of their own
    again = unruled(till).resume(waiting.run_id)
    assert (again.status, till.paid) == ("waiting", [])


@pytest.mark.parametrize("forged", ["yes", "other run", "other call", "other tool", "other time", "name", "none"])
def test_a_record_that_no_approver_signed_sends_nothing(till: Till, forged: str) -> None:
    agent = till.agent("pay(cents=5)\npay(cents=6)\nanswer = 1")
    waiting = agent.run("pay 5 and 6")
    agent.approve(waiting.run_id, calls=[1], key=ANN, deny=forged == "yes")
    if forged == "other call":
        agent.approve(waiting.run_id, calls=[2], key=ANN, deny=True)
    made = records(till, waiting.run_id)
    decision = next(record for record in made if record.get("decision") == 1)
    parked = next(record for record in made if record.get("pending") == 1)
    match forged:
        case "yes":
            decision["yes"] = True
        case "other run":
            other = till.agent("pay(cents=5)\npay(cents=6)\nanswer = 1").run("pay 5 and 6").run_id
            rewrite(till, other, [*records(till, other), decision])
            waiting = waiting.model_copy(update={"run_id": other})
            made = records(till, other)
        case "other call":
            second = next(record for record in made if record.get("decision") == 2)
            second |= {"yes": True, "signature": decision["signature"]}
            made.remove(decision)
        case "other tool":
            parked["parts"]["code"] = "0" * 64
        case "other time":
            parked["until"] = parked["shown"]["until"] = parked["until"] + 9e7
        case "name":
            decision["by"] = "bob"
        case "none":
            decision["signature"] = ""
    rewrite(till, waiting.run_id, made)
    again = till.agent().resume(waiting.run_id)
    assert (again.status, till.paid) == ("waiting", [])


@pytest.mark.parametrize("what", ["arguments", "tool"])
def test_a_call_that_was_shown_as_another_one_is_not_made(till: Till, what: str) -> None:
    waiting = till.agent(PAY).run("pay 5")
    made = records(till, waiting.run_id)
    parked = next(record for record in made if "pending" in record)
    parked["shown"][what] = {"cents": 1} if what == "arguments" else "book"
    rewrite(till, waiting.run_id, made)
    till.agent().approve(waiting.run_id, key=ANN)  # who sees nothing of that
    again = till.agent().resume(waiting.run_id)
    assert (again.status, [call.arguments for call in again.pending], till.paid) == ("waiting", [{"cents": 5}], [])


def test_arguments_in_another_unicode_form_are_the_ones_that_were_shown(till: Till) -> None:
    waiting = till.agent('answer = book(room="cafe\u0301 \U0001f600")').run("book it")
    till.agent().approve(waiting.run_id, key=ANN)
    assert till.agent().resume(waiting.run_id).status == "answered"


def test_what_was_shown_is_a_part_of_what_is_signed(till: Till) -> None:
    agent = till.agent(PAY)
    waiting = agent.run("pay 5")
    journal = agent.store.run(waiting.run_id).open_journal()
    (call,) = journal.parked.waiting()
    journal.close()
    said = statement("r", call, yes=True)
    shown = call.shown.model_copy(update={"arguments": {"cents": 1}})
    others = [replace(call, shown=shown), replace(call, number=2), replace(call, at=call.at + 1)]
    texts = [said, statement("q", call, yes=True), statement("r", call, yes=False)]
    texts += [statement("r", other, yes=True) for other in others]
    assert len(set(texts)) == 6


def test_a_signature_made_elsewhere_counts_and_no_other(till: Till) -> None:
    agent = till.agent(PAY)
    waiting = agent.run("pay 5")
    stored = agent.store.run(waiting.run_id)
    journal = stored.open_journal()
    (call,) = journal.parked.waiting()
    journal.close()
    yes, no = (ApproverKey(ANN).sign(statement(waiting.run_id, call, yes=each)) for each in (True, False))
    given: dict[str, Any] = {"permissions": agent.permissions, "settings": agent.settings}
    for by, signature in (("bob", yes), ("ann", no), ("ann", "x"), ("ann", ""), ("mallory", yes)):
        with pytest.raises(UsageError, match="signature of approver"):
            decide(stored, [1], yes=True, decider=decider_of(by=by, signatures={1: signature}, **given))
    decide(stored, [1], yes=True, decider=decider_of(by="ann", signatures={1: yes}, **given))
    assert (till.agent().resume(waiting.run_id).status, till.paid) == ("answered", [5])


def test_the_audit_log_has_who_decided_where_and_nothing_is_decided_without_it(
    till: Till,
) -> None:
    waiting = till.agent("pay(cents=5)\npay(cents=6)\nanswer = 1").run("pay 5 and 6")
    till.agent().approve(waiting.run_id, calls=[1], key=ANN)
    till.agent().approve(waiting.run_id, calls=[2], key=BOB, deny=True)
    lines = [json.loads(line) for line in (till.folder / "audit.jsonl").read_text().splitlines()]
    said = [(line["verdict"], line["who"], line["via"], line["call"]) for line in lines if line.get("via")]
    assert said == [("approved", "ann", "python", 1), ("denied", "bob", "python", 2)]
    assert {line["run"] for line in lines} == {waiting.run_id}
    other = till.agent(PAY).run("pay 5")
    blocked = till.folder / "blocked"
    blocked.mkdir()
    with pytest.raises(Exception, match="audit log cannot be written"):
        till.agent(audit=blocked).approve(other.run_id, key=ANN)
    assert (till.agent().resume(other.run_id).status, till.paid) == ("waiting", [])


def test_a_run_that_was_begun_under_permissions_does_not_go_on_without_any(till: Till) -> None:
    waiting = till.agent(PAY).run("pay 5")
    bare = till.agent(PAY, permissions=None, approve="always")
    with pytest.raises(UsageError, match=r"was begun under the permissions of .*\.toml, and here are none"):
        bare.resume(waiting.run_id)
    with pytest.raises(UsageError, match="was begun under the permissions"):
        bare.approve(waiting.run_id)
    planned = till.agent(PAY).run("pay 5", dry_run=True)
    with pytest.raises(UsageError, match="was begun under the permissions"):
        bare.apply(planned.run_id)
    assert (till.paid, till.agent().approve(waiting.run_id, key=ANN)[0].tool) == ([], "pay")


def test_who_asks_does_not_apply_a_plan(till: Till) -> None:
    planned = till.agent(PAY).run("pay 5", dry_run=True)
    assert planned.status == "planned"
    with pytest.raises(UsageError, match="say who decides"):
        till.agent().apply(planned.run_id)
    assert till.paid == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[approvers]", "approvers"),
        ('[approvers]\nann = { public_key = "abc" }', "no public key"),
        (f'[approvers]\nann = {{ public_key = "{ANN}" }}', "is a private key"),
        ('[approvers]\nann = { key = "abc" }', "no such key"),
        ("[approvers]\nann = {}", "public_key"),
        (f'[approvers]\n" ann" = {{ public_key = "{encoded(ApproverKey(ANN).public)}" }}', "a name has"),
    ],
    ids=["empty", "short", "private", "unknown", "missing", "name"],  # keys are new in every process
)
def test_what_is_not_understood_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as raised:
        written(tmp_path, text)
    assert ANN not in str(raised.value)


OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
PRIME = 2**255 - 19


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize(
    "y", [0, 1, PRIME - 1, OF_ORDER_8, PRIME - OF_ORDER_8, PRIME, PRIME + 1, PRIME + 3, 2**255 - 1, 2]
)
def test_a_public_key_that_is_no_key_of_somebody_is_refused(tmp_path: Path, y: int, sign: int) -> None:
    public = (y | sign << 255).to_bytes(32, "little")  # of small order, in another form, or (2) not on the curve
    with pytest.raises(SettingsError, match="others could sign"):
        written(tmp_path, f'[approvers]\nann = {{ public_key = "{encoded(public)}" }}')


@pytest.mark.parametrize(
    "text",
    ["", "atc-approver-private-", "abc", ANN[:-1], ANN + "A", encoded(ApproverKey(ANN).public)],
    ids=["empty", "prefix", "letters", "short", "long", "public"],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no approver's key") as raised:
        ApproverKey(text)
    assert ANN[30:60] not in str(raised.value)

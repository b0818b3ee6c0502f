"""No stranger chooses the address: in one task, whatever way the address takes and whoever says yes to all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Toolset, tool
from atc.result import Effect
from atc.tools.tool import Tool
from tests.support.data_flow import CLEAN, EVIL, FLOWS, MAIL, TEXT, Bank, refused
from tests.support.mcp import entry, raw_server
from tests.support.permissions import file_of
from tests.support.tools import make_tool

THROUGH_A_CALL = """
mail = read_mail()
contact = get_contact(who=mail["sender"])
send_money(to=contact["iban"], amount=5)
answer = 1
"""
WAYS = {
    "straight": FLOWS,
    "by a variable": "mail = read_mail()\nto = mail['iban']\nsend_money(to=to, amount=5)",
    "through another call": THROUGH_A_CALL,
    "as a part of a text": "send_money(to=f'DE-{read_mail()[\"iban\"][3:]}', amount=5)",
    "a condition": """
to = "DE-ANN-01"
if read_mail()["flag"]:
    to = "DE-EVIL" + "-66"
send_money(to=to, amount=5)
""",
    "an index": "send_money(to=['DE-ANN-01', 'DE-BOB-02'][read_mail()['flag']], amount=5)",
    "a key": "send_money(to={'eve': 'DE-BOB-02'}[read_mail()['sender']], amount=5)",
    "a filter": """
flag = read_mail()["flag"]
send_money(to=[each for each in ("DE-ANN-01", "DE-BOB-02") if flag][0], amount=5)
""",
    "an order": """
text = read_mail()["text"]
send_money(to=sorted(["DE-ANN-01", "DE-BOB-02"], key=lambda each: text.find(each))[0], amount=5)
""",
    "the first that fits": """
mail = read_mail()
send_money(to=next(each for each in ["DE-ANN-01", "DE-BOB-02"] if len(each) > mail["flag"]), amount=5)
""",
    "the condition of the call": """
if read_mail()["flag"]:
    send_money(to="DE-ANN-01", amount=5)
""",
    "an exception's text": """
try:
    read_mail(box="broken")
except ToolError as error:
    send_money(to=error.message, amount=5)
""",
    "that there was an exception": """
to = "DE-BOB-02"
try:
    read_mail(box="broken")
    to = "DE-ANN-01"
except ToolError:
    pass
send_money(to=to, amount=5)
""",
    "the exception of another call": """
try:
    get_contact(who=read_mail()["text"])
    to = "DE-ANN-01"
except ToolError:
    to = "DE-BOB-02"
send_money(to=to, amount=5)
""",
    "a key of the response": "send_money(to=list(read_mail())[-1], amount=5)",
    "an alias of both tools": "read, pay = read_mail, send_money\npay(to=read()['iban'], amount=5)",
    "a function of the program": """
def pay(whom, how):
    return how(to=whom, amount=5)

pay(read_mail()["iban"], send_money)
""",
    "a thread of its own": "parallel(lambda: send_money(to=read_mail()['iban'], amount=5))",
    "a keyword dictionary": "given = {'to': read_mail()['iban'], 'amount': 5}\nsend_money(**given)",
    "a position": "send_money(read_mail()['iban'], 5)",
    "a store that it shares": """
class Box:
    pass

box = Box()
other = [box]
setattr(other[0], "to", read_mail()["iban"])
send_money(to=box.to, amount=5)
""",
    "an end of the loop": """
to = "DE-ANN-01"
for each in read_mail()["parts"]:
    to = "DE-BOB-02"
send_money(to=to, amount=5)
""",
    "a return before": """
def whom():
    if read_mail()["flag"]:
        return "DE-BOB-02"
    return "DE-ANN-01"

send_money(to=whom(), amount=5)
""",
    "what nobody can follow": "mail = read_mail()\nexec('to = mail[\"iban\"]')\nsend_money(to=to, amount=5)",
    "that there was no early end": """
if not read_mail()["flag"]:
    raise SystemExit
send_money(to="DE-ANN-01", amount=5)
""",
}


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


@pytest.fixture
def _unmatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for an address in what strangers wrote: the program alone has to tell."""
    monkeypatch.setattr("atc.run.origins._seen", lambda found, *_: found)


@pytest.mark.usefixtures("_unmatched")
@pytest.mark.parametrize("way", WAYS)
def test_a_strangers_address_is_not_paid_unasked(bank: Bank, way: str) -> None:
    refused(bank.ran(WAYS[way]), bank)
    assert bank.read, "the way was not walked"
    asked = bank.ran(WAYS[way], approve="always", permissions=bank.rules('[[rules]]\nallow = "*"\n'))
    refused(asked, bank)


@pytest.mark.parametrize("way", WAYS)
def test_whoever_is_asked_is_told_which_argument_it_is(bank: Bank, way: str) -> None:
    assert bank.ran(WAYS[way], approve=bank.ask).status == "answered" or bank.sent
    assert ["to" in request.untrusted for request in bank.asked] == [True]
    (origins,) = [request.origins["to"] for request in bank.asked]
    assert {"read_mail", ""} & {each.tool for each in origins if each.kind in ("tool", "unknown")}


def test_an_amount_of_a_stranger_is_asked_about_as_well(bank: Bank) -> None:
    bank.ran('answer = send_money(to="DE-ANN-01", amount=read_mail()["amount"])', approve=bank.ask)
    assert bank.seen() == [("amount",)]


def test_a_no_is_heeded(bank: Bank) -> None:
    bank.says = lambda request: False
    result = bank.ran(FLOWS, approve=bank.ask)
    assert (result.status, bank.sent, len(bank.asked)) == ("denied", [], 1)


# -- what marks a tool -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["read_mail", "read_*", "*"])
def test_a_file_marks_the_tool(tmp_path: Path, pattern: str) -> None:
    bank = Bank(tmp_path, marked=False)
    assert bank.ran(FLOWS).status == "answered", "nobody marked it"
    bank.sent.clear()
    rules = bank.rules(f'untrusted = ["{pattern}"]\n[[rules]]\nallow = "send_money"\n')
    refused(bank.ran(FLOWS, permissions=rules), bank)


def test_the_maker_of_a_function_marks_it(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(effect="read", untrusted=True)
    def read_note() -> str:
        """Read a note."""
        return EVIL

    @tool(effect="write")
    def pay(iban: str) -> str:
        """Pay."""
        sent.append(iban)
        return "paid"

    model = FakeModel(["answer = pay(iban=read_note())"])
    with Agent([read_note, pay], model=model, approve="always", sentence=False, max_revisions=0) as agent:
        assert (agent.run("pay the note").status, sent) == ("denied", [])


def mails(folder: Path, bank: Bank, **hints: Any) -> Toolset:
    """The bank's tools, with the mails from an MCP server that says this of them."""
    reads = entry("read_mail", annotations={"readOnlyHint": True, **hints})
    command, *rest = raw_server(folder, [reads], calls={"read_mail": {"value": MAIL}})
    ours = [each for name, each in bank.tools().items() if name != "read_mail"]
    served = Toolset.from_mcp({"mcpServers": {"crm": {"command": command, "args": rest}}})
    return Toolset([*served.values(), *ours])


@pytest.mark.parametrize(
    ("hints", "made"), [({"openWorldHint": True}, False), ({"openWorldHint": False}, True), ({}, True)]
)
def test_a_server_that_says_so_marks_its_tools_and_one_that_says_nothing_does_not(
    bank: Bank, tmp_path: Path, hints: dict[str, Any], made: bool
) -> None:
    result = bank.ran(FLOWS, tools=mails(tmp_path, bank, **hints))
    assert (result.status, bool(bank.sent)) == ("answered" if made else "denied", made)


@pytest.mark.parametrize(("trusted", "made"), [(False, False), (True, True)])
def test_a_server_that_trusts_itself_counts_only_where_the_user_names_it(
    bank: Bank, tmp_path: Path, trusted: bool, made: bool
) -> None:
    tools = mails(tmp_path, bank, openWorldHint=False)
    named = 'trusted = ["mcp:crm"]\n' if trusted else ""
    rules = bank.rules(f'untrusted = ["read_*"]\n{named}[[rules]]\nallow = "*"\n')
    result = bank.ran(FLOWS, tools=tools, permissions=rules)
    assert (result.status, bool(bank.sent)) == ("answered" if made else "denied", made)


# -- what lifts it -----------------------------------------------------------------------------------------------------

LIST = """
[[rules]]
allow = "send_money"
from = {{ {argument} = {origins} }}
"""


@pytest.mark.parametrize(
    ("origins", "program", "made"),
    [
        ('["tool:read_mail.iban"]', FLOWS, True),
        ('["tool:read_mail"]', FLOWS, True),
        ('["tool:read_mail.*"]', FLOWS, True),
        ('["tool:read_*"]', FLOWS, True),
        ('["tool:read_mail.sender"]', FLOWS, False),
        ('["task"]', FLOWS, False),
        ('["literal", "task", "author"]', FLOWS, False),
        ('["tool:get_contact"]', THROUGH_A_CALL, False),
        ('["tool:get_contact.iban", "tool:read_mail.sender"]', THROUGH_A_CALL, True),
        ('["tool:get_contact.iban", "tool:read_mail.iban"]', THROUGH_A_CALL, False),
        ('["tool:*"]', WAYS["what nobody can follow"], False),
    ],
)
def test_only_a_rule_that_lists_all_origins_allows_it(bank: Bank, origins: str, program: str, made: bool) -> None:
    result = bank.ran(program, permissions=bank.rules(LIST.format(argument="to", origins=origins)))
    assert bool(bank.sent) is made, (result.status, result.fault)
    assert result.status == ("answered" if made else "denied")


def test_a_rule_that_lists_the_address_says_nothing_of_the_amount(bank: Bank) -> None:
    rules = bank.rules(LIST.format(argument="to", origins='["tool:read_mail.iban"]'))
    program = 'mail = read_mail()\nanswer = send_money(to=mail["iban"], amount=mail["amount"])'
    refused(bank.ran(program, permissions=rules), bank)


def test_another_rule_that_allows_all_does_not_lift_what_one_that_lists_does_not_fit(bank: Bank) -> None:
    rules = bank.rules('[[rules]]\nallow = "*"\n' + LIST.format(argument="to", origins='["task"]'))
    refused(bank.ran(FLOWS, permissions=rules), bank)


@pytest.mark.parametrize("action", ["deny", "ask"])
def test_a_rule_that_names_what_may_not_choose_holds_for_what_nobody_can_follow(bank: Bank, action: str) -> None:
    rules = bank.rules(f'[[rules]]\nallow = "*"\n[[rules]]\n{action} = "send_money"\nnot_from = ["tool:get_limit"]\n')
    assert bank.ran(CLEAN, permissions=rules).status == "answered"
    bank.sent.clear()
    given = 'answer = send_money(to=f"DE-{get_limit()}", amount=5)'
    lost = 'to = eval("get_limit()")\nanswer = send_money(to=str(to), amount=5)'
    for program in (given, lost):
        refused_by = bank.ran(program, permissions=rules)
        assert (refused_by.status, bank.sent) == ("denied", [])


# -- what is unasked as before -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        CLEAN,
        'read_mail()\nanswer = send_money(to="DE-ANN-01", amount=5)',
        'mail = read_mail()["text"]\nanswer = [send_money(to="DE-ANN-01", amount=get_limit()["limit"]), mail]',
        'answer = send_money(to=get_contact(who="ann")["iban"], amount=5)',
    ],
)
@pytest.mark.parametrize("allowed", ["always", "rule"])
def test_a_clean_address_is_paid_unasked(bank: Bank, program: str, allowed: str) -> None:
    given: dict[str, Any] = {"approve": "always"}
    if allowed == "rule":
        given = {"approve": bank.ask, "permissions": bank.rules('[[rules]]\nallow = "send_money"\n')}
    assert bank.ran(program, **given).status == "answered"
    assert (bank.sent, bank.asked) == ([("DE-ANN-01", 5)], [])


def test_what_nobody_can_follow_is_clean_before_a_stranger_has_spoken(bank: Bank) -> None:
    lost = 'to = eval("get_contact(who=\'ann\')")\nanswer = send_money(to=to["iban"], amount=5)'
    assert bank.ran(lost).status == "answered"
    refused(Bank(bank.folder).ran(f"read_mail()\n{lost}"), Bank(bank.folder))


def test_reads_are_made_whatever_chose_their_arguments(bank: Bank) -> None:
    assert bank.ran('answer = get_contact(who=read_mail()["sender"])').status == "answered"


def test_a_write_without_an_address_is_judged_by_all_its_arguments(bank: Bank) -> None:
    noted: list[Any] = []
    note = make_tool("note", lambda given: noted.append(given["text"]), Effect.WRITE, required=("text",), text=TEXT)
    tools = [*bank.tools().values(), note]
    assert bank.ran('answer = note(text=read_mail()["text"])', tools=tools).status == "denied"
    assert bank.ran('answer = note(text="hello")', tools=tools).status == "answered"
    assert noted == ["hello"]


def test_beside_an_address_the_text_may_be_a_strangers(bank: Bank) -> None:
    sent: list[Any] = []
    mail = make_tool("send_mail", sent.append, Effect.WRITE, required=("to", "body"), to=TEXT, body=TEXT)
    tools: list[Tool] = [*bank.tools().values(), mail]
    answered = bank.ran('answer = send_mail(to="ann@example.org", body=read_mail()["text"])', tools=tools)
    assert (answered.status, len(sent)) == ("answered", 1)


def test_to_name_a_target_in_the_file_opens_no_other_argument(tmp_path: Path) -> None:
    @tool(effect="read", untrusted=True)
    def read_mail() -> dict[str, str]:
        """The newest mail."""
        return {"body": "Pay DE99"}

    made: list[str] = []

    @tool(effect="write")
    def post_note(ticket_id: str, text: str) -> str:
        """Post a note."""
        made.append(text)
        return "posted"

    program = 'answer = post_note(ticket_id="7", text=read_mail()["body"])'
    for text, status in (
        ("", "denied"),
        ('targets = ["ticket_id"]', "denied"),
        ('[tools.post_note]\ntargets = ["ticket_id"]', "answered"),
    ):
        file = file_of(tmp_path, text)
        given: dict[str, Any] = {"permissions": file, "approve": "always", "sentence": False, "max_revisions": 0}
        with Agent([read_mail, post_note], model=FakeModel([program]), **given) as agent:
            assert agent.run("Note it at ticket 7").status == status
    assert made == ["Pay DE99"]


@pytest.mark.parametrize(
    ("program", "opens"),
    [
        (FLOWS, "whoever writes what read_mail answers chooses `to`"),
        (THROUGH_A_CALL, "whoever writes what read_mail answers chooses which answer of get_contact `to` is of"),
    ],
)
def test_a_refusal_names_the_one_yes_before_the_rule_and_what_the_rule_opens(
    bank: Bank, program: str, opens: str
) -> None:
    result = bank.run(program, approve="always")
    (call,) = [call for call in result.calls if call.tool == "send_money"]
    assert call.error is not None
    one, rule = call.error.index("`atc resume RUN`"), call.error.index("[[rules]]")
    assert one < call.error.index("Agent(permissions=") < rule
    assert call.error.endswith(f"# with this, {opens}")
    assert result.fault is not None
    assert result.fault.hint.endswith("or a rule of the permissions file that lists where its arguments came from.")


def test_where_no_call_is_approved_a_refusal_says_whose_text_it_is(bank: Bank) -> None:
    result = bank.run(FLOWS, approve=None)
    (call,) = [call for call in result.calls if call.tool == "send_money"]
    assert call.error is not None
    assert call.error.startswith("to ← read_mail.iban (strangers write that)")
    assert "[[rules]]" not in call.error

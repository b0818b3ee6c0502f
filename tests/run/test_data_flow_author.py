"""No stranger writes the program: what was written after its author saw a stranger's text is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc.calls.approval import ApprovalRequest
from tests.support.data_flow import CLEAN, EVIL, TASK, Bank, refused

LOOKS = "mail = read_mail()\nlook(mail=mail)"
FAILS = 'mail = read_mail()\nanswer = mail["no such field"]'
OBEYS = f'answer = send_money(to="{EVIL}", amount=99)'
HIDES = 'answer = send_money(to="DE-" + "".join(["OT", "HER"]) + "-77", amount=5)'
"""Its text stands in no response: only that its author had read a stranger's text tells."""


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


SAW = {"a look": LOOKS, "a failure": FAILS}


def two(bank: Bank, first: str, second: str, **given: Any) -> Any:
    return bank.ran(first, second, **{"max_revisions": 1, **given})


@pytest.mark.parametrize("saw", SAW)
@pytest.mark.parametrize("second", [OBEYS, HIDES, CLEAN])
def test_what_is_written_after_a_strangers_text_was_seen_is_not_made_unasked(bank: Bank, saw: str, second: str) -> None:
    refused(two(bank, SAW[saw], second), bank)
    refused(two(bank, SAW[saw], second, permissions=bank.rules('[[rules]]\nallow = "*"\n')), bank)
    listed = '[[rules]]\nallow = "send_money"\nfrom = ["task", "literal", "tool:*", "author"]\n'
    refused(two(bank, SAW[saw], second, permissions=bank.rules(listed)), bank)


@pytest.mark.parametrize("saw", SAW)
def test_the_question_says_what_its_author_had_seen(bank: Bank, saw: str) -> None:
    result = two(bank, SAW[saw], OBEYS, approve=bank.ask)
    assert (result.status, bank.sent) == ("answered", [(EVIL, 99)])
    assert [request.author_saw for request in bank.asked] == [("read_mail",)]


def test_the_refusal_names_what_lifts_it_and_no_rule_that_would_not(bank: Bank) -> None:
    result = two(bank, LOOKS, CLEAN)
    assert result.fault is not None
    assert 'or `after_untrusted = "allow"` of the permissions file' in result.fault.hint
    assert "lists where" not in result.fault.hint


@pytest.mark.parametrize("saw", SAW)
def test_a_file_may_lift_it(bank: Bank, saw: str) -> None:
    lifted = bank.rules('after_untrusted = "allow"\n[[rules]]\nallow = "send_money"\n')
    result = two(bank, SAW[saw], HIDES, permissions=lifted)
    assert (result.status, bank.sent) == ("answered", [("DE-OTHER-77", 5)])


@pytest.mark.parametrize("second", ['answer = send_money(to=mail["iban"], amount=5)', OBEYS])
def test_a_file_that_lifts_it_lifts_no_address_of_a_stranger(bank: Bank, second: str) -> None:
    lifted = bank.rules('after_untrusted = "allow"\n[[rules]]\nallow = "send_money"\n')
    refused(two(bank, LOOKS, second, permissions=lifted), bank)


@pytest.mark.parametrize("second", ['answer = send_money(to=mail["iban"], amount=5)', "send_money(mail['iban'], 5)"])
def test_a_value_that_a_look_handed_on_is_still_the_strangers(bank: Bank, second: str) -> None:
    two(bank, LOOKS, second, approve=bank.ask)
    (request,) = bank.asked
    assert ("to" in request.untrusted, request.author_saw) == (True, ("read_mail",))


def test_values_of_several_origins_keep_each_its_own_after_a_look(bank: Bank) -> None:
    looks = 'mail, ann = read_mail(), get_contact(who="ann")\nlook(mail=mail, ann=ann)'
    two(bank, looks, 'answer = send_money(to=ann["iban"], amount=5)', approve=bank.ask)
    (request,) = bank.asked
    assert (request.untrusted, request.author_saw) == ((), ("read_mail",))
    assert {each.tool for each in request.origins["to"] if each.kind == "tool" and each.how != "author"} == {
        "get_contact"
    }


# -- the same write, written before -----------------------------------------------------------------------------------

BEFORE = """
mail = read_mail()
if mail["sender"] == "nobody":
    look(mail=mail)
{write}
{end}
"""


@pytest.mark.parametrize(
    "write",
    [
        'send_money(to="DE-ANN-01", amount=5)',
        'send_money("DE-ANN-01", amount=5)',
        'send_money(to=get_contact(who="ann")["iban"], amount=get_limit()["limit"])',
    ],
)
def test_a_write_that_stood_there_before_is_not_asked_about(bank: Bank, write: str) -> None:
    result = two(bank, f"mail = read_mail()\ndone = mail['nothing']\n{write}", f"answer = {write}", approve=bank.ask)
    assert (result.status, bank.sent) == ("answered", [("DE-ANN-01", 5)])
    assert [request.author_saw for request in bank.asked] == [()], "a function is asked about each write"
    again = Bank(bank.folder)
    done = two(again, f"mail = read_mail()\ndone = mail['nothing']\n{write}", f"answer = {write}")
    assert (done.status, again.sent) == ("answered", [("DE-ANN-01", 5)])


CHANGED = {
    "the literal": ('send_money(to="DE-ANN-01", amount=5)', f'send_money(to="{EVIL}", amount=5)'),
    "the amount": ('send_money(to="DE-ANN-01", amount=5)', 'send_money(to="DE-ANN-01", amount=5000)'),
    "what a name stands for": (
        'to = "DE-ANN-01"\nsend_money(to=to, amount=5)',
        f'to = "{EVIL}"\nsend_money(to=to, amount=5)',
    ),
    "what a name stands for elsewhere": (
        'def pay(to):\n    send_money(to=to, amount=5)\npay("DE-ANN-01")',
        f'def pay(to):\n    send_money(to=to, amount=5)\npay("{EVIL}")',
    ),
    "what a list holds": (
        'for each in ["DE-ANN-01"]:\n    send_money(to=each, amount=5)',
        f'for each in ["DE-ANN-01", "{EVIL}"]:\n    send_money(to=each, amount=5)',
    ),
    "how often it is made": (
        'send_money(to="DE-ANN-01", amount=5)',
        'for each in range(50):\n    send_money(to="DE-ANN-01", amount=5)',
    ),
    "the condition": (
        'if get_limit()["limit"] > 100:\n    send_money(to="DE-ANN-01", amount=5)',
        'if get_limit()["limit"] > 1:\n    send_money(to="DE-ANN-01", amount=5)',
    ),
    "that there is a condition": (
        'if get_limit()["limit"] > 100:\n    send_money(to="DE-ANN-01", amount=5)',
        'send_money(to="DE-ANN-01", amount=5)',
    ),
    "the argument of another call": (
        'send_money(to=get_contact(who="ann")["iban"], amount=5)',
        'send_money(to=get_contact(who="eve")["iban"], amount=5)',
    ),
    "the argument of another call before": (
        'found = get_contact(who="ann")\nsend_money(to=found["iban"], amount=5)',
        'found = get_contact(who="eve")\nsend_money(to=found["iban"], amount=5)',
    ),
    "a name of a tool": (
        'send_money(to=get_contact(who="ann")["iban"], amount=5)',
        f'get_contact = lambda who: {{"iban": "{EVIL}"}}\nsend_money(to=get_contact(who="ann")["iban"], amount=5)',
    ),
    "a global that a function reads": (
        'NAMES = {"a": "DE-ANN-01"}\ndef whom():\n    return NAMES["a"]\nsend_money(to=whom(), amount=5)',
        f'NAMES = {{"a": "{EVIL}"}}\ndef whom():\n    return NAMES["a"]\nsend_money(to=whom(), amount=5)',
    ),
    "a method that it calls": (
        'class P:\n    def to(self):\n        return "DE-ANN-01"\nsend_money(to=P().to(), amount=5)',
        f'class P:\n    def to(self):\n        return "{EVIL}"\nsend_money(to=P().to(), amount=5)',
    ),
    "a default": (
        'def pay(to="DE-ANN-01"):\n    send_money(to=to, amount=5)\npay()',
        f'def pay(to="{EVIL}"):\n    send_money(to=to, amount=5)\npay()',
    ),
    "an operator before": (
        'n = 3 + 2\nsend_money(to="DE-ANN-01", amount=n)',
        'n = 3 ** 9\nsend_money(to="DE-ANN-01", amount=n)',
    ),
    "what comes round in the loop": (
        'to = "DE-ANN-01"\nfor n in range(2):\n    if n:\n        send_money(to=to, amount=5)',
        f'to = "DE-ANN-01"\nfor n in range(2):\n    if n:\n        send_money(to=to, amount=5)\n    to = "{EVIL}"',
    ),
    "a function that is defined later": (
        'def pay():\n    send_money(to=whom(), amount=5)\ndef whom():\n    return "DE-ANN-01"\npay()',
        f'def pay():\n    send_money(to=whom(), amount=5)\ndef whom():\n    return "{EVIL}"\npay()',
    ),
    "a thread that waits": (
        'to = ["DE-ANN-01"]\nparallel(lambda: send_money(to=to[0], amount=5))',
        f'to = ["DE-ANN-01"]\nto[0] = "{EVIL}"\nparallel(lambda: send_money(to=to[0], amount=5))',
    ),
    "what a builtin is": (
        'to = str("DE-ANN-01")\nsend_money(to=to, amount=5)',
        f'str = lambda _: "{EVIL}"\nto = str("DE-ANN-01")\nsend_money(to=to, amount=5)',
    ),
    "what a method of a list is": (
        'to = ["DE-ANN-01"]\nsend_money(to=to[0], amount=5)',
        f'to = ["DE-ANN-01"]\nother = to\nother[0] = "{EVIL}"\nsend_money(to=to[0], amount=5)',
    ),
    "the line that another call claims": (
        'send_money(to="DE-ANN-01", amount=5)',
        'send_money(to="DE-ANN-01", amount=5)\nsource = \'send_money(to="DE-BOB-02", amount=7)\'\n'
        'exec(compile(source, "<program>", "exec"))',
    ),
    "a partial on its line": (
        'send_money(to="DE-ANN-01", amount=5)',
        "import functools; pay = functools.partial(send_money, amount=7); "
        '(lambda: 0)() if pay(to="DE-BOB-02") else send_money(to="DE-ANN-01", amount=5)',
    ),
    "a default of a class": (
        'class A:\n    to = "DE-ANN-01"\nsend_money(to=A.to, amount=5)',
        f'class A:\n    to = "DE-ANN-01"\nA.to = "{EVIL}"\nsend_money(to=A.to, amount=5)',
    ),
    "a guard": (
        'assert get_limit()["limit"] > 100\nsend_money(to="DE-ANN-01", amount=5)',
        'send_money(to="DE-ANN-01", amount=5)',
    ),
    "an early end": (
        'if get_limit()["limit"] < 100:\n    raise SystemExit\nsend_money(to="DE-ANN-01", amount=5)',
        'send_money(to="DE-ANN-01", amount=5)',
    ),
    "a tool by another name": (
        'pay = send_money\npay(to="DE-ANN-01", amount=5)',
        f'pay = send_money\npay(to="{EVIL}", amount=5)',
    ),
    "the order of two": (
        'a, b = "DE-ANN-01", "DE-BOB-02"\nsend_money(to=a, amount=5)',
        'a, b = "DE-BOB-02", "DE-ANN-01"\nsend_money(to=a, amount=5)',
    ),
}


@pytest.mark.parametrize("changed", CHANGED)
def test_a_write_that_became_another_one_is_asked_about(bank: Bank, changed: str) -> None:
    before, after = CHANGED[changed]
    first = f"mail = read_mail()\ndone = mail['nothing']\n{before}"
    two(bank, first, f"{after}\nanswer = 1", approve=bank.ask)
    assert bank.asked
    assert all(request.author_saw == ("read_mail",) for request in bank.asked), bank.asked


def test_a_program_that_never_came_to_a_stranger_makes_the_next_one_no_worse(bank: Bank) -> None:
    result = two(bank, 'answer = get_limit()["nothing"]', CLEAN)
    assert (result.status, bank.sent) == ("answered", [("DE-ANN-01", 5)])


def test_a_program_that_the_check_refused_has_shown_nothing(bank: Bank) -> None:
    result = bank.ran("answer = send_mony(1)\nread_mail()", CLEAN, check=True, max_revisions=1)
    assert (result.status, bank.sent) == ("answered", [("DE-ANN-01", 5)])


def test_the_taint_stays_whatever_comes_between(bank: Bank) -> None:
    programs = [LOOKS, "limit = get_limit()\nlook(limit=limit)", 'answer = get_limit()["nothing"]', HIDES]
    refused(bank.ran(*programs, max_revisions=2), bank)


def test_what_was_written_before_the_first_look_counts_and_no_later_program(bank: Bank) -> None:
    """The injected author writes its write into a program that does not reach it, and then asks for the same one."""
    between = f'look(limit=get_limit())\nsend_money(to="{EVIL}", amount=99)'
    refused(bank.ran(LOOKS, between, OBEYS, max_revisions=2), bank)


# -- conversations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [OBEYS, HIDES, CLEAN])
def test_a_later_task_of_a_conversation_is_written_by_one_who_has_read_the_mail(bank: Bank, second: str) -> None:
    with bank.agent("answer = read_mail()['text']", second, warnings="allow") as agent, agent.conversation() as talk:
        assert talk.run("What does Eve want?").status == "answered"
        refused(talk.run(TASK), bank)


@pytest.mark.parametrize("value", ["answer_1", "answer_1['iban']"])
def test_a_value_of_an_earlier_task_is_still_the_strangers(bank: Bank, value: str) -> None:
    first = "answer = read_mail()" + ("" if "[" in value else "['iban']")
    second = f"answer = send_money(to={value}, amount=5)"
    with bank.agent(first, second, approve=bank.ask) as agent, agent.conversation() as talk:
        assert talk.run("Read it").status == "answered"
        talk.run("Pay it")
    (request,) = bank.asked
    assert ("to" in request.untrusted, request.author_saw) == (True, ("read_mail",))
    assert {each.tool for each in request.origins["to"]} & {"read_mail", ""}


def test_an_earlier_task_without_a_stranger_taints_nothing(bank: Bank) -> None:
    programs = ('answer = get_contact(who="ann")', 'answer = send_money(to=answer_1["iban"], amount=5)')
    with bank.agent(*programs) as agent, agent.conversation() as talk:
        talk.run("Who is Ann?")
        assert talk.run("Pay her 5").status == "answered"
    assert bank.sent == [("DE-ANN-01", 5)]


def test_a_kept_conversation_that_goes_on_elsewhere_is_tainted_still(bank: Bank) -> None:
    """A task that waits is resumed by another process; the next task is written by the same model."""
    park = bank.rules('[[rules]]\nask = "send_money"\nwait = "park"\n')
    with bank.agent("answer = read_mail()['text']", CLEAN, permissions=park) as agent, agent.conversation() as talk:
        talk.run("What does Eve want?")
        waiting = talk.run(TASK)
        assert waiting.status == "waiting"
        (call,) = waiting.pending
    assert bank.sent == []
    with bank.agent(permissions=park) as agent:
        agent.approve(waiting.run_id)
        resumed = agent.resume(waiting.run_id)
    assert (resumed.status, bank.sent) == ("answered", [("DE-ANN-01", 5)]), "a yes is a yes"
    assert call.tool == "send_money"


# -- what the user is shown -------------------------------------------------------------------------------------------


def test_somebody_who_says_no_is_asked_once_and_heeded(bank: Bank) -> None:
    def says_no(request: ApprovalRequest) -> bool:
        return not request.author_saw

    bank.says = says_no
    result = two(bank, LOOKS, OBEYS, approve=bank.ask)
    assert (result.status, bank.sent, len(bank.asked)) == ("denied", [], 1)

"""No stranger chooses the address, whichever way a call is made: each surface has the same rules."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from atc import Toolset
from atc.result import Effect
from atc.run.base import Ending, Strategy
from atc.run.run import Run
from atc.tools.tool import Tool
from tests.support.data_flow import CLEAN, EVIL, FLOWS, TASK, Bank, refused
from tests.support.tools import make_tool

LOOKS = "mail = read_mail()\nlook(mail=mail)"
ALLOWS = '[[rules]]\nallow = "*"\n'


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


# -- programs of the caller's own --------------------------------------------------------------------------------------


def test_a_given_program(bank: Bank) -> None:
    with bank.agent() as agent:
        refused(agent.run_program(FLOWS), bank)
    with bank.agent(permissions=bank.rules(ALLOWS)) as agent:
        refused(agent.run_program(FLOWS), bank)
    with bank.agent() as agent:
        assert agent.run_program(CLEAN).status == "answered"
        assert agent.run_program("answer = send_money(to=to, amount=5)", inputs={"to": "DE-BOB-02"}).value
    assert [to for to, _ in bank.sent] == ["DE-ANN-01", "DE-BOB-02"]


def test_the_text_of_a_given_program_is_its_authors_and_no_task(bank: Bank) -> None:
    listed = '[[rules]]\nallow = "send_money"\nfrom = ["{}"]\n'
    for origin, made in (("task", False), ("literal", False), ("author", True)):
        bank.sent.clear()
        with bank.agent(permissions=bank.rules(listed.format(origin)), approve=None) as agent:
            result = agent.run_program(CLEAN)
        assert (result.status, bool(bank.sent)) == ("answered" if made else "denied", made), origin


@pytest.mark.parametrize("second", [FLOWS, CLEAN, f'answer = send_money(to="{EVIL}", amount=1)'])
def test_a_revision_of_a_given_program_is_written_after_its_report(bank: Bank, second: str) -> None:
    with bank.agent() as agent:
        first = agent.run_program("answer = read_mail()['nothing']")
        assert first.status == "unsolved"
        refused(agent.run_program(second, run=first.run_id), bank)


# -- runs that go on ---------------------------------------------------------------------------------------------------


def paused(bank: Bank, *programs: str, at: str = "pause", **given: Any) -> str:
    """The id of a run that was cut off in a call of ``pause``."""
    there = asyncio.Event()

    async def pause(_: dict[str, Any]) -> Any:
        there.set()
        await asyncio.sleep(30)

    async def go() -> str:
        tools = [*bank.tools().values(), make_tool(at, pause)]
        async with bank.agent(*programs, tools=Toolset(tools), **given) as agent:
            work = asyncio.create_task(agent.arun(TASK))
            waits = asyncio.create_task(there.wait())
            await asyncio.wait([work, waits], return_when=asyncio.FIRST_COMPLETED, timeout=60)
            assert there.is_set(), work
            work.cancel()
            await asyncio.wait([work])
            return agent.store.find("last").run_id

    return asyncio.run(go())


def resumed(bank: Bank, run_id: str, *programs: str, **given: Any) -> Any:
    tools = Toolset([*bank.tools().values(), make_tool("pause", lambda _: 1)])
    with bank.agent(*programs, tools=tools, **given) as agent:
        return agent.resume(run_id)


HOLDS = 'mail = read_mail()\npause()\nanswer = send_money(to=mail["iban"], amount=5)'


@pytest.mark.parametrize("rules", ["", ALLOWS])
def test_a_run_that_goes_on(bank: Bank, rules: str) -> None:
    given: dict[str, Any] = {"permissions": bank.rules(rules)} if rules else {}
    run_id = paused(bank, HOLDS, **given)
    refused(resumed(bank, run_id, **given), bank)
    assert bank.read == 1, "the mail was answered from the journal"


def test_a_clean_run_goes_on_as_before(bank: Bank) -> None:
    run_id = paused(bank, f"mail = read_mail()\npause()\n{CLEAN}")
    assert (resumed(bank, run_id).status, bank.sent) == ("answered", [("DE-ANN-01", 5)])


@pytest.mark.parametrize("after", [f'answer = send_money(to="{EVIL}", amount=5)', CLEAN])
def test_a_run_that_goes_on_after_a_look_knows_what_its_author_saw(bank: Bank, after: str) -> None:
    run_id = paused(bank, LOOKS, f"pause()\n{after}")
    refused(resumed(bank, run_id), bank)


def test_a_value_of_a_look_is_the_strangers_after_a_resume(bank: Bank) -> None:
    run_id = paused(bank, LOOKS, 'pause()\nanswer = send_money(to=mail["iban"], amount=5)')
    resumed(bank, run_id, approve=bank.ask)
    (request,) = bank.asked
    assert ("to" in request.untrusted, request.author_saw) == (True, ("read_mail",))


@pytest.mark.parametrize("torn", [0, 1, 2])
def test_a_trace_that_is_cut_off_makes_nobody_trusted(bank: Bank, torn: int) -> None:
    """The last lines of the trace are lost with the power; the journal has the mail."""
    run_id = paused(bank, LOOKS, f"pause()\n{CLEAN}")
    with bank.agent() as agent:
        trace: Path = agent.store.run(run_id).trace  # type: ignore[attr-defined]
    lines = trace.read_bytes().splitlines(keepends=True)
    keep = [line for line in lines if torn < 2 or b'"program_written"' not in line]
    trace.write_bytes(b"".join(keep[: len(keep) - torn]))
    programs = ["pause()\n" + CLEAN] * 3
    result = resumed(bank, run_id, *programs)
    assert bank.sent == [], (result.status, result.fault)


KILLED = """
import os, signal, sys, time
from pathlib import Path
from atc import Toolset
from tests.support.data_flow import CLEAN, TASK, Bank
from tests.support.tools import make_tool

def die(arguments):
    (trace,) = Path(sys.argv[1]).rglob("trace.jsonl")
    while '"tool": "pause"' not in trace.read_text():  # a thread writes it
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

bank = Bank(Path(sys.argv[1]))
tools = Toolset([*bank.tools().values(), make_tool("pause", die)])
with bank.agent("mail = read_mail()\\nlook(mail=mail)", "pause()\\n" + CLEAN, tools=tools) as agent:
    agent.run(TASK)
"""


def test_a_run_whose_process_was_killed(bank: Bank, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    died = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    refused(resumed(bank, "last"), bank)


# -- a yes that waits --------------------------------------------------------------------------------------------------


def waiting(bank: Bank, program: str = FLOWS, **given: Any) -> Any:
    result = bank.ran(program, approve="park", **given)
    assert (result.status, bank.sent) == ("waiting", [])
    return result


@pytest.mark.parametrize("rules", ["", ALLOWS])
def test_a_call_that_a_stranger_chose_waits_also_where_a_rule_allows_it(bank: Bank, rules: str) -> None:
    given: dict[str, Any] = {"permissions": bank.rules(rules)} if rules else {}
    parked = waiting(bank, **given)
    with bank.agent(**given) as agent:
        agent.approve(parked.run_id)
        assert (agent.resume(parked.run_id).status, bank.sent) == ("answered", [(EVIL, 5)])


@pytest.mark.parametrize("approve", ["always", "never", None])
def test_a_call_that_waits_is_not_made_by_a_yes_to_all(bank: Bank, approve: Any) -> None:
    parked = waiting(bank)
    with bank.agent(approve=approve) as agent:
        assert agent.resume(parked.run_id).status in ("denied", "waiting")
    assert bank.sent == []


def test_a_yes_does_not_hold_where_more_is_untrusted_than_was_shown(tmp_path: Path) -> None:
    bank = Bank(tmp_path, marked=False)
    rules = 'trusted = []\n[[rules]]\nask = "send_money"\nwait = "park"\n'
    parked = waiting(bank, permissions=bank.rules(rules))
    with bank.agent(permissions=bank.rules(rules)) as agent:
        agent.approve(parked.run_id)
    marked = bank.rules(rules.replace("trusted = []", 'untrusted = ["read_mail"]'))
    with bank.agent(permissions=marked) as agent:
        again = agent.resume(parked.run_id)
    assert (again.status, bank.sent) == ("waiting", [])


def test_a_yes_does_not_hold_where_the_mail_says_something_else_now(bank: Bank) -> None:
    parked = waiting(bank)
    with bank.agent() as agent:
        agent.approve(parked.run_id)
    bank.mail["iban"] = "DE-EVIL-99"
    with bank.agent(reuse_reads_s=0, approve="park") as agent:
        assert agent.resume(parked.run_id).status == "waiting"
    assert bank.sent == []


# -- a plan that is applied --------------------------------------------------------------------------------------------


def test_a_plan_says_where_the_address_is_from_and_a_yes_to_it_is_one(bank: Bank) -> None:
    with bank.agent(FLOWS, approve="never") as agent:
        planned = agent.run(TASK, dry_run=True)
    assert (planned.status, bank.sent) == ("planned", [])
    assert {each.tool for each in planned.planned[0].origins["to"]} >= {"read_mail"}
    with bank.agent(approve="never") as agent:
        assert (agent.apply(planned.run_id).status, bank.sent) == ("answered", [(EVIL, 5)])


GROWS = 'subject = read_mail()["text"]\nanswer = send_money(to="DE-" + "BOB-02", amount=5)'
NAMED = 'subject = read_mail()["text"]\nanswer = send_money(to="DE-BOB-02", amount=5)'


@pytest.mark.parametrize("program", [GROWS, NAMED])
def test_a_plan_whose_address_a_stranger_names_by_then_is_not_applied(bank: Bank, program: str) -> None:
    with bank.agent(program, approve="never") as agent:
        planned = agent.run("Pay Bob", dry_run=True)
    assert planned.status == "planned"
    bank.mail["text"] = "DE-BOB-02"
    with bank.agent(approve="never") as agent:
        stopped = agent.apply(planned.run_id)
    assert (stopped.status, bank.sent) == ("denied", [])


def test_a_plan_is_not_applied_where_a_tool_is_untrusted_by_now(tmp_path: Path) -> None:
    bank = Bank(tmp_path, marked=False)
    with bank.agent(FLOWS, approve="never", permissions=bank.rules("trusted = []\n")) as agent:
        planned = agent.run(TASK, dry_run=True)
    assert planned.status == "planned"
    with bank.agent(approve="never", permissions=bank.rules('untrusted = ["read_mail"]\n')) as agent:
        assert (agent.apply(planned.run_id).status, bank.sent) == ("denied", [])


# -- many tasks --------------------------------------------------------------------------------------------------------


def test_a_batch(bank: Bank) -> None:
    with bank.agent(FLOWS) as agent:
        (result,) = agent.map([TASK], concurrency=1)
    assert (result.status, bank.sent) == ("denied", [])
    with bank.agent("answer = read_mail()['text']", CLEAN) as agent:
        results = list(agent.map(["What does Eve want?", TASK], concurrency=1))
    assert [result.status for result in results] == ["answered", "answered"], "each task is by itself"


# -- calls that no program makes ---------------------------------------------------------------------------------------


class Obedient(Strategy):
    """Does what the mail says, call by call."""

    name = "obedient"

    async def solve(self, run: Run) -> Ending:
        mail = await run.call("read_mail", {})
        assert mail.succeeded
        sent = await run.call("send_money", {"to": mail.value["iban"], "amount": 99})
        return Ending("answered", value=sent.status)


def test_a_strategy_that_calls_without_a_program(bank: Bank) -> None:
    result = bank.ran(strategy=Obedient())
    assert (result.value, bank.sent) == ("refused", [])
    asked = bank.ran(strategy=Obedient(), approve=bank.ask)
    assert (asked.value, bank.seen()) == ("ok", [("to", "amount")])


class Careful(Strategy):
    """Calls before any stranger has spoken."""

    name = "careful"

    async def solve(self, run: Run) -> Ending:
        sent = await run.call("send_money", {"to": "DE-ANN-01", "amount": 5})
        return Ending("answered", value=sent.status)


def test_such_a_call_is_clean_before_a_stranger_has_spoken(bank: Bank) -> None:
    assert bank.ran(strategy=Careful()).value == "ok"


UNDO = '[tools."send_money"]\nundo = "send_money(to=$to, amount=$amount)"\n'


def test_an_undo_sends_to_no_strangers_address_unasked(bank: Bank) -> None:
    rules = bank.rules(UNDO)
    made = bank.ran(FLOWS, approve=lambda request: True, permissions=rules)
    assert (made.status, bank.sent) == ("answered", [(EVIL, 5)])
    with bank.agent(permissions=rules) as agent:
        (call,) = [each for each in agent.undo(made.run_id).calls if each.tool == "send_money"]
    assert (call.outcome, bank.sent) == ("denied", [(EVIL, 5)])
    with bank.agent(permissions=rules, approve=bank.ask) as agent:
        agent.undo(made.run_id)
    assert [bool(request.untrusted) for request in bank.asked] == [True]


def test_an_undo_of_a_clean_call_is_made(bank: Bank) -> None:
    rules = bank.rules(UNDO)
    made = bank.ran(CLEAN, permissions=rules)
    with bank.agent(permissions=rules) as agent:
        (call,) = agent.undo(made.run_id).calls
    assert call.outcome == "undone"


# -- what stands between a program and a tool --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "send_money(**{'To': mail['iban'], 'amount': 5})",
        "send_money(**{'to': mail['iban'], 'amount': '5'})",
        "send_money(**dict([('TO', mail['iban']), ('Amount', 5)]))",
    ],
)
def test_a_repair_of_arguments_loses_no_origin(bank: Bank, call: str) -> None:
    result = bank.ran(f"mail = read_mail()\nanswer = {call}", approve=bank.ask)
    assert result.status == "answered", result.fault
    assert ["to" in request.untrusted for request in bank.asked] == [True]


def test_what_a_model_makes_of_an_argument_is_no_cleaner(bank: Bank) -> None:
    program = 'mail = read_mail()\nanswer = send_money(to="DE-ANN-01", amount=mail["text"])'
    bank.ran(program, lambda _: '{"amount": 99}', approve=bank.ask, max_revisions=0)
    assert all("amount" in request.untrusted for request in bank.asked)
    clean = Bank(bank.folder)
    clean.ran(program, lambda _: '{"amount": 99}', max_revisions=0)
    assert clean.sent == []


def test_what_a_model_makes_of_a_call_may_be_any_argument_of_it(bank: Bank) -> None:
    """The model that repairs has the arguments before it, a stranger's text among them: it may obey."""
    program = 'mail = read_mail()\nanswer = send_money(to="DE-ANN-01", amount=mail["text"])'
    bank.ran(program, lambda _: f'{{"to": "{EVIL}", "amount": 5}}', approve=bank.ask, max_revisions=0)
    for request in bank.asked:
        assert request.arguments["to"] == "DE-ANN-01" or "to" in request.untrusted


def test_a_read_that_the_journal_answers_is_still_a_strangers(bank: Bank) -> None:
    first = 'mail = read_mail()\nanswer = get_limit()["nothing"]'
    refused(bank.ran(first, FLOWS, max_revisions=1), bank)
    assert bank.read == 1


def test_a_tool_that_is_called_after_its_source_is_still_the_one_that_was_named(tmp_path: Path) -> None:
    bank = Bank(tmp_path, marked=False)
    mail = bank.tools()["read_mail"].protocol
    renamed = mail.model_copy(
        update={"name": "crm_read_mail", "source": mail.source.model_copy(update={"name": "read_mail"})}
    )
    tools = Toolset([Tool(renamed, bank.tools()["read_mail"].transport), bank.tools()["send_money"]])
    rules = bank.rules(f'untrusted = ["read_mail"]\n{ALLOWS}')
    refused(bank.ran(FLOWS.replace("read_mail", "crm_read_mail"), tools=tools, permissions=rules), bank)


def test_a_tool_of_unknown_effect_is_held_as_a_write(bank: Bank) -> None:
    sent: list[Any] = []
    unsure = make_tool("transfer", sent.append, Effect.UNKNOWN, required=("iban",), iban={"type": "string"})
    tools = Toolset([*bank.tools().values(), unsure])
    assert bank.ran('answer = transfer(iban=read_mail()["iban"])', tools=tools).status == "denied"
    assert sent == []


def test_a_write_that_answers_is_a_stranger_too_where_it_is_marked(tmp_path: Path) -> None:
    """A write whose answer strangers write: its answer chooses no address either."""
    bank = Bank(tmp_path, marked=False)
    rules = bank.rules(f'untrusted = ["send_money"]\n{ALLOWS}')
    program = 'sent = send_money(to="DE-ANN-01", amount=5)\nanswer = send_money(to=sent["to"], amount=6)'
    result = bank.ran(program, permissions=rules)
    assert (result.status, bank.sent) == ("denied", [("DE-ANN-01", 5)])


def test_a_choice_of_warnings_lifts_nothing(bank: Bank) -> None:
    refused(bank.ran(FLOWS, warnings="allow", check=True), bank)
    refused(bank.ran(FLOWS, warnings="ask", check=True), bank)


# -- what a program asks for, looks at and says -----------------------------------------------------------------------


def test_an_answer_of_the_user_to_a_strangers_question_is_not_the_users_choice(bank: Bank) -> None:
    program = 'to = ask_user(question=read_mail()["text"])\nanswer = send_money(to=to, amount=5)'
    refused(bank.ran(program, ask_user=lambda question: EVIL), bank)


@pytest.mark.parametrize(
    ("looks", "then"),
    [
        ('look(read_mail()["iban"])', "send_money(to=value1, amount=5)"),
        ('mail = read_mail()\nlook(mail["iban"], get_limit())', "send_money(to=value1, amount=5)"),
        ('look(**{"to": read_mail()["iban"]})', "send_money(to=to, amount=5)"),
        ('show = look\nshow(to=read_mail()["iban"])', "send_money(to=to, amount=5)"),
        ('def f(**k):\n    look(**k)\nf(to=read_mail()["iban"])', "send_money(to=to, amount=5)"),
        ('to = read_mail()\nlook(to="DE-ANN-01") if not to else look(to=to["iban"])', "send_money(to=to, amount=5)"),
        (
            'if read_mail()["flag"]:\n    look(to="DE-EVIL" + "-66")\nlook(to="DE-ANN-01")',
            "send_money(to=to, amount=5)",
        ),
        ("look(**read_mail())", "send_money(to=iban, amount=5)"),
    ],
)
def test_whatever_is_looked_at_keeps_its_origins(bank: Bank, looks: str, then: str) -> None:
    """The file lifts what the author saw, so that the value alone is judged."""
    bank.mail.pop(EVIL)
    rules = bank.rules(f'after_untrusted = "allow"\n{ALLOWS}')
    result = bank.ran(looks, f"answer = {then}", permissions=rules)
    refused(result, bank)
    assert result.revisions[0].looked


def test_a_value_of_a_later_look_has_its_own_origins(bank: Bank) -> None:
    rules = bank.rules(f'after_untrusted = "allow"\n{ALLOWS}')
    looks = (
        'look(to=get_contact(who="ann")["iban"])',
        'look(to=read_mail()["iban"])',
        "answer = send_money(to=to, amount=5)",
    )
    refused(bank.ran(*looks, permissions=rules), bank)
    on = ("look(mail=read_mail())", 'look(to=mail["iban"])', "answer = send_money(to=to, amount=5)")
    refused(bank.ran(*on, permissions=rules), bank)
    clean = (
        'look(to=read_mail()["iban"])',
        'look(to=get_contact(who="ann")["iban"])',
        "answer = send_money(to=to, amount=5)",
    )
    assert bank.ran(*clean, permissions=rules).status == "answered"


@pytest.mark.parametrize(
    "first",
    [
        'answer = []\nanswer.append(read_mail()["iban"])',
        'def f():\n    global answer\n    answer = [read_mail()["iban"]]\nf()',
        'answer = ["DE-ANN-01"]\nkept = answer\nkept[0] = read_mail()["iban"]',
        'globals()["answer"] = [read_mail()["iban"]]',
        'answer = ["DE-ANN-01"]\nif read_mail()["flag"]:\n    answer = ["DE-EVIL-" + "66"]',
        'for answer in [["DE-ANN-01"], [read_mail()["iban"]]]:\n    pass',
        'import sys\nanswer = ["DE-EVIL-" + "66"]\nif read_mail()["flag"]:\n    sys.exit()\nanswer = ["DE-ANN-01"]',
    ],
)
def test_an_answer_that_a_later_task_is_given_keeps_its_origins(bank: Bank, first: str) -> None:
    rules = bank.rules(f'after_untrusted = "allow"\n{ALLOWS}')
    then = "answer = send_money(to=answer_1[0], amount=5)"
    with bank.agent(first, then, permissions=rules) as agent, agent.conversation() as talk:
        assert talk.run("Read").status == "answered"
        refused(talk.run("Pay"), bank)


@pytest.mark.parametrize("strategy", ["chain", "atc-paper"])
def test_each_strategy_of_ours(bank: Bank, strategy: str) -> None:
    refused(bank.ran(FLOWS, strategy=strategy), bank)
    fails = 'answer = read_mail()["nothing"]'
    refused(bank.ran(fails, CLEAN, CLEAN, CLEAN, strategy=strategy, max_revisions=3), bank)


def test_many_calls_of_one_line_are_each_judged(bank: Bank) -> None:
    pays = "; ".join(['send_money(to="DE-ANN-01", amount=5)'] * 100)
    assert bank.ran(f"read_mail()\n{pays}\nanswer = 1").status == "answered"
    assert len(bank.sent) == 100
    bank.sent.clear()
    result = bank.ran(f"mail = read_mail()\n{pays}; send_money(to=mail['iban'], amount=5)\nanswer = 1")
    assert (result.status, EVIL in str(bank.sent)) == ("denied", False)

"""τ² telecom: the package judges, the company and the phone stay in line, and no try leaves anything behind."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from benchmarks.environments import telecom as module
from benchmarks.environments.base import Episode
from benchmarks.environments.self_test import judge, play
from benchmarks.environments.telecom import INSTALL, TEXT, Telecom, protocols, solo_environment
from benchmarks.systems import SYSTEMS
from benchmarks.tasks.attempt import attempt
from benchmarks.tasks.gateway import Caps, Gateway, Upstream
from benchmarks.tasks.read_tasks import is_sealed
from benchmarks.tasks.rows import Row
from tests.support.fake_openai_server import serving
from tests.support.ruler import says

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

needs_package = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tau2", "docstring_parser"))), reason=f"τ² is missing: {INSTALL}"
)
SOLUTIONS_OF = 8
"""Tasks of each split whose solutions are played: of all, the self-test is the judge."""
AIRPLANE = "[service_issue]airplane_mode_on[PERSONA:None]"
ABROAD = "[mobile_data_issue]user_abroad_roaming_disabled_off[PERSONA:Hard]"
OVERDUE = "[service_issue]overdue_bill_suspension[PERSONA:Easy]"
PIN = "[service_issue]lock_sim_card_pin[PERSONA:Hard]"
SLOW_VPN = "[mobile_data_issue]bad_vpn[PERSONA:None]"


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"no module named {name}")

    module.module.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(EnvironmentProblem, match=r"no module named tau2.*python -m benchmarks\.fetch telecom"):
        Telecom().tasks()
    module.module.cache_clear()


@needs_package
@pytest.mark.parametrize(("split", "number"), [("base", 114), ("small", 20)])
def test_its_own_solutions_are_judged_rightly(split: str, number: int) -> None:
    environment = Telecom(split=split)
    tasks = environment.tasks()
    verdict = asyncio.run(judge(environment, tasks[:: number // SOLUTIONS_OF]))
    assert (verdict.without, verdict.unsolved, verdict.taken) == ([], [], [])
    assert len(tasks) == number


@needs_package
def test_half_of_the_reported_tasks_is_sealed_and_what_was_read_is_not() -> None:
    sealed = [is_sealed("telecom", task.id) for task in Telecom().tasks()]
    assert 40 < sum(sealed) < 74
    assert not any(is_sealed("telecom", task.id) for task in Telecom(split="small").tasks())


@needs_package
def test_the_text_says_what_the_package_tells_its_own_agent() -> None:
    spec = importlib.util.find_spec("tau2")
    assert spec is not None
    assert spec.submodule_search_locations
    with open(f"{spec.submodule_search_locations[0]}/agent/llm_agent.py", encoding="utf-8") as file:
        said = file.read()
    instructions = TEXT.partition("<policy>\n{policy}")[0].splitlines()
    assert all(line in said for line in instructions)
    task = _task(ABROAD)
    assert solo_environment().get_policy() in task.text
    assert "{" not in task.text.partition("<policy>")[0]
    state = solo_environment()
    assert set(task.tools) == {*state.tools.get_tools(), *state.user_tools.get_tools()}


@needs_package
def test_effects_are_as_the_package_marks_them_and_a_read_leaves_all_as_it_was() -> None:
    effects = {name: protocol.effect for name, protocol in protocols().items()}
    assert effects["transfer_to_human_agents"] is effects["toggle_data"] is Effect.WRITE
    state = solo_environment()
    customer = state.tools.db.customers[0]
    known = {
        "phone_number": customer.phone_number,
        "customer_id": customer.customer_id,
        "full_name": customer.full_name,
        "dob": customer.date_of_birth,
        "id": customer.line_ids[0],
        "line_id": customer.line_ids[0],
        "app_name": "messaging",
    }
    before = module._databases(state)
    for name in (name for name, effect in effects.items() if effect is Effect.READ):
        needed = protocols()[name].parameters.get("required", [])
        module._answer(state, protocols()[name], {argument: known[argument] for argument in needed})
        assert module._databases(state) == before, name


@needs_package
def test_a_call_to_the_company_is_seen_on_the_phone_and_a_payment_by_the_company() -> None:
    environment, task = Telecom(split="small"), _task(OVERDUE)
    episode, calls = environment.open(task), dict(environment.gold(task).calls)  # type: ignore[union-attr]
    request = calls["send_payment_request"]
    assert request["bill_id"] not in _call(episode, "check_payment_request")
    _call(episode, "send_payment_request", **request)
    assert request["bill_id"] in _call(episode, "check_payment_request")
    _call(episode, "make_payment")
    bills = _call(episode, "get_bills_for_customer", customer_id=request["customer_id"])
    assert {bill["bill_id"]: bill["status"] for bill in bills}[request["bill_id"]] == "Paid"
    assert not episode.check("done")


@needs_package
def test_a_hand_over_must_be_called_and_not_only_said() -> None:
    episode = Telecom(split="small").open(_task(PIN))
    assert not episode.check("I hand this over to a human agent")
    _call(episode, "transfer_to_human_agents", summary="the SIM card is locked")
    assert episode.check(None)


@needs_package
def test_what_a_tool_refuses_is_an_error_that_did_nothing() -> None:
    episode = Telecom(split="small").open(_task(ABROAD))
    customer = solo_environment().tools.db.customers[0].customer_id
    with pytest.raises(ToolError, match=f"^Line L999 not found for customer {customer}$") as refused:
        _call(episode, "resume_line", customer_id=customer, line_id="L999")
    assert (refused.value.outcome, episode.writes) == ("refused", 0)


@needs_package
def test_no_try_leaves_anything_to_the_next_one() -> None:
    environment = Telecom(split="small")
    solved = environment.open(_task(ABROAD))
    asyncio.run(play(solved, environment.gold(_task(ABROAD)).calls))  # type: ignore[union-attr]
    assert solved.check(None)
    assert not environment.open(_task(ABROAD)).check(None)
    environment.open(_task(SLOW_VPN))  # its fault is written into what the package keeps on a class
    fresh = environment.open(_task(ABROAD))
    _call(fresh, "connect_vpn")
    assert "excellent" in _call(fresh, "check_vpn_status")


@needs_package
def test_the_package_is_imported_without_reading_the_users_env_and_leaves_no_stand_in() -> None:
    module.module("domains.telecom.environment")
    for name in ("addict", "deepdiff", "dotenv", "loguru", "toml"):
        assert name not in sys.modules or hasattr(sys.modules[name], "__file__"), name


FIRST = """```python
before = check_status_bar()
toggle_airplane_mode()
look(before=before)
```"""
THEN = """```python
answer = [before, check_status_bar()]
```"""
WHOLE = """```python
if "Airplane" in check_status_bar():
    toggle_airplane_mode()
answer = check_status_bar()
```"""


@needs_package
def test_atc_reads_decides_and_acts_in_one_program_over_a_state_that_stays() -> None:
    row = _tried(WHOLE)
    assert (row.solved, row.model_calls, row.tool_calls, row.writes) == (True, 1, 3, 1)


@needs_package
def test_what_is_read_after_a_look_is_what_the_write_before_it_left() -> None:
    row = _tried(FIRST, THEN)
    assert (row.solved, row.model_calls, row.tool_calls, row.writes) == (True, 2, 3, 1)
    before, after = row.answer.split("', '")
    assert "Airplane" in before
    assert "Airplane" not in after


@needs_package
def test_a_revision_that_leaves_a_write_out_reads_what_is_so_after_it() -> None:
    """The phone is out of airplane mode, and the status bar is read anew."""
    row = _tried(FIRST.replace("look(before=before)", "answer = [][0]"), THEN.replace("before, ", ""))
    assert (row.solved, row.tool_calls, "Airplane" in row.answer) == (True, 3, False)


@needs_package
def test_what_was_done_before_a_look_is_not_done_again_after_it() -> None:
    """docs/comparison.md says so: the second reboot is another act, and is refused."""
    read = "answer = check_status_bar()\n```"
    row = _tried(
        "```python\nreboot_device()\nlook(done=1)\n```",
        f"```python\nreboot_device()\n{read}",
        f"```python\n{read}",
    )
    assert (row.status, row.writes, row.model_calls, row.failed) == ("answered", 1, 3, 1)


def _tried(*replies: str) -> Row:
    """One try of ATC at a phone in airplane mode, by a model that says this."""
    environment, system = Telecom(split="small"), SYSTEMS["atc"]

    async def one(url: str) -> Row:
        async with Gateway(Upstream(url, "tiny", "tiny", 100_000, direct=True), None).opened() as gateway:
            try:
                return await attempt(environment, _task(AIRPLANE), system, 0, gateway, Caps(tokens=10**6), 0.3)
            finally:
                await system.aclose()

    with serving(*map(says, replies)) as server:
        return asyncio.run(one(server.url))


def _task(name: str) -> Any:
    return next(task for task in Telecom(split="small").tasks() if task.id == name)


def _call(episode: Episode, tool: str, **arguments: Any) -> Any:
    transport = episode.tools[tool].transport
    assert transport is not None
    return asyncio.run(transport(arguments))  # type: ignore[arg-type]

"""A call in doubt that bore an idempotency key is sent again by itself with that key, within its window; no other is.

Against a real HTTP service that makes the order and loses its answer, also to a host process that is really killed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.agent import Agent
from atc.calls.permissions import Permissions
from atc.models.fake import FakeModel
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.mcp import entry, raw_server
from tests.support.orders import Orders, key_header, taking_orders
from tests.support.permissions import written

ORDER = "```python\nanswer = order(item='tea')['id']\n```"
TWO = "```python\nanswer = [order(item='tea')['id'] for _ in range(2)]\n```"
CAUGHT = """```python
try:
    made = order(item='tea')
except ToolError as error:
    made = {'id': str(error.status)}
answer = made['id']
```"""
QUICK: dict[str, Any] = {"sentence": False, "check": False, "approve": "always"}
DENIED = '[[rules]]\ndeny = "order"\narguments = {item = "tea"}'
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def orders() -> Iterator[Orders]:
    with taking_orders() as running:
        yield running


def agent(orders: Orders, folder: Path, *replies: str, declared: bool = True, **settings: Any) -> Agent:
    document = folder / "document.json"  # what a tool is known by, whatever server it names
    document.write_text(json.dumps(orders.document(*([key_header(format="uuid")] if declared else []))))
    tools = import_openapi(document)
    model = FakeModel([*replies] * 9)
    return Agent(tools, model=model, runs_dir=folder / "runs", **{**QUICK, "max_revisions": 2, **settings})


def broken(*requests: int) -> Any:
    """Cut the connection of these requests, after the effect."""

    def lost(number: int) -> None:
        if number in requests:
            raise ConnectionAbortedError

    return lost


def permissions(folder: Path, table: str) -> Permissions:
    return written(folder, f"[tools.order]\nidempotency_key = {table}")


def test_two_equal_calls_bear_two_keys_and_no_program_fills_one(orders: Orders, tmp_path: Path) -> None:
    made = agent(orders, tmp_path, TWO)
    assert list(made.tools["order"].protocol.parameters["properties"]) == ["item"]
    result = made.run("order two")
    assert (result.status, result.value, orders.done) == ("answered", [1, 2], ["tea", "tea"])
    assert len({*orders.keys}) == 2
    assert all(map(UUID.fullmatch, orders.keys))
    mine = agent(orders, tmp_path, "```python\nanswer = order(item='tea', idempotency_key='mine')\n```").run("order")
    assert "mine" not in orders.keys
    assert mine.status != "answered" or len(orders.done) == 3


@pytest.mark.parametrize(
    ("how", "settings"),
    [
        (broken(1), {}),
        (lambda _: time.sleep(20), {"call_timeout_s": 2.0}),
        (lambda _: (500, {"error": "?"}), {}),
        (lambda _: (503, {"error": "?"}), {}),
    ],
    ids=["lost", "too late", "500", "503"],
)
def test_a_call_whose_answer_does_not_say_what_was_done_is_sent_again_at_once(
    orders: Orders, tmp_path: Path, how: Any, settings: dict[str, Any]
) -> None:
    orders.lost = lambda number: how(number) if number == 1 else None
    result = agent(orders, tmp_path, ORDER, **settings).run("order")
    assert (result.status, result.value, orders.done) == ("answered", 1, ["tea"])
    assert (len(orders.keys), len({*orders.keys})) == (2, 1)
    assert "its answer was lost, so it was sent again with its idempotency key" in result.calls[0].notes


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_word_about_the_key_is_no_word_about_the_call(orders: Orders, tmp_path: Path, status: int) -> None:
    """It was sent twice at most, it stays in doubt, and a later resume settles it with the same key."""
    orders.lost = lambda number: (status, {"error": "key in use"}) if number > 1 else broken(1)(number)
    made = agent(orders, tmp_path, CAUGHT)
    result = made.run("order")
    assert (result.status, len(orders.keys)) == ("in_doubt", 2)
    assert [call.tool for call in result.in_doubt] == ["order"]
    assert made.resume("last").status == "in_doubt"
    assert len(orders.keys) == 3
    orders.lost = lambda _: None
    settled = made.resume("last")
    assert (settled.status, settled.value, settled.in_doubt) == ("answered", 1, ())
    assert (orders.done, len({*orders.keys})) == (["tea"], 1)


def test_a_later_program_takes_up_the_call_with_its_key(orders: Orders, tmp_path: Path) -> None:
    orders.lost = lambda number: (500, {}) if number in (1, 2) else None
    result = agent(orders, tmp_path, ORDER, ORDER).run("order")
    assert (result.status, result.value, orders.done) == ("answered", 1, ["tea"])
    assert (len(orders.keys), len({*orders.keys}), result.in_doubt) == (3, 1, ())
    assert "sent again for call 1, with its idempotency key" in result.calls[-1].notes


@pytest.mark.parametrize("declared", [False, True])
def test_without_a_key_or_a_window_nothing_is_sent_again(orders: Orders, tmp_path: Path, declared: bool) -> None:
    """A service that keeps no keys and declares none, and one whose window the user closed."""
    orders.keeps, orders.lost = declared, broken(1)
    rules = permissions(tmp_path, "{window_s = 0}") if declared else None
    made = agent(orders, tmp_path, CAUGHT, declared=declared, permissions=rules)
    assert made.run("order").status == "in_doubt"
    orders.lost = lambda _: None
    assert made.resume("last").status == "in_doubt"
    assert len(orders.keys) == 1
    assert bool(orders.keys[0]) is declared


def test_the_users_file_names_the_header_and_what_stands_there_is_no_argument(orders: Orders, tmp_path: Path) -> None:
    orders.lost = broken(1)
    rules = permissions(tmp_path, '{header = "Idempotency-Key"}')
    made = agent(orders, tmp_path, ORDER, declared=False, permissions=rules)
    assert made.run("order").status == "answered"
    assert (len(orders.keys), len({*orders.keys}), orders.done) == (2, 1, ["tea"])
    short = import_openapi(orders.document(key_header(maxLength=10)))  # takes no key of ours: an argument as any other
    assert "idempotency_key" in short["order"].protocol.parameters["properties"]
    assert short["order"].key_rule is None
    named = rules.graded(short)["order"]
    assert list(named.protocol.parameters["properties"]) == ["item"]
    assert named.protocol.parameters["required"] == ["item"]


def test_a_call_is_not_sent_again_where_anything_may_be_another(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.lost = broken(1, 2)
    made = agent(orders, tmp_path, CAUGHT)
    assert made.run("order").status == "in_doubt"
    orders.lost = lambda _: None
    with taking_orders() as other:
        assert agent(other, tmp_path, CAUGHT).resume("last").status == "denied"
        assert not other.keys
    document = orders.document(key_header(), {"name": "gift", "in": "query", "schema": {"type": "boolean"}})
    changed = Agent(import_openapi(document), model=FakeModel([CAUGHT] * 9), runs_dir=tmp_path / "runs", **QUICK)
    assert changed.resume("last").status == "in_doubt"
    denied = agent(orders, tmp_path, CAUGHT, permissions=written(tmp_path, DENIED))
    assert denied.resume("last").status in ("denied", "in_doubt")
    now = time.time
    for moved in (-60, 3_700):
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda moved=moved: now() + moved)
            assert made.resume("last").status == "in_doubt"
    assert len(orders.keys) == 2
    assert made.resume("last").status == "answered"
    assert (orders.done, len({*orders.keys})) == (["tea"], 1)


HOST = """
import sys, json
from pathlib import Path
from atc import Agent
from atc.models.fake import FakeModel
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
folder = Path(sys.argv[1])
tools = import_openapi(json.loads((folder / "document.json").read_text()))
program = (folder / "program").read_text()
agent = Agent(tools, model=FakeModel([program] * 3), sentence=False, check=False, approve="always", runs_dir=folder / "runs")
agent.run("order")
"""  # noqa: E501


def killed(orders: Orders, folder: Path, program: str, *, after: int, declared: bool = True) -> None:
    """Run a program in a host of its own, which is killed after the effect of a request, before its answer."""
    (folder / "document.json").write_text(json.dumps(orders.document(*([key_header()] if declared else []))))
    (folder / "program").write_text(program)
    hosts: list[subprocess.Popen[bytes]] = []

    def lost(number: int) -> None:
        if number == after:
            hosts[0].send_signal(signal.SIGKILL)
            hosts[0].wait(60)

    orders.lost = lost
    hosts.append(subprocess.Popen([sys.executable, "-c", HOST, str(folder)]))
    assert hosts[0].wait(120) == -signal.SIGKILL
    orders.lost = lambda _: None


def resumed(orders: Orders, folder: Path, program: str, **settings: Any) -> Any:
    document = json.loads((folder / "document.json").read_text())
    made = {**QUICK, "runs_dir": folder / "runs", **settings}
    return Agent(import_openapi(document), model=FakeModel([program] * 3), **made).resume("last")


@pytest.mark.usefixtures("nothing_left")
def test_a_killed_host_is_resumed_with_the_same_key_and_one_effect_a_call(orders: Orders, tmp_path: Path) -> None:
    killed(orders, tmp_path, TWO, after=2)
    assert orders.done == ["tea", "tea"]
    result = resumed(orders, tmp_path, TWO, approve="never")  # the yes was for this call
    assert (result.status, result.value, result.in_doubt) == ("answered", [1, 2], ())
    assert (orders.done, len(orders.keys), len({*orders.keys})) == (["tea", "tea"], 3, 2)
    assert orders.keys[1] == orders.keys[2]


@pytest.mark.usefixtures("nothing_left")
def test_a_killed_host_without_a_key_sends_nothing_again(orders: Orders, tmp_path: Path) -> None:
    orders.keeps = False
    killed(orders, tmp_path, CAUGHT, after=1, declared=False)
    result = resumed(orders, tmp_path, CAUGHT)
    assert (result.status, orders.done, orders.keys) == ("in_doubt", ["tea"], [""])


@pytest.mark.parametrize("named", [False, True])
def test_an_mcp_call_bears_a_key_only_where_the_users_file_names_its_place(tmp_path: Path, named: bool) -> None:
    """A server's hint that a tool is idempotent is a stranger's word, and says nothing of keys."""
    listed = entry("pay", annotations={"idempotentHint": True, "readOnlyHint": False})
    calls = tmp_path / "calls"
    command = raw_server(tmp_path, [listed], calls={"pay": {"exit": 1}}, calls_file=str(calls))
    table = '[tools.pay]\nidempotency_key = {meta = "com.example/key"}'
    pay = "```python\nanswer = pay()\n```"
    made = Agent(
        Toolset.from_mcp(command),
        model=FakeModel([pay] * 9),
        runs_dir=tmp_path / "runs",
        permissions=written(tmp_path, table) if named else None,
        **QUICK,
    )
    assert [call.tool for call in made.run("pay").in_doubt] == ["pay"]
    sent = [json.loads(line).get("_meta", {}).get("com.example/key") for line in calls.read_text().splitlines()]
    assert sent == ([sent[0]] * 2 if named else [None])
    assert not named or UUID.fullmatch(sent[0])


def test_a_program_that_tries_again_and_again_sends_a_call_in_doubt_twice_at_most(
    orders: Orders, tmp_path: Path
) -> None:
    orders.lost = broken(*range(20))
    stubborn = f"```python\nfor _ in range(4):\n    {CAUGHT[10:-4].replace(chr(10), chr(10) + '    ')}\n```"
    made = agent(orders, tmp_path, stubborn)
    assert made.run("order").status == "in_doubt"
    assert len(orders.keys) == 2
    assert made.resume("last").status == "in_doubt"
    assert (len(orders.keys), len({*orders.keys}), orders.done) == (4, 1, ["tea"])


def test_a_read_bears_a_new_key_at_each_try(orders: Orders, tmp_path: Path) -> None:
    orders.lost = lambda number: (503, {}) if number == 1 else None
    document = orders.document(key_header())
    reads = import_openapi(document, effects={"order": "read"})
    made = Agent(reads, model=FakeModel([ORDER]), runs_dir=tmp_path / "runs", **QUICK)
    assert made.run("look").status == "answered"
    assert len({*orders.keys}) == len(orders.keys) == 2


def test_two_equal_calls_at_once_do_not_share_one_call_in_doubt(orders: Orders, tmp_path: Path) -> None:
    both = """```python
import asyncio
async def tried():
    try:
        return order(item='tea')['id']
    except ToolError as error:
        return str(error.status)
async def main():
    return await asyncio.gather(tried(), tried())
answer = asyncio.run(main())
```"""
    orders.lost = broken(*range(20))
    made = agent(orders, tmp_path, CAUGHT, both)
    assert made.run("order").status == "in_doubt"
    orders.lost = lambda _: None
    result = agent(orders, tmp_path, both).resume("last")
    answered = sum(call.status == "ok" for call in result.calls)
    assert answered == len(orders.done) == len({*orders.keys})


def test_two_equal_calls_at_once_are_sent_again_each_with_its_own_key(orders: Orders, tmp_path: Path) -> None:
    """Their rule is asked, and writes into the audit log, before either is begun again."""
    program = "```python\nanswer = parallel(*[lambda: order(item='tea')] * 2)\n```"
    orders.lost = broken(1, 2, 3, 4)
    rules = written(tmp_path, '[[rules]]\nallow = "order"')
    made = agent(orders, tmp_path, program, permissions=rules, audit=tmp_path / "audit.jsonl")
    assert made.run("order two").status == "in_doubt"
    lost = Counter(orders.keys)
    assert [*lost.values()] == [2, 2]
    settled = made.resume("last")
    assert (settled.status, settled.in_doubt) == ("answered", ())
    assert Counter(orders.keys) == dict.fromkeys(lost, 3)

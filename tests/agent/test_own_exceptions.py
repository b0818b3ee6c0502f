"""Exceptions of the user's own functions: masked for programs and prompts, whole in a file for the user alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from atc import Fault, ToolError
from atc._host.secret_detection import looks_random, masked_exception
from atc.calls import own_exceptions, responses
from atc.calls.approval import Approval
from atc.calls.own_exceptions import MAX_MESSAGE, MAX_READ, beginning
from atc.tools.functions import tool_from_function
from atc.traces.stores.base import MAX_TRACEBACK
from atc.traces.stores.files import FileStore
from tests.support.agent import agent
from tests.support.broker import House
from tests.support.time import little_work
from tests.support.tools import make_tool

SECRETS = [
    "postgresql://me:s3cr3tpw@db.example/x",
    "redis://:s3cr3tpw@cache:6379/0",
    "could not log in with password=s3cr3tpw",
    "{'user': 'me', 'password': 's3cr3tpw'}",
    "Invalid API key: s3cr3tpw1",
    "401 for https://api.example/v1?token=s3cr3tpw&page=2",
    "Authorization: Bearer s3cr3tpws3cr3tpws3cr3tpw",
    "AKIAs3cr3tpw".upper().replace("S3CR3TPW", "IOSFODNN7EXAMPLE"),
    "for key kQ8dX2Lw/5mTz0Rb+vN3hJ7cYpG1sE9uFa4oWi6A",
    "appid 9f86d081884c7d659a2feaa0c55ad015 is over its quota",
    "signature Xq3Zt9LmP2vRk8WbN5yHc7Jd4Fg6Sa1T does not match",
    "account k3j9x2m8q1w7e5r4t6y0u2i8 is unknown",
    "-----BEGIN PRIVATE KEY-----\nMIIabc",
]
ORDINARY = [
    "KeyError: 'find_cities_by_country_code_and_population_2'",
    "no order 3f2504e0-4f89-11d3-9a0c-0305e82c3301 for customer c-1042",
    "run 20261122-152415-a1b2c3 has no trace",
    "cannot open /usr/lib/python3.11/site-packages/requests/adapters.py, line 486",
    "'NoneType' object has no attribute 'get' (in validate_token: 'NoneType')",
    "token: expired; password: required; secret = None",
    "<Thing object at 0x7f3a2b1c9d50>",
    "TerminateInstancesRequest2024Version is not a GetProductByIdResponse",
    "2026-05-01T09:30:00.123456+02:00 is in the past, 12345678901234567890 too",
    "expected 3 columns (order_2024_total, order_2025_total), got 2",
    "https://api.example.com/v2/customers/42/orders?limit=10&sort=created_at answered 404",
    "unexpected token '}' at position 14",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_secret_is_masked(text: str) -> None:
    masked = masked_exception(f"it failed: {text}")
    assert "***" in masked
    assert "s3cr3tpw" not in masked
    assert not any(looks_random(word) for word in masked.split())


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_and_identifiers_stay(text: str) -> None:
    assert masked_exception(text) == text


def test_masking_is_linear() -> None:
    for text in ("password=" * 50_000, "aB3" * 150_000, "-" * 400_000, "token: " * 60_000, "://" * 100_000):
        with little_work():
            masked_exception(text)


# -- the broker --------------------------------------------------------------------------------------------------------

HASH = "9f86d081884c7d659a2feaa0c55ad015"


def test_what_the_task_the_call_or_a_tool_gave_is_no_secret() -> None:
    def find(name: str) -> str:
        return f"id {HASH}"

    def get(key: str) -> str:
        raise LookupError(f"there is no {HASH} nor {HASH[::-1]}")

    house = House(tool_from_function(find), tool_from_function(get))
    assert house.call("get", key="a").error == "LookupError: there is no *** nor ***"
    assert house.call("get", key=HASH).error == f"LookupError: there is no {HASH} nor ***"
    house.call("find", name="a")
    assert house.call("get", key="b").error == f"LookupError: there is no {HASH} nor ***"
    house = House(tool_from_function(get))
    house.broker = type(house.broker)(
        house.broker.tools, house.journal, lambda *_: None, approval=Approval("always"), task=f"get {HASH[::-1]}"
    )
    assert house.call("get", key="a").error == f"LookupError: there is no *** nor {HASH[::-1]}"


def test_a_secret_is_masked_before_the_message_is_cut() -> None:
    def fail() -> None:
        raise ValueError("x" * (MAX_MESSAGE - 20) + " " + HASH)

    error = str(House(tool_from_function(fail)).call("fail").error)
    assert HASH[:8] not in error
    assert len(error) <= MAX_MESSAGE


def test_a_refusal_that_a_function_words_itself_loses_credentials_only() -> None:
    def refuse() -> None:
        raise ToolError(f"no {HASH} at https://me:s3cr3tpw@db", status="not_found")

    assert House(tool_from_function(refuse)).call("refuse").error == f"no {HASH} at https://***@db"


def test_an_error_whose_text_fails_is_still_told() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail() -> None:
        raise Odd

    assert "Odd: (its text cannot be had)" in str(House(tool_from_function(fail)).call("fail").error)


def test_a_transport_of_the_users_is_masked_too() -> None:
    def broken(arguments: dict[str, Any]) -> Any:
        raise RuntimeError("postgresql://me:s3cr3tpw@db")

    assert House(make_tool("get", broken)).call("get", n=1).error == "RuntimeError: postgresql://***@db"


def test_of_a_huge_exception_only_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[int] = []
    monkeypatch.setattr(own_exceptions, "masked_exception", lambda text, _: looked_for.append(len(text)) or text)
    monkeypatch.setattr(responses, "masked_text", lambda text: looked_for.append(len(text)) or text)

    def fail() -> int:
        raise ValueError("5f2c 9ab1 " * 200_000)

    def refuse() -> int:
        raise ToolError("5f2c 9ab1 " * 200_000)

    for function in (fail, refuse):
        House(tool_from_function(function)).call(function.__name__)
    assert len(looked_for) == 2
    assert max(looked_for) <= MAX_READ + 1


def test_no_half_of_a_secret_is_left_where_a_text_is_cut() -> None:
    secret = "kQ8dX2Lw5mTz0RbvN3hJ7cYpG1sE9uFa4oWi6A"
    for before in ("a " * 9_990, " " * (MAX_READ - 9)):
        assert secret[:6] not in beginning(f"{before}{secret}{secret}")
    assert beginning("a" * MAX_READ) == "a" * MAX_READ


# -- the file ----------------------------------------------------------------------------------------------------------


def charge(n: int) -> int:
    """Charge somebody."""
    raise ConnectionError("cannot reach postgresql://me:s3cr3tpw@db/x")


PROGRAM = "```python\nanswer = charge(n=1)\n```"


def test_the_fault_names_the_file_with_the_whole_traceback(tmp_path: Path) -> None:
    result = agent(PROGRAM, tools=(charge,), max_revisions=0).run("charge 1")
    assert isinstance(result.fault, Fault)
    assert result.fault.traceback is not None
    file = Path(result.fault.traceback)
    assert result.calls[0].traceback == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert "s3cr3tpw" in text
    assert "in charge" in text
    assert result.trace is not None
    trace = Path(result.trace)
    assert file.parent == trace.parent
    for kept in trace.parent.glob("*.jsonl"):
        assert "s3cr3tpw" not in kept.read_text()
    assert "s3cr3tpw" not in json.dumps(result.model_dump(mode="json"))


def test_no_run_that_is_kept_no_file(tmp_path: Path) -> None:
    result = agent(PROGRAM, tools=(charge,), max_revisions=0, keep_runs=False, runs_dir=tmp_path).run("charge 1")
    assert result.fault is not None
    assert (result.fault.traceback, list(tmp_path.iterdir())) == (None, [])


def test_a_traceback_is_bounded_and_follows_no_link(tmp_path: Path) -> None:
    run = FileStore(tmp_path).run("20261122-152415-a1b2c3")
    assert run.keep_traceback(1, "x") is None  # there is no folder
    run.make()
    path = run.keep_traceback(1, "a" * MAX_TRACEBACK + "b" * MAX_TRACEBACK)
    assert path is not None
    text = Path(path).read_text()
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert len(text) < MAX_TRACEBACK + 100
    (run.folder / "traceback-2.txt").symlink_to(tmp_path / "elsewhere")
    assert run.keep_traceback(2, "x") is None
    assert not (tmp_path / "elsewhere").exists()

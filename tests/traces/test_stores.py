"""Stores of runs keep what is promised, in a folder and a database; one that is down refuses before anything runs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atc import Agent, FakeModel, tool
from atc._host.database_address import masked, secrets_of, shown
from atc.errors import EnvironmentProblem, SettingsError
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.files import FileStore
from atc.traces.stores.postgres import PostgresStore
from tests.support.cli import atc
from tests.traces.conformance import SUITE, Opened


@pytest.mark.parametrize("promise", SUITE, ids=lambda each: each.__name__)
def test_a_folder_keeps_it(promise: object, tmp_path: Path) -> None:
    assert callable(promise)
    promise(lambda: FileStore(tmp_path / "runs"))


@pytest.fixture
def opened(address: str) -> Iterator[Opened]:
    stores = list[PostgresStore]()

    def open_it() -> PostgresStore:
        stores.append(PostgresStore(address))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("promise", SUITE, ids=lambda each: each.__name__)
def test_a_database_keeps_it(promise: object, opened: Opened) -> None:
    assert callable(promise)
    promise(opened)


@tool(effect="write")
def book(n: int) -> int:
    """Book a seat."""
    return n


PROGRAM = "```python\nanswer = book(n=1) + book(n=2)\n```"


def agent_of(address: str) -> Agent:
    return Agent([book], model=FakeModel([PROGRAM] * 5), approve="always", sentence=False, learn=False, store=address)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "postgresql://me:h@h:5/runs?host=other&password=x",
            "postgresql://me:[secret]@h:5/runs?host=other&password=[secret]",
        ),
        ("postgresql://me@h/runs?sslmode=require", "postgresql://me@h/runs?sslmode=require"),
        ("mysql://me:hidden@h", "[secret]"),
    ],
)
def test_of_an_address_that_is_to_be_trusted_all_but_passwords_is_seen(address: str, said: str) -> None:
    assert masked(address) == said


@pytest.mark.parametrize(
    ("address", "said", "secret"),
    [
        ("postgresql://me:s3cr%40t@h:5/runs?sslmode=require", "postgresql://me@h:5/runs", ["s3cr%40t", "s3cr@t"]),
        ("postgresql://me@/runs?host=%2Frun%2Fpg", "postgresql://me@/runs?host=/run/pg", []),
        ("postgres://h/runs?password=hidden1", "postgresql://h/runs", ["hidden1"]),
    ],
)
def test_a_password_is_shown_nowhere(address: str, said: str, secret: list[str]) -> None:
    assert shown(address) == said
    assert secrets_of(address) == ([*secret, address] if secret else [])
    assert Settings(store=address).secrets == secrets_of(address)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "address",
    ["mysql://h/x", "runs", "postgresql://u:hid@den@h/x", "postgresql://u:hid/den@h/x", "postgresql://u:hid#den@h/x",
     "postgresql://h/x?hidden=1"],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(SettingsError, match="store: ") as refused:
        open_store(Settings(store=address))  # type: ignore[arg-type]
    assert not [part for part in ("hid", "den") if part in str(refused.value)]


def test_a_server_that_is_down_refuses_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = FakeModel([PROGRAM])
    address = f"postgresql://me:hidden1@127.0.0.1:{port}/runs"
    agent = Agent([book], model=model, approve="always", store=address)
    with pytest.raises(EnvironmentProblem, match=r"refused.*ATC_STORE") as problem:
        agent.run("book two seats")
    assert not model.prompts
    assert "hidden1" not in str(problem.value)
    monkeypatch.setenv("ATC_STORE", address)
    for command in (["runs", "--json"], ["runs", "show", "last"], ["resume", "last"]):
        ran = atc(*command)
        assert (ran.exit_code, "refused" in ran.stderr) == (3, True), (command, ran.output)
        assert "hidden1" not in ran.output


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = PostgresStore(f"postgresql://me@127.0.0.1:{port}/runs?connect_timeout=2")
        with pytest.raises(EnvironmentProblem, match="timeout"):
            store.check()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("atc.traces.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[postgres\]'"):
        open_store(Settings(store="postgresql://h/x"))  # type: ignore[arg-type]

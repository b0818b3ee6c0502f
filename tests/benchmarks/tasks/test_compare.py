"""The comparison for whoever has a key: within its money, on a scripted endpoint; and its tables."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from atc._records.prices import Price
from atc.errors import UsageError
from benchmarks import compare
from benchmarks.compare import main
from benchmarks.environments import open_environment
from benchmarks.tasks.compare_table import MARK, ROWS, tables
from benchmarks.tasks.gateway import Gateway, Session
from benchmarks.tasks.honest_table import PAGE, placed
from benchmarks.tasks.purse import Purse
from benchmarks.tasks.rows import Row, read_rows
from tests.support.fake_openai_server import Handler, Server, Step, answers, fails, serving
from tests.support.gateway import World, replies, weather_episode
from tests.support.ruler import source

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

PRICE = Price(input=Decimal(1_000), output=Decimal(1_000), cached=Decimal(100))
"""A thousandth for a token."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compare, "RESULTS", tmp_path)
    monkeypatch.setattr(compare, "WAITS", ())
    monkeypatch.setenv("ATC_PRICES", '{"tiny": {"input": 1000, "output": 1000}}')
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(replies("7", usage=(800, 200))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def command(folder: Path, money: float, *more: str, model: str = "tiny") -> Any:
    app = Typer()
    app.command()(main)
    places = ["--data", str(folder), "--out", str(folder / "rows.jsonl"), "--page", str(folder / "page.md")]
    few = ["--sets", "atlas", "--systems", "function-calling", "--tasks", "3"]
    return CliRunner().invoke(app, ["--model", model, "--budget-money", str(money), *places, *few, *more])


def told(ran: Any) -> str:
    return " ".join(ran.output.split())


def test_a_model_without_a_price_is_asked_nothing_and_the_error_gives_the_way(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = command(folder, 5, model="other")
    assert ran.exit_code == 2
    assert server.requests == []
    given = re.search(r"ATC_PRICES='(.*?)'", told(ran))
    assert given is not None
    monkeypatch.setenv("ATC_PRICES", given[1])
    assert command(folder, 5, model="other").exit_code == 0, "what the error says to give is enough"


def test_it_runs_within_the_money_says_what_it_cost_and_writes_a_page(folder: Path, server: Server) -> None:
    ran = command(folder, 50)
    assert ran.exit_code == 0, ran.output
    assert len(server.requests) == 3
    assert "1.00 USD of 50.00 USD so far" in told(ran)
    assert "3.00 USD of 50.00 USD so far" in told(ran)
    page = (folder / "page.md").read_text()
    assert "| `atlas` | `function-calling` | 3 | 0 | 3 | 1.0 | 800 + 200 | 0.0 | 0 |" in page
    for part in ("3 of 3 tries: atlas 3", "40 calls, 600000 tokens", "python -m benchmarks.compare", "3.00 USD"):
        assert part in page
    again = command(folder, 50)
    assert (again.exit_code, len(server.requests)) == (0, 3), "what is there is not paid twice"
    assert (folder / "page.md").read_text() == page


def test_it_stops_before_a_try_that_the_rest_would_not_pay_and_goes_on_with_more(folder: Path, server: Server) -> None:
    for money, made in ((0.5, 0), (4.5, 1), (4.5, 1)):  # a request may take up to 3.5
        ran = command(folder, money)
        assert (ran.exit_code, len(server.requests)) == (1, made), ran.output
        assert f"{3 - made} tries are left: go on with --budget-money" in told(ran)
        assert "It stopped there: " in (folder / "page.md").read_text()
    least = re.search(r"--budget-money ([\d.]+) at least", told(ran))
    assert least is not None
    assert command(folder, float(least[1]) - 0.01).exit_code == 1
    assert len(server.requests) == 1
    command(folder, float(least[1]))
    assert len(server.requests) == 2, "what it says is needed at least is enough for a try more"
    assert command(folder, 100).exit_code == 0
    assert [row.status for row in read_rows(folder / "rows.jsonl")] == ["answered"] * 3


def test_a_set_and_a_system_that_are_not_there_are_named_and_the_rest_goes_on(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATC_PEER_PYTHON_RUN_SMOLAGENTS", "/no/such/python")
    ran = command(folder, 50, "--sets", "atlas,toolflow", "--systems", "function-calling,smolagents-code")
    assert ran.exit_code == 0
    page = (folder / "page.md").read_text()
    for reason in ("toolflow has no data", "/no/such/python cannot be started"):
        assert reason in told(ran)
        assert reason in page
    assert "it cannot be fetched" in page
    assert "- Left out: `smolagents-code`: " in page
    assert "3 of 3 tries: atlas 3." in page, "what is not there has no tries"
    assert len(server.requests) == 3


def test_the_tasks_of_the_published_table_come_first_and_then_those_of_the_draw(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = compare.tasks_of_sets([open_environment("atlas")], 5)["atlas"]
    (folder / "list.txt").write_text(f"telecom/x\natlas/{drawn[4]}\natlas/gone\natlas/{drawn[1]}\n")
    monkeypatch.setattr(compare, "LIST", folder / "list.txt")
    assert compare.tasks_of_sets([open_environment("atlas")], 3)["atlas"] == [drawn[4], drawn[1], drawn[0]]
    command(folder, 50)
    assert {row.task for row in read_rows(folder / "rows.jsonl")} == {drawn[4], drawn[1], drawn[0]}
    assert "2 of them are of ATC's published table" in (folder / "page.md").read_text()


def test_the_list_of_tasks_is_that_of_the_published_rows() -> None:
    lines = compare.LIST.read_text().splitlines()
    published = {f"{row.env}/{row.task}" for row in read_rows(ROWS) if row.system == "atc"}
    assert (len(lines), set(lines)) == (40, published)
    assert [line.partition("/")[0] for line in lines] == sorted(line.partition("/")[0] for line in lines)


def test_a_page_that_cannot_be_written_is_found_before_anything_is_asked(folder: Path, server: Server) -> None:
    (folder / "file").write_text("")
    ran = command(folder, 50, "--page", str(folder / "file" / "page.md"))
    assert (ran.exit_code, server.requests) == (2, [])
    assert "--page: " in told(ran)


def test_a_system_that_nobody_knows_is_named_with_the_option_of_this_command(folder: Path) -> None:
    for name in ("moon", "atc-alpha:x"):
        ran = command(folder, 50, "--systems", name)
        assert (ran.exit_code, "--systems: " in told(ran)) == (2, True)


def test_where_the_file_of_the_money_is_gone_the_rows_say_what_was_spent(folder: Path, server: Server) -> None:
    command(folder, 50)
    (folder / "rows.money.json").unlink()
    ran = command(folder, 50)
    assert "is gone: the tokens of the tries in" in told(ran)
    assert "- 3.00 USD of 50.00 USD so far" in (folder / "page.md").read_text()


def test_an_endpoint_may_be_named_by_an_option(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert command(folder, 50, "--base-url", server.url).exit_code == 0
    assert len(server.requests) == 3


# The purse ------------------------------------------------------------------------------------------------------------


def purse(folder: Path, limit: float) -> Purse:
    return Purse(folder / "money.json", "tiny", PRICE, Decimal(str(limit)), "USD")


BODY = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 500}


def hangs_up(handler: Handler) -> None:
    """Take a request and answer nothing."""
    handler.close_connection = True


def asked(
    folder: Path,
    limit: float,
    *steps: Step,
    waits: tuple[float, ...] = (),
    body: dict[str, Any] = BODY,
    seen: list[dict[str, Any]] | None = None,
) -> tuple[list[int], Purse, Session]:
    """Ask twice through a gateway with a purse; ``seen`` gets what the endpoint was sent."""
    own = purse(folder, limit)

    async def ask() -> tuple[list[int], Purse, Session]:
        import httpx

        with serving(*steps) as server:
            session = Session(weather_episode(), compare.CAPS, 0.3, 1)
            async with (
                Gateway(source(server), None, own, waits).opened() as gateway,
                gateway.session(session) as address,
                httpx.AsyncClient(trust_env=False) as client,
            ):
                world = World(session, address, server.requests)
                url = f"{world.address}/v1/chat/completions"
                statuses = [(await client.post(url, json=body)).status_code for _ in range(2)]
                if seen is not None:
                    seen.extend(server.requests)
                return statuses, own, session

    return asyncio.run(ask())


def test_a_request_that_cannot_be_paid_is_not_made_and_its_try_has_no_result(tmp_path: Path) -> None:
    statuses, own, session = asked(tmp_path, 1.0, replies("hi", usage=(400, 300)))
    assert statuses == [200, 400]
    assert own.spent == Decimal("0.7")
    assert "the money is used up: 0.30 USD are left" in session.spent.failure
    assert "the next request may take 0.5" in own.next_try()


def test_what_the_endpoint_had_read_before_costs_less(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 400, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 300}}
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}], "usage": usage}
    _, own, _ = asked(tmp_path, 10.0, answers(200, json.dumps(reply).encode()))
    assert own.spent == 2 * Decimal("0.23")


def test_an_endpoint_that_is_busy_is_asked_anew_and_a_refusal_costs_nothing(tmp_path: Path) -> None:
    statuses, own, session = asked(tmp_path, 10.0, fails(429), replies("hi", usage=(100, 100)), waits=(0.01,))
    assert (statuses, own.spent, session.spent.failure) == ([200, 200], Decimal("0.4"), "")
    statuses, own, session = asked(tmp_path / "b", 10.0, fails(429), waits=(0.01,))
    assert (statuses, own.spent) == ([429, 429], 0)
    assert "429" in session.spent.failure


@pytest.mark.parametrize("step", [answers(200, b"<html>"), answers(200, b"[]"), hangs_up])
def test_a_reply_that_was_lost_may_have_cost_all_that_it_could(tmp_path: Path, step: Step) -> None:
    statuses, own, _ = asked(tmp_path, 10.0, step)
    assert (statuses, own.spent > 1) == ([504, 504], True)


@pytest.mark.parametrize("limit", [None, 0, -1])
def test_a_system_that_sets_no_limit_gets_the_usual_one(tmp_path: Path, limit: int | None) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": limit, "max_tokens": limit}
    requests: list[dict[str, Any]] = []
    statuses, _, _ = asked(tmp_path, 10.0, replies("hi", usage=(1, 1)), body=body, seen=requests)
    assert statuses == [200, 200]
    assert [(r.get("max_tokens"), r.get("max_completion_tokens")) for r in requests] == [(1_024, None)] * 2


def test_two_comparisons_with_one_purse_see_what_the_other_spends(tmp_path: Path) -> None:
    one, other = purse(tmp_path, 5), purse(tmp_path, 5)
    for each in (one, other, one):
        aside = each.reserve(1_000, 1_000)
        assert aside is not None
        each.pay(aside, aside)
    assert (one.spent, other.spent, one.reserve(1_000, 1_000)) == (6, 4, None)


def test_what_was_spent_is_kept_by_model(tmp_path: Path) -> None:
    first = purse(tmp_path, 5)
    aside = first.reserve(1_000, 1_000)
    assert aside == 2
    assert first.left == 3
    first.pay(aside, Decimal("1.5"))
    assert first.next_try() == ""
    again = purse(tmp_path, 5)
    assert (again.spent, again.dearest) == (Decimal("1.5"), Decimal("1.5"))
    assert purse(tmp_path, 2.9).next_try() == "1.40 USD are left, and the dearest try took 1.50 USD"
    other = Purse(tmp_path / "money.json", "another", PRICE, Decimal(5), "USD")
    assert other.spent == 0
    for damaged in ("{", "[]", '{"tiny": {"spent": "NaN"}}', '{"tiny": {"spent": "-5"}}'):
        (tmp_path / "money.json").write_text(damaged)
        with pytest.raises(UsageError, match="does not say what was spent"):
            purse(tmp_path, 5)


def test_what_the_last_try_cost_is_known_to_the_next_process(tmp_path: Path) -> None:
    first = purse(tmp_path, 5)
    first.next_try()
    first.pay(Decimal(0), Decimal("0.19"))
    first.close_try()
    again = purse(tmp_path, 0.25)
    assert again.dearest == Decimal("0.19")
    assert again.next_try() == "0.06 USD are left, and the dearest try took 0.19 USD"
    assert again.enough == Decimal("0.38")
    assert purse(tmp_path, 0.38).next_try() == ""


def test_what_earlier_tries_cost_counts_where_the_file_is_gone(tmp_path: Path) -> None:
    tries = (Decimal("0.5"), Decimal("1.5"))
    own = Purse(tmp_path / "money.json", "tiny", PRICE, Decimal(5), "USD", tries)
    assert (own.spent, own.dearest) == (2, Decimal("1.5"))
    own.next_try()
    assert Purse(tmp_path / "money.json", "tiny", PRICE, Decimal(5), "USD", (*tries, Decimal(9))).spent == 2


# The tables -----------------------------------------------------------------------------------------------------------


def row(env: str, task: str, system: str, **more: Any) -> Row:
    known = {"version": "1", "seed": 0, "model": "large", "terms": "t", "stated": True, "status": "answered"}
    return Row(env, task, system, **known | {"model_calls": 2, "prompt_tokens": 1_000} | more)


def test_the_tables_count_what_was_solved_what_was_wrong_and_what_was_unwanted() -> None:
    rows = [
        row("long", "decide-1", "atc", solved=True),
        row("long", "chain-1", "atc", status="unsolved", model_calls=5),
        row("long", "decide-1", "react", repeated_writes=2, forbidden_writes=1, tool_calls=3),
        row("telecom", "a", "atc", solved=True, completion_tokens=500),
        row("telecom", "b", "atc", status="environment"),
    ]
    assert tables(rows).splitlines()[4:] == [
        "| `long` | `atc` | 2 | 1 | 0 | 3.5 | 1,000 + 0 | 0.0 | 0 |",
        "| `long` | `react` | 1 | 0 | 1 | 2.0 | 1,000 + 0 | 3.0 | 3 |",
        "| of `long`: with a decision | `atc` | 1 | 1 | 0 | 2.0 | 1,000 + 0 | 0.0 | 0 |",
        "| of `long`: with a decision | `react` | 1 | 0 | 1 | 2.0 | 1,000 + 0 | 3.0 | 3 |",
        "| `telecom` | `atc` | 1 | 1 | 0 | 2.0 | 1,000 + 500 | 0.0 | 0 |",
        "| all | `atc` | 3 | 2 | 0 | 3.0 | 1,000 + 167 | 0.0 | 0 |",
        "| all | `react` | 1 | 0 | 1 | 2.0 | 1,000 + 0 | 3.0 | 3 |",
    ]


def test_the_page_has_the_tables_of_the_rows() -> None:
    if not ROWS.exists():
        pytest.skip("no rows of the comparison are published")
    page = PAGE.read_text(encoding="utf-8")
    assert placed(page, tables(read_rows(ROWS)), MARK) == page, "run python -m benchmarks.tasks.compare_table --write"

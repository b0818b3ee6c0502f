"""What a run costs, and the budget that ends it, in results, traces and commands."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from atc import Result, Settings, SettingsError
from atc.models.messages import Reply
from tests.support.agent import BAD, GOOD, agent, ended
from tests.support.cli import atc, endpoints, settle
from tests.support.docs import blocks
from tests.support.fake_openai_server import says

PRICES = {"fake": {"input": 0.15, "output": 0.6}}
TOML = '[prices."tiny"]\ninput = 0.15\ncached = 0.075\noutput = 0.60\n'


def test_a_result_and_its_trace_have_the_cost() -> None:
    priced = agent(Reply(GOOD, "stop", 1_000, 100, 0.1), prices=PRICES, currency="EUR")
    result = priced.run("double 21")
    assert (result.cost, result.currency) == (Decimal("0.00021"), "EUR")
    data = ended(priced)
    assert (data["cost"], data["currency"]) == (0.00021, "EUR")
    assert Result.model_validate_json(result.model_dump_json()).cost == result.cost
    assert "1 tool calls, 0.00021 EUR<" in result._repr_html_()


def test_without_a_price_the_cost_is_not_known() -> None:
    result = agent(GOOD, prices={"other": PRICES["fake"]}).run("double 21")
    assert (result.cost, result.currency) == (None, "")


def test_money_that_is_used_up_ends_the_run() -> None:
    poor = agent(Reply(BAD, "stop", 1_000, 100, 0.1), GOOD, prices=PRICES, budget_money="0.0003")
    result = poor.run("double 21")
    assert result.status == "budget"
    assert result.fault is not None
    assert "raise budget_money" in result.fault.message
    assert len(result.calls) == 1


def test_a_budget_in_money_needs_the_price_before_anything_is_done() -> None:
    priceless = agent(GOOD, budget_money=1)
    with pytest.raises(SettingsError, match=r"(?s)no price for the model 'fake'.*\[prices.\"fake\"\]\ninput = "):
        priceless.run("double 21")
    assert priceless.store.list() == []


@pytest.mark.parametrize(
    "given",
    [
        {"prices": {"fake": {"input": -1, "output": 1}}},
        {"prices": {"fake": {"input": 1}}},
        {"prices": {"fake": {"input": "nan", "output": 1}}},
        {"prices": {"fake": {"input": 1, "output": 1, "reasoning": 1}}},
        {"budget_money": 0},
        {"budget_money": float("inf")},
        {"currency": "US dollars"},
    ],
)
def test_wrong_prices_and_budgets_are_wrong_settings(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(given))):
        agent(GOOD, **given)


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    settle(tmp_path, monkeypatch)
    Path("atc.toml").write_text(TOML)
    assert atc("trust", "atc.toml", stdin="y\n").exit_code == 0
    with endpoints(monkeypatch) as start:
        yield start


def test_the_commands_show_what_a_run_cost(endpoint: Any) -> None:
    endpoint(says("```python\nanswer = double(n=21)\n```", usage=(1_000, 100)))
    run = ("run", "double 21", "--tools", "tools.py")
    ran = atc(*run, "--set", "budget_money=0.05")
    assert "(1000+100 tokens, 0.00021 USD, " in ran.stdout
    assert "0.00021 USD" in atc("runs", "show", "last").stdout
    as_json = json.loads(atc(*run, "--json").stdout)
    assert (as_json["cost"], as_json["currency"]) == (0.00021, "USD")
    listed = atc("runs").stdout.splitlines()
    assert listed[0].split() == ["run", "status", "calls", "revisions", "cost", "task"]
    assert "0.00021 USD" in listed[1]
    assert json.loads(atc("runs", "--json").stdout)[0]["cost"] == 0.00021


def test_a_budget_that_is_too_small_for_the_first_prompt_says_so(endpoint: Any) -> None:
    server = endpoint(says(GOOD))
    ran = atc("run", "double 21", "--tools", "tools.py", "--set", "budget_money=0.000001")
    assert ran.exit_code == 1
    assert "raise budget_money to go on" in ran.stdout
    assert server.requests == []


def test_a_price_list_of_a_folder_counts_once_it_is_trusted(endpoint: Any) -> None:
    endpoint(says(GOOD))
    Path("atc.toml").write_text(TOML.replace("0.60", "0.00"))
    ran = atc("run", "double 21", "--tools", "tools.py")
    assert ran.exit_code == 2
    assert "is not trusted, so it may not set prices=" in ran.stderr


def test_the_price_list_of_the_documents_is_one() -> None:
    (text,) = [body for name, body in blocks("toml") if "prices" in body]
    settings = Settings.load(**tomllib.loads(text))
    assert settings.budget_money == Decimal("0.05")
    assert settings.prices["gpt-4o-mini"].cost(1_000_000, 1_000_000, 500_000) == Decimal("0.7125")


def test_the_list_of_runs_sums_up_what_the_tasks_of_a_conversation_cost(endpoint: Any) -> None:
    endpoint(says("```python\nanswer = double(n=21)\n```", usage=(1_000, 100)))
    ran = atc("chat", "--tools", "tools.py", "--json", "--set", "budget_money=0.05", stdin="double 21\nonce more\n")
    assert [json.loads(line)["cost"] for line in ran.stdout.splitlines()] == [0.00021, 0.00021]
    assert json.loads(atc("runs", "--json").stdout)[0]["cost"] == 0.00042

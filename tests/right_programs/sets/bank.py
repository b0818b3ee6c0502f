"""A bank for pocket money: functions whose responses are dicts of any kind, amounts in cents, errors with a status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc import ToolError, tool

KIND = "functions"
TASKS = (
    "What is the total balance of all accounts of Nora, in euros with two decimals?",
    "Which account has the lowest balance? Answer with its IBAN.",
    "Transfer 12.50 euros from Nora's savings account to Tim's giro account. Answer with the reference.",
    "How much did Nora spend on groceries in March 2026, in cents?",
    "Which category did Tim spend the most on? Answer with the category.",
    "Transfer 5 euros to every account of Nora from Tim's giro account. Answer with the list of references.",
    "List all counterparties of Nora's giro account, sorted and without repeats.",
    "What is the balance of Tim's giro account after each of its bookings, starting from 0? Answer with a list of cents.",
    "How many bookings of all accounts have no category?",
    "Is there a booking of the same amount and counterparty twice on one account? Answer with the amounts, sorted.",
    "What is the largest single income of each owner, in cents? Answer with a dict from owner to number.",
    "Try to transfer 1,000,000 euros from Tim's giro account to Nora's; if the bank refuses, answer with the status.",
    "Give per month (2026-03) the sum of all negative bookings of all accounts, as a dict from month to cents.",
    "Which owners have an account of each kind that exists? Answer with a sorted list.",
    "Set a monthly limit of 100 euros on each giro account. Answer with a dict from IBAN to limit in cents.",
    "What percentage of Nora's spending was cashless (method 'card')? Round to a whole number.",
    "Who received the most money in total from all accounts? Answer with the counterparty.",
    "Format Nora's giro bookings as lines 'date counterparty amount' with the amount in euros, oldest first.",
    "What is the standing order total per month of Tim, in cents?",
    "Cancel the largest standing order of Tim. Answer with its id.",
)

ACCOUNTS = [
    {"iban": "DE01", "owner": "Nora", "kind": "giro", "balance": 15230, "currency": "EUR"},
    {"iban": "DE02", "owner": "Nora", "kind": "savings", "balance": 200000, "currency": "EUR", "interest": 1.5},
    {"iban": "DE03", "owner": "Tim", "kind": "giro", "balance": 4100, "currency": "EUR"},
]
BOOKINGS: dict[str, list[dict[str, Any]]] = {
    "DE01": [
        {
            "date": "2026-03-01",
            "amount": 180000,
            "counterparty": "Ada GmbH",
            "category": "salary",
            "method": "transfer",
        },
        {"date": "2026-03-03", "amount": -4230, "counterparty": "Markt", "category": "groceries", "method": "card"},
        {"date": "2026-03-17", "amount": -4230, "counterparty": "Markt", "category": "groceries", "method": "card"},
        {"date": "2026-04-02", "amount": -1999, "counterparty": "Kino", "category": None, "method": "cash"},
    ],
    "DE02": [],
    "DE03": [
        {"date": "2026-03-05", "amount": 9000, "counterparty": "Nora", "method": "transfer"},
        {"date": "2026-04-09", "amount": -2400, "counterparty": "Kino", "category": "fun", "method": "card"},
        {"date": "2026-04-11", "amount": -2500, "counterparty": "Bahn", "category": "travel", "method": "card"},
    ],
}
ORDERS = {
    "DE03": [
        {"id": 7, "to": "Bahn", "amount": 4900, "every": "month"},
        {"id": 9, "to": "Nora", "amount": 5200, "every": "month"},
    ]
}


def functions() -> list[Callable[..., Any]]:
    """The tools, with balances of their own."""
    accounts = [dict(a) for a in ACCOUNTS]
    orders = {iban: list(some) for iban, some in ORDERS.items()}
    sent: list[str] = []

    def account(iban: str) -> dict[str, Any]:
        if (found := next((a for a in accounts if a["iban"] == iban), None)) is None:
            raise ToolError(f"no account {iban}", status="not_found")
        return found

    @tool(effect="read")
    def list_accounts(owner: str | None = None) -> list[dict[str, Any]]:
        """Accounts with iban, owner, kind (giro or savings) and balance in cents."""
        return [a for a in accounts if owner in (None, a["owner"])]

    @tool(effect="read")
    def bookings(iban: str) -> list[dict[str, Any]]:
        """Bookings of an account, the oldest first: date, amount in cents (negative: spent), counterparty, category
        (may be missing or null), and method (card, cash or transfer)."""
        account(iban)
        return BOOKINGS[iban]

    @tool(effect="read")
    def standing_orders(iban: str) -> dict:  # type: ignore[type-arg]
        """Standing orders of an account: a list ``orders``, each with id, to, amount in cents and every."""
        return {"orders": orders.get(account(iban)["iban"], [])}

    @tool(effect="write")
    def transfer(source: str, target: str, cents: int, purpose: str = "") -> dict[str, Any]:
        """Transfer money between two accounts, by IBAN. Refused with status ``no_cover`` if the balance is too low."""
        if cents > account(source)["balance"]:
            raise ToolError("the balance is too low", status="no_cover")
        account(source)["balance"] -= cents
        account(target)["balance"] += cents
        sent.append(target)
        return {"reference": f"R{len(sent)}-{target}", "executed": True}

    @tool(effect="write")
    def set_limit(iban: str, cents: int) -> dict[str, int]:
        """Set the monthly limit of an account."""
        account(iban)["limit"] = cents
        return {"limit": cents}

    @tool(effect="write")
    def cancel_order(iban: str, order_id: int) -> None:
        """Cancel a standing order."""
        left = [each for each in orders.get(iban, []) if each["id"] != order_id]
        if len(left) == len(orders.get(iban, [])):
            raise ToolError(f"no order {order_id}", status="not_found")
        orders[iban] = left

    return [list_accounts, bookings, standing_orders, transfer, set_limit, cancel_order]

"""No stranger chooses the address that a client's program pays, nor what its model writes after it saw a report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.data_flow import CLEAN, EVIL, FLOWS, Bank
from tests.support.mcp_face import DECLINE, MODERN, User, both_eras, connected, gateway_of, run

ALLOWS = '[[rules]]\nallow = "*"\n'
READS = "answer = read_mail()"


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def talk(
    bank: Bank, said: Callable[[Client], Awaitable[Any]], mode: str, user: User | None = None, rules: str = ALLOWS
) -> None:
    async def main() -> None:
        given: dict[str, Any] = {"permissions": bank.rules(rules), "runs_dir": bank.folder / "runs"}
        async with (
            gateway_of(*bank.tools().values(), jail=True, **given) as gateway,
            connected(gateway, mode, user) as client,
        ):
            await said(client)

    asyncio.run(main())


@both_eras
def test_a_strangers_address_is_not_paid_where_nobody_can_be_asked(bank: Bank, mode: str) -> None:
    async def said(client: Client) -> None:
        report = await run(client, FLOWS)
        assert report["status"] in ("denied", "waiting"), report

    talk(bank, said, mode)
    assert bank.sent == []


@both_eras
@pytest.mark.parametrize("yes", [True, False])
def test_a_client_with_a_user_asks(bank: Bank, mode: str, yes: bool) -> None:
    user = User() if yes else User([DECLINE])

    async def said(client: Client) -> None:
        report = await run(client, FLOWS)
        assert report["status"] == ("answered" if yes else "denied"), report

    talk(bank, said, mode, user)
    assert (len(user.seen), bank.sent) == (1, [(EVIL, 5)] if yes else [])
    assert "read_mail" in user.seen[0].message


SEEN = {
    "an answer": READS,
    "an error": "answer = read_mail()['nothing']",
    "a number": "answer = len(read_mail())",
    "nothing of it": "read_mail()\nanswer = 1",
    "a text that it printed": "print(read_mail())\nanswer = 1",
}


@pytest.mark.parametrize("seen", SEEN)
def test_a_program_after_such_a_report_is_asked_about(bank: Bank, seen: str) -> None:
    async def said(client: Client) -> None:
        report = await run(client, SEEN[seen])
        later = await run(client, CLEAN)
        assert later["status"] in ("denied", "waiting"), later
        revised = await run(client, CLEAN, run=report["run"])
        assert revised["status"] in ("denied", "waiting"), revised
        again = await run(client, CLEAN, run=later["run"])
        assert again["status"] in ("denied", "waiting"), again

    talk(bank, said, MODERN)
    assert bank.sent == []


@both_eras
def test_inputs_of_a_client_are_its_models_words(bank: Bank, mode: str) -> None:
    """What a client's model hands over as an input is no word of the user."""

    async def said(client: Client) -> None:
        report = await run(client, "answer = send_money(to=to, amount=5)", inputs={"to": EVIL})
        assert report["status"] in ("denied", "waiting"), report

    talk(bank, said, mode, rules='[[rules]]\nallow = "send_money"\nfrom = { to = ["task", "literal"] }\n')
    assert bank.sent == []

"""Rules of the permissions file that have a call wait: in `atc mcp` the client's user is no approver of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc import UsageError
from atc.run.approvals import decide, decider_of
from tests.run.test_approvers import ANN, rules
from tests.support.mcp_face import LEGACY, MODERN, Book, User, connected, gateway_of, run
from tests.support.permissions import file_of

WRITE = "answer = append_line(text='one')"


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_the_clients_user_is_not_asked_about_what_approvers_decide(mode: str, tmp_path: Path) -> None:
    book, user = Book(), User()
    permissions = file_of(tmp_path, rules(ann=ANN))

    async def main() -> None:
        async with (
            gateway_of(book.tool, permissions=permissions, approve="always") as gateway,
            connected(gateway, mode, user) as client,
        ):
            report = await run(client, WRITE)
            assert (report["status"], book.lines, user.seen) == ("waiting", [], [])
            stored = gateway.store.run(report["run"])
            with pytest.raises(UsageError, match=r"\[approvers\]"):
                decide(stored, None, yes=True, decider=decider_of(by="ann", settings=gateway.settings))
            await asyncio.to_thread(
                decide, stored, None, yes=True, decider=decider_of(key=ANN, settings=gateway.settings)
            )
            again = await run(client, WRITE, run=report["run"])
            assert (again["status"], book.lines, user.seen) == ("answered", ["one"], [])

    asyncio.run(main())

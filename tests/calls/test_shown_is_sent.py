"""What was shown is sent, recorded and digested, whoever else has the arguments and changes them in place."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, ApprovalRequest, Event, tool
from atc.models.fake import FakeModel

ORDER = {"to": "ann", "parts": [{"n": 1}, [2]]}
SENT = [ORDER, ORDER | {"to": "bob"}]
DENY = '[[rules]]\ndeny = "pay"\narguments = { "order.to" = "evil" }\n'


def spoil(value: Any) -> None:
    """Change all orders in a value: in the arguments, in those of earlier calls, in an event."""
    if isinstance(value, dict) and "parts" in value:
        value["parts"][0]["n"] = 9999
        value["parts"][1].append(7)
        value.update(to="evil", more=1)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        spoil(each)


@pytest.mark.parametrize("rules", ["", DENY], ids=["by choice", "by rules"])
@pytest.mark.parametrize("who", ["approver", "late approver", "keeping approver", "listener", "tool"])
def test_nobody_changes_what_was_shown(tmp_path: Path, who: str, rules: str) -> None:
    sent: list[Any] = []
    kept: list[ApprovalRequest] = []

    @tool(effect="write")
    async def pay(order: dict[str, Any]) -> int:
        """Pay an order."""
        spoil([request.arguments for request in kept])
        sent.append(deepcopy(order))
        if who == "tool":
            spoil(order)
        return len(sent)

    async def approve(request: ApprovalRequest) -> bool:
        if who == "late approver":
            await asyncio.sleep(0)
        if who == "keeping approver":
            kept.append(request)
        elif who in ("approver", "late approver"):
            spoil([request.arguments, *(each.arguments for each in request.done)])
            assert request.protocol is not None
            request.protocol.parameters.clear()
        return True

    def hear(event: Event) -> None:
        if who == "listener":
            spoil(event.data)

    permissions = tmp_path / "permissions.toml"
    permissions.write_text(rules)
    permissions.chmod(0o600)
    given: dict[str, Any] = {"sentence": False, "learn": False, "runs_dir": tmp_path, "audit": tmp_path / "audit"}
    given |= {"permissions": permissions} if rules else {}
    program = FakeModel([f"answer = [pay(order=order) for order in {SENT}]"])
    with Agent([pay], model=program, approve=approve, on_event=hear, **given) as agent:
        result = agent.run("Pay ann and bob")
        assert (result.status, sent, [call.arguments["order"] for call in result.calls]) == ("answered", SENT, SENT)
        journal = agent.store.run(result.run_id).peek_journal()
    assert [entry.arguments["order"] for entry in journal.entries.values()] == SENT
    written = [each.read_text() for each in tmp_path.rglob("*") if each.is_file() and each != permissions]
    assert "evil" not in "".join(written)

"""A decision by an address and an approver's key, where runs are kept in a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.calls.permissions.approvers import ApproverKey
from tests.run.test_approval_url import SECRET, Desk, yes
from tests.run.test_approvers import ANN, rules
from tests.run.test_parked_by_rule import PAY, Till


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


def test_an_address_decides_and_the_resume_verifies_it(
    desk: Desk, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATC_APPROVAL_URL", desk.url)
    monkeypatch.setenv("ATC_APPROVAL_SECRET", SECRET)
    monkeypatch.setenv("ATC_STORE", address)
    till = Till(tmp_path, rules(ann=ANN))

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        signature = ApproverKey(ANN).sign(question["calls"][0]["statements"]["yes"])
        return {"nonce": question["nonce"], "decisions": [yes(signature=signature)]}

    desk.answer = answer
    with till.agent(PAY) as agent:
        waiting = agent.run("pay 5")
        note = agent.store.run(waiting.run_id).note("asked") or {}
        assert (waiting.status, note["problem"], note["decided"]) == ("waiting", "", {"1": True})
    with till.agent() as agent:
        assert (agent.resume(waiting.run_id).status, till.paid) == ("answered", [5])

"""Stand-ins are put in the place of values in time that grows with a recording, and not with the number of values."""

from __future__ import annotations

from typing import Any

import pytest

from atc.run import redacting
from atc.run.redacting import left, redact
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("begins", ["customer/eu-west/account-", "a" * 40, ""], ids=["path", "letter", "nothing"])
def test_values_that_begin_alike(monkeypatch: pytest.MonkeyPatch, begins: str) -> None:
    monkeypatch.setattr(redacting, "MAX_VALUES", 100_000)

    def recording(n: int) -> dict[str, Any]:
        values = ["other@example.com", *(f"{begins}{number:06d}" for number in range(n))]
        said = f"{begins or '12345'}x " * n
        return {"task": "", "program": "answer = 1", "value": values, "said": said, "calls": []}

    def replaced(data: dict[str, Any]) -> None:
        done, _ = redact(data, ["value.*"])
        assert left(done, data, ["value.*"]) == []

    assert_linear(recording, replaced, n=100, most=1_000)

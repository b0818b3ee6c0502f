"""What all tests share: no test sees the user's settings, or writes into the user's runs."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_sandbox import adopt_orphans, left_behind


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("ATC_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test: no sandbox process is left that was not there before it, whoever died how."""
    adopt_orphans()
    before = left_behind()
    yield
    gc.collect()  # a sandbox that nobody closed and nobody has any more ends its processes
    deadline = time.monotonic() + 5
    while left_behind() - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left_behind() - before == set()

"""What tests of commands stand in: a folder with tools, and an endpoint of a scripted model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import endpoints, settle


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder has ``tools.py``."""
    settle(tmp_path, monkeypatch)


@pytest.fixture
def settled_anew(settled: None) -> None:
    """The same, and nothing has opened ``tools.py`` yet, as in a process of its own."""
    sys.modules.pop("tools", None)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts an endpoint with these steps, and makes it the one of the settings."""
    with endpoints(monkeypatch) as start:
        yield start

"""What tests of the servers share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio alone."""
    return "asyncio"

"""What tests of the servers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import OneSandbox

if TYPE_CHECKING:
    from tests.support.otel import Recorded


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _one_sandbox_of_gateways(
    request: pytest.FixtureRequest, _sandbox_of_all: OneSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateways, and what probes for them, share the sandbox of agents, but where a test looks at the life of one."""
    if "nothing_left" not in request.fixturenames and not request.node.get_closest_marker("own_sandbox"):
        for module in ("atc.serve.mcp.gateway", "atc.probing.prober"):
            monkeypatch.setattr(f"{module}.open_sandbox", _sandbox_of_all.open)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """What telemetry sends in this process."""
    from tests.support.otel import Recorded

    made = Recorded()
    monkeypatch.setattr("atc.traces.telemetry.telemetry.providers", lambda: made.providers)
    return made

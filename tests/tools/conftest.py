"""The server that tests of tools over HTTP call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.openapi import Server, running_server


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.reset()
    return running

"""A PostgreSQL server for the tests of this folder. Each test begins with an empty database; some kill the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import WHY_NOT, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running server."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with Server() as running:
        yield running


@pytest.fixture
def address(server: Server) -> str:
    """The address of a database in which nothing is."""
    return server.emptied()

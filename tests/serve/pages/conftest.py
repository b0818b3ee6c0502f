"""A page of a browser for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Page, browsing


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A page of a browser that is this module's."""
    with browsing() as page:
        yield page

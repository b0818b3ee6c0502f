"""The harness itself: it passes what is linear or bounded, and fails what is not."""

from __future__ import annotations

import pytest

from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow


def test_what_is_linear_or_bounded_passes() -> None:
    assert_linear(lambda n: list(range(n)), sorted)
    assert_linear(lambda n: "a" * n, lambda text: text[:10])


def test_what_is_quadratic_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="grows like n to the"):
        assert_linear(lambda n: list(range(n)), lambda values: [value in values for value in values], n=200)


def test_what_refuses_quadratically_fails() -> None:
    def refuse(values: list[int]) -> None:
        raise ValueError(sum(value in values for value in values))

    with pytest.raises(pytest.fail.Exception):
        assert_linear(lambda n: list(range(n)), refuse, n=200)

"""A reply that goes on for ever is cut; one that only repeats a little is not."""

from __future__ import annotations

import pytest

from atc.models.endpoint_client import repeats_itself


@pytest.mark.parametrize("text", ["get(id=1" + "0" * 200, "x = " + "ab" * 90, "word " * 60])
def test_a_run_without_an_end_is_cut(text: str) -> None:
    assert repeats_itself(text)


@pytest.mark.parametrize("run", ["0", "12"])
def test_it_is_cut_wherever_it_is_looked_at(run: str) -> None:
    assert all(repeats_itself("limit=1" + run * length) for length in range(130, 2_000, 33))


@pytest.mark.parametrize(
    "text",
    ["# " + "-" * 300, "id = '0x" + "0" * 64 + "'", "a = 1\n" * 5, " " * 500, "", "0" * 119, "=" * 120, "1, " * 400],
)
def test_a_short_run_and_a_line_are_not(text: str) -> None:
    assert not repeats_itself(text)

"""The table of what the parts of a jail cost is made of forks that really happen."""

import pytest

from benchmarks.jail_parts import forks
from tests.support.tiers import lacking


@pytest.mark.slow
def test_what_a_program_locks_and_touches_costs_it_pages() -> None:
    if missing := lacking("N"):
        pytest.skip(f"tier N cannot be had here: {missing}")
    seen = forks(5, whole=False)
    faults = [seen[kind][1] for kind in ("fork", "locked", "rehearsed")]
    assert 0 < faults[0] < faults[1] < faults[2]

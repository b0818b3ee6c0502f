"""The table of what the parts of a jail cost is made of forks that really happen."""

import pytest

from atc.errors import UsageError
from benchmarks.jail_parts import forks


@pytest.mark.slow
def test_what_a_program_locks_and_touches_costs_it_pages() -> None:
    try:
        seen = forks(5, whole=False)
    except UsageError as problem:
        pytest.skip(str(problem))
    faults = [seen[kind][1] for kind in ("fork", "locked", "rehearsed")]
    assert 0 < faults[0] < faults[1] < faults[2]

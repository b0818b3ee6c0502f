"""The benchmark of killed runs whose writes wait for approval: what it counts, a sample of it, and that it can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kills import parked as parked_kills
from benchmarks.kills.parked import Heard


@pytest.mark.parametrize(
    ("approved", "times", "said", "doubtful", "counted"),
    [
        (True, 1, True, False, "done once"),
        (True, 2, True, False, "twice"),
        (False, 2, True, False, "twice"),
        (True, 0, False, False, "lost"),  # the run has ended, and the yes came to nothing
        (True, 0, True, False, "said and not done"),
        (True, 0, False, True, "in doubt"),
        (True, 1, False, True, "in doubt"),
        (True, 1, False, False, "unsaid"),
        (False, 1, False, True, "without approval"),
        (False, 0, True, False, "said and not done"),
        (False, 0, False, False, "denied and not done"),
    ],
)
def test_a_line_is_counted_by_what_was_decided_and_what_was_done(
    approved: bool, times: int, said: bool, doubtful: bool, counted: str
) -> None:
    assert parked_kills.count_line(approved, times, said, doubtful) == counted


def test_a_decision_is_held_against_what_its_decider_was_told() -> None:
    yes = Heard(2, "slow 0", True, "decider 0")
    told = {"decider 0": {"slow 0": True}, "decider 1": {"slow 0": False}}

    def wrong(recorded: list[Heard], heard: list[Heard]) -> dict[str, int]:
        return {name: n for name, n in parked_kills.count_decisions(recorded, heard, told).items() if n}

    assert wrong([yes], [yes]) == {"made": 1}
    assert wrong([], [yes]) == {"lost": 1}
    assert wrong([yes], [replace(yes, by="decider 1", yes=False)]) == {"made": 1, "lost": 1}
    assert wrong([replace(yes, by="decider 1")], []) == {"made": 1, "forged": 1}
    assert wrong([replace(yes, by="nobody")], []) == {"made": 1, "forged": 1}
    assert wrong([yes, replace(yes, by="decider 1", yes=False)], [yes]) == {"made": 2, "made twice": 1}


@pytest.mark.slow
def test_a_sample_of_the_campaign_that_goes_on_where_it_stopped(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    first = parked_kills.measured(6, seed=1, keep=figures)
    found = parked_kills.measured(first.kills.total() + 6, seed=1, keep=figures)
    assert (found.wrong, found.runs > first.runs, found.kills.total() >= 12) == (0, True, True)
    assert all(sum(n for name, n in found.kills.items() if name.startswith(role)) for role in parked_kills.ROLES)
    assert found.lines["approved"] == sum(found.lines[name] for name in ("done once", "in doubt", "unsaid"))
    assert found.lines["done once"] > 0
    assert found.ends.keys() <= {"answered", "denied", "in_doubt"}


@pytest.mark.slow
def test_a_resumer_that_begins_anew_is_found() -> None:
    found = parked_kills.measured(4, seed=2, control=True)
    assert found.lines["twice"] > 0
    assert found.wrong > 0

"""The ledger of what a user can do (docs/capabilities.tsv): nothing gets lost in the rebuilding without a word."""

from __future__ import annotations

import pytest

from deploy.capabilities import LEDGER, Row, brought_up_to_date, problems, read, things, written

ROWS = 947
"""Rows of the first ledger. None is ever removed."""
NEW, OLD, OPTION = ("setting", "depth"), ("command", "atc dig"), ("option", "atc dig --deep")


def rows(*given: Row) -> dict[tuple[str, str], Row]:
    return {(row.kind, row.name): row for row in given}


def test_the_ledger_is_that_of_the_code() -> None:
    ledger = read(LEDGER.read_text())
    assert not problems(ledger, things()), "write the rows, with notes: python -m deploy.capabilities --write"
    assert len(ledger) >= ROWS


def test_new_things_get_a_row_and_missing_ones_are_dropped() -> None:
    before = rows(Row(*OLD), Row(*OPTION, "moved", "to `atc mine --deep`"))
    made = brought_up_to_date(before, [NEW])
    assert [row.fate for row in (made[NEW], made[OLD], made[OPTION])] == ["kept", "dropped", "moved"]
    assert read(written(made)) == made
    assert brought_up_to_date(made, [NEW, OLD])[OLD].fate == "kept"  # it is back


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (None, "has no row"),
        (Row(*NEW, "lost"), "says 'lost'"),
        (Row(*OLD), "says 'kept', not 'dropped'"),
        (Row(*OLD, "dropped"), "has no note"),
        (Row(*OLD, "dropped", "nobody dug"), ""),
        (Row(*OPTION, "moved", "to `atc mine --deep`"), ""),
        (Row("snippet", "dig.md, console 0: atc dig", "dropped"), ""),
    ],
)
def test_a_row_that_does_not_say_what_became_of_its_thing_is_a_problem(row: Row | None, problem: str) -> None:
    found = problems(rows(Row(*NEW), *([row] if row else [])) if row else {}, [NEW])
    assert (problem in "".join(found)) if problem else not found

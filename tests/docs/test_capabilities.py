"""The ledger of what a user can do (docs/capabilities.tsv): nothing gets lost in the rebuilding without a word."""

from __future__ import annotations

import pytest

from deploy.capabilities import LEDGER, ROOT, Row, brought_up_to_date, problems, read, things, written

ROWS = 947
"""Rows of the first ledger. None is ever removed."""
NEW, OLD, OPTION = ("setting", "depth"), ("command", "atc dig"), ("option", "atc dig --deep")


def rows(*given: Row) -> dict[tuple[str, str], Row]:
    return {(row.kind, row.name): row for row in given}


def test_the_ledger_is_that_of_the_code() -> None:
    ledger = read(LEDGER.read_text())
    assert not problems(ledger, things(), (ROOT / "docs" / "upgrading.md").read_text()), (
        "write the rows: python -m deploy.capabilities --write; and what became of each thing: docs/upgrading.md"
    )
    assert len(ledger) >= ROWS


def test_new_things_get_a_row_and_missing_ones_are_dropped() -> None:
    before = rows(Row(*OLD), Row(*OPTION, "moved", "to `atc mine --deep`"))
    made = brought_up_to_date(before, [NEW])
    assert [row.fate for row in (made[NEW], made[OLD], made[OPTION])] == ["kept", "dropped", "moved"]
    assert read(written(made)) == made
    assert brought_up_to_date(made, [NEW, OLD])[OLD].fate == "kept"  # it is back


@pytest.mark.parametrize(
    ("row", "upgrading", "problem"),
    [
        (None, "", "has no row"),
        (Row(*NEW, "lost"), "", "says 'lost'"),
        (Row(*OLD), "`atc dig`", "says 'kept', not 'dropped'"),
        (Row(*OLD, "dropped"), "`atc dig`", "has no note"),
        (Row(*OLD, "dropped", "nobody dug"), "`atc digs`", "does not name this command"),
        (Row(*OLD, "dropped", "nobody dug"), "`atc dig` is gone", ""),
        (Row(*OPTION, "moved", "always"), "`--deeper`", "does not name this option"),
        (Row(*OPTION, "moved", "always"), "`--deep` is always", ""),
    ],
)
def test_a_row_that_does_not_say_what_became_of_its_thing_is_a_problem(
    row: Row | None, upgrading: str, problem: str
) -> None:
    found = problems(rows(Row(*NEW), *([row] if row else [])) if row else {}, [NEW], upgrading)
    assert (problem in "".join(found)) if problem else not found


def test_the_options_of_a_command_that_is_gone_go_with_it() -> None:
    ledger = rows(Row(*OLD, "dropped", "nobody dug"), Row(*OPTION, "dropped", "with its command"))
    assert not problems(ledger, [], "`atc dig` is gone")

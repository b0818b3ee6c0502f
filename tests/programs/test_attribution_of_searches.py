"""A search of all pages that finds nothing is the fault of no tool whose responses are as documented."""

from __future__ import annotations

from typing import TypedDict

import pytest

from atc import Agent, tool


class Rows(TypedDict):
    total: int
    next_cursor: str | None
    items: list[dict[str, int]]


@pytest.mark.parametrize("size", [5, 4])  # the last page has items, or the one behind it has none
@pytest.mark.parametrize(
    "program",
    [
        "answer = next(p for p in all_pages(rows) if p['id'] == 99)",
        "found = all_pages(rows)\nanswer = [p for p in found if p['id'] == 99][0]",
        "first = all_pages(rows)\nfound = list(all_pages(rows))\nanswer = max(p['id'] for p in found if p['id'] > 99)",
    ],
)
def test_what_a_search_of_all_pages_does_not_find_is_no_tools_fault(program: str, size: int) -> None:
    @tool(effect="read")
    def rows(cursor: str | None = None) -> Rows:
        """Rows, page by page."""
        start = int(cursor or 0)
        more = str(start + size) if start + size < 12 + (size == 4) else None
        return {"total": 12, "next_cursor": more, "items": [{"id": i} for i in range(start, min(start + size, 12))]}

    with Agent([rows], approve="never", keep_runs=False) as agent:
        fault = agent.run_program(program).fault
    assert fault is not None
    assert (fault.kind, fault.case, fault.tool) == ("program", "nothing_kept", None)
    assert fault.observed is not None
    assert (fault.observed.type, fault.observed.length) == ("list", 12)
    assert (
        "is a list of 12: its first item has the keys 'id', and no item is what the program looked for" in fault.message
    )
    assert fault.evidence == "", "one page is not all that was read"


def test_a_list_that_is_not_what_its_schema_says_is_still_its_tools_fault() -> None:
    @tool(effect="read")
    def rows(cursor: str | None = None) -> Rows:
        """Rows."""
        return {"total": 1, "next_cursor": None, "items": [{"id": "99"}]}  # type: ignore[dict-item]

    with Agent([rows], approve="never", keep_runs=False) as agent:
        fault = agent.run_program("answer = next(p for p in all_pages(rows) if p['id'] == 99)").fault
    assert fault is not None
    assert (fault.kind, fault.case, fault.tool) == ("response", "nothing_kept", "rows")

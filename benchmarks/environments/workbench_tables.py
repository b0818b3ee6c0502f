"""The tables of WorkBench: rows that are found, added, changed and deleted, and the values that a column takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from atc.errors import ToolError

Row = dict[str, Any]

CHOICES = {
    "list_name": ("Backlog", "In Progress", "In Review", "Completed"),
    "board": ("Back end", "Front end", "Design"),
    "status": ("Qualified", "Won", "Lost", "Lead", "Proposal"),
    "product_interest": ("Software", "Hardware", "Services", "Consulting", "Training"),
    "traffic_source": ("direct", "referral", "search engine", "social media"),
    "plot_type": ("bar", "line", "scatter", "histogram"),
    "value_to_plot": (
        "total_visits",
        "session_duration_seconds",
        "user_engaged",
        "visits_direct",
        "visits_referral",
        "visits_search_engine",
        "visits_social_media",
    ),
}
"""The values of the columns and arguments that take no others."""
_CALLED = {"list_name": "List"}
_DAYS, _MOMENTS = ("due_date", "follow_up_by", "last_contact_date"), ("event_start", "sent_datetime")


@dataclass(frozen=True)
class Table:
    """Rows with a number each.

    Attributes:
        what: what a row is called in messages.
        id: the column of the number; empty where rows have none.
        rows: in their order; new ones come last.
    """

    what: str
    id: str
    rows: list[Row]

    def row(self, number: str) -> Row:
        """
        Raises:
            ToolError: there is none with this number.
        """
        for row in self.rows:
            if row[self.id] == number:
                return row
        raise ToolError(f"{self.what} not found.", status=404)

    def field(self, number: str, field: str) -> Row:
        """One column of a row, as an object."""
        row = self.row(number)
        if field not in row:
            raise ToolError("Field not found.", status=400)
        return {field: row[field]}

    def add(self, row: Row) -> str:
        """Add a row; return its number."""
        kept = {column: value if value is None else valid(column, value) for column, value in row.items()}
        number = f"{max((int(old[self.id]) for old in self.rows), default=-1) + 1:08}"
        self.rows.append({self.id: number, **kept})
        return number

    def delete(self, number: str) -> str:
        self.rows.remove(self.row(number))
        return f"{self.what} deleted successfully."

    def update(self, number: str, field: str, value: str) -> str:
        row = self.row(number)
        if field not in row or field == self.id:
            allowed = ", ".join(repr(column) for column in row if column != self.id)
            raise ToolError(f"Field not valid. Please choose from: {allowed}", status=400)
        row[field] = valid(field, value)
        return f"{self.what} updated successfully."

    def matching(self, wanted: Mapping[str, str | None]) -> list[Row]:
        """Copies of the rows that hold every text, or lie within every ``…_min`` and ``…_max``."""
        given = {name: value for name, value in wanted.items() if value}
        if not given:
            raise ToolError("No search parameters provided. Please provide at least one parameter.", status=400)
        return [dict(row) for row in self.rows if all(_fits(row, *pair) for pair in given.items())]


def difference(before: Iterable[Row], after: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that went and the rows that came; the order of rows is none of it."""
    before, after = list(before), list(after)
    return _beyond(before, after), _beyond(after, before)


def _beyond(rows: list[Row], others: list[Row]) -> list[Row]:
    left = Counter(frozenset(row.items()) for row in others)
    found = []
    for row in rows:
        key = frozenset(row.items())
        if left[key]:
            left[key] -= 1
        else:
            found.append(row)
    return found


def within(part: str, text: str | None) -> bool:
    """Whether a text holds a part, in upper or lower case."""
    return part.casefold() in (text or "").casefold()


def _fits(row: Row, name: str, wanted: str) -> bool:
    if name.endswith(("_min", "_max")):
        value, limit = row[name[:-4]], day(wanted, name)
        return bool(value) and bool(value >= limit if name.endswith("_min") else value <= limit)
    return within(wanted, row[name])


# Values ---------------------------------------------------------------------------------------------------------------


def valid(column: str, value: str) -> str:
    """A value as its column keeps it.

    Raises:
        ToolError: the column takes no such value.
    """
    if column in CHOICES:
        return choice(column, value)
    if column.endswith("email") or column == "sender/recipient":
        if "@" not in value:
            raise ToolError(f"{value[:100]!r} is no email address", status=400)
        return value.lower()
    if column == "duration":
        if not value.isdecimal() or not 0 < len(value) < 5:
            raise ToolError("duration must be a number of minutes, such as '30'", status=400)
        return str(int(value))
    if column in _MOMENTS:
        return moment(value, column)
    return day(value, column) if column in _DAYS else value


def choice(column: str, value: str) -> str:
    if value not in CHOICES[column]:
        called = _CALLED.get(column, column.replace("_", " ").capitalize())
        raise ToolError(f"{called} not valid. Please choose from: {', '.join(map(repr, CHOICES[column]))}", status=400)
    return value


def moment(text: str, name: str) -> str:
    return _time(text, name, "YYYY-MM-DD HH:MM:SS").isoformat(" ", "seconds")


def day(text: str, name: str) -> str:
    return _time(text, name, "YYYY-MM-DD").date().isoformat()


def _time(text: str, name: str, form: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise ToolError(f'{name} must have the format "{form}"', status=400) from None

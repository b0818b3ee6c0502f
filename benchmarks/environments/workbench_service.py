"""The office of WorkBench: a calendar, mails, website visits, project tasks, customers and a directory, and its tools.

Written anew from the tools' documents and recorded calls. Two things differ on purpose from what was recorded: a search
without a hit answers an empty list instead of a sentence, and what the original answers with a sentence of refusal is a
:class:`ToolError` with that sentence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from atc.errors import ToolError
from atc.schemas.protocol import JsonSchema
from benchmarks.environments.workbench_tables import Row, Table, choice, day, moment, within

CALENDAR, EMAIL, ANALYTICS = "calendar", "email", "analytics"
PROJECTS, CUSTOMERS, DIRECTORY = "project_management", "customer_relationship_manager", "company_directory"

WRITES = ("create_", "add_", "update_", "delete_", "send_", "reply_", "forward_")
"""How the names of the tools with an effect begin."""

_MOST = 5
_DOCUMENTED = {"sender": "sender/recipient", "sent_date": "sent_datetime"}
"""Names that the documents have for columns of the table of mails."""


class Office:
    """The tables of one episode and the tools over them.

    Args:
        state: the data's ``state.json.gz``; it is copied.

    Attributes:
        tables: what the tools may change, by the names that the expected differences have for them.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        kept = {name: [dict(row) for row in rows] for name, rows in state["state"].items()}
        self.tables = {
            CALENDAR: Table("Event", "event_id", kept["calendar"]),
            EMAIL: Table("Email", "email_id", kept["email"]),
            PROJECTS: Table("Task", "task_id", kept["project_tasks"]),
            CUSTOMERS: Table("Customer", "customer_id", kept["crm"]),
            ANALYTICS: Table("Plot", "", []),
        }
        self._events, self._emails, self._tasks, self._customers, self._plots = self.tables.values()
        self._visits: list[Row] = kept["analytics"]
        self._directory: list[str] = list(state["directory"])
        self._now: str = state["current_time"]

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What each tool does, by the name that the data has for it. An argument without a default must be given."""
        parts: dict[str, list[Callable[..., Any]]] = {
            CALENDAR: [
                self.create_event, self.delete_event, self.get_event_information_by_id, self.search_events,
                self.update_event,
            ],
            EMAIL: [
                self.delete_email, self.forward_email, self.get_email_information_by_id, self.reply_email,
                self.search_emails, self.send_email,
            ],
            ANALYTICS: [
                self.create_plot, self.engaged_users_count, self.get_average_session_duration,
                self.get_visitor_information_by_id, self.total_visits_count, self.traffic_source_count,
            ],
            PROJECTS: [
                self.create_task, self.delete_task, self.get_task_information_by_id, self.search_tasks,
                self.update_task,
            ],
            CUSTOMERS: [self.add_customer, self.delete_customer, self.search_customers, self.update_customer],
            DIRECTORY: [self.find_email_address],
        }  # fmt: skip
        return {f"{part}.{tool.__name__}": tool for part, tools in parts.items() for tool in tools}

    def columns(self, part: str) -> dict[str, JsonSchema]:
        """The columns of a table with their types; ``analytics`` stands for the visits, which no tool changes."""
        rows = self._visits if part == ANALYTICS else self.tables[part].rows
        types = {True: "boolean", False: "string"}
        columns: dict[str, JsonSchema] = {}
        for column, value in rows[0].items() if rows else ():
            nullable = any(row[column] is None for row in rows)
            type_ = types[isinstance(value, bool)]
            columns[column] = {"type": [type_, "null"] if nullable else type_}
        return columns

    # Calendar

    def create_event(self, event_name: str, participant_email: str, event_start: str, duration: str) -> str:
        row = {"event_name": event_name, "participant_email": participant_email, "event_start": event_start}
        return self._events.add(row | {"duration": duration})

    def delete_event(self, event_id: str) -> str:
        return self._events.delete(event_id)

    def get_event_information_by_id(self, event_id: str, field: str) -> Row:
        return self._events.field(event_id, field)

    def search_events(self, query: str = "", time_min: str | None = None, time_max: str | None = None) -> list[Row]:
        first, last = time_min and moment(time_min, "time_min"), time_max and moment(time_max, "time_max")
        found = [
            row
            for row in sorted(self._events.rows, key=lambda row: row["event_start"])
            if within(query, row["event_name"]) or within(query, row["participant_email"])
        ]
        found = [row for row in found if (not first or _end(row) >= first) and (not last or row["event_start"] <= last)]
        return [dict(row) for row in found[:_MOST]]

    def update_event(self, event_id: str, field: str, new_value: str) -> str:
        return self._events.update(event_id, field, new_value)

    # Mails

    def delete_email(self, email_id: str) -> str:
        return self._emails.delete(email_id)

    def forward_email(self, email_id: str, recipient: str) -> str:
        row = self._emails.row(email_id)
        self._send(recipient, f"FW: {row['subject']}", row["body"])
        return "Email forwarded successfully."

    def get_email_information_by_id(self, email_id: str, field: str) -> Row:
        column = _DOCUMENTED.get(field, field)
        return {field: self._emails.field(email_id, column)[column]}

    def reply_email(self, email_id: str, body: str) -> str:
        row = self._emails.row(email_id)
        self._send(row["sender/recipient"], row["subject"], body)
        return "Email replied successfully."

    def search_emails(self, query: str = "", date_min: str | None = None, date_max: str | None = None) -> list[Row]:
        first, last = date_min and day(date_min, "date_min"), date_max and day(date_max, "date_max")
        searched = ("subject", "body", "sender/recipient")
        found = [
            row
            for row in sorted(self._emails.rows, key=lambda row: row["sent_datetime"], reverse=True)
            if all(any(within(word, row[column]) for column in searched) for word in query.split())
            and (not first or row["sent_datetime"][:10] >= first)
            and (not last or row["sent_datetime"][:10] <= last)
        ]
        return [dict(row) for row in found[:_MOST]]

    def send_email(self, recipient: str, subject: str, body: str) -> str:
        self._send(recipient, subject, body)
        return "Email sent successfully."

    def _send(self, recipient: str, subject: str, body: str) -> None:
        row = {"inbox/outbox": "outbox", "sender/recipient": recipient, "subject": subject}
        self._emails.add(row | {"sent_datetime": self._now, "body": body})

    # Visits of the website

    def create_plot(self, time_min: str, time_max: str, value_to_plot: str, plot_type: str) -> str:
        days = f"{day(time_min, 'time_min')}_{day(time_max, 'time_max')}"
        what = f"{choice('value_to_plot', value_to_plot)}_{choice('plot_type', plot_type)}"
        self._plots.rows.append({"file_path": f"plots/{days}_{what}.png"})
        return f"plots/{days}_{what}.png"

    def engaged_users_count(self, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
        days = self._by_day(time_min, time_max)
        return {day: sum(row["user_engaged"] for row in rows) for day, rows in days.items()}

    def get_average_session_duration(
        self, time_min: str | None = None, time_max: str | None = None
    ) -> dict[str, float]:
        days = self._by_day(time_min, time_max)
        return {d: sum(float(row["session_duration_seconds"]) for row in rows) / len(rows) for d, rows in days.items()}

    def get_visitor_information_by_id(self, visitor_id: str) -> list[Row]:
        found = [row for row in self._visits if row["visitor_id"] == visitor_id]
        if not found:
            raise ToolError("Visitor not found.", status=404)
        return [dict(row) for row in found]

    def total_visits_count(self, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
        return {day: len(rows) for day, rows in self._by_day(time_min, time_max).items()}

    def traffic_source_count(
        self, time_min: str | None = None, time_max: str | None = None, traffic_source: str | None = None
    ) -> dict[str, int]:
        days = self._by_day(time_min, time_max)
        if not traffic_source:
            return {day: len(rows) for day, rows in days.items()}
        source = choice("traffic_source", traffic_source)
        return {day: sum(row["traffic_source"] == source for row in rows) for day, rows in days.items()}

    def _by_day(self, time_min: str | None, time_max: str | None) -> dict[str, list[Row]]:
        first, last = time_min and day(time_min, "time_min"), time_max and day(time_max, "time_max")
        days: dict[str, list[Row]] = {}
        for row in sorted(self._visits, key=lambda row: row["date_of_visit"]):
            if (not first or row["date_of_visit"] >= first) and (not last or row["date_of_visit"] <= last):
                days.setdefault(row["date_of_visit"], []).append(row)
        return days

    # Project tasks

    def create_task(self, task_name: str, assigned_to_email: str, list_name: str, due_date: str, board: str) -> str:
        row = {"task_name": task_name, "assigned_to_email": assigned_to_email, "list_name": list_name}
        return self._tasks.add(row | {"due_date": due_date, "board": board})

    def delete_task(self, task_id: str) -> str:
        return self._tasks.delete(task_id)

    def get_task_information_by_id(self, task_id: str, field: str) -> Row:
        return self._tasks.field(task_id, field)

    def search_tasks(
        self,
        task_name: str | None = None,
        assigned_to_email: str | None = None,
        list_name: str | None = None,
        due_date: str | None = None,
        board: str | None = None,
    ) -> list[Row]:
        wanted = {"task_name": task_name, "assigned_to_email": assigned_to_email, "list_name": list_name}
        return self._tasks.matching(wanted | {"due_date": due_date, "board": board})

    def update_task(self, task_id: str, field: str, new_value: str) -> str:
        return self._tasks.update(task_id, field, new_value)

    # Customers

    def add_customer(
        self,
        customer_name: str,
        assigned_to_email: str,
        status: str,
        customer_email: str | None = None,
        customer_phone: str | None = None,
        last_contact_date: str | None = None,
        product_interest: str | None = None,
        notes: str = "",
        follow_up_by: str | None = None,
    ) -> str:
        row = {
            "customer_name": customer_name,
            "assigned_to_email": assigned_to_email,
            "status": status,
            "customer_email": customer_email,
            "customer_phone": customer_phone,
            "last_contact_date": last_contact_date,
            "product_interest": product_interest,
            "notes": notes,
            "follow_up_by": follow_up_by,
        }
        return self._customers.add(row)

    def delete_customer(self, customer_id: str) -> str:
        return self._customers.delete(customer_id)

    def search_customers(
        self,
        customer_name: str | None = None,
        customer_email: str | None = None,
        product_interest: str | None = None,
        status: str | None = None,
        assigned_to_email: str | None = None,
        last_contact_date_min: str | None = None,
        last_contact_date_max: str | None = None,
        follow_up_by_min: str | None = None,
        follow_up_by_max: str | None = None,
    ) -> list[Row]:
        wanted = {
            "customer_name": customer_name,
            "customer_email": customer_email,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
            "last_contact_date_min": last_contact_date_min,
            "last_contact_date_max": last_contact_date_max,
            "follow_up_by_min": follow_up_by_min,
            "follow_up_by_max": follow_up_by_max,
        }
        return self._customers.matching(wanted)[:_MOST]

    def update_customer(self, customer_id: str, field: str, new_value: str) -> str:
        return self._customers.update(customer_id, field, new_value)

    # Directory

    def find_email_address(self, name: str) -> list[str]:
        return [address for address in self._directory if within(name, address)]


def _end(event: Row) -> str:
    end = datetime.fromisoformat(event["event_start"]) + timedelta(minutes=int(event["duration"]))
    return end.isoformat(" ", "seconds")


def call(tool: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a tool of an office with arguments as a service gets them: named, and maybe wrong.

    Raises:
        ToolError: one is unknown, missing or no text; or the tool refuses.
    """
    known = inspect.signature(tool).parameters
    if unknown := sorted(arguments.keys() - known.keys()):
        raise ToolError(f"there is no argument {unknown[0]!r}", status=400)
    given: dict[str, str] = {}
    for name, parameter in known.items():
        value = arguments.get(name)
        if value is None or value == "":
            if parameter.default is parameter.empty:
                raise ToolError(f"{name.replace('_', ' ').capitalize()} not provided.", status=400)
        elif not isinstance(value, str):
            raise ToolError(f"{name} must be a text, not {type(value).__name__}", status=400)
        else:
            given[name] = value
    return tool(**given)

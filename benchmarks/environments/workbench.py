"""WorkBench (Styles et al. 2024, MIT): 270 of its tasks in an office of five tables, over 27 tools written anew.

A task is solved by what it leaves behind: the expected difference of the tables, and nothing else. The documents of the
tools, the tables, the tasks and their expected differences come from the data directory. As in the original, every task
is told the date and the working hours, and has all tools.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, Task, served
from benchmarks.environments.workbench_service import ANALYTICS, WRITES, Office, call
from benchmarks.environments.workbench_tables import CHOICES, Row, difference

Json = dict[str, Any]

CASE_MATTERS = ("status", "list_name", "board")
"""Columns whose values are names of a fixed list; elsewhere upper and lower case are the same, as in the original."""
_TEXT: JsonSchema = {"type": "string"}
_UNSAID = {
    "search_emails": "At most 5, the newest first.",
    "search_events": "The earliest first.",
    "_count": "An object with a number for each day, by date.",
    "_duration": "An object with a number for each day, by date.",
    "_by_id": "An object with that field alone.",
}
"""What the documents leave out, by how a tool's name ends; the original's agents see it in their first response."""
_SPOIL = ("email.send_email", {"recipient": "nobody@else.example", "subject": "Oh", "body": "No task asks for this."})


class WorkBench(Environment):
    """The tasks of WorkBench; see :func:`same_change` for what counts as solved.

    Args:
        data: the directory with ``executable/workbench``.
    """

    name = "workbench"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name)

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by id."""
        return {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}

    @cached_property
    def state(self) -> Json:
        """The tables as every task finds them, the directory and the time."""
        state: Json = self._data.document("state.json.gz")
        return state

    @cached_property
    def protocols(self) -> dict[str, Protocol]:
        """What is told of each tool, by the name that the data has for it."""
        office, functions = Office(self.state), Office(self.state).functions()
        documents = {line["name"]: line["description"] for line in self._data.lines("tools.jsonl.gz")}
        if unknown := sorted(documents.keys() - functions.keys()):
            raise EnvironmentProblem(f"{self.name} has no tool {unknown[0]!r}: the data is of another version")
        return {name: _protocol(name, documents[name], functions[name], office) for name in documents}

    def tasks(self) -> list[Task]:
        tools = tuple(map(tool_name, self.protocols))
        return [Task(r["id"], f"{self._today} {r['query']}", tools) for r in self.records.values()]

    def open(self, task: Task) -> Episode:
        office, before = Office(self.state), Office(self.state)
        functions = office.functions()
        expected = self.records[task.id]["expected_state_diff"]

        def judge(value: Any) -> bool:
            made = {
                name: dict(zip(("removed", "added"), difference(table.rows, office.tables[name].rows), strict=True))
                for name, table in before.tables.items()
            }
            return same_change(made, expected, before, self._now)

        tools = [_tool(protocol, functions[name]) for name, protocol in self.protocols.items()]
        return Episode(Toolset(tools).only(*task.tools), judge, self.gold(task).calls)

    def gold(self, task: Task) -> Gold:
        calls = [(tool_name(step["tool"]), step["args"]) for step in self.records[task.id]["gold"]]
        return Gold(tuple(calls), spoil=(tool_name(_SPOIL[0]), _SPOIL[1]))

    @property
    def _now(self) -> datetime:
        return datetime.fromisoformat(self.state["current_time"])

    @property
    def _today(self) -> str:
        return (
            f"Today's date is {self._now:%A, %Y-%m-%d} and the current time is {self._now:%H:%M:%S}. "
            "Meetings must not start before 9am or end after 6pm."
        )


# What counts as solved ------------------------------------------------------------------------------------------------


def same_change(made: Json, expected: Json, before: Office, now: datetime) -> bool:
    """Tell whether what happened to the tables is what was expected, no more and no less.

    The original's own judgement: the order of rows does not count, upper and lower case are the same but in
    :data:`CASE_MATTERS`, and a plot may end today or yesterday, as today has no visits yet. Besides, the number
    of a new row does not count, for the service chooses it; nothing and an empty text are the same; and so are a line
    break and the ``\\n`` that some tasks write for it.

    Args:
        made: for each table the rows that were removed and those that were added.
        expected: the same, for the tables that change.
        before: the office as it was.
        now: the time of the task.
    """
    for name, table in before.tables.items():
        known = {row[table.id] for row in table.rows} if table.id else set()
        for side in ("removed", "added"):
            rows = [_plain(row, table.id, known, now) for row in made[name][side]]
            wanted = [_plain(row, table.id, known, now) for row in expected.get(name, {}).get(side, ())]
            if sorted(rows) != sorted(wanted):
                return False
    return expected.keys() <= before.tables.keys()


def _plain(row: Row, id_column: str, known: Iterable[str], now: datetime) -> list[tuple[str, str]]:
    left = []
    for column, value in sorted(row.items()):
        if value is None or value != value or value == "":  # what is not there is null or no number
            continue
        if column == id_column and value not in known:
            continue
        text = str(value) if column in CASE_MATTERS else str(value).replace("\\n", "\n").casefold()
        if column == "file_path":
            text = text.replace(f"_{now:%Y-%m-%d}_", f"_{now - timedelta(days=1):%Y-%m-%d}_")
        left.append((column, text))
    return left


# What is told of the tools --------------------------------------------------------------------------------------------


def _tool(protocol: Protocol, function: Callable[..., Any]) -> Tool:
    return served(protocol, functools.partial(call, function))


def _protocol(name: str, document: str, function: Callable[..., Any], office: Office) -> Protocol:
    """The protocol of a tool out of its docstring; what must be given is what the tool refuses to go without."""
    sections = _sections(document)
    signature = inspect.signature(function).parameters
    about = _entries(sections.get("Parameters", ""))
    parameters = {
        "type": "object",
        "properties": {n: _parameter(n, about.get(n, ""), p.default is p.empty) for n, p in signature.items()},
        "required": [n for n, p in signature.items() if p.default is p.empty],
        "additionalProperties": False,
    }
    part, _, action = name.partition(".")
    unsaid = (text for end, text in _UNSAID.items() if action.endswith(end) and "visitor" not in action)
    returned = " ".join([*_entries(sections.get("Returns", "")).values(), *unsaid])
    return Protocol(
        name=tool_name(name),
        description=f"{sections['']} Returns: {returned}",
        parameters=parameters,
        returns=_returns(part, action, office),
        effect=Effect.WRITE if action.startswith(WRITES) else Effect.READ,
        source=Source(location="workbench", operation=name),
        provenance=Provenance.IMPORTED,
    )


def _parameter(name: str, about: str, needed: bool) -> JsonSchema:
    schema: JsonSchema = {"type": "string" if needed else ["string", "null"], "description": about}
    if name in CHOICES and needed:
        schema["enum"] = list(CHOICES[name])
    return schema


def _sections(document: str) -> dict[str, str]:
    parts = re.split(r"\n+(\w+)\n-{3,}\n", document)
    return {"": " ".join(parts[0].split()), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _entries(section: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for head, text in re.findall(r"^(\w+) ?:[^\n]*\n((?:[ \t]+[^\n]*(?:\n|$))*)", section, re.MULTILINE):
        entries[head] = " ".join(text.replace("{{", "{").replace("}}", "}").split())
    return entries


def _returns(part: str, action: str, office: Office) -> JsonSchema:
    if action == "find_email_address":
        return {"type": "array", "items": _TEXT}
    if action.startswith(WRITES):
        return _TEXT
    if action.endswith("_count"):
        return {"type": "object", "additionalProperties": {"type": "integer"}}
    if action == "get_average_session_duration":
        return {"type": "object", "additionalProperties": {"type": "number"}}
    columns = office.columns(part)
    if action.startswith("search_") or part == ANALYTICS:
        return {"type": "array", "items": {"type": "object", "properties": columns, "required": list(columns)}}
    return {"type": "object", "additionalProperties": _TEXT}

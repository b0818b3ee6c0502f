"""API-Bank (Li et al. 2023, Apache-2.0): its dialogues of levels 1 and 2 over the services of a personal assistant.

Tasks, tools, databases and the calls of every solution come from the data directory; what the tools do is in
:mod:`benchmarks.environments.api_bank_service`. A task's text is what the user says in the dialogue, turn by turn, and
today's date. The assistant's turns are left out: they tell what the tools answered. Where level 2 searches for tools,
they are offered directly, with others beside them.

A task is solved when the databases are as its own solution leaves them, every change of the solution was made, and
everything that it looks up was looked up (the same call, or the same answer). What is answered is not judged: the data
has no answers.

Dialogues whose recorded calls these services do not answer as recorded are no tasks: see :attr:`ApiBank.left_out`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.api_bank_service import Services
from benchmarks.environments.api_bank_words import TODAY, alike, fits, in_text, is_moment, leaves, measured, typed
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, Task, served

Json = dict[str, Any]

TOOLS = 10
"""How many tools are offered, as long as the solution does not need more."""
SEARCHER = "ToolSearcher"
RIVALS = (
    {"emergency_knowledge", "symptom_search"},
    {"dictionary", "search_engine", "wiki"},
    *({f"{verb}_agenda", f"{verb}_meeting"} for verb in ("add", "delete", "modify", "query")),
)
"""Tools that would do for the same request: none is offered beside a needed one."""
READS = tuple(
    """
    Calculator Check Dictionary Document Emergency Get Image Query Search Speech Symptom Translate Wiki
    """.split()
)
"""How the names of tools begin that change nothing."""

_FORMATS = {"%Y-%m-%d %H:%M:%S": "YYYY-MM-DD HH:MM:SS", "%Y-%m-%d": "YYYY-MM-DD"}
_CUT = re.compile(r"\.\.\.\[\+\d+ chars\]$")
_TO_ADD = re.compile(r"\b(?:set|add|create)(?: up)? (?:a|an|my) (reminder|alarm|agenda|meeting)\b")


@dataclass(frozen=True)
class Solved:
    """A dialogue's own solution: its calls as they were answered, and the databases that it leaves."""

    calls: tuple[tuple[str, Json, Any], ...]
    tables: Json


class ApiBank(Environment):
    """The dialogues of API-Bank as tasks; :attr:`Gold.answer` is always ``None``.

    Args:
        data: the directory with ``executable/api_bank``.

    Attributes:
        left_out: the dialogues that are no tasks, by id, each with the reason.
    """

    name = "api_bank"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name)
        self.left_out: dict[str, str] = {}

    @cached_property
    def documents(self) -> dict[str, Json]:
        """The tools as the data has them, by the names that programs call them by."""
        tools = self._data.lines("tools.jsonl.gz")
        return {tool_name(tool["name"]): tool for tool in tools if tool["name"] != SEARCHER}

    @cached_property
    def parameters(self) -> dict[str, JsonSchema]:
        """The arguments of each tool."""
        return {name: _parameters(document) for name, document in self.documents.items()}

    @cached_property
    def _records(self) -> dict[str, Json]:
        return {
            record["id"]: record | {"gold": [call for call in record.get("gold", ()) if call["tool"] != SEARCHER]}
            for record in self._data.lines("tasks.jsonl.gz")
        }

    @cached_property
    def _recorded(self) -> dict[str, list[tuple[Json, Any]]]:
        found: dict[str, list[tuple[Json, Any]]] = {}
        for record in self._records.values():
            for call in record["gold"]:
                found.setdefault(call["tool"], []).append((call["args"], call["output"]))
        return found

    @cached_property
    def _tables(self) -> Json:
        tables: Json = self._data.document("state.json.gz")
        return tables

    @cached_property
    def today(self) -> str:
        """The date that the services have.

        Raises:
            EnvironmentProblem: no dialogue asks for it.
        """
        if "GetToday" not in self._recorded:
            raise EnvironmentProblem(f"{self.name}: no recorded call of GetToday tells the date: the data is damaged")
        return str(self._recorded["GetToday"][0][1])

    @cached_property
    def solutions(self) -> dict[str, Solved]:
        """The solutions that run here as they were recorded, by the dialogue's id. Fills :attr:`left_out`."""
        found: dict[str, Solved] = {}
        for id, record in self._records.items():
            try:
                found[id] = self._solved(record)
            except (ToolError, ValueError) as error:
                self.left_out[id] = str(error)
        return found

    def tasks(self) -> list[Task]:
        return [self._task(self._records[id], solution) for id, solution in self.solutions.items()]

    def open(self, task: Task) -> Episode:
        services, wanted = self._services(task.id), self.solutions[task.id]
        answers: list[tuple[str, str]] = []
        tools = Toolset(self._tool(name, services, answers) for name in task.tools)

        def judge(value: Any) -> bool:
            made = [(call.tool, self._typed(call.tool, call.arguments)) for call in episode.calls if call.done]
            for tool, arguments, output in wanted.calls:
                looked_up = self._effect(tool) is Effect.READ and (tool, canonical(output)) in answers
                if not looked_up and not any(tool == other and _same(arguments, given) for other, given in made):
                    return False
            return alike("tables", services.tables, wanted.tables)

        episode = Episode(tools, judge, self.gold(task).calls)
        return episode

    def gold(self, task: Task) -> Gold:
        return Gold(tuple((tool, arguments) for tool, arguments, _ in self.solutions[task.id].calls))

    # Services and tools ---------------------------------------------------------------------------------------------

    def _services(self, id: str) -> Services:
        """Fresh services, which give out the numbers that the dialogue has for the same calls."""
        own = [
            (call["tool"], self._typed(tool_name(call["tool"]), call["args"]), call["output"])
            for call in self._records[id]["gold"]
        ]

        def issue(tool: str, arguments: Json) -> Any:
            for name, given, output in own:
                if name == tool and _same(given, arguments):
                    return output
            return str(int(hashlib.sha256(canonical([tool, arguments]).encode()).hexdigest(), 16))[:8]

        return Services(self._tables, self.today, self._recorded, issue)

    def _solved(self, record: Json) -> Solved:
        """Raises ToolError: a call is refused; ValueError: there is none, or one is answered otherwise."""
        if not record["gold"]:
            raise ValueError("no calls")
        services, calls = self._services(record["id"]), []
        functions = services.functions()
        for call in record["gold"]:
            name = tool_name(call["tool"])
            arguments = self._typed(name, call["args"])
            output = functions[call["tool"]](**self._checked(name, arguments))
            if not _agrees(call["output"], output):
                raise ValueError(f"{name} answers otherwise")
            calls.append((name, arguments, output))
        return Solved(tuple(calls), services.tables)

    def _tool(self, name: str, services: Services, answers: list[tuple[str, str]]) -> Tool:
        document = self.documents[name]
        function = services.functions()[document["name"]]

        def answer(arguments: Json) -> Any:
            output = function(**self._checked(name, arguments))
            answers.append((name, canonical(output)))
            return output

        protocol = Protocol(
            name=name,
            description=document["description"],
            parameters=self.parameters[name],
            returns=_returns(document),
            effect=self._effect(name),
            provenance=Provenance.IMPORTED,
            source=Source(location=self.name, operation=document["name"]),
        )
        return served(protocol, answer)

    def alike(self, name: str, given: Json, recorded: Json) -> bool:
        """Whether two calls of a tool come to the same; in neither may a required argument be missing."""
        one, other = self._typed(name, given), self._typed(name, recorded)
        required = {key for key in self.parameters[name]["required"] if key in other}
        return required <= one.keys() and _same(one, other)

    @property
    def dialogues(self) -> dict[str, Json]:
        """The recorded dialogues of levels 1 and 2, whole, by their ids."""
        records = {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}
        return {id: record for id, record in records.items() if record.get("dialogue")}

    def _effect(self, name: str) -> Effect:
        return Effect.READ if self.documents[name]["name"].startswith(READS) else Effect.WRITE

    def _typed(self, name: str, arguments: Json) -> Json:
        properties = self.parameters[name]["properties"]
        return {key: typed(value, properties[key]) for key, value in arguments.items() if key in properties}

    def _checked(self, name: str, arguments: Json) -> Json:
        """Raises ToolError: one is missing, of a wrong type or no date of the documented form."""
        schema, typed = self.parameters[name], self._typed(name, arguments)
        given = {key: value for key, value in typed.items() if value is not None}
        for key in schema["required"]:
            if key not in given:
                raise ToolError(f"{name}: the argument {key} is required", status=422)
        for key, value in given.items():
            about = schema["properties"][key]
            if not fits(value, about):
                raise ToolError(f"{name}: the argument {key} must be of type {about['type']}", status=422)
            form = next((form for form, shown in _FORMATS.items() if shown in about["description"]), None)
            if form and not is_moment(value, form):
                raise ToolError(f"{name}: the argument {key} must be of the form {_FORMATS[form]}", status=422)
        return given

    # Tasks ----------------------------------------------------------------------------------------------------------

    def _task(self, record: Json, solution: Solved) -> Task:
        turns = record["turns"]
        text = turns[0] if len(turns) == 1 else "A user says, one after the other:\n" + "\n".join(turns)
        needed = {tool for tool, _, _ in solution.calls}
        if "get_today" not in needed and not TODAY.search(text.casefold()):
            text += f"\nToday is {self.today}."
        rivals = needed.union(*(group for group in RIVALS if group & needed))
        others = sorted((name for name in self.documents if name not in rivals), key=lambda n: _draw(record["id"], n))
        chosen = needed.union(others[: max(0, TOOLS - len(needed))])
        tools = tuple(name for name in self.documents if name in chosen)
        return Task(record["id"], text, tools, self._stated(text, solution))

    def _stated(self, text: str, solution: Solved) -> bool:
        request, known = text.casefold().replace("p.m.", "pm").replace("a.m.", "am"), ""
        if (match := _TO_ADD.search(request)) and f"add_{match[1]}" not in {tool for tool, _, _ in solution.calls}:
            return False  # the solution does something else
        for tool, arguments, output in solution.calls:
            properties = self.parameters[tool]["properties"]
            for name, value in arguments.items():
                given = known + properties[name]["description"]
                for key, leaf in leaves(name, value):
                    if not in_text(key, leaf, request, self.today) and not (len(str(leaf)) > 3 and str(leaf) in given):
                        return False
            known += canonical(output)
        return True


def _draw(task: str, tool: str) -> str:
    return hashlib.sha256(f"{task}/{tool}".encode()).hexdigest()


def _agrees(recorded: Any, output: Any) -> bool:
    """Whether an answer is the recorded one. The records cut long texts, leave long fields out and change capitals."""
    if isinstance(recorded, str) and (match := _CUT.search(recorded)):
        return json.dumps(output, ensure_ascii=False).casefold().startswith(recorded[: match.start()].casefold())
    if isinstance(recorded, dict) and isinstance(output, dict):
        return recorded.keys() <= output.keys() and all(_agrees(part, output[key]) for key, part in recorded.items())
    if isinstance(recorded, list) and isinstance(output, list):
        return len(recorded) == len(output) and all(map(_agrees, recorded, output))
    return canonical(recorded).casefold() == canonical(output).casefold()


def _same(one: Json, other: Json) -> bool:
    """Whether the arguments that two calls both have come to the same; they lack none but optional ones."""
    if "health_data" in one and "health_data" in other:
        one, other = ({**each, "health_data": measured(each["health_data"])} for each in (one, other))
    return all(alike(name, value, other[name]) for name, value in one.items() if name in other)


# Documents ----------------------------------------------------------------------------------------------------------

_TYPES: dict[str, JsonSchema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list(str)": {"type": "array", "items": {"type": "string"}},
    "json": {"type": "object"},
    "dict": {"type": "object"},
    "list": {"type": "array", "items": {"type": "object"}},
}


def _object(*names: str) -> JsonSchema:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


def _list(item: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": item}


_RETURNS: dict[str, JsonSchema] = {
    "GetUserToken": _object("token"),
    "RegisterUser": _object("token"),
    "DeleteAccount": _object("status"),
    "ModifyPassword": _object("status"),
    "Wiki": _object("url", "summary", "content"),
    "EmergencyKnowledge": _list(_object("name", "aid")),
    "SymptomSearch": _list(_object("name", "description")),
    "SearchEngine": _list(_object("title", "url", "abstract")),
    "QueryScene": _list(_object("name", "description")),
    "QueryHistoryToday": _list({"type": "string"}),
    "ForgotPassword": {"type": ["integer", "string"]},
    "QueryRegistration": {
        "type": "object",
        "additionalProperties": _object("patient_name", "date", "doctor_name"),
        "description": "by the appointment's ID",
    },
    "QueryAgenda": _object("content", "time", "location", "username"),
    "QueryReminder": _object("content", "time", "username"),
    "QueryAlarm": _object("time", "username"),
    "QueryMeeting": _object("meeting_topic", "start_time", "end_time", "location", "username"),
}
"""Responses of which the documents tell too little. The others have one value, which is returned bare."""


def _returns(document: Json) -> JsonSchema:
    (about,) = document["returns"].values()
    schema = _RETURNS.get(document["name"], _TYPES.get(about["type"], {}))
    return {"description": about["description"], **schema}


def _parameters(document: Json) -> JsonSchema:
    properties, required = {}, []
    for name, about in document["parameters"].items():
        description = about["description"]
        for form, shown in _FORMATS.items():
            description = description.replace(form, shown)
        properties[name] = {**_TYPES[about["type"]], "description": description}
        if "[Optional]" not in description and "Only needed for" not in description:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

"""BFCL multi-turn, base category (Berkeley Function-Calling Leaderboard, Apache-2.0), over its own stateful classes.

The turns of a user become the numbered requests of one task. A task is solved by what it leaves behind: the public
attributes of all classes are those that the task's own solution leaves, as BFCL's state checker compares them; what is
answered does not count. Where the solution leaves everything as it was, its writes must have been done as well. Tasks
whose solution only reads leave nothing to judge: they are left out.

Tasks, documents and solutions come from the data directory, the classes from a package that is installed apart.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import Example, JsonSchema, Protocol, Provenance, Source
from atc.schemas.validate import problems
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, GoldCall, Task, served
from benchmarks.environments.comptoolbench_answers import leaves

Instances = dict[str, Any]
"""An instance of each class of a task, by the name of the class."""

PACKAGE, NUMBERS = "bfcl_eval", "mpmath"
INSTALL = "python -m benchmarks.fetch bfcl"
_SOURCES = f"{PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}

_ALL_READ = ("MathAPI",)
_READ = tuple(
    """
    get_ list_ view_ search_ estimate_ find display check_ filter_ compute_ retrieve_ verify_ notify_ liter_ gallon_
    """.split()
)
# `cd` moves a cursor that belongs to no state: the checker does not see it, and going up twice is no mishap.
_READS = ("cat", "cd", "diff", "du", "grep", "ls", "pwd", "sort", "tail", "wc")
_AT_MOST = {"precision": 1_000, "exponent": 1_000}
"""Arguments with which arithmetic grows without end."""


def reads(group: str, method: str) -> bool:
    """Whether a method leaves the public attributes as they are; one that is not known to is said to write."""
    known = method in _READS or method.startswith(_READ) or method.endswith("_get_login_status")
    return known or group in _ALL_READ


def load_class(name: str) -> type:
    """The class of that name out of the package.

    Raises:
        EnvironmentProblem: the package is not there; the message says how to install it.
    """
    try:
        loaded: type = getattr(importlib.import_module(f"{_SOURCES}.{_MODULES[name]}"), name)
    except (ImportError, AttributeError) as error:
        raise EnvironmentProblem(f"the classes of BFCL cannot be imported ({error}): {INSTALL}") from None
    except KeyError:
        raise EnvironmentProblem(f"BFCL has no class {name!r}: the data is of another version") from None
    return loaded


def instances(groups: Iterable[str], state: Mapping[str, Any], load: Callable[[str], type]) -> Instances:
    """New instances in their first state; a class without a scenario has none."""
    made: Instances = {}
    for group in groups:
        made[group] = load(group)()
        if hasattr(made[group], "_load_scenario"):
            made[group]._load_scenario(copy.deepcopy(state.get(group, {})))
    return made


def public_state(instance: Any) -> dict[str, Any]:
    """The attributes that BFCL's state checker compares."""
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def answer(instance: Any, method: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method as a service would: with copies, and every refusal a ToolError.

    Raises:
        ToolError: the method returned an error, or broke over its arguments. Its outcome is unknown if the state
            changed before that.
    """
    for name, most in _AT_MOST.items():
        if isinstance(value := arguments.get(name), int | float) and abs(value) > most:
            raise ToolError(f"{name} must be at most {most}", status="invalid")
    before = copy.deepcopy(public_state(instance))
    try:
        value = getattr(instance, method)(**copy.deepcopy(dict(arguments)))
    except Exception as error:  # these classes check little; a service would not fall over
        message, status = f"{type(error).__name__}: {error}", "invalid"
    else:
        if not (isinstance(value, dict) and "error" in value):
            return _plain(value)
        message, status = str(value["error"]), "error"
    acted = public_state(instance) != before
    raise ToolError(message, status=status, outcome="unknown" if acted else "refused")


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple() | set():
            return [_plain(part) for part in value]
    return float(value) if hasattr(value, "__float__") else str(value)


Json = dict[str, Any]
Step = tuple[str, dict[str, Any], Any]
"""A call of a solution: the method, its arguments, and what was recorded of its response."""

CATEGORY = "base"
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_UNSEEN = ("contact_customer_support",)
"""Methods that count as writes and leave nothing that is judged."""
_SPOILS: list[GoldCall] = [
    ("touch", {"file_name": "zzqx"}),
    ("set_navigation", {"destination": "zzqx"}),
    ("ticket_login", {"username": "zzqx", "password": "zzqx"}),
    ("add_contact", {"user_name": "zzqx"}),
    (
        "authenticate_travel",
        dict.fromkeys(
            ("client_id", "client_secret", "refresh_token", "grant_type", "user_first_name", "user_last_name"), "zzqx"
        ),
    ),
    ("trading_logout", {}),
]
"""Calls that no task asks for and that change the state, one for each class that has such a call."""


class Bfcl(Environment):
    """The base tasks of BFCL multi-turn.

    Args:
        data: the directory with ``executable/bfcl_multi_turn``.
        load: gives a class by its name; those of the package by default.
    """

    name = "bfcl"

    def __init__(self, data: Path | None, load: Callable[[str], type] | None = None) -> None:
        self._data = DataFolder(data, "bfcl_multi_turn")
        self._load = load

    @cached_property
    def documents(self) -> dict[str, Json]:
        """The tools as the data has them, by the name of the method."""
        return {tool["name"]: tool for tool in self._data.lines("tools.jsonl.gz")}

    @cached_property
    def _base(self) -> dict[str, Json]:
        return {line["id"]: line for line in self._data.lines("tasks.jsonl.gz") if line["category"] == CATEGORY}

    @cached_property
    def steps(self) -> dict[str, list[Step]]:
        """The solution of every base task, by its id."""
        return {
            id_: [(*self._parsed(step["call"]), step["output"]) for turn in record["gold_turns"] for step in turn]
            for id_, record in self._base.items()
        }

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by id: those whose solution writes."""
        return {id_: record for id_, record in self._base.items() if self._writes(self.steps[id_])}

    def tasks(self) -> list[Task]:
        if self._load is None and not all(map(importlib.util.find_spec, (PACKAGE, NUMBERS))):
            raise EnvironmentProblem(f"{self.name} needs the classes of BFCL: {INSTALL}")
        return [
            Task(id_, text(record["turns"]), tuple(map(tool_name, self._methods(record))), self._stated(id_))
            for id_, record in self.records.items()
        ]

    def open(self, task: Task) -> Episode:
        record = self.records[task.id]
        mine, wanted = self._instances(record), self._instances(record)
        self._play(task.id, wanted)
        left = _states(wanted)
        unchanged = left == _states(mine)
        needed = Counter(map(tool_name, self._writes(self.steps[task.id]))) if unchanged else Counter()

        def judge(value: Any) -> bool:
            done = Counter(call.tool for call in episode.calls if call.done)
            return _states(mine) == left and needed <= done

        tools = [self._tool(method, mine, task.id) for method in self._methods(record)]
        episode = Episode(Toolset(tools), judge, self.gold(task).calls)
        return episode

    def gold(self, task: Task) -> Gold:
        calls = tuple((tool_name(method), arguments) for method, arguments, _ in self.steps[task.id])
        offered = self._methods(self.records[task.id])
        spoil = next(((tool_name(method), given) for method, given in _SPOILS if method in offered), None)
        return Gold(calls, spoil=spoil)

    def _instances(self, record: Json) -> dict[str, Any]:
        return instances(record["groups"], record["initial_state"], self._load or load_class)

    def _play(self, task: str, objects: dict[str, Any]) -> list[Any]:
        try:
            return [answer(objects[self.documents[name]["group"]], name, given) for name, given, _ in self.steps[task]]
        except ToolError as error:
            raise EnvironmentProblem(f"{self.name}: the solution of {task} fails, {error}: {INSTALL}") from None

    def _methods(self, record: Json) -> list[str]:
        excluded = record.get("excluded_function", ())
        return [n for n, d in self.documents.items() if d["group"] in record["groups"] and n not in excluded]

    def _writes(self, steps: Iterable[Step]) -> list[str]:
        return [method for method, _, _ in steps if not reads(self.documents[method]["group"], method)]

    def _parsed(self, call: str) -> tuple[str, dict[str, Any]]:
        """A call of a solution, which is Python; its arguments are literals. Those by position get their names."""
        try:
            match ast.parse(call, mode="eval").body:
                case ast.Call(func=ast.Name(id=method), args=args, keywords=keywords) if method in self.documents:
                    names = self.documents[method]["parameters"]["properties"]
                    given = dict(zip(names, map(ast.literal_eval, args), strict=False))
                    return method, given | {str(k.arg): ast.literal_eval(k.value) for k in keywords}
        except (SyntaxError, ValueError):
            pass  # reported like any other text that is no such call
        raise EnvironmentProblem(f"{self.name}: its solution {call[:200]!r} is no call of a documented tool")

    # What is told of the tools

    def _tool(self, method: str, mine: dict[str, Any], task: str) -> Tool:
        document = self.documents[method]
        group = document["group"]
        returns, example = self._response(method, task)
        protocol = Protocol(
            name=tool_name(method),
            description=description(document),
            parameters=converted(document["parameters"]),
            returns=returns,
            effect=Effect.READ if reads(group, method) else Effect.WRITE,
            examples=(example,) if example else (),
            source=Source(location=self.name, operation=method),
            provenance=Provenance.IMPORTED,
        )
        return served(protocol, functools.partial(answer, mine[group], method))

    @cached_property
    def _played(self) -> dict[str, list[tuple[str, dict[str, Any], Any]]]:
        """The solutions are played for it: the data has some responses as they were when all was over, and some cut."""
        found: dict[str, list[tuple[str, dict[str, Any], Any]]] = {method: [] for method in self.documents}
        for task, record in self._base.items():
            responses = self._play(task, self._instances(record))
            for (method, arguments, _), response in zip(self.steps[task], responses, strict=True):
                found[method].append((task, arguments, response))
        return found

    def _response(self, method: str, task: str) -> tuple[JsonSchema | None, Example | None]:
        """The documented schema of responses; where one contradicts it, a response of another task instead."""
        schema = converted(self.documents[method]["returns"])
        played = self._played[method]
        if any(response is None for _, _, response in played):
            schema = {"anyOf": [schema, {"type": "null"}]}
        if all(fits(schema, response) for _, _, response in played):
            return schema, None
        own = [canonical(response) for other, _, response in played if other == task]
        for other, arguments, response in played:
            if other != task and canonical(response) not in own:
                return None, Example(arguments=arguments, response=response)
        return None, None

    def _stated(self, task: str) -> bool:
        """A single word may be a name or an identifier that a tool tells; a phrase of several is nobody's to guess."""
        known = _words(text(self.records[task]["turns"]))
        for method, arguments, response in self.steps[task]:
            if self._writes([(method, {}, None)]) and method not in _UNSEEN:
                phrases = [leaf for leaf in leaves(arguments) if isinstance(leaf, str) and " " in leaf.strip()]
                if not all(_words(phrase) <= known for phrase in phrases):
                    return False
            for leaf in leaves(response):
                known |= _words(str(leaf))
        return True


def _states(objects: dict[str, Any]) -> dict[str, Any]:
    return {group: public_state(instance) for group, instance in objects.items()}


def _words(phrase: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", phrase.casefold()))


def text(turns: Sequence[Sequence[str]]) -> str:
    """The turns of a user as one text."""
    requests = [" ".join(turn) for turn in turns]
    if len(requests) == 1:
        return requests[0]
    numbered = "\n".join(f"{number}. {request}" for number, request in enumerate(requests, 1))
    return f"Do these requests of one user in their order:\n{numbered}"


def description(document: Json) -> str:
    """What a tool does, after the name of its class: the document says the same of the class for each of its tools."""
    about, found, own = document["description"].partition("Tool description: ")
    return f"{document['group']}: {own if found else about}"


def converted(schema: Any) -> Any:
    """A schema in BFCL's dialect as JSON Schema. The default ``"None"`` stands for none."""
    if isinstance(schema, list):
        return [converted(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, part in schema.items():
        if key == "type" and isinstance(part, str):
            made[key] = _TYPES.get(part, part)
        elif key != "default" or part != "None":
            made[key] = converted(part)
    return made


def fits(schema: JsonSchema, value: Any) -> bool:
    """Whether a value fits a schema and has no fields that the schema leaves out."""
    return not problems(closed(schema), value)


def closed(schema: Any) -> Any:
    """A schema whose objects take no field that it does not name, where it names any."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if isinstance(made.get("properties"), dict) and made["properties"] and made.get("type") == "object":
        made["additionalProperties"] = False
    return made

"""The recorded calls that repair of arguments is measured on, read from the data's directory at run time."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.schemas.protocol import JsonSchema
from benchmarks.retrieval.data import protocol_of

HALVES = ("tuned", "held out")
"""Rules are chosen on the first half of the tools, by hash, and reported on the other."""
_OF_ARGUMENTS = re.compile(
    r"argument|param|missing|required|invalid|must be|not (a )?valid|-32602|validation error|expected .{0,40}received",
    re.IGNORECASE,
)
_RESERVED = frozenset({"from", "class", "return", "false", "true", "id", "and"})
_HEADERS = frozenset({"accept", "authorization", "content-type"})
"""OpenAPI 3 ignores parameters of these names; ToolBench's server leaves them out too."""
_LISTING = re.compile(
    r"(?:one of|(?:allowed|possible|valid|supported|available|following|accepted)[a-z ]{0,20}|options|values|either)"
    r"[^:|,\n]{0,25}?(?::|\bare\b|\bis\b|\binclude\b)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"`([^`\n]{1,30})`|\*\*([^*\n]{1,30})\*\*|\"([^\"\n]{1,30})\"")
_PARTED = re.compile(r"\s*[|,\n•;]\s*(?:[-*] )?|\s+or\s+|\s+and\s+")
_MOST_VALUES = 60


@dataclass(frozen=True)
class Tool:
    """One documented tool.

    Attributes:
        documented: the schema of its parameters as recorded. ``schema``: without the headers that OpenAPI ignores.
        enumerated: ``schema`` with the values that its own descriptions list.
        effect: a read where the service's method is GET.
    """

    id: str
    documented: JsonSchema
    schema: JsonSchema
    enumerated: JsonSchema
    effect: Effect

    @property
    def half(self) -> str:
        return HALVES[hashlib.sha256(self.id.encode()).digest()[0] & 1]

    @property
    def properties(self) -> dict[str, JsonSchema]:
        known: dict[str, JsonSchema] = self.schema["properties"]
        return known


@dataclass(frozen=True)
class Recorded:
    """One call that was made of a service.

    Attributes:
        given: the arguments as they were recorded. ``arguments``: with the recorder's own renaming undone.
        answered: whether the service answered it. ``of_arguments``: it did not, and said something of the arguments.
        mended: arguments of calls of the same tool that were answered: of an agent's, later in the same run.
    """

    tool: Tool
    given: dict[str, Any]
    arguments: dict[str, Any]
    answered: bool
    of_arguments: bool = False
    mended: tuple[dict[str, Any], ...] = ()


def recorded_calls(directory: Path, limit: int = 0) -> list[Recorded]:
    """The calls of ToolBench's cache, tool by tool; of the first ``limit`` tools by hash, where it is not 0.

    Raises:
        EnvironmentProblem: the data is not there.
    """
    by_tool: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in _records(directory / "failures/toolbench_response_cache.jsonl.gz"):
        by_tool[record["tool"]].append(record)
    chosen = sorted(by_tool, key=lambda id: hashlib.sha256(id.encode()).digest())[: limit or None]
    documents = dict(_documents(directory / "retrieval/corpus_toolbench.jsonl.gz", chosen))
    made = []
    for id in chosen:
        if id not in documents:
            continue
        answers = [record["args"] for record in by_tool[id] if record["label"] == "ok"]
        tool = tool_of(documents[id], answers)
        mended = tuple(renaming_undone(arguments, tool.properties) for arguments in answers)
        for record in by_tool[id]:
            arguments, answered = record["args"], record["label"] == "ok"
            wrong = not answered and bool(_OF_ARGUMENTS.search(record["response"]))
            undone = renaming_undone(arguments, tool.properties)
            made.append(Recorded(tool, arguments, undone, answered, wrong, () if answered else mended))
    return made


def agents_errors(directory: Path) -> tuple[list[Recorded], int]:
    """The different calls of agents that real MCP servers refused for their arguments, and how often one was made.

    Raises:
        EnvironmentProblem: the data is not there.
    """
    runs = list(_records(directory / "trajectories/livemcp_agents.jsonl.gz"))
    used = {call["tool"] for run in runs for call in run["calls"]}
    documents = _documents(directory / "retrieval/corpus_other.jsonl.gz", used)
    tools = {id: tool_of(record) for id, record in documents}
    found: dict[str, Recorded] = {}
    times = 0
    for calls in (run["calls"] for run in runs):
        for place, call in enumerate(calls):
            if not _OF_ARGUMENTS.search(str(call.get("error") or "")) or call["tool"] not in tools:
                continue
            if not isinstance(call.get("args"), dict):
                continue
            times += 1
            later = [other for other in calls[place + 1 :] if other["tool"] == call["tool"] and not other.get("error")]
            mended = tuple(other["args"] for other in later if isinstance(other.get("args"), dict))
            arguments = call["args"]
            key = json.dumps([call["tool"], arguments], sort_keys=True)
            found.setdefault(key, Recorded(tools[call["tool"]], arguments, arguments, False, True, mended))
    return list(found.values()), times


def tool_of(record: Mapping[str, Any], answered: Iterable[Mapping[str, Any]] = ()) -> Tool:
    """A record of the corpus as a tool. ``answered``: arguments of calls that the service took."""
    protocol = protocol_of(dict(record))
    properties: dict[str, JsonSchema] = {}
    for name, schema in protocol.parameters["properties"].items():
        about = (record.get("parameters") or {}).get(name)
        properties[name] = {**schema, **(_typed(about) if isinstance(about, dict) else {})}
    documented = {**protocol.parameters, "properties": properties}
    required = [name for name in protocol.required if name.lower() not in _HEADERS]
    properties = {name: about for name, about in properties.items() if name.lower() not in _HEADERS}
    schema = {**documented, "properties": properties, "required": required}
    listed = {name: {**about, "enum": values} for name, about in properties.items() if (values := listed_in(about))}
    for arguments in answered:
        for name, value in renaming_undone(arguments, properties).items():
            if name in listed and value not in listed[name]["enum"]:
                del listed[name]
    effect = Effect.READ if record.get("method") == "GET" else Effect.UNKNOWN
    enumerated = {**schema, "properties": {**properties, **listed}}
    return Tool(str(record["id"]), documented, schema, enumerated, effect)


def listed_in(schema: Mapping[str, Any]) -> list[str]:
    """The values that a parameter's own description lists: two at least, or none."""
    text = str(schema.get("description") or "")
    lead = _LISTING.search(text)
    if lead is None or schema.get("type") != "string":
        return []
    rest = text[lead.end() :]
    quoted = [next(filter(None, found.groups())) for found in _QUOTED.finditer(rest)]
    parts = quoted if len(quoted) > 1 else [part.strip(" .*`'\"-") for part in _PARTED.split(rest)]
    values = list(dict.fromkeys(parts))
    if not 2 <= len(values) <= _MOST_VALUES or not all(re.fullmatch(r"[\w.:/+-]{1,30}", value) for value in values):
        return []
    return values


def renamed(name: str) -> str:
    """The name that ToolBench gave to a parameter: lower case, ``_`` for all but letters and digits, ``is_id``."""
    plain = re.sub(r"(_)\1+", "_", re.sub(r"[^\w\u4e00-\u9fa5^]", "_", name)).lower().strip("_")
    plain = f"get_{plain}" if plain[:1].isdigit() else plain
    return f"is_{plain}" if plain in _RESERVED else plain


def renaming_undone(arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under the names of the documents, where ToolBench renamed them and one parameter alone fits."""
    by_renamed: dict[str, list[str]] = defaultdict(list)
    for name in properties:
        by_renamed[renamed(name)].append(name)
    made: dict[str, Any] = {}
    for key, value in arguments.items():
        meant = by_renamed.get(key, []) if key not in properties else []
        free = [name for name in meant if name not in arguments and name not in made]
        made[free[0] if len(free) == 1 else key] = value
    return made


def _typed(about: Mapping[str, Any]) -> JsonSchema:
    kind = str(about.get("type") or "").lower()
    made: JsonSchema = {}
    if kind.startswith("date"):
        made = {"type": "string", "format": "date"}
    elif kind.startswith("time") or kind == "enum":
        made = {"type": "string"}
    elif "/" in kind and set(kind.split("/")) <= {"string", "null", "array", "object", "number", "integer", "boolean"}:
        made = {"type": kind.split("/")}
    return made | ({"examples": [about["example"]]} if about.get("example") is not None else {})


def _documents(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    ids = set(wanted)
    return ((record["id"], record) for record in _records(path) if record["id"] in ids)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise EnvironmentProblem(f"{path} is not there: give the data's directory with --data DIR or in ATC_DATA")
    with gzip.open(path) as file:
        yield from map(json.loads, file)

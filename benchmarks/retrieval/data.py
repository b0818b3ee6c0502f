"""The catalogues and queries that retrieval is measured on: ``DIR/retrieval`` of the data, read at run time."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import JsonSchema, Protocol, Source

ALL = "all"
"""The pool of all tools together."""
MEDIUM = 1_500
"""Tools of a catalogue of at most medium size."""
DEPENDENT = frozenset(
    """
    nestools complexfuncbench restbench_tmdb restbench_spotify api_bank api_bank_lv3 toolflow comptoolbench
    """.split()
)
"""Sources whose tasks need tools that they do not mention."""
_JSON_TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "double": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}
_SCHEMA_WORDS = frozenset({"type", "description", "properties", "items", "required", "enum", "format", "example"})
_DEEPEST = 4


@dataclass(frozen=True)
class Query:
    """One query with its gold tools. ``group``: ``single``, ``multi`` or ``dependent``."""

    id: str
    text: str
    gold: frozenset[str]
    source: str
    pool: str
    subset: str
    group: str


@dataclass(frozen=True)
class Catalogues:
    """The data of one directory.

    Args:
        directory: with ``retrieval/corpus_*.jsonl.gz``, ``queries.jsonl.gz`` and ``pools.json.gz``.
    """

    directory: Path

    @cached_property
    def _records(self) -> dict[str, tuple[str, bytes]]:
        found = {}
        for file in ("corpus_toolbench.jsonl.gz", "corpus_other.jsonl.gz"):
            for line in self._lines(file):
                record = json.loads(line)
                found[record["id"]] = (record["source"], line)
        return found

    @cached_property
    def _pools(self) -> dict[str, list[str]]:
        with gzip.open(self._file("retrieval/pools.json.gz")) as file:
            named: dict[str, list[str]] = json.load(file)
        for tool, (source, _) in self._records.items():
            named.setdefault(source, []).append(tool)
        named[ALL] = list(self._records)
        return named

    def pool(self, name: str) -> Iterator[tuple[str, Protocol]]:
        """The tools of a pool, with their ids."""
        tools = dict.fromkeys(self._pools[name])
        return ((tool, protocol_of(json.loads(self._records[tool][1]))) for tool in tools)

    def texts(self, name: str) -> Iterator[tuple[str, str]]:
        """The tools of a pool as plain text, with their ids: all that their records say but what they answer."""
        for tool in dict.fromkeys(self._pools[name]):
            yield tool, _text(json.loads(self._records[tool][1]))

    def size(self, name: str) -> int:
        return len(set(self._pools[name]))

    def queries(self, per_source: int | None = None, sources: Sequence[str] = ()) -> list[Query]:
        """The queries; of each source at most so many, always the same ones, as if drawn at random.

        Raises:
            EnvironmentProblem: the data is not there.
        """
        by_source: dict[str, list[Query]] = defaultdict(list)
        for line in self._lines("queries.jsonl.gz"):
            query = _query(json.loads(line))
            if not sources or query.source in sources:
                by_source[query.source].append(query)
        return [query for name in sorted(by_source) for query in in_order(by_source[name])[:per_source]]

    def drawn(self, count: int, at_least: int, largest: int = MEDIUM) -> list[str]:
        """The names of so many sources, as if drawn at random: the first by the hash of their names.

        Args:
            count: how many at most.
            at_least: queries that a source must have.
            largest: tools that its pool may have.
        """
        by_source: dict[str, list[Query]] = defaultdict(list)
        for query in self.queries():
            by_source[query.source].append(query)
        fit = [n for n, found in by_source.items() if len(found) >= at_least and self.size(found[0].pool) <= largest]
        return sorted(sorted(fit, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a compressed file of the directory.

        Raises:
            EnvironmentProblem: it is not there.
        """
        with gzip.open(self._file(name)) as file:
            yield from file

    def _lines(self, name: str) -> Iterator[bytes]:
        return self.lines(f"retrieval/{name}")

    def _file(self, name: str) -> Path:
        path = self.directory / name
        if not path.is_file():
            raise EnvironmentProblem(f"{path} is not there: give the data's directory with --data DIR or in ATC_DATA")
        return path


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of JSON lines.

    Raises:
        EnvironmentProblem: it is not there.
    """
    if not path.is_file():
        raise EnvironmentProblem(f"{path} is not there: give the data's directory with --data DIR or in ATC_DATA")
    with gzip.open(path) as file:
        yield from map(json.loads, file)


def _text(record: dict[str, Any]) -> str:
    own = [record.get(name) or "" for name in ("name", "description")]
    service = dict.fromkeys(record.get(name) or "" for name in ("tool", "group", "category"))
    parameters = record.get("parameters") or {}
    about = [said.get("description") or "" if isinstance(said, dict) else said for said in parameters.values()]
    return " ".join(map(str, [*own, *service, record.get("tool_description") or "", *parameters, *about]))


def protocol_of(record: dict[str, Any]) -> Protocol:
    """A record as a protocol; the service's own description stands behind the tool's."""
    about = [record.get("description") or "", record.get("tool_description") or ""]
    return Protocol(
        name=tool_name(record["name"]),
        description="\n".join(dict.fromkeys(text for text in about if text)),
        parameters=_parameters(record.get("parameters") or {}, record.get("endpoint") or ""),
        returns=_returns(record.get("response")),
        effect=Effect.READ if record.get("method") == "GET" else Effect.UNKNOWN,
        source=Source(location=record.get("group") or "", operation=record["name"]),
    )


def _query(record: dict[str, Any]) -> Query:
    gold = frozenset(record["gold"])
    source = record["source"]
    group = "dependent" if source in DEPENDENT else "multi" if len(gold) > 1 else "single"
    return Query(record["id"], record["query"], gold, source, record["pool"], record.get("subset") or "", group)


def in_order(queries: Iterable[Query]) -> list[Query]:
    """Queries by the hash of their ids: the first so many are as good as drawn at random, and always the same."""
    return sorted(queries, key=lambda query: hashlib.sha256(query.id.encode()).hexdigest())


def _parameters(given: dict[str, Any], endpoint: str) -> JsonSchema:
    """What a record says, and what its path needs: ``/movie/{movie_id}``."""
    in_path = re.findall(r"{([^{}]+)}", endpoint)
    properties: dict[str, Any] = {name: {"type": "string"} for name in in_path}
    properties |= {name: _schema(about) for name, about in given.items()}
    required = [*in_path, *(n for n, a in given.items() if isinstance(a, dict) and a.get("required") is True)]
    required = list(dict.fromkeys(required))
    return {"type": "object", "properties": properties, "required": required}


def _schema(about: Any) -> JsonSchema:
    if not isinstance(about, dict):
        return {"description": str(about)}
    known = _JSON_TYPES.get(str(about.get("type", "")).lower())
    return {**({"type": known} if known else {}), "description": str(about.get("description") or "")}


def _returns(response: Any) -> JsonSchema | None:
    """What a response is: the sources write it as a schema, or as fields with a type, a text or fields of their own."""
    if not isinstance(response, dict) or not response or "content" in response:
        return None  # a content type says nothing
    shape = _shape(response, 0)
    return shape if shape.get("properties") or shape.get("items") else None


def _shape(value: Any, depth: int) -> JsonSchema:
    if depth > _DEEPEST:
        return {}
    if isinstance(value, list):
        return {"type": "array", "items": _shape(value[0], depth + 1) if value else {}}
    if isinstance(value, str):
        known = _JSON_TYPES.get(value.lower())
        return {"type": known} if known else {"description": value}
    if not isinstance(value, dict):
        return {}
    if set(value) <= _SCHEMA_WORDS and isinstance(value.get("type"), str):
        fields, items = value.get("properties"), value.get("items")
        made = _schema(value)
        if isinstance(fields, dict):
            made = {
                **made,
                "type": "object",
                "properties": {name: _shape(about, depth + 1) for name, about in fields.items()},
            }
        return {**made, "items": _shape(items, depth + 1)} if items else made
    return {"type": "object", "properties": {name: _shape(about, depth + 1) for name, about in value.items()}}

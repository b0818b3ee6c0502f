"""Exports of the graph store: what runs taught one user, in a file that another can load.

JSON Lines: a header, one line a tool, one line an edge. It holds no times, no corrections and no predictions. What
comes in is a stranger's: it is read strictly, bounded, capped and marked. Which tool took another one's place is not
exchanged: that would send a run to a tool that nobody here has tried.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from atc._host.files import write_whole
from atc.catalogue.graph.database import Database
from atc.catalogue.graph.learning import drop_foreign, prune_edges, prune_shapes
from atc.catalogue.graph.weights import DAY_S
from atc.errors import UsageError
from atc.schemas.infer.outline import Outline, vocabulary

FORMAT = "atc tool graph"
MAX_FACTS, MAX_LINE, MAX_BYTES = 100_000, 64_000, 64_000_000
"""Lines of a file, bytes of one, and bytes in all: more than a full store gives."""
MAX_FOREIGN = 20.0
"""Successes of one tool that count of what another user saw; edges into it are scaled alike."""
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_Number = Annotated[int, Field(ge=1, le=MAX_FACTS)]
_Count = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Header(_Line):
    """What a file is."""

    format: Literal["atc tool graph"]
    version: Literal[1]


class _Tool(_Line):
    """A tool, by a number that edges name it with."""

    tool: _Number
    service: _Digest
    name: _Name
    digest: _Digest
    outline: Outline | None = None


class _Call(_Line):
    """How often a tool succeeded and failed."""

    kind: Literal["call"]
    b: _Number
    ok: _Count = 0.0
    failed: _Count = 0.0


class _Follow(_Line):
    """How often tool ``b`` ran right after ``a``."""

    kind: Literal["follow"]
    a: _Number
    b: _Number
    ok: _Count


class _Feed(_Line):
    """How often a field of ``a`` fed a parameter of ``b``."""

    kind: Literal["feed"]
    a: _Number
    b: _Number
    path: Annotated[list[_Name], Field(max_length=12)]
    parameter: _Name
    ok: _Count


_FACT: TypeAdapter[_Tool | _Call | _Follow | _Feed] = TypeAdapter(
    Annotated[_Call | _Follow | _Feed, Field(discriminator="kind")] | _Tool
)
_TOOLS = "SELECT id, service, name, digest, outline FROM tool LEFT JOIN shape ON shape.tool = id WHERE NOT is_foreign"
_EDGES = (
    "SELECT kind, a, b, path, parameter, SUM(ok), SUM(failed) FROM edge JOIN uses ON uses.edge = edge.id"
    " WHERE kind IN ('call', 'follow', 'feed') GROUP BY edge.id"
)


def exported(store: Database, path: Path) -> int:
    """Write an export; how many facts it holds.

    Raises:
        UsageError: the file cannot be written.
        StoreProblem: the store cannot be read.
    """
    lines: list[dict[str, Any]] = store.read(lambda file: list(_lines(file)), [])
    try:
        write_whole(path, "".join(json.dumps(line) + "\n" for line in ({"format": FORMAT, "version": 1}, *lines)))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name a file in a folder of yours") from None
    return len(lines)


def _lines(file: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    edges = file.execute(_EDGES).fetchall()
    used = {tool for edge in edges for tool in edge[1:3]}
    numbers: dict[int, int] = {}
    for id, service, name, digest, outline in file.execute(_TOOLS).fetchall():
        if outline is not None or id in used:
            numbers[id] = len(numbers) + 1
            shape = {} if outline is None else {"outline": json.loads(outline)}
            yield {"tool": numbers[id], "service": service, "name": name, "digest": digest, **shape}
    for kind, a, b, path, parameter, ok, failed in edges:
        if a in numbers and b in numbers:
            more = {
                "call": {"failed": failed},
                "follow": {"a": numbers[a]},
                "feed": {"a": numbers[a], "path": json.loads(path), "parameter": parameter},
            }[kind]
            yield {"kind": kind, "b": numbers[b], "ok": ok, **more}


def imported(store: Database, path: Path) -> int:
    """Load an export as foreign; how many facts were taken.

    Raises:
        UsageError: it is no export; the line is named, and nothing is taken.
        StoreProblem: the store cannot be written.
    """
    facts = list(_read(path))
    return store.write(lambda file: _take(file, facts))


def _read(path: Path) -> Iterator[_Tool | _Call | _Follow | _Feed]:
    tools: set[int] = set()
    identities: set[tuple[str, str, str]] = set()
    try:
        with path.open("rb") as file:
            left = MAX_BYTES
            for number in range(MAX_FACTS + 2):
                line = file.readline(MAX_LINE + 1)
                if not line and number:
                    return
                left -= len(line)
                if left < 0:
                    raise UsageError(f"{path} has more than {MAX_BYTES // 1_000_000} MB: load a smaller one")
                try:
                    if len(line) > MAX_LINE:
                        raise ValueError(f"it has more than {MAX_LINE:,} bytes")
                    if not number:
                        _Header.model_validate_json(line)
                        continue
                    fact = _FACT.validate_json(line)
                    if isinstance(fact, _Tool):
                        identity = fact.service, fact.name, fact.digest
                        if fact.tool in tools or identity in identities:
                            raise ValueError(f"tool {fact.tool} is there already")
                        tools.add(fact.tool)
                        identities.add(identity)
                    elif not {fact.b, getattr(fact, "a", fact.b)} <= tools:
                        raise ValueError("it names a tool that is in no line before")
                except ValueError as error:
                    raise UsageError(
                        f"{path}, line {number + 1}: {_reason(error)}; give a file that `atc graph export` wrote"
                    ) from None
                yield fact
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    raise UsageError(f"{path} has more than {MAX_FACTS:,} lines: load a smaller one")


def _reason(error: ValueError) -> str:
    """What is wrong with a line, without its content."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"[:300]


def _take(file: sqlite3.Connection, facts: list[_Tool | _Call | _Follow | _Feed]) -> int:
    ids: dict[int, int] = {}
    successes: Counter[int] = Counter()
    for fact in facts:
        if isinstance(fact, _Tool):
            drop_foreign(file, fact.service, fact.name)
    for fact in facts:
        if isinstance(fact, _Tool):
            made = file.execute(
                "INSERT INTO tool (service, name, digest, is_foreign, last) VALUES (?, ?, ?, 1, 0)",
                (fact.service, fact.name, fact.digest),
            )
            ids[fact.tool] = made.lastrowid or 0
            if fact.outline is not None:
                shape = fact.outline.of_names(vocabulary([fact.name])).model_dump_json(exclude_defaults=True)
                file.execute("INSERT INTO shape VALUES (?, ?)", (ids[fact.tool], shape))
        else:
            successes[fact.b] = max(successes[fact.b], int(fact.ok) + 1)
    for fact in facts:
        if not isinstance(fact, _Tool):
            a, path, parameter = fact.b, "[]", ""
            if isinstance(fact, _Feed):
                a, path, parameter = fact.a, json.dumps(fact.path), fact.parameter
            elif isinstance(fact, _Follow):
                a = fact.a
            scale = min(1.0, MAX_FOREIGN / successes[fact.b])
            failed = min(getattr(fact, "failed", 0.0) * scale, MAX_FOREIGN)
            made = file.execute(
                "INSERT OR IGNORE INTO edge (b, kind, a, path, parameter, last) VALUES (?, ?, ?, ?, ?, 0)",
                (ids[fact.b], fact.kind, ids[a], path, parameter),
            )
            if made.rowcount:
                file.execute("INSERT INTO uses VALUES (?, 0, ?, ?)", (made.lastrowid, fact.ok * scale, failed))
    prune_shapes(file)
    prune_edges(file, ids.values(), int(time.time() // DAY_S))
    return len(facts)

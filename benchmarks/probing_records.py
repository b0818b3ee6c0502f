"""Records of real services: their endpoints with an example of a response each.

``DIR/restbench/endpoint_docs.jsonl.gz`` has 177 endpoints of six services; TMDB's examples are whole in
``tmdb_oas.json.gz``. An endpoint is usable when it is a ``GET`` with a path and an example that is JSON. What was cut
off an example (``…``) is left out of it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.errors import UsageError

CUT = "…"
SEARCHED = frozenset({"q", "query", "criteria", "text", "food", "wine", "ingredients"})
"""Names of arguments that are text to search for. Few of these documents say that it is required; it is taken to be."""
IDENTIFIER = re.compile(r"(^|_)id$|[a-z]Id$")
SYNONYMS = {"cast": "person", "crew": "person", "guest_stars": "person", "parts": "movie", "known_for": "movie"}
"""What is in a field, where its name does not say so."""


@dataclass(frozen=True)
class Parameter:
    """One argument, as its service's document has it."""

    name: str
    type: str
    required: bool
    in_path: bool
    default: Any = None
    members: tuple[str, ...] = ()

    @property
    def identifies(self) -> bool:
        return bool(IDENTIFIER.search(self.name))

    @property
    def places(self) -> bool:
        return self.name in ("lat", "lon")


@dataclass(frozen=True)
class Endpoint:
    """One operation with its recorded answer."""

    service: str
    name: str
    path: str
    parameters: tuple[Parameter, ...]
    answer: Any


# Reading ------------------------------------------------------------------------------------------------------------


def load(folder: Path) -> tuple[dict[str, list[Endpoint]], str]:
    """The usable endpoints by their service, and a sentence about those that are not.

    Raises:
        UsageError: the folder has no records.
    """
    try:
        with gzip.open(folder / "restbench" / "endpoint_docs.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        with gzip.open(folder / "restbench" / "tmdb_oas.json.gz", "rt", encoding="utf-8") as file:
            tmdb = json.load(file)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: give the folder that holds restbench/ as --data") from None
    left_out: Counter[str] = Counter()
    usable: dict[str, list[Endpoint]] = {}
    for row in rows:
        made = _endpoint(row, tmdb)
        if isinstance(made, str):
            left_out[f"{row['dataset']}: {made}"] += 1
        else:
            usable.setdefault(made.service, []).append(made)
    count = sum(map(len, usable.values()))
    why = ", ".join(f"{number} of {reason}" for reason, number in left_out.items())
    return usable, f"recorded services: {count} of {len(rows)} endpoints are usable; not: {why}"


def _endpoint(row: dict[str, Any], tmdb: dict[str, Any]) -> Endpoint | str:
    """One usable endpoint, or why it is not."""
    if row["method"] != "GET":
        return "no GET"
    base = row["servers"][0]["url"].split("//")[-1].rstrip("/")
    if base not in row["url"]:
        return "no path"
    path = "/" + row["url"].split(base, 1)[1].strip("/'")
    listed = row.get("parameters") or row.get("params") or []
    answer = row.get("response", row.get("responses"))
    if row["dataset"] == "tmdb":
        item = tmdb["paths"][path]
        listed = [_resolved(p, tmdb) for p in [*item.get("parameters", ()), *item["get"].get("parameters", ())]]
        answer = item["get"]["responses"]["200"]["content"]["application/json"]["examples"]["response"]["value"]
    elif isinstance(answer, dict) and "content" in answer:
        return "no example, a schema alone"
    if not isinstance(answer, dict | list) or not answer:
        return "no example"
    name = re.sub(r"\W+", "_", row["name"]).lower()[-60:].lstrip("_")  # names of tools have 64 characters
    return Endpoint(row["dataset"], name, path, tuple(_parameters(path, listed)), _whole(answer))


def _parameters(path: str, listed: list[dict[str, Any]]) -> Iterator[Parameter]:
    inside = re.findall(r"{(\w+)}", path)
    for raw in listed:
        name, schema = raw["name"], raw.get("schema", {})
        words = raw["in"] == "query" and "required" not in raw and "default" not in schema
        marked = any(other["in"] == "optional" for other in listed) or len(listed) == 1
        required = raw.get("required") is True or raw["in"] == "required" or name in inside or name in SEARCHED
        kind = str(schema.get("type", "string")).lower().replace("float", "number")
        members = tuple(map(str, schema.get("enum", ())))
        yield Parameter(name, kind, required or (words and marked), name in inside, schema.get("default"), members)
    for name in inside:
        if all(raw["name"] != name for raw in listed):
            yield Parameter(name, "string", True, True)


def _resolved(raw: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    found: Any = raw
    if "$ref" in raw:
        found = document
        for step in raw["$ref"].removeprefix("#/").split("/"):
            found = found[step]
    return dict(found)


def _whole(value: Any) -> Any:
    """An example without what was cut off it."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items() if item != CUT and key != CUT}
    return [_whole(item) for item in value if item != CUT] if isinstance(value, list) else value


# Identifiers --------------------------------------------------------------------------------------------------------


def kind_wanted(endpoint: Endpoint, parameter: Parameter) -> str:
    """What an identifier is of: ``movie_id`` of a movie, ``id`` of ``/author/{id}`` of an author."""
    if parameter.name != "id":
        return _last_word(re.sub(r"_?[iI]d$", "", parameter.name))
    segments = endpoint.path.strip("/").split("/")
    return _last_word(segments[segments.index("{id}") - 1] if "{id}" in segments else segments[0])


def identifiers(endpoints: Sequence[Endpoint]) -> dict[str, set[str]]:
    """The identifiers in all examples by their kind; under ``""`` all of them, and those that documents give."""
    known: dict[str, set[str]] = {"": set()}
    wanted = [(e, p, kind_wanted(e, p)) for e in endpoints for p in e.parameters if p.identifies]
    for _, parameter, kind in wanted:
        if parameter.default is not None:
            known.setdefault(kind, set()).add(str(parameter.default))
    vocabulary = {kind for _, _, kind in wanted}
    for endpoint in endpoints:
        for kind, value in _found(endpoint.answer, "", endpoint, vocabulary):
            known.setdefault(kind, set()).add(value)
    known[""] = set().union(*known.values())
    return known


def _found(value: Any, holder: str, endpoint: Endpoint, vocabulary: set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _found(item, holder or "results", endpoint, vocabulary)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                yield from _found(inner, key, endpoint, vocabulary)
            elif key == "id" and inner is not None:
                told = value.get("_type") or value.get("relation")
                yield _last_word(str(told)) if told else _kind_of(holder, endpoint, vocabulary), str(inner)
            elif IDENTIFIER.search(key) and inner is not None:
                yield _last_word(re.sub(r"_?[iI]d$", "", key)), str(inner)


def _kind_of(holder: str, endpoint: Endpoint, vocabulary: set[str]) -> str:
    """The kind of thing that a field holds: by its own name, else by the path that it came from."""
    own = SYNONYMS.get(holder.lower(), _last_word(holder))
    if own in vocabulary or holder not in ("", "results"):
        return own
    steps = [step for step in endpoint.path.strip("/").split("/") if holder or "{" in step or "{" not in endpoint.path]
    kinds = [_last_word(step.strip("{}").removesuffix("_id")) for step in steps]
    return next((kind for kind in reversed(kinds) if kind in vocabulary), "")


def _last_word(name: str) -> str:
    """``extendedIngredients`` is about an ingredient, ``production_companies`` about a company."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|\W|_", " ", name).lower().split()
    word = words[-1] if words else ""
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")


def scalars(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """All texts and numbers of an example with the field that they are in."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from scalars(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from scalars(item, field)
    elif value is not None:
        yield field, value

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from atc.errors import UsageError
from benchmarks.probing.truth import Field, Service, Truth, field_path, fields_of_value

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


_COORDINATE = re.compile(r"-?\d+(\.\d+)?[NSEW]?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TOTAL = re.compile(r"total|count", re.IGNORECASE)


class Refusal(Exception):
    """What the service says when it does not answer."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


@dataclass
class World:
    """What a service knows: identifiers by their kind, all its text in small letters, and values by their field."""

    identifiers: dict[str, set[str]]
    text: str
    values: dict[str, set[str]] = field(default_factory=dict)


def recorded(folder: Path) -> tuple[list[Service], list[str]]:
    """The services of a data folder, and what to know of them.

    Raises:
        UsageError: the folder has no records.
    """
    usable, note = load(folder)
    return [service(name, found) for name, found in usable.items()], [note]


def service(name: str, endpoints: list[Endpoint]) -> Service:
    """One service with these endpoints."""
    text = json.dumps([endpoint.answer for endpoint in endpoints], ensure_ascii=False).lower()
    world = World(identifiers(endpoints), text)
    for endpoint in endpoints:
        for place, value in scalars(endpoint.answer):
            world.values.setdefault(place, set()).add(str(value))

    def make(base: str) -> Starlette:
        async def describe(_: Request) -> Response:
            return JSONResponse(_document(name, endpoints, base))

        # paths without a parameter first: `/movie/popular` is no movie
        ordered = sorted(endpoints, key=lambda endpoint: endpoint.path.count("{"))
        routes = [Route(e.path, _answering(e, world), methods=["GET"]) for e in ordered]
        return Starlette(routes=[Route("/openapi.json", describe), *routes])

    truth = {
        e.name: Truth({field_path("", _written(p.name)): _argument(p) for p in e.parameters}, fields_of_value(e.answer))
        for e in endpoints
    }
    return Service(name, make, truth)


def _written(name: str) -> str:
    """As a program writes it: ``air_date.gte`` is ``air_date_gte``."""
    return re.sub(r"\W+", "_", name)


def _argument(parameter: Parameter) -> Field:
    """In a path and a query, text of digits is a number too."""
    types = {parameter.type}
    if parameter.type == "string" and (parameter.identifies or parameter.places or parameter.in_path):
        types |= {"integer", "number"}
    return Field(frozenset(types), parameter.required)


def _document(name: str, endpoints: list[Endpoint], base: str) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        parameters: list[dict[str, Any]] = [
            {"name": p.name, "in": "path" if p.in_path else "query", "required": p.in_path, "schema": {}}
            for p in endpoint.parameters
        ]
        operation = {"operationId": endpoint.name, "parameters": parameters, "responses": {"200": {"description": ""}}}
        paths[endpoint.path] = {"get": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "servers": [{"url": base}],
        "paths": paths,
    }


def _answering(endpoint: Endpoint, world: World) -> Any:
    async def answer(request: Request) -> Response:
        given = {key: value for key, value in {**request.query_params, **request.path_params}.items() if value}
        try:
            _check(endpoint, given, world)
        except Refusal as refusal:
            return JSONResponse(refusal.body, status_code=refusal.status)
        for parameter in endpoint.parameters:
            words = given.get(parameter.name, "").lower()
            if parameter.name in SEARCHED and words not in world.text and words != str(parameter.default).lower():
                return JSONResponse(_emptied(endpoint.answer))
        return JSONResponse(endpoint.answer)

    return answer


def _check(endpoint: Endpoint, given: dict[str, str], world: World) -> None:
    """Raises Refusal: an argument is missing, is of the wrong kind, or names nothing."""
    names = {parameter.name for parameter in endpoint.parameters}
    for parameter in endpoint.parameters:
        value = given.get(parameter.name)
        if value is None:
            if parameter.required:
                raise Refusal(*_refusal(endpoint, parameter, "missing"))
        elif not _fits(parameter, value):
            raise Refusal(*_refusal(endpoint, parameter, "wrong"))
        elif parameter.identifies and (parameter.required or parameter.name == "place_id"):
            kind = kind_wanted(endpoint, parameter)
            if value not in world.identifiers.get(kind, world.identifiers[""]):
                raise Refusal(*_refusal(endpoint, parameter, "unknown"))
        elif parameter.in_path and not parameter.members and value not in world.values.get(parameter.name, {value}):
            raise Refusal(*_refusal(endpoint, parameter, "unknown"))
    if {"place_id", "lat", "lon"} <= names and "place_id" not in given and not {"lat", "lon"} <= set(given):
        raise Refusal(400, {"detail": "You must specify either place_id or both lat and lon."})


def _fits(parameter: Parameter, value: str) -> bool:
    if parameter.members:
        return value in parameter.members
    if parameter.places:
        return bool(_COORDINATE.fullmatch(value))
    if parameter.name == "date":
        return bool(_DATE.fullmatch(value))
    if parameter.type in ("integer", "number"):
        return bool(re.fullmatch(r"-?\d+" if parameter.type == "integer" else r"-?\d+(\.\d+)?", value))
    return value.lower() in ("true", "false") if parameter.type == "boolean" else True


def _refusal(endpoint: Endpoint, parameter: Parameter, problem: str) -> tuple[int, Any]:
    name, whose = parameter.name, endpoint.service
    if problem == "unknown":
        gone, thing = "The resource you requested could not be found.", name.removesuffix("_id")
        bodies: dict[str, Any] = {
            "tmdb": {"success": False, "status_code": 34, "status_message": gone},
            "food": {"status": "failure", "code": 404, "message": f"A {thing} with this id does not exist."},
            "weather": {"detail": f"Place not found: invalid {name}"},
            "music": {"error": {"status": 404, "message": "Not found"}},
        }
        return 404, bodies.get(whose, {"message": "Not Found"})
    missing = problem == "missing"
    kind = "date" if name == "date" else parameter.type
    expected = f"one of {', '.join(parameter.members)}" if parameter.members else kind
    words = "is required" if missing else f"is not valid: expected {expected}"
    if whose == "tmdb":
        return 422, {"errors": [f"{name} must be provided" if missing else f"{name} {words}"]}
    if whose == "weather":
        body = "field required" if missing else f"value is not a valid {kind}"
        code = "value_error.missing" if missing else f"type_error.{kind}"
        return 422, {"detail": [{"loc": ["query", name], "msg": body, "type": code}]}
    if whose == "food":
        return 400, {"status": "failure", "code": 400, "message": f"The parameter '{name}' {words}."}
    return 400, {"error": {"status": 400, "message": f"{name} {words}"}} if whose == "music" else {
        "message": f"'{name}' {words}"
    }


def _emptied(answer: Any) -> Any:
    if isinstance(answer, list):
        return []
    return {
        key: [] if isinstance(value, list) else 0 if _TOTAL.search(key) and isinstance(value, int) else value
        for key, value in answer.items()
        if isinstance(value, list | int | float)
    }

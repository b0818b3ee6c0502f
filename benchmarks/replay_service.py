"""Services that answer from records of real ones, with the manners of real ones: they refuse, and they miss.

For what is recorded see :mod:`benchmarks.probing_records`.

* The document has paths, and names of parameters; only those in a path are said to be required.
* An argument that is missing, or no number where one is needed, gets 400 or 422 in that service's kind of words.
* An identifier is known when one of its kind is in any example of the service: a movie's is none of a person. Any
  other gets 404. Other parts of a path which examples have a field for (``season_number``) are known by their values.
* Words to search for hit when they are in any example of the service; else the answer is the same with its lists empty.
* What else is given changes nothing: there is one answer an endpoint, so that much of a real service is not here.

The truth of a response is its example: :func:`benchmarks.probing_truth.fields_of_value`. A documented endpoint has
answered with it, so that recall and precision of fields are high by nature here: what these services measure is how
many endpoints are found to answer, and what is learnt of arguments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from benchmarks.probing_records import SEARCHED, Endpoint, Parameter, identifiers, kind_wanted, load, scalars
from benchmarks.probing_run import Service, Truth
from benchmarks.probing_truth import Field, field_path, fields_of_value

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
    """Status and words of this service's kind."""
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
    """What a search says that finds nothing."""
    if isinstance(answer, list):
        return []
    return {
        key: [] if isinstance(value, list) else 0 if _TOTAL.search(key) and isinstance(value, int) else value
        for key, value in answer.items()
        if isinstance(value, list | int | float)
    }

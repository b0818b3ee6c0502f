"""A small service with an OpenAPI document as FastAPI would make it.

A service is a class whose methods are operations. Its OpenAPI document is made of their signatures, and ATC imports it
as it would import a real one; the calls are then answered by the methods, without a network.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from atc.errors import ToolError
from atc.schemas.protocol import Protocol
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import served

Limit = Annotated[int, Field(ge=1, le=10)]
_Key = TypeVar("_Key")
_Row = TypeVar("_Row")
_REFERENCES = "#/components/schemas/{model}"
_MAIN = {"get": "200", "post": "201", "patch": "200", "put": "200", "delete": "204"}


def route(method: Literal["get", "post", "patch", "put", "delete"], path: str) -> Callable[[Any], Any]:
    """Make a method of a service an operation."""

    def marked(function: Any) -> Any:
        function.route = (method, path)
        return function

    return marked


class Page(BaseModel):
    """A part of a list."""

    total: int
    next_cursor: str | None = None


class Service:
    """A service; what its operations change is seen in :meth:`state`.

    Attributes:
        title: of its document.
    """

    title: ClassVar[str]

    def __init__(self) -> None:
        for name, rows in vars(type(self)).items():
            if isinstance(rows, dict) and name.islower() and not name.startswith("_"):
                setattr(self, name, copy.deepcopy(rows))

    def state(self) -> dict[str, Any]:
        """All tables, as plain values."""
        return {
            name: {str(key): row.model_dump(mode="json") for key, row in rows.items()}
            for name, rows in vars(self).items()
        }

    @classmethod
    def operations(cls) -> Iterator[tuple[str, str, str, Any]]:
        """The operation id of each operation as FastAPI makes it, the method, the path, and the function."""
        for name, function in vars(cls).items():
            if (where := getattr(function, "route", None)) is not None:
                method, path = where
                yield re.sub(r"\W", "_", f"{name}{path}") + f"_{method}", method, path, function

    @classmethod
    def document(cls) -> dict[str, Any]:
        """The OpenAPI document."""
        schemas: dict[str, Any] = {}
        paths: dict[str, Any] = {}
        for id, method, path, function in cls.operations():
            hints = get_type_hints(function, include_extras=True)
            operation: dict[str, Any] = {"operationId": id, "summary": function.__name__.replace("_", " ").title()}
            if function.__doc__:
                operation["description"] = function.__doc__
            parameters, body = [], {}
            for name, parameter in [*inspect.signature(function).parameters.items()][1:]:
                schema, required = _schema(hints[name], schemas), parameter.default is parameter.empty
                place = "path" if f"{{{name}}}" in path else "query"
                if place == "query" and method in ("post", "patch", "put"):
                    body[name] = schema
                else:
                    parameters.append({"name": name, "in": place, "required": required, "schema": schema})
            if parameters:
                operation["parameters"] = parameters
            if body:
                whole = {"type": "object", "properties": body, "required": [*body]}
                operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": whole}}}
            answer: dict[str, Any] = {"description": "Successful Response"}
            if hints["return"] is not type(None):
                answer["content"] = {"application/json": {"schema": _schema(hints["return"], schemas)}}
            operation["responses"] = {_MAIN[method]: answer}
            paths.setdefault(path, {})[method] = operation
        return {
            "openapi": "3.1.0",
            "info": {"title": cls.title, "version": "1.0"},
            "servers": [{"url": f"https://{cls.__name__.lower()}.example"}],
            "paths": paths,
            "components": {"schemas": schemas},
        }

    @classmethod
    @cache
    def protocols(cls) -> tuple[Protocol, ...]:
        """The protocols of the document's tools; it is read once."""
        return tuple(import_openapi(cls.document()).protocols)

    def toolset(self) -> Toolset:
        """The tools of the document, answered by this service."""
        methods = {name: method for method, name in self.tool_names().items()}

        def tool(protocol: Protocol) -> Tool:
            return served(protocol, lambda arguments: self.answer(methods[protocol.name], arguments))

        return Toolset(map(tool, self.protocols()))

    @classmethod
    def tool_names(cls) -> dict[str, str]:
        """The tool's name for each method, in the document's order."""
        by_id = {id: function.__name__ for id, _, _, function in cls.operations()}
        return {by_id[each.source.operation]: each.name for each in cls.protocols()}

    def answer(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Answer a call as the service would, in plain values.

        Args:
            method: the operation's method of this class.
            arguments: by name.

        Raises:
            ToolError: the service refuses.
        """
        function = getattr(self, method)
        hints = get_type_hints(function, include_extras=True)
        try:
            given = {name: TypeAdapter(hints[name]).validate_python(value) for name, value in arguments.items()}
        except (ValidationError, KeyError) as error:
            raise ToolError(f"the service answered 422: {error}", status=422) from None
        return TypeAdapter(hints["return"]).dump_python(function(**given), mode="json")


def _schema(hint: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    made = TypeAdapter(hint).json_schema(ref_template=_REFERENCES)
    schemas |= made.pop("$defs", {})
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        schemas[hint.__name__] = made
        return {"$ref": _REFERENCES.format(model=hint.__name__)}
    return made


def page_of(rows: list[Any], cursor: str | None, limit: int) -> dict[str, Any]:
    """The fields of a page of some rows.

    Raises:
        ToolError: there is no such cursor.
    """
    if cursor is not None and not cursor.isdigit():
        raise ToolError(f"the service answered 400: no such cursor {cursor!r}", status=400)
    start = int(cursor or 0)
    end = start + limit
    return {"total": len(rows), "items": rows[start:end], "next_cursor": str(end) if end < len(rows) else None}


def found(rows: Mapping[_Key, _Row], key: _Key, what: str) -> _Row:
    """The row of a table that a key names.

    Raises:
        ToolError: there is none.
    """
    if key not in rows:
        raise ToolError(f"the service answered 404: no such {what}", status=404)
    return rows[key]

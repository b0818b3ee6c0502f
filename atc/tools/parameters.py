"""The parameters of a tool in the order in which a program gives them, under names that Python can write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atc.tools.names import argument_names
from atc.tools.protocol import JsonSchema, Protocol

if TYPE_CHECKING:
    from atc.tools.tool import Tool


@dataclass(frozen=True)
class Parameter:
    """One argument: ``name`` as a program writes it, ``original`` as the tool names it."""

    name: str
    original: str
    schema: JsonSchema
    required: bool


def parameters_of(protocol: Protocol) -> list[Parameter]:
    """The parameters, the required ones first, otherwise in the order of the schema."""
    required = set(protocol.required)
    made: list[Parameter] = []
    properties = protocol.parameters.get("properties", {})
    for original, name in argument_names(properties).items():
        schema = properties[original]
        made.append(Parameter(name, original, schema if isinstance(schema, dict) else {}, original in required))
    return sorted(made, key=lambda parameter: not parameter.required)


def signatures(tools: Mapping[str, Tool]) -> dict[str, list[str]]:
    """The names of each tool's parameters in positional order, as a sandbox job takes them."""
    return {name: [parameter.name for parameter in parameters_of(tool.protocol)] for name, tool in tools.items()}


def original_arguments(protocol: Protocol, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the names that the tool knows. Unknown ones keep theirs, for the schema to judge."""
    names = {parameter.name: parameter.original for parameter in parameters_of(protocol)}
    return {names.get(name, name): value for name, value in arguments.items()}

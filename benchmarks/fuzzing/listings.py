"""Lists of tools as MCP servers give them, made into tools."""

from __future__ import annotations

from mcp_types import ListToolsResult
from pydantic import ValidationError

from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.names import UniqueNames, tool_name
from atc.tools.mcp.importer import protocol_of
from benchmarks.fuzzing.stubs import check_stubs
from benchmarks.fuzzing.target import Broken, Target


def run(data: bytes) -> None:
    """Read an input as the result of ``tools/list``."""
    try:
        result = ListToolsResult.model_validate_json(data)
    except ValidationError:
        return
    names, made = UniqueNames(), []
    for tool in result.tools[:20]:
        try:
            made.append(protocol_of(tool, names.take(tool_name(tool.name)), "a server", trust_hints=True))
        except ToolImportError:
            continue
        if made[-1].effect is Effect.READ and (tool.annotations is None or not tool.annotations.read_only_hint):
            raise Broken("listings: a tool is a read by nobody's word")
    check_stubs(made)


TARGET = Target(
    "listings",
    run,
    most_s=2.0,
    words=(
        "tools", "name", "title", "description", "inputSchema", "outputSchema", "annotations", "readOnlyHint",
        "destructiveHint", "idempotentHint", "type", "object", "array", "string", "integer", "number", "boolean",
        "null", "properties", "patternProperties", "additionalProperties", "required", "items", "prefixItems", "enum",
        "const", "default", "anyOf", "oneOf", "allOf", "not", "$ref", "#/$defs/A", "#", "$defs", "format",
        "date-time", "pattern", "contentEncoding", "base64", "minimum", "maxLength", "minItems", "uniqueItems", "if",
        "then", "else", "$id", "nextCursor", "answer", "parallel", "ToolError", "str", "None", "self", "import",
        "dict", "list",
    ),
)  # fmt: skip

"""OpenAPI documents and protocol documents, as JSON and as YAML, read and made into tools."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from atc.errors import ToolImportError, UsageError
from atc.tools.documents import load_protocols
from atc.tools.openapi.importer import read_openapi
from atc.tools.parse import parse_document
from benchmarks.fuzzing.stubs import check_stubs
from benchmarks.fuzzing.target import Broken, Target
from benchmarks.fuzzing.values import same

MOST_TOOLS = 20
"""Whose stubs are looked at."""
_folder = Path(tempfile.mkdtemp(prefix="atc-fuzz-"))


def run(data: bytes) -> None:
    """Read an input as a document of either kind."""
    try:
        value = parse_document(data, "the document")
    except ToolImportError:
        return
    if isinstance(value, dict | list) and not same(parse_document(json.dumps(value), "the document"), value):
        raise Broken("parse: as JSON, a document says something else")
    if isinstance(value, dict) and ("openapi" in value or "swagger" in value):
        try:
            made = read_openapi(value, undeclared=True)
        except (ToolImportError, UsageError):
            return
        check_stubs([tool.protocol for tool in made.toolset.values()][:MOST_TOOLS])
    elif isinstance(value, dict | list):
        _protocols(data)


def _protocols(data: bytes) -> None:
    path = _folder / "tools.json"
    path.write_bytes(data)
    try:
        made = load_protocols(path)
    except (ToolImportError, UsageError):
        return
    check_stubs([tool.protocol for tool in made.values()][:MOST_TOOLS])


TARGET = Target(
    "documents",
    run,
    most_s=2.0,
    words=(
        "openapi", "swagger", "paths", "components", "schemas", "definitions", "parameters", "requestBody",
        "responses", "content", "application/json", "multipart/form-data", "schema", "$ref", "#/components/schemas/A",
        "#/definitions/A", "#/paths/~1a/get", "allOf", "anyOf", "oneOf", "not", "type", "object", "array", "string",
        "integer", "number", "boolean", "null", "properties", "patternProperties", "additionalProperties", "required",
        "items", "prefixItems", "enum", "const", "default", "example", "examples", "nullable", "discriminator",
        "mapping", "propertyName", "format", "binary", "pattern", "minimum", "maxLength", "in", "query", "path",
        "header", "cookie", "body", "formData", "name", "style", "explode", "deepObject", "get", "post", "delete",
        "operationId", "summary", "description", "tags", "servers", "url", "{v}", "variables", "security",
        "securitySchemes", "apiKey", "oauth2", "http", "bearer", "200", "default", "2XX", "3.0.3", "3.1.0", "2.0",
        "/a/{id}", "{id}", "$defs", "$dynamicRef", "if", "then", "else", "readOnly", "effect", "returns", "source",
        "provenance", "statuses", "arguments", "response",
    ),
)  # fmt: skip

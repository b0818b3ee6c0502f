"""Schemas for answers that are not JSON: records, mappings, text and bytes."""

from __future__ import annotations

from typing import Any

from atc.tools.openapi.plan import ContentKind

_XML_NOTE = "An XML document as nested mappings: attributes are '@name', text beside elements is '#text'."


def is_binary(schema: Any) -> bool:
    """Whether a converted schema is that of raw bytes: ``format: binary``, or a media type of its own."""
    if not isinstance(schema, dict) or schema.get("type", "string") != "string" or "contentEncoding" in schema:
        return False
    inside = schema.get("contentMediaType")
    return isinstance(inside, str) and not inside.startswith("text/") and not inside.endswith(("json", "xml"))


def binary_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of bytes, with what ``schema`` says in words."""
    kept: dict[str, Any] = {key: schema[key] for key in ("title", "description", "deprecated") if key in schema}
    return {"type": "string", "format": "binary", **kept}


def value_schema(kind: ContentKind, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the value that an answer of a kind becomes; ``None`` where nothing is known of it.

    Args:
        kind: what the answer is, but ``"binary"``.
        schema: what the document says of it, converted; ``{}`` for nothing.
    """
    if kind == "text":
        return {"type": "string"}
    if kind == "xml":
        return {"type": "object", "description": _XML_NOTE}
    if kind == "csv":
        return {"type": "array", "items": _record(schema)}
    if kind == "ndjson" and schema.get("type") != "array":
        return {"type": "array", "items": schema} if schema else {"type": "array"}
    return schema or None


def _record(schema: dict[str, Any]) -> dict[str, Any]:
    """A row of a CSV table: column → text, with the columns that the document names."""
    items = schema.get("items")
    columns = items.get("properties") if isinstance(items, dict) else schema.get("properties")
    record: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
    if isinstance(columns, dict) and columns:
        record["properties"] = {
            name: {"type": "string", **({"description": d} if isinstance(d := _described(column), str) else {})}
            for name, column in columns.items()
        }
    return record


def _described(column: Any) -> Any:
    return column.get("description") if isinstance(column, dict) else None

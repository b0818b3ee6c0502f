"""A request body → arguments: its properties one by one where that says the same, else one argument ``body``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from atc.errors import ToolImportError
from atc.tools.names import parameter_name
from atc.tools.openapi.examples import MISSING, Examples
from atc.tools.openapi.media import best_body, is_json, is_media_type
from atc.tools.openapi.plan import QUERY_STYLES, Body, BodyKind, Field
from atc.tools.openapi.returned import binary_schema, is_binary
from atc.tools.openapi.schema import SchemaConverter
from atc.tools.openapi.text import clean

MAX_PROPERTIES = 500
"""Properties of a body that become arguments of their own."""

MAX_TOGETHER = 40_000
"""Arguments, times those of them that must be given as soon as any is: as many names are written."""

_MAX_TEXT = 1_000
_FLATTENS = frozenset(
    """
    type properties required additionalProperties title description examples default deprecated
    """.split()
)


@dataclass
class BodyPlan:
    """What a body asks of the arguments. Its parts are named as on the wire; a whole body is the one part ``body``.

    Attributes:
        required: parts that must be given.
        together: parts that must be given as soon as any part is.
    """

    body: Body
    schemas: dict[str, Any]
    whole: bool
    required: list[str] = field(default_factory=list)
    together: list[str] = field(default_factory=list)
    example: dict[str, Any] = field(default_factory=dict)


def read_body(node: dict[str, Any], converter: SchemaConverter, examples: Examples, taken: set[str]) -> BodyPlan | None:
    """Read a ``requestBody``.

    Args:
        node: the request body of an operation, in OpenAPI 3's form.
        converter: converts its schema.
        examples: finds its example.
        taken: arguments that exist already; a body with a property of such a name stays whole.

    Returns:
        The plan, or ``None`` when no body need be sent.

    Raises:
        ToolImportError: the body must be sent and cannot be.
    """
    content = node["content"] if isinstance(node.get("content"), dict) else {}
    best = best_body(content)
    if best is None or best[1] == "binary":
        best = _mislabelled(content, converter) or best
    if best is None:
        if not content or node.get("required") is False:
            return None
        raise ToolImportError(f"its body is only taken as {', '.join(list(content)[:5])}, which cannot be sent")
    media_type, kind = best
    media = content[media_type] if isinstance(content[media_type], dict) else {}
    schema = {"type": "string"} if kind == "text" else converter.convert(media.get("schema", {}), "request")
    if kind == "json" and "*" in media_type and is_binary(schema):
        media_type, kind = "application/octet-stream", "binary"
    if kind == "binary":
        schema = binary_schema(schema)
    # Few documents say whether a body is required; one whose schema requires something is.
    required = node.get("required") is True or (node.get("required") is None and bool(schema.get("required")))
    fields = _fields(media, schema) if kind in ("form", "multipart") else {}
    sent = _sent(media_type, kind)
    plan = BodyPlan(Body(kind, sent, None, {}, required, fields), {}, whole=True)
    example = examples.of_media(media)
    optional = node.get("required") is False
    if kind not in ("text", "binary") and _can_flatten(schema, taken, optional):
        _take_apart(plan, schema, example, optional=optional)
        return plan
    if description := clean(node.get("description"), _MAX_TEXT):
        schema.setdefault("description", description)
    plan.schemas["body"] = schema
    plan.required = ["body"] if required else []
    plan.example = {} if example is MISSING else {"body": example}
    return plan


def _mislabelled(content: dict[str, Any], converter: SchemaConverter) -> tuple[str, BodyKind] | None:
    """A body of bytes whose schema is an object with properties: what is meant is JSON."""
    for media_type, media in content.items():
        if isinstance(media, dict) and converter.convert(media.get("schema", {}), "request").get("properties"):
            return media_type, "json"
    return None


def _take_apart(plan: BodyPlan, schema: dict[str, Any], example: Any, *, optional: bool) -> None:
    plan.whole = False
    fields = plan.body.fields
    for name, item in schema["properties"].items():
        plan.schemas[name] = _file_schema(item) if name in fields and fields[name].file else item
    needed = schema.get("required", [])
    for name in needed:  # a required property that the document does not describe
        plan.schemas.setdefault(name, {})
    if optional:
        plan.together = list(needed)
    else:
        plan.required = list(needed)
    if isinstance(example, dict):
        plan.example = {name: value for name, value in example.items() if name in plan.schemas}


def _can_flatten(schema: dict[str, Any], taken: set[str], optional: bool) -> bool:
    """Whether an object says nothing that a list of arguments could not say."""
    properties, types = schema.get("properties"), schema.get("type", "object")
    needed = len(schema.get("required", ()))
    return (
        schema.keys() <= _FLATTENS
        and (types == "object" or (isinstance(types, list) and "object" in types))
        and isinstance(properties, dict)
        and 0 < len(properties) <= MAX_PROPERTIES
        and needed <= MAX_PROPERTIES
        and (not optional or needed * (needed + len(properties)) <= MAX_TOGETHER)
        and schema.get("additionalProperties", False) is False
        and not any(parameter_name(name) in taken for name in properties)
    )


def _fields(media: dict[str, Any], schema: dict[str, Any]) -> dict[str, Field]:
    """How the properties of a form travel."""
    encodings = media["encoding"] if isinstance(media.get("encoding"), dict) else {}
    fields: dict[str, Field] = {}
    for name, item in schema.get("properties", {}).items():
        encoding = encodings[name] if isinstance(encodings.get(name), dict) else {}
        style = encoding.get("style")
        media_type = encoding.get("contentType")
        one_type = isinstance(media_type, str) and is_media_type(media_type) and not set(media_type) & {"*", ","}
        fields[name] = Field(
            style=style if style in QUERY_STYLES else None,
            explode=encoding.get("explode") is not False,
            file=is_binary(item) or (isinstance(item, dict) and is_binary(item.get("items"))),
            media_type=media_type if one_type else None,
        )
    return fields


def _file_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A file, or a list of files."""
    if "items" not in schema:
        return binary_schema(schema)
    return {**schema, "items": binary_schema(schema["items"])}


def _sent(media_type: str, kind: BodyKind) -> str:
    """The ``Content-Type`` to send."""
    if kind == "json" and not is_json(media_type):
        return "application/json"  # a wildcard, or JSON under a wrong label
    if is_media_type(media_type) and "*" not in media_type:
        return media_type
    return {"text": "text/plain", "binary": "application/octet-stream"}.get(kind, "application/json")

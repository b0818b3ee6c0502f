"""Swagger 2.0 read as OpenAPI 3: the parts that differ, turned one operation at a time."""

from __future__ import annotations

from typing import Any

from atc.tools.openapi.load import Resolver
from atc.tools.openapi.plan import is_json

_COLLECTIONS: dict[str, tuple[str, bool]] = {
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
_NOT_SCHEMA = frozenset({"name", "in", "description", "required", "collectionFormat", "allowEmptyValue", "schema"})
MAX_MEDIA_TYPES = 100
"""Media types that one operation takes, or gives."""
_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def servers(root: dict[str, Any]) -> list[dict[str, Any]]:
    """``schemes``, ``host`` and ``basePath`` as a list of servers."""
    host, base = root.get("host"), root.get("basePath")
    base = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return [{"url": base or "/"}]
    schemes = root.get("schemes")
    known = [scheme for scheme in ("https", "http") if isinstance(schemes, list) and scheme in schemes]
    prefix = f"{known[0]}:" if known else ""
    return [{"url": f"{prefix}//{host}{base}"}]


def security_schemes(root: dict[str, Any]) -> dict[str, Any]:
    """``securityDefinitions`` as security schemes."""
    definitions = root.get("securityDefinitions")
    schemes = definitions if isinstance(definitions, dict) else {}
    return {
        name: {**scheme, "type": "http", "scheme": "basic"}
        if isinstance(scheme, dict) and scheme.get("type") == "basic"
        else scheme
        for name, scheme in schemes.items()
    }


def operation(
    root: dict[str, Any], raw: dict[str, Any], shared: list[Any], resolver: Resolver
) -> tuple[dict[str, Any], list[Any]]:
    """Turn one operation.

    Returns:
        The operation with ``parameters``, ``requestBody`` and ``responses`` as OpenAPI 3 has them, and the path's
        parameters likewise.

    Raises:
        ToolImportError: a reference cannot be followed.
    """
    consumes = _media_types(raw.get("consumes", root.get("consumes")))
    produces = _media_types(raw.get("produces", root.get("produces"))) or ["application/json"]
    own = [resolver.mapping(node, "a parameter") for node in _listed(raw.get("parameters"))]
    named = {(str(node.get("name")), str(node.get("in"))) for node in own}
    inherited = [resolver.mapping(node, "a parameter") for node in shared]
    every = [*(node for node in inherited if (str(node.get("name")), str(node.get("in"))) not in named), *own]
    made = {**raw, "responses": _responses(raw.get("responses"), produces, resolver)}
    made["parameters"] = [_parameter(node) for node in every if node.get("in") not in ("body", "formData")]
    body = next((node for node in every if node.get("in") == "body"), None)
    form = [node for node in every if node.get("in") == "formData"]
    if body is not None:
        content = {"schema": body.get("schema", {})}
        made["requestBody"] = {
            "description": body.get("description"),
            "required": body.get("required") is True,
            "content": dict.fromkeys(consumes or ["application/json"], content),
        }
    elif form:
        made["requestBody"] = _form_body(form, consumes)
    return made, []


def _parameter(node: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {key: node[key] for key in ("name", "in", "description", "required") if key in node}
    made["schema"] = _schema(node)
    if node.get("type") == "array":
        simple = "form" if node.get("in") == "query" else "simple"
        made["style"], made["explode"] = _COLLECTIONS.get(str(node.get("collectionFormat")), (simple, False))
        if made["style"] != "form" and node.get("in") != "query":
            made["style"] = "simple"
    return made


def _schema(node: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in node.items() if key not in _NOT_SCHEMA}
    if schema.get("type") == "file":
        schema.update(type="string", format="binary")
    return schema


def _form_body(form: list[dict[str, Any]], consumes: list[str]) -> dict[str, Any]:
    fields = {str(node.get("name")): {**_schema(node), "description": node.get("description")} for node in form}
    has_file = any(node.get("type") == "file" for node in form)
    media_type = _MULTIPART if has_file or (_MULTIPART in consumes and _FORM not in consumes) else _FORM
    required = [str(node.get("name")) for node in form if node.get("required") is True]
    encoding = {
        str(node.get("name")): {"style": "form", "explode": node.get("collectionFormat") == "multi"}
        for node in form
        if node.get("type") == "array"
    }
    content = {"schema": {"type": "object", "properties": fields, "required": required}, "encoding": encoding}
    return {"required": bool(required), "content": {media_type: content}}


def _responses(responses: Any, produces: list[str], resolver: Resolver) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for code, node in (responses if isinstance(responses, dict) else {}).items():
        if code.startswith("x-"):
            continue
        response = resolver.mapping(node, f"the response {code}")
        made[code] = {"description": response.get("description", "")}
        schema, examples = response.get("schema"), response.get("examples")
        if not isinstance(schema, dict):
            continue
        content: dict[str, dict[str, Any]] = {media_type: {"schema": schema} for media_type in produces}
        if schema.get("type") == "file":
            content = {m: {"schema": schema} for m in produces if not is_json(m)} or {"application/octet-stream": {}}
        for media_type, example in (examples if isinstance(examples, dict) else {}).items():
            if media_type in content:
                content[media_type] = {**content[media_type], "example": example}
        made[code]["content"] = content
    return made


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _media_types(value: Any) -> list[str]:
    return [item for item in _listed(value)[:MAX_MEDIA_TYPES] if isinstance(item, str)]

"""The parameters and the body of an operation → the tool's arguments: one object schema and a plan for the request.

The properties of a body become arguments one by one where that says the same; else it is one argument ``body``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from atc._host.header_syntax import is_token
from atc.errors import ToolImportError
from atc.schemas.names import NAMED, UniqueNames, parameter_name
from atc.schemas.validate import ensure_valid_schema, problems
from atc.tools.keys import HEADERS, SAMPLE
from atc.tools.openapi import aws
from atc.tools.openapi.examples import MISSING, Examples
from atc.tools.openapi.load import Resolver
from atc.tools.openapi.plan import (
    QUERY_STYLES,
    Body,
    BodyKind,
    Field,
    Location,
    Parameter,
    Style,
    best_body,
    binary_schema,
    is_binary,
    is_json,
    is_media_type,
)
from atc.tools.openapi.schema import SchemaConverter
from atc.tools.openapi.security import Scheme
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
    if "items" not in schema:
        return binary_schema(schema)
    return {**schema, "items": binary_schema(schema["items"])}


def _sent(media_type: str, kind: BodyKind) -> str:
    if kind == "json" and not is_json(media_type):
        return "application/json"  # a wildcard, or JSON under a wrong label
    if is_media_type(media_type) and "*" not in media_type:
        return media_type
    return {"text": "text/plain", "binary": "application/octet-stream"}.get(kind, "application/json")


MAX_PARAMETERS = 500
"""Parameters (or body properties) of one operation."""

MAX_LISTED = 2 * MAX_PARAMETERS
"""Parameters that an operation and its path list, those twice that both have."""

MAX_ARGUMENTS = 300_000
"""Arguments of all operations of one document: a path may be referred to thousands of times."""

MAX_ARGUMENT_TEXT = 1_000
"""Characters of an argument's description."""

_LOCATIONS: dict[str, Location] = {location: location for location in get_args(Location)}
_TEMPLATE = re.compile(r"\{([^{}/]{1,200})\}")
# The transport sets these itself, or they carry credentials, which no argument ever does.
_OWN_HEADERS = frozenset(
    """
    accept content-type authorization proxy-authorization cookie host content-length transfer-encoding connection
    upgrade te trailer expect accept-encoding
    """.split()
)
_DEFAULT_STYLE: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_ALLOWED_STYLES: dict[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": QUERY_STYLES,
    "header": ("simple",),
    "cookie": ("form",),
}


@dataclass
class Arguments:
    """What :class:`ArgumentReader` finds: the plan of the request and the schema of the arguments (not closed yet)."""

    parameters: list[Parameter] = field(default_factory=list)
    body: Body | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    dependent: dict[str, list[str]] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    key_schemes: list[str] = field(default_factory=list)
    names: dict[tuple[Location, str], str] = field(default_factory=dict)
    key_header: str = ""

    def schema(self) -> dict[str, Any]:
        """The object schema of the arguments; it allows no other."""
        made: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        if self.required:
            made["required"] = self.required
        if self.dependent:
            made["dependentRequired"] = self.dependent
        return made


class ArgumentReader:
    """Reads the arguments of one document's operations."""

    def __init__(self, resolver: Resolver, converter: SchemaConverter, schemes: dict[str, Scheme]) -> None:
        self._resolver = resolver
        self._converter = converter
        self._examples = Examples(resolver)
        signed = any(scheme.kind == "sigv4" for scheme in schemes.values())
        self._arguments = 0
        self._own_headers = _OWN_HEADERS | aws.OWN_HEADERS if signed else _OWN_HEADERS
        self._keys = {(s.location, s.wire.lower()): name for name, s in schemes.items() if s.wire != "Authorization"}

    def read(self, path: str, shared: list[Any], operation: dict[str, Any]) -> Arguments:
        """Read one operation's parameters and body.

        Args:
            path: its path template.
            shared: the parameters of the path.
            operation: the operation, in OpenAPI 3's form.

        Raises:
            ToolImportError: it cannot be imported; the message says why.
        """
        found = Arguments()
        nodes = self._parameters(path, shared, operation)
        if len(nodes) > MAX_PARAMETERS:
            raise ToolImportError(f"it has more than {MAX_PARAMETERS} parameters")
        self._count(0)
        given: list[tuple[Location, str]] = []
        for location, name in nodes:
            scheme = self._keys.get((location, name.lower()))
            if scheme is not None and location != "path":
                found.key_schemes.append(scheme)
            elif not found.key_header and self._bears_key(location, name, nodes[location, name]):
                found.key_header = name  # no program fills it: two calls with one key are one
            elif not (location == "header" and name.lower() in self._own_headers):
                given.append((location, name))
        names = UniqueNames()
        for location, name in sorted(given, key=lambda at: parameter_name(at[1]) != at[1]):  # see `argument_names`
            made = parameter_name(name)
            found.names[location, name] = names.take(made, f"{made}_{location}")
        for location, name in given:
            self._add_parameter(found, location, name, nodes[location, name])
        if operation.get("requestBody") is not None:
            body = self._resolver.mapping(operation["requestBody"], "the request body")
            plan = read_body(body, self._converter, self._examples, set(found.properties))
            if plan is not None:
                _join(found, names, plan)
        self._count(len(found.properties))
        return found

    def _bears_key(self, location: Location, name: str, node: dict[str, Any]) -> bool:
        if location != "header" or name.lower() not in HEADERS:
            return False
        try:
            schema = self._converter.closed(self._converter.convert(node.get("schema", {}), "request"), "request")
            ensure_valid_schema(schema, "an idempotency key")
        except ToolImportError:
            return False
        return not problems(schema, SAMPLE)

    def _count(self, arguments: int) -> None:
        self._arguments += arguments
        if self._arguments > MAX_ARGUMENTS:
            raise ToolImportError(
                f"it and the operations before it have more than {MAX_ARGUMENTS:,} arguments: choose some with only= "
                "(on the command line: --only)"
            )

    def _parameters(self, path: str, shared: list[Any], operation: dict[str, Any]) -> dict[tuple[Location, str], Any]:
        in_path = list(dict.fromkeys(_TEMPLATE.findall(path)))
        check_listed(shared, operation)
        nodes: dict[tuple[Location, str], Any] = {("path", name): {"schema": {"type": "string"}} for name in in_path}
        own = operation.get("parameters")
        for raw in [*shared, *(own if isinstance(own, list) else [])]:
            node = self._resolver.mapping(raw, "a parameter")
            name, location = node.get("name"), _LOCATIONS.get(str(node.get("in")))
            if name == "" and node.get("required") is not True:
                continue  # nobody can send it
            if not isinstance(name, str) or not name or location is None:
                raise ToolImportError(
                    f"a parameter has no usable name and place (name={name!r}, in={node.get('in')!r})"
                )
            if location in ("header", "cookie") and not is_token(name):
                raise ToolImportError(f"the {location} parameter {name[:80]!r} has a name that HTTP does not allow")
            if location != "path" or name in in_path:  # one that its path does not hold cannot be sent anywhere
                nodes[location, name] = node
        return nodes

    def _add_parameter(self, found: Arguments, location: Location, name: str, node: dict[str, Any]) -> None:
        media = _content_of(node)
        style, explode = _style(node, location)
        if media is not None:
            style = "json" if is_json(media[0]) else style
        holder = media[1] if media is not None else node
        argument = found.names[location, name]
        schema = self._converter.convert(holder.get("schema", {}), "request")
        if description := clean(node.get("description"), MAX_ARGUMENT_TEXT):
            schema["description"] = description
        if node.get("deprecated") is True:
            schema["deprecated"] = True
        found.properties[argument] = _named(schema, argument, name)
        found.parameters.append(
            Parameter(argument, name, location, style, explode, allow_reserved=node.get("allowReserved") is True)
        )
        if location == "path" or node.get("required") is True:
            found.required.append(argument)
        example = self._examples.of_media({**holder, **{k: node[k] for k in ("example", "examples") if k in node}})
        if example is not MISSING:
            found.example[argument] = example


def check_listed(shared: list[Any], operation: dict[str, Any]) -> None:
    """Refuse an operation by the length of its lists of parameters, before any of them is looked at.

    Raises:
        ToolImportError: they are too long.
    """
    own = operation.get("parameters")
    if len(shared) + (len(own) if isinstance(own, list) else 0) > MAX_LISTED:
        raise ToolImportError(f"it has more than {MAX_PARAMETERS} parameters")


def _join(found: Arguments, names: UniqueNames, plan: BodyPlan) -> None:
    other = ["request_body"] if plan.whole else []
    arguments = {
        part: names.take(parameter_name(part), *other)
        for part in sorted(plan.schemas, key=lambda part: parameter_name(part) != part)
    }
    for part, schema in plan.schemas.items():
        argument = arguments[part]
        found.properties[argument] = schema if plan.whole else _named(schema, argument, part)
    found.required.extend(arguments[part] for part in plan.required)
    found.example.update({arguments[part]: value for part, value in plan.example.items()})
    if plan.whole:
        found.body = replace(plan.body, argument=arguments["body"])
        return
    found.body = replace(plan.body, properties={argument: part for part, argument in arguments.items()})
    needed = [arguments[part] for part in plan.together]
    dependent = {argument: [name for name in needed if name != argument] for argument in arguments.values()}
    found.dependent = {argument: others for argument, others in dependent.items() if others}


def _named(schema: Any, argument: str, name: str) -> Any:
    return {**schema, NAMED: name} if argument != name and isinstance(schema, dict) else schema


def _content_of(node: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    content = node.get("content")
    if isinstance(content, dict):
        for media_type, media in content.items():
            if isinstance(media, dict):
                return media_type, media
    return None


def _style(node: dict[str, Any], location: Location) -> tuple[Style, bool]:
    style = node.get("style")
    if style not in _ALLOWED_STYLES[location]:
        style = _DEFAULT_STYLE[location]
    explode = node.get("explode")
    if isinstance(explode, str):
        explode = {"true": True, "false": False}.get(explode.lower())
    return style, explode if isinstance(explode, bool) else style in ("form", "deepObject")

"""What is wrong in the calls of tools that a program makes, by the tools' schemas.

An argument is held to its schema as the broker will hold it: after the repairs that the broker makes. An error is what
no call of this form could get through; where an argument is a part of a response, only a run shows what it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from atc.facts import Finding, FindingKind, Severity
from atc.fired_rules import fired
from atc.graph.identifiers import words_of
from atc.graph.name_affinity import VERBS
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.analysis.paged_calls import not_paged
from atc.programs.analysis.schema_paths import schemas_at, shape_at
from atc.programs.analysis.values import Origin, Value
from atc.programs.attribution.responses import places
from atc.programs.check.seen import Seen
from atc.programs.rules import DEFAULT, Rules
from atc.result import Effect
from atc.schemas.reading import allows_more
from atc.schemas.repair import JOIN, SPELLING, UNWRAP, kinship, repair_arguments
from atc.schemas.repair.places import Place
from atc.schemas.repair.separated import separator
from atc.schemas.repair.spelling import respelt
from atc.schemas.validate import problems, resolve, types_of
from atc.tools.paging import paging_of
from atc.tools.parameters import Parameter, original_arguments, parameters_of
from atc.tools.protocol import JsonSchema, Protocol

NOT_LITERAL = object()
_NUMERIC = re.compile(r"\s*-?\d+(\.\d+)?\s*")
_SCALARS = {"string", "integer", "number", "boolean"}
_JSON_TYPES: Mapping[type, set[str]] = {
    bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}, bytes: {"string"},
    list: {"array"}, tuple: {"array"}, dict: {"object"}, type(None): {"null"},
}  # fmt: skip


def call_findings(
    flow: Flow, protocols: Mapping[str, Protocol], rules: Rules = DEFAULT, seen: Seen | None = None
) -> list[Finding]:
    """The findings of all calls, in the order in which they stand.

    Args:
        flow: the program.
        protocols: the tools by name.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
        seen: what the tools answered in the run so far.
    """
    found = []
    for call in flow.calls.values():
        if call.direct:
            protocol = protocols[call.tool]
            alike = protocols if "similar-tool" in rules else {}
            found += [*_names(call, protocol, alike, rules), *_literals(call, protocol, rules)]
            if flow.complete:
                found += _responses(call, protocol, protocols, rules, seen or Seen())
    return [*found, *not_paged(flow)]


def _joins(protocol: Protocol, original: str, rules: Rules) -> bool:
    """Whether the gate makes one text of a list that is given for an argument."""
    return JOIN in rules and bool(separator(Place(protocol.parameters, "", _schema(protocol, original))))


def _values(protocol: Protocol, schema: JsonSchema) -> list[Any]:
    """The values that an argument is one of; empty where it may be any."""
    places = Place(protocol.parameters, "", schema).alternatives
    return [value for place in places for value in place.values]


def _repaired_names(call: ToolCall, protocol: Protocol, rules: Rules) -> set[str]:
    """The arguments, by their names in programs, that do not fit as they are written, and that the gate repairs."""
    parameters = parameters_of(protocol)
    originals = {parameter.name: parameter.original for parameter in parameters}
    literals = literal_arguments(call, protocol)
    found = {
        name
        for name, value in literals.items()
        if name in originals and value is not NOT_LITERAL and _repairs(protocol, originals[name], value, rules)
    }
    strict = protocol.effect is not Effect.READ
    for name, node in _written(call, parameters) if UNWRAP in rules else ():
        if isinstance(node, ast.List) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred):
            found.add(name)
        if isinstance(node, ast.Dict) and len(node.keys) == 1 and isinstance(node.keys[0], ast.Constant):
            rank = kinship(str(node.keys[0].value), originals.get(name, name), 1)
            found |= {name} if rank == 0 or (rank is not None and not strict) else set()
    for name, node in _written(call, parameters):
        if isinstance(node, ast.List | ast.ListComp) and name in originals and literals[name] is NOT_LITERAL:
            found |= {name} if _joins(protocol, originals[name], rules) else set()
    return found


def _repairs(protocol: Protocol, name: str, value: Any, rules: Rules) -> bool:
    """Whether a value does not fit an argument, and does once the gate has repaired it."""
    schema = _schema(protocol, name)
    if not _is_json(value) or not problems(schema, value):
        return False
    made = repair_arguments(protocol.parameters, {name: value}, protocol.effect, rules=rules).arguments
    return name in made and not problems(schema, made[name])


def literal_arguments(call: ToolCall, protocol: Protocol) -> dict[str, Any]:
    """Arguments by name; one that is no literal is :data:`NOT_LITERAL`. What ``*`` or ``**`` hides is left out."""
    given: dict[str, Any] = {}
    for name, node in _written(call, parameters_of(protocol)):
        try:
            given[name] = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            given[name] = NOT_LITERAL
    return given


def _written(call: ToolCall, parameters: list[Parameter]) -> Iterator[tuple[str, ast.expr]]:
    """The arguments that are written out, by name."""
    for parameter, node in zip(parameters, call.node.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        yield parameter.name, node
    yield from ((keyword.arg, keyword.value) for keyword in call.node.keywords if keyword.arg is not None)


def _names(call: ToolCall, protocol: Protocol, protocols: Mapping[str, Protocol], rules: Rules) -> Iterator[Finding]:
    """Arguments that the tool does not have, and those that it needs and is not given."""
    parameters, node = parameters_of(protocol), call.node
    names = [parameter.name for parameter in parameters]
    known = {*names, *(parameter.original for parameter in parameters)}
    hidden = any(isinstance(part, ast.Starred) for part in node.args) or any(k.arg is None for k in node.keywords)
    meant = _meant(call, protocol, rules)
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in {*known, *meant} and not _takes_more(protocol):
            kin = _kin(protocol, keyword.arg, protocols)
            fired("similar-tool", bool(kin))
            severity = "error" if _excludes(protocol) else "warning"
            facts = {"name": keyword.arg, "known": tuple(names), "instead": tuple(kin), "severity": severity}
            yield _finding("unknown_argument", call, **facts)
    if len(node.args) > len(names) and not hidden:
        yield _finding("unknown_argument", call, case="too_many", known=tuple(names))
    given = {name for name, _ in _written(call, parameters)} | {*meant.values()}
    paging = paging_of(protocol) if call.paged else None
    turned = {paging.parameter} if paging is not None and paging.first is not None else set()  # it is set for each page
    lacks = [p for p in parameters if p.required and not {p.name, p.original} & given and p.original not in turned]
    defaults = repair_arguments(protocol.parameters, {}, protocol.effect, rules=rules).arguments if lacks else {}
    missing = [p.name for p in lacks if p.original not in defaults]
    if missing and not hidden:
        yield _finding("missing_argument", call, arguments=tuple(missing))


def _meant(call: ToolCall, protocol: Protocol, rules: Rules) -> dict[str, str]:
    """The arguments that the gate reads as other ones (:mod:`atc.schemas.repair`), each with that one."""
    if SPELLING not in rules:
        return {}
    parameters = parameters_of(protocol)
    names = {name: p.original for p in parameters for name in (p.name, p.original)}
    given = [name for name, _ in _written(call, parameters)]
    strict = protocol.effect is not Effect.READ
    return respelt(
        [name for name in given if name not in names],
        [p.original for p in parameters],
        {names[name] for name in given if name in names},
        protocol.required,
        strict=strict,
        endings=not strict,
    )


def _kin(protocol: Protocol, argument: str, protocols: Mapping[str, Protocol]) -> list[str]:
    """Tools like this one that have such an argument: of several alike, the wrong one was taken."""
    words = set(words_of(protocol.name)) - VERBS
    alike = {
        other.name: len(words.intersection(words_of(other.name)))
        for other in protocols.values()
        if argument in (parameter.name for parameter in parameters_of(other))
    }
    return sorted((name for name, count in alike.items() if count), key=lambda name: -alike[name])[:2]


def _takes_more(protocol: Protocol) -> bool:
    return allows_more(protocol.parameters)


def _excludes(protocol: Protocol) -> bool:
    """Whether an argument that a tool does not list is refused: its schema says so, or the gate does (a write)."""
    return protocol.parameters.get("additionalProperties") is False or protocol.effect is not Effect.READ


def _literals(call: ToolCall, protocol: Protocol, rules: Rules) -> Iterator[Finding]:
    """Arguments written as literals, against everything that the schema says of them."""
    given = {name: value for name, value in literal_arguments(call, protocol).items() if value is not NOT_LITERAL}
    if not _is_json(given):
        return  # dates, sets: what becomes of them is not decided here
    asked = original_arguments(protocol, given)
    arguments = repair_arguments(protocol.parameters, asked, protocol.effect, rules=rules).arguments
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    for original, value in arguments.items():
        schema = _schema(protocol, original)
        if not (found := problems(schema, value)):
            continue
        kind: FindingKind = "not_in_enum" if found[0].keyword in ("enum", "const") else "wrong_type"
        certain = protocol.effect is not Effect.READ or _is_of_another_type(protocol, schema, value)
        severity: Severity = "error" if certain or any(each.keyword == "type" for each in found) else "warning"
        facts = {"arguments": (names.get(original, original),), "value": value, "reason": found[0].message}
        yield _finding(kind, call, case="literal", severity=severity, **facts)


def _is_of_another_type(protocol: Protocol, schema: JsonSchema, value: Any) -> bool:
    """Whether a literal has none of the types that its argument may have."""
    options = [place.types for place in Place(protocol.parameters, "", schema).alternatives]
    return bool(options) and all(options) and _JSON_TYPES[type(value)].isdisjoint(set[str]().union(*options))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float | bytes)


def _schema(protocol: Protocol, original: str) -> dict[str, Any]:
    schema = protocol.parameters.get("properties", {}).get(original, {})
    definitions = protocol.parameters.get("$defs", {})
    return {**schema, "$defs": definitions} if isinstance(schema, dict) else {}


def _responses(
    call: ToolCall, protocol: Protocol, protocols: Mapping[str, Protocol], rules: Rules, seen: Seen
) -> Iterator[Finding]:
    """Arguments that are a part of a response, or a container, of a type that the schema may not take: warnings."""
    repaired = _repaired_names(call, protocol, rules)
    unwraps = protocol.effect is Effect.READ and UNWRAP in rules
    parameters = {p.name: p for p in parameters_of(protocol)}
    written = dict(enumerate(parameters.values()))
    for key, value in call.arguments.items():
        parameter = written.get(key) if isinstance(key, int) else parameters.get(key)
        wanted = _wanted(protocol, parameter) if parameter is not None else set()
        if (
            parameter is None
            or parameter.name in repaired
            or value.open
            or value.constant
            or value.functions
            or not wanted <= _SCALARS
            or not wanted
        ):
            continue
        if (
            unwraps
            and value.origins
            and all(_unwrapped(o, parameter.original, wanted, protocols) for o in value.origins)
        ):
            continue
        if _joins(protocol, parameter.original, rules) and _is_list(value, protocols):
            continue
        if any(_JSON_TYPES.get(type(each), set()) & wanted for origin in value.origins for each in seen.at(origin)):
            continue
        unfit = [_unfit(origin, wanted, protocols) for origin in sorted(value.origins, key=str)]
        if value.cells and not value.origins and all(cell.made_by is None for cell in value.cells):
            unfit = [{"case": "container"}]
        if unfit and all(unfit) and (not value.cells or not value.origins):
            facts = {"arguments": (parameter.name,), "expected": tuple(sorted(wanted)), **unfit[0]}
            yield _finding("wrong_type", call, severity="warning", **facts)


def _is_list(value: Value, protocols: Mapping[str, Protocol]) -> bool:
    """Whether a value may only be a list: one that the program made, or one of a response."""
    made = all(cell.keys is None and cell.made_by is None for cell in value.cells)
    shapes = [shape_at(protocols[origin.tool].returns, origin.path).kind for origin in value.origins]
    return made and all(shape == "list" for shape in shapes)


def _wanted(protocol: Protocol, parameter: Parameter) -> set[str]:
    """The types that a parameter takes; none when its schema is not simple."""
    schema = resolve(protocol.parameters, parameter.schema)
    parts = schema.get("anyOf") or schema.get("oneOf") or [schema]
    types = [types_of(resolve(protocol.parameters, part)) for part in parts]
    return set().union(*types) - {"null"} if all(types) and "allOf" not in schema else set()


def _unwrapped(origin: Origin, name: str, wanted: set[str], protocols: Mapping[str, Protocol]) -> bool:
    """Whether a part of a response is an object that the gate takes one field of for an argument."""
    returns = protocols[origin.tool].returns
    shape = shape_at(returns, origin.path)
    if shape.kind != "record":
        return False
    fields = {key: shape_at(returns, (*origin.path, key)) for key in shape.keys}
    ranks = [
        kinship(key, name, len(fields))
        for key, found in fields.items()
        if found.kind == "scalar" and found.type in wanted
    ]
    near = [rank for rank in ranks if rank is not None]
    return bool(near) and near.count(min(near)) == 1


def _unfit(origin: Origin, wanted: set[str], protocols: Mapping[str, Protocol]) -> dict[str, Any]:
    """Why a part of a response cannot be such an argument, as fields of a finding; empty if it can, or might."""
    source, place = protocols[origin.tool], origin.place
    shape = shape_at(source.returns, origin.path)
    if shape.kind == "record":
        return {"case": "record", "place": place, "known": shape.keys[:12]}
    if shape.kind == "list":
        return {"case": "list", "place": place}
    if shape.kind != "scalar" or shape.type in wanted:
        return {}
    if shape.type == "boolean" or wanted == {"boolean"}:
        return {"case": "scalar", "place": place, "found": shape.type} if shape.type != "string" else {}
    if shape.type == "string" and not wanted & {"string"} and (shown := _never_numeric(source, origin)):
        return {"case": "text", "place": place, "found": "string", "value": shown}
    return {}


def _never_numeric(source: Protocol, origin: Origin) -> str:
    """A text that stands at a place where no number as text is to be expected; empty if one might."""
    for place in schemas_at(source.returns, origin.path):
        known = place.get("enum") if isinstance(place.get("enum"), list) else []
        texts = [value for value in known or [] if isinstance(value, str)]
        if texts and not any(map(_NUMERIC.fullmatch, texts)):
            return texts[0]
    seen = [v for e in source.examples if e.response is not None for _, v in places(e.response, origin.path)]
    texts = [value for value in seen if isinstance(value, str) and value]
    return texts[0][:60] if texts and not any(map(_NUMERIC.fullmatch, texts)) else ""


def _finding(kind: FindingKind, call: ToolCall, **facts: Any) -> Finding:
    return Finding(kind=kind, line=call.node.lineno, tool=call.tool, **facts)

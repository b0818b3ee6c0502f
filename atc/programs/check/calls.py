"""What is wrong in the calls of tools that a program makes, by the tools' schemas.

An argument is held to its schema as the broker will hold it: after the repairs that the broker makes. An error is what
no call of this form could get through. An argument that is a part of a response is left to the run: only it shows what
that is, and a call that is refused for it says which part it was.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from atc.facts import Finding, FindingKind, Severity
from atc.fired_rules import fired
from atc.graph.identifiers import words_of
from atc.graph.name_affinity import VERBS
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.analysis.paged_calls import not_paged
from atc.programs.rules import DEFAULT, Rules
from atc.result import Effect
from atc.schemas.reading import allows_more
from atc.schemas.repair import SPELLING, repair_arguments
from atc.schemas.repair.places import Place
from atc.schemas.repair.spelling import respelt
from atc.schemas.validate import problems
from atc.tools.paging import paging_of
from atc.tools.protocol import JsonSchema, Parameter, Protocol, original_arguments, parameters_of

NOT_LITERAL = object()
_JSON_TYPES: Mapping[type, set[str]] = {
    bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}, bytes: {"string"},
    list: {"array"}, tuple: {"array"}, dict: {"object"}, type(None): {"null"},
}  # fmt: skip


def call_findings(flow: Flow, protocols: Mapping[str, Protocol], rules: Rules = DEFAULT) -> list[Finding]:
    """The findings of all calls, in the order in which they stand.

    Args:
        flow: the program.
        protocols: the tools by name.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
    """
    found = []
    for call in flow.calls.values():
        if call.direct:
            protocol = protocols[call.tool]
            alike = protocols if "similar-tool" in rules else {}
            found += [*_names(call, protocol, alike, rules), *_literals(call, protocol, rules)]
    return [*found, *not_paged(flow)]


def literal_arguments(
    call: ToolCall, protocol: Protocol, behind: Callable[[ast.expr], ast.expr] = lambda node: node
) -> dict[str, Any]:
    """Arguments by name; one that is no literal is :data:`NOT_LITERAL`. What ``*`` or ``**`` hides is left out.

    ``behind`` gives what stands behind an expression that names a literal.
    """
    given: dict[str, Any] = {}
    for name, node in written(call, parameters_of(protocol)):
        try:
            given[name] = ast.literal_eval(behind(node))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            given[name] = NOT_LITERAL
    return given


def written(call: ToolCall, parameters: list[Parameter]) -> Iterator[tuple[str, ast.expr]]:
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
    given = {name for name, _ in written(call, parameters)} | {*meant.values()}
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
    given = [name for name, _ in written(call, parameters)]
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


def _finding(kind: FindingKind, call: ToolCall, **facts: Any) -> Finding:
    return Finding(kind=kind, line=call.node.lineno, tool=call.tool, **facts)

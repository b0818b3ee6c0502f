"""Literals that a program has from a document's example: an id that stands for any id there, and means nothing here.

A small model copies what it reads. An id of an example, compared with a field of a response, is found nowhere or finds
the wrong thing, and nothing fails. What neither the task nor a response said is asked about once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from atc.facts import Finding
from atc.graph.identifiers import HANDED_OUT, THINGS, is_identifier
from atc.programs.analysis.flow import Flow
from atc.programs.check.calls import NOT_LITERAL, literal_arguments
from atc.programs.syntax import span_of
from atc.tools.protocol import Protocol

MAX_LEAVES = 2_000
"""Values of a tool's examples, and of its schemas, that are looked at."""
MAX_TEXT, MIN_TEXT = 80, 5
"""Characters of a text that can be a distinctive one; the fewer bind only where its key is not that of an id."""
MIN_NUMBER = 1_000
"""The least number that is told from any other."""
_YEARS = range(1900, 2101)
_DATE = re.compile(r"\d{1,4}[-/.:]\d{1,2}(?:[-/.:T ]|$)")
_WORDS = re.compile(r"[^a-z0-9]+")


def example_findings(
    program: Iterable[ast.AST],
    flow: Flow,
    protocols: Mapping[str, Protocol],
    examples: Collection[str],
    known: str,
) -> list[Finding]:
    """Warnings: literals of examples that are compared with a response, or given to a tool.

    Args:
        program: the nodes of its tree. ``flow``: the values in it.
        protocols: the tools by name.
        examples: :func:`example_literals` of these tools.
        known: the task and all that tools have answered.
    """
    if not examples:
        return []
    told = _WORDS.sub("", known.casefold())

    def copied(value: object) -> bool:
        return _spelled(value) in examples and _WORDS.sub("", str(value).casefold()) not in told

    found = []
    for call in flow.calls.values():
        for name, value in literal_arguments(call, protocols[call.tool]).items() if call.direct else ():
            if value is not NOT_LITERAL and copied(value):
                found.append(_finding(call.node.lineno, call.tool, value, (name,)))
    for node in program:
        if isinstance(node, ast.Compare):
            tools = sorted({tool for part in _parts(node) for tool in _origins(part, flow)})
            found += [_finding(node.lineno, tools[0], v, ()) for v in _constants(node) if tools and copied(v)]
    return found


def example_literals(protocols: Iterable[Protocol]) -> frozenset[str]:
    """The values of examples that can be told from others: ids, and texts with letters and digits that are no date.

    Not what a schema names itself, as a default or one of a few values.
    """
    found: set[str] = set()
    for protocol in protocols:
        schemas = (protocol.parameters, protocol.returns)
        named = {_spelled(value) for schema in schemas for value in _named(schema)}
        given = [part for example in protocol.examples for part in (example.arguments, example.response)]
        given += [example for schema in schemas for example in _schema_examples(schema)]
        leaves = islice((leaf for part in given for leaf in _leaves("", part)), MAX_LEAVES)
        found |= {_spelled(value) for key, value in leaves if _is_distinctive(key, value)} - named
    return frozenset(found)


def _is_distinctive(key: str, value: object) -> bool:
    is_id = is_identifier(key, THINGS | HANDED_OUT)
    match value:
        case bool():
            return False
        case int():
            return is_id and abs(value) >= MIN_NUMBER and value not in _YEARS
        case str() if len(value) <= MAX_TEXT and not any(map(str.isspace, value)) and not _DATE.match(value):
            mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
            return len(value) > 1 and (mixed if len(value) >= MIN_TEXT and not is_id else is_id and not value.isdigit())
    return False


def _spelled(value: object) -> str:
    return f"{type(value).__name__} {value}"[: MAX_TEXT + 8] if isinstance(value, str | int) else ""


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The scalars of a JSON value, each with the nearest key above it."""
    todo = [(key, value)]
    while todo:
        name, part = todo.pop()
        if isinstance(part, dict):
            todo += [(str(inner), item) for inner, item in part.items()]
        elif isinstance(part, list):
            todo += [(name, item) for item in part]
        else:
            yield name, part


def _schemas(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas in a schema, each with the name of its property."""
    todo = [("", schema)]
    for _ in range(MAX_LEAVES):
        if not todo:
            return
        name, part = todo.pop()
        if isinstance(part, dict):
            yield name, part
            for key, inner in part.items():
                if key in ("properties", "$defs", "definitions") and isinstance(inner, dict):
                    todo += inner.items()
                elif key not in ("enum", "const", "default", "examples", "example"):
                    todo.append((name, inner))
        elif isinstance(part, list):
            todo += [(name, inner) for inner in part]


def _named(schema: Any) -> Iterator[Any]:
    for _, part in _schemas(schema):
        listed = part.get("enum")
        yield from (*(listed if isinstance(listed, list) else ()), part.get("const"), part.get("default"))


def _schema_examples(schema: Any) -> Iterator[Any]:
    for name, part in _schemas(schema):
        listed = part.get("examples")
        yield from ({name: each} for each in (*(listed if isinstance(listed, list) else ()), part.get("example")))


def _parts(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def _origins(part: ast.expr, flow: Flow) -> set[str]:
    """The tools whose responses an expression is, or is made from."""
    value = flow.values.get(span_of(part))
    return set() if value is None else {origin.tool for origin in value.derived().origins}


def _constants(node: ast.Compare) -> Iterator[object]:
    """The literals that are compared, also those of a list of them."""
    for part in _parts(node):
        parts = part.elts if isinstance(part, ast.List | ast.Tuple | ast.Set) else [part]
        yield from (each.value for each in parts if isinstance(each, ast.Constant))


def _finding(line: int, tool: str, value: object, arguments: tuple[str, ...]) -> Finding:
    name = str(value)
    return Finding(kind="example_literal", severity="warning", line=line, tool=tool, arguments=arguments, name=name)

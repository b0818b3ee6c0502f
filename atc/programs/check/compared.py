"""Comparisons that are never so, by the documents: a field of a response with a value that is none of its choices.

A warning, for documents are incomplete. What a program lists to be ready for several spellings is none, if one of them
is a choice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from atc.facts import Finding
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.schema_paths import schemas_at
from atc.programs.analysis.values import Origin
from atc.programs.check.seen import Seen
from atc.programs.syntax import span_of
from atc.tools.protocol import Protocol
from atc.tools.types import EVIDENCE, OBSERVED

MAX_CHOICES = 100
"""Choices of a field; of more it is not said which they are."""
Literals = tuple[Any, ...]


def comparison_findings(
    nodes: Iterable[ast.AST], flow: Flow, protocols: Mapping[str, Protocol], seen: Seen
) -> list[Finding]:
    """The comparisons of a program that its tools' documents say are never so.

    Args:
        nodes: of the program.
        flow: the values in it.
        protocols: the tools by name.
        seen: what the run was answered: a value that is none of the choices says that the document is wrong.
    """
    if not flow.complete:
        return []
    nodes = list(nodes)
    ready = {
        id(operand)
        for node in nodes
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
        for operand in node.values
    }  # one of several spellings
    found = []
    for node in nodes:
        for field, literals in _compared(node) if id(node) not in ready else ():
            origin = next(iter(sorted(flow.at(span_of(field)).origins, key=str)), None)
            choices = _choices(field, flow, protocols, seen)
            if origin is not None and choices and not any(literal in choices for literal in literals):
                found.append(_finding(node, origin, literals[0], choices))
    return found


def _compared(node: ast.AST) -> Iterator[tuple[ast.expr, Literals]]:
    """What a comparison compares with texts and numbers that are written out."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return
    left, right = node.left, node.comparators[0]
    sides: list[tuple[ast.expr, tuple[ast.expr, ...]]]
    match node.ops[0]:
        case ast.Eq() | ast.NotEq():
            sides = [(left, (right,)), (right, (left,))]
        case ast.In() | ast.NotIn() if isinstance(right, ast.List | ast.Tuple | ast.Set):
            sides = [(left, tuple(right.elts))]
        case _:
            return
    for field, others in sides:
        literals = tuple(other.value for other in others if isinstance(other, ast.Constant))
        plain = all(isinstance(literal, str | int) and literal != "" for literal in literals)
        if literals and len(literals) == len(others) and plain and not _falls_back(field, literals):
            yield field, literals


def _falls_back(field: ast.expr, literals: Literals) -> bool:
    """Whether the program itself gives what it compares with: ``order.get("status", "none") == "none"``."""
    parts = [part.value for part in ast.walk(field) if isinstance(part, ast.Constant)]
    return any(literal in parts for literal in literals)


def _choices(field: ast.expr, flow: Flow, protocols: Mapping[str, Protocol], seen: Seen) -> list[Any]:
    """The choices of a field, as far as documents name them all, and nothing that was seen is another one."""
    value = flow.at(span_of(field))
    if value.open or value.cells or value.functions or not value.origins:
        return []
    choices: list[Any] = []
    for origin in value.origins:
        places = schemas_at(protocols[origin.tool].returns, origin.path)
        enums = [place.get("enum") for place in places if EVIDENCE not in place and OBSERVED not in place]
        if not places or len(enums) < len(places) or not all(isinstance(each, list) and each for each in enums):
            return []
        own = [choice for each in enums if each is not None for choice in each]
        if any(each not in own for each in seen.at(origin)):
            return []
        choices += [choice for choice in own if choice not in choices]
    return choices if len(choices) <= MAX_CHOICES else []


def _finding(node: ast.AST, origin: Origin, literal: str | int, choices: list[Any]) -> Finding:
    return Finding(
        kind="not_in_enum",
        case="compared",
        severity="warning",
        line=getattr(node, "lineno", 0),
        tool=origin.tool,
        place=origin.place,
        name=literal,
        known=tuple(str(choice) for choice in choices if choice is not None),
    )

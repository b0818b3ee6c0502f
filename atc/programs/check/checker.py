"""Program → findings, before anything runs.

Bounds and syntax, then the policy (imports that the jail does not have, names that reach behind objects), names that
nothing binds, then the tools' schemas held to the values that flow through the program: arguments, and fields through
loops and helpers.

An error is what no run could get through: a name that is nowhere, a call that its tool's schema excludes, a key that a
closed response does not have, what the jail lacks. All else is a warning (:mod:`atc.programs.check.warned`): documents
are incomplete, so a key that one does not name may well be there.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from atc._host.syntax import walk
from atc._records.records import FindingCase, FindingKind, Place, Replacement
from atc._records.rules import DEFAULT, Rules
from atc.catalogue.graph.suppliers import expression_of, fields_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.facts import Finding
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import Access
from atc.programs.analysis.values import Origin, Shape, schemas_at, shape_at
from atc.programs.check.calls import Names, call_findings
from atc.programs.check.policy import policy_findings
from atc.programs.check.provenance import provenance_findings
from atc.programs.dialects.awaits import awaits_outside, unclear_tools
from atc.programs.dialects.tool_names import MAX_CANDIDATES, is_form
from atc.programs.program import Program
from atc.programs.responses import MISSING, places
from atc.programs.syntax import may_catch_a_tools_error, misplaced, reads_one_of, says_impossible, span_of
from atc.result import Call
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.types import EVIDENCE, OBSERVED

# ----------------------------------------------------------------------------------------------------------------------
# What the tools answered in a run so far. It beats what their documents say, for wording and types; by itself it makes
# no finding: one response shows what is there, not what else may be.


MOST_CALLS, MOST_VALUES = 5, 20
"""The latest responses of a tool, and the values of one, that are looked at."""


class Seen:
    """The latest responses of a run.

    Args:
        calls: of the run, in order; those that failed show nothing.
    """

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        answered: defaultdict[str, list[Any]] = defaultdict(list)
        for call in calls:
            if call.succeeded:
                answered[call.tool].append(call.value)
        self._answered: Mapping[str, list[Any]] = answered

    def at(self, origin: Origin) -> list[Any]:
        """Return the values that stood at a part of a response."""
        responses = self._answered.get(origin.tool, [])[-MOST_CALLS:]
        found = (value for response in responses for _, value in islice(places(response, origin.path), MOST_VALUES))
        return [value for value in found if value is not MISSING and value is not None]

    def has(self, access: Access) -> bool:
        """Return whether some response had what is looked up there, or belies what a document says of the place."""
        return any(self._is_there(access, origin) for origin in access.base.origins)

    def _is_there(self, access: Access, origin: Origin) -> bool:
        values = self.at(origin)
        if access.attribute or not values:
            return False
        if isinstance(access.key, int):
            return any(isinstance(value, list | str) for value in values)
        return any(isinstance(value, dict) and access.key in value for value in values)

    def keys(self, origin: Origin) -> tuple[str, ...]:
        """Return the keys of the objects that stood there."""
        return tuple(dict.fromkeys(key for value in self.at(origin) if isinstance(value, dict) for key in value))


# ----------------------------------------------------------------------------------------------------------------------
# Comparisons that are never so, by the documents: a field of a response with a value that is none of its choices.
#
# A warning, for documents are incomplete. What a program lists to be ready for several spellings is none, if one of
# them is a choice.


MAX_CHOICES = 100
"""Choices of a field; of more it is not said which they are."""
Literals = tuple[Any, ...]


def comparison_findings(
    nodes: Iterable[ast.AST], flow: Flow, protocols: Mapping[str, Protocol], seen: Seen
) -> list[Finding]:
    """Return the comparisons of a program that its tools' documents say are never so.

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
    """Return whether the program itself gives what it compares with: ``order.get("status", "none") == "none"``."""
    parts = [part.value for part in walk(field) if isinstance(part, ast.Constant)]
    return any(literal in parts for literal in literals)


def _choices(field: ast.expr, flow: Flow, protocols: Mapping[str, Protocol], seen: Seen) -> list[Any]:
    """Return the choices of a field, as far as documents name them all, and nothing that was seen is another one."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Calls of tools that broke in this run: they would be refused, so the program does not run.


def broken_tool_findings(program: Program, broken: Mapping[str, Sequence[Replacement]]) -> list[Finding]:
    """Return one finding for each broken tool that a program calls without being ready for its failure.

    Args:
        program: the program.
        broken: the tools that are not called any more, each with those that give the same.
    """
    if program.tree is None or not broken:
        return []
    ready = {id(node) for made in program.nodes if isinstance(made, ast.Try) and _is_ready(made)
             for statement in made.body for node in walk(statement)}  # fmt: skip
    lines: dict[str, int] = {}
    for node in program.nodes:
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id in broken
            and id(node) not in ready
        ):
            lines.setdefault(node.id, node.lineno)
    return [_is_down(tool, broken[tool], line) for tool, line in lines.items()]


def _is_down(tool: str, ways: Sequence[Replacement], line: int) -> Finding:
    return Finding(kind="broken_tool", line=line, tool=tool, instead=tuple(each.tool for each in ways))


def _is_ready(made: ast.Try) -> bool:
    return any(may_catch_a_tools_error(handler.type) for handler in made.handlers)


# ----------------------------------------------------------------------------------------------------------------------
# Program → findings, before anything runs.


class Checker:
    """Checks programs against one set of tools.

    Args:
        protocols: the tools that a program is offered.
        rules: the ids of the rules that are on (:mod:`atc._records.rules`).
        graph: what feeds what among these tools; by their protocols alone, if not given.
        packages: whether the jail may have packages beside the standard library.
    """

    def __init__(
        self,
        protocols: Sequence[Protocol],
        *,
        rules: Rules = DEFAULT,
        graph: ToolGraph | None = None,
        packages: bool = False,
    ) -> None:
        self._packages = packages
        self._rules = rules
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._called_after_sources: dict[str, list[str]] = {}  # of a plain name: a program may have thousands
        for protocol in protocols:
            if plain := protocol.source.name:
                self._called_after_sources.setdefault(plain, []).append(protocol.name)
        self._graph = ToolGraph(protocols) if graph is None else graph

    def check(
        self,
        program: Program,
        known: str | None = None,
        inputs: Collection[str] = (),
        calls: Sequence[Call] = (),
    ) -> list[Finding]:
        """Errors and warnings; one a line and kind, in the order of lines.

        Args:
            program: what is checked.
            known: the task and all that tools have answered so far, as text; what the program has out of thin air is
                a finding then (:mod:`atc.programs.check.provenance`).
            inputs: names of the values of earlier stages that stand in the program's scope.
            calls: of the run so far: what they answered beats what documents say.
        """
        tree = program.tree
        if tree is None:
            return [_not_parsed(program)]
        flow, seen, names = program.flow(self._protocols), Seen(calls), Names(tree, self._protocols, inputs)
        found = policy_findings(tree, packages=self._packages)
        found += call_findings(flow, self._protocols, self._rules)
        found += self._accesses(flow, seen) + self._whole(program, flow, inputs)
        if "enum-comparison" in self._rules:
            found += comparison_findings(program.nodes, flow, self._protocols, seen)
        found += (unclear := unclear_tools(program, self._protocols, inputs))
        found += [_refused(program, node.lineno, case="await") for node in awaits_outside(program)]
        found += [_refused(program, line, reason=reason) for line, reason in misplaced(tree)]
        if known is not None:
            found += provenance_findings(tree, flow, self._protocols, self._graph, known.casefold(), self._rules)
        found += [self._undefined(node, names) for node in names.nowhere() if not (unclear and is_form(node.id))]
        return _unique(found)

    # -- fields --------------------------------------------------------------------------------------------------------

    def _accesses(self, flow: Flow, seen: Seen) -> list[Finding]:
        found = []
        for access in flow.accesses.values() if flow.complete else ():
            base, origins = access.base, sorted(access.base.origins, key=str)
            in_own = any(cell.has(str(access.key)) for cell in base.cells)
            if base.open or base.functions or in_own or self._is_forgiven(access, flow):
                continue
            if not origins:
                found += _own_dicts(access)
                continue
            shapes = {origin: shape_at(self._protocols[origin.tool].returns, origin.path) for origin in origins}
            if all(_lacks(shape, access) for shape in shapes.values()) and not seen.has(access):
                sure = isinstance(access.key, str) and not access.attribute
                sure = sure and all(shape.closed for shape in shapes.values())
                keys = seen.keys(origins[0])
                sure = sure and set(keys) <= set(shapes[origins[0]].keys)  # else its document is wrong about it
                finding = self._no_field(origins[0].place, shapes[origins[0]], access)
                found.append(_as_seen(finding, keys).model_copy(update={} if sure else {"severity": "warning"}))
        return found

    def _is_forgiven(self, access: Access, flow: Flow) -> bool:
        if access.hedged or access.key in flow.tested or access.base.origins & flow.type_tested:
            return True
        added = [flow.added.get(site, set()) for site in (None, *(origin.site for origin in access.base.origins))]
        return any(access.key in keys or None in keys for keys in added)

    def _no_field(self, place: Place, shape: Shape, access: Access) -> Finding:
        case: FindingCase = ""
        if access.attribute:
            case = "attribute"
        elif shape.kind == "list" or shape.kind == "scalar":
            case = shape.kind
        elif isinstance(access.key, int):
            case = "position"
        instead = (
            self._elsewhere(access.key, place.tool) if case in ("", "scalar") and isinstance(access.key, str) else ()
        )
        return Finding(
            kind="unknown_field",
            case=case,
            line=access.node.lineno,
            tool=place.tool,
            place=place,
            name=access.key,
            known=shape.keys[:30],
            found=shape.type,
            instead=instead,
        )

    def _elsewhere(self, key: str, first: str = "") -> tuple[str, ...]:
        if "key-elsewhere" not in self._rules:
            return ()
        places = [
            expression_of(protocol.name, path, [p.name for p in parameters_of(protocol) if p.required])
            for protocol in sorted(self._protocols.values(), key=lambda protocol: protocol.name != first)
            for path in fields_of(protocol.returns)
            if path[-1] == key
        ]
        return tuple(places[:2])

    # -- the whole -----------------------------------------------------------------------------------------------------

    def _whole(self, program: Program, flow: Flow, inputs: Collection[str]) -> list[Finding]:
        found = []
        if not program.sets_answer and not says_impossible(program.module.body):
            found.append(Finding(kind="no_answer"))
        if not flow.calls and not reads_one_of(program.module, {*self._protocols, *inputs}):
            found.append(Finding(kind="no_call", severity="warning"))
        return found

    def _undefined(self, node: ast.Name, names: Names) -> Finding:
        if "nearest-name" not in self._rules:
            return Finding(kind="undefined_name", name=node.id, line=node.lineno)
        if shared := self._called_after_sources.get(node.id):
            return Finding(kind="unknown_tool", name=node.id, line=node.lineno, instead=tuple(shared[:MAX_CANDIDATES]))
        if (near := names.nearest(node.id)) is None:
            return Finding(kind="undefined_name", name=node.id, line=node.lineno)
        tool = near if near in self._protocols else None
        kind: FindingKind = "undefined_name" if tool is None else "unknown_tool"
        return Finding(kind=kind, name=node.id, line=node.lineno, tool=tool, instead=(near,))


def _lacks(shape: Shape, access: Access) -> bool:
    if shape.kind == "open":
        return False
    if access.attribute:
        return shape.kind != "scalar"
    if isinstance(access.key, int):
        return shape.kind == "record" or (shape.kind == "scalar" and shape.type != "string")
    return access.key not in shape.keys


def _as_seen(finding: Finding, keys: tuple[str, ...]) -> Finding:
    return finding.model_copy(update={"case": "", "known": keys[:30]}) if keys and not finding.case else finding


def _own_dicts(access: Access) -> list[Finding]:
    """Warn of a key that a dict of the program's own is never seen to get: it may get it in ways unseen."""
    cells, line = sorted(access.base.cells, key=lambda cell: list(cell.fields)), access.node.lineno
    if not cells or not isinstance(access.node, ast.Subscript) or not isinstance(access.key, str):
        return []
    if any(cell.keys is None for cell in cells):
        return []
    known = tuple(cells[0].fields)[:30]
    return [Finding(kind="unknown_key", severity="warning", line=line, name=access.key, known=known)]


def _not_parsed(program: Program) -> Finding:
    problem = program.problem
    if problem is None:
        return Finding(kind="syntax")
    text = program.line(problem.line)[:120]
    return Finding(kind="syntax", line=problem.line, source_line=text, reason=problem.message)


def _refused(program: Program, line: int, case: FindingCase = "", reason: str = "") -> Finding:
    return Finding(kind="syntax", case=case, line=line, source_line=program.line(line)[:120], reason=reason)


def _unique(found: list[Finding]) -> list[Finding]:
    """Return one finding a line and kind, in the order of lines; each of supplied arguments and of comparisons."""
    kept: dict[tuple[Any, ...], Finding] = {}
    for finding in found:
        apart = (finding.arguments, finding.name) if finding.sources or finding.case == "compared" else ()
        kept.setdefault((finding.line, finding.kind, apart), finding)
    return sorted(kept.values(), key=lambda finding: finding.line)

"""Warnings: which of them stand before a write, and which one foretold a failure.

A program with warnings runs. They are heard of if it fails at their place; where no run can settle one, such as an id
that nobody gave, also if it answers. Two kinds stand before a write.
What a write's argument depends on and no error would tell, such as an id that nobody gave, goes into the question about
this write. What is evaluated when a write may have been made could end the program half way. For either the program is
sent back once. A key that is not there needs no question: a program without it does not come to the write.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atc._host.syntax import walk
from atc._records.records import FaultCase
from atc.facts import Fault, Finding
from atc.programs.analysis.flow import Flow
from atc.programs.check.provenance import addresses_in
from atc.programs.program import Program
from atc.programs.syntax import Span, span_of
from atc.schemas.protocol import Protocol

# ----------------------------------------------------------------------------------------------------------------------
# What an expression may have been computed from, by names alone: a slice of the program, backwards.
#
# It is coarse on purpose: a name is one thing wherever it stands, whatever a function is given may be what it gives
# back, and a method changes what it is called on. So nothing that an expression depends on is left out. Time and memory
# are linear in the program. What only decides whether an expression is evaluated is not in its slice.


class Slices:
    """The slices of one program.

    Args:
        tree: the program.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = walk(tree)
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._sources: defaultdict[str, list[ast.AST]] = defaultdict(list)
        for node in nodes:
            for names, source in self._flows(node):
                for name in names:
                    self._sources[name].append(source)

    def of(self, expressions: Iterable[ast.AST]) -> set[Span]:
        """Return where everything stands that the expressions may depend on, they themselves too."""
        found, names = set[Span](), set[str]()
        seen, todo = set[int](), list(expressions)
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            for part in walk(node):
                seen.add(id(part))
                found.add(span_of(part))
                if isinstance(part, ast.Name) and part.id not in names:
                    names.add(part.id)
                    todo += self._sources.get(part.id, ())
        return found

    def _flows(self, node: ast.AST) -> Iterator[tuple[Iterable[str], ast.AST]]:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield _roots(target), value
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield _roots(target), value
            case ast.NamedExpr(target=target, value=value):
                yield _roots(target), value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield _roots(target), value
            case ast.comprehension(target=target, iter=value):
                yield _roots(target), value
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                yield _roots(target), value
            case ast.Match(subject=subject, cases=cases):
                patterns = (part for case in cases for part in walk(case.pattern))
                names = (getattr(part, word, None) for part in patterns for word in ("name", "rest"))
                yield [name for name in names if isinstance(name, str)], subject
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield [name], node
                yield _parameters(node), ast.Name(_given_to(name), ast.Load())
            case ast.ClassDef(name=name):
                yield [name], node
            case ast.Call(func=called, args=args, keywords=keywords):
                values = [*args, *(keyword.value for keyword in keywords)]
                functions = [part for part in (called, *values) if self._is_function(part)]
                given = ast.Tuple([value for value in values if not self._is_function(value)], ast.Load())
                if isinstance(called, ast.Attribute):
                    yield _roots(called), given
                for part in functions:
                    yield _parameters(part) if isinstance(part, ast.Lambda) else [_given_to(*_roots(part))], given

    def _is_function(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in self._functions)


def _given_to(function: str) -> str:
    """Return what stands for all that a function is given, wherever it is called: no name of a program."""
    return f"{function}()"


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    return [part.arg for part in walk(node.args) if isinstance(part, ast.arg)]


def _roots(target: ast.expr) -> list[str]:
    return [part.id for part in walk(target) if isinstance(part, ast.Name)]


# ----------------------------------------------------------------------------------------------------------------------
# Warnings: which of them stand before a write, and which one foretold a failure.


_SILENT = frozenset({"invented_id", "name_for_id", "unknown_argument"})
"""Kinds of what no error tells: a value that a service may believe, an argument that is left out of a read."""


def _is_silent(finding: Finding) -> bool:
    return finding.kind in _SILENT or finding.case == "compared"


@dataclass(frozen=True)
class Warned:
    """The warnings about one program.

    Attributes:
        found: all of them.
        of_writes: by tool with effects, those that an argument of a call of it depends on, and that no error tells.
        half_way: those of what is evaluated after a write, or between two.
    """

    found: tuple[Finding, ...] = ()
    of_writes: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    half_way: tuple[Finding, ...] = ()

    @property
    def silent(self) -> tuple[Finding, ...]:
        """Return those that a run does not settle: where such a value is wrong, no error tells."""
        return tuple(finding for finding in self.found if _is_silent(finding))

    @property
    def gating(self) -> list[Finding]:
        """Return those for which the program is sent back once."""
        gates = {id(finding) for found in (self.half_way, *self.of_writes.values()) for finding in found}
        return [finding for finding in self.found if id(finding) in gates]

    def foretold(self, fault: Fault) -> Finding | None:
        """Return the warning that a failure bears out, with the keys that really stood there, if there is one."""
        seen = fault.observed.keys if fault.observed is not None else ()
        for finding in self.found if fault.cause is None else ():
            if _is_about(finding, fault):
                if finding.kind != "unknown_field" or not seen:
                    return finding
                if finding.name not in seen:
                    return finding.model_copy(update={"known": seen})
        return None


def warned(program: Program, protocols: Mapping[str, Protocol], findings: Sequence[Finding]) -> Warned:
    """Return the warnings among the findings of a program, with what they can harm.

    Args:
        program: the program. Where it is too large to be followed, every warning stands before every write.
        protocols: the tools by name.
        findings: what the check found.
    """
    found = tuple(finding for finding in findings if finding.severity == "warning")
    if not found or program.tree is None:
        return Warned(found)
    flow = program.flow(protocols)
    writes = defaultdict(list)
    for call in flow.calls.values():
        if flow.has_effects(call.tool):
            writes[call.tool].append(call.node)
    if not flow.complete:
        return Warned(found, {name: found for name in protocols if flow.has_effects(name)})
    if not writes:
        return Warned(found)
    slices, places = Slices(program.tree), _Places(flow, program.nodes)
    silent = [finding for finding in found if _is_silent(finding)]
    of_writes = {tool: places.within(slices.of(nodes), silent) for tool, nodes in writes.items()} if silent else {}
    half_way = places.within(flow.after_writes, found)
    if any(finding.case == "address" for finding in half_way):  # to compare with one ends no program: to call by it may
        called = slices.of([call.node for call in flow.calls.values()])
        taken = places.within(called, half_way)
        half_way = tuple(finding for finding in half_way if finding.case != "address" or finding in taken)
    return Warned(found, of_writes, half_way)


class _Places:
    """Finds where the expressions stand that findings are about: spans where they are known, else lines."""

    def __init__(self, flow: Flow, nodes: Iterable[ast.AST]) -> None:
        self._known: defaultdict[tuple[int, str | int | None], set[Span | int]] = defaultdict(set)
        for access in flow.accesses.values():
            self._known[access.node.lineno, access.key].add(span_of(access.node))
        for call in flow.calls.values():
            self._known[call.node.lineno, call.tool].add(span_of(call.node))
        for node, _ in addresses_in(nodes):
            self._known[node.lineno, None].add(span_of(node))

    def within(self, spans: set[Span], findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings about one of these expressions, or about a line on which one begins."""
        here = {*spans, *(span[0] for span in spans)}
        return tuple(finding for finding in findings if not self._of(finding).isdisjoint(here))

    def _of(self, finding: Finding) -> set[Span | int]:
        about = finding.name if finding.kind in ("unknown_field", "unknown_key") else finding.tool
        return self._known.get((finding.line, about)) or ({finding.line} if finding.line else set())


def _is_about(finding: Finding, fault: Fault) -> bool:
    if finding.kind == "no_call":
        return fault.case is FaultCase.NO_CALLS
    if fault.case is FaultCase.ANSWER_TYPE:
        return False
    if finding.line and finding.line == fault.line:
        return True
    if finding.tool is None or finding.tool != fault.tool:
        return False
    if finding.place is None or fault.place is None:
        return True
    return all(a == b or a is None or b is None for a, b in zip(finding.place.path, fault.place.path, strict=False))

"""Program → findings, before anything runs.

Bounds and syntax, then the policy (imports that the jail does not have, names that reach behind objects), then the
tools' schemas held to the values that flow through the program: arguments, and fields through loops and helpers.
Beside it the type checker, for what follows from Python's own types: names that are not defined, operators,
iteration.

An error is what no run could get through: a name that is nowhere, a call that its tool's schema excludes, a key that a
closed response does not have, what the jail lacks. All else is a warning (:mod:`atc.programs.check.warned`): documents
are incomplete, so a key that one does not name may well be there.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Collection, Sequence

from atc.answers.types import AnswerType
from atc.facts import Finding, FindingCase, Place
from atc.fired_rules import fired
from atc.graph.suppliers import expression_of, fields_of
from atc.graph.tool_graph import ToolGraph
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import Access
from atc.programs.analysis.schema_paths import Shape, shape_at
from atc.programs.check.calls import call_findings
from atc.programs.check.names import Names
from atc.programs.check.policy import policy_findings
from atc.programs.check.provenance import provenance_findings
from atc.programs.check.seen import Seen
from atc.programs.check.types import TypeChecker
from atc.programs.dialects.awaits import awaits_outside
from atc.programs.dialects.reading import unclear_tools
from atc.programs.dialects.tool_names import is_form
from atc.programs.program import Program
from atc.programs.rules import DEFAULT, Rules
from atc.programs.syntax import reads_one_of, sets_answer
from atc.result import Call
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol


class Checker:
    """Checks programs against one set of tools; :meth:`close` when done.

    Args:
        protocols: the tools that a program is offered.
        types: run the type checker too (the ladder in ``benchmarks`` turns parts off).
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
        graph: what feeds what among these tools; by their protocols alone, if not given.
        packages: whether the jail may have packages beside the standard library.
    """

    def __init__(
        self,
        protocols: Sequence[Protocol],
        *,
        types: bool = True,
        rules: Rules = DEFAULT,
        graph: ToolGraph | None = None,
        packages: bool = False,
    ) -> None:
        self._packages = packages
        self._rules = rules
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._hints = (ToolGraph(protocols) if graph is None else graph).hints
        self._types = TypeChecker(protocols) if types else None

    async def check(
        self,
        program: Program,
        known: str | None = None,
        inputs: Collection[str] = (),
        wanted: AnswerType | None = None,
        calls: Sequence[Call] = (),
    ) -> list[Finding]:
        """Errors and warnings; one a line and kind, in the order of lines.

        Args:
            program: what is checked.
            known: the task and all that tools have answered so far, as text; what the program has out of thin air is
                a finding then (:mod:`atc.programs.check.provenance`).
            inputs: names of the values of earlier stages that stand in the program's scope.
            wanted: the type that the answer is held to where types are known.
            calls: of the run so far: what they answered beats what documents say.
        """
        tree = program.tree
        if tree is None:
            return [_not_parsed(program)]
        async with asyncio.TaskGroup() as group:  # the type checker is a process: it works beside us
            wanted = wanted if "answer-type" in self._rules else None
            types = group.create_task(self._types.check(program, inputs, wanted)) if self._types is not None else None
            await asyncio.sleep(0)
            flow, seen = program.flow(self._protocols), Seen(calls)
            found = policy_findings(tree, packages=self._packages)
            found += call_findings(flow, self._protocols, self._rules, seen)
            found += self._accesses(flow, seen) + self._whole(tree, flow, inputs)
            found += (unclear := unclear_tools(program, self._protocols, inputs))
            found += [_awaited(program, node.lineno) for node in awaits_outside(program)]
            if known is not None:
                found += provenance_findings(tree, flow, self._protocols, self._hints, known.casefold(), self._rules)
        typed = types.result() if types is not None else []
        if unclear:
            typed = [each for each in typed if each.kind != "undefined_name" or not is_form(str(each.name))]
        fired("answer-type", sum(finding.kind == "answer_type" for finding in typed))
        names = Names(tree, self._protocols, inputs)
        typed = [each for each in typed if each.kind != "type_error" or each.line not in flow.hedged_lines]
        return _unique(found + [self._completed(each, names) for each in typed])

    def close(self) -> None:
        """End the type checker and remove its files."""
        if self._types is not None:
            self._types.close()

    # -- fields --------------------------------------------------------------------------------------------------------

    def _accesses(self, flow: Flow, seen: Seen) -> list[Finding]:
        """Fields that no response they can come from is known to have; also through loops, helpers and variables."""
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
        """Whether the program itself put that key there, asks whether it is there, or is ready for it not to be."""
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
        """Where responses have a field of that name, as programs write it; ``first``: the tool that comes first."""
        if "key-elsewhere" not in self._rules:
            return ()
        places = [
            expression_of(protocol.name, path, [p.name for p in parameters_of(protocol) if p.required])
            for protocol in sorted(self._protocols.values(), key=lambda protocol: protocol.name != first)
            for path in fields_of(protocol.returns)
            if path[-1] == key
        ]
        fired("key-elsewhere", bool(places))
        return tuple(places[:2])

    # -- the whole -----------------------------------------------------------------------------------------------------

    def _whole(self, tree: ast.Module, flow: Flow, inputs: Collection[str]) -> list[Finding]:
        found = []
        if not sets_answer(tree):
            found.append(Finding(kind="no_answer"))
        if not flow.calls and not reads_one_of(tree, {*self._protocols, *inputs}):
            found.append(Finding(kind="no_call", severity="warning"))
        return found

    # -- the type checker's findings -----------------------------------------------------------------------------------

    def _completed(self, finding: Finding, names: Names) -> Finding:
        """What the type checker found, with what the program may have meant."""
        if finding.kind != "undefined_name":
            return finding
        if finding.name == "answer":
            return finding.model_copy(update={"case": "unset", "severity": "warning"})
        if names.binds(str(finding.name)):  # somewhere: when, the type checker may see wrongly
            finding = finding.model_copy(update={"severity": "warning"})
        near = names.nearest(str(finding.name)) if "nearest-name" in self._rules else None
        if near is None:
            return finding
        fired("nearest-name")
        kind, tool = ("unknown_tool", near) if near in self._protocols else ("undefined_name", None)
        return finding.model_copy(update={"kind": kind, "tool": tool, "instead": (near,)})


def _lacks(shape: Shape, access: Access) -> bool:
    """Whether such a look-up surely fails on what has this shape."""
    if shape.kind == "open":
        return False
    if access.attribute:
        return shape.kind != "scalar"
    if isinstance(access.key, int):
        return shape.kind == "record" or (shape.kind == "scalar" and shape.type != "string")
    return access.key not in shape.keys


def _as_seen(finding: Finding, keys: tuple[str, ...]) -> Finding:
    """A finding with the keys that the run saw in place of those of the document."""
    return finding.model_copy(update={"case": "", "known": keys[:30]}) if keys and not finding.case else finding


def _own_dicts(access: Access) -> list[Finding]:
    """A key that a dict of the program's own is never seen to get: a warning, for it may get it in ways unseen."""
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


def _awaited(program: Program, line: int) -> Finding:
    return Finding(kind="syntax", case="await", line=line, source_line=program.line(line)[:120])


def _unique(found: list[Finding]) -> list[Finding]:
    """One finding a line and kind, ours before the type checker's; a type error only where nothing clearer was said."""
    kept: dict[tuple[int, str], Finding] = {}
    for finding in found:
        kept.setdefault((finding.line, finding.kind), finding)
    clear = {line for line, kind in kept if kind != "type_error"}
    return sorted((f for f in kept.values() if f.kind != "type_error" or f.line not in clear), key=lambda f: f.line)

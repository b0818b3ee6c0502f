"""Program → findings, before anything runs: a finding costs a revision, not a side effect.

Bounds and syntax, then hygiene (imports that the jail does not have, names that reach behind objects), then the tools'
schemas held to the values that flow through the program: arguments, and fields through loops, helpers and variables.
Beside it the type checker, for what follows from Python's own types: names that are not defined, operators,
iteration.

Only what is sure is a finding, so a program that would have run is not refused; but for what looks as if it were from
memory (:data:`atc.programs.check.coverage.DOUBTS`), which a run asks about once.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Sequence

from atc.graph.suppliers import expression_of, fields_of, hints_for
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import Access
from atc.programs.analysis.schema_paths import Shape, shape_at
from atc.programs.check.calls import call_findings
from atc.programs.check.names import Names
from atc.programs.check.policy import hygiene
from atc.programs.check.provenance import invented
from atc.programs.check.types import TypeChecker
from atc.programs.program import Program
from atc.programs.rules import DEFAULT, Rules
from atc.programs.syntax import sets_answer
from atc.result import Finding
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol


class Checker:
    """Checks programs against one set of tools; :meth:`close` when done.

    Args:
        protocols: the tools that a program is offered.
        types: run the type checker too (the ladder in ``benchmarks`` turns parts off).
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
    """

    def __init__(self, protocols: Sequence[Protocol], *, types: bool = True, rules: Rules = DEFAULT) -> None:
        self._rules = rules
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._hints = hints_for(protocols)
        self._types = TypeChecker(protocols) if types else None

    async def check(self, program: Program, known: str | None = None) -> list[Finding]:
        """Every sure finding, and doubts about values; one a line and kind, in the order of lines.

        Args:
            program: what is checked.
            known: the task and all that tools have answered so far, as text; what the program has out of thin air is
                a finding then (:mod:`atc.programs.check.provenance`).
        """
        tree = program.tree
        if tree is None:
            line, text = (problem.line, problem.message) if (problem := program.problem) else (0, "")
            return [Finding(kind="syntax", message=_at(line, program, text), line=line)]
        async with asyncio.TaskGroup() as group:  # the type checker is a process: it works beside us
            types = group.create_task(self._types.check(program)) if self._types is not None else None
            await asyncio.sleep(0)
            flow = program.flow(self._protocols)
            found = (
                hygiene(tree)
                + call_findings(flow, self._protocols, self._rules)
                + self._accesses(flow)
                + self._whole(tree, flow)
            )
            if known is not None:
                found += invented(tree, flow, self._protocols, self._hints, known.casefold(), self._rules)
        told = types.result() if types is not None else []
        names = Names(tree, self._protocols)
        return _unique(found + [self._in_words(finding, names) for finding in told if not self._allowed(finding, flow)])

    def close(self) -> None:
        if self._types is not None:
            self._types.close()

    # -- fields --------------------------------------------------------------------------------------------------------

    def _accesses(self, flow: Flow) -> list[Finding]:
        """Fields that no response they can come from has; also through loops, helpers and variables."""
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
            if all(_lacks(shape, access) for shape in shapes.values()):
                line, text = access.node.lineno, self._said(str(origins[0]), shapes[origins[0]], access)
                found.append(
                    Finding(kind="unknown_field", message=f"line {line}: {text}", line=line, tool=origins[0].tool)
                )
        return found

    def _is_forgiven(self, access: Access, flow: Flow) -> bool:
        """Whether the program itself put that key there, asks whether it is there, or is ready for it not to be."""
        if access.hedged or access.key in flow.tested or access.base.origins & flow.doubted:
            return True
        added = [flow.added.get(site, set()) for site in (None, *(origin.site for origin in access.base.origins))]
        return any(access.key in keys or None in keys for keys in added)

    def _said(self, origin: str, shape: Shape, access: Access) -> str:
        if access.attribute:
            return f"{origin} is plain dicts and lists: write [{access.key!r}], not .{access.key}"
        if shape.kind == "list":
            first = "take an item (a loop, or [0] after a check that it is not empty)"
            return f"{origin} is a list: {first} before [{access.key!r}]"
        if shape.kind == "scalar":
            return f"{origin} is a plain {shape.type}: it has no key {access.key!r}"
        keys = ", ".join(map(repr, shape.keys[:30]))
        if isinstance(access.key, int):
            return f"{origin} is no list, it has the keys {keys}: [{access.key}] is not among them"
        return f"{origin} has no key {access.key!r}; its keys are {keys}{self._elsewhere(access.key)}"

    def _elsewhere(self, key: str) -> str:
        places = [
            expression_of(protocol.name, path, [p.name for p in parameters_of(protocol) if p.required])
            for protocol in self._protocols.values()
            for path in fields_of(protocol.returns)
            if path[-1] == key
        ]
        return f". {key!r} is at {' or at '.join(places[:2])}" if places else ""

    # -- the whole -----------------------------------------------------------------------------------------------------

    def _whole(self, tree: ast.Module, flow: Flow) -> list[Finding]:
        found = []
        if not sets_answer(tree):
            text = "the program never sets `answer`: end it with `answer = …`"
            found.append(Finding(kind="no_answer", message=text))
        if not flow.calls and not any(isinstance(n, ast.Name) and n.id in self._protocols for n in ast.walk(tree)):
            text = "the program calls no tool: its facts must come from tools"
            found.append(Finding(kind="no_call", message=text))
        return found

    # -- the type checker's findings -----------------------------------------------------------------------------------

    def _allowed(self, finding: Finding, flow: Flow) -> bool:
        """Whether the flow knows better than the types: a program may add keys, and ask for them, at run time."""
        if finding.kind not in ("unknown_field", "type_error"):
            return False
        if finding.line in flow.hedged_lines:
            return True
        if finding.kind == "type_error":
            return False
        key = finding.message
        if key in flow.tested or any(key in keys or None in keys for keys in flow.added.values()):
            return True
        origins = {
            o for a in flow.accesses.values() if (a.node.lineno, a.key) == (finding.line, key) for o in a.base.origins
        }
        if not origins and None in flow.tested:  # a key that is not written out
            return True
        shapes = [shape_at(self._protocols[origin.tool].returns, origin.path) for origin in origins]
        return any(shape.kind == "open" or key in shape.keys for shape in shapes)

    def _in_words(self, finding: Finding, names: Names) -> Finding:
        line, tool, said = finding.line, finding.tool, finding.message
        match finding.kind:
            case "undefined_name" if said == "answer":
                text = f"line {line}: `answer` is used before it is set: set it first, to an empty list for instance"
                return Finding(kind="undefined_name", message=text, line=line)
            case "undefined_name":
                near = names.nearest(said)
                is_tool = near in self._protocols
                hint = f"did you mean {'the tool ' * is_tool}{near}?" if near else "only the listed tools exist"
                text = f"line {line}: {said!r} is not defined; {hint}"
                kind = "unknown_tool" if is_tool else "undefined_name"
                return Finding(kind=kind, message=text, line=line, tool=near if is_tool else None)
            case "wrong_type" | "not_in_enum":
                wanted, _, got = said.partition("\n")
                said = f"an argument of {tool}() must be {wanted}, but it is {got}"
            case "unknown_field":
                said = f"there is no key {said!r} in that object{self._elsewhere(said)}"
        return finding.model_copy(update={"message": f"line {line}: {said}"})


def _lacks(shape: Shape, access: Access) -> bool:
    """Whether such a look-up surely fails on what has this shape."""
    if shape.kind == "open":
        return False
    if access.attribute:
        return shape.kind != "scalar"
    if isinstance(access.key, int):
        return shape.kind == "record" or (shape.kind == "scalar" and shape.type != "string")
    return access.key not in shape.keys


def _own_dicts(access: Access) -> list[Finding]:
    """A key that a dict of the program's own never gets."""
    cells, line = sorted(access.base.cells, key=lambda cell: list(cell.fields)), access.node.lineno
    if not cells or not isinstance(access.node, ast.Subscript) or not isinstance(access.key, str):
        return []
    if any(cell.keys is None for cell in cells):
        return []
    keys = ", ".join(map(repr, list(cells[0].fields)[:30])) or "none"
    text = f"line {line}: the dict that the program made has no key {access.key!r}; its keys are {keys}"
    return [Finding(kind="unknown_key", message=text, line=line)]


def _at(line: int, program: Program, message: str) -> str:
    text = program.line(line)
    return f"line {line}: `{text[:120]}`: {message}" if 0 < line <= len(program.lines) else message


def _unique(found: list[Finding]) -> list[Finding]:
    """One finding a line and kind, ours before the type checker's; a type error only where nothing clearer was said."""
    kept: dict[tuple[int, str], Finding] = {}
    for finding in found:
        kept.setdefault((finding.line, finding.kind), finding)
    clear = {line for line, kind in kept if kind != "type_error"}
    return sorted((f for f in kept.values() if f.kind != "type_error" or f.line not in clear), key=lambda f: f.line)

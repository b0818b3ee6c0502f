"""Program → findings, before anything runs (issue a revision, not a side effect).

Bounds and syntax, then hygiene (imports that the jail does not have, names that reach behind objects), then the type
checker, then what it cannot see: fields through helper functions, literal arguments against the whole schema, an answer
that is never set, a program that calls no tool.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from typing import Any

from atc.programs.extract import NotParsed, parse
from atc.programs.fields import shape_at
from atc.programs.flow import Access, Flow, ToolCall
from atc.programs.hygiene import hygiene
from atc.programs.typecheck import TypeChecker
from atc.result import Finding
from atc.tools import schemas
from atc.tools.links import expression_of, fields_of, hints_for
from atc.tools.parameters import original_arguments, parameters_of
from atc.tools.protocol import Protocol

_UNKNOWN_VALUE = object()


class Checker:
    """Checks programs against one set of tools; :meth:`close` when done.

    Args:
        protocols: the tools that a program is offered.
        types: run the type checker too (the ladder in ``benchmarks`` turns parts off).
    """

    def __init__(self, protocols: Sequence[Protocol], *, types: bool = True) -> None:
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._hints = hints_for(protocols)
        self._types = TypeChecker(protocols) if types else None

    async def check(self, source: str, known: str | None = None) -> list[Finding]:
        """Every sure finding, one a line and kind, in the order of lines.

        Args:
            source: the program.
            known: the task and all that tools have answered so far, as text. An identifier that is written out in the
                program and stands nowhere in it is a finding (``invented_id``) where a tool could supply it.
        """
        try:
            tree = parse(source)
        except NotParsed as problem:
            return [Finding(kind="syntax", message=_at(problem.line, source, problem.message), line=problem.line)]
        flow = Flow(tree, self._protocols)
        found = hygiene(tree) + self._calls(flow) + self._accesses(flow) + self._whole(tree, flow)
        if known is not None:
            found += self._invented(flow, known.casefold())
        if self._types is not None:
            found += [self._in_words(f) for f in await self._types.check(source)]
        return _unique(found)

    def close(self) -> None:
        if self._types is not None:
            self._types.close()

    # -- what the type checker cannot see ----------------------------------------------------------------------------

    def _calls(self, flow: Flow) -> list[Finding]:
        """Arguments written as literals, against everything that the schema says of them."""
        found = []
        for call in flow.calls.values():
            protocol = self._protocols[call.tool]
            given = _literal_arguments(call, protocol)
            if given is None:
                continue
            arguments, _ = schemas.repaired(protocol.parameters, original_arguments(protocol, given))
            known = {k: v for k, v in arguments.items() if v is not _UNKNOWN_VALUE}
            names = {p.original: p.name for p in parameters_of(protocol)}
            for name, value in known.items():
                schema = {**protocol.parameters.get("properties", {}).get(name, {}), "$defs": protocol.parameters.get("$defs", {})}
                for problem in schemas.problems(schema, value)[:1]:
                    kind = "not_in_enum" if problem.keyword in ("enum", "const") else "wrong_type"
                    text = f"line {call.node.lineno}: {call.tool}({names.get(name, name)}={value!r}) is not allowed: {problem.message}"
                    found.append(Finding(kind=kind, message=text, line=call.node.lineno, tool=call.tool))
        return found

    def _invented(self, flow: Flow, known: str) -> list[Finding]:
        """Identifiers out of thin air."""
        found = []
        for call in flow.calls.values():
            protocol, line = self._protocols[call.tool], call.node.lineno
            for name, value in (_literal_arguments(call, protocol) or {}).items():
                source = self._hints.get(call.tool, {}).get(name)
                if source is None or value is _UNKNOWN_VALUE or not name.lower().endswith("id") or str(value).casefold() in known:
                    continue
                # the value is not named: a small model copies what a note names
                text = f"line {line}: the {name} given to {call.tool} is made up: take it {source}"
                found.append(Finding(kind="invented_id", message=text, line=line, tool=call.tool))
        return found

    def _accesses(self, flow: Flow) -> list[Finding]:
        """Fields that no response they can come from has; also through loops, helpers and variables."""
        found = []
        for access in flow.accesses:
            if not access.base.pure or not access.base.origins or (access.forgiving and not _insists(access)):
                continue
            shapes = {o: shape_at(self._protocols[o.tool].returns, o.path) for o in access.base.origins}
            if any(s.kind == "open" or access.key in s.keys for s in shapes.values()):
                continue
            origin, shape = next(iter(shapes.items()))
            if shape.kind == "record":
                said = f"has no key {access.key!r}; its keys are {', '.join(map(repr, shape.keys[:30]))}{self._elsewhere(access.key)}"
            elif shape.kind == "list":
                said = f"is a list: take an item (a loop, or [0] after a check that it is not empty) before [{access.key!r}]"
            else:
                said = f"is a plain {shape.type}: it has no key {access.key!r}"
            text = f"line {access.node.lineno}: {origin} {said}"
            found.append(Finding(kind="unknown_field", message=text, line=access.node.lineno, tool=origin.tool))
        return found

    def _elsewhere(self, key: str) -> str:
        from atc.tools.links import expression_of, fields_of, hints_for

        places = [expression_of(p.name, path) for p in self._protocols.values() for path in fields_of(p.returns) if path[-1] == key]
        return f". {key!r} is at {' or at '.join(places[:2])}" if places else ""

    def _whole(self, tree: ast.Module, flow: Flow) -> list[Finding]:
        found = []
        if not _stores(tree, "answer"):
            found.append(Finding(kind="no_answer", message="the program never sets `answer`: end it with `answer = …`"))
        if not flow.calls and not _names(tree) & set(self._protocols):
            found.append(Finding(kind="no_call", message="the program calls no tool, so its answer would rest on nothing"))
        return found

    # -- the type checker's findings in our words ----------------------------------------------------------------------

    def _in_words(self, finding: Finding) -> Finding:
        line, tool, said = finding.line, finding.tool, finding.message
        protocol = self._protocols.get(tool or "")
        names = [p.name for p in parameters_of(protocol)] if protocol else []
        match finding.kind:
            case "undefined_name":
                near = difflib.get_close_matches(said, [*self._protocols], 1, 0.6)
                text = f"{said!r} is not defined" + (f"; did you mean the tool {near[0]}?" if near else "; only the listed tools exist")
                kind = "unknown_tool" if near else "undefined_name"
                return Finding(kind=kind, message=f"line {line}: {text}", line=line, tool=near[0] if near else None)
            case "unknown_argument" if said:
                text = f"{tool}() has no argument {said!r}; its arguments are {', '.join(names) or 'none'}"
            case "unknown_argument":
                text = f"{tool}() is given too many arguments; its arguments are {', '.join(names) or 'none'}"
            case "missing_argument":
                text = f"{tool}() needs the argument {said}"
            case "wrong_type" | "not_in_enum":
                wanted, got = said.split("|", 1) if said.count("|") == 1 else (said.rpartition("|")[0], said.rpartition("|")[2])
                text = f"an argument of {tool}() must be {wanted}, but it is {got}"
            case "unknown_field":
                text = f"there is no key {said!r} in that object{self._elsewhere(said)}"
            case _:
                text = said
        return finding.model_copy(update={"message": f"line {line}: {text}"})


def _literal_arguments(call: ToolCall, protocol: Protocol) -> dict[str, Any] | None:
    """Arguments by name; one that is no literal is marked as unknown. ``None`` where ``*`` or ``**`` hides some."""
    names = [p.name for p in parameters_of(protocol)]
    given: dict[str, Any] = {}
    if any(isinstance(a, ast.Starred) for a in call.node.args) or any(k.arg is None for k in call.node.keywords):
        return None
    for name, node in [*zip(names, call.node.args, strict=False), *((k.arg or "", k.value) for k in call.node.keywords)]:
        try:
            given[name] = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            given[name] = _UNKNOWN_VALUE
    return given


def _insists(access: Access) -> bool:
    """``.get(key)`` without a default, on a response itself."""
    return isinstance(access.node, ast.Call) and len(access.node.args) == 1


def _stores(tree: ast.Module, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(tree))


def _names(tree: ast.Module) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def _at(line: int, source: str, message: str) -> str:
    lines = source.split("\n")
    return f"line {line}: `{lines[line - 1].strip()[:120]}`: {message}" if 0 < line <= len(lines) else message


def _unique(found: list[Finding]) -> list[Finding]:
    """One finding a line and kind, ours before the type checker's; a type error only where nothing clearer was said."""
    kept: dict[tuple[int, str], Finding] = {}
    for finding in found:
        kept.setdefault((finding.line, finding.kind), finding)
    clear = {line for line, kind in kept if kind != "type_error"}
    return sorted((f for f in kept.values() if f.kind != "type_error" or f.line not in clear), key=lambda f: f.line)

"""Whether kept programs still fit the tools that they call. Those that do not are not among an agent's tools.

A kept program was checked when it was kept. It is read again here, for its file may have been written by hand: it must
call no tool that its header does not name, for by these its effect is told. Where a tool that it calls takes other
arguments now, or answers otherwise, the program is checked anew, as any other is before it runs.
"""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from atc.programs.check.checker import Checker
from atc.programs.linking import unfit_constructs
from atc.programs.program import NotParsed, Program
from atc.schemas.names import ALL_PAGES, RESERVED_NAMES
from atc.schemas.protocol import parameters_of
from atc.tools.kept import LeftOut, digest_of
from atc.tools.tool import Tool, Toolset
from atc.wording.findings import finding

_KNOWN = frozenset({*dir(builtins), *RESERVED_NAMES, ALL_PAGES, "__name__"})
"""Names that every program has."""


def fitting(tools: Toolset) -> Toolset:
    """Return the tools without the kept programs that do not fit what they call; ``left_out`` says which, and why.

    Args:
        tools: of any kind; the same set is returned where nothing is left out.
    """
    kept = {name: tool for name, tool in tools.items() if tool.kept is not None}
    checks = _Checks(tools)
    reasons = {name: problem for name, tool in kept.items() if (problem := checks.misfit(tool))}
    if not reasons:
        return tools
    made = Toolset(tool for name, tool in tools.items() if name not in reasons)
    left = (LeftOut(name, kept[name].protocol.source.location, reason) for name, reason in reasons.items())
    made.left_out = (*tools.left_out, *left)
    return made


def misfit(tool: Tool, tools: Collection[str] = ()) -> str:
    """Return why a kept program does not fit the tools that it calls, in words, with the line; empty where it does."""
    return _Checks(tools).misfit(tool)


class _Checks:
    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._found: dict[int, tuple[Tool, str]] = {}
        self._digests: dict[int, tuple[Tool, str]] = {}

    def misfit(self, tool: Tool) -> str:
        """Return why a kept program does not fit, as :func:`misfit` does."""
        if id(tool) not in self._found:
            self._found[id(tool)] = (tool, self._misfit(tool))
        return self._found[id(tool)][1]

    def _digest(self, tool: Tool) -> str:
        if id(tool) not in self._digests:
            self._digests[id(tool)] = (tool, digest_of(tool.protocol))
        return self._digests[id(tool)][1]

    def _misfit(self, tool: Tool) -> str:
        assert tool.kept is not None
        where = tool.protocol.source.location or tool.name
        for name, inner in tool.inner.items():
            if inner.kept is not None and (problem := self.misfit(inner)):
                return f"{where}: it calls {name!r}, which is left out: {problem}"
        shape = _shape(tool.kept.program)
        inputs = tuple(each.name for each in parameters_of(tool.protocol))
        known = {*tool.inner, *(used.name for used in tool.kept.uses), *inputs, *_KNOWN}
        unnamed = [name for name in shape.reads if name not in known]
        unnamed += [name for name in shape.of_classes if name in self._tools and name not in known]
        if shape.problem:
            return f"{where}: {shape.problem}"
        if unnamed:
            return (
                f"{where}: its program uses {unnamed[0]!r:.80}, which its header does not name: neither `uses` nor "
                "`parameters` has it, and it is no name that every program has"
            )
        digests = {used.name: used.digest for used in tool.kept.uses}
        changed = [name for name, each in tool.inner.items() if self._digest(each) != digests.get(name)]
        if changed and (found := _check(tool, inputs)):
            they = "has" if len(changed) == 1 else "have"
            return (
                f"{where} does not fit any more, for {', '.join(changed)} {they} changed: {found}: keep the run again"
            )
        return ""


def _check(tool: Tool, inputs: tuple[str, ...]) -> str:
    assert tool.kept is not None
    protocols = [each.protocol.model_copy(update={"name": name}) for name, each in tool.inner.items()]
    errors = (f for f in Checker(protocols).check(Program(tool.kept.program), inputs=inputs) if f.severity == "error")
    return next(map(finding, errors), "")


@dataclass(frozen=True)
class _Shape:
    """Says what the text of a kept program is.

    Attributes:
        reads: the names that it reads and does not bind, as Python's compiler sees them.
        of_classes: the names that a class in it both reads and binds: until it does, the class reads them from outside.
    """

    problem: str = ""
    reads: tuple[str, ...] = ()
    of_classes: tuple[str, ...] = ()


@lru_cache(maxsize=1_000)
def _shape(source: str) -> _Shape:
    program = Program(source)
    try:
        unfit = unfit_constructs(program)
        whole = symtable.symtable(source, "program", "exec")
    except NotParsed as error:
        return _Shape(f"line {error.line} of its program: {error.message}" if error.line else error.message)
    except SyntaxError as error:
        return _Shape(f"line {error.lineno or 0} of its program: {error.msg}")
    if unfit:
        first = unfit[0]
        return _Shape(f"line {first.line} of its program: a kept program has no {first.construct}: keep another run")
    bound = {each.get_name() for each in whole.get_symbols() if _binds(each)}
    reads, of_classes = dict[str, None](), dict[str, None]()
    tables = [whole]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for each in table.get_symbols():
            if each.is_referenced() and (name := each.get_name()) not in bound:
                if each.is_global() or table is whole:
                    reads[name] = None
                elif table.get_type() == "class" and not each.is_free():
                    of_classes[name] = None
    return _Shape("" if program.sets_answer else "its program never sets `answer`", tuple(reads), tuple(of_classes))


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()

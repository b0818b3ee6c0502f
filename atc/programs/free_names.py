"""Give variables of a program other names, where a parameter of the tool that it is kept as has theirs.

Every place of such a name is renamed to a name that stands nowhere in the program, or none is: so no scope has to be
known. Whatever else Python lets a name mean (a function's, an import's, an attribute of a class, what a caller names an
argument by) keeps it as it is.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass

from atc.programs.edits import Edit, Rewrite, apply
from atc.programs.lifting import bound_elsewhere, bound_names
from atc.programs.program import Program
from atc.programs.tool_parameters import Known, ToolParameters
from atc.sandboxes.inputs import name_problem

_SEES_NAMES = frozenset({"locals", "globals", "vars", "dir", "eval", "exec"})


@dataclass(frozen=True)
class FreeNames:
    """Describes how names become free.

    Attributes:
        renamed: the new name of each variable, by its own.
        edits: of the program's text.
    """

    renamed: dict[str, str]
    edits: tuple[Edit, ...] = ()


def free_names(wanted: Iterable[str], program: Program, tools: Container[str], taken: Collection[str]) -> FreeNames:
    """Return how those of some names become free that variables of a program have.

    Args:
        wanted: names. Those that cannot become free are left out.
        program: it parses.
        tools: the names of its tools.
        taken: names that no variable may have: of inputs, and of other parameters.
    """
    bound, fixed = bound_names(program), bound_elsewhere(program, arguments=False)
    names = {each for node in program.nodes for each in _names_in(node)} | bound | {*taken}
    renamed: dict[str, str] = {}
    edits: list[Edit] = []
    for name in dict.fromkeys(wanted):
        if name not in bound or name in fixed or not _is_movable(name, program, tools, bound):
            continue
        new = other_name(name, names, tools)
        made = [*_edits(program, name, new)]
        if _only_renames(program, made, name, new):
            renamed[name] = new
            names.add(new)
            edits += made
    return FreeNames(renamed, tuple(edits))


def names_in_use(program: Program, known: Known, found: ToolParameters) -> list[str]:
    """Return the names of parameters that the program has something of its own for."""
    own = {place.variable for place, name in found.places if place.statement is not None and place.variable == name}
    inputs = {*known.inputs} - {*found.renamed.values()}
    taken = bound_names(program) - own - inputs
    return [each.name for each in found.lifted if each.name in taken]


def name_problems(program: Program, known: Known, found: ToolParameters, freed: Container[str] = ()) -> dict[str, str]:
    """Return why parameters cannot have their names, by name.

    Args:
        program: whose parameters they are.
        known: of its run.
        found: the parameters.
        freed: names that the program's own variables have no more.
    """
    names = [each.name for each in found.lifted]
    counted = Counter(names)
    problems_of = {name: "two parameters have it" for name in names if counted[name] > 1}
    elsewhere = bound_elsewhere(program) if found.renamed else set()
    for before, name in found.renamed.items():
        if before in elsewhere:  # which of them the program means is told by Python's scopes
            problems_of[name] = (
                f"the program has a variable {before!r} of its own beside what it was given: keep that name"
            )
    in_use = {*names_in_use(program, known, found)}
    bound = {*names, *known.inputs, *bound_names(program)} if in_use else set()
    for name in names:
        if problem := name_problem(name, known.protocols):
            problems_of[name] = problem
        elif name in in_use and name not in freed:
            other = other_name(name, bound, known.protocols)
            problems_of[name] = f"the program has a variable {name!r} of its own: take another name, such as {other}"
    return problems_of


def other_name(name: str, taken: Container[str], tools: Container[str]) -> str:
    """Return a name like one that is taken: ``city_2``."""
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in numbered if each not in taken and not name_problem(each, tools))


def _names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def _is_movable(name: str, program: Program, tools: Container[str], bound: Container[str]) -> bool:
    """Return whether nothing but variables and arguments means a name, and nobody names an argument by it."""
    if name_problem(name, tools) or hasattr(builtins, name):
        return False
    is_argument = any(isinstance(node, ast.arg) and node.arg == name for node in program.nodes)
    for node in program.nodes:
        if isinstance(node, ast.Name) and node.id in _SEES_NAMES:
            return False
        if is_argument and isinstance(node, ast.Call) and any(each.arg in (name, None) for each in node.keywords):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called not in tools or called in bound:
                return False
    return True


def _edits(program: Program, name: str, new: str) -> Iterator[Edit]:
    for node in program.nodes:
        if isinstance(node, ast.Name | ast.arg) and name in _names_in(node):
            line, column = node.lineno, node.col_offset
            yield Edit((line, column), (line, column + len(name.encode())), new)


def _only_renames(program: Program, edits: list[Edit], name: str, new: str) -> bool:
    """Return whether edits do just what they should: a text such as ``f"{city=}"`` would become another."""
    made, done = apply(program, [Rewrite("free_names", "", tuple(edits))])
    if not done or len(made.nodes) != len(program.nodes):
        return False
    return all(_shape(one, name, new) == _shape(other) for one, other in zip(program.nodes, made.nodes, strict=True))


def _shape(node: ast.AST, name: str = "", new: str = "") -> list[object]:
    """Return what a node says itself, with a name in the place of another."""
    made: list[object] = [type(node)]
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            made.append([type(each) if isinstance(each, ast.AST) else each for each in value])
        elif isinstance(value, ast.AST):
            made.append(type(value))
        else:
            is_name = field in ("id", "arg") and isinstance(node, ast.Name | ast.arg) and value == name
            made.append((type(value), repr(new if is_name and name else value)))
    return made

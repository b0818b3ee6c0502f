"""Repair what small models get wrong in the frame of a program.

Only the frame: where the answer is set, and stubs that were copied along. What the program computes is left alone.
Lines keep their numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator

from atc._host.syntax import walk
from atc.programs.edits import (
    Edit,
    RepairContext,
    Rewrite,
    append_line,
    blank,
    insert_after,
    lines_of,
    replace_to_line_end,
)
from atc.programs.program import Program
from atc.programs.syntax import calls_one_of
from atc.tools.paging import ALL_PAGES

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_RESULT_NAMES = ("result", "results", "final_answer", "final_result", "output", "response", "ans")


def drop_copies(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Drop stubs that were copied along, and imports of tools."""
    tree = program.module
    alone, used = _alone_in(tree), _names_in_use(tree, context.protocols)
    for node in tree.body:
        if node in alone and (reason := _dead_weight(node, used, context.protocols)):
            edits = blank(program, lines_of(node))
            yield Rewrite("copied-stubs", f"line {node.lineno}: {reason}", edits)


def take_return(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Make ``return x`` at the top level ``answer = x``; what stands after it would never have run."""
    tree = program.module
    alone = _alone_in(tree)
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.Return) and node.value is not None and node in alone:
            after = blank(program, (line for later in tree.body[index + 1 :] for line in lines_of(later)))
            edits = (_as_answer(program, node, node.value), *after)
            yield Rewrite("return-as-answer", f"line {node.lineno}: took `return` as the answer", edits)
            return


def call_function(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Call a function for the answer, if it does all the work and nothing calls it."""
    tree, name = program.module, None
    if _answer_is_an_uncalled_function(tree):
        name = "answer"
    elif not program.sets_answer:
        name = _uncalled_function(tree, context.protocols)
    if name is not None:
        edit = append_line(program, f"answer = {name}()")
        yield Rewrite("uncalled-function", f"called {name}() for the answer", (edit,))


def take_last_expression(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Take what the last statement shows or prints as the answer."""
    last = _last(program.module)
    if not program.sets_answer and isinstance(last, ast.Expr) and (value := _shown(last.value)) is not None:
        note = f"line {last.lineno}: took the last expression as the answer"
        yield Rewrite("last-expression", note, (_as_answer(program, last, value),))


def collect_prints(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Take the list of what a program prints, if it prints its answer bit by bit, in loops and branches.

    Texts that only announce what follows (``print("Hotels:")``) are left out.
    """
    tree = program.module
    functions = (node for function in tree.body if isinstance(function, _FUNCTIONS) for node in walk(function))
    named = _last_variable(tree)
    if program.sets_answer or named in _RESULT_NAMES or any(map(_prints, functions)):
        return
    printed = [node for node in program.nodes if _prints(node) and _alone_on_its_lines(node, program.lines)]
    shown = {node: _printed(node) for node in printed if isinstance(node, ast.Expr)}
    first = next((index for index, node in enumerate(tree.body) if any(part in shown for part in walk(node))), 0)
    before = tree.body[first - 1] if first else None
    if before is None or not any(shown.values()) or hasattr(before, "body") or isinstance(before, ast.Match):
        return  # there is no line to begin the list on
    edits = [insert_after(before, "; answer = []")]
    for node, value in shown.items():
        edits.append(replace_to_line_end(program, node, f"answer.append({value})" if value else "pass"))
    yield Rewrite("printed-answer", "took what is printed as the answer", tuple(edits))


def take_last_variable(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Take what the program assigns last as the answer."""
    name = _last_variable(program.module)
    if name is not None and not program.sets_answer:
        yield Rewrite("last-variable", f"took {name} as the answer", (append_line(program, f"answer = {name}"),))


def _answer_is_an_uncalled_function(tree: ast.Module) -> bool:
    """Return whether there is ``def answer(): …`` and nothing else of that name."""
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "answer"]
    if len(defined) != 1:
        return False
    outside = {
        n.id for statement in tree.body if statement not in defined for n in walk(statement) if isinstance(n, ast.Name)
    }
    return "answer" not in outside and _needs_nothing(defined[0])


def _alone_in(tree: ast.Module) -> set[ast.stmt]:
    """Return the statements on whose lines no other one stands: they come in order, so that only neighbours count."""
    ends = [0, *(node.end_lineno or node.lineno for node in tree.body)]
    begins = [*(node.lineno for node in tree.body[1:]), sys.maxsize]
    return {
        node
        for node, before, after in zip(tree.body, ends, begins, strict=False)
        if before < node.lineno and (node.end_lineno or node.lineno) < after
    }


def _dead_weight(node: ast.stmt, used: Collection[str], tools: Collection[str]) -> str | None:
    given = {*tools, "ToolError", "parallel", ALL_PAGES, "*"}
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in tools and _computes_nothing(node):
            return f"dropped a copy of {name}"
        case ast.ClassDef(name=name) if _is_typed_dict(node) and name not in used:
            return f"dropped a copy of {name}"
        case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] not in sys.stdlib_module_names:
            if all(alias.name in given and alias.asname in (None, alias.name) for alias in names):
                return f"dropped an import of tools from {module}"
        case ast.Import(names=names) if all(alias.name in tools and not alias.asname for alias in names):
            if not any(alias.name in sys.stdlib_module_names for alias in names):
                return "dropped an import of tools"
    return None


def _computes_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a stub: a docstring, ``...``, ``pass``, ``raise``, or a response that was made up.
    One that computes something is the program's own, whatever it is called.
    """
    return all(
        isinstance(node, ast.Pass | ast.Raise)
        or (isinstance(node, ast.Expr | ast.Return) and (node.value is None or _is_literal(node.value)))
        for node in function.body
    )


def _is_literal(node: ast.expr) -> bool:
    plain = ast.Constant | ast.Dict | ast.List | ast.Tuple | ast.Set | ast.UnaryOp | ast.expr_context | ast.unaryop
    return all(isinstance(part, plain) for part in walk(node))


def _is_typed_dict(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "TypedDict" for b in node.bases)


def _names_in_use(tree: ast.Module, tools: Collection[str]) -> set[str]:
    """Return the names that the program itself needs; copied stubs do not count, they go."""
    own = [n for n in tree.body if not _is_typed_dict(n) and getattr(n, "name", None) not in tools]
    return {n.id for statement in own for n in walk(statement) if isinstance(n, ast.Name)}


def _last(tree: ast.Module) -> ast.stmt | None:
    """Return the last statement; of a main guard, the last inside it."""
    last = tree.body[-1] if tree.body else None
    return last.body[-1] if isinstance(last, ast.If) and _is_main_guard(last) else last


def _last_variable(tree: ast.Module) -> str | None:
    """Return the variable that the last statement assigns."""
    last = _last(tree)
    named = last.targets[0] if isinstance(last, ast.Assign) else None
    return named.id if isinstance(named, ast.Name) else None


def _prints(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "print"
    )


def _alone_on_its_lines(node: ast.AST, lines: list[str]) -> bool:
    first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or 1) - 1].encode()  # type: ignore[attr-defined]
    around = first[: node.col_offset] + last[node.end_col_offset :].split(b"#")[0]  # type: ignore[attr-defined]
    return not around.strip()


def _printed(node: ast.Expr) -> str:
    """Return what a ``print`` shows beside announcements, as an expression; empty where it is nothing."""
    assert isinstance(node.value, ast.Call)
    shown = [ast.unparse(arg) for arg in node.value.args if not isinstance(arg, ast.Constant)]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]" if shown else ""


def _shown(value: ast.expr) -> ast.expr | None:
    """Return what a last expression shows: itself, or what it prints last. Nothing that would leave a call out."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        if not value.args or any(isinstance(n, ast.Call | ast.Starred) for arg in value.args[:-1] for n in walk(arg)):
            return None
        value = value.args[-1]
    return None if isinstance(value, ast.Constant | ast.Starred) else value


def _uncalled_function(tree: ast.Module, tools: Collection[str]) -> str | None:
    """Return the one function without required parameters that holds the tool calls and that nothing mentions."""
    mentioned = {n.id for n in walk(tree) if isinstance(n, ast.Name)}
    found = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name not in mentioned
        and not node.decorator_list
        and _needs_nothing(node)
        and any(isinstance(n, ast.Return) and n.value is not None for n in walk(node))
    ]
    loose = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return found[0] if len(found) == 1 and not any(calls_one_of(node, tools) for node in loose) else None


def _needs_nothing(function: ast.FunctionDef) -> bool:
    """Return whether it can be called without arguments."""
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional == len(arguments.defaults) and all(default is not None for default in arguments.kw_defaults)


def _is_main_guard(node: ast.If) -> bool:
    return (
        isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"
    )


def _as_answer(program: Program, node: ast.stmt, value: ast.expr) -> Edit:
    """Put ``answer = value`` in the place of a statement; what stands before it on its line stays."""
    return replace_to_line_end(program, node, f"answer = {ast.unparse(value)}")

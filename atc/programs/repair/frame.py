"""Mend what small models get wrong in the frame of a program, by rule, before it is checked.

Only the frame: where the answer is set, and stubs that were copied along. What the program computes is left alone.
Every mend is noted. Lines keep their numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection
from dataclasses import dataclass

from atc.programs.program import NotParsed, parse
from atc.programs.syntax import calls_one_of, sets_answer
from atc.tools.paging import ALL_PAGES

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_RESULT_NAMES = ("result", "results", "final_answer", "final_result", "output", "response", "ans")


@dataclass(frozen=True)
class Mended:
    """A program and what was done to it."""

    source: str
    notes: tuple[str, ...]


def mend(source: str, tools: Collection[str]) -> Mended:
    """Return ``source`` with its frame mended; unchanged if it does not parse for another reason.

    Copied stubs and imports of tools are dropped; a top-level ``return x`` becomes ``answer = x``; where no answer is
    set, it is taken from the program's own end: a function that is never called, a last ``print(x)`` or expression,
    a variable with a telling name, all that it prints, or else what it assigns last.
    """
    try:
        tree = parse(source)
    except NotParsed:
        return Mended(source, ())
    lines, notes = source.split("\n"), []
    for node in list(tree.body):
        if not _alone(node, tree):
            continue
        if reason := _dead_weight(node, tree, tools):
            _blank(lines, node)
            tree.body.remove(node)
            notes.append(f"line {node.lineno}: {reason}")
        elif isinstance(node, ast.Return) and node.value is not None:
            _replace(lines, node, node.value)
            for after in tree.body[tree.body.index(node) + 1 :]:  # it would never have run
                _blank(lines, after)
            return Mended("\n".join(lines), (*notes, f"line {node.lineno}: took `return` as the answer"))
    if _answer_is_an_uncalled_function(tree):
        lines.append("answer = answer()")
        notes.append("called answer() for the answer")
    elif not sets_answer(tree):
        notes += _set_answer(tree, lines, tools)
    return Mended("\n".join(lines), tuple(notes))


def _answer_is_an_uncalled_function(tree: ast.Module) -> bool:
    """``def answer(): …`` and nothing else of that name."""
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "answer"]
    outside = {
        n.id
        for statement in tree.body
        if statement not in defined
        for n in ast.walk(statement)
        if isinstance(n, ast.Name)
    }
    return len(defined) == 1 and "answer" not in outside and _needs_nothing(defined[0])


def _alone(node: ast.stmt, tree: ast.Module) -> bool:
    """Whether no other statement stands on its lines."""
    first, last = node.lineno, node.end_lineno or node.lineno
    return not any(n is not node and n.lineno <= last and (n.end_lineno or 0) >= first for n in tree.body)


def _dead_weight(node: ast.stmt, tree: ast.Module, tools: Collection[str]) -> str | None:
    given = {*tools, "ToolError", "parallel", ALL_PAGES, "*"}
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in tools:
            return f"dropped a copy of {name}"
        case ast.ClassDef(name=name) if _is_typed_dict(node) and not _is_used(name, tree, tools):
            return f"dropped a copy of {name}"
        case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] not in sys.stdlib_module_names:
            if all(alias.name in given and alias.asname in (None, alias.name) for alias in names):
                return f"dropped an import of tools from {module}"
        case ast.Import(names=names) if all(alias.name in tools and not alias.asname for alias in names):
            if not any(alias.name in sys.stdlib_module_names for alias in names):
                return "dropped an import of tools"
    return None


def _is_typed_dict(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "TypedDict" for b in node.bases)


def _is_used(name: str, tree: ast.Module, tools: Collection[str]) -> bool:
    """Whether the program itself needs a class; other copied stubs do not count, they go too."""
    own = [n for n in tree.body if not _is_typed_dict(n) and getattr(n, "name", None) not in tools]
    return any(isinstance(n, ast.Name) and n.id == name for statement in own for n in ast.walk(statement))


def _set_answer(tree: ast.Module, lines: list[str], tools: Collection[str]) -> list[str]:
    uncalled = _uncalled_function(tree, tools)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.If) and _is_main_guard(last):
        last = last.body[-1]
    if uncalled is not None:
        lines.append(f"answer = {uncalled}()")
        return [f"called {uncalled}() for the answer"]
    if isinstance(last, ast.Expr) and (value := _shown(last.value)) is not None:
        _replace(lines, last, value)
        return [f"line {last.lineno}: took the last expression as the answer"]
    named = last.targets[0] if isinstance(last, ast.Assign) else None
    if not (isinstance(named, ast.Name) and named.id in _RESULT_NAMES) and (notes := _collect_prints(tree, lines)):
        return notes
    if isinstance(named, ast.Name):
        lines.append(f"answer = {named.id}")
        return [f"took {named.id} as the answer"]
    return []


def _collect_prints(tree: ast.Module, lines: list[str]) -> list[str]:
    """Where a program prints its answer bit by bit, in loops and branches: the list of what it prints.

    Texts that only announce what follows (``print("Hotels:")``) are left out.
    """
    if any(_prints(node) for function in tree.body if isinstance(function, _FUNCTIONS) for node in ast.walk(function)):
        return []
    printed = [node for node in ast.walk(tree) if _prints(node) and _alone_on_its_lines(node, lines)]
    said = {node: _told(node) for node in printed if isinstance(node, ast.Expr)}
    first = next((index for index, node in enumerate(tree.body) if any(part in said for part in ast.walk(node))), 0)
    before = tree.body[first - 1] if first else None
    if before is None or not any(said.values()) or hasattr(before, "body") or isinstance(before, ast.Match):
        return []  # there is no line to begin the list on
    for node, told in said.items():
        indent = lines[node.lineno - 1][: node.col_offset]
        _blank(lines, node)
        lines[node.lineno - 1] = indent + (f"answer.append({told})" if told else "pass")
    line, end = (before.end_lineno or 1) - 1, before.end_col_offset or 0
    text = lines[line].encode()
    lines[line] = f"{text[:end].decode()}; answer = []{text[end:].decode()}"
    return ["took what is printed as the answer"]


def _prints(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"
    )  # fmt: skip


def _alone_on_its_lines(node: ast.AST, lines: list[str]) -> bool:
    first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or 1) - 1].encode()  # type: ignore[attr-defined]
    around = first[: node.col_offset] + last[node.end_col_offset :].split(b"#")[0]  # type: ignore[attr-defined]
    return not around.strip()


def _told(node: ast.Expr) -> str:
    """What a ``print`` tells beside announcements, as an expression; empty where it is nothing."""
    assert isinstance(node.value, ast.Call)
    told = [ast.unparse(arg) for arg in node.value.args if not isinstance(arg, ast.Constant)]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def _shown(value: ast.expr) -> ast.expr | None:
    """What a last expression shows: itself, or what it prints last. Nothing that would leave a call out."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        if not value.args or any(
            isinstance(n, ast.Call | ast.Starred) for arg in value.args[:-1] for n in ast.walk(arg)
        ):
            return None
        value = value.args[-1]
    return None if isinstance(value, ast.Constant | ast.Starred) else value


def _uncalled_function(tree: ast.Module, tools: Collection[str]) -> str | None:
    """The one function without required parameters that holds the tool calls and that nothing mentions."""
    mentioned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    found = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name not in mentioned
        and not node.decorator_list
        and _needs_nothing(node)
        and any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
    ]
    loose = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return found[0] if len(found) == 1 and not any(calls_one_of(node, tools) for node in loose) else None


def _needs_nothing(function: ast.FunctionDef) -> bool:
    """Whether it can be called without arguments."""
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional == len(arguments.defaults) and all(default is not None for default in arguments.kw_defaults)


def _is_main_guard(node: ast.If) -> bool:
    return (
        isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"
    )


def _blank(lines: list[str], node: ast.stmt) -> None:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    for index in range(first - 1, node.end_lineno or node.lineno):
        lines[index] = ""


def _replace(lines: list[str], node: ast.stmt, value: ast.expr) -> None:
    """Put ``answer = value`` in the place of ``node``; what stands before it on its line stays."""
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    _blank(lines, node)
    lines[node.lineno - 1] = f"{before}answer = {ast.unparse(value)}"

"""Mend what small models get wrong in the frame of a program, by rule, before it is checked.

Only the frame: where the answer is set, and stubs that were copied along. What the program computes is left alone. Every
mend is noted. Lines keep their numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from atc.programs.extract import NotParsed, parse

_RESULT_NAMES = ("result", "results", "final_answer", "final_result", "output", "response", "ans")


@dataclass(frozen=True)
class Mended:
    """A program and what was done to it."""

    source: str
    notes: tuple[str, ...]


def mend(source: str, tools: Collection[str]) -> Mended:
    """Return ``source`` with its frame mended; unchanged if it does not parse for another reason.

    Copied stubs and imports of tools are dropped; a top-level ``return x`` becomes ``answer = x``; where no answer is set,
    it is taken from the program's own end: a function that is never called, a last ``print(x)`` or expression, or a
    variable with a telling name.
    """
    notes: list[str] = []
    try:
        tree = parse(source)
    except NotParsed:
        return Mended(source, ())
    lines = source.split("\n")
    for node in list(tree.body):
        if reason := _dead_weight(node, tools):
            _blank(lines, node)
            tree.body.remove(node)
            notes.append(reason)
        elif isinstance(node, ast.Return) and node.value is not None:
            _replace(lines, node, "answer = ", node.value)
            notes.append(f"line {node.lineno}: took `return` as the answer")
            return Mended("\n".join(lines), tuple(notes))
    if not _sets_answer(tree):
        notes += _set_answer(tree, lines, tools)
    return Mended("\n".join(lines), tuple(notes))


def _dead_weight(node: ast.stmt, tools: Collection[str]) -> str | None:
    if isinstance(node, ast.FunctionDef) and node.name in tools:
        return f"line {node.lineno}: dropped a copy of {node.name}"
    if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "TypedDict" for b in node.bases):
        return f"line {node.lineno}: dropped a copy of {node.name}"
    if isinstance(node, ast.ImportFrom) and node.names and all(alias.name in tools or alias.name == "*" for alias in node.names):
        return f"line {node.lineno}: dropped an import of the tools"
    if isinstance(node, ast.Import) and all(alias.name in tools for alias in node.names):
        return f"line {node.lineno}: dropped an import of the tools"
    return None


def _set_answer(tree: ast.Module, lines: list[str], tools: Collection[str]) -> list[str]:
    uncalled = _uncalled_function(tree, tools)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.If) and _is_main_guard(last) and last.body:
        last = last.body[-1]
    if uncalled is not None:
        lines.append(f"answer = {uncalled}()")
        return [f"called {uncalled}() for the answer"]
    if isinstance(last, ast.Expr):
        value = last.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print" and value.args:
            value = value.args[-1]
        if not isinstance(value, ast.Constant | ast.Starred):
            _replace(lines, last, "answer = ", value)
            return [f"line {last.lineno}: took the last expression as the answer"]
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name) and last.targets[0].id in _RESULT_NAMES:
        lines.append(f"answer = {last.targets[0].id}")
        return [f"took {last.targets[0].id} as the answer"]
    return []


def _uncalled_function(tree: ast.Module, tools: Collection[str]) -> str | None:
    """The one function without required parameters that holds the tool calls and that nothing calls."""
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    found = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name not in called
        and len(node.args.args) == len(node.args.defaults)
        and any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
    ]
    return found[0] if len(found) == 1 and not called & set(tools) & _top_level_calls(tree) else None


def _top_level_calls(tree: ast.Module) -> set[str]:
    loose = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {n.func.id for node in loose for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _is_main_guard(node: ast.If) -> bool:
    return isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"


def _sets_answer(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "answer" and not isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def _blank(lines: list[str], node: ast.stmt) -> None:
    for index in range(node.lineno - 1, node.end_lineno or node.lineno):
        lines[index] = ""


def _replace(lines: list[str], node: ast.stmt, prefix: str, value: ast.expr) -> None:
    """Put ``prefix`` and the text of ``value`` in the place of ``node``."""
    text = ast.unparse(value)
    indent = lines[node.lineno - 1][: node.col_offset]
    _blank(lines, node)
    lines[node.lineno - 1] = indent + prefix + text

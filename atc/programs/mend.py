"""Mend what small models get wrong in the frame of a program, by rule, before it is checked.

Only the frame: where the answer is set, and stubs that were copied along. What the program computes is left alone.
Every mend is noted. Lines keep their numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection
from dataclasses import dataclass

from atc.programs.extract import NotParsed, parse
from atc.programs.syntax import calls_one_of, sets_answer

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
    or a variable with a telling name.
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
    given = {*tools, "ToolError", "parallel", "*"}
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
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name) and last.targets[0].id in _RESULT_NAMES:
        lines.append(f"answer = {last.targets[0].id}")
        return [f"took {last.targets[0].id} as the answer"]
    return []


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

"""The names of a program: which it binds, and which one a name that is nowhere bound can only mean."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections.abc import Collection, Iterator

BUILTINS = frozenset(dir(builtins))


def bound_names(tree: ast.AST) -> set[str]:
    """All names that a program gives a meaning, wherever it does."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=renamed):
                found.add(renamed or name.split(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found


def misspelt(tree: ast.AST, tools: Collection[str]) -> Iterator[tuple[ast.Name, str]]:
    """Names that nothing binds, each with the one bound name or tool that differs in case and underscores alone.

    What is called is a tool or a function of the program's own. Nothing is sure where a module gave all its names.
    """
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.alias) and node.name == "*" for node in nodes):
        return
    bound = bound_names(tree) | {*tools}
    callable_ = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)} | {*tools}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound | BUILTINS:
            meant = callable_ if id(node) in called else bound
            alike = [name for name in meant if plain(name) == plain(node.id)]
            if len(alike) == 1:
                yield node, alike[0]


def nearest(name: str, tree: ast.AST, tools: Collection[str]) -> str | None:
    """What a name that nothing binds may have been meant to be: a tool where it is called, else a variable."""
    called = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(tree)
    )
    candidates = [*tools] if called else sorted(bound_names(tree) - {name})
    near = difflib.get_close_matches(name, candidates, 1, 0.6)
    return near[0] if near else None


def plain(name: str) -> str:
    """A name without case and underscores: ``productId`` and ``product_id`` are alike."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

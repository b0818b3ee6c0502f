"""Python's own parser, where several threads parse, and the nodes of what it returns."""

from __future__ import annotations

import ast

_TRIES = 20


def syntax_tree(source: str) -> ast.Module:
    """Parse a module's text. On the host's side nothing else calls Python's parser.

    CPython 3.11 counts the nesting of a tree for all threads together (mended in 3.11.8): where another thread parses
    in the same moment, a right text may be refused with a ``SystemError``. So it is tried again.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`.
        SystemError: other threads parse without a pause.
    """
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, as :func:`ast.iter_child_nodes` yields them."""
    found: list[ast.AST] = []
    for name in node._fields:
        part = getattr(node, name, None)
        if isinstance(part, ast.AST):
            found.append(part)
        elif isinstance(part, list):
            found += [each for each in part if isinstance(each, ast.AST)]
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, in the order of :func:`ast.walk`, in half its time: programs are walked often."""
    found = [node]
    for each in found:
        found += child_nodes(each)
    return found

"""Python's own parser, where several threads parse."""

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

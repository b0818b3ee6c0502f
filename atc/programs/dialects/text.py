"""A program's nodes and the text between them, as the dialects need both to keep every line where it is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection
from functools import cached_property

from atc.programs.program import Program
from atc.programs.repair.edits import Edit, Position
from atc.programs.syntax import binds


class Text:
    """What a dialect looks at in a program that parses.

    Args:
        program: the program.
        known: names that stand in its scope before it runs, but for the tools': its inputs.

    Attributes:
        nodes: all nodes of its tree.
        binders: how often the program gives each name a meaning, its inputs counted too.
    """

    def __init__(self, program: Program, known: Collection[str]) -> None:
        self.nodes = program.nodes
        self.binders = Counter([*known, *(name for node in self.nodes for name in binds(node))])
        self.starred = any(isinstance(node, ast.alias) and node.name == "*" for node in self.nodes)
        self._lines = [line.encode() for line in program.lines]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def uses(self) -> dict[str, list[ast.Name]]:
        """Where each name stands."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

    def line_from(self, node: ast.expr | ast.stmt) -> str:
        """The rest of the line on which a node begins."""
        return self._lines[node.lineno - 1][node.col_offset :].decode()

    def between(self, start: Position, end: Position) -> str:
        """The text between two places."""
        (first, left), (last, right) = start, end
        if first == last:
            return self._lines[first - 1][left:right].decode()
        whole = [self._lines[first - 1][left:], *self._lines[first : last - 1], self._lines[last - 1][:right]]
        return b"\n".join(whole).decode()

    def put(self, start: Position, end: Position, text: str, after: str = "") -> Edit:
        """Put a text in the place of what stands between two places; ``after`` stands behind its line ends, which
        stay."""
        return Edit(start, end, text + "\n" * (end[0] - start[0]) + after)

    def behind(self, at: Position, end: Position, sign: str) -> Position | None:
        """The place behind a sign that comes next, with blanks alone before it; ``None`` if something else does."""
        found = self.between(at, end)
        before, met, _ = found.partition(sign)
        if not met or before.strip():
            return None
        line = at[0] + before.count("\n")
        column = len(before.rpartition("\n")[2].encode()) + len(sign)
        return line, column if line > at[0] else at[1] + column

"""The names of a program: which it binds, and which one a name that is nowhere bound can only mean."""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from atc.programs.syntax import binds, names_in, reads_one_of
from atc.schemas.repair.spelling import spelling_key
from atc.tools.paging import ALL_PAGES

GIVEN = frozenset({*dir(builtins), "ToolError", "parallel", ALL_PAGES})
"""Names that every program finds in its scope."""
_BINDERS = frozenset({"globals", "vars", "exec"})
"""By these a program may bind names that stand nowhere in it."""
MOST_HINTS, MOST_CANDIDATES = 20, 1_000
"""Of unknown names that are compared with the known ones, and of these: a hostile program has thousands of both."""


class Names:
    """The names of one program.

    Args:
        tree: the program.
        tools: the names of the tools.
        inputs: the names of the values that stand in its scope before it runs.
    """

    def __init__(self, tree: ast.AST, tools: Collection[str], inputs: Collection[str] = ()) -> None:
        nodes = list(ast.walk(tree))
        self._tree = tree
        self._tools = frozenset(tools)
        self._bound = {*inputs, *(name for node in nodes for name in binds(node))}
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._starred = any(isinstance(node, ast.alias) and node.name == "*" for node in nodes)
        known = self._bound | self._tools | GIVEN
        self._unknown = [
            node
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known
        ]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._called = {id(node): id(node) in called for node in self._unknown}
        self._hints: dict[str, str | None] = {}

    def misspelt(self) -> Iterator[tuple[ast.Name, str]]:
        """Names that nothing binds, each with the one bound name or tool that differs in case and underscores alone.

        What is called is a tool or a function of the program's own. Nothing is sure where a module gave all its names.
        """
        if not self._unknown or self._starred:
            return
        callable_, any_ = _by_spelling(self._functions | self._tools), _by_spelling(self._bound | self._tools)
        for node in self._unknown:
            alike = (callable_ if self._called[id(node)] else any_).get(spelling_key(node.id), [])
            if len(alike) == 1 and spelling_key(node.id):
                yield node, alike[0]

    def nowhere(self) -> Iterator[ast.Name]:
        """Names that a run looks up and that nothing binds; none where a program may bind names in ways unseen.

        Left out are ``answer``, which the program lacks as a whole then, and names that Python itself gives a scope.
        """
        if not self._unknown or self._starred or reads_one_of(self._tree, _BINDERS):
            return
        read = _looked_up(self._tree)
        for node in self._unknown:
            if node in read and node.id != "answer" and not (node.id.startswith("__") and node.id.endswith("__")):
                yield node

    def nearest(self, name: str) -> str | None:
        """What a name that nothing binds may have been meant to be: a tool where it is called, else a variable."""
        if name not in self._hints and len(self._hints) < MOST_HINTS:
            called = any(node.id == name and self._called[id(node)] for node in self._unknown)
            candidates = sorted(self._tools if called else self._bound - {name})[:MOST_CANDIDATES]
            self._hints[name] = next(iter(difflib.get_close_matches(name, candidates, 1, 0.6)), None)
        return self._hints.get(name)


def _by_spelling(names: Iterable[str]) -> Mapping[str, list[str]]:
    found = defaultdict(list)
    for name in names:
        found[spelling_key(name)].append(name)
    return found


def _looked_up(tree: ast.AST) -> set[ast.Name]:
    """The names that a run looks up: not those in annotations that nothing evaluates, nor where a ``try`` is ready for
    a ``NameError``.

    Annotations are all left behind ``from __future__ import annotations`` and from Python 3.14 on, and those of
    variables in functions always.
    """
    imports = (node for node in ast.iter_child_nodes(tree) if isinstance(node, ast.ImportFrom))
    futures = {alias.name for node in imports if node.module == "__future__" for alias in node.names}
    deferred = sys.version_info >= (3, 14) or "annotations" in futures
    found: set[ast.Name] = set()
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, local = todo.pop()
        if isinstance(node, ast.Name):
            found.add(node)
        local = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            local and not isinstance(node, ast.ClassDef)
        )
        left = {"annotation", "returns"} if deferred or (local and isinstance(node, ast.AnnAssign)) else set()
        if isinstance(node, ast.Try) and any("NameError" in names_in(handler) for handler in node.handlers):
            left.add("body")
        for field, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            todo += [(part, local) for part in parts if isinstance(part, ast.AST) and field not in left]
    return found

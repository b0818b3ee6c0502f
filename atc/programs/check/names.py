"""The names of a program: which it binds, and which one a name that is nowhere bound can only mean."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from atc.schemas.repair.spelling import spelling_key

BUILTINS = frozenset(dir(builtins))
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
        self._tools = frozenset(tools)
        self._bound = {*inputs, *(name for node in nodes for name in binds(node))}
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._starred = any(isinstance(node, ast.alias) and node.name == "*" for node in nodes)
        known = self._bound | self._tools | BUILTINS
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

    def binds(self, name: str) -> bool:
        """Whether the program gives a name a meaning somewhere."""
        return name in self._bound

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


def binds(node: ast.AST) -> list[str]:
    """The names that a node gives a meaning."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.alias(name=name, asname=renamed):
            return [renamed or name.split(".")[0]]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case _:
            return []

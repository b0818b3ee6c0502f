"""The static policy: what a program may not name or reach, decided node by node before it runs.

:class:`Policy` is RestrictedPython's transformer with nothing left to transform: it visits and decides, and the code
that runs is the code that was written. This is **not** the boundary (the jail is): it spares a run that would fail, and
keeps oddities out of programs. A name that is made at run time (``getattr(x, "__glob" + "als__")``) passes it. What the
jail does not have is :mod:`atc.programs.check.lacking`'s.

From RestrictedPython come the rule that syntax is refused unless a ``visit_`` method knows it, the places where a
program binds a name, and the attributes that lead from an object to its frames and code. What it refuses beside that
is allowed here, as the jail allows it: names that begin with ``_``, ``counts[key] += 1``, annotated assignments,
``match``, ``async``, ``nonlocal``, ``except*``, metaclasses, star imports.
"""

from __future__ import annotations

import ast
from typing import Any

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

from atc.facts import Finding, FindingCase, FindingKind
from atc.programs.check.lacking import ASKS, RUNS_TEXT, lacking_findings, own_names

_BEHIND = """
__globals__ __code__ __closure__ __builtins__ __builtin__ __self__ __bases__ __base__ __mro__ __subclasses__
__loader__ __spec__ __import__ __build_class__
"""
_SYNTAX = """
AnnAssign Assign AugAssign For AsyncFor comprehension With AsyncWith Await Nonlocal Subscript TryStar
Match match_case MatchOr MatchSequence MatchSingleton MatchValue TypeAlias TypeVar ParamSpec TypeVarTuple
"""
BEHIND_OBJECTS = frozenset(_BEHIND.split())
"""Special names that lead from an object to code, namespaces, loaders or all classes. Every other one is open."""
_AS_WRITTEN = frozenset(_SYNTAX.split())
"""Syntax that the library rewrites or refuses, and about which there is nothing to decide here."""


def policy_findings(tree: ast.Module, *, packages: bool = False) -> list[Finding]:
    """The findings of the policy: ``forbidden_import``, ``forbidden_name`` and ``forbidden_syntax``.

    The tree is left as it is. Linear in its nodes, at any depth: nothing here calls itself.

    Args:
        tree: the program.
        packages: whether the jail may have more than the standard library.
    """
    policy = Policy(own_names(tree))
    for node in ast.walk(tree):
        policy.visit(node)
    return policy.findings + lacking_findings(tree, packages=packages)


class Policy(RestrictingNodeTransformer):
    """Decides about one node at a time: :meth:`visit` looks at neither its children nor its parent.

    Args:
        own: names that the program binds itself; they are no built-ins.

    Attributes:
        findings: of all nodes that were visited.
    """

    def __init__(self, own: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._own = own
        self.findings: list[Finding] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """Decide about this node; return it as it is."""
        if type(node).__name__ not in _AS_WRITTEN:
            super().visit(node)
        return node

    def error(self, node: ast.AST, info: str) -> None:
        """Record that the library refuses this node, by its type: ``info`` is a sentence and is not read."""
        self._refuse("forbidden_syntax", "", node, type(node).__name__)

    def warn(self, node: ast.AST, info: str) -> None:
        """Nothing: the library warns of what it makes of a program, and it makes nothing of it here."""

    def node_contents_visit(self, node: Any) -> Any:
        """Nothing: :func:`policy_findings` brings the children."""
        return node

    def inject_print_collector(self, node: Any, position: int = 0) -> None:
        """Nothing: ``print`` stays what it is."""

    def _refuse(self, kind: FindingKind, case: FindingCase, node: ast.AST, name: str) -> None:
        self.findings.append(Finding(kind=kind, case=case, name=name, line=getattr(node, "lineno", 0)))

    # -- names ---------------------------------------------------------------------------------------------------------

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:
        """Refuse a name that reaches behind objects, wherever a program binds or reads it."""
        if name in BEHIND_OBJECTS:
            self._refuse("forbidden_name", "dunder", node, name)

    def check_import_names(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        """Refuse such a name that is imported, or under which something is; modules are no matter of names."""
        for alias in node.names:
            self.check_name(node, alias.asname or alias.name)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != "__import__":  # by itself it imports, as the statement does
            self.check_name(node, node.id)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.check_name(node, node.name)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.check_name(node, node.name)
        self.check_function_argument_names(node)
        return node

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> ast.AST:
        self.check_name(node, node.name)
        return node

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        self.check_name(node, node.rest)
        return node

    # -- what is reached -----------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self._check_attribute(node, node.attr)
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        """Such a pattern reads attributes: ``case object(__dict__=found)``."""
        for name in node.kwd_attrs:
            self._check_attribute(node, name)
        return node

    def _check_attribute(self, node: ast.AST, name: str) -> None:
        if name in INSPECT_ATTRIBUTES:
            self._refuse("forbidden_name", "frames", node, name)
        else:
            self.check_name(node, name)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in (RUNS_TEXT | ASKS) - self._own:
            self._refuse("forbidden_name", "call", node, node.func.id)
        return node

"""The static policy: what a program may not import, name or reach, decided node by node before it runs.

:class:`Policy` is RestrictedPython's transformer with nothing left to transform: it visits and decides, and the code
that runs is the code that was written. This is **not** the boundary (the jail is): it spares a run that would fail, and
keeps oddities out of programs. A name that is made at run time (``getattr(x, "__glob" + "als__")``) passes it.

From RestrictedPython come the rule that syntax is refused unless a ``visit_`` method knows it, the places where a
program binds a name, and the attributes that lead from an object to its frames and code. What it refuses beside that
is allowed here, as the jail allows it: names that begin with ``_``, ``counts[key] += 1``, annotated assignments,
``match``, ``async``, ``nonlocal``, ``except*``, metaclasses, star imports.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

from atc.facts import Finding, FindingCase, FindingKind

_FORBIDDEN = """
os subprocess socket ctypes multiprocessing signal shutil pathlib tempfile ssl http ftplib smtplib telnetlib
importlib builtins gc marshal pickle shelve sqlite3 pty resource fcntl mmap code codeop runpy site webbrowser
tkinter turtle idlelib ensurepip venv distutils lib2to3 test
"""
_DUNDERS = """
__name__ __doc__ __class__ __init__ __post_init__ __str__ __repr__ __format__ __len__ __bool__ __hash__ __eq__ __ne__
__lt__ __le__ __gt__ __ge__ __iter__ __next__ __getitem__ __setitem__ __delitem__ __contains__ __missing__ __call__
__enter__ __exit__ __add__ __radd__ __sub__ __mul__ __truediv__ __neg__ __abs__ __slots__ __all__ __annotations__
"""
_SYNTAX = """
AnnAssign Assign AugAssign For AsyncFor comprehension With AsyncWith Await Nonlocal Subscript TryStar
Match match_case MatchOr MatchSequence MatchSingleton MatchValue TypeAlias TypeVar ParamSpec TypeVarTuple
"""
FORBIDDEN_MODULES = frozenset(_FORBIDDEN.split())
ALLOWED_MODULES = frozenset(sys.stdlib_module_names) - FORBIDDEN_MODULES
_ALLOWED_DUNDERS = frozenset(_DUNDERS.split())
_FORBIDDEN_CALLS = frozenset({"exec", "eval", "compile", "__import__", "open", "input", "breakpoint"})
_AS_WRITTEN = frozenset(_SYNTAX.split())
"""Syntax that the library rewrites or refuses, and about which there is nothing to decide here."""


def policy_findings(tree: ast.Module) -> list[Finding]:
    """The findings of the policy: ``forbidden_import``, ``forbidden_name`` and ``forbidden_syntax``.

    The tree is left as it is. Linear in its nodes, at any depth: nothing here calls itself.
    """
    policy = Policy()
    for node in ast.walk(tree):
        policy.visit(node)
    return policy.findings


class Policy(RestrictingNodeTransformer):
    """Decides about one node at a time: :meth:`visit` looks at neither its children nor its parent.

    Attributes:
        findings: of all nodes that were visited.
    """

    def __init__(self) -> None:
        super().__init__()
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
        """Refuse a name of Python's own machinery, wherever a program binds, reads or calls it."""
        if name is not None and name.startswith("__") and name.endswith("__") and name not in _ALLOWED_DUNDERS:
            self._refuse("forbidden_name", "dunder", node, name)

    def check_import_names(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        """Refuse a module that the jail does not have, and such a name under which something is imported."""
        names = [alias.name for alias in node.names]
        modules, bound = ([node.module or "."], names) if isinstance(node, ast.ImportFrom) else (names, [])
        for module in modules:
            if module.partition(".")[0] not in ALLOWED_MODULES:
                self._refuse("forbidden_import", "", node, module)
        for name in [*bound, *(alias.asname for alias in node.names)]:
            self.check_name(node, name)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
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
        if isinstance(node.func, ast.Name) and node.func.id in _FORBIDDEN_CALLS:
            self._refuse("forbidden_name", "call", node, node.func.id)
        return node

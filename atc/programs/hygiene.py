"""Hygiene before a run: imports that the jail does not have, and names that reach behind objects.

This is not the boundary (the jail is): it spares a run that would fail, and keeps oddities out of programs. The policy is
RestrictedPython's, told to let pass what honest programs need.
"""

from __future__ import annotations

import ast
import copy
import sys
from typing import Any

from RestrictedPython.transformer import RestrictingNodeTransformer

from atc.result import Finding

FORBIDDEN_MODULES = frozenset(
    "os subprocess socket ctypes multiprocessing signal shutil pathlib tempfile ssl http ftplib smtplib telnetlib "
    "importlib builtins gc marshal pickle shelve sqlite3 pty resource fcntl mmap code codeop runpy site webbrowser "
    "tkinter turtle idlelib ensurepip venv distutils lib2to3 test".split()
)
ALLOWED_MODULES = frozenset(sys.stdlib_module_names) - FORBIDDEN_MODULES
_ALLOWED_DUNDERS = {"__name__", "__init__", "__str__", "__repr__", "__len__", "__iter__", "__next__", "__eq__", "__lt__", "__hash__",
                    "__getitem__", "__contains__", "__enter__", "__exit__", "__call__", "__post_init__", "__doc__", "__class__"}  # fmt: skip
_FORBIDDEN_CALLS = {"exec", "eval", "compile", "__import__", "open", "input", "breakpoint"}


def hygiene(tree: ast.Module) -> list[Finding]:
    """The findings of the policy: ``forbidden_import`` and ``forbidden_name``."""
    found = [finding for node in ast.walk(tree) for finding in _imports(node)]
    policy = _Policy()
    policy.visit(copy.deepcopy(tree))  # it changes the tree that it visits
    return found + policy.findings


def _imports(node: ast.AST) -> list[Finding]:
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [node.module or "."]
    else:
        return []
    bad = [module for module in modules if module.split(".")[0] not in ALLOWED_MODULES]
    text = "the sandbox does not have the module {!r}: use the tools and the standard library"
    return [Finding(kind="forbidden_import", message=f"line {node.lineno}: {text.format(m)}", line=node.lineno) for m in bad]


class _Policy(RestrictingNodeTransformer):  # type: ignore[misc]
    """RestrictedPython's walk, for its errors only; what it would rewrite is thrown away."""

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Finding] = []

    def error(self, node: ast.AST, info: str) -> None:
        """Called for every breach."""
        line = getattr(node, "lineno", 0)
        self.findings.append(Finding(kind="forbidden_name", message=f"line {line}: {info}", line=line))

    def not_allowed(self, node: ast.AST) -> ast.AST:
        return self.node_contents_visit(node)  # type: ignore[no-any-return]

    def check_name(self, node: ast.AST, name: str | None, allow_magic_methods: bool = False) -> None:
        if name is not None and name.startswith("__") and name.endswith("__") and name not in _ALLOWED_DUNDERS:
            self.error(node, f"the name {name} reaches behind objects: programs do without it")

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.check_name(node, node.attr)
        return self.node_contents_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _FORBIDDEN_CALLS:
            self.error(node, f"{node.func.id}() is not for programs: use the tools")
        return self.node_contents_visit(node)

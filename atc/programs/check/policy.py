"""Hygiene before a run: imports that the jail does not have, and names that reach behind objects.

This is not the boundary (the jail is): it spares a run that would fail, and keeps oddities out of programs. The
attributes that lead from an object to its frames and code are RestrictedPython's list. The rest of its policy is not
used: it refuses much that honest programs do (names with an underscore, ``match``, ``async``, ``counts[key] += 1``).
"""

from __future__ import annotations

import ast
import sys

from RestrictedPython.transformer import INSPECT_ATTRIBUTES

from atc.result import Finding, FindingCase

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
FORBIDDEN_MODULES = frozenset(_FORBIDDEN.split())
ALLOWED_MODULES = frozenset(sys.stdlib_module_names) - FORBIDDEN_MODULES
_ALLOWED_DUNDERS = frozenset(_DUNDERS.split())
_FORBIDDEN_CALLS = {"exec", "eval", "compile", "__import__", "open", "input", "breakpoint"}


def hygiene(tree: ast.Module) -> list[Finding]:
    """The findings of the policy: ``forbidden_import`` and ``forbidden_name``."""
    return [finding for node in ast.walk(tree) for finding in (*_imports(node), *_names(node))]


def _imports(node: ast.AST) -> list[Finding]:
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [node.module or "."]
    else:
        return []
    bad = [module for module in modules if module.split(".")[0] not in ALLOWED_MODULES]
    return [Finding(kind="forbidden_import", name=module, line=node.lineno) for module in bad]


def _names(node: ast.AST) -> list[Finding]:
    case: FindingCase
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FORBIDDEN_CALLS:
        case, name = "call", node.func.id
    elif isinstance(node, ast.Attribute) and node.attr in INSPECT_ATTRIBUTES:
        case, name = "frames", node.attr
    elif (name := _written(node)).startswith("__") and name.endswith("__") and name not in _ALLOWED_DUNDERS:
        case = "dunder"
    else:
        return []
    return [Finding(kind="forbidden_name", case=case, name=name, line=getattr(node, "lineno", 0))]


def _written(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case _:
            return ""

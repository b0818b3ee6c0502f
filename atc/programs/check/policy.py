"""The static policy: what a program may not name or reach, decided node by node before it runs.

:class:`Policy` is RestrictedPython's transformer with nothing left to transform: it visits and decides, and the code
that runs is the code that was written. This is **not** the boundary (the jail is): it spares a run that would fail, and
keeps oddities out of programs. A name that is made at run time (``getattr(x, "__glob" + "als__")``) passes it. What the
jail does not have is at the beginning.

From RestrictedPython come the rule that syntax is refused unless a ``visit_`` method knows it, the places where a
program binds a name, and the attributes that lead from an object to its frames and code. What it refuses beside that
is allowed here, as the jail allows it: names that begin with ``_``, ``counts[key] += 1``, annotated assignments,
``match``, ``async``, ``nonlocal``, ``except*``, metaclasses, star imports.
"""

from __future__ import annotations

import ast
import builtins
import posixpath
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

from atc._host.syntax import child_nodes, walk
from atc._records.records import FindingCase, FindingKind
from atc.facts import Finding
from atc.programs.syntax import names_in

# ----------------------------------------------------------------------------------------------------------------------
# What a program uses that the jail does not have: packages, files, the network, other processes.
#
# The jail has the whole standard library: to import ``os`` harms nobody, and ``os.path.splitext`` only computes. So
# what is judged is what a program *uses* of a module, by the name that the import gives it, and an import by itself
# only where no such package is there. What a program is prepared for (``try: import numpy`` … ``except ImportError``)
# is left to the run. This is a courtesy, which spares a run that would fail; the boundary is the jail, which needs no
# such list. A module that is passed on (``getattr(os, name)``) is not followed.


RUNS_TEXT = frozenset({"exec", "eval", "compile"})
"""Built-ins that make code of text. The jail has them; but text from a tool is data, and becomes no code."""
ASKS = frozenset({"input", "breakpoint"})
"""Built-ins that wait for somebody at a terminal."""

_FILES = "os os.path pathlib shutil tempfile shelve fcntl"
_NETWORK = "socket ssl http http.client urllib.request ftplib smtplib imaplib poplib telnetlib webbrowser"
_PROCESSES = "subprocess multiprocessing pty"
_INSIDE = """
builtins ctypes gc importlib marshal code codeop runpy site mmap
tkinter turtle idlelib ensurepip venv distutils lib2to3
"""
LACKING: dict[str, FindingCase] = {
    **dict.fromkeys(_FILES.split(), "files"),
    **dict.fromkeys(_NETWORK.split(), "network"),
    **dict.fromkeys(_PROCESSES.split(), "processes"),
    **dict.fromkeys(_INSIDE.split(), "inside"),
}
"""Modules of the standard library that cannot do in the jail what they are for, and what they would need."""
_COMPUTES: dict[str, frozenset[str]] = {
    "os": frozenset("""
        path sep altsep extsep pathsep curdir pardir linesep devnull defpath name PathLike fspath fsencode fsdecode
        error strerror environ environb getenv getenvb getcwd getpid getppid cpu_count process_cpu_count urandom times
        uname SEEK_SET SEEK_CUR SEEK_END
    """.split()),
    "os.path": frozenset({*posixpath.__all__, "splitroot"})
    - frozenset("getsize getmtime getatime getctime samefile sameopenfile samestat".split()),
    "pathlib": frozenset("PurePath PurePosixPath PureWindowsPath Path PosixPath".split()),
    "http": frozenset({"HTTPStatus", "HTTPMethod", "client", "cookies"}),
    "http.client": frozenset({"responses", "HTTPException"}),
    "urllib.request": frozenset({"Request", "pathname2url", "url2pathname", "quote", "unquote", "urlparse"}),
    "socket": frozenset("inet_aton inet_ntoa inet_pton inet_ntop htons ntohs htonl ntohl AF_INET AF_INET6".split()),
    "multiprocessing": frozenset({"cpu_count"}),
    "builtins": frozenset(name for name in dir(builtins) if name[0] != "_") - RUNS_TEXT - ASKS - {"open"},
    "ctypes": frozenset(f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "gc": frozenset({"collect", "enable", "disable", "isenabled"}),
    "importlib": frozenset({"import_module"}),
}  # fmt: skip
"""The parts of these modules that only compute, and run in the jail as they do anywhere."""
_STARTS = ("exec", "spawn", "posix_spawn", "fork", "popen", "system", "kill", "wait")
"""Beginnings of the names by which ``os`` deals with processes."""
_PATH_METHODS = frozenset(
    """
read_text read_bytes write_text write_bytes touch mkdir rmdir unlink iterdir symlink_to hardlink_to
""".split()
)
"""Methods of a path that open a file or change a folder, and that are no other object's."""
INSTEAD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("numpy", "scipy"), ("statistics", "math")),
    "pandas": ("collections", "statistics"),
    **dict.fromkeys(("dateutil", "arrow", "pendulum"), ("datetime",)),
    "pytz": ("zoneinfo",),
    **dict.fromkeys(("simplejson", "orjson", "ujson", "yaml"), ("json",)),
    **dict.fromkeys(("bs4", "lxml"), ("html.parser", "xml.etree.ElementTree")),
    **dict.fromkeys(("pydantic", "attr", "attrs"), ("dataclasses",)),
    "regex": ("re",),
    "networkx": ("graphlib",),
    "sympy": ("fractions", "math"),
}
"""Packages that models know by heart, and what of the standard library does the same for small programs."""
_CLIENTS = frozenset({"requests", "httpx", "aiohttp", "urllib3"})
_IMPORTS, _USES = 1, 2
_CAUGHT = {
    _IMPORTS: frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}),
    _USES: frozenset({
        "OSError", "IOError", "EnvironmentError", "FileNotFoundError", "PermissionError", "Exception", "BaseException",
    }),
}  # fmt: skip


def lacking_findings(tree: ast.Module, *, packages: bool = False, names: _Names | None = None) -> list[Finding]:
    """Findings where a program uses what the jail does not have, and is not prepared for that.

    Linear in the nodes, at any depth: nothing here calls itself.

    Args:
        tree: the program.
        packages: whether the jail may have more than the standard library.
        names: of the program, where they are known.
    """
    names, found = _Names(walk(tree)) if names is None else names, []
    for node, prepared in _prepared(tree):
        if not prepared & _IMPORTS and not packages:
            found += [_no_package(node, module) for module in _imported(node) if not _is_there(module)]
        if not prepared & _USES:
            found += names.used_by(node)
    return found


class _Names:
    """The modules that a program's names stand for, where nothing but one import binds them.

    Attributes:
        own: the names that the program binds itself, anywhere in it.
    """

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        modules: dict[str, str] = {}
        bound: set[str] = set()
        self._has_paths = False
        for node in nodes:
            for name, module in _bindings(node):
                self._has_paths |= module.startswith("pathlib")
                if modules.setdefault(name, module) != module:
                    bound.add(name)
            bound |= _bound_otherwise(node)
        self._modules = {name: module for name, module in modules.items() if name not in bound}
        self.own = frozenset(bound | modules.keys())
        self._methods = _PATH_METHODS - bound if self._has_paths else frozenset()

    def used_by(self, node: ast.AST) -> list[Finding]:
        """Return what a node uses that the jail does not have."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            return [_lacks(node, "open()", "files")] if "open" not in self.own else []
        if isinstance(node, ast.Name) and node.id == "__file__" and "__file__" not in self.own:
            return [_lacks(node, "__file__", "files")]
        if isinstance(node, ast.Attribute) and node.attr in self._methods:
            return [_lacks(node, f".{node.attr}()", "files")]
        if not isinstance(node, ast.Name | ast.Attribute) or isinstance(node.ctx, ast.Store):
            return []
        whole = self._dotted(node)
        module = next((m for m in _prefixes(whole) if m in LACKING), None)
        if module is None or module == whole:
            return []
        part = whole[len(module) + 1 :].partition(".")[0]
        if part in _COMPUTES.get(module, ()):
            return []
        case = "processes" if module == "os" and part.startswith(_STARTS) else LACKING[module]
        return [_lacks(node, f"{module}.{part}", case)]

    def _dotted(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < 3:
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            module = self._modules.get(node.id, "")
        else:
            module = _by_text(node) if isinstance(node, ast.Call) else ""
        return ".".join([module, *reversed(parts)]) if module else ""


def _lacks(node: ast.AST, name: str, case: FindingCase) -> Finding:
    return Finding(kind="forbidden_import", case=case, name=name, line=getattr(node, "lineno", 0))


def _no_package(node: ast.AST, module: str) -> Finding:
    root = module.partition(".")[0]
    found = _lacks(node, module, "network" if root in _CLIENTS else "")
    return found.model_copy(update={"instead": INSTEAD.get(root, ())})


def _is_there(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _prefixes(dotted: str) -> Iterator[str]:
    while dotted:
        yield dotted
        dotted = dotted.rpartition(".")[0]


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, level=level):
            return ["." * level + (module or "")]
        case ast.Call() if module := _by_text(node, whole=True):
            return [module]
    return []


def _by_text(node: ast.Call, *, whole: bool = False) -> str:
    """Return the module of ``__import__("os.path")`` (``os``), or of ``importlib.import_module("os.path")``."""
    match node:
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
            return name if whole else name.partition(".")[0]
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="importlib"), attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return name
    return ""


def _bindings(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            for alias in names:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _bound_otherwise(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.arg(arg=name):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
    return set()


def _prepared(tree: ast.Module) -> Iterator[tuple[ast.AST, int]]:
    """Yield every node, and what may go wrong in it without ending the program: imports, uses."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, around = todo.pop()
        yield node, around
        caught = _caught_in(node)
        body = {id(child) for child in getattr(node, "body", ())} if caught else ()
        for child in child_nodes(node):
            todo.append((child, around | caught if id(child) in body else around))


def _caught_in(node: ast.AST) -> int:
    match node:
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            caught = [names_in(handler.type) if handler.type else {"BaseException"} for handler in handlers]
        case ast.With(items=items):
            caught = [names_in(item.context_expr) for item in items]
            caught = [names for names in caught if "suppress" in names]
        case ast.If(test=test) if "TYPE_CHECKING" in names_in(test):
            return _IMPORTS | _USES  # no run comes here
        case _:
            return 0
    return sum(bit for bit, errors in _CAUGHT.items() if any(names & errors for names in caught))


# ----------------------------------------------------------------------------------------------------------------------
# The static policy: what a program may not name or reach, decided node by node before it runs.


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
    """Return the findings of the policy: ``forbidden_import``, ``forbidden_name`` and ``forbidden_syntax``.

    The tree is left as it is. Linear in its nodes, at any depth: nothing here calls itself.

    Args:
        tree: the program.
        packages: whether the jail may have more than the standard library.
    """
    nodes = walk(tree)
    names = _Names(nodes)
    policy = Policy(names.own)
    for node in nodes:
        policy.visit(node)
    return policy.findings + lacking_findings(tree, packages=packages, names=names)


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
        """Do nothing: the library warns of what it makes of a program, and it makes nothing of it here."""

    def node_contents_visit(self, node: Any) -> Any:
        """Do nothing: :func:`policy_findings` brings the children."""
        return node

    def inject_print_collector(self, node: Any, position: int = 0) -> None:
        """Do nothing: ``print`` stays what it is."""

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
        """Refuse attributes as a look-up does: a pattern reads them, ``case object(__dict__=found)``."""
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

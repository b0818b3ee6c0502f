"""Small questions about a program's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from atc._host.syntax import child_nodes, walk
from atc.tools.paging import ALL_PAGES

Span = tuple[int, int, int, int]
"""Line, end line, column, end column; columns count UTF-8 bytes from 0, as ``ast`` does."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_TAKE_A_TOOLS_ERROR = frozenset({"ToolError", "Exception", "BaseException"})
_LOOKUP_ERRORS = {"KeyError", "LookupError", "IndexError", "TypeError", "AttributeError"}
_ANY_ERROR = {"Exception", "BaseException"}


def span_of(node: ast.AST) -> Span:
    """Return where a node stands."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return line, getattr(node, "end_lineno", None) or line, column, getattr(node, "end_col_offset", None) or column


def idle_values(nodes: Iterable[ast.AST]) -> dict[ast.expr, ast.Expr | ast.Assign]:
    """Return the values that a program takes nowhere, or into names that nothing reads; each with its statement."""
    nodes = list(nodes)
    used = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)} | {"answer"}
    return {
        node.value: node
        for node in nodes
        if isinstance(node, ast.Expr)
        or (isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and t.id not in used for t in node.targets))
    }


def names_in(node: ast.AST) -> set[str]:
    """Return all names that are written in a node, and the last names of dotted ones."""
    found = {part.id for part in walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in walk(node) if isinstance(part, ast.Attribute)}


def sets_answer(tree: ast.Module) -> bool:
    """Return whether some statement gives the module's ``answer`` a value; a function of that name is none."""
    if any(isinstance(node, ast.Global) and "answer" in node.names for node in walk(tree)):
        return True
    return any("answer" in binds(node) for node in _within(tree.body) if not isinstance(node, _SCOPES))


def says_impossible(nodes: Iterable[ast.AST], line: int = 0) -> bool:
    """Return whether one of some nodes raises ``NotImplementedError``, which says that no tool can do the task.

    Args:
        nodes: of the program.
        line: on which it stands; 0 for any.
    """
    for node in nodes:
        if isinstance(node, ast.Raise) and (not line or node.lineno <= line <= (node.end_lineno or 0)):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id == "NotImplementedError":
                return True
    return False


def misplaced(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what Python's parser lets pass and its compiler refuses, by line: ``return`` and ``yield`` outside a
    function, ``break`` and ``continue`` outside a loop.
    """
    todo: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while todo:
        node, in_function, in_loop = todo.pop()
        match node:
            case ast.Return() | ast.Yield() | ast.YieldFrom() if not in_function:
                yield node.lineno, f"'{'return' if isinstance(node, ast.Return) else 'yield'}' outside function"
            case ast.Break() | ast.Continue() if not in_loop:
                yield node.lineno, f"'{type(node).__name__.lower()}' outside loop"
        if isinstance(node, _SCOPES):
            in_function, in_loop = not isinstance(node, ast.ClassDef), False
        for name, value in ast.iter_fields(node):
            inside = in_loop or (name == "body" and isinstance(node, ast.For | ast.AsyncFor | ast.While))
            parts = value if isinstance(value, list) else [value]
            todo += [(part, in_function, inside) for part in parts if isinstance(part, ast.AST)]


def calls_one_of(tree: ast.AST, names: Collection[str]) -> bool:
    """Return whether one of the names is called by itself somewhere, or by ``all_pages``."""
    calls = (node.func for node in walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and (called.id in names or called.id == ALL_PAGES) for called in calls)


def reads_one_of(tree: ast.AST, names: Collection[str]) -> bool:
    """Return whether one of the names stands somewhere in a program."""
    return any(isinstance(node, ast.Name) and node.id in names for node in walk(tree))


def hedges_lookups(node: ast.Try | ast.TryStar, tools: Collection[str]) -> bool:
    """Return whether a ``try`` makes provision for a key that is not there.

    It names an error of look-ups; or it catches everything around a body without a tool in it. Around a tool's call
    such a net is meant for the tool's failure.
    """
    for handler in node.handlers:
        named = names_in(handler.type) if handler.type is not None else _ANY_ERROR
        if named & _LOOKUP_ERRORS:
            return True
        if named & _ANY_ERROR and not any(names_in(statement) & set(tools) for statement in node.body):
            return True
    return False


def suppresses_lookups(node: ast.With | ast.AsyncWith) -> bool:
    """Return whether this is ``with contextlib.suppress(KeyError)``."""
    return any(names_in(item.context_expr) & _LOOKUP_ERRORS for item in node.items)


def as_load(target: ast.expr) -> ast.expr:
    """Return the expression that reads what an assignment's target names."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return target


def defaults_of(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that have a default, with it."""
    positional = [*arguments.posonlyargs, *arguments.args]
    if arguments.defaults:
        for parameter, default in zip(positional[-len(arguments.defaults) :], arguments.defaults, strict=True):
            yield parameter.arg, default
    for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            yield parameter.arg, keyword_default


def is_generator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function itself, not one inside it, yields."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _within(function.body))


def _within(body: list[ast.stmt]) -> Iterator[ast.AST]:
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo += child_nodes(node)


def binds(node: ast.AST) -> list[str]:
    """Return the names that a node gives a meaning."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.alias(name=name, asname=renamed):
            return [renamed or name.split(".")[0]]
        case _:  # a function, a class, an error that is caught, a pattern, a type parameter
            named = getattr(node, "name", None)
            return [named] if isinstance(named, str) else []


def enclosing(tree: ast.Module, line: int, span: Span | None) -> tuple[ast.stmt | None, list[ast.AST]]:
    """Return the innermost statement at a place, and what it stands in, within its function, from the outside."""
    around: list[ast.AST] = []
    found: ast.stmt | None = None
    body: list[ast.AST] = [tree]
    while body:
        inside = [n for n in body if _covers(n, line, span)]
        if not inside:
            break
        node = inside[0]
        if isinstance(node, ast.stmt):
            found = node
        around = [] if isinstance(node, _SCOPES) else [*around, node]
        body = child_nodes(node)
    return found, [node for node in around if node is not found]


def _covers(node: ast.AST, line: int, span: Span | None) -> bool:
    if isinstance(node, ast.Module):
        return True
    if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        return False
    body = [n for n in child_nodes(node) if isinstance(n, ast.stmt)]
    if isinstance(node, ast.match_case):
        return any(_covers(part, line, span) for part in body)
    first, last = node.lineno, node.end_lineno or node.lineno
    return first <= (span[0] if span else line) <= last


def may_catch_a_tools_error(caught: ast.expr | None) -> bool:
    """Say whether a handler of this type of exception may catch that of a tool. ``None`` catches all."""
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(not isinstance(kind, ast.Name) or kind.id in _TAKE_A_TOOLS_ERROR for kind in kinds)

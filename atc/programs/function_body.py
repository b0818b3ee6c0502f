"""Rewrite the statements of a module as those of a function, where the two do not mean the same.

The body of a class reads a name that it binds itself from the module, and never from a function around it: of
``city: str = city`` the second ``city`` is read by a function of its own instead. A text that is put together and that
this Python cannot write out again, because a part of it needs a backslash, becomes a ``format``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterable, Iterator

from atc._host.syntax import child_nodes, walk

_COMPOUND = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match),
    *((ast.TryStar,) if hasattr(ast, "TryStar") else ()),
)
"""Statements that may read what they have bound themselves: these stay as they are."""


def in_function(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return statements that mean in a function what these mean in a module; the given ones stay as they are."""
    made = []
    for statement in body:
        nodes = walk(statement)
        changed = statement
        if any(isinstance(node, ast.ClassDef) for node in nodes):
            changed = _Classes().visit(copy.deepcopy(changed))
        if any(isinstance(node, ast.JoinedStr) and not _can_be_written(node) for node in nodes):
            changed = _Texts().visit(copy.deepcopy(changed))
        made.append(ast.fix_missing_locations(changed))
    return made


class _Classes(ast.NodeTransformer):
    """Reads from outside a class what its body reads before it binds the name itself."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        bound = [{*_bound_by(statement)} for statement in node.body]
        todo, before = set[str]().union(*bound), set[str]()
        outside: set[ast.AST] = set()
        for statement, names in zip(node.body, bound, strict=True):
            nodes = [] if isinstance(statement, _COMPOUND) else [*_of_scope(statement)]
            first = {node.target.id for node in nodes if isinstance(node, ast.NamedExpr)}
            known = before | first
            outside |= {
                each
                for each in nodes
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in todo - known
            }
            before |= names
        replaced = _Outside(outside)
        node.body = [replaced.visit(statement) for statement in node.body]
        return node


class _Outside(ast.NodeTransformer):
    """Puts a function that reads a name in the place of some of them."""

    def __init__(self, names: Collection[ast.AST]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node not in self._names:
            return node
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Call(ast.Lambda(empty, node), [], []), node)


def _of_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield what a statement of a class evaluates in the scope of the class."""
    todo = [statement]
    while todo:
        node = todo.pop()
        yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                todo += [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]
                if not isinstance(node, ast.Lambda):
                    todo += [*node.decorator_list, *([node.returns] if node.returns else ())]
                    given = node.args
                    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                    todo += [each.annotation for each in every if each is not None and each.annotation is not None]
            case ast.ClassDef():
                todo += [*node.bases, *(each.value for each in node.keywords), *node.decorator_list]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                todo.append(node.generators[0].iter)
            case _:
                todo += child_nodes(node)


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    for node in _of_scope(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]


class _Texts(ast.NodeTransformer):
    """Makes a ``format`` of a text that is put together and cannot be written out again."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        if _can_be_written(node):
            return node
        values: list[ast.expr] = []
        if (template := _template(node, values, nested=False)) is None:
            return node
        method = ast.Attribute(ast.Constant(template), "format", ast.Load())
        return ast.copy_location(ast.Call(method, values, []), node)


def _can_be_written(node: ast.JoinedStr) -> bool:
    try:
        ast.unparse(node)
    except ValueError:
        return False
    return True


def _template(node: ast.JoinedStr, values: list[ast.expr], *, nested: bool) -> str | None:
    """Return what ``format`` takes for a text, and add the values that go into it; ``None`` where it takes none."""
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text = str(part.value)
            if nested and ("{" in text or "}" in text):
                return None
            parts.append(text.replace("{", "{{").replace("}", "}}"))
        elif isinstance(part, ast.FormattedValue):
            at = len(values)
            values.append(part.value)
            how = "" if part.conversion == -1 else f"!{chr(part.conversion)}"
            spec = ""
            if isinstance(part.format_spec, ast.JoinedStr):
                if nested or (inner := _template(part.format_spec, values, nested=True)) is None:
                    return None
                spec = f":{inner}"
            parts.append(f"{{{at}{how}{spec}}}")
        else:
            return None
    return "".join(parts)

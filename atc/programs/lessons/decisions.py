"""Which conditions of a program decide on its answer: ``"yes" if rain > 1 else "no"`` rests on ``rain`` as well.

The data flow says what an answer is made of, not what it depends on. So the statements that make the answer, and the
values that these read, are followed back by name; the conditions around them and in them are what decides.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_CHOICES = frozenset({"max", "min", "sorted", "filter", "nlargest", "nsmallest"})


class _Made(NamedTuple):
    """A statement: what it reads, and what decides whether it runs or what it gives."""

    reads: set[str]
    tests: tuple[ast.expr, ...]


def deciding(tree: ast.Module) -> list[ast.expr]:
    """The conditions, and the iterables of loops, on which the value of ``answer`` depends. Linear in the program.

    Names are followed without their scopes: rather one condition too many than one too few.
    """
    makers: defaultdict[str, list[_Made]] = defaultdict(list)
    for names, made in _statements(tree.body, (), ""):
        for name in names:
            makers[name].append(made)
    found: dict[ast.expr, None] = {}
    seen, todo = {"answer"}, ["answer"]
    while todo:
        for made in makers[todo.pop()]:
            new = made.reads.union(*(_names(test) for test in made.tests if test not in found)) - seen
            found |= dict.fromkeys(made.tests)
            seen |= new
            todo += new
    return [*found]


def _statements(
    body: Iterable[ast.stmt], above: tuple[ast.expr, ...], function: str
) -> Iterator[tuple[set[str], _Made]]:
    """Each statement, with the names that it gives a value to; ``return`` gives the function one."""
    for node in body:
        match node:
            case ast.If(test=test) | ast.While(test=test):
                yield from _statements([*node.body, *node.orelse], (*above, test), function)
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
                yield _stored(node.target), _made(iterated, above)
                yield from _statements([*node.body, *node.orelse], (*above, iterated), function)
            case ast.Match(subject=subject):
                for case in node.cases:
                    yield (
                        {n.name for n in ast.walk(case.pattern) if isinstance(n, ast.MatchAs) and n.name},
                        _made(subject, above),
                    )
                    tests = (*above, subject) if case.guard is None else (*above, subject, case.guard)
                    yield from _statements(case.body, tests, function)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from _statements(node.body, above, name)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        yield _stored(item.optional_vars), _made(item.context_expr, above)
                yield from _statements(node.body, above, function)
            case ast.Try() | ast.TryStar():
                handled = [each for handler in node.handlers for each in handler.body]
                yield from _statements([*node.body, *handled, *node.orelse, *node.finalbody], above, function)
            case ast.Return():
                yield {function}, _made(node, above)
            case _:
                yield _stored(node), _made(node, above)


def _made(node: ast.AST, above: tuple[ast.expr, ...]) -> _Made:
    inside = [part.test for part in ast.walk(node) if isinstance(part, ast.IfExp)]
    inside += [test for part in ast.walk(node) if isinstance(part, ast.comprehension) for test in part.ifs]
    chosen = [each for part in ast.walk(node) if isinstance(part, ast.Call) for each in _chosen_by(part)]
    return _Made(_names(node), (*above, *inside, *chosen))


def _chosen_by(call: ast.Call) -> Iterator[ast.expr]:
    """What a choice among things goes by: the things with all that is in them, and their key."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _CHOICES:
            yield from call.args
        case ast.Attribute(attr="sort", value=things):
            yield things
        case _:
            return
    for keyword in call.keywords:
        match keyword.value:
            case ast.Lambda(body=body):
                yield body
            case ast.Attribute(value=base):
                yield base
            case other:
                yield other


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _stored(node: ast.AST) -> set[str]:
    """The names to which a statement gives a value, or whose value it changes: ``found.append(x)``."""
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for part in ast.walk(node):
        changed = isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store)
        called = isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        if changed or (called and isinstance(node, ast.Expr)):
            base: ast.AST = part
            while isinstance(base, ast.Attribute | ast.Subscript | ast.Call):
                base = base.func if isinstance(base, ast.Call) else base.value
            if isinstance(base, ast.Name):
                stored.add(base.id)
    return stored

"""What an expression may have been computed from, by names alone: a slice of the program, backwards.

It is coarse on purpose: a name is one thing wherever it stands, whatever a function is given may be what it gives back,
and a method changes what it is called on. So nothing that an expression depends on is left out. Time and memory are
linear in the program. What only decides whether an expression is evaluated is not in its slice.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

from atc.programs.syntax import Span, span_of


class Slices:
    """The slices of one program.

    Args:
        tree: the program.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._sources: defaultdict[str, list[ast.AST]] = defaultdict(list)
        for node in nodes:
            for names, source in self._flows(node):
                for name in names:
                    self._sources[name].append(source)

    def of(self, expressions: Iterable[ast.AST]) -> set[Span]:
        """Where everything stands that the expressions may depend on, they themselves too."""
        found, names = set[Span](), set[str]()
        seen, todo = set[int](), list(expressions)
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            for part in ast.walk(node):
                seen.add(id(part))
                found.add(span_of(part))
                if isinstance(part, ast.Name) and part.id not in names:
                    names.add(part.id)
                    todo += self._sources.get(part.id, ())
        return found

    def _flows(self, node: ast.AST) -> Iterator[tuple[Iterable[str], ast.AST]]:
        """Names that a node gives a value to, each time with what the value is computed from."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield _roots(target), value
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield _roots(target), value
            case ast.NamedExpr(target=target, value=value):
                yield _roots(target), value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield _roots(target), value
            case ast.comprehension(target=target, iter=value):
                yield _roots(target), value
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                yield _roots(target), value
            case ast.Match(subject=subject, cases=cases):
                patterns = (part for case in cases for part in ast.walk(case.pattern))
                names = (getattr(part, word, None) for part in patterns for word in ("name", "rest"))
                yield [name for name in names if isinstance(name, str)], subject
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield [name], node
                yield _parameters(node), ast.Name(_given_to(name), ast.Load())
            case ast.ClassDef(name=name):
                yield [name], node
            case ast.Call(func=called, args=args, keywords=keywords):
                values = [*args, *(keyword.value for keyword in keywords)]
                functions = [part for part in (called, *values) if self._is_function(part)]
                given = ast.Tuple([value for value in values if not self._is_function(value)], ast.Load())
                if isinstance(called, ast.Attribute):
                    yield _roots(called), given
                for part in functions:
                    yield _parameters(part) if isinstance(part, ast.Lambda) else [_given_to(*_roots(part))], given

    def _is_function(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in self._functions)


def _given_to(function: str) -> str:
    """What stands for all that a function is given, wherever it is called: no name of a program."""
    return f"{function}()"


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    return [part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)]


def _roots(target: ast.expr) -> list[str]:
    """The names that a target changes: of ``a["b"].c`` it is ``a``."""
    return [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]

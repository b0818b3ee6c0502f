"""Walk the statements of a program: what each does to the names that are known."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from functools import partial

from atc.programs.analysis import builtins as builtins_model
from atc.programs.analysis.interpreter import Interpreter
from atc.programs.analysis.values import NOTHING, UNKNOWN, Cell, Function, Scope, Value, count, join
from atc.programs.syntax import as_load, defaults_of, hedges_lookups, names_in, span_of, suppresses_lookups

_TRANSPARENT_DECORATORS = frozenset(
    ["cache", "lru_cache", "dataclass", "staticmethod", "property", "cached_property", "total_ordering"]
)


def block(flow: Interpreter, body: Sequence[ast.stmt], scope: Scope) -> None:
    """Walk the statements of a block, in order."""
    for statement in body:
        if flow.step():
            _statement(flow, statement, scope)


def _statement(flow: Interpreter, node: ast.stmt, scope: Scope) -> None:
    match node:
        case ast.Assign(targets=targets, value=value):
            if isinstance(value, ast.List) and all(isinstance(target, ast.Tuple | ast.List) for target in targets):
                value = ast.copy_location(ast.Tuple(value.elts, ast.Load()), value)  # it is unpacked, and kept nowhere
            made = flow.expr(value, scope)
            for target in targets:
                bind(flow, target, made, scope)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            bind(flow, target, flow.expr(value, scope), scope)
        case ast.AugAssign(target=target, value=value):
            old, new = flow.expr(as_load(target), scope), flow.expr(value, scope)
            bind(flow, target, builtins_model.grown(flow, old, new), scope)
        case ast.For() | ast.AsyncFor():
            _loop(flow, node, scope)
        case ast.While():
            _loop(flow, node, scope)
        case ast.If(test=test, body=body, orelse=orelse):
            flow.expr(test, scope)
            _branches(flow, scope, [lambda: block(flow, body, scope), lambda: block(flow, orelse, scope)])
        case ast.Try() | ast.TryStar():
            _try(flow, node, scope)
        case ast.With() | ast.AsyncWith():
            _with(flow, node, scope)
        case ast.Match(subject=subject, cases=cases):
            made = flow.expr(subject, scope)
            _branches(flow, scope, [partial(_case, flow, case, made, scope) for case in cases] + [lambda: None])
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            _bind_name(flow, node.name, define(flow, node, scope), scope)
        case ast.Return(value=ast.expr() as value):
            made = flow.expr(value, scope)
            if flow.returns:
                flow.returns[-1].append(made)
        case ast.Import() | ast.ImportFrom():
            _import(flow, node, scope)
        case ast.Global(names=names):
            scope.elsewhere |= dict.fromkeys(names, scope.top)
        case ast.Nonlocal(names=names):
            scope.elsewhere |= {name: owner for name in names if (owner := _owner(scope.parent, name))}
        case ast.Delete(targets=targets):
            for target in targets:
                made = flow.expr(target.value if isinstance(target, ast.Subscript) else target, scope)
                for cell in made.cells if isinstance(target, ast.Subscript) else ():
                    cell.lose_order()
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    flow.expr(child, scope)


def _loop(flow: Interpreter, node: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> None:
    """The second time sees what the first left in variables; it may also be walked not at all."""
    wrote_before = flow.wrote
    for _ in range(2):
        before = _names_of(scope)
        if isinstance(node, ast.While):
            flow.expr(node.test, scope)
        else:
            wrote, flow.wrote = flow.wrote, wrote_before  # what it goes through is evaluated once, before
            items = flow.expr(node.iter, scope).each()
            flow.wrote = flow.wrote or wrote
            bind(flow, node.target, items, scope)
        block(flow, node.body, scope)
        _merge(scope, [before, scope.names])
    block(flow, node.orelse, scope)


def _branches(flow: Interpreter, scope: Scope, walks: Sequence[Callable[[], object]]) -> None:
    before, wrote, some_wrote = _names_of(scope), flow.wrote, flow.wrote
    ends = []
    for walk in walks:
        scope.names, flow.wrote = dict(before), wrote
        walk()
        ends.append(scope.names)
        some_wrote = some_wrote or flow.wrote
    flow.wrote = some_wrote
    _merge(scope, ends)


def _try(flow: Interpreter, node: ast.Try | ast.TryStar, scope: Scope) -> None:
    before, bound = _names_of(scope), dict[str, Value]()
    flow.trying.append(bound)
    _hedged_block(flow, node.body, scope, hedged=hedges_lookups(node, flow.tools))
    flow.trying.pop()
    block(flow, node.orelse, scope)
    ends = [scope.names]
    for handler in node.handlers:  # it begins with whatever the body had bound so far
        scope.names = dict(before)
        _merge(scope, [before, bound])
        if handler.name:
            _bind_name(flow, handler.name, UNKNOWN, scope)
        block(flow, handler.body, scope)
        ends.append(scope.names)
    _merge(scope, ends)
    block(flow, node.finalbody, scope)


def _with(flow: Interpreter, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
    for item in node.items:
        made = flow.expr(item.context_expr, scope)
        if item.optional_vars is not None:
            bind(flow, item.optional_vars, made, scope)
    before = _names_of(scope)
    _hedged_block(flow, node.body, scope, hedged=suppresses_lookups(node))
    if suppresses_lookups(node):
        _merge(scope, [before, scope.names])


def _hedged_block(flow: Interpreter, body: Sequence[ast.stmt], scope: Scope, *, hedged: bool) -> None:
    if hedged:
        flow.hedged_lines |= {line for part in body for line in range(part.lineno, (part.end_lineno or 0) + 1)}
    flow.hedges += hedged
    block(flow, body, scope)
    flow.hedges -= hedged


def _case(flow: Interpreter, case: ast.match_case, subject: Value, scope: Scope) -> None:
    for part in ast.walk(case.pattern):
        name = getattr(part, "rest", None) if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
        if isinstance(name, str):
            _bind_name(flow, name, subject.derived(), scope)
    if case.guard is not None:
        flow.expr(case.guard, scope)
    block(flow, case.body, scope)


def define(
    flow: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef, scope: Scope
) -> Value:
    """The value of a function, a lambda or a class where it is defined."""
    function = flow.functions.setdefault(span_of(node), Function(node, scope))
    function.scope = scope
    if isinstance(node, ast.ClassDef):
        function.scope = Scope(scope, "class")
        flow.visited.add(id(node))
        block(flow, node.body, function.scope)
    else:
        for name, value in defaults_of(node.args):
            function.defaults[name] = join(function.defaults.get(name, NOTHING), flow.expr(value, scope))
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    for decorator in decorators:
        flow.expr(decorator, scope)
    transparent = all(names_in(decorator) & _TRANSPARENT_DECORATORS for decorator in decorators)
    return Value(functions=frozenset([function]), open=not transparent)


def _import(flow: Interpreter, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    """A module's own names hide tools; an import of the tools themselves gives what is there already."""
    for alias in node.names:
        name = alias.asname or alias.name.split(".")[0]
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        if name not in flow.tools or module.split(".")[0] in sys.stdlib_module_names:
            _bind_name(flow, name, UNKNOWN, scope)
            flow.aliases[name] = alias.name


def bind(flow: Interpreter, target: ast.expr, value: Value, scope: Scope) -> None:
    """Assign a value to a target: a name, an unpacking, an item or an attribute."""
    match target:
        case ast.Name(id=name):
            _bind_name(flow, name, value, scope)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            starred = False
            for index, part in enumerate(targets):
                if isinstance(part, ast.Starred):
                    starred = True
                    bind(flow, part.value, flow.cell(part, Cell(items=value.each())), scope)
                else:
                    bind(flow, part, value.each() if starred or value.origins else value.item(index), scope)
        case ast.Subscript(value=base, slice=index):
            key = index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else None
            builtins_model.store(flow, flow.expr(base, scope), key, value, flow.expr(index, scope))
        case ast.Attribute(value=base, attr=key):
            builtins_model.store(flow, flow.expr(base, scope), key, value, NOTHING)


def _bind_name(flow: Interpreter, name: str, value: Value, scope: Scope) -> None:
    if (owner := scope.elsewhere.get(name)) is not None:  # when that happens is not known: join
        value = join(owner.names.get(name, NOTHING), value)
    while owner is None and scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    (owner or scope).names[name] = value
    for bound in flow.trying:
        bound[name] = join(bound.get(name, NOTHING), value)


def _names_of(scope: Scope) -> dict[str, Value]:
    """The names of a scope as they are now."""
    count(len(scope.names))
    return dict(scope.names)


def _merge(scope: Scope, ends: Sequence[dict[str, Value]]) -> None:
    """Either of several ends of branches. A name that one of them lacks would fail there."""
    count(5 * sum(map(len, ends)))
    names = dict.fromkeys(name for end in ends for name in end)
    scope.names = {name: join(*(end[name] for end in ends if name in end)) for name in names}


def _owner(scope: Scope | None, name: str) -> Scope | None:
    while scope is not None and not (scope.kind == "function" and name in scope.names):
        scope = scope.parent
    return scope

"""Follow values through a program without running it: from every expression back to the tool calls it rests on.

An abstract interpreter over the syntax tree. It goes through assignments, loops, comprehensions, unpacking, attributes,
the program's own functions and classes, and the common built-ins (:mod:`atc.programs.analysis.builtins`); branches are
joined, loops are walked twice. Used to find fields that a response does not have before a program runs, and to trace a
failure to its call afterwards (ATC §3.3, made exact).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from atc._host.syntax import child_nodes, walk
from atc.programs.analysis import builtins as builtins_model
from atc.programs.analysis.interpreter import MAX_STEPS, Access, Interpreter, ToolCall
from atc.programs.analysis.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Cell,
    Function,
    Origin,
    Scope,
    TooMuchWork,
    Value,
    bounded_work,
    count,
    join,
    join_derived,
)
from atc.programs.syntax import (
    as_load,
    defaults_of,
    hedges_lookups,
    is_generator,
    names_in,
    span_of,
    suppresses_lookups,
)
from atc.schemas.protocol import Protocol

# ----------------------------------------------------------------------------------------------------------------------
# Walk the statements of a program: what each does to the names that are known.


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
            for child in child_nodes(node):
                if isinstance(child, ast.expr):
                    flow.expr(child, scope)


def _loop(flow: Interpreter, node: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> None:
    """Walk a loop's body twice, for what the first time left in variables, and join that with no time at all."""
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


def _branches(flow: Interpreter, scope: Scope, branches: Sequence[Callable[[], object]]) -> None:
    before, wrote, some_wrote = _names_of(scope), flow.wrote, flow.wrote
    ends = []
    for branch in branches:
        scope.names, flow.wrote = dict(before), wrote
        branch()
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
    flow.hedges += hedged
    block(flow, body, scope)
    flow.hedges -= hedged


def _case(flow: Interpreter, case: ast.match_case, subject: Value, scope: Scope) -> None:
    for part in walk(case.pattern):
        name = getattr(part, "rest", None) if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
        if isinstance(name, str):
            _bind_name(flow, name, subject.derived(), scope)
    if case.guard is not None:
        flow.expr(case.guard, scope)
    block(flow, case.body, scope)


def define(
    flow: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef, scope: Scope
) -> Value:
    """Return the value of a function, a lambda or a class where it is defined."""
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
    """Bind a module's names, which hide tools; an import of the tools themselves gives what is there already."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Follow values through a program without running it: from every expression back to the tool calls it rests on.


MAX_INLINE = 8
"""Calls of the program's own functions within each other that are followed."""


class Flow(Interpreter):
    """The analysis of one program.

    Args:
        tree: its parsed source.
        tools: the tools by name, or their names alone.
    """

    def __init__(self, tree: ast.Module, tools: Mapping[str, Protocol] | Collection[str]) -> None:
        super().__init__(tools)
        self._entered: list[Function] = []
        self._yields: list[list[Value]] = []
        try:
            with bounded_work():
                block(self, tree.body, self.scope)
                for function in list(self.functions.values()):  # what nothing called: its own tool calls count too
                    if id(function.node) not in self.visited:
                        self.enter(function, Arguments(rest=UNKNOWN))
        except (RecursionError, TooMuchWork):
            self._steps = MAX_STEPS + 1

    # -- expressions -----------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression, and note what it can be."""
        span = span_of(node)
        if self.wrote:
            self.after_writes.add(span)
        value = self._evaluate(node, scope) if self.step() else UNKNOWN
        self.values[span] = join(self.values[span], value) if span in self.values else value
        return value

    def _evaluate(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Constant():
                return NOTHING
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript(value=base, slice=index):
                return self._subscript(node, self.expr(base, scope), index, scope)
            case ast.Attribute(value=base, attr=name):
                return builtins_model.attribute(self, node, self.expr(base, scope), name)
            case ast.Tuple(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
                return self.cell(node, Cell(fields={str(i): self.expr(part, scope) for i, part in enumerate(parts)}))
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return self.cell(node, Cell(items=join(*(self._item(part, scope) for part in parts))))
            case ast.Dict(keys=keys, values=values):
                return self._dict(node, keys, values, scope)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                return self.cell(node, Cell(items=self._repeated([part], node.generators, scope)[0]))
            case ast.DictComp(key=key, value=part):
                pair = self._repeated([key, part], node.generators, scope)
                return self.cell(node, Cell(keys=pair[0], items=pair[1]))
            case ast.Lambda():
                return define(self, node, scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.expr(test, scope)
                return join(self.expr(body, scope), self.expr(orelse, scope))
            case ast.BoolOp(op=operator, values=parts):
                self._alternatives += isinstance(operator, ast.Or)
                made = join(*(self.expr(part, scope) for part in parts))
                self._alternatives -= isinstance(operator, ast.Or)
                return made
            case ast.NamedExpr(target=target, value=value):
                made = self.expr(value, scope)
                bind(self, target, made, scope)
                return made
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.expr(value, scope)
            case ast.Yield(value=ast.expr() as value) | ast.YieldFrom(value=value):
                made = self.expr(value, scope)
                if self._yields:
                    self._yields[-1].append(made if isinstance(node, ast.Yield) else made.each())
                return UNKNOWN
            case ast.BinOp(left=left, op=operator, right=right):
                return builtins_model.combined(self, node, self.expr(left, scope), operator, self.expr(right, scope))
            case ast.Compare():
                return self._compare(node, scope)
            case _:
                children = [child for child in child_nodes(node) if isinstance(child, ast.expr)]
                return join_derived([self.expr(child, scope) for child in children])

    def _name(self, name: str, scope: Scope) -> Value:
        found = scope.get(name)
        if found is None and name in self.tools:
            return Value(functions=frozenset([self.tool_functions[name]]))
        return UNKNOWN if found is None else found

    def _item(self, part: ast.expr, scope: Scope) -> Value:
        value = self.expr(part, scope)
        return value.each() if isinstance(part, ast.Starred) else value

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        key = node.left.value if isinstance(node.left, ast.Constant) else None
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            self.tested.add(key if isinstance(key, str) else None)
        return join_derived([self.expr(part, scope) for part in (node.left, *node.comparators)])

    def _subscript(self, node: ast.Subscript, base: Value, index: ast.expr, scope: Scope) -> Value:
        match index:
            case ast.Constant(value=str(key)):
                self.look_up(Access(node, base, key))
                return base.key(key)
            case ast.Constant(value=int(position)):
                self.look_up(Access(node, base, position))
                return base.item(position)
            case ast.UnaryOp(operand=ast.Constant(value=int())):
                return base.item(-1)
            case ast.Slice():
                for part in (index.lower, index.upper, index.step):
                    if part is not None:
                        self.expr(part, scope)
                sliced = (
                    self.cell(node, Cell(items=replace(base, origins=frozenset()).each())) if base.cells else NOTHING
                )
                return join(replace(base, cells=frozenset()), sliced)
            case _:
                self.expr(index, scope)
                return base.member()

    def _dict(self, node: ast.Dict, keys: Sequence[ast.expr | None], values: Sequence[ast.expr], scope: Scope) -> Value:
        cell, spread = Cell(keys=NOTHING), NOTHING
        for key, part in zip(keys, values, strict=True):
            value = self.expr(part, scope)
            if key is None:  # {**other}: a key may be the other's or its own
                spread = join(spread, value)
                continue
            cell.keys = join(cell.keys or NOTHING, self.expr(key, scope))
            cell.put(value, key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None)
        return join(self.cell(node, cell), spread)

    def _repeated(
        self, parts: Sequence[ast.expr], generators: Sequence[ast.comprehension], scope: Scope
    ) -> list[Value]:
        """Return the values of a comprehension's parts; walked again if they may write: the rest comes after."""
        wrote, inner = self.wrote, self._comprehended(generators, scope)
        made = [self.expr(part, inner) for part in parts]
        return [self.expr(part, inner) for part in parts] if self.wrote and not wrote else made

    def _comprehended(self, generators: Sequence[ast.comprehension], scope: Scope) -> Scope:
        inner = Scope(scope, "comprehension")
        for generator in generators:
            names = Scope(inner)  # its targets are the comprehension's own, whatever `:=` inside it does
            bind(self, generator.target, self.expr(generator.iter, inner).each(), names)
            inner.names |= names.names
            for condition in generator.ifs:
                self.expr(condition, inner)
        return inner

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        arguments = self._arguments(node, scope)
        if isinstance(node.func, ast.Attribute):
            return builtins_model.method(self, node, self.expr(node.func.value, scope), node.func.attr, arguments)
        called = self.expr(node.func, scope)
        if called.functions:
            made = [self.call(node, function, arguments, direct=True) for function in called.functions]
            return join(*made, UNKNOWN) if called.open else join(*made)
        name = self.aliases.get(node.func.id, node.func.id) if isinstance(node.func, ast.Name) else ""
        return builtins_model.builtin(self, node, name, arguments)

    def call(
        self, node: ast.Call, function: Function, arguments: Arguments, *, direct: bool = False, paged: bool = False
    ) -> Value:
        """Evaluate a call of a tool, a function or a class that stands at ``node``."""
        if not function.tool:
            return self.enter(function, arguments, node)
        span = span_of(node)
        before = self.calls[span].arguments if span in self.calls else {}
        given = {key: join(before.get(key, NOTHING), value) for key, value in arguments.by_key().items()}
        self.calls[span] = ToolCall(node, function.tool, before | given, direct, paged)
        self.wrote = self.wrote or self.has_effects(function.tool)
        return Value(frozenset([Origin(function.tool, node.lineno, node.col_offset)]))

    def _arguments(self, node: ast.Call, scope: Scope) -> Arguments:
        made = Arguments()
        for part in node.args:
            value = self.expr(part, scope)
            if isinstance(part, ast.Starred) or made.rest is not None:
                made.rest = join(made.rest or NOTHING, value.each() if isinstance(part, ast.Starred) else value)
            else:
                made.positional.append(value)
        for keyword in node.keywords:
            value = self.expr(keyword.value, scope)
            if keyword.arg is not None:
                made.named[keyword.arg] = value
            else:
                made.spread = join(made.spread or NOTHING, value)
        return made

    def enter(self, function: Function, arguments: Arguments, node: ast.AST | None = None) -> Value:
        """Return the value of a call of one of the program's own functions or classes."""
        body = function.node
        if body is None:
            return UNKNOWN
        self.visited.add(id(body))
        if isinstance(body, ast.ClassDef):
            return builtins_model.instance(self, function, arguments, node or body)
        if sum(f.node is body for f in self._entered) > 1:  # it calls itself: the same again
            return UNKNOWN
        if len(self._entered) >= MAX_INLINE:
            self._steps = MAX_STEPS + 1
            return UNKNOWN
        inner = Scope(function.scope)
        inner.names |= builtins_model.bound(self, function, arguments)
        self._entered.append(function)
        self.returns.append([])
        self._yields.append([])
        try:
            if isinstance(body, ast.Lambda):
                return self.expr(body.body, inner)
            block(self, body.body, inner)
            if is_generator(body):
                return self.cell(body, Cell(items=join(*self._yields[-1])))
            return join(*self.returns[-1])
        finally:
            self._entered.pop()
            self.returns.pop()
            self._yields.pop()

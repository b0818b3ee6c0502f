"""Follow values through a program without running it: from every expression back to the tool calls it rests on.

An abstract interpreter over the syntax tree. It goes through assignments, loops, comprehensions, unpacking, attributes,
the program's own functions and classes, and the common built-ins (:mod:`atc.programs.analysis.builtins`); branches are
joined, loops are walked twice. Used to find fields that a response does not have before a program runs, and to trace a
failure to its call afterwards (ATC §3.3, made exact).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from atc.programs.analysis import builtins as builtins_model
from atc.programs.analysis import statements
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
    join,
    join_derived,
)
from atc.programs.syntax import is_generator, span_of
from atc.tools.protocol import Protocol

MAX_INLINE = 8
"""How deep calls of the program's own functions are followed."""


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
                statements.block(self, tree.body, self.scope)
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
                return statements.define(self, node, scope)
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
                statements.bind(self, target, made, scope)
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
                children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
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
        """The values of a comprehension's parts; walked again where they may write, for the rest comes after it."""
        wrote, inner = self.wrote, self._comprehended(generators, scope)
        made = [self.expr(part, inner) for part in parts]
        return [self.expr(part, inner) for part in parts] if self.wrote and not wrote else made

    def _comprehended(self, generators: Sequence[ast.comprehension], scope: Scope) -> Scope:
        inner = Scope(scope, "comprehension")
        for generator in generators:
            names = Scope(inner)  # its targets are the comprehension's own, whatever `:=` inside it does
            statements.bind(self, generator.target, self.expr(generator.iter, inner).each(), names)
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
        """A call of a tool, a function or a class that stands at ``node``."""
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
        """The value of a call of one of the program's own functions or classes."""
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
            statements.block(self, body.body, inner)
            if is_generator(body):
                return self.cell(body, Cell(items=join(*self._yields[-1])))
            return join(*self.returns[-1])
        finally:
            self._entered.pop()
            self.returns.pop()
            self._yields.pop()

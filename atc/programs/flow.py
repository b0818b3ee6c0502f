"""Follow values through a program without running it: from every expression back to the tool calls it rests on.

An abstract interpreter over the syntax tree. It goes through assignments, loops, comprehensions, unpacking, attributes,
the program's own functions and the common built-ins; branches are joined, loops are walked twice. Used to find fields that
a response does not have before a program runs, and to trace a failure to its call afterwards (ATC §3.3, made exact).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from atc.programs.values import ITEM, MEMBER, NONE, NOTHING, Origin, Value, join, join_all

MAX_INLINE = 6
"""How deep calls of the program's own functions are followed."""
MAX_STEPS = 100_000
"""Expressions looked at before the analysis gives up on the rest (it then knows less, never wrong)."""

Span = tuple[int, int, int, int]
_SAME_ITEMS = {"sorted", "list", "tuple", "set", "frozenset", "reversed", "iter", "filter", "copy", "deepcopy"}
_ONE_ITEM = {"max", "min", "next", "choice"}


@dataclass(frozen=True)
class Access:
    """A look-up ``base[key]``, or ``base.get(key)`` (``forgiving``)."""

    node: ast.expr
    base: Value
    key: str
    forgiving: bool


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool in the source, with the abstract values of its arguments by parameter position or name."""

    node: ast.Call
    tool: str
    arguments: dict[str | int, Value]


class Flow:
    """The analysis of one program.

    Args:
        tree: its parsed source.
        tools: the names of the tools.
    """

    def __init__(self, tree: ast.Module, tools: Collection[str]) -> None:
        self.tools = tools
        self.accesses: list[Access] = []
        self.calls: dict[Span, ToolCall] = {}
        self.values: dict[Span, Value] = {}
        self.scope: dict[str, Value] = {}
        self._returns: list[list[Value]] = []
        self._depth = self._steps = 0
        self._block(tree.body, self.scope)
        self._uncalled(tree)

    def at(self, span: Span) -> Value:
        """What the expression at ``span`` can be; nothing if there is none."""
        return self.values.get(span, NOTHING)

    # -- statements ------------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], scope: dict[str, Value]) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: dict[str, Value]) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                made = self._expr(value, scope)
                for target in targets:
                    self._bind(target, made, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._expr(value, scope), scope)
            case ast.AugAssign(target=target, value=value):
                old, new = self._expr(_as_load(target), scope), self._expr(value, scope)
                grown = join(old, new) if old.items is not None else join(old.derived(), new.derived())
                self._bind(target, grown, scope)
            case ast.For() | ast.AsyncFor():
                for _ in range(2):  # the second time sees what the first left in variables
                    self._bind(node.target, self._expr(node.iter, scope).step(ITEM), scope)
                    self._block(node.body, scope)
                self._block(node.orelse, scope)
            case ast.While(test=test, body=body, orelse=orelse):
                for _ in range(2):
                    self._expr(test, scope)
                    self._block(body, scope)
                self._block(orelse, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                self._expr(test, scope)
                self._branches([body, orelse], scope)
            case ast.Try():
                self._block(node.body, scope)
                self._branches([node.orelse, *(handler.body for handler in node.handlers)], scope)
                self._block(node.finalbody, scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    made = self._expr(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, made, scope)
                self._block(node.body, scope)
            case ast.Match(subject=subject, cases=cases):
                self._expr(subject, scope)
                self._branches([case.body for case in cases], scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope[node.name] = Value(functions=(node,))
            case ast.ClassDef():
                self._block(node.body, dict(scope))
            case ast.Return(value=ast.expr() as value):
                made = self._expr(value, scope)
                if self._returns:
                    self._returns[-1].append(made)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expr(child, scope)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], scope: dict[str, Value]) -> None:
        ends = []
        for body in bodies:
            branch = dict(scope)
            self._block(body, branch)
            ends.append(branch)
        for name in {name for end in ends for name in end}:
            scope[name] = join_all([end[name] for end in ends if name in end])

    def _uncalled(self, tree: ast.Module) -> None:
        """Look once into functions that nothing called, so that their own tool calls are known too."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(span_of(n) in self.values for n in _expressions(node)):
                self._enter(node, {}, self.scope)

    def _bind(self, target: ast.expr, value: Value, scope: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                scope[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for index, part in enumerate(targets):
                    below = value.fields.get(str(index)) or value.step(ITEM)
                    self._bind(part.value if isinstance(part, ast.Starred) else part, below, scope)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                scope[name] = scope.get(name, NOTHING).with_field(key, value)
            case ast.Subscript(value=ast.Name(id=name)):
                scope[name] = scope.get(name, NOTHING).with_item(value)
            case ast.Attribute(value=ast.Name(id=name), attr=key):
                scope[name] = scope.get(name, NOTHING).with_field(key, value)
            case _:
                return

    # -- expressions -----------------------------------------------------------------------------------------------

    def _expr(self, node: ast.expr, scope: dict[str, Value]) -> Value:
        self._steps += 1
        if self._steps > MAX_STEPS:
            return NOTHING
        value = self._evaluate(node, scope)
        span = span_of(node)
        self.values[span] = join(self.values[span], value) if span in self.values else value
        return value

    def _evaluate(self, node: ast.expr, scope: dict[str, Value]) -> Value:
        match node:
            case ast.Name(id=name):
                return scope.get(name) or self.scope.get(name, NOTHING)
            case ast.Constant(value=None):
                return NONE
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript(value=base, slice=index):
                return self._subscript(node, self._expr(base, scope), index, scope)
            case ast.Attribute(value=base, attr=name):
                made = self._expr(base, scope)
                return made.fields[name] if name in made.fields else made.derived()
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                made = [self._expr(part, scope) for part in parts]
                fields = {str(i): value for i, value in enumerate(made)} if isinstance(node, ast.Tuple) else {}
                return Value(items=join_all(made), fields=fields)
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values, scope)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                return Value(items=self._expr(part, self._comprehended(node.generators, scope)))
            case ast.DictComp(key=key, value=part):
                inner = self._comprehended(node.generators, scope)
                return Value(items=self._expr(part, inner), fields={"": self._expr(key, inner)})
            case ast.Lambda():
                return Value(functions=(node,))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._expr(test, scope)
                return join(self._expr(body, scope), self._expr(orelse, scope))
            case ast.BoolOp(values=parts):
                made = join_all([self._expr(part, scope) for part in parts])
                return Value(made.origins, False, made.items, made.fields, made.functions)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                scope[name] = self._expr(value, scope)
                return scope[name]
            case ast.Await(value=value) | ast.Starred(value=value):
                return self._expr(value, scope)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self._expr(left, scope), self._expr(right, scope)
                return join(one, other) if one.items or other.items else join(one.derived(), other.derived())
            case _:
                children = [self._expr(child, scope) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return join_all([child.derived() for child in children])

    def _subscript(self, node: ast.Subscript, base: Value, index: ast.expr, scope: dict[str, Value]) -> Value:
        match index:
            case ast.Constant(value=str(key)):
                self.accesses.append(Access(node, base, key, forgiving=False))
                return base.step(key)
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
                position = str(index.value) if isinstance(index, ast.Constant) else ""
                return base.fields[position] if position in base.fields else base.step(ITEM)
            case ast.Slice():
                for part in (index.lower, index.upper, index.step):
                    if part is not None:
                        self._expr(part, scope)
                return base
            case _:
                self._expr(index, scope)
                return base.step(MEMBER)

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr], scope: dict[str, Value]) -> Value:
        made = Value()
        for key, value in zip(keys, values, strict=True):
            part = self._expr(value, scope)
            if key is None:  # {**other}
                made = Value(made.origins | part.origins, False, made.items, {**made.fields, **part.fields})
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                made = made.with_field(key.value, part)
            else:
                self._expr(key, scope)
                made = made.with_item(part)
        return made

    def _comprehended(self, generators: Sequence[ast.comprehension], scope: dict[str, Value]) -> dict[str, Value]:
        inner = dict(scope)
        for generator in generators:
            self._bind(generator.target, self._expr(generator.iter, inner).step(ITEM), inner)
            for condition in generator.ifs:
                self._expr(condition, inner)
        return inner

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: dict[str, Value]) -> Value:
        arguments = self._arguments(node, scope)
        if isinstance(node.func, ast.Name) and node.func.id in self.tools and node.func.id not in scope:
            self.calls[span_of(node)] = ToolCall(node, node.func.id, arguments)
            return Value(frozenset([Origin(node.func.id, node.lineno, node.col_offset)]), pure=True)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, arguments, scope)
        if isinstance(node.func, ast.Name) and not self._expr(node.func, scope).functions:
            return self._builtin(node.func.id, arguments)
        functions = self._expr(node.func, scope).functions
        made = [self._enter(function, arguments, scope) for function in functions]
        return join_all(made) if made else join_all([value.derived() for value in arguments.values()])

    def _arguments(self, node: ast.Call, scope: dict[str, Value]) -> dict[str | int, Value]:
        made: dict[str | int, Value] = {i: self._expr(argument, scope) for i, argument in enumerate(node.args)}
        for keyword in node.keywords:
            value = self._expr(keyword.value, scope)
            made.update({keyword.arg: value} if keyword.arg else dict(value.fields))
        return made

    def _method(self, node: ast.Call, function: ast.Attribute, arguments: dict[str | int, Value], scope: dict[str, Value]) -> Value:
        base, first = self._expr(function.value, scope), arguments.get(0, NOTHING)
        match function.attr:
            case "get" | "pop" if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                key = node.args[0].value
                self.accesses.append(Access(node, base, key, forgiving=True))
                found = base.step(key)
                return Value(found.origins, found.pure and len(arguments) == 1, found.items, found.fields)
            case "get" | "pop" | "popitem":
                return base.step(MEMBER)
            case "values":
                return Value(items=base.step(MEMBER))
            case "items":
                return Value(items=Value(fields={"0": base.derived(), "1": base.step(MEMBER)}, items=base.step(MEMBER)))
            case "copy":
                return base
            case "append" | "add" | "insert" | "extend" | "update" if isinstance(function.value, ast.Name):
                added = arguments.get(1, first) if function.attr == "insert" else first
                added = added.step(ITEM) if function.attr in ("extend", "update") else added
                name = function.value.id
                target = scope if name in scope else self.scope
                target[name] = target.get(name, NOTHING).with_item(added)
                return NOTHING
            case "most_common" | "split" | "keys" | "splitlines":
                return Value(items=base.derived())
            case name if name in base.fields and base.fields[name].functions:
                return join_all([self._enter(f, arguments, scope) for f in base.fields[name].functions])
            case _:
                self._apply_key_functions(arguments, first, scope)
                if function.attr in _SAME_ITEMS or function.attr in _ONE_ITEM:
                    return self._builtin(function.attr, arguments)
                return join_all([base.derived(), *(value.derived() for value in arguments.values())])

    def _builtin(self, name: str, arguments: dict[str | int, Value]) -> Value:
        first = arguments.get(0, NOTHING)
        positional = [value for key, value in arguments.items() if isinstance(key, int)]
        self._apply_key_functions(arguments, arguments.get(1, NOTHING) if name in ("filter", "map") else first, self.scope)
        if name in ("filter", "map") and len(positional) > 1:
            made = [self._enter(f, {0: positional[1].step(ITEM)}, self.scope) for f in first.functions]
            return positional[1] if name == "filter" else Value(items=join_all(made) if made else NOTHING)
        if name in _SAME_ITEMS:
            return Value(items=first.step(ITEM), fields=first.fields)
        if name in _ONE_ITEM:
            return first.step(ITEM) if len(positional) == 1 or name == "next" else join_all(positional)
        if name == "dict":
            named = {key: value for key, value in arguments.items() if isinstance(key, str)}
            return Value(first.origins, first.pure and not named, first.items, {**first.fields, **named})
        if name == "enumerate":
            item = first.step(ITEM)
            return Value(items=Value(fields={"0": NOTHING, "1": item}, items=item))
        if name == "zip":
            parts = [value.step(ITEM) for value in positional]
            return Value(items=Value(fields={str(i): part for i, part in enumerate(parts)}, items=join_all(parts)))
        if name == "parallel":
            thunks = [*positional, first.items or NOTHING]
            return Value(items=join_all([self._enter(f, {}, self.scope) for thunk in thunks for f in thunk.functions]))
        return join_all([value.derived() for value in arguments.values()])

    def _apply_key_functions(self, arguments: dict[str | int, Value], items: Value, scope: dict[str, Value]) -> None:
        for function in arguments.get("key", NOTHING).functions:
            self._enter(function, {0: items.step(ITEM)}, scope)

    def _enter(self, function: Any, arguments: dict[str | int, Value], scope: dict[str, Value]) -> Value:
        """The value of a call of one of the program's own functions."""
        if self._depth >= MAX_INLINE:
            return NOTHING
        self._depth += 1
        inner = {**scope, **_bound(function, arguments)}
        try:
            if isinstance(function, ast.Lambda):
                return self._expr(function.body, inner)
            self._returns.append([])
            self._block(function.body, inner)
            yielded = [self.values.get(span_of(n.value), NOTHING) for n in ast.walk(function) if isinstance(n, ast.Yield) and n.value]
            returned = join_all(self._returns.pop())
            return Value(items=join_all(yielded)) if yielded else returned
        finally:
            self._depth -= 1


def _bound(function: Any, arguments: dict[str | int, Value]) -> dict[str, Value]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    keywords = {argument.arg for argument in function.args.kwonlyargs}
    bound = dict.fromkeys([*names, *keywords], NOTHING)
    for key, value in arguments.items():
        if isinstance(key, int) and key < len(names):
            bound[names[key]] = value
        elif key in bound:
            bound[str(key)] = value
    if function.args.vararg is not None:
        rest = [value for key, value in arguments.items() if isinstance(key, int) and key >= len(names)]
        bound[function.args.vararg.arg] = Value(items=join_all(rest))
    return bound


def _expressions(node: ast.AST) -> list[ast.expr]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def span_of(node: ast.expr) -> Span:
    return (node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or node.col_offset)


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    return target


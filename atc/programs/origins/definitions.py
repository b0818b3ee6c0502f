"""Defines functions and classes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from atc._host.syntax import walk
from atc.programs.origins import library
from atc.programs.origins.expressions import Expressions
from atc.programs.origins.graph import ITERATE
from atc.programs.origins.parts import Call, Class, Function, GiveUp
from atc.programs.origins.scopes import Scope
from atc.programs.origins.values import is_behind

_COMPUTING = library.SCALAR - {"print"} | frozenset("type list tuple sorted sum min max iter dict".split())
_LOOKS = frozenset({"items", "keys", "values", "get"})
_IN_CLASS = ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.Pass | ast.Expr


_COMPARE = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__".split())


def _is_truth(node: ast.expr | None) -> bool:
    """Return whether a value is no container: nobody can change it later."""
    match node:
        case ast.Compare() | ast.Constant() | ast.Name(id="NotImplemented") | ast.UnaryOp(op=ast.Not()) | None:
            return True
        case ast.BoolOp(values=values):
            return all(map(_is_truth, values))
        case ast.Call(func=ast.Name(id=name)):
            return name in ("all", "any", "bool", "isinstance")
    return False


class Definitions(Expressions):
    """Reads definitions of functions and classes."""

    shared: frozenset[str]

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Read statements in order."""
        raise NotImplementedError

    def outer(self, name: str) -> int:
        """Return the node of a name that no scope of the program has."""
        raise NotImplementedError

    def defines(self, node: ast.FunctionDef) -> None:
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
            self._annotation(arg.annotation if arg is not None else None)
        self._annotation(node.returns)
        value = self.graph.node(self.define(node))
        for decorator in reversed(node.decorator_list):
            found = self.ev(decorator)
            made = self.graph.node()
            binder = next((each for each in library.BINDERS if self._is_only(found, "builtin", each)), "")
            if binder:
                functions = [*self.graph.each(self.graph.bits[value])]
                function = functions[0] if len(functions) == 1 else None
                if not isinstance(function, Function):
                    raise GiveUp(binder)
                self.graph.put(made, self.graph.function((binder, id(function)), (binder, function)))
            else:
                call = self._inner().inner(value)  # its line is that of the decorator
                self.call(found, call, made, self.within)
            value = made
        self.store_to(ast.Name(node.name, ast.Store()), value)

    def _annotation(self, node: ast.expr | None) -> None:
        if isinstance(node, ast.Name | ast.Constant | None):
            return
        for each in walk(node):
            if isinstance(
                each, ast.Call | ast.NamedExpr | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
            ):
                raise GiveUp("an annotation that calls something")

    def _at_once(self, node: int) -> list[Any]:
        """Return the functions and classes that a node is; another one may not be added later."""
        functions = self.graph.bits[node] & self.graph.functions
        self.fixed.append((node, functions))
        return [*self.graph.each(functions)]

    def _is_only(self, node: int, sort: str, name: str) -> bool:
        functions = self.graph.bits[node] & self.graph.functions
        return [*self.graph.each(functions)] == [(sort, name)] and bool(self._at_once(node))

    def classes(self, node: ast.ClassDef) -> None:
        graph = self.graph
        if any(keyword.arg != "total" for keyword in node.keywords):
            raise GiveUp("a class with keywords")
        made = Class(graph, self.scope)
        for base in node.bases:
            self._inherit(made, base)
        for decorator in node.decorator_list:
            found = self.ev(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if not self._is_only(found, "library", "dataclasses.dataclass"):
                raise GiveUp("a class with a decorator")
            made.is_data = True
        outer = self.scope
        self.scope = Scope(graph, outer, self.shared, self.outer, is_class=True)
        for statement in node.body:
            name = getattr(statement, "name", "")
            special = is_behind(name) and name != "__init__"
            if not isinstance(statement, _IN_CLASS) or (special and not self._computes(statement)):
                raise GiveUp(f"{type(statement).__name__} {name} in a class")
            if made.is_enum and isinstance(statement, ast.FunctionDef):
                raise GiveUp("a method of an enumeration")
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                made.members.append(statement.target.id)
                made.is_odd = made.is_odd or self._is_odd(statement)
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                if not isinstance(target, ast.Name) or is_behind(target.id):
                    raise GiveUp("an assignment in a class")
        self.block(node.body)
        fields = self.scope.close()
        self.scope = outer
        for name, value in fields.items():
            graph.copy(value, graph.field(made.thing, name))
            graph.copy(value, self.inherited(name))
        for each in self.family(made):
            for name in library.SPECIAL & each.thing.fields.keys():
                self._special(made, name, each.thing.fields[name])
        self.store_to(ast.Name(node.name, ast.Store()), graph.node(graph.function(("own", id(made)), made)))

    def _is_odd(self, field: ast.AnnAssign) -> bool:
        """Return whether what is annotated may be no field that a call gives by its position."""
        for node in walk(field.annotation):
            text = getattr(node, "value", "") if isinstance(node, ast.Constant) else getattr(node, "attr", "")
            if any(name in str(text) for name in library.NO_FIELDS):
                return True
        return isinstance(field.value, ast.Call) and any(
            each.arg in ("init", "kw_only") for each in field.value.keywords
        )

    def _computes(self, statement: ast.stmt) -> bool:
        """Return whether a special method only computes, so that it does not matter when it is called."""
        if not isinstance(statement, ast.FunctionDef) or statement.name not in library.SPECIAL:
            return False
        for node in walk(statement):
            if isinstance(node, ast.Raise | ast.Assert):
                return False
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                return False
            if isinstance(node, ast.Global | ast.Nonlocal | ast.Lambda | ast.FunctionDef) and node is not statement:
                return False
            if isinstance(node, ast.Call):
                function = node.func
                name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                plain = _COMPUTING if isinstance(function, ast.Name) else library.READERS | _LOOKS
                if name not in plain or name in self.bound:
                    return False
            if isinstance(node, ast.Return) and statement.name in _COMPARE and not _is_truth(node.value):
                return False
        return not statement.decorator_list

    def _special(self, made: Class, name: str, value: int) -> None:
        """Let what a special method returns be part of its object: whatever uses the object may call it."""
        graph = self.graph

        def apply(bits: int) -> None:
            for function in graph.each(bits & graph.functions):
                if not isinstance(function, Function):
                    raise GiveUp(name)
                returned = graph.node()
                call = Call(self.anywhere, 0, 0, (0, 0)).inner(graph.node(made.instance.atom), graph.node(self.literal))
                self.enter(function, call, returned)
                if name == "__getitem__":
                    graph.copy(returned, made.instance.rest)
                elif name == "__iter__":
                    graph.load(returned, ITERATE, made.instance.rest, (self.anywhere,))
                graph.flat(returned, made.instance.shape)

        graph.when(value, apply)

    def _inherit(self, made: Class, base: ast.expr) -> None:
        found = self._at_once(self.ev(base))
        if len(found) != 1:
            raise GiveUp("a class of what is not known")
        (one,) = found
        if isinstance(one, Class):
            made.bases.append(one)
            made.is_error, made.is_enum = made.is_error or one.is_error, made.is_enum or one.is_enum
        elif isinstance(one, tuple) and one[0] == "builtin" and one[1] in library.EXCEPTIONS:
            made.is_error = True
        elif isinstance(one, tuple) and one[0] == "library" and one[1] in ("enum.Enum", "enum.IntEnum", "enum.StrEnum"):
            made.is_enum = True
        elif one == ("library", "typing.NamedTuple"):
            made.is_data = True
        elif one == ("library", "typing.TypedDict"):
            made.is_data, made.instance.kind = True, "dict"
        elif one != ("builtin", "object"):
            raise GiveUp("a class of what is not known")

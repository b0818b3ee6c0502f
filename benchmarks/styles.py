"""Correct programs written otherwise: the honest styles that models have, made by changes of syntax trees.

A style may not fit a program (nothing to change), and a change may be wrong for one; whoever uses the result runs it
and keeps it only where it gives the same answer.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from atc.tools.protocol import Protocol, parameters_of

Protocols = Mapping[str, Protocol]
Style = Callable[[ast.Module, Protocols], ast.Module]


def restyled(source: str, protocols: Protocols) -> Iterator[tuple[str, str]]:
    """The name of every style with the program written in it, where that changes anything."""
    plain = ast.unparse(ast.parse(source))
    for name, style in STYLES.items():
        changed = ast.unparse(ast.fix_missing_locations(style(ast.parse(source), protocols)))
        if changed != plain:
            yield name, changed + "\n"


def _statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def _expression(code: str, **parts: ast.expr) -> ast.expr:
    """Parse an expression, with other expressions in the place of names."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return parts.get(node.id, node)

    made = Fill().visit(ast.parse(code, mode="eval").body)
    assert isinstance(made, ast.expr)
    return made


def _tool_call(node: ast.AST, protocols: Protocols) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in protocols for n in ast.walk(node)
    )


def _assigned(node: ast.AST) -> str | None:
    """The variable that a statement sets, if that is all it does."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


class _Look(ast.NodeTransformer):
    """Writes ``x["key"]`` as ``template``, in which ``BASE`` and ``KEY`` stand for the two."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.keys: set[str] = set()

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not isinstance(node.slice, ast.Constant):
            return node
        if not isinstance(node.slice.value, str):
            return node
        self.keys.add(node.slice.value)
        return _expression(self.template.replace("NAME", node.slice.value), BASE=node.value, KEY=node.slice)


def _look(template: str, prelude: str = "") -> Style:
    def style(tree: ast.Module, protocols: Protocols) -> ast.Module:
        look = _Look(template)
        tree = look.visit(tree)
        if look.keys:
            tree.body[:0] = [s for key in sorted(look.keys) for s in _statements(prelude.replace("NAME", key))]
        return tree

    return style


def _assign(template: str, prelude: str = "") -> Style:
    """Writes ``x = value`` as ``template``, in which ``TARGET`` and ``VALUE`` stand for the two."""

    def style(tree: ast.Module, protocols: Protocols) -> ast.Module:
        class Change(ast.NodeTransformer):
            changed = False

            def visit_Assign(self, node: ast.Assign) -> list[ast.stmt] | ast.stmt:
                name = _assigned(node)
                if name is None:
                    return node
                self.changed = True
                return _statements(template.replace("TARGET", name).replace("VALUE", f"({ast.unparse(node.value)})"))

        change = Change()
        tree = change.visit(tree)
        if change.changed:
            tree.body[:0] = _statements(prelude)
        return tree

    return style


def _whole(template: str) -> Style:
    """Puts the program into ``template`` in the place of the statement ``BODY``."""

    def style(tree: ast.Module, protocols: Protocols) -> ast.Module:
        class Fill(ast.NodeTransformer):
            def visit_Expr(self, node: ast.Expr) -> list[ast.stmt] | ast.stmt:
                return tree.body if isinstance(node.value, ast.Name) and node.value.id == "BODY" else node

        made = Fill().visit(ast.parse(template))
        assert isinstance(made, ast.Module)
        return made

    return style


def _loops(template: str, prelude: str = "") -> Style:
    """Writes ``for target in it`` with ``template`` for ``it``, in which ``IT`` stands for it, and ``TARGET`` the
    target."""
    target_code, it_code = template.split(" in ", 1)

    def change(node: ast.For | ast.comprehension) -> None:
        node.iter = _expression(it_code, IT=node.iter)
        if target_code != "TARGET":
            target = ast.unparse(node.target)
            loop = ast.parse(f"for {target_code.replace('TARGET', f'({target})')} in x: pass").body[0]
            assert isinstance(loop, ast.For)
            node.target = loop.target

    def style(tree: ast.Module, protocols: Protocols) -> ast.Module:
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
        for node in nodes:
            change(node)
        if nodes:
            tree.body[:0] = _statements(prelude)
        return tree

    return style


def _comprehensions_as_loops(tree: ast.Module, protocols: Protocols) -> ast.Module:
    """Comprehensions that stand in a top-level statement become loops before it."""

    class Hoist(ast.NodeTransformer):
        def __init__(self) -> None:
            self.before: list[ast.stmt] = []
            self.number = 0

        def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
            return node

        def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
            self.number += 1
            name = f"collected_{self.number}"
            body = _statements(f"{name}.append({ast.unparse(node.elt)})")
            for generator in reversed(node.generators):
                for condition in reversed(generator.ifs):
                    body = [ast.If(condition, list(body), [])]
                body = [ast.For(generator.target, generator.iter, list(body), [])]
            self.before += [*_statements(f"{name} = []"), *body]
            return ast.Name(name, ast.Load())

        visit_GeneratorExp = visit_ListComp

    hoist = Hoist()
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.For | ast.If):
            body.append(statement)
            continue
        changed = hoist.visit(statement)
        body += [*hoist.before, changed]
        hoist.before = []
    tree.body = body
    return tree


def _loops_as_while(tree: ast.Module, protocols: Protocols) -> ast.Module:
    class Change(ast.NodeTransformer):
        number = 0

        def visit_For(self, node: ast.For) -> list[ast.stmt] | ast.stmt:
            self.generic_visit(node)
            if any(isinstance(n, ast.Continue | ast.Break) for n in ast.walk(node)):
                return node
            self.number += 1
            queue = f"queue_{self.number}"
            loop = _statements(f"while {queue}:\n    {ast.unparse(node.target)} = {queue}.pop(0)")
            assert isinstance(loop[0], ast.While)
            loop[0].body += node.body
            return [*_statements(f"{queue} = list({ast.unparse(node.iter)})"), *loop]

    made = Change().visit(tree)
    assert isinstance(made, ast.Module)
    return made


def _parallel(tree: ast.Module, protocols: Protocols) -> ast.Module:
    """Comprehensions over a tool call, and single calls, through ``parallel``."""

    class Change(ast.NodeTransformer):
        def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
            if not _tool_call(node.elt, protocols) or len(node.generators) != 1:
                return node
            names = [n.id for n in ast.walk(node.generators[0].target) if isinstance(n, ast.Name)]
            bound = ", ".join(f"{name}={name}" for name in names)
            node.elt = _expression(f"lambda {bound}: VALUE", VALUE=node.elt)
            return _expression("parallel(*COMP)", COMP=node)

        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            self.generic_visit(node)
            if isinstance(node.value, ast.Call) and _tool_call(node.value, protocols):
                node.value = _expression("parallel([lambda: VALUE])[0]", VALUE=node.value)
            return node

    made = Change().visit(tree)
    assert isinstance(made, ast.Module)
    return made


def _positional(tree: ast.Module, protocols: Protocols) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in protocols:
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            for parameter in parameters_of(protocols[node.func.id]):
                if parameter.name not in given:
                    break
                node.args.append(given.pop(parameter.name))
            node.keywords = [keyword for keyword in node.keywords if keyword.arg in given]
    return tree


def _constants(template: str, prelude: str = "") -> Style:
    """Writes texts and numbers that are given to tools as ``template``, in which ``VALUE`` stands for them."""

    def style(tree: ast.Module, protocols: Protocols) -> ast.Module:
        changed = False
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in protocols:
                for keyword in node.keywords:
                    wanted = int if "int(" in template or "str(" in template else str
                    if isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is wanted:
                        keyword.value, changed = _expression(template, VALUE=keyword.value), True
        if changed:
            tree.body[:0] = _statements(prelude)
        return tree

    return style


def _extremes_by_sorting(tree: ast.Module, protocols: Protocols) -> ast.Module:
    class Change(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            if isinstance(node.func, ast.Name) and node.func.id in ("max", "min") and len(node.args) == 1:
                position = -1 if node.func.id == "max" else 0
                node.func = ast.Name("sorted", ast.Load())
                return ast.Subscript(node, ast.Constant(position), ast.Load())
            return node

    made = Change().visit(tree)
    assert isinstance(made, ast.Module)
    return made


def _state_in_a_dict(tree: ast.Module, protocols: Protocols) -> ast.Module:
    names = {name for node in tree.body if (name := _assigned(node))} - {"answer"}

    class Change(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in names:
                return node
            return ast.Subscript(ast.Name("state", ast.Load()), ast.Constant(node.id), node.ctx)

    tree = Change().visit(tree)
    if names:
        tree.body[:0] = _statements("state = {}")
    return tree


def _marked_items(tree: ast.Module, protocols: Protocols) -> ast.Module:
    """Loops that write into the objects of a response."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            name = node.target.id
            code = f"if isinstance({name}, dict):\n    {name}['mark'] = 1\n    {name}['mark'] += {name}['mark']"
            node.body[:0] = _statements(code)
    return tree


_MAIN = "def main():\n    BODY\n    return answer\nanswer = main()"
_CLASS = "class Solver:\n    def solve(self):\n        BODY\n        return answer\nanswer = Solver().solve()"
_BOX = "from dataclasses import dataclass\n@dataclass\nclass Found:\n    value: object\n    note: str = ''"
_ITERATED = "def each(items):\n    for item in items:\n        yield item"

STYLES: dict[str, Style] = {
    "main function": _whole(_MAIN),
    "main guard": _whole("answer = None\nif __name__ == '__main__':\n    BODY"),
    "class with a method": _whole(_CLASS),
    "try around all": _whole("try:\n    BODY\nexcept ToolError as error:\n    answer = str(error)"),
    "try with KeyError": _whole("try:\n    BODY\nexcept (ToolError, KeyError) as error:\n    answer = str(error)"),
    "try each call": _assign("try:\n    TARGET = VALUE\nexcept ToolError as error:\n    print(error)\n    raise"),
    "get": _look("BASE.get(KEY)"),
    "get with a default": _look("BASE.get(KEY, [] if KEY.endswith('s') else None)"),
    "asked with in": _look("(BASE[KEY] if KEY in BASE else None)"),
    "helper with a key": _look("field(BASE, KEY)", ""),
    "helper for each key": _look("take_NAME(BASE)", "def take_NAME(record):\n    return record['NAME']"),
    "lambda for each key": _look("take_NAME(BASE)", "take_NAME = lambda record: record['NAME']"),
    "spread into a new dict": _look("{**BASE, 'own': 1}[KEY]"),
    "copied": _look("dict(BASE)[KEY]"),
    "through json": _assign("TARGET = json.loads(json.dumps(VALUE))", "import json"),
    "annotated": _assign("TARGET: Any = VALUE", "from typing import Any"),
    "walrus": _assign("print(TARGET := VALUE)"),
    "data class": _assign("box_TARGET = Found(VALUE)\nTARGET = box_TARGET.value", _BOX),
    "unpacked": _assign("TARGET, *others = [VALUE, 1]"),
    "unpacked from a tuple": _assign("(TARGET, done), last = (VALUE, True), None"),
    "or a default": _assign("TARGET = VALUE or None"),
    "if not, then": _assign("TARGET = VALUE\nif not TARGET:\n    TARGET = None"),
    "asked for its type": _assign("TARGET = VALUE\nif isinstance(TARGET, list) and TARGET:\n    print(TARGET[0])"),
    "f-strings": _constants("f'{VALUE}'"),
    "numbers as text": _constants("str(VALUE)"),
    "texts joined": _constants("''.join([VALUE])"),
    "constants in a dict": _constants("{'wanted': VALUE}['wanted']"),
    "positional arguments": _positional,
    "loops for comprehensions": _comprehensions_as_loops,
    "while for loops": _loops_as_while,
    "enumerate": _loops("number, TARGET in enumerate(IT)"),
    "zip": _loops("TARGET, number in zip(IT, range(100000))"),
    "sorted first": _loops("TARGET in sorted(IT, key=lambda item: 0)"),
    "generator function": _loops("TARGET in each(IT)", _ITERATED),
    "filter with a lambda": _loops("TARGET in filter(lambda item: item is not None, IT)"),
    "map with a lambda": _loops("TARGET in map(lambda item: item, IT)"),
    "dict of items": _loops("key, TARGET in {number: item for number, item in enumerate(IT)}.items()"),
    "chained": _loops("TARGET in itertools.chain(IT, [])", "import itertools"),
    "sorting for max": _extremes_by_sorting,
    "parallel": _parallel,
    "state in a dict": _state_in_a_dict,
    "marks in the response": _marked_items,
}


def _with_helper(style: Style) -> Style:
    def styled(tree: ast.Module, protocols: Protocols) -> ast.Module:
        before = ast.dump(tree)
        tree = style(tree, protocols)
        if ast.dump(tree) != before:
            tree.body[:0] = _statements("def field(record, key):\n    return record[key]")
        return tree

    return styled


STYLES["helper with a key"] = _with_helper(STYLES["helper with a key"])

FIELD_CONTEXTS = {
    "field renamed, in a function": "main function",
    "field renamed, in a helper": "helper for each key",
    "field renamed, in a loop": "loops for comprehensions",
    "field renamed, after unpacking": "unpacked",
    "field renamed, in a generator": "generator function",
    "field renamed, in a lambda": "lambda for each key",
    "field renamed, through enumerate": "enumerate",
    "field renamed, through parallel": "parallel",
    "field renamed, after a spread": "spread into a new dict",
    "field renamed, through a data class": "data class",
    "field renamed, state in a dict": "state in a dict",
}
"""Kinds of mutants by the style of the programs they are made from."""

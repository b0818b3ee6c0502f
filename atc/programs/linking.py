"""Join a program with the kept programs that it calls, so that it runs as one text.

The program's own text stands first, unchanged: its lines keep their numbers. Behind it stands one function for each
kept program that it calls, itself or by another one; the sandbox defines these first (``Job.hoisted``). So a call that
a kept program makes is an ordinary call of the run, and needs its own permission.

Nothing that the outer program names changes what a kept program means. What a kept program has from outside (tools,
built-ins, other kept programs) is taken under another name before the outer program begins, wherever the two could
differ; a name that is nobody's is made one of its own, and so stays unset.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import symtable
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from atc._host.syntax import walk
from atc.errors import UsageError
from atc.programs.function_body import in_function
from atc.programs.program import MAX_SOURCE, Program, parse
from atc.schemas.names import ALL_PAGES
from atc.schemas.protocol import parameters_of
from atc.tools.kept import MAX_NESTED
from atc.tools.tool import Tool

_GIVEN = frozenset({*dir(builtins), "ToolError", "parallel", ALL_PAGES})
"""What stands in every program's scope, beside its tools."""
_ANSWER = "answer"
_REACHING = frozenset({"globals", "locals", "vars", "dir", "exec", "eval", "__import__"})
"""Built-ins that reach the names of a module, or of a function in its place."""
_REACHING_BARE = frozenset({"vars", "dir"})
"""Those of them that do so without an argument alone."""
_ODD = frozenset({"__builtins__", "__dict__", "setattr", "modules"})
"""Names by which a program may reach those of its own module in other ways."""
_ENDING = frozenset({"exit", "quit", "SystemExit"})
_LOOK = "look"


class NotLinked(UsageError):
    """A program cannot be joined with a kept program that it calls; the message says which, why, and what to do."""


@dataclass(frozen=True)
class LinkedPart:
    """Says where the function of a kept program stands in a linked text.

    Attributes:
        name: of the kept program, as programs call it.
        first, last: its lines, from 1.
        lines: by line of the linked text, the line of the kept program's own text.
    """

    name: str
    first: int
    last: int
    lines: Mapping[int, int]


@dataclass(frozen=True)
class Linked:
    """A program joined with the kept programs that it calls.

    Attributes:
        own: the program as its author wrote it.
        source: the whole text.
        hoisted: how many statements at its end are run first.
        parts: where each kept program stands.
        kept: the kept programs, by name, each behind those that it calls.
        inner: the tools that these call, by name; none is a kept program.
    """

    own: Program
    source: str
    hoisted: int
    parts: tuple[LinkedPart, ...]
    kept: Mapping[str, Tool]
    inner: Mapping[str, Tool]

    @cached_property
    def program(self) -> Program:
        """Return the whole as the program that runs, for what follows its values."""
        return Program(self.source, self.hoisted)

    @cached_property
    def own_lines(self) -> int:
        """Return how many lines the program's own text has."""
        return _own_text(self.own).count("\n") + 1

    def within(self, line: int) -> str:
        """Return the name of the kept program that a line of the whole text belongs to; empty for the program's own."""
        part = self._part(line)
        return "" if part is None else part.name

    def line_in_kept(self, line: int) -> int:
        """Return the line of the kept program's own text; 0 where the line is not of one."""
        part = self._part(line)
        return 0 if part is None else part.lines.get(line, 0)

    def _part(self, line: int) -> LinkedPart | None:
        return next((part for part in self.parts if part.first <= line <= part.last), None)


def link(program: Program, tools: Mapping[str, Tool]) -> Linked | None:
    """Join a program with the kept programs that it names, and those that these name.

    Args:
        program: as its author wrote it.
        tools: all that it may call, by name; kept programs bring the tools that they call (``Tool.inner``).

    Returns:
        The linked program; ``None`` where it names no kept program, or is no program.

    Raises:
        NotLinked: a kept program calls itself, is nested too deeply, is not fit to be a function
            (:func:`unfit_constructs`), or shares its name with another one; or the whole is too long.
    """
    if not any(tool.kept is not None for tool in tools.values()) or program.tree is None:
        return None
    named = {node.id for node in program.nodes if isinstance(node, ast.Name)}
    called = {name: tool for name, tool in tools.items() if tool.kept is not None and name in named}
    return _Linker(program, called).linked() if called else None


def _own_text(program: Program) -> str:
    """Return a program's text without the empty lines at its end, save the one by which a backslash ends it."""
    text = program.source.rstrip("\n")
    return f"{text}\n" if text.endswith("\\") else text


class _Linker:
    """Makes the functions of the kept programs that one program calls."""

    def __init__(self, own: Program, called: Mapping[str, Tool]) -> None:
        self._own, self._called = own, called
        self._kept: dict[str, Tool] = {}
        self._bound = _bound_names(own)
        self._names = itertools.count(1)
        self._used = {node.id for node in own.nodes if isinstance(node, ast.Name)} | (self._bound or set())
        self._seen: set[tuple[int, int]] = set()
        self._before: list[str] = []
        self._after: list[str] = []

    def linked(self) -> Linked:
        """Return the whole text."""
        for tool in self._called.values():
            self._collect(tool, ())
        for tool in self._kept.values():
            assert tool.kept is not None
            self._used |= {node.id for node in _parsed(tool).nodes if isinstance(node, ast.Name)}
        made = {name: self._function(tool) for name, tool in self._kept.items()}
        lines = [_own_text(self._own), *self._before]
        at = sum(text.count("\n") + 1 for text in lines)
        parts = []
        for name, (text, numbers) in made.items():
            ends = at + text.count("\n") + 1
            parts.append(LinkedPart(name, at + 1, ends, {at + line: own for line, own in numbers.items()}))
            lines.append(text)
            at = ends
        source = "\n".join([*lines, *self._after]) + "\n"
        hoisted = len(made) + len(self._before) + len(self._after)
        every = [each for tool in self._kept.values() for each in tool.inner.values()]
        inner = {each.name: each for each in every if each.kept is None}
        return self._checked(Linked(self._own, source, hoisted, tuple(parts), dict(self._kept), inner))

    def _checked(self, linked: Linked) -> Linked:
        names = ", ".join(self._kept)
        if len(linked.source) > MAX_SOURCE:
            size = f"{len(linked.source):,} characters; the limit is {MAX_SOURCE:,}"
            raise NotLinked(
                f"the program and the kept programs that it calls ({names}) have {size}: call fewer of them"
            )
        tree = Program(linked.source).tree
        whole = len(self._own.module.body) + linked.hoisted
        if tree is None or len(tree.body) != whole:
            raise NotLinked(f"the program cannot be joined with the kept programs that it calls: {names}")
        return linked

    def _collect(self, tool: Tool, outer: tuple[str, ...]) -> None:
        if tool.name in outer:
            way = " → ".join([*outer[outer.index(tool.name) :], tool.name])
            raise NotLinked(f"the kept program {tool.name!r} calls itself ({way}): keep one that does not")
        if len(outer) >= MAX_NESTED:
            way = " → ".join([*outer, tool.name])
            raise NotLinked(f"kept programs call each other more than {MAX_NESTED} deep ({way}): keep a flatter one")
        seen = (id(tool), len(outer)) in self._seen  # a circle is found on the way in, and each way in is one of these
        self._seen.add((id(tool), len(outer)))
        for each in () if seen else tool.inner.values():
            if each.kept is not None:
                self._collect(each, (*outer, tool.name))
        known = self._kept.setdefault(tool.name, tool)
        if known.kept != tool.kept:
            raise NotLinked(f"two kept programs are named {tool.name!r}: keep one of them under another name")

    def _function(self, tool: Tool) -> tuple[str, dict[int, int]]:
        kept = _parsed(tool)
        if found := unfit_constructs(kept):
            unfit = found[0]
            raise NotLinked(
                f"the kept program {tool.name!r} has {unfit.construct} in its line {unfit.line}, which the body of a "
                "function cannot have: keep it again without it"
            )
        body = in_function(_body(kept.module))
        arguments, defaults = _parameters(tool)
        ends = ast.Return(ast.Name(_ANSWER, ast.Load()))
        bare = _definition(tool.name, arguments, [*defaults, *body, ends])
        first = self._first_lines(tool, *_scope_of(_text_of(bare, tool)))
        made = _definition(tool.name, arguments, [*defaults, *first, *body, ends])
        text = _text_of(made, tool)
        again = parse(text).body[0]
        if ast.dump(again) != ast.dump(made):
            raise NotLinked(f"the kept program {tool.name!r} cannot be made a function: keep it again, written plainly")
        own = again.body[len(made.body) - len(body) - 1 :]  # type: ignore[attr-defined]
        numbers: dict[int, int] = {}
        for statement, original in zip(own, body, strict=False):  # the last one returns the answer, and is ours
            for new, old in zip(walk(statement), walk(original), strict=True):
                if isinstance(new, ast.stmt | ast.expr):
                    numbers.setdefault(new.lineno, old.lineno)  # type: ignore[attr-defined]
        return text, numbers

    def _first_lines(self, tool: Tool, own: set[str], outside: set[str]) -> list[ast.stmt]:
        """With these each name means what it means in the kept program."""
        made: list[ast.stmt] = []
        for name in sorted(own | outside):
            inner = tool.inner.get(name)
            there = inner.name if inner is not None else name
            if inner is None and name not in _GIVEN:
                if name in outside:
                    made += parse(f"{name}: object").body  # nobody's: unset here, whatever the outer program has
                continue
            if name in own or there != name or self._may_bind(there):
                alias = self._alias(there, kept=inner is not None and inner.kept is not None)
                made += parse(f"{name} = {alias}").body
        return made

    def _may_bind(self, name: str) -> bool:
        return self._bound is None or name in self._bound

    def _alias(self, name: str, *, kept: bool) -> str:
        """Return another name of something from outside, which the outer program cannot change."""
        free = (f"_{name}_{number}" for number in self._names)
        alias = next(each for each in free if each not in self._used)
        self._used.add(alias)
        (self._after if kept else self._before).append(f"{alias} = {name}")
        return alias


def _parsed(tool: Tool) -> Program:
    assert tool.kept is not None
    program = Program(tool.kept.program)
    if (problem := program.problem) is not None:
        raise NotLinked(f"the kept program {tool.name!r} is no program: {problem.message}, in its line {problem.line}")
    return program


def _text_of(made: ast.FunctionDef, tool: Tool) -> str:
    try:
        return ast.unparse(made)
    except (ValueError, RecursionError) as error:
        raise NotLinked(
            f"the kept program {tool.name!r} cannot be made a function ({error}): keep it again, written plainly"
        ) from None


def _definition(name: str, arguments: ast.arguments, body: Sequence[ast.stmt]) -> ast.FunctionDef:
    made: Any = parse("def f(): pass").body[0]  # with all the fields that this Python's functions have
    made.name, made.args, made.body = name, arguments, list(body)
    return made  # type: ignore[no-any-return]


def _parameters(tool: Tool) -> tuple[ast.arguments, list[ast.stmt]]:
    """Return the parameters of a kept program, and the statements that give a container of its own to one left out."""
    given, rest = [], []
    for parameter in parameters_of(tool.protocol):
        default: Any = parameter.schema.get("default") if isinstance(parameter.schema, dict) else None
        if isinstance(default, list | dict):
            rest.append(f"if {parameter.name} is None:\n    {parameter.name} = {default!r}")
            default = None
        given.append(parameter.name if parameter.required else f"{parameter.name}={default!r}")
    function = parse(f"def f({', '.join(given)}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args, parse("\n".join(rest)).body


def _body(tree: ast.Module) -> list[ast.stmt]:
    body = list(tree.body)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:] if isinstance(body[0].value.value, str) else body
    future = [each for each in body if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    if any(name.name == "annotations" for each in future for name in each.names):
        body = [_Annotations().visit(copy.deepcopy(each)) for each in body if each not in future]
    return [each for each in body if each not in future]


class _Annotations(ast.NodeTransformer):
    """Makes texts of annotations, as ``from __future__ import annotations`` does."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = _as_text(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = _as_text(node.annotation) or node.annotation
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = _as_text(node.returns)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = _as_text(node.returns)
        return self.generic_visit(node)


def _as_text(annotation: ast.expr | None) -> ast.expr | None:
    return None if annotation is None else ast.copy_location(ast.Constant(ast.unparse(annotation)), annotation)


def _bound_names(program: Program) -> set[str] | None:
    """These are more than the names of its module; ``None`` where it may bind any."""
    found: set[str] = set()
    for node in program.nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.Global(names=names):
                found.update(names)
            case ast.alias(name="*"):
                return None
            case ast.alias(name=name, asname=other):
                found.add(other or name.split(".")[0])
    return None if any(_name_of(node) in _REACHING | _ODD for node in program.nodes) else found


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _scope_of(text: str) -> tuple[set[str], set[str]]:
    """The names that the text's function binds, but its parameters; those that it, or one in it, has from outside."""
    try:
        function = symtable.symtable(text, "kept", "exec").get_children()[0]
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotLinked(f"a kept program cannot be made a function: {error}") from None
    own = {each.get_name() for each in function.get_symbols() if each.is_local() and not each.is_parameter()}
    todo, outside = [function], set[str]()
    while todo:
        table = todo.pop()
        todo += table.get_children()
        outside |= {each.get_name() for each in table.get_symbols() if each.is_global()}
    return own, outside


@dataclass(frozen=True)
class Unfit:
    """Names what keeps a program from being kept.

    Attributes:
        construct: as it is written: ``global``, ``exec``, ``look``, ``from math import *``.
        line: of the program, from 1.
    """

    construct: str
    line: int


def unfit_constructs(program: Program) -> tuple[Unfit, ...]:
    """Return what a program has that a kept program cannot have, in the order of its lines.

    A kept program becomes the body of a function: it cannot reach the names of a module (``global``, ``globals``,
    ``locals``, ``vars()``, ``dir()``, ``exec``, ``eval``, ``from … import *``), nor end the program that calls it
    (``exit``, ``quit``, ``sys.exit``, ``SystemExit``), nor look (``look``).

    Raises:
        NotParsed: it is no program.
    """
    bound = {node.id for node in program.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found = {(line, construct) for node in program.nodes for construct, line in _unfit(node, bound)}
    called = {node.func for node in program.nodes if isinstance(node, ast.Call) and (node.args or node.keywords)}
    bare = {node for node in program.nodes if _name_of(node) in _REACHING_BARE and isinstance(node, ast.Name)} - called
    found |= {(node.lineno, node.id) for node in bare if isinstance(node, ast.Name) and node.id not in bound}
    return tuple(Unfit(construct, line) for line, construct in sorted(found))


def _unfit(node: ast.AST, bound: set[str]) -> Iterator[tuple[str, int]]:
    match node:
        case ast.Global():
            yield "global", node.lineno
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            yield f"from {node.module or '.'} import *", node.lineno
        case ast.Name(id=name) if name not in bound:
            if name in (_REACHING - _REACHING_BARE) | _ENDING | {_LOOK}:
                yield name, node.lineno
        case ast.Attribute(value=ast.Name(id="sys"), attr="exit"):
            yield "sys.exit", node.lineno
        case ast.Attribute(value=ast.Name(id="os"), attr="_exit" | "abort" as name):
            yield f"os.{name}", node.lineno

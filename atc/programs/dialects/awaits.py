"""Programs that await their tools, as the sequential ones that they are here: a tool is a plain function.

``await f(…)`` becomes ``f(…)``, and ``await asyncio.gather(f(…), g(…))`` the list ``[f(…), g(…)]``: in order, which is
one of the orders that ``gather`` may take; by ``parallel`` where every call is a read and nothing else is computed.
With ``return_exceptions=True`` it is ``parallel(lambda: f(…), lambda: g(…), settle=True)``, whatever the calls do.

Where the program does nothing more with ``asyncio``, its own ``async def`` become functions and ``asyncio.run(main())``
a call. Else they stay, for ``asyncio`` works in the jail: what it does with the program's own coroutines is Python's.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TypeGuard

from atc._host.syntax import child_nodes, walk
from atc.facts import Finding
from atc.programs.dialects import tool_names
from atc.programs.dialects.tool_names import Text
from atc.programs.edits import Edit, Rewrite, apply, end_of, replace, start_of
from atc.programs.program import Program
from atc.programs.syntax import is_generator
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.paging import ALL_PAGES

_ASYNC_DEF = re.compile(r"async[ \t]+(?=def\b)")
_AWAIT = re.compile(r"await[ \t]*")
_COMPUTES = (ast.Call, ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Lambda, ast.comprehension)
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.JoinedStr, ast.List, ast.Dict)
"""What needs no parentheses as the default of a parameter."""
_Comprehension = ast.ListComp | ast.GeneratorExp


def rewrites(program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str]) -> Iterator[Rewrite]:
    """Make a program sequential, as far as that is certain: its own coroutines too where all of it is, else the calls
    of tools alone. One that awaits neither a tool nor anything outside a coroutine is right as it is."""
    text = Text(program, inputs)
    own = {node.name for node in text.nodes if isinstance(node, ast.AsyncFunctionDef)}
    tools, whole = _Sequential(text, protocols, ()), _Sequential(text, protocols, own)
    if whole.complete and (tools.found or awaits_outside(program)):
        yield from whole.rewrites()
    else:
        yield from tools.rewrites()


def awaits_outside(program: Program) -> list[ast.Await]:
    """Return where a program that parses awaits something outside a coroutine, which Python does not allow."""
    found: list[ast.Await] = []
    todo: list[tuple[ast.AST, bool]] = [(program.module, False)]
    while todo:
        node, within = todo.pop()
        for inside in child_nodes(node):
            if isinstance(inside, ast.Await) and not within:
                found.append(inside)
            is_own = isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            todo.append((inside, isinstance(inside, ast.AsyncFunctionDef) if is_own else within))
    return sorted(found, key=lambda node: node.lineno)


class _Sequential:
    """Finds what of a program can be made sequential.

    Args:
        text: the program.
        protocols: the tools by name.
        own: the program's own coroutines that are taken for functions.
    """

    def __init__(self, text: Text, protocols: Mapping[str, Protocol], own: Collection[str]) -> None:
        self._text, self._protocols, self._own = text, protocols, frozenset(own)
        bound = text.binders
        self._given = {name for name in (*protocols, "parallel", ALL_PAGES) if name not in bound}
        self._module, self._functions = _asyncio_names(text, protocols)
        self._only_reads = all(protocols[name].effect is Effect.READ for name in text.uses if name in protocols)
        self._settled: set[ast.AST] = set()
        """Calls of coroutines, and of ``asyncio``, that are seen to."""
        self._awaits: list[ast.Await] = []
        self._gathers: list[ast.Call] = []
        self._thunks_of: dict[ast.Call, list[Edit]] = {}
        """Of those that give errors in the place of results: what makes functions of their calls."""
        self._runs: list[ast.Call] = []
        for node in text.nodes:
            if isinstance(node, ast.Await) and self._is_seen_to(node):
                self._awaits.append(node)
            elif isinstance(node, ast.Call) and self._asyncio(node.func) == "run" and self._runs_one(node):
                self._settled |= {node, node.args[0]}
                self._runs.append(node)

    @property
    def found(self) -> bool:
        """Return whether there is anything to rewrite."""
        return bool(self._awaits or self._runs)

    # -- what is certain -----------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Return whether nothing asynchronous would be left in the program."""
        return bool(self._own) and all(map(self._is_settled, self._text.nodes))

    def _is_settled(self, node: ast.AST) -> bool:
        parents = self._text.parents
        match node:
            case ast.Await():
                return node in self._settled
            case ast.AsyncFor() | ast.AsyncWith() | ast.comprehension(is_async=1):
                return False
            case ast.AsyncFunctionDef(name=name):
                plain = not node.decorator_list and not is_generator(node) and self._text.binders[name] == 1
                return plain and not isinstance(parents[node], ast.ClassDef) and bool(_written(self._text, node))
            case ast.Name(id=name) if name in self._own or name in self._functions or name in self._module:
                called = parents[node] if name in self._module else node
                call = parents.get(called)
                return isinstance(call, ast.Call) and call.func is called and call in self._settled
        return True

    def _asyncio(self, called: ast.expr) -> str:
        match called:
            case ast.Attribute(value=ast.Name(id=name), attr=function) if name in self._module:
                return function
            case ast.Name(id=name):
                return self._functions.get(name, "")
        return ""

    def _is_seen_to(self, node: ast.Await) -> bool:
        value = node.value
        if self._text.line_from(node)[:5] != "await":
            return False
        if self._is_plain(called := _root(value)):
            self._settled |= {node, called}
            return True
        if isinstance(value, ast.Call) and self._asyncio(value.func) == "gather":
            settles = _settles(value)
            if value.keywords and (not settles or "parallel" not in self._given or _is_in_class(self._text, node)):
                return False
            found = [self._gathered(argument, node, later=settles) for argument in value.args]
            calls = [call for each in found for call in each or ()]
            if calls and None not in found and self._open(value) is not None:
                if settles:
                    made = [self._deferred(call) for call in calls]
                    if None in made:
                        return False
                    self._thunks_of[value] = [edit for edits in made for edit in edits or ()]
                self._settled |= {node, value, *calls}
                self._gathers.append(value)
                return True
        return False

    def _runs_one(self, node: ast.Call) -> bool:
        if len(node.args) != 1 or node.keywords or not self._is_plain(node.args[0]):
            return False
        return self._text.between(end_of(node.args[0]), end_of(node)) == ")"

    def _is_plain(self, node: ast.AST) -> TypeGuard[ast.Call]:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and (node.func.id in self._given or node.func.id in self._own)
        )

    def _gathered(self, argument: ast.expr, where: ast.Await, *, later: bool) -> list[ast.Call] | None:
        """``later``: whether the calls are made where they are awaited, and not where they are written."""
        if isinstance(argument, ast.Starred):
            if isinstance(argument.value, ast.Name):
                return self._kept_before(argument.value, where, many=True, later=later)
            return self._listed(argument.value)
        if isinstance(argument, ast.Name):
            return self._kept_before(argument, where, many=False, later=later)
        return [argument] if self._is_plain(argument) else None

    def _listed(self, node: ast.expr) -> list[ast.Call] | None:
        if isinstance(node, ast.List | ast.Tuple):
            calls = [part for part in node.elts if self._is_plain(part)]
            return calls if len(calls) == len(node.elts) else None
        if isinstance(node, _Comprehension) and not any(each.is_async for each in node.generators):
            return [node.elt] if self._is_plain(node.elt) else None
        return None

    def _kept_before(self, name: ast.Name, where: ast.Await, *, many: bool, later: bool) -> list[ast.Call] | None:
        """Not made ``later``, calls run where they are written: with an effect only if nothing stands between."""
        text, bound, appended = self._text, list[ast.AST](), list[ast.Call]()
        for use in text.uses[name.id]:
            if isinstance(use.ctx, ast.Store):
                bound.append(text.parents[use])
            elif use is not name:
                if not many or (call := self._appended(use)) is None:
                    return None
                appended.append(call)
        if text.binders[name.id] != 1 or len(bound) != 1 or not isinstance(kept := bound[0], ast.Assign):
            return None
        calls = self._listed(kept.value) if many else [kept.value] if self._is_plain(kept.value) else None
        if calls is None or len(kept.targets) != 1:
            return None
        reads = later or self._only_reads or all(map(self._reads, (*calls, *appended)))
        return [*calls, *appended] if reads or (not appended and _is_next(kept, text.parents[where])) else None

    def _appended(self, name: ast.Name) -> ast.Call | None:
        parents = self._text.parents
        method = parents[name]
        call = parents.get(method)
        if not isinstance(method, ast.Attribute) or method.attr != "append" or not isinstance(call, ast.Call):
            return None
        alone = call.func is method and isinstance(parents[call], ast.Expr) and len(call.args) == 1
        return call.args[0] if alone and self._is_plain(call.args[0]) else None

    def _reads(self, call: ast.Call) -> bool:
        protocol = self._protocols.get(call.func.id) if isinstance(call.func, ast.Name) else None
        return protocol is not None and protocol.effect is Effect.READ

    # -- what is written in its place ----------------------------------------------------------------------------------

    def rewrites(self) -> Iterator[Rewrite]:
        """Yield the rewrites of all that is certain."""
        text, gathers = self._text, {*self._gathers}
        for node in self._awaits:
            if node.value in gathers and isinstance(node.value, ast.Call):
                yield self._gather(node, node.value)
            else:
                word = _AWAIT.match(text.line_from(node))
                end = node.lineno, node.col_offset + (len(word[0]) if word else 0)
                yield _rewrite(node, "left out `await`: tools are plain functions", Edit(start_of(node), end, ""))
        for call in self._runs:
            inner = call.args[0]
            edits = text.put(start_of(call), start_of(inner), ""), Edit(end_of(inner), end_of(call), "")
            yield _rewrite(call, "called what `asyncio.run` would run", *edits)
        for each in text.nodes if self._own else ():
            if isinstance(each, ast.AsyncFunctionDef):
                end = each.lineno, each.col_offset + len(_written(text, each))
                yield _rewrite(each, f"made {each.name} a plain function", Edit(start_of(each), end, ""))

    def _gather(self, node: ast.Await, call: ast.Call) -> Rewrite:
        text, opened = self._text, self._open(call)
        assert opened is not None
        if (settled := self._thunks_of.get(call)) is not None:
            head = text.put(start_of(node), opened, "parallel(")
            setting = replace(call.keywords[0], "settle=True")
            return _rewrite(node, "made the calls of `gather` by `parallel`, with errors", head, *settled, setting)
        if (thunks := self._thunks(node, call)) is not None:
            head = text.put(start_of(node), opened, "parallel(")
            return _rewrite(node, "made the calls of `gather` by `parallel`", head, *thunks)
        end = end_of(call)
        last = Edit((end[0], end[1] - 1), end, "]")
        return _rewrite(node, "made the calls of `gather` in order", text.put(start_of(node), opened, "["), last)

    def _thunks(self, node: ast.Await, call: ast.Call) -> list[Edit] | None:
        """``None`` if the calls may do anything but read, or something else is computed with them."""
        if "parallel" not in self._given or _is_in_class(self._text, node):
            return None
        edits: list[Edit] = []
        for argument in call.args:
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            names: list[str] = []
            if isinstance(inner, _Comprehension):
                targets = [part for each in inner.generators for part in walk(each.target)]
                names, inner = [part.id for part in targets if isinstance(part, ast.Name)], inner.elt
            if not isinstance(inner, ast.Call) or not self._reads(inner) or _computes(inner):
                return None
            kept = ", ".join(f"{name}={name}" for name in dict.fromkeys(names))
            edits.append(Edit(start_of(inner), start_of(inner), f"lambda {kept}: " if kept else "lambda: "))
        alone = len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)
        return None if not edits or alone else edits

    def _deferred(self, call: ast.Call) -> list[Edit] | None:
        """Arguments are evaluated where the call stands, so that no error of theirs is taken for the call's."""
        names, given, edits = {keyword.arg for keyword in call.keywords}, list[str](), list[Edit]()
        arguments = [(None, argument) for argument in call.args]
        for number, (name, value) in enumerate([*arguments, *((each.arg, each.value) for each in call.keywords)]):
            value = value.value if isinstance(value, ast.Starred) else value
            if isinstance(value, ast.Constant):
                continue
            if value.lineno != value.end_lineno or isinstance(value, ast.GeneratorExp):
                return None
            if name is None or (isinstance(call.func, ast.Name) and name == call.func.id):
                name = next(each for each in _numbered(f"given{number}") if each not in names)
            source = self._text.between(start_of(value), end_of(value))
            given.append(f"{name}={source if isinstance(value, _ATOMS) else f'({source})'}")
            edits.append(replace(value, name))
        return [Edit(start_of(call), start_of(call), f"lambda {', '.join(given)}: " if given else "lambda: "), *edits]

    def _open(self, call: ast.Call) -> tuple[int, int] | None:
        return self._text.behind(end_of(call.func), end_of(call), "(")


def _settles(call: ast.Call) -> bool:
    match call.keywords:
        case [ast.keyword(arg="return_exceptions", value=ast.Constant(value=True))]:
            return True
    return False


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))


def _asyncio_names(text: Text, protocols: Collection[str]) -> tuple[set[str], dict[str, str]]:
    modules: Counter[str] = Counter()
    functions: dict[str, str] = {}
    for node in text.nodes:
        match node:
            case ast.Import(names=aliases):
                modules.update(alias.asname or alias.name for alias in aliases if alias.name == "asyncio")
            case ast.ImportFrom(module="asyncio", level=0, names=aliases):
                functions |= {alias.asname or alias.name: alias.name for alias in aliases}
    found = {name for name, times in modules.items() if text.binders[name] == times}
    if "asyncio" not in text.binders and "asyncio" not in protocols:
        found.add("asyncio")
    return found, {name: function for name, function in functions.items() if text.binders[name] == 1}


def _written(text: Text, node: ast.AsyncFunctionDef) -> str:
    word = _ASYNC_DEF.match(text.line_from(node))
    return word[0] if word else ""


def _root(node: ast.expr) -> ast.expr:
    """Return what stands first in ``f(x=1)["key"]`` or ``f(x=1).get("key")``: nothing in a response can be awaited."""
    while True:
        match node:
            case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return node


def _computes(call: ast.Call) -> bool:
    arguments = (*call.args, *(each.value for each in call.keywords))
    return any(isinstance(part, _COMPUTES) for argument in arguments for part in walk(argument))


def _is_next(kept: ast.Assign, node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assign | ast.Return | ast.Expr)
        and node.col_offset == kept.col_offset
        and node.lineno == (kept.end_lineno or 0) + 1
    )


def _is_in_class(text: Text, node: ast.AST) -> bool:
    """Return whether a class is the next scope around, whose names no lambda sees."""
    at: ast.AST | None = node
    while at is not None and not isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        at = text.parents.get(at)
    return isinstance(at, ast.ClassDef)


def _rewrite(node: ast.expr | ast.stmt, what: str, *edits: Edit) -> Rewrite:
    return Rewrite("dialect", f"line {node.lineno}: {what}", edits)


# ----------------------------------------------------------------------------------------------------------------------
# Reads a program that is written for another runtime as one over plain functions, which tools are here.
#
# Dialects are no rules: none changes what a program would do that runs as it is written. The lines keep their numbers.


_FORMS = re.compile(r"\b(?:await|async|asyncio|tools|functions|call_tool|mcp__)")
_ROUNDS = 6
"""Rounds in which a program is looked at: a call of a tool inside another one's arguments is seen in the next."""


def in_plain_python(
    program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str] = ()
) -> tuple[Program, tuple[Rewrite, ...]]:
    """Return the program over plain functions, and what was rewritten; the same program where it has no such form.

    Args:
        program: as its author wrote it. One that does not parse is left alone.
        protocols: the tools that it may call, by name.
        inputs: the names of the values that stand in its scope before it runs.
    """
    made: list[Rewrite] = []
    if _FORMS.search(program.source) is None:
        return program, ()
    for dialect in (tool_names.rewrites, rewrites):
        for _ in range(_ROUNDS):
            found = dialect(program, protocols, inputs) if program.tree is not None else ()
            program, applied = apply(program, found)
            if not applied:
                break
            made += applied
    return program, tuple(made)


def unclear_tools(program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str] = ()) -> list[Finding]:
    """Return the names of this kind that may mean several tools, or name a wrong server for the tool: errors."""
    if program.tree is None or _FORMS.search(program.source) is None:
        return []
    return tool_names.unclear(program, protocols, inputs)

"""Find out whether a write of a program stood, unchanged, in a program that was written before.

It did where that program runs the same code up to the write's end: then nothing that was written since can have chosen
the write, its arguments, or whether it is made. The same call behind other code is another call: its text may be equal,
and a variable in it another one. Two things may differ: what comes after the write, and assignments before it that only
read, and of which nothing that stands in both programs knows.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property

from atc._host.syntax import walk
from atc.programs.program import Program

MAX_COMPARED, MAX_ENDS = 200, 3
"""Statements before a write that are compared one by one, and places where the write may have stood; of
more, all must be equal."""
PURE_FUNCTIONS = frozenset({"abs", "bool", "float", "int", "len", "repr", "round", "str"})
"""Functions of Python that change nothing, whatever plain data they are given: an iterator is not used up either."""
PURE_METHODS = frozenset(
    "casefold count endswith find get lower lstrip replace rstrip split splitlines startswith strip title upper".split()
)
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)
"""Parts of a statement that may run later than the statement."""
_PURE_NODES = (
    ast.Constant,
    ast.Name,
    ast.Subscript,
    ast.Slice,
    ast.BinOp,
    ast.BoolOp,
    ast.UnaryOp,
    ast.Compare,
    ast.IfExp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Dict,
    ast.List,
    ast.Set,
    ast.Tuple,
    ast.keyword,
    ast.operator,
    ast.boolop,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)


class Code:
    """The statements of one program's module, to be compared with those of another one.

    Args:
        program: the one.
    """

    def __init__(self, program: Program) -> None:
        self.body: list[ast.stmt] = [] if program.tree is None else program.tree.body

    @cached_property
    def dumps(self) -> list[str]:
        """Return the statements as texts, without their places."""
        return [ast.dump(each) for each in self.body]

    @cached_property
    def made(self) -> list[str]:
        """Return what each statement does before it gives a variable what came of it, as a text."""
        return [_made(each) for each in self.body]

    def until(self, tool: str, line: int) -> int:
        """Return how many statements decide over a call: all up to the one that makes it.

        Where a function or a generator makes it, all do: whatever comes later may call that. 0: no such call is there.

        Args:
            tool: the tool's name.
            line: of the call, by the program's own claim.
        """
        at = [n for n, each in enumerate(self.body) if each.lineno <= line <= (each.end_lineno or each.lineno)]
        made = [self.body[n] for n in at if _calls(self.body[n], tool, line)]
        if any(isinstance(node, _DEFERRED) for each in made for node in walk(each)):
            return len(self.body)
        return at[-1] + 1 if made else 0

    def free_names(self, until: int) -> frozenset[str]:
        """Return the names in the first statements but those to which they give a value before all else: an input of
        that name is one of them, and no other."""
        free, own = set[str](), set[str]()
        for each in self.body[:until]:
            named = set(_names(each))
            if isinstance(each, ast.Assign):
                given = {target.id for target in each.targets if isinstance(target, ast.Name)}
                own |= given - free - {node.id for node in walk(each.value) if isinstance(node, ast.Name)}
            free |= named - own
        return frozenset(free)

    def stood_in(self, before: Code, until: int, tools: Mapping[str, bool]) -> bool:
        """Return whether a program that was written before runs the same code up to the end of a write of this one.

        Args:
            before: that program.
            until: how many statements of this one decide over the write (:meth:`until`).
            tools: the names of all tools, each with whether it has no effects.
        """
        if not until:
            return False
        own, made = self.dumps[: until - 1], self.made[until - 1]
        ends = [n for n, each in enumerate(before.made) if each == made]
        if len(own) in ends and before.dumps[: len(own)] == own:
            return True
        return any(self._is_like(own, before, end, tools) for end in ends[:MAX_ENDS])

    def _is_like(self, own: list[str], before: Code, end: int, tools: Mapping[str, bool]) -> bool:
        """Whether the code before a write differs in nothing but assignments that only read, and that nothing else
        knows of."""
        theirs = before.dumps[:end]
        if max(len(own), len(theirs)) > MAX_COMPARED:
            return False
        mine, other = _differing(own, theirs)
        bodies = (self.body[: len(own) + 1], mine), (before.body[: end + 1], other)
        return all(_are_apart(body, differ, tools) for body, differ in bodies)


def _made(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=targets, value=value) if all(isinstance(each, ast.Name) for each in targets):
            return ast.dump(value)
        case ast.Expr(value=value):
            return ast.dump(value)
    return ast.dump(statement)


def _differing(one: list[str], other: list[str]) -> tuple[set[int], set[int]]:
    mine, theirs = set[int](), set[int]()
    for tag, begin, end, begins, ends in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag != "equal":
            mine.update(range(begin, end))
            theirs.update(range(begins, ends))
    return mine, theirs


def _are_apart(body: Sequence[ast.stmt], differing: Collection[int], tools: Mapping[str, bool]) -> bool:
    """Whether some statements of a program cannot change what the others of it do: they read plain data, and give it
    to variables that no other statement names."""
    plain, reads = {*PURE_FUNCTIONS, *tools}, [name for name, only_reads in tools.items() if only_reads]
    made, loaded, others = set[str](), set[str](), [each for n, each in enumerate(body) if n not in differing]
    for statement in (body[n] for n in differing):
        if not _only_reads(statement, reads):
            return False
        made.update(_bound(statement))
        loaded.update(_names(statement))
    bound = made.union(*map(_bound, others))
    if made & set[str]().union(*map(_names, others)) or bound & plain or any(n.startswith("__") for n in made):
        return False
    earlier = [each for n, each in enumerate(body[: max(differing, default=0)]) if n not in differing]
    return not loaded & _no_data(earlier, plain, tools)


def _no_data(statements: Iterable[ast.stmt], plain: Collection[str], tools: Collection[str]) -> set[str]:
    """Return the variables that may hold something else than JSON values: to read a part of it may change it."""
    odd, reading = set[str](), list[set[str]]()
    for each in statements:
        names = {*_names(each)}.difference(plain)
        if _only_reads(each, tools):
            reading.append(names)
        else:
            odd |= names
    while more := [names for names in reading if names & odd and not names <= odd]:
        odd.update(*more)
    return odd


def _only_reads(statement: ast.stmt, tools: Collection[str]) -> bool:
    match statement:
        case ast.Assign(targets=targets, value=value) if all(isinstance(each, ast.Name) for each in targets):
            return _is_pure(value, tools)
        case ast.Expr(value=value):
            return _is_pure(value, tools)
    return False


def _is_pure(value: ast.expr, tools: Collection[str]) -> bool:
    """Whether an expression changes nothing that was there: it reads, and computes with JSON values."""
    functions = set[int]()
    for node in walk(value):
        match node:
            case ast.Call(func=ast.Name(id=name) as function) if name in PURE_FUNCTIONS or name in tools:
                functions.add(id(function))
            case ast.Call(func=ast.Attribute(attr=name) as function) if name in PURE_METHODS:
                functions.add(id(function))
            case _ if not isinstance(node, _PURE_NODES) and id(node) not in functions:
                return False
    return True


def _calls(statement: ast.stmt, tool: str, line: int) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == tool
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        for node in walk(statement)
    )


def _bound(statement: ast.stmt) -> Iterator[str]:
    for node in walk(statement):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id
        else:
            yield from _named(node)


def _names(statement: ast.stmt) -> Iterator[str]:
    for node in walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        else:
            yield from _named(node)


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives a value without a node of their own."""
    match node:
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name

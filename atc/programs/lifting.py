"""Find what a program has written out that a caller could give it: the values that go into calls, and bounds.

Each such value is put into a variable of its own, and the program with the variables is followed
(:mod:`atc.programs.origins`): so it is known into which arguments a value goes, through names, lists and helpers. Where
a program cannot be followed, a value goes where it stands.

What a program names a field by, what shapes a text, and what stands in a pattern is no such value.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

from atc._host.syntax import child_nodes, walk
from atc._records.keeping import Used
from atc._records.records import Origin
from atc.programs.edits import Edit, Rewrite, apply, end_of, start_of
from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from atc.schemas.protocol import Protocol, parameters_of

Role = Literal["argument", "bound", "compared", "named", "other"]
"""How a value is used that the program has written out: it goes into a call of a tool; it bounds a number or a list; it
is compared with; the program has a name for it; none of these."""

MAX_LITERALS = 4_000
"""Values of one program that are looked at; where there is one more, there are too many."""
MAX_USES = 20
"""Arguments that are named of one value."""
MAX_ITEMS = 200
"""Items of a list that is taken as one value."""
SLICED = ("offset", "limit", "step")
"""What the parts of a slice are called: whole numbers."""
_KEY_METHODS = frozenset({"get", "pop", "setdefault", "getlist", "itemgetter", "attrgetter", "getattr", "hasattr"})
_SHAPING = frozenset({"format", "join", "strftime", "strptime", "encode", "decode"})
_ORDERS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Gt: ("min", "max"), ast.GtE: ("min", "max"), ast.Lt: ("max", "min"), ast.LtE: ("max", "min"),
}  # fmt: skip
"""What a bound is called that stands on the right of a comparison, and on its left."""


@dataclass(frozen=True)
class Written:
    """Describes a value that a program has written out.

    Attributes:
        value: the value: a text, a number, a truth value, or a list of texts and numbers.
        node: where it stands.
        role: how it is used. ``hint``: what that calls it; empty where nothing does.
        variable: the module's variable that has just this value; ``statement``: the assignment, where there is one.
        uses: the arguments of calls into which it goes.
        is_key: the program names a field by the same text.
    """

    value: Any
    node: ast.expr
    role: Role = "other"
    hint: str = ""
    variable: str = ""
    statement: ast.Assign | ast.AnnAssign | None = None
    uses: tuple[Used, ...] = ()
    is_key: bool = False

    @property
    def line(self) -> int:
        """Return the line on which it begins."""
        return self.node.lineno


@dataclass
class _Seen:
    """What the walk through a program found."""

    written: list[Written] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)


def written_out(program: Program, protocols: Mapping[str, Protocol]) -> list[Written]:
    """Return what a program has written out that a caller could give it, in the order of its text.

    Args:
        program: it parses.
        protocols: of all tools that it may call, by the names that it has for them.
    """
    seen = _Seen()
    _Walk(seen, protocols).module(program.module)
    found = seen.written
    uses = _uses(program, [each.node for each in found], protocols)
    made = []
    for each, used in zip(found, uses, strict=True):
        text = each.value if isinstance(each.value, str) else None
        role: Role = "argument" if used else each.role
        made.append(_replaced(each, role=role, uses=tuple(used), is_key=text in seen.keys))
    return sorted(made, key=lambda each: start_of(each.node))


def inputs_used(program: Program, inputs: Iterable[str], protocols: Mapping[str, Protocol]) -> dict[str, list[Used]]:
    """Return the arguments of calls into which each of a program's inputs goes, by the input's name."""
    return _followed(program, [*inputs], protocols)


def with_variables(
    program: Program,
    lifted: Iterable[tuple[Written, str]],
    renamed: Mapping[str, str] | None = None,
    freed: Iterable[Edit] = (),
) -> Program | None:
    """Return a program with variables in the place of what it has written out; ``None`` where that cannot be done.

    An assignment of a value to the variable itself goes away.

    Args:
        program: the program.
        lifted: what becomes a variable, each with the variable's name.
        renamed: new names of inputs, by those that the program has for them.
        freed: gives variables other names that have those of parameters (:mod:`atc.programs.free_names`).
    """
    edits = [*freed]
    for each, name in lifted:
        if each.statement is not None and each.variable == name:
            edits.append(_without(program, each.statement))
        else:
            edits.append(_named(program, each.node, name))
    for node in program.nodes if renamed else ():
        if isinstance(node, ast.Name) and renamed is not None and node.id in renamed:
            edits.append(_named(program, node, renamed[node.id]))
    made, done = apply(program, [Rewrite("lifted", "", (edit,)) for edit in edits])
    return made if len(done) == len(edits) else None


def _named(program: Program, node: ast.expr, name: str) -> Edit:
    """Put a name in the place of an expression, apart from a word beside it: ``if"a"in x`` is Python."""
    start, end = start_of(node), end_of(node)
    before = program.lines[start[0] - 1].encode()[: start[1]].decode()[-1:]
    after = program.lines[end[0] - 1].encode()[end[1] :].decode()[:1]
    return Edit(start, end, f"{' ' * _in_word(before)}{name}{' ' * _in_word(after)}")


def _in_word(letter: str) -> bool:
    return bool(letter) and f"_{letter}".isidentifier()


def bound_names(program: Program) -> set[str]:
    """Return every name that a program gives something, at any place."""
    return bound_elsewhere(program) | {node.id for node in program.nodes if _is_bound(node)}


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def bound_elsewhere(program: Program, *, arguments: bool = True) -> set[str]:
    """Return the names that a program gives something by other means than a variable: as a parameter or a function, of
    an import or a pattern, in a class. Whoever renames the variables of such a name changes what they mean.

    Args:
        program: it parses.
        arguments: the parameters of its functions are among them.
    """
    found: set[str] = set()
    for node in program.nodes:
        match node:
            case ast.arg(arg=name) if arguments:
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
            case ast.ClassDef(name=name):
                found.add(name)
                found.update(each.id for each in walk(node) if _is_bound(each))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
            case _:
                pass
    return found


def plural(name: str) -> str:
    """Return what several things of a name are called."""
    if name.endswith("s"):
        return name
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else f"{name}s"


# ----------------------------------------------------------------------------------------------------------------------
# The walk: which places hold a value that a caller could give.


class _Walk:
    """Collects the values that a program has written out, with how each is used."""

    def __init__(self, seen: _Seen, protocols: Mapping[str, Protocol]) -> None:
        self._seen, self._protocols = seen, protocols
        self._bound: defaultdict[str, int] = defaultdict(int)

    def module(self, tree: ast.Module) -> None:
        for node in walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._bound[node.id] += 1
        for statement in tree.body:
            self._top(statement)

    def _top(self, node: ast.stmt) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        target = node.target if isinstance(node, ast.AnnAssign) else target
        value = getattr(node, "value", None)
        if (
            isinstance(target, ast.Name)
            and isinstance(value, ast.expr)
            and isinstance(node, ast.Assign | ast.AnnAssign)
        ):
            if target.id in ("answer", "say"):
                self._in(value, "other", "")
                return
            once = self._bound[target.id] == 1
            if (found := _value_of(value)) is not _NO_VALUE:
                self._add(Written(found, value, "named", target.id, target.id if once else "", node if once else None))
                return
        self._walk(node)

    def _walk(self, node: ast.AST) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                return  # a docstring; a text that is put together
            case ast.AnnAssign(target=target, value=value):
                self._walk(target)
                if value is not None:
                    self._in(value, "named", target.id if isinstance(target, ast.Name) else "")
            case ast.Assign(targets=targets, value=value):
                for each in targets:
                    self._walk(each)
                named = targets[0].id if isinstance(targets[0], ast.Name) else ""
                pairs = self._unpacked(targets[0], value)
                for name, part in pairs or [(named, value)]:
                    self._in(part, "named" if name else "other", name)
            case ast.Subscript(value=value, slice=index):
                self._walk(value)
                self._index(index)
            case ast.Dict(keys=keys, values=values):
                self._dict(keys, values)
            case ast.Compare():
                self._compare(node)
            case ast.Call():
                self._call(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node)
            case ast.match_case(guard=guard, body=body):
                self._all([*([guard] if guard else ()), *body])
            case ast.For(target=target, iter=iterated) | ast.comprehension(target=target, iter=iterated):
                name = target.id if isinstance(target, ast.Name) else ""
                self._in(iterated, "named" if name else "other", plural(name) if len(name) > 1 else "", tuples=True)
                self._all(part for part in child_nodes(node) if part is not iterated)
            case ast.expr():
                self._in(node, "other", "")
            case _:
                self._all(child_nodes(node))

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._walk(node)

    def _in(self, node: ast.expr, role: Role, hint: str, *, tuples: bool = False) -> None:
        value = _value_of(node, tuples=tuples)
        if value is not _NO_VALUE:
            self._add(Written(value, node, role, hint))
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.IfExp | ast.BoolOp | ast.Starred | ast.NamedExpr):
            for part in child_nodes(node):
                if isinstance(part, ast.expr):
                    self._in(part, role, hint)
        elif isinstance(
            node,
            ast.Subscript | ast.Dict | ast.Compare | ast.Call | ast.Lambda | ast.JoinedStr,
        ):
            self._walk(node)
        else:
            self._all(child_nodes(node))

    def _unpacked(self, target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
        if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, ast.Tuple | ast.List):
            return []
        if len(target.elts) != len(value.elts):
            return []
        named = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
        return [*zip(named, value.elts, strict=True)]

    def _index(self, index: ast.expr) -> None:
        """Walk an index: a key or a position is the response's, the end of a slice is a bound."""
        if isinstance(index, ast.Slice):
            for part, hint in zip((index.lower, index.upper, index.step), SLICED, strict=True):
                if part is not None:
                    self._in(part, "bound", hint)
        elif isinstance(index, ast.Constant):
            self._key(index)
        else:
            self._walk(index)

    def _key(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self._seen.keys.add(node.value)
        else:
            self._walk(node)

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> None:
        for key, value in zip(keys, values, strict=True):
            if key is not None:
                self._key(key)
            name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            self._in(value, "other", name)

    def _compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for at, side in enumerate(sides):
            order = node.ops[at - 1] if at else node.ops[0]
            other = sides[at - 1] if at else sides[1]
            hint = _called(other)
            if isinstance(order, ast.In | ast.NotIn) and at == 0 and isinstance(side, ast.Constant):
                self._key(side) if _is_record_like(other) else self._in(side, "compared", "word")
                continue
            if (bounds := _ORDERS.get(type(order))) is not None:
                self._in(side, "bound", f"{bounds[0 if at else 1]}_{hint}" if hint else "")
            else:
                self._in(side, "compared", hint, tuples=isinstance(order, ast.In | ast.NotIn))

    def _call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if isinstance(node.func, ast.Attribute):
            receiver = node.func.value
            if not (isinstance(receiver, ast.Constant) and name in _SHAPING):
                self._walk(receiver)
        elif not isinstance(node.func, ast.Name):
            self._walk(node.func)
        tool = isinstance(node.func, ast.Name) and name in self._protocols
        for at, argument in enumerate(node.args):
            if not tool and name in _KEY_METHODS and at <= (name in ("getattr", "hasattr")):
                self._key(argument)
            elif not tool and (name in _SHAPING or (name == "round" and at)):
                continue
            else:
                self._in(argument, "other", "")
        for keyword in node.keywords:
            self._in(keyword.value, "other" if tool else "named", keyword.arg or "")

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        given = node.args
        ordered = [*given.posonlyargs, *given.args]
        pairs = [*zip(ordered[len(ordered) - len(given.defaults) :], given.defaults, strict=True)]
        pairs += [(arg, each) for arg, each in zip(given.kwonlyargs, given.kw_defaults, strict=True) if each]
        for argument, default in pairs:
            self._in(default, "named", argument.arg)
        if isinstance(node, ast.Lambda):
            self._in(node.body, "other", "")
            return
        self._all([*node.decorator_list, *node.body])

    def _add(self, found: Written) -> None:
        if len(self._seen.written) <= MAX_LITERALS:
            self._seen.written.append(found)


class _NoValue:
    """Says that an expression is no value that is written out."""


_NO_VALUE = _NoValue()


def _value_of(node: ast.expr, *, tuples: bool = False) -> Any:
    scalar = _scalar_of(node)
    if scalar is not _NO_VALUE:
        return scalar
    if isinstance(node, ast.List) or (tuples and isinstance(node, ast.Tuple)):
        items = [_scalar_of(each) for each in node.elts[: MAX_ITEMS + 1]]
        if 0 < len(items) <= MAX_ITEMS and not any(each is _NO_VALUE for each in items):
            return items
    return _NO_VALUE


def _scalar_of(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else _NO_VALUE
    return _NO_VALUE


def _called(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return key
        case ast.Call(func=ast.Attribute(value=inner)):
            return _called(inner)
        case ast.Call(func=ast.Name(id="len"), args=[inner]):
            return _called(inner)
        case ast.Call(args=[inner, *_]):
            return _called(inner)
        case _:
            return ""


def _is_record_like(node: ast.expr) -> bool:
    """Return whether a program asks for a key of it, as far as it looks: a name alone, or an item of a list."""
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str)
    )


def _replaced(each: Written, **changed: Any) -> Written:
    return Written(**{**each.__dict__, **changed})


def _without(program: Program, statement: ast.stmt) -> Edit:
    """Take a statement away: with its line, where it stands there alone."""
    start, end = start_of(statement), end_of(statement)
    last = program.lines[end[0] - 1].encode()
    first = program.lines[start[0] - 1].encode()
    rest = last[end[1] :].decode().strip()
    if not first[: start[1]].strip() and (not rest or rest.startswith("#")):
        if end[0] < len(program.lines):
            return Edit((start[0], 0), (end[0] + 1, 0), "")
        return Edit((start[0], 0), (end[0], len(last)), "")
    return Edit(start, end, "pass")


# ----------------------------------------------------------------------------------------------------------------------
# Where they go.


def _uses(program: Program, nodes: Sequence[ast.expr], protocols: Mapping[str, Protocol]) -> list[list[Used]]:
    prefix = "lifted_"
    while prefix in program.source:
        prefix += "_"
    names = {f"{prefix}{number}": node for number, node in enumerate(nodes)}
    edits = [
        Rewrite("lifted", "", (Edit(start_of(node), end_of(node), _padded(name, node)),))
        for name, node in names.items()
    ]
    made, done = apply(program, edits)
    if len(done) != len(edits):
        return [_beside(program, node, protocols) for node in nodes]
    return [*_followed(made, [*names], protocols).values()]


def _padded(name: str, node: ast.expr) -> str:
    """Return a name that takes as many lines as an expression did, so that the lines below keep their numbers."""
    lines = (node.end_lineno or node.lineno) - node.lineno
    return name if not lines else f"({name}" + "\n" * lines + ")"


def _followed(program: Program, variables: Sequence[str], protocols: Mapping[str, Protocol]) -> dict[str, list[Used]]:
    """By the program's own text where a variable cannot be followed."""
    found: dict[str, list[Used]] = {name: [] for name in variables}
    if not variables:
        return found
    atoms = {name: frozenset({Origin(kind="task", tool=name)}) for name in variables}
    followed = ProgramOrigins(program, protocols, inputs=atoms)
    for tool, line in _called_at(program, protocols):
        protocol = protocols[tool]
        own = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
        for place, origins in followed.of_call(tool, line, [*own]).items():
            original = max((each for each in own if place == each or place.startswith(f"{each}.")), key=len, default="")
            path = tuple(place[len(original) + 1 :].split(".")) if place != original else ()
            for name in {each.tool for each in origins if each.kind == "task" and each.how == "value"} & found.keys():
                if len(found[name]) < MAX_USES:
                    found[name].append(Used(tool=tool, argument=own.get(original, place), path=path, line=line))
    if followed.gave_up:
        for name in found:
            nodes = [n for n in program.nodes if isinstance(n, ast.Name) and n.id == name]
            found[name] = [use for node in nodes for use in _beside(program, node, protocols)]
    return {name: _innermost(uses) for name, uses in found.items()}


def _called_at(program: Program, protocols: Mapping[str, Protocol]) -> list[tuple[str, int]]:
    calls = [
        (node.func.id, node.lineno)
        for node in program.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in protocols
    ]
    named = {node.id: node.lineno for node in program.nodes if isinstance(node, ast.Name) and node.id in protocols}
    calls += [each for each in named.items() if each[0] not in {tool for tool, _ in calls}]
    return [*dict.fromkeys(calls)]


def _innermost(uses: Sequence[Used]) -> list[Used]:
    kept = []
    for use in dict.fromkeys(uses):
        deeper = any(
            (other.tool, other.argument, other.line) == (use.tool, use.argument, use.line)
            and len(other.path) > len(use.path)
            and other.path[: len(use.path)] == use.path
            for other in uses
        )
        if not deeper:
            kept.append(use)
    return kept


def _beside(program: Program, node: ast.expr, protocols: Mapping[str, Protocol]) -> list[Used]:
    for call in program.nodes:
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in protocols):
            continue
        protocol, parameters = protocols[call.func.id], parameters_of(protocols[call.func.id])
        for at, argument in enumerate(call.args):
            if argument is node and at < len(parameters):
                return [Used(tool=protocol.name, argument=parameters[at].name, line=call.lineno)]
        for keyword in call.keywords:
            for path, part in _displayed(keyword.value):
                if part is node and keyword.arg is not None:
                    return [Used(tool=protocol.name, argument=keyword.arg, path=path, line=call.lineno)]
    return []


def _displayed(node: ast.expr, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ast.expr]]:
    yield path, node
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from _displayed(value, (*path, key.value))

"""Repair by the schemas what can only be meant one way, without asking the model.

RETO §3.4 repairs a rejected call by rule before it spends a model call. Here the same is done to a whole program
before it runs. Only an expression that is sure to fail is touched, and only where the schemas leave one repair:

- a loop over, or an index into, a response object means the one list in it, or the one whose items have the keys
  that are then read;
- an id read from a list of things that have one means that of the first, as the hints of the stubs say;
- a response object unpacked into names that are all keys of it means the values of these keys;
- a key that is not there, but once and only once deeper inside (no list on the way), means that one;
- a key that is read from a plain value, and that the object around the value has, means the one there;
- a key or an argument in another spelling (``productId`` for ``product_id``) means the one that exists;
- a name that nothing binds, and that one variable or tool has in another spelling, means that one;
- an object given for an argument that it has a field of the same name for means that field;
- a key that an object lacks, and that one read-only tool alone returns for the id that the object has, means that tool.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from atc.graph.suppliers import is_handed_out
from atc.programs.analysis.interpreter import Access
from atc.programs.analysis.schema_paths import Shape, shape_at
from atc.programs.analysis.values import Value
from atc.programs.check.names import Names
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.edits import Edit, Rewrite, cut_after, insert_after, insert_before, replace
from atc.programs.syntax import span_of
from atc.result import Effect
from atc.schemas.repair.spelling import respelt, spelling_key
from atc.schemas.validate import types_of
from atc.tools.parameters import Parameter, parameters_of

MAX_DEPTH = 4
"""Objects inside objects through which a key is looked for."""


MAX_UNKNOWN = 50
"""Unknown arguments of one call of which it is asked what they mean."""


class _Shapes:
    """What the expressions of a program surely are, by the tools' response schemas."""

    def __init__(self, program: Program, context: RepairContext) -> None:
        self._protocols, self.flow = context.observed, program.flow(context.observed)

    def at(self, node: ast.expr) -> Shape | None:
        """What a name, a call or a look-up surely is."""
        return self.of(self.flow.at(span_of(node))) if isinstance(node, ast.Name | ast.Call | ast.Subscript) else None

    def below(self, node: ast.expr, *path: str | int) -> Shape:
        """What stands under a path in an expression."""
        value = self.flow.at(span_of(node))
        for step in path:
            value = value.key(step) if isinstance(step, str) else value.item(step)
        return self.of(value) or Shape("open")

    def of(self, value: Value) -> Shape | None:
        """What a value surely is; ``None`` unless all that it can be agrees."""
        if value.open or value.cells or not value.origins:
            return None
        shapes = {shape_at(self._protocols[o.tool].returns, o.path) for o in value.origins}
        return shapes.pop() if len(shapes) == 1 else None


def correct_names(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A name that nothing binds means the one variable or tool of another spelling."""
    for node, name in Names(program.module, context.observed, context.inputs).misspelt():
        note = f"line {node.lineno}: read the name {node.id} as {name}"
        yield Rewrite("name-spelling", note, (replace(node, name),))


# -- a response object where its list is meant -------------------------------------------------------------------------


def take_lists(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A loop over, or an index into, a response object means the list in it."""
    shapes = _Shapes(program, context)
    for iterated, names, scope in _iterations(program.nodes):
        if keys := _read_of(names, scope):
            yield from _list_inside(shapes, iterated, keys)
    around = {id(n.value): n for n in program.nodes if isinstance(n, ast.Subscript)}
    for node in program.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            read = around.get(id(node))
            key = read.slice.value if read is not None and isinstance(read.slice, ast.Constant) else None
            yield from _list_inside(shapes, node.value, {key} if isinstance(key, str) else set())


def _list_inside(shapes: _Shapes, node: ast.expr, read: set[str]) -> Iterator[Rewrite]:
    """The list that is meant by a response object; ``read``: the keys that its items are asked for."""
    shape, lists = shapes.at(node), []
    if shape is not None and shape.kind == "record":
        lists = [key for key in shape.keys if shapes.below(node, key).kind == "list"]
    if len(lists) > 1:
        lists = [key for key in lists if read and read <= set(shapes.below(node, key, 0).keys)]
    if len(lists) == 1:
        note = f"line {node.lineno}: took the list [{lists[0]!r}] of the response object"
        yield Rewrite("list-in-object", note, (insert_after(node, f"[{lists[0]!r}]"),))


def unpack_by_name(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """``price, stock = get_product(…)`` unpacks keys where the values of these names are meant."""
    shapes = _Shapes(program, context)
    for node in program.nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
            continue
        shape, names = shapes.at(node.value), [getattr(name, "id", "") for name in node.targets[0].elts]
        if shape is not None and shape.kind == "record" and all(name in shape.keys for name in names):
            note = f"line {node.lineno}: took {', '.join(names)} out of the response object by name"
            edits = (insert_before(node.value, "map("), insert_after(node.value, f".get, {names!r})"))
            yield Rewrite("unpacked-object", note, edits)


# -- a key that is elsewhere, or spelt otherwise -----------------------------------------------------------------------


def take_first(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """``places("Lyon")["place_id"]`` → ``places("Lyon")[0]["place_id"]``, in a program that only reads."""
    shapes = _Shapes(program, context)
    if any(context.observed[call.tool].effect is not Effect.READ for call in shapes.flow.calls.values()):
        return
    for node, key, access in _looked_up(shapes):
        shape, item = shapes.of(access.base), shapes.of(access.base.item(0))
        if shape is None or shape.kind != "list" or item is None:
            continue
        if key in item.keys and is_handed_out(key, {}):
            note = f"line {node.lineno}: took the first for its {key!r}"
            yield Rewrite("first-of-list", note, (insert_after(node.value, "[0]"),))


def correct_keys(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A key in another spelling means the one that exists."""
    for node, key, _, shape in _missing(_Shapes(program, context)):
        if alike := _alike(key, shape):
            note = f"line {node.lineno}: read {key!r} as {alike[0]!r}"
            yield Rewrite("key-spelling", note, (replace(node.slice, repr(alike[0])),))


def reach_keys(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A key that is not there, but once and only once deeper inside, means that one; or, read from a plain value, the
    one of the object that the value was taken out of."""
    shapes = _Shapes(program, context)
    yield from _one_outside(program, shapes)
    for node, key, base, shape in _missing(shapes):
        ways = [] if _alike(key, shape) else _ways(shapes, base, key)
        if len(ways) == 1:
            steps = "".join(f"[{step!r}]" for step in ways[0])
            note = f"line {node.lineno}: found {key!r} under {steps}"
            yield Rewrite("nested-key", note, (insert_after(node.value, steps),))


def _one_outside(program: Program, shapes: _Shapes) -> Iterator[Rewrite]:
    """``time = now()["date"]; time["zone"]`` → ``time = now(); time["zone"]``, and ``time["date"]`` elsewhere."""
    wrong = [
        (node, key)
        for node, key, access in _looked_up(shapes)
        if (shape := shapes.of(access.base)) is not None and shape.kind == "scalar"
    ]
    bound, loads = (_bound_once(program.nodes), _loads(program.nodes)) if wrong else ({}, {})
    for node, key in wrong:
        name = node.value.id if isinstance(node.value, ast.Name) else None
        taken = node.value if name is None else bound.pop(name, None)  # a name is seen to once, with all its uses
        if not isinstance(taken, ast.Subscript) or not isinstance(taken.slice, ast.Constant):
            continue
        around = shapes.at(taken.value)
        if around is None or around.kind != "record" or key not in around.keys:
            continue
        step, keys = f"[{taken.slice.value!r}]", {*around.keys}
        uses = loads[name] if name is not None else []
        kept = [insert_after(each, step) for each, looked_up in uses if looked_up not in keys]
        note = f"line {node.lineno}: found {key!r} beside {step}"
        yield Rewrite("nested-key", note, (cut_after(taken.value, taken), *kept))


def _loads(nodes: Iterable[ast.AST]) -> Mapping[str, list[tuple[ast.Name, str | None]]]:
    """Where names are read, each time with the text key that is looked up in it, if one is."""
    nodes = list(nodes)
    keys = {
        id(node.value): node.slice.value
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is str
    }
    found: dict[str, list[tuple[ast.Name, str | None]]] = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found[node.id].append((node, keys.get(id(node))))
    return found


def _bound_once(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """The names that a program gives a value once, by one assignment, each with that value."""
    values: dict[str, ast.expr] = {}
    times: Counter[str] = Counter()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                times[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = value
    return {name: value for name, value in values.items() if times[name] == 1}


def ask_for_keys(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """``ref["price"]`` → ``get_product(product_id=ref["product_id"])["price"]``."""
    shapes = _Shapes(program, context)
    for node, key, base, shape in _missing(shapes):
        if _alike(key, shape) or isinstance(node.ctx, ast.Store) or _ways(shapes, base, key):
            continue
        found = []
        for protocol in context.observed.values():
            required = [p for p in parameters_of(protocol) if p.required]
            if protocol.effect is Effect.READ and len(required) == 1 and required[0].original in shape.keys:
                whole = shape_at(protocol.returns, ())
                if whole.kind == "record" and key in whole.keys:
                    found.append((protocol.name, required[0]))
        if len(found) == 1:
            tool, parameter = found[0]
            note = f"line {node.lineno}: looked {key!r} up with {tool}"
            call = insert_before(node.value, f"{tool}({parameter.name}=")
            yield Rewrite("key-by-lookup", note, (call, insert_after(node.value, f"[{parameter.original!r}])")))


def _looked_up(shapes: _Shapes) -> Iterator[tuple[ast.Subscript, str, Access]]:
    """The look-ups by a text key that the program is not ready to miss."""
    for access in shapes.flow.accesses.values():
        if not access.hedged and isinstance(access.node, ast.Subscript) and isinstance(access.key, str):
            yield access.node, access.key, access


def _missing(shapes: _Shapes) -> Iterator[tuple[ast.Subscript, str, Value, Shape]]:
    """The look-ups of a key that a response object does not have, with the object."""
    for node, key, access in _looked_up(shapes):
        shape = shapes.of(access.base)
        if shape is not None and shape.kind == "record" and key not in shape.keys:
            yield node, key, access.base, shape


def _alike(key: str, shape: Shape) -> list[str]:
    """The keys of an object that differ in their spelling alone."""
    return [other for other in shape.keys if spelling_key(other) == spelling_key(key)]


def _ways(shapes: _Shapes, base: Value, key: str, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The ways through objects alone from a value to an object below it that has ``key``."""
    shape = shapes.of(base)
    if shape is None or shape.kind != "record" or len(path) > MAX_DEPTH:
        return []
    if key in shape.keys:
        return [path] if path else []
    return [way for name in shape.keys for way in _ways(shapes, base.key(name), key, (*path, name))]


# -- arguments ---------------------------------------------------------------------------------------------------------


def correct_arguments(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """An argument in another spelling means the one that exists; ``id`` the one id that is missing."""
    meant: dict[ast.Call, Mapping[str, str]] = {}
    for keyword, call, parameters, effect in _keywords(program, context):
        given = keyword.arg or ""
        if given in parameters:
            continue
        if call not in meant:
            meant[call] = _meant(call, parameters, effect)
        if new := meant[call].get(given):
            start = (keyword.lineno, keyword.col_offset)
            edit = Edit(start, (start[0], start[1] + len(given.encode())), new)
            note = f"line {keyword.lineno}: read the argument {given} as {new}"
            yield Rewrite("argument-spelling", note, (edit,))


def take_fields(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """``get_marks(student_id=student)`` → ``student["student_id"]``."""
    shapes = _Shapes(program, context)
    for keyword, _, parameters, _ in _keywords(program, context):
        name, node, shape = keyword.arg or "", keyword.value, shapes.at(keyword.value)
        types = types_of(parameters[name].schema) if name in parameters else set()
        if shape is None or shape.kind != "record" or not types or types & {"object", "array"}:
            continue
        field = name if name in shape.keys else "id" if "id" in shape.keys and name.endswith("_id") else None
        if field is not None and shapes.below(node, field).kind == "scalar":
            note = f"line {node.lineno}: took the field {field!r} of the object given for {name}"
            yield Rewrite("field-of-object", note, (insert_after(node, f"[{field!r}]"),))


def _keywords(
    program: Program, context: RepairContext
) -> Iterator[tuple[ast.keyword, ast.Call, Mapping[str, Parameter], Effect]]:
    """The arguments that calls of tools are given by name; those of a call behind ``**`` are not known."""
    for call in program.flow(context.observed).calls.values():
        protocol = context.observed[call.tool]
        parameters = {p.name: p for p in parameters_of(protocol)}
        for keyword in call.node.keywords:
            if keyword.arg is None:
                break
            yield keyword, call.node, parameters, protocol.effect


def _meant(node: ast.Call, parameters: Mapping[str, Parameter], effect: Effect) -> Mapping[str, str]:
    """The parameters that unknown arguments mean: another spelling of them, or ``id`` for the one missing id."""
    used = {k.arg for k in node.keywords if k.arg is not None} | set(list(parameters)[: len(node.args)])
    unknown = [k.arg for k in node.keywords if k.arg is not None and k.arg not in parameters]
    if len(unknown) > MAX_UNKNOWN:
        return {}
    required = [name for name, parameter in parameters.items() if parameter.required]
    strict = effect is not Effect.READ
    return respelt(unknown, parameters, used, required, strict=strict, endings=True)


def _iterations(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, set[str], Sequence[ast.AST]]]:
    """What is iterated, the names that its items get, and where these are used."""
    for node in nodes:
        match node:
            case ast.For():
                yield node.iter, _names(node.target), node.body
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                yield from ((g.iter, _names(g.target), [part, *node.generators]) for g in node.generators)
            case ast.DictComp():
                yield from (
                    (g.iter, _names(g.target), [node.key, node.value, *node.generators]) for g in node.generators
                )
            case ast.Call(func=ast.Name(id="max" | "min" | "sorted"), args=[iterated], keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda) and keyword.value.args.args:
                        yield iterated, {keyword.value.args.args[0].arg}, [keyword.value.body]


def _names(target: ast.expr) -> set[str]:
    return {target.id} if isinstance(target, ast.Name) else set()


def _read_of(names: set[str], scope: Sequence[ast.AST]) -> set[str]:
    """The keys that these names are asked for."""
    return {
        n.slice.value
        for part in scope
        for n in ast.walk(part)
        if isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and n.value.id in names
        and isinstance(n.slice, ast.Constant)
        and isinstance(n.slice.value, str)
    }

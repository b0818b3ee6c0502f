"""Repair by the schemas what can only be meant one way, without asking the model.

RETO §3.4 repairs a rejected call by rule before it spends a model call. Here the same is done to a whole program
before it runs. Only an expression that is sure to fail is touched, and only where the schemas leave one way to mend it:

- a loop over, or an index into, a response object means the one list in it, or the one whose items have the keys
  that are then read;
- an id read from a list of things that have one means that of the first, as the hints of the stubs say;
- a response object unpacked into names that are all keys of it means the values of these keys;
- a key that is not there, but once and only once deeper inside (no list on the way), means that one;
- a key or an argument in another spelling (``productId`` for ``product_id``) means the one that exists;
- a name that nothing binds, and that one variable or tool has in another spelling, means that one;
- an object given for an argument that it has a field of the same name for means that field;
- a key that an object lacks, and that one read-only tool alone returns for the id that the object has, means that tool.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc.graph.suppliers import looks_given
from atc.programs.analysis.flow import Access, Flow
from atc.programs.analysis.schema_paths import Shape, shape_at
from atc.programs.analysis.values import Value
from atc.programs.check.names import Names, plain
from atc.programs.program import NotParsed, parse
from atc.programs.syntax import span_of
from atc.result import Effect
from atc.schemas.validate import types_of
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol

ROUNDS = 6
MAX_DEPTH = 4


@dataclass(frozen=True)
class Edit:
    """Replace the bytes from ``start`` to ``end`` (line from 1, column in bytes from 0) by ``text``."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str
    note: str


def repair(source: str, protocols: Mapping[str, Protocol]) -> tuple[str, tuple[str, ...]]:
    """Return the program with what is sure repaired, and a note for each repair; unchanged where nothing is."""
    notes: list[str] = []
    for _ in range(ROUNDS):  # one repair shows the next
        try:
            tree = parse(source)
        except NotParsed:
            break
        edits = _without_overlap(_Repairs(tree, protocols).edits())
        repaired = _apply(source, edits)
        if not edits or not _parses(repaired):
            break
        source = repaired
        notes += [edit.note for edit in edits if edit.note]
    return source, tuple(notes)


class _Repairs:
    def __init__(self, tree: ast.Module, protocols: Mapping[str, Protocol]) -> None:
        self._tree, self._protocols = tree, protocols
        self._flow = Flow(tree, protocols)

    def edits(self) -> Iterator[Edit]:
        yield from self._names()
        yield from self._loops()
        yield from self._unpacked()
        yield from self._keys()
        yield from self._arguments()

    def _names(self) -> Iterator[Edit]:
        for node, name in Names(self._tree, self._protocols).misspelt():
            yield _replace(node, name, f"line {node.lineno}: read the name {node.id} as {name}")

    # -- a response object where its list is meant ---------------------------------------------------------------------

    def _loops(self) -> Iterator[Edit]:
        for iterated, names, scope in _iterations(self._tree):
            if keys := _read_of(names, scope):
                yield from self._list_inside(iterated, keys)
        around = {id(n.value): n for n in ast.walk(self._tree) if isinstance(n, ast.Subscript)}
        for node in ast.walk(self._tree):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.slice, ast.Constant)
                and type(node.slice.value) is int
            ):
                read = around.get(id(node))
                key = read.slice.value if read is not None and isinstance(read.slice, ast.Constant) else None
                yield from self._list_inside(node.value, {key} if isinstance(key, str) else set())

    def _list_inside(self, node: ast.expr, read: set[str]) -> Iterator[Edit]:
        """The list that is meant by a response object; ``read``: the keys that its items are asked for."""
        shape, lists = self._shape(node), []
        if shape is not None and shape.kind == "record":
            lists = [key for key in shape.keys if self._shape_below(node, key).kind == "list"]
        if len(lists) > 1:
            lists = [key for key in lists if read and read <= set(self._shape_below(node, key, 0).keys)]
        if len(lists) == 1:
            yield _insert_after(
                node,
                f"[{lists[0]!r}]",
                f"line {node.lineno}: took the list [{lists[0]!r}] of the response object",
            )

    def _unpacked(self) -> Iterator[Edit]:
        """``price, stock = get_product(…)`` unpacks keys where the values of these names are meant."""
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
                continue
            shape, names = self._shape(node.value), [getattr(name, "id", "") for name in node.targets[0].elts]
            if shape is not None and shape.kind == "record" and all(name in shape.keys for name in names):
                start = (node.value.lineno, node.value.col_offset)
                note = f"line {node.lineno}: took {', '.join(names)} out of the response object by name"
                yield Edit(start, start, "map(", note)
                yield _insert_after(node.value, f".get, {names!r})", "")

    # -- a key that is elsewhere, or spelt otherwise -------------------------------------------------------------

    def _keys(self) -> Iterator[Edit]:
        for access in self._flow.accesses.values():
            node = access.node
            if access.hedged or not isinstance(node, ast.Subscript) or not isinstance(access.key, str):
                continue
            shape = self._shape_of(access.base)
            if shape is not None and shape.kind == "list":
                yield from self._of_first(node, access)
            if shape is None or shape.kind != "record" or access.key in shape.keys:
                continue
            if alike := [key for key in shape.keys if plain(key) == plain(access.key)]:
                yield _replace(node.slice, repr(alike[0]), f"line {node.lineno}: read {access.key!r} as {alike[0]!r}")
                continue
            ways = [way for way in self._ways(access.base, access.key, ()) if way]
            if len(ways) == 1:
                steps = "".join(f"[{step!r}]" for step in ways[0])
                yield _insert_after(node.value, steps, f"line {node.lineno}: found {access.key!r} under {steps}")
            elif not ways and not isinstance(node.ctx, ast.Store):
                yield from self._look_up(node, shape, access.key)

    def _of_first(self, node: ast.Subscript, access: Access) -> Iterator[Edit]:
        """``places("Lyon")["place_id"]`` → ``places("Lyon")[0]["place_id"]``, in a program that only reads."""
        if any(self._protocols[call.tool].effect is not Effect.READ for call in self._flow.calls.values()):
            return
        item = self._shape_of(access.base.item(0))
        if item is not None and access.key in item.keys and looks_given(str(access.key), {}):
            yield _insert_after(node.value, "[0]", f"line {node.lineno}: took the first for its {access.key!r}")

    def _look_up(self, node: ast.Subscript, shape: Shape, key: str) -> Iterator[Edit]:
        """``ref["price"]`` → ``get_product(product_id=ref["product_id"])["price"]``."""
        found = []
        for protocol in self._protocols.values():
            required = [p for p in parameters_of(protocol) if p.required]
            if protocol.effect is Effect.READ and len(required) == 1 and required[0].original in shape.keys:
                whole = shape_at(protocol.returns, ())
                if whole.kind == "record" and key in whole.keys:
                    found.append((protocol.name, required[0]))
        if len(found) == 1:
            tool, parameter = found[0]
            note = f"line {node.lineno}: looked {key!r} up with {tool}"
            start = (node.value.lineno, node.value.col_offset)
            yield Edit(start, start, f"{tool}({parameter.name}=", note)
            yield _insert_after(node.value, f"[{parameter.original!r}])", "")

    def _ways(self, base: Value, key: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The ways through objects alone from a value to an object that has ``key``."""
        shape = self._shape_of(base)
        if shape is None or shape.kind != "record" or len(path) > MAX_DEPTH:
            return
        if key in shape.keys:
            yield path
            return
        for name in shape.keys:
            yield from self._ways(base.key(name), key, (*path, name))

    # -- arguments ------------------------------------------------------------------------------------------------

    def _arguments(self) -> Iterator[Edit]:
        for call in self._flow.calls.values():
            parameters = {p.name: p for p in parameters_of(self._protocols[call.tool])}
            for keyword in call.node.keywords:
                if keyword.arg is None:
                    return
                if keyword.arg in parameters:
                    yield from self._field_for(keyword.value, keyword.arg, parameters[keyword.arg].schema)
                elif new := self._meant(keyword.arg, call.node, parameters):
                    start = (keyword.lineno, keyword.col_offset)
                    end = (keyword.lineno, keyword.col_offset + len(keyword.arg.encode()))
                    yield Edit(start, end, new, f"line {keyword.lineno}: read the argument {keyword.arg} as {new}")

    def _meant(self, given: str, node: ast.Call, parameters: Mapping[str, Any]) -> str | None:
        """The parameter that an unknown argument means: another spelling of it, or ``id`` for the one missing id."""
        used = {k.arg for k in node.keywords} | set(list(parameters)[: len(node.args)])
        free = [name for name in parameters if name not in used]
        alike = [name for name in free if plain(name) == plain(given)]
        needed = [name for name in free if parameters[name].required]
        unknown = [k.arg for k in node.keywords if k.arg not in parameters]
        if (
            not alike
            and len(needed) == 1 == len(unknown)
            and (given == "id" or needed[0].endswith(f"_{given}") or given.endswith(f"_{needed[0]}"))
        ):
            return needed[0]
        return alike[0] if len(alike) == 1 else None

    def _field_for(self, node: ast.expr, name: str, schema: Any) -> Iterator[Edit]:
        """``get_marks(student_id=student)`` → ``student["student_id"]``."""
        shape = self._shape(node)
        if shape is None or shape.kind != "record" or not types_of(schema) or types_of(schema) & {"object", "array"}:
            return
        field = name if name in shape.keys else "id" if "id" in shape.keys and name.endswith("_id") else None
        if field is not None and self._shape_below(node, field).kind == "scalar":
            yield _insert_after(
                node, f"[{field!r}]", f"line {node.lineno}: took the field {field!r} of the object given for {name}"
            )

    # -- shapes ---------------------------------------------------------------------------------------------------

    def _shape(self, node: ast.expr) -> Shape | None:
        return (
            self._shape_of(self._flow.at(span_of(node)))
            if isinstance(node, ast.Name | ast.Call | ast.Subscript)
            else None
        )

    def _shape_below(self, node: ast.expr, *path: str | int) -> Shape:
        value = self._flow.at(span_of(node))
        for step in path:
            value = value.key(step) if isinstance(step, str) else value.item(step)
        return self._shape_of(value) or Shape("open")

    def _shape_of(self, value: Value) -> Shape | None:
        """What a value surely is; ``None`` unless all that it can be agrees."""
        if value.open or value.cells or not value.origins:
            return None
        shapes = {shape_at(self._protocols[o.tool].returns, o.path) for o in value.origins}
        return shapes.pop() if len(shapes) == 1 else None


def _iterations(tree: ast.Module) -> Iterator[tuple[ast.expr, set[str], Sequence[ast.AST]]]:
    """What is iterated, the names that its items get, and where these are used."""
    for node in ast.walk(tree):
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
        n.slice.value for part in scope for n in ast.walk(part)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id in names
        and isinstance(n.slice, ast.Constant) and isinstance(n.slice.value, str)
    }  # fmt: skip


def _insert_after(node: ast.expr, text: str, note: str) -> Edit:
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Edit(end, end, text, note)


def _replace(node: ast.expr, text: str, note: str) -> Edit:
    return Edit((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0), text, note)


def _without_overlap(edits: Iterator[Edit]) -> list[Edit]:
    """One edit a place; of several at one place, or on lines that an earlier one touches, the first."""
    kept: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        kept.setdefault(edit.start, edit)
    return list(kept.values())


def _parses(source: str) -> bool:
    try:
        parse(source)
    except NotParsed:
        return False
    return True


def _apply(source: str, edits: list[Edit]) -> str:
    lines = [line.encode() for line in source.split("\n")]
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        if edit.start[0] == edit.end[0]:
            line = lines[edit.start[0] - 1]
            lines[edit.start[0] - 1] = line[: edit.start[1]] + edit.text.encode() + line[edit.end[1] :]
    return b"\n".join(lines).decode()

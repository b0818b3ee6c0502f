"""Whether a value of an inferred Python type is surely refused by the type of an answer.

Asked before a program runs, so it says yes only where validation refuses every such value. An empty list or dict may
pass validation where one with items would not; as an answer it is a fault of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import partial

from atc.answers.types import AnswerType
from atc.facts import Misfit
from atc.schemas.reading import alternatives
from atc.schemas.validate import types_of
from atc.tools.protocol import JsonSchema

MAX_TEXT = 4_000
MAX_DEPTH = 12
MAX_NODES = 400
_LISTS = frozenset({"list", "tuple", "set", "frozenset", "deque", "range"})
_DICTS = frozenset({"dict", "defaultdict", "OrderedDict", "Counter"})
_SCALARS = frozenset({"int", "float", "bool", "str"})
_PLAIN = frozenset({
    "type", "title", "description", "default", "examples", "minLength", "maxLength", "pattern", "deprecated",
})  # fmt: skip
"""Keywords of a text that is nothing but a text: to others, a date for instance, a number may be coerced."""
_CONSTANTS = {type(None): "None", bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}


def refuses(answer: AnswerType, inferred: str, records: Collection[str] = ()) -> bool:
    """Whether every value of a type is surely refused.

    Args:
        answer: what is wanted.
        inferred: the type of what there is, as the type checker writes it.
        records: names of ``TypedDict`` classes.
    """
    members = members_of(inferred)
    if not answer.predicted and not all(_constants(member) is not None for member in members):
        return False
    judge = _Judge(answer, records)
    return bool(members) and all(judge.refuses_whole(member) for member in members)


def members_of(inferred: str) -> list[ast.expr]:
    """The members of a union, as expressions; nothing where the text is no type that we know how to read."""
    if len(inferred) > MAX_TEXT:
        return []
    try:
        return list(_members(ast.parse(inferred.replace("float*", "float"), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _members(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _members(node.left)
        yield from _members(node.right)
    else:
        yield node


def _constants(node: ast.expr) -> list[object] | None:
    """The values of a ``Literal[…]`` or of ``None``; ``None`` for other types."""
    match node:
        case ast.Constant(value=None):
            return [None]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            try:
                return [ast.literal_eval(each) for each in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            except (ValueError, TypeError):
                return None
    return None


class _Judge:
    def __init__(self, answer: AnswerType, records: Collection[str]) -> None:
        self._answer, self._records, self._nodes = answer, records, 0

    def refuses_whole(self, member: ast.expr) -> bool:
        if (constants := _constants(member)) is not None:  # the values themselves are known
            return all(isinstance(self._answer.fit(constant), Misfit) for constant in constants)
        return self._refuses(member, self._answer.schema, 0)

    def _all_refused(self, node: ast.expr, schema: object, depth: int) -> bool:
        return all(self._refuses(member, schema, depth) for member in _members(node))

    def _refuses(self, member: ast.expr, schema: object, depth: int) -> bool:
        """Whether a schema refuses all values of one type; ``False`` where the type is not known."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return False
        if isinstance(member, ast.BinOp) and isinstance(member.op, ast.BitAnd):  # `list[int] & ~AlwaysFalsy`
            return any(self._refuses(part, schema, depth + 1) for part in (member.left, member.right))
        if (constants := _constants(member)) is not None:
            names = [_CONSTANTS.get(type(constant), "") for constant in constants]
            return all(self._refuses(ast.Name(name), schema, depth + 1) for name in names)
        choices = [each.schema for each in alternatives(self._answer.schema, schema)]
        if len(choices) > 1:
            return all(self._refuses(member, choice, depth + 1) for choice in choices)
        target = choices[0]
        values = [target["const"]] if "const" in target else target.get("enum")
        if isinstance(values, list):
            return self._kind(member) in ("list", "dict") and not any(isinstance(v, list | dict) for v in values)
        types = types_of(target)
        return bool(types) and all(self._refused_by(kind, member, target, depth) for kind in types)

    def _refused_by(self, wanted: str, member: ast.expr, schema: JsonSchema, depth: int) -> bool:
        kind = self._kind(member)
        match wanted:
            case "string":
                return kind in ("list", "dict", "None") or (
                    kind in ("int", "float", "bool") and schema.keys() <= _PLAIN
                )
            case "integer" | "number" | "boolean":
                return kind in ("list", "dict", "None")
            case "null":
                return kind in ("list", "dict", "bytes") or kind in _SCALARS
            case "array":
                below = partial(self._items_refused, member, schema, depth)
                return kind in ("dict", "None") or kind in _SCALARS or (kind == "list" and below())
            case "object":
                values = partial(self._values_refused, member, schema, depth)
                return kind in ("list", "None") or kind in _SCALARS or (kind == "dict" and values())
        return False

    def _items_refused(self, member: ast.expr, schema: JsonSchema, depth: int) -> bool:
        items = schema.get("items")
        if not isinstance(items, dict) or "prefixItems" in schema:
            return False
        match member:
            case ast.Subscript(value=ast.Name(id="list" | "set" | "frozenset" | "deque"), slice=inner):
                return self._all_refused(inner, items, depth + 1)
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=elements)):
                given = [e for e in elements if not (isinstance(e, ast.Constant) and e.value is ...)]
                return any(self._all_refused(each, items, depth + 1) for each in given)
        return False

    def _values_refused(self, member: ast.expr, schema: JsonSchema, depth: int) -> bool:
        values = schema.get("additionalProperties")
        if not isinstance(values, dict) or "properties" in schema or "patternProperties" in schema:
            return False
        match member:
            case ast.Subscript(value=ast.Name(id="dict" | "defaultdict"), slice=ast.Tuple(elts=[_, inner])):
                return self._all_refused(inner, values, depth + 1)
        return False

    def _kind(self, member: ast.expr) -> str:
        """``list``, ``dict``, ``str`` …; empty where it is not known."""
        match member:
            case ast.Constant(value=None) | ast.Name(id="None"):
                return "None"
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
                if name in _LISTS:
                    return "list"
                if name in _DICTS or name in self._records:
                    return "dict"
                return name if name in _SCALARS or name == "bytes" else ""
        return ""

"""Observed JSON values → evidence that can be added to and stored → a general JSON Schema (ATC §4.1).

:class:`Shape` passes over each value once and keeps counts: which types, how often each field was there, which short
strings repeat, which forms strings have. The schema is written from the counts when it is asked for, each statement
with the counts it rests on.

What is stated hard is what a program may rely on: types, fields that were always there, the few values of an enum.
What is only likely is said beside it: ``x-atc-evidence`` ``{"seen": 3, "of": 4, "null": 1}`` (a field: in 3 of 4
objects, null in one of them), ``x-atc-range`` of numbers, and short words in ``description``.

Choices that keep a schema true of values that were not seen:

* A place that only ever was null may be anything: ``{}``. So may the items of arrays that all were empty.
* Whole numbers are ``integer``; under a name that is a measure (``price``, ``lat``, ``temp_c``) they are ``number``.
* A field is required when at least :data:`SURE` objects were seen and all had it.
* Several types are a list of types. Each keyword speaks of one type only, so that no ``anyOf`` is needed.
* An enum needs :data:`ENUM_COUNT` strings out of :data:`ENUM_SUPPORT` values, each seen more than once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atc.errors import UsageError
from atc.schemas.infer.evidence import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_ROW,
    MAX_VALUE_LENGTH,
    MAX_VALUES,
    Arrays,
    Booleans,
    Node,
    Nulls,
    Numbers,
    Objects,
    Strings,
    Tree,
)
from atc.schemas.infer.keys import Dictionary, dictionary
from atc.schemas.infer.text import (
    FORM_NOTES,
    JSON_FORMATS,
    is_free_text_name,
    is_id_name,
    is_measure,
    is_paging_name,
    is_secret_name,
    looks_secret,
    mask,
    may_be_name,
    unit,
)
from atc.schemas.types import EVIDENCE

Schema = dict[str, Any]
SURE = 2
"""Objects that must have been seen before a field that all had is required."""
ENUM_COUNT, ENUM_SUPPORT, ENUM_SIZE = 8, 4, 10
"""Strings, and values that they came from, that an enum needs; and the most members that it may have."""
RANGE = "x-atc-range"


def write(node: Node) -> Schema:
    """The schema of all that was seen at a place."""
    if not node.count:
        return {}
    made = _schema(node, "")
    made[EVIDENCE] = _evidence(node, node.count)
    return made


def _schema(node: Node, name: str) -> Schema:
    types: list[str] = []
    made: Schema = {}
    notes: list[str] = []
    if node.opaque:
        return {"description": "not looked at: too deep or too much"}
    if node.objects is not None:
        types.append("object")
        _objects(node.objects, name, made, notes)
    if node.arrays is not None:
        types.append("array")
        _arrays(node.arrays, name, made, notes)
    if node.strings is not None:
        types.append("string")
        _strings(node, node.strings, name, made, notes)
    if node.numbers is not None:
        types.append("number" if is_measure(name) else node.numbers.to_schema()["type"])
        _numbers(node.numbers, name, made, notes)
    if node.booleans:
        types.append("boolean")
    if not types:
        return {"description": "only null so far"}
    if node.nulls:
        types.append("null")
    if "enum" in made:
        if types == ["string", "null"]:
            made["enum"].append(None)
        elif types != ["string"]:
            del made["enum"]
    if notes:
        made["description"] = "; ".join(notes)
    return {"type": types[0] if len(types) == 1 else types, **made}


def _evidence(node: Node, of: int) -> dict[str, int]:
    evidence = {"seen": node.count, "of": of}
    return {**evidence, "null": node.nulls} if node.nulls else evidence


def _objects(objects: Objects, name: str, made: Schema, notes: list[str]) -> None:
    found = dictionary(objects)
    if found is None:
        _record(objects.fields, objects.count, made)
    else:
        _dictionary(found, objects, name, made, notes)
    if paging := [key for key in objects.fields if is_paging_name(key) and may_be_name(key)]:
        lists = any(node.arrays is not None for node in objects.fields.values())
        if lists or len(paging) >= 2:
            notes.append(f"paged: {', '.join(paging[:4])}")


def _record(fields: Mapping[str, Node], count: int, made: Schema) -> None:
    if not fields:
        return
    properties: Schema = {}
    for key, node in fields.items():
        properties[key] = {**_schema(node, key), EVIDENCE: _evidence(node, count)}
    made["properties"] = properties
    if count >= SURE and (required := [key for key, node in fields.items() if node.count == count]):
        made["required"] = required


def _dictionary(found: Dictionary, objects: Objects, name: str, made: Schema, notes: list[str]) -> None:
    if found.named:
        _record(found.named, objects.count, made)
    values = merged_nodes(found.values)
    schema: Schema = {} if objects.lost else _schema(values, name)
    made["additionalProperties"] = {**schema, EVIDENCE: _evidence(values, values.count)}
    notes.append(f"keys are {found.keys}" if found.keys != "numbered" else "keys are data")


def merged_nodes(nodes: Sequence[Node]) -> Node:
    """The evidence of several places as that of one."""
    if len(nodes) == 1:
        return nodes[0]
    merged = Node(Tree())
    for node in nodes:
        merged.merge(node)
    merged.support = max(node.support for node in nodes)  # the values of one object are not independent
    return merged


def _arrays(arrays: Arrays, name: str, made: Schema, notes: list[str]) -> None:
    if arrays.items is None:
        notes.append("only empty so far")
        return
    items = arrays.items
    made["items"] = {**_schema(items, name), EVIDENCE: _evidence(items, items.count)}
    if arrays.row and arrays.rows >= SURE and _is_row(arrays.row):
        rows = [_row_types(kinds) for kinds in arrays.row]
        made["prefixItems"] = [{"type": types if len(types) > 1 else types[0]} for types in rows]
        notes.append("row of " + ", ".join(" or ".join(_row_types(kinds)) for kinds in arrays.row))
    elif arrays.shortest == arrays.longest and arrays.rows >= SURE and arrays.longest > 1:
        notes.append(f"{arrays.longest} items so far")


def _is_row(row: Sequence[set[str]]) -> bool:
    """Whether each position has one type of its own, and not all the same."""
    kinds = [_one_type(position) for position in row]
    return "" not in kinds and len(set(kinds)) > 1


def _one_type(kinds: set[str]) -> str:
    types = kinds - {"null"}
    if types <= {"integer", "number"} and types:
        return "number"
    return next(iter(types)) if len(types) == 1 else ""


def _row_types(kinds: set[str]) -> list[str]:
    return [_one_type(kinds), *(["null"] if "null" in kinds else [])]


def _strings(node: Node, strings: Strings, name: str, made: Schema, notes: list[str]) -> None:
    filled = strings.count - strings.empty
    kinds = {kind for kind, count in strings.forms.items() if count}
    kind = next(iter(kinds)) if len(kinds) == 1 and filled else ""
    if kind in JSON_FORMATS and not strings.empty:
        made["format"] = JSON_FORMATS[kind]
    elif kind in JSON_FORMATS:
        notes.append(f"{JSON_FORMATS[kind]} or empty")
    elif kind == "number" and not is_id_name(name):
        notes.append(FORM_NOTES[kind] + (f", {unit(name)}" if unit(name) else ""))
    elif kind in FORM_NOTES and kind != "number":
        notes.append(FORM_NOTES[kind])
    elif kinds and kinds <= {"id", "number", "uuid"} and (is_id_name(name) or _looks_like_ids(strings)):
        notes.append("id")
    elif members := _enum(node, strings, name):
        made["enum"] = members


def _looks_like_ids(strings: Strings) -> bool:
    if strings.count < 3 or strings.shortest is None or strings.shortest < 6:
        return False
    distinct = strings.values is None or len(strings.values) == strings.count
    return distinct and strings.longest <= 64 and strings.longest - strings.shortest <= 4


def _enum(node: Node, strings: Strings, name: str) -> list[Any]:
    values = strings.values
    if values is None or not 2 <= len(values) <= ENUM_SIZE or strings.empty or is_free_text_name(name):
        return []
    if strings.count < max(ENUM_COUNT, 3 * len(values)) or node.support < ENUM_SUPPORT:
        return []
    once = sum(count == 1 for count in values.values())
    if once and (once > 1 or strings.count < 40):
        return []
    if all(count % node.support == 0 for count in values.values()):
        return []  # every answer had the same strings: one list, seen again and again
    if any(len(text.split()) > 3 or sum(map(str.isdigit, text)) > 5 or looks_secret(text) for text in values):
        return []
    return sorted(values)


def _numbers(numbers: Numbers, name: str, made: Schema, notes: list[str]) -> None:
    if numbers.low is not None and not is_id_name(name):
        made[RANGE] = [numbers.low, numbers.high]
    if text := unit(name):
        notes.append(text)


VERSION = 1


def dump(node: Node) -> dict[str, Any]:
    """The evidence of a place as plain JSON. Values are left out where one of them looks like a secret."""
    made: dict[str, Any] = {"count": node.count, "support": node.support}
    for name in ("nulls", "booleans", "opaque", "forgets"):
        if getattr(node, name):
            made[name] = getattr(node, name)
    if node.numbers is not None:
        n = node.numbers
        made["numbers"] = {"integers": n.integers, "fractions": n.fractions, "low": n.low, "high": n.high}
    if node.strings is not None:
        made["strings"] = _dump_strings(node.strings)
    if node.arrays is not None:
        a = node.arrays
        row = None if a.row is None else [sorted(kinds) for kinds in a.row]
        made["arrays"] = {**_lengths(a), "row": row, "rows": a.rows, "items": _dump(a.items)}
    if node.objects is not None:
        o = node.objects
        fields = {key: dump(field) for key, field in o.fields.items()}
        made["objects"] = {
            "count": o.count,
            "empty": o.empty,
            "lost": o.lost,
            "fields": fields,
            "rest": _dump(o.rest),
        }
    return made


def _dump(node: Node | None) -> dict[str, Any] | None:
    return None if node is None else dump(node)


def _lengths(evidence: Strings | Arrays) -> dict[str, Any]:
    counts = {"count": evidence.count, "empty": evidence.empty}
    return {**counts, "shortest": evidence.shortest, "longest": evidence.longest}


def _dump_strings(strings: Strings) -> dict[str, Any]:
    values = strings.values
    if values is not None and any(looks_secret(text) for text in values):
        values = None
    return {**_lengths(strings), "forms": strings.forms, "values": values}


def load(stored: Any) -> Node:
    """The evidence that :func:`dump` wrote, within the limits of evidence, as the root of a shape of its own.

    Raises:
        UsageError: it is not what :func:`dump` writes.
    """
    root = Node(Tree())
    try:
        _fill(root, stored)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"stored evidence of a response is damaged ({problem}): delete it and probe the tool again"
        ) from None
    return root


def _fill(node: Node, stored: Any) -> None:
    node.forgets |= bool(stored.get("forgets"))
    node.count, node.support = _count(stored["count"]), _count(stored["support"])
    if nulls := _count(stored.get("nulls", 0)):
        node.having(Nulls).count = nulls
    if booleans := _count(stored.get("booleans", 0)):
        node.having(Booleans).count = booleans
    node.opaque = bool(stored.get("opaque")) or node.depth > MAX_DEPTH
    if (numbers := stored.get("numbers")) is not None:
        _fill_numbers(node.having(Numbers), numbers)
    if (strings := stored.get("strings")) is not None:
        _fill_strings(node.having(Strings), strings)
    if node.opaque:
        return
    if (arrays := stored.get("arrays")) is not None:
        _fill_arrays(node.having(Arrays), arrays)
    if (objects := stored.get("objects")) is not None:
        _fill_objects(node.having(Objects), objects)


def _inside(above: Arrays | Objects, stored: Any) -> Node:
    """The place below, filled; the sink, left as it is, when the shape has as many as it may."""
    node = Node.made(above.tree, above.depth)
    if node is not above.tree.sink:
        _fill(node, stored)
    return node


def _fill_numbers(made: Numbers, stored: dict[str, Any]) -> None:
    made.integers, made.fractions = _count(stored["integers"]), _count(stored["fractions"])
    made.low, made.high = _bound(stored["low"]), _bound(stored["high"])
    made.add_schema({"type": "number" if made.fractions else "integer"})


def _fill_strings(made: Strings, stored: dict[str, Any]) -> None:
    _read_lengths(made, stored)
    made.forms = {str(kind): _count(count) for kind, count in stored["forms"].items()}
    values = stored["values"]
    made.values = None if values is None else {str(text): _count(count) for text, count in values.items()}
    if made.values is not None and (
        len(made.values) > MAX_VALUES or any(len(t) > MAX_VALUE_LENGTH for t in made.values)
    ):
        raise ValueError("more or longer values than are ever kept")


def _fill_arrays(made: Arrays, stored: dict[str, Any]) -> None:
    _read_lengths(made, stored)
    made.rows, row = _count(stored["rows"]), stored["row"]
    if row is not None and len(row) > MAX_ROW:
        raise ValueError("a longer row than is ever kept")
    made.row = None if row is None else [{str(kind) for kind in kinds} for kinds in row]
    made.items = None if stored["items"] is None else _inside(made, stored["items"])


def _fill_objects(made: Objects, stored: dict[str, Any]) -> None:
    made.count, made.empty, made.lost = _count(stored["count"]), _count(stored["empty"]), bool(stored["lost"])
    if len(stored["fields"]) > MAX_FIELDS:
        raise ValueError("more fields than are ever kept")
    for key, field in stored["fields"].items():
        node = _inside(made, field)
        if node is node.tree.sink:
            made.lost = True
        else:
            made.fields[str(key)] = node
    made.rest = None if stored["rest"] is None else _inside(made, stored["rest"])


def _read_lengths(made: Strings | Arrays, stored: dict[str, Any]) -> None:
    made.count, made.empty, made.longest = (_count(stored[name]) for name in ("count", "empty", "longest"))
    made.shortest = None if stored["shortest"] is None else _count(stored["shortest"])


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _bound(value: Any) -> float | int | None:
    if value is None or type(value) in (int, float):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"{value!r} is no number")


__all__ = ["Shape", "mask"]


class Shape:
    """What is known of values that were seen at one place, for instance a tool's responses.

    Every value that was added fits :meth:`schema`, now and after any more evidence. Adding is linear in the value.

    Args:
        name: the field whose values these are, if they are of one: of one that is named like a secret none is kept.
    """

    def __init__(self, name: str = "") -> None:
        self._root = Node(Tree(), forgets=is_secret_name(name))

    @property
    def count(self) -> int:
        """How many values were added."""
        return self._root.count

    @property
    def root(self) -> Node:
        """The evidence of the whole value."""
        return self._root

    def add(self, value: Any) -> None:
        """Take a JSON value as evidence. What is no JSON value may be anything from then on."""
        self._root.tree.serial += 1
        self._root.add_object(value)

    def schema(self) -> dict[str, Any]:
        """The general JSON Schema (2020-12), each statement with its evidence; see :mod:`atc.schemas.infer.shape`."""
        return write(self._root)

    def to_json(self) -> dict[str, Any]:
        """The evidence as plain JSON, for :meth:`from_json`. No string that looks like a secret is in it."""
        return {"version": VERSION, "shape": dump(self._root)}

    @classmethod
    def from_json(cls, stored: Any) -> Shape:
        """The shape that :meth:`to_json` wrote.

        Raises:
            UsageError: ``stored`` is nothing that :meth:`to_json` wrote.
        """
        if not isinstance(stored, dict) or stored.get("version") != VERSION:
            found = stored.get("version") if isinstance(stored, dict) else type(stored).__name__
            raise UsageError(
                f"stored evidence of a response is not of version {VERSION} (found {found!r}): probe the tool again"
            )
        shape = cls()
        shape._root = load(stored.get("shape"))
        return shape

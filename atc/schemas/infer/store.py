"""Evidence ↔ plain JSON, so that probing can stop and go on, and merge what several runs found."""

from __future__ import annotations

from typing import Any

from atc.errors import UsageError
from atc.schemas.infer.evidence import MAX_DEPTH, MAX_FIELDS, MAX_ROW, Arrays, Node, Objects, Tree
from atc.schemas.infer.mask import looks_secret
from atc.schemas.infer.scalars import MAX_VALUE_LENGTH, MAX_VALUES, Booleans, Nulls, Numbers, Strings

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

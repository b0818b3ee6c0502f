"""Is an object a record, whose keys are names, or a dictionary, whose keys are data?

A wrong "dictionary" hides fields; a wrong "record" turns one day's data into a schema. Keys tell by their look (dates,
ids, numbers), by changing from object to object, and by the likeness of their values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atc.schemas.infer.evidence import Node, Objects
from atc.schemas.infer.text import listed, may_be_name

MANY, MANY_RECORDS, MANY_LASTING = 64, 8, 24
"""Keys of one object from which on they are data: with values of one type; with records of the same fields; with such
records under the same keys in every object."""

_SURE = {
    "dates": re.compile(r"\d{4}-\d{2}(-\d{2}([T ].{0,30})?)?|\d{1,2}/\d{1,2}/\d{4}|\d{4}/\d{2}/\d{2}"),
    "numbers": re.compile(r"-?\d{1,20}(\.\d{1,10})?"),
    "ids": re.compile(
        r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
        r"|(?=[a-f]{0,63}\d)[0-9a-f]{12,64}"  # a hash
        r"|[a-z]{1,6}[_:-](?=(?:[A-Za-z]{0,12}\d){2})[A-Za-z0-9]{10,40}"  # cus_9s6XKzkNRiz8i3
        r"|(?=[A-Za-z0-9]{0,40}\d[A-Za-z]{1,12}\d[A-Za-z])[A-Za-z0-9]{16,40}"  # 5f3aB21cQ9dZ0xY4
    ),
    "addresses": re.compile(r"[^\s@]{1,64}@[^\s@]{1,200}\.[a-z]{2,20}|[a-z]{2,10}://\S{1,190}|/\S{0,190}"),
}
"""Keys that no service uses as a field's name."""
_CODES = {
    "codes": re.compile(r"[A-Z]{2}|[A-Z]{3}|[A-Z]{4}|[A-Z]{6}"),
    "languages": re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?"),
    "numbered": re.compile(r"[A-Za-z_ -]{1,40}\d{1,9}"),
}
"""Keys that are often data and often names."""


@dataclass(frozen=True)
class Dictionary:
    """How the keys of an object are data.

    Attributes:
        keys: what they look like, in words.
        values: the evidence of each value.
        named: fields besides that are names.
    """

    keys: str
    values: Sequence[Node]
    named: Mapping[str, Node]


def dictionary(objects: Objects) -> Dictionary | None:
    """The way in which the keys of these objects are data; ``None`` when they are names.

    A key that may be a sentence is never taken for a name: a document would show it to a model as the tool's own word.
    """
    found = _dictionary(objects)
    named = objects.fields if found is None else found.named
    if all(map(may_be_name, named)):
        return found
    sentences = [node for key, node in named.items() if not may_be_name(key)]
    values = sentences if found is None else [*found.values, *sentences]
    return Dictionary("data", values, {key: node for key, node in named.items() if may_be_name(key)})


def _dictionary(objects: Objects) -> Dictionary | None:
    if objects.rest is not None:
        return Dictionary("data", [objects.rest, *objects.fields.values()], {})
    fields = objects.fields
    if not fields:
        return None
    looks = {key: _look(key) for key in fields}
    for keys in set(looks.values()) & _SURE.keys():
        data = {key: node for key, node in fields.items() if looks[key] == keys}
        if len(data) == len(fields):
            return Dictionary(keys, list(data.values()), {})
        if len(data) >= 3 and _alike(data.values()):
            return Dictionary(keys, list(data.values()), {k: v for k, v in fields.items() if k not in data})
    return _codes(objects) or _changing(objects) or _many(objects)


@lru_cache(maxsize=8192)
def _look(key: str) -> str:
    """The kind of data that a key surely is; empty if it is none."""
    return next((keys for keys, pattern in _SURE.items() if pattern.fullmatch(key)), "")


def is_data(key: str) -> bool:
    """Whether a key is surely data, alone as it stands: a date, a number, an identifier or an address."""
    return bool(_look(key))


def _codes(objects: Objects) -> Dictionary | None:
    fields = objects.fields
    for keys, pattern in _CODES.items():
        if not all(map(pattern.fullmatch, fields)) or not _alike(fields.values()):
            continue
        if objects.count - objects.empty >= 2 and len(fields) >= 3 and not _stable(objects, fields):
            return Dictionary(keys, list(fields.values()), {})
        if _surely_codes(keys, list(fields)):
            return Dictionary(keys, list(fields.values()), {})
    return None


def _surely_codes(keys: str, names: list[str]) -> bool:
    """Whether the keys are codes although every object has the same."""
    if keys == "codes":  # USD, EUR, GBP; but not CO, NO2 and PM10, nor AM and PM
        return len(names) >= 5 and len({len(name) for name in names}) == 1
    if keys == "languages":
        return len(names) >= 3 and not _LANGUAGES.isdisjoint(names) and all(n[:2] in _LANGUAGES for n in names)
    stems = {re.sub(r"(?<!\d)\d++$", "", name) for name in names}
    return len(names) >= 8 and len(stems) == 1


_LANGUAGES = listed(
    "aa ab af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km "
    "kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms mt my nb ne nl nn no pa pl ps pt ro ru sd si sk sl sm so sq sr sv "
    "sw ta te tg th tk tl tr tt uk ur uz vi yi yo zh zu"
)


def _changing(objects: Objects) -> Dictionary | None:
    """Keys that look like words, but few objects share them."""
    fields = objects.fields
    shown = sum(node.count for node in fields.values())
    filled = objects.count - objects.empty
    if filled < 3 or len(fields) < 6 or shown > 0.4 * filled * len(fields):
        return None
    if max(node.count for node in fields.values()) > 0.7 * filled or not _alike(fields.values()):
        return None
    return Dictionary("data", list(fields.values()), {})


def _many(objects: Objects) -> Dictionary | None:
    """Very many keys with values of one type, or some with records of the same fields."""
    nodes = list(objects.fields.values())
    records = all(node.objects is not None and len(node.objects.fields) >= 2 for node in nodes)
    needed = MANY if not records else MANY_LASTING if _stable(objects, objects.fields) else MANY_RECORDS
    if len(nodes) >= needed and _alike(nodes):
        return Dictionary("data", nodes, {})
    return None


def _stable(objects: Objects, fields: Collection[str]) -> bool:
    """Whether most of these keys are in nearly every one of several objects, as a record's are."""
    filled = objects.count - objects.empty
    if filled < 2:
        return False
    always = sum(objects.fields[key].count >= 0.9 * filled for key in fields)
    return always >= 0.7 * len(fields)


def _alike(nodes: Iterable[Node]) -> bool:
    """Whether values are of one kind; records, of mostly the same fields. Nulls fit everything."""
    known = [(kind, node) for node in nodes if (kind := _kind(node))]
    if len({kind for kind, _ in known}) > 1:
        return False
    records = [set(node.objects.fields) for _, node in known if node.objects is not None and node.objects.fields]
    if len(records) < 2:
        return True
    sizes, union = sum(map(len, records)), len(set().union(*records))
    return sizes >= 0.5 * union * len(records)


def _kind(node: Node) -> str:
    if node.opaque:
        return "opaque"
    evidence = {
        "string": node.strings,
        "number": node.numbers,
        "boolean": node.booleans,
        "array": node.arrays,
        "object": node.objects,
    }
    return "+".join(kind for kind, found in evidence.items() if found)

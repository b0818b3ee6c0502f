"""Inheritance by ``discriminator`` and ``allOf``: where a document names the base, any of its heirs may stand.

OpenAPI 3.0 and Swagger 2.0 have it ("Composition and Inheritance"): the base names the property that tells, each heir
names the base in its ``allOf``. Nothing at the base lists the heirs, so they are looked for once in a document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote

MAX_HEIRS, MAX_ALL_HEIRS = 30, 500
"""Heirs of one base, and of all bases of a document, that are written out; of more, the base is one of unknown keys."""

CHOICES = ("oneOf", "anyOf")
_MOST = MAX_HEIRS + 2  # one of them may be the base itself


@dataclass(frozen=True)
class Base:
    """A schema that others inherit from.

    Attributes:
        tells: the property that tells which heir a value is.
        lists: it lists its heirs itself, as a choice.
        heirs: the reference of each, with the values of the property that belong to it.
        many: there are too many of them to be written out.
    """

    tells: str
    lists: bool
    heirs: Mapping[str, tuple[str, ...]]
    many: bool = False


class Heirs:
    """The bases of one document.

    Args:
        root: the document.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._prefix, self._schemas = _definitions(root)
        self._below: dict[str, list[str]] = {}
        for name, node in self._schemas.items():
            for above in _named_in(node.get("allOf"), self._prefix):
                self._below.setdefault(above, []).append(name)
        self._heirs: set[int] = set()
        self._bases = {self._prefix + name: base for name, base in self._families()}
        if sum(len(base.heirs) for base in self._bases.values()) > MAX_ALL_HEIRS:
            self._bases = {ref: Base(base.tells, base.lists, {}, True) for ref, base in self._bases.items()}

    def base(self, reference: Any) -> Base | None:
        """What inherits from what a reference names; ``None`` where nothing does."""
        return self._bases.get(unquote(reference)) if isinstance(reference, str) else None

    def is_heir(self, node: dict[str, Any]) -> bool:
        """Whether a schema of the document is one that inherits: its ``allOf`` means the base alone."""
        return id(node.get("allOf")) in self._heirs  # the document outlives this, so the id stays its own

    def _families(self) -> Iterator[tuple[str, Base]]:
        """Each schema that others inherit from; the property that tells them may be named by one above it."""
        tops = {
            name: (tells, _values(node, self._prefix))
            for name, node in self._schemas.items()
            if (tells := _tells(node))
        }
        waiting, family = deque(tops), dict(tops)
        while waiting:
            name = waiting.popleft()
            tells, listed = family[name]
            for heir in self._below.get(name, ()):
                self._heirs.add(id(self._schemas[heir]["allOf"]))
                if heir not in family:
                    family[heir] = (tells, listed)
                    waiting.append(heir)
            own = tops[name][1] if name in tops else {}
            below = dict.fromkeys(
                [*self._all_below(name), *islice((each for each in own if each in self._schemas), _MOST)]
            )
            below.pop(name, None)
            if below:
                lists = any(isinstance(self._schemas[name].get(key), list) for key in CHOICES)
                heirs = {self._prefix + heir: self._values_of(heir, listed) for heir in below}
                many = len(below) > MAX_HEIRS
                yield name, Base(tells, lists, {} if many else heirs, many)

    def _values_of(self, heir: str, listed: Mapping[str, list[str]]) -> tuple[str, ...]:
        stated = self._schemas[heir].get("x-ms-discriminator-value")
        return tuple(listed.get(heir) or [stated if isinstance(stated, str) else heir])

    def _all_below(self, name: str) -> list[str]:
        """The names of the schemas below one, each once, and no more than it takes to know that there are too many."""
        found: dict[str, None] = {}
        waiting = deque(islice(self._below.get(name, ()), _MOST))
        while waiting and len(found) < _MOST:
            if (each := waiting.popleft()) not in found:
                found[each] = None
                waiting += islice(self._below.get(each, ()), _MOST)
        return list(found)


def _definitions(root: dict[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    if "swagger" in root:
        prefix, found = "#/definitions/", root.get("definitions")
    else:
        components = root.get("components") if "openapi" in root else None
        prefix, found = "#/components/schemas/", components.get("schemas") if isinstance(components, dict) else None
    listed = found if isinstance(found, dict) else {}
    return prefix, {name: node for name, node in listed.items() if isinstance(node, dict)}


def _named_in(members: Any, prefix: str) -> Iterator[str]:
    for member in members if isinstance(members, list) else ():
        reference = member.get("$ref") if isinstance(member, dict) else None
        if isinstance(reference, str) and unquote(reference).startswith(prefix):
            yield unquote(reference).removeprefix(prefix)


def _tells(node: dict[str, Any]) -> str:
    stated = node.get("discriminator")
    name = stated.get("propertyName") if isinstance(stated, dict) else stated
    return name if isinstance(name, str) else ""


def _values(node: dict[str, Any], prefix: str) -> dict[str, list[str]]:
    """What the mapping of a discriminator says, by the names of the heirs."""
    stated = node.get("discriminator")
    mapping = stated.get("mapping") if isinstance(stated, dict) else None
    values: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(value, str) and isinstance(target, str):
            values.setdefault(unquote(target).removeprefix(prefix), []).append(value)
    return values

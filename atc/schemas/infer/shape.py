"""Observed JSON values → evidence that can be added to, merged and stored → a general JSON Schema (ATC §4.1).

:class:`Shape` passes over each value once and keeps counts: which types, how often each field was there, which short
strings repeat, which forms strings have. The schema is written from the counts when it is asked for.
"""

from __future__ import annotations

from typing import Any

from atc.errors import UsageError
from atc.schemas.infer.evidence import Node, Tree
from atc.schemas.infer.mask import is_secret_name, mask
from atc.schemas.infer.schema import write
from atc.schemas.infer.store import VERSION, dump, load

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

    def merge(self, other: Shape) -> None:
        """Take all evidence of ``other``, which stays as it is. The values are taken to be different ones."""
        self._root.merge(other._root)

    def schema(self) -> dict[str, Any]:
        """The general JSON Schema (2020-12), each statement with its evidence; see :mod:`atc.schemas.infer.schema`."""
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

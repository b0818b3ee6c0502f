"""The catalogue as a menu: groups of groups of tools by their codes, each group with a few words."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.code_trie import Trie

Group = tuple[int, ...]
"""The first codes of the tools of a group; the whole catalogue is the empty one."""
Words = Callable[[Group], str]
"""The words of a group, from the words of its tools: text of strangers."""
LAST = 1_000_000_000
"""The place of a tool that a search does not find."""


@dataclass(frozen=True)
class Line:
    """A line of a page: a group, or one tool of a group.

    Attributes:
        row: the row of the tool in its index; ``None`` for a group.
    """

    group: Group
    row: int | None = None


class Menu:
    """The groups of an index.

    Args:
        ids: of the tools, by row.
        values: their codes, of shape ``(tools, levels)``.
        words: of a group; its codes when not given.
        offered: ids of the tools that count; all when not given. A group of others alone is not there.
    """

    def __init__(
        self,
        ids: Sequence[str],
        values: NDArray[np.int16],
        words: Words | None = None,
        offered: Container[str] | None = None,
    ) -> None:
        self.ids = ids
        self._rows = np.array([row for row, id in enumerate(ids) if offered is None or id in offered], np.int64)
        self._values = np.asarray(values)
        self._trie = Trie(self._values[self._rows])
        self._words = words or _by_codes

    def codes(self, row: int) -> Group:
        """All codes of a tool."""
        return tuple(map(int, self._values[row]))

    @property
    def levels(self) -> int:
        """Codes of one tool: groups of groups, the last code being the tool's own."""
        return self._trie.levels

    def words(self, group: Group) -> str:
        """The words of a group."""
        return self._words(group)

    def path(self, group: Group) -> tuple[str, ...]:
        """The words of a group and of those that it is in, the widest first."""
        return tuple(self.words(group[:depth]) for depth in range(1, len(group) + 1))

    def tools(self, group: Group) -> NDArray[np.int64]:
        """The rows of the tools of a group, in the index, sorted."""
        return self._rows[self._trie.rows(group)]

    def count(self, group: Group = ()) -> int:
        """The tools of a group."""
        return self._trie.count(group)

    def lines(self, groups: Sequence[Group], at_once: int, places: NDArray[np.int64]) -> list[Line]:
        """What is below some groups: their tools, where these are few or in no smaller groups; else smaller groups.

        Args:
            groups: of one depth.
            at_once: the most tools that are shown at once.
            places: the place of each row of the index in a search, from 0; :data:`LAST` where it was not found.

        Returns:
            The tools, the likeliest of each group first, then the second of each; or the smaller groups, as likely as
            their likeliest tool. Of equal ones the lesser codes, or the lesser id, first.
        """
        if all(len(group) >= self.levels - 1 for group in groups) or sum(map(self.count, groups)) <= at_once:
            return list(_in_turn([self.likeliest(group, places) for group in groups]))
        below = [(*group, int(code)) for group in groups for code in self._trie.children(group)]
        return [Line(part) for part in sorted(below, key=lambda part: (int(places[self.tools(part)].min()), part))]

    def likeliest(self, group: Group, places: NDArray[np.int64]) -> list[Line]:
        """The tools of a group, the likeliest first; ``places`` as of :meth:`lines`."""
        rows = self.tools(group)
        return [Line(group, int(row)) for row in rows[np.argsort(places[rows], kind="stable")]]


def _in_turn(ranked: Iterable[Sequence[Line]]) -> Iterator[Line]:
    for lines in zip_longest(*ranked):
        yield from (line for line in lines if line is not None)


def _by_codes(group: Group) -> str:
    return "group " + ".".join(map(str, group))

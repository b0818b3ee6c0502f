"""The catalogue as a model is shown it: groups of groups of tools, and pages of what is below some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.code_trie import Trie

if TYPE_CHECKING:
    from atc.retrieval.code_words import Menu

Group = tuple[int, ...]
"""Which way leads to a group; the whole catalogue is the empty one."""
Rows = NDArray[np.int64]
LAST = 1_000_000_000
"""The place of a tool that a search does not find."""


class Groups(Interface):
    """The groups of the tools of an index."""

    def parts(self, group: Group) -> list[Group]:
        """The groups that a group is made of, in the same order for every task; none of a group of tools alone."""
        ...

    def rows(self, group: Group) -> Rows:
        """The rows of the tools of a group, in the index, sorted; never none but for the whole catalogue."""
        ...

    def words(self, group: Group) -> str:
        """A few words for a group, from the words of its tools: text of strangers."""
        ...

    def examples(self, group: Group) -> tuple[str, ...]:
        """The ids of a few tools of a group."""
        ...


class Codes:
    """Groups of tools by their codes: a group for each prefix.

    Args:
        values: the codes of the tools, of shape ``(tools, levels)``.
        words: of a group; its codes when not given.
        offered: the rows that count, sorted; all when not given.
    """

    def __init__(
        self, values: NDArray[np.int16], words: Callable[[Group], str] | None = None, offered: Rows | None = None
    ) -> None:
        self._rows = np.arange(len(values), dtype=np.int64) if offered is None else offered
        self._trie = Trie(np.asarray(values)[self._rows])
        self._words = words

    def parts(self, group: Group) -> list[Group]:
        if len(group) >= self._trie.levels - 1:
            return []  # the last code is a tool's own
        return [(*group, int(code)) for code in self._trie.children(group)]

    def rows(self, group: Group) -> Rows:
        return self._rows[self._trie.rows(group)]

    def words(self, group: Group) -> str:
        return self._words(group) if self._words is not None else "group " + ".".join(map(str, group))

    def examples(self, group: Group) -> tuple[str, ...]:
        return ()


class WordGroups:
    """Groups of tools as :mod:`atc.retrieval.code_words` makes and names them.

    Args:
        menu: of an index.
        offered: the ids that count, each with its row; all when not given.
    """

    def __init__(self, menu: Menu, offered: Mapping[str, int] | None = None) -> None:
        self._menu, self._offered = menu, offered
        self._rows = None if offered is None else np.array(sorted(offered.values()), np.int64)

    def parts(self, group: Group) -> list[Group]:
        found = self._menu.children(group)
        if all(entry.id for entry in found):
            return []
        return [entry.path for entry in found if self._offered is None or len(self.rows(entry.path))]

    def rows(self, group: Group) -> Rows:
        found = self._menu.rows(group)
        return found if self._rows is None else np.intersect1d(found, self._rows, assume_unique=True)

    def words(self, group: Group) -> str:
        return self._menu.children(group[:-1])[group[-1]].name if group else ""

    def examples(self, group: Group) -> tuple[str, ...]:
        found = self._menu.children(group[:-1])[group[-1]].sample if group else ()
        return tuple(id for id in found if self._offered is None or id in self._offered)


def word_groups(ids: Sequence[str], offered: Container[str], menu: Menu) -> WordGroups:
    """The groups of words of an index in which the tools are that are offered.

    Args:
        ids: of the index, by row. ``menu``: of the same index.
        offered: ids of the tools that count.
    """
    return WordGroups(menu, _some(ids, offered))


def code_groups(ids: Sequence[str], offered: Container[str], values: NDArray[np.int16]) -> Codes:
    """The groups of codes of an index in which the tools are that are offered; as :func:`word_groups`."""
    some = _some(ids, offered)
    return Codes(values, offered=None if some is None else np.array([*some.values()], np.int64))


def _some(ids: Sequence[str], offered: Container[str]) -> dict[str, int] | None:
    rows = {id: row for row, id in enumerate(ids) if id in offered}
    return rows if len(rows) < len(ids) else None


@dataclass(frozen=True)
class Line:
    """A line of a page: a group, or one tool of a group.

    Attributes:
        row: the row of the tool in its index; ``None`` for a group.
    """

    group: Group
    row: int | None = None


def lines_below(groups: Groups, reached: Collection[Group], at_once: int, places: Rows) -> list[Line]:
    """What is below some groups: their tools, where these are few or in no smaller groups; else smaller groups.

    Args:
        groups: of an index.
        reached: none of them within another.
        at_once: the most tools whose groups are not shown.
        places: the place of each row of the index in a search, from 0; :data:`LAST` where it was not found.

    Returns:
        The tools, the likeliest of each group first, then the second of each; or the smaller groups, as likely as
        their likeliest tool, a group of one tool as this tool. Of equal ones the first of the groups come first.
    """
    few = sum(len(groups.rows(group)) for group in reached) <= at_once
    parts = [] if few else [part for group in reached for part in groups.parts(group) or [group]]
    if not parts or parts == list(reached):
        return list(_in_turn([likeliest(groups, group, places) for group in reached]))
    found = sorted((int(places[rows := groups.rows(part)].min()), at, part, rows) for at, part in enumerate(parts))
    return [Line(part, int(rows[0]) if len(rows) == 1 else None) for _, _, part, rows in found]


def likeliest(groups: Groups, group: Group, places: Rows) -> list[Line]:
    """The tools of a group, the likeliest first; ``places`` as of :func:`lines_below`."""
    rows = groups.rows(group)
    return [Line(group, int(row)) for row in rows[np.argsort(places[rows], kind="stable")]]


def path_of(groups: Groups, group: Group) -> tuple[str, ...]:
    """The words of a group and of those that it is in, the widest first."""
    return tuple(groups.words(group[:depth]) for depth in range(1, len(group) + 1))


def _in_turn(ranked: Iterable[Sequence[Line]]) -> Iterator[Line]:
    for lines in zip_longest(*ranked):
        yield from (line for line in lines if line is not None)

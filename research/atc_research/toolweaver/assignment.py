"""Who gets which: the cheapest assignment of rows to columns, one a column (by shortest augmenting paths)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]


def assigned(costs: Costs, steps: int | None = None) -> NDArray[np.int64]:
    """Give each row a column of its own so that the sum of their costs is the least.

    Rows are added one by one; for each, Dijkstra's search over reduced costs finds the cheapest chain of moves
    (Jonker and Volgenant). Costs on a grid, such as whole numbers, make it exact: :func:`on_grid`.

    Args:
        costs: of shape ``(rows, columns)``, finite, with no fewer columns than rows.
        steps: moves that are looked at, about; rows that are left then get the cheapest columns that are free, one
            after the other. Without end when not given.

    Returns:
        The column of each row, of shape ``(rows,)``.

    Raises:
        ValueError: there are fewer columns than rows.
    """
    rows, columns = costs.shape
    if columns < rows:
        raise ValueError(f"{rows} rows cannot have a column each of {columns}")
    column_of = costs.argmin(axis=1) if rows else np.zeros(0, np.int64)
    row_of = np.full(columns, -1, np.int64)
    first, at = np.unique(column_of, return_index=True)
    row_of[first] = at
    waiting = np.setdiff1d(np.arange(rows), at)
    if not len(waiting):
        return column_of
    column_of[waiting] = -1
    of_rows = costs.min(axis=1)
    of_columns = np.zeros(columns)
    done = 0
    for row in waiting:
        if steps is None or done < steps:
            done += _augment(costs, int(row), column_of, row_of, of_rows, of_columns)
        else:
            column_of[row] = column = int(np.where(row_of < 0, costs[row], np.inf).argmin())
            row_of[column] = row
    return column_of


def on_grid(costs: NDArray[np.floating], steps: int = 2**24) -> Costs:
    """Costs as whole numbers from 0 to ``steps``: sums of them are exact."""
    wide = costs.astype(np.float64)
    wide -= wide.min(initial=np.inf)
    largest = wide.max(initial=0.0)
    return np.rint(wide * (steps / largest)) if largest > 0 else wide


def _augment(
    costs: Costs, row: int, column_of: NDArray[np.int64], row_of: NDArray[np.int64], of_rows: Costs, of_columns: Costs
) -> int:
    """Return how many moves were looked at."""
    columns = costs.shape[1]
    reached = np.full(columns, np.inf)
    came_from = np.full(columns, -1, np.int64)
    done = np.zeros(columns, bool)
    visited, current, length = [], row, 0.0
    while True:
        there = costs[current] - of_columns
        there += length - of_rows[current]
        better = (there < reached) & ~done
        reached[better] = there[better]
        came_from[better] = current
        open_ = np.where(done, np.inf, reached)
        length = float(open_.min())
        ties = np.flatnonzero(open_ == length)
        free = ties[row_of[ties] < 0]  # of equally long paths one that ends: equal tools would be searched in vain
        column = int(free[0] if len(free) else ties[0])
        if len(free):
            break
        done[column] = True
        visited.append(column)
        current = int(row_of[column])
    for each in visited:
        of_rows[row_of[each]] += length - reached[each]
        of_columns[each] -= length - reached[each]
    of_rows[row] += length
    while True:
        owner = int(came_from[column])
        row_of[column] = owner
        column_of[owner], column = column, int(column_of[owner])
        if owner == row:
            return len(visited) + 1

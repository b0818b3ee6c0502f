"""Path% and Prec% (ATC §5): calls are counted, those that were refused do not count, and old rows keep their names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments.base import Episode, GoldCall, served

SOLUTION: list[GoldCall] = [("find", {}), ("read", {}), ("read", {})]


def refuse(arguments: dict[str, Any]) -> Any:
    if outcome := arguments.get("fails"):
        raise ToolError("no", outcome=outcome)
    return 1


def played(*calls: GoldCall, solution: list[GoldCall] | None = SOLUTION) -> Episode:
    tools = Toolset(served(Protocol(name=n, effect=Effect.READ), refuse) for n in ("find", "read", "other"))
    episode = Episode(tools, lambda value: True, solution)
    for name, arguments in calls:
        transport = episode.tools[name].transport
        assert transport is not None
        try:
            asyncio.run(transport(arguments))
        except ToolError:
            continue
    return episode


REFUSED, SILENT = {"fails": "refused"}, {"fails": "unknown"}


@pytest.mark.parametrize(
    ("calls", "path", "precision", "names"),
    [
        ([], 0, None, (0, None)),
        ([("find", {}), ("read", {}), ("read", {"page": 2})], 1, 1, (1, 1)),
        ([("find", {}), ("read", {})], 2 / 3, 1, (1, 1)),
        ([("read", {})] * 5, 2 / 3, 2 / 5, (1 / 2, 1)),
        ([("find", REFUSED), ("read", {}), ("read", {})], 2 / 3, 2 / 3, (1 / 2, 1 / 2)),
        ([("find", SILENT), ("find", {})], 1 / 3, 1 / 2, (1 / 2, 1)),
        ([("other", {}), ("find", {})], 1 / 3, 1 / 2, (1 / 2, 1 / 2)),
    ],
)
def test_path_and_precision_are_over_calls(
    calls: list[GoldCall], path: float, precision: float | None, names: tuple[float, float | None]
) -> None:
    episode = played(*calls)
    assert (episode.path, episode.precision) == (path, precision)
    assert (episode.path_names, episode.precision_names) == names


def test_an_unknown_solution_has_no_path() -> None:
    episode = played(("find", {}), solution=None)
    assert (episode.path, episode.precision, episode.path_names, episode.precision_names) == (None,) * 4

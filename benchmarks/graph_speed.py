"""How quick the tool graph is and how it grows: synthetic catalogues in which very many tools share their field names.

``python -m benchmarks.graph_speed --sizes 20,2000,4000,8000``. In ``one`` all tools are of one service, so that every
``user_id`` may come from a sixth of them; in ``many`` a service has 40. Times are of the processor, the least of three.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from atc.cli.console import guarded, print_json, print_table
from atc.errors import UsageError
from atc.graph.tool_graph import ToolGraph
from atc.tools.protocol import Protocol, Source

OFFERED, OF_A_SERVICE, ROUNDS = 20, 40, 3
_THINGS = ("user", "order", "city", "movie", "ticket", "account")
_VERBS = ("get", "list", "search", "update")


def catalogue(count: int, services: int) -> dict[str, Protocol]:
    """So many tools, always the same; each takes an ``id`` of one thing and gives those of another."""
    made = {}
    for number in range(count):
        taken, given = _THINGS[number % 6], _THINGS[number // 4 % 6]
        some = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}}
        record = {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "owner_id": {"type": "string"},
            f"{taken}s": some,
        }
        name = f"{_VERBS[number % 4]}_{given}_{number}"
        made[name] = Protocol(
            name=name,
            parameters={
                "properties": {f"{taken}_id": {"type": "string"}, "id": {"type": "string"}},
                "required": [f"{taken}_id"],
            },
            returns={"type": "object", "properties": {"data": {"type": "array", "items": {"properties": record}}}},
            source=Source(kind="openapi", location=f"service {number % services}"),
        )
    return made


def measured(count: int, services: int) -> dict[str, Any]:
    """The times of one catalogue, in milliseconds of the processor, and how many edges it has."""
    tools = catalogue(count, services)
    keys = list(tools)
    whole = ToolGraph(tools)
    edges = sum(len(whole.feeds(key)) for key in keys)
    offered = {key: tools[key] for key in keys[:OFFERED]}
    return {
        "tools": count,
        "services": services,
        "edges": edges,
        "whole graph": _least(lambda: ToolGraph(tools).suppliers),
        "one tool's feeds": _least(lambda: ToolGraph(tools).feeds(keys[-1])),
        f"{OFFERED} offered": _least(lambda: ToolGraph(offered).suppliers),
        f"{OFFERED} in layers": _least(lambda: whole.layers(keys[:OFFERED])),
    }


def _least(what: Callable[[], object]) -> float:
    """The least of some times, in milliseconds of the processor."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        begun = time.process_time()
        what()
        times.append(1000 * (time.process_time() - begun))
    return round(min(times), 1)


@guarded
def main(
    sizes: Annotated[str, typer.Option(help="Numbers of tools.")] = "20,2000,4000,8000",
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure how quick the tool graph is."""
    counts = [int(size) for size in sizes.split(",") if size.strip().isdecimal() and int(size) > 0]
    if len(counts) != len(sizes.split(",")):
        raise UsageError(f"--sizes takes numbers of tools, as in 20,2000: {sizes!r} is none")
    rows = [
        {"catalogue": form} | measured(count, services)
        for form in ("one", "many")
        for count in counts
        for services in [1 if form == "one" else max(1, count // OF_A_SERVICE)]
    ]
    if as_json:
        print_json(rows)
        return
    table = Table(*rows[0], box=None, header_style="bold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int | float) else value for value in row.values()))
    print_table(table)


if __name__ == "__main__":
    typer.run(main)

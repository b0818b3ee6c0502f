"""An adapter of queries (``atc tools learn``): ``python -m benchmarks.retrieval.adapter --data DIR``.

Four of five queries of a source are learnt from, but those of every fifth tool; the others are asked, for tools that
something was learnt for and for those that nothing was. Then the same adapters elsewhere, learning curves, and speed.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.catalogue.index.adapter import Adapter
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.snapshot import id_digest
from atc.catalogue.learn.adapter import learn_adapter
from atc.catalogue.learn.examples import Pair, TooLittle, part_of
from benchmarks.common import AsJson
from benchmarks.retrieval.search_data import TOOLBENCH, CodesData

SOURCES = {
    "metatool": "metatool",
    "metatool_multi": "metatool",
    "gorilla": "gorilla",
    "seal_tools": "seal_tools",
    "nestools": "nestools",
    "livemcp_routes": "livemcp",
}
"""Each source and its pool. Of ``metatool_multi`` nothing is learnt: it is asked with what ``metatool`` taught."""
CURVE = (50, 200, 1_000, 4_000)
ASKED = 1_000
"""Queries of a kind that are asked, at most."""
_PLACES = (1, 3, 5, 10)
_MIXED = ("metatool", "gorilla", "seal_tools", "nestools")


@dataclass(frozen=True)
class Ask:
    """A query: its words, its tools, and the name whose hash holds it out."""

    text: str
    gold: frozenset[str]
    held_out: bool

    @property
    def hidden(self) -> bool:
        """Whether one of its tools is a fifth one, for which nothing is learnt."""
        return any(part_of(f"tool {id}") == 0 for id in self.gold)


@dataclass(frozen=True)
class Row:
    """Queries of one kind, ranked without an adapter and with it: nDCG@1, 3, 5, 10 and all found @10, of 100."""

    source: str
    kind: str
    queries: int
    hybrid: tuple[float, ...]
    adapter: tuple[float, ...]


class Bench:
    """The indexes of a data directory, made once each."""

    def __init__(self, data: CodesData, directory: Path) -> None:
        self._data, self._directory = data, directory
        self._made: dict[tuple[str, ...], ToolIndex] = {}

    def index(self, *pools: str) -> ToolIndex:
        """The tools of some pools in one index."""
        if pools not in self._made:
            tools = {id: protocol for pool in pools for id, protocol in self._data.catalogues.pool(pool)}
            self._made[pools] = ToolIndex.build(list(tools.items()), self._data.encoder)
        return self._made[pools]

    def asks(self, source: str) -> list[Ask]:
        """The queries of a source, in the order of a hash."""
        if source == "livemcp_routes":
            found = {(each.text, each.gold): each for each in self._routes()}
            return sorted(found.values(), key=lambda each: id_digest(each.text))
        return [Ask(each.text, each.gold, part_of(each.text) == 0) for each in self._data.queries(source)]

    def toolbench(self, part: str) -> list[Ask]:
        """ToolBench's test queries of a part: all are asked."""
        found = self._data.queries(*TOOLBENCH, subset=part)
        return [Ask(each.text, each.gold, True) for each in found]

    def _routes(self) -> Iterator[Ask]:
        """Sub-queries that models wrote, with the call that followed without error; held out by their task."""
        with gzip.open(self._directory / "trajectories" / "livemcp_agents.jsonl.gz") as file:
            for line in file:
                record = json.loads(line)
                calls = record["calls"]
                for route in record.get("routes") or ():
                    at = route["before_call"]
                    if at < len(calls) and not calls[at].get("error"):
                        held_out = part_of(record["task"]) == 0
                        yield Ask(route["query"], frozenset([calls[at]["tool"]]), held_out)


def learnt(index: ToolIndex, asks: Sequence[Ask], limit: int | None = None) -> tuple[Adapter | None, dict[str, Any]]:
    """What ``atc tools learn`` makes of the queries that are neither held out nor for hidden tools."""
    pairs = [Pair(each.text, tuple(each.gold)) for each in asks if not each.held_out and not each.hidden][:limit]
    began = time.process_time()
    try:
        found = learn_adapter(index, pairs)
    except TooLittle as error:
        return None, {"pairs": len(pairs), "kept": False, "why": str(error)}
    facts = {"pairs": found.pairs, "tools": found.tools, "kept": found.kept, "share": found.share}
    seconds = round(time.process_time() - began, 1)
    return found.adapter, facts | {"gate": [asdict(found.held_out), asdict(found.unseen)], "seconds": seconds}


def ranked(index: ToolIndex, asks: Sequence[Ask]) -> tuple[float, ...]:
    """nDCG@1, 3, 5, 10 and all found @10, means of 100."""
    there = [[hit.id for hit in hits] for hits in index.search_many([each.text for each in asks], 10)]
    rows = [
        [*(ndcg(ids, each.gold, k) for k in _PLACES), float(each.gold <= set(ids))]
        for ids, each in zip(there, asks, strict=True)
    ]
    return tuple(round(100 * float(each), 1) for each in np.mean(rows, axis=0))


def compared(source: str, kind: str, index: ToolIndex, adapter: Adapter | None, asks: Sequence[Ask]) -> Row | None:
    """Some queries without an adapter and with it."""
    asks = [each for each in asks if all(id in index for id in each.gold)][:ASKED]
    if not asks:
        return None
    before = ranked(index, asks)
    after = ranked(index.with_scorers([adapter]), asks) if adapter is not None else before
    return Row(source, kind, len(asks), before, after)


def both_kinds(source: str, index: ToolIndex, adapter: Adapter | None, asks: Sequence[Ask]) -> list[Row]:
    """Held-out queries for tools that something was learnt for, and all for those that nothing was."""
    seen = [each for each in asks if each.held_out and not each.hidden]
    hidden = [each for each in asks if each.hidden]
    kinds = (("seen tools", seen), ("unseen tools", hidden))
    return [row for kind, some in kinds if (row := compared(source, kind, index, adapter, some)) is not None]


def measure(bench: Bench) -> dict[str, Any]:
    """All of it."""
    adapters: dict[str, Adapter | None] = {}
    trainings, rows, elsewhere, curves = {}, list[Row](), list[Row](), list[dict[str, Any]]()
    for source, pool in SOURCES.items():
        index, asks = bench.index(pool), bench.asks(source)
        if source == "metatool_multi":
            adapter, asks = adapters["metatool"], [replace(each, held_out=True) for each in asks]
        else:
            adapter, trainings[source] = learnt(index, asks)
            adapters[source] = adapter
        rows += both_kinds(source, index, adapter, asks)
    metatool = adapters["metatool"]
    if metatool is not None:
        elsewhere += _elsewhere(bench, metatool)
    for source in ("metatool", "gorilla", "livemcp_routes"):
        index, asks = bench.index(SOURCES[source]), bench.asks(source)
        for count in CURVE:
            adapter, facts = learnt(index, asks, count)
            if facts["pairs"] >= count * 0.9:
                curves += [
                    {"wanted": count, **facts, **asdict(row)} for row in both_kinds(source, index, adapter, asks)
                ]
    return {
        "trainings": trainings,
        "rows": [asdict(row) for row in rows],
        "elsewhere": [asdict(row) for row in elsewhere],
        "curves": curves,
        "speed": speed(bench, metatool) if metatool is not None else {},
    }


def _elsewhere(bench: Bench, adapter: Adapter) -> Iterator[Row]:
    """What MetaTool taught, on queries of other sources: as it is, by force, and where its tools are in the index."""
    for source in ("gorilla", "seal_tools", "nestools"):
        index, asks = bench.index(SOURCES[source]), bench.asks(source)[:400]
        forced = replace(adapter, tools=np.unique(np.array([id_digest(id) for id in index.ids], np.uint64)))
        for kind, each, place in (
            ("its own index", adapter, index),
            ("by force", forced, index),
            ("one index of four sources", adapter, bench.index(*_MIXED)),
        ):
            if (row := compared(source, kind, place, each, asks)) is not None:
                yield row
    both = bench.index("toolbench", "metatool")
    for part in ("G1", "G2", "G3"):
        kind = "one index of 47,000 and MetaTool"
        if (row := compared(f"toolbench {part}", kind, both, adapter, bench.toolbench(part))) is not None:
            yield row


def speed(bench: Bench, adapter: Adapter) -> dict[str, Any]:
    """Processor seconds to learn from all pairs of MetaTool, bytes of the file, and milliseconds of a query."""
    index = bench.index("metatool")
    pairs = [Pair(each.text, tuple(each.gold)) for each in bench.asks("metatool")]
    index.search_many([pair.query for pair in pairs])  # their vectors are read from the disk
    began = time.process_time()
    found = learn_adapter(index, pairs)
    seconds = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranking.json"
        adapter.write(path)
        size = path.stat().st_size
        began = time.process_time()
        Adapter.read(path)
        reading = time.process_time() - began
    times = {}
    for name, pools in (("199 tools", ("metatool",)), ("47,000 tools", ("toolbench", "metatool"))):
        plain, columns = bench.index(*pools), [adapter]
        asked = [pair.query for pair in pairs[:200]]
        for label, each in (("without", plain), ("with", plain.with_scorers(columns))):
            each.search_many(asked[:10])
            began = time.process_time()
            each.search_many(asked)
            times[f"{name}, {label}"] = round(1_000 * (time.process_time() - began) / len(asked), 3)
    return {
        "pairs": found.pairs,
        "learning_s": round(seconds, 1),
        "bytes": size,
        "reading_ms": round(1_000 * reading, 1),
        "ms_a_query": times,
    }


def report(found: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    head = "| queries | kind | n | hybrid N@1 | N@3 | N@5 | N@10 | all@10 | adapter N@1 | N@3 | N@5 | N@10 | all@10 |"
    rule = "| --- | --- " + "| ---: " * 11 + "|"
    lines = []
    for source, facts in found["trainings"].items():
        lines.append(f"{source}: {json.dumps({k: v for k, v in facts.items() if k != 'gate'})}")
    for title in ("rows", "elsewhere"):
        lines += ["", head, rule]
        for row in found[title]:
            cells = [row["source"], row["kind"], row["queries"], *row["hybrid"], *row["adapter"]]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| source | pairs | kind | share | kept | hybrid N@10 | with it |", "| --- " * 7 + "|"]
    for row in found["curves"]:
        cells = [row["source"], row["wanted"], row["kind"], row.get("share", ""), row["kept"]]
        lines.append(f"| {' | '.join(map(str, [*cells, row['hybrid'][3], row['adapter'][3]]))} |")
    return "\n".join([*lines, "", json.dumps(found["speed"])])


def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory of the data.")] = None,
    kept: Annotated[Path | None, typer.Option(help="Where vectors are kept between runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Query adapters of six sources: held-out queries, other sources, learning curves, speed."""
    opened = CodesData(data, kept)
    assert data is not None
    found = measure(Bench(opened, data))
    print(json.dumps(found, indent=2) if as_json else report(found))


if __name__ == "__main__":
    typer.run(main)

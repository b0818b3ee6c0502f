"""How well links between tools are predicted: which tool feeds which, among tools that nobody has used yet.

``python -m atc_research_benchmarks.links --data DIR`` compares names, shared words, an encoder's cosine, the logistic
model that ships, and, where torch is installed, graph networks (``./research[train]``), on edges of NesTools,
UltraTool, NESTFUL, ComplexFuncBench and API-Bank. Held out are half of all tools by hash, each source as a whole, and
a fifth of the edges among tools that are all seen. Against three kinds of pairs without an edge: random ones, ones of
the same task, and the edges reversed. Each result is kept as a JSON line: the same command goes on where it stopped.
``--summary FILE`` prints the tables of such lines, without the data. ``--write`` makes the weights that ship.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from atc.catalogue.index.minilm import MiniLM
from atc.cli.console import INTERRUPTED, err
from atc.errors import EncoderUnavailable, EnvironmentProblem, UsageError
from atc_research.naviagent import link_features, link_fit, link_model
from atc_research.naviagent.link_features import FEATURES, LinkFeatures, Matrix
from atc_research.naviagent.link_fit import Examples, fit, none
from atc_research.naviagent.link_model import LinkModel
from atc_research_benchmarks import links_data
from atc_research_benchmarks.links_data import KINDS, MEASURED, Gold, Part, Split, by_consumer, gold, splits
from atc_research_benchmarks.search_data import KeptVectors
from benchmarks.common import RESULTS, AsJson, print_json, show

if TYPE_CHECKING:
    from atc_research.naviagent.link_gnn import LinkGraph


class Features:
    """The features of each source's tools, with the vectors of an encoder where there is one."""

    def __init__(self, encoder: KeptVectors | None) -> None:
        self._encoder = encoder
        self._made: dict[str, LinkFeatures] = {}
        self._rows: dict[tuple[str, str], Matrix] = {}
        self._graphs: dict[str, LinkGraph] = {}

    def of(self, gold: Gold) -> LinkFeatures:
        if gold.source not in self._made:
            self._made[gold.source] = LinkFeatures(gold.protocols, self.vectors(gold))
        return self._made[gold.source]

    def into(self, gold: Gold, consumer: str) -> Matrix:
        if (gold.source, consumer) not in self._rows:
            self._rows[gold.source, consumer] = self.of(gold).into(consumer)
        return self._rows[gold.source, consumer]

    def vectors(self, gold: Gold) -> Matrix | None:
        """Of each tool its name and description as a vector; ``None`` without an encoder."""
        if self._encoder is None:
            return None
        return self._encoder.encode(
            [f"{each.name.replace('_', ' ')}: {each.description}" for each in gold.protocols.values()]
        )

    def graph(self, gold: Gold) -> LinkGraph:
        """The structure of a source's tools, for networks alone."""
        from atc_research.naviagent.link_gnn import LinkGraph

        if gold.source not in self._graphs:
            assert self._encoder is not None
            self._graphs[gold.source] = LinkGraph.of(gold.protocols, self._encoder, self.vectors(gold))
        return self._graphs[gold.source]

    def examples(self, part: Part) -> Examples:
        """A part as examples to learn from."""
        places = {pair: place for place, pair in enumerate(part.edges)}
        free = np.array([places[b, a] for a, b in part.none["reversed"]], np.int64)
        edges, random, same = (
            self._pairs(part.gold, pairs) for pairs in (part.edges, part.none["random"], part.none["same task"])
        )
        return Examples(edges, random, same, free)

    def _pairs(self, gold: Gold, pairs: tuple[tuple[str, str], ...]) -> Matrix:
        rows = self.of(gold).rows
        found = {}
        for consumer, providers in by_consumer(pairs).items():
            into = self.into(gold, consumer)
            found.update({(provider, consumer): into[rows[provider]] for provider in providers})
        return np.stack([found[pair] for pair in pairs]) if pairs else none()


class Method(ABC):
    """A way to predict links."""

    name: str
    device = "cpu"

    @abstractmethod
    def learn(self, parts: Sequence[Part], seed: int) -> None:
        """Learn from some edges alone."""

    @abstractmethod
    def into(self, gold: Gold, consumer: str) -> Matrix:
        """How likely each tool of a source feeds one of them, in their order; of any scale."""


class Column(Method):
    """One feature as it is: nothing is learnt."""

    def __init__(self, name: str, feature: str, features: Features) -> None:
        self.name, self._column, self._features = name, FEATURES.index(feature), features

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        """Nothing to learn."""

    def into(self, gold: Gold, consumer: str) -> Matrix:
        return self._features.into(gold, consumer)[:, self._column]


class Degrees(Method):
    """How often a tool supplies and how often the other takes, in what was learnt: nothing of what they are.

    It is what a sum of two scores, one for each tool (Eq. 17 of NaviAgent), can know without any text.
    """

    name = "degrees"

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        self._gives = Counter(provider for part in parts for provider, _ in part.edges)
        self._takes = Counter(consumer for part in parts for _, consumer in part.edges)

    def into(self, gold: Gold, consumer: str) -> Matrix:
        found = [np.log1p(self._gives[tool]) + np.log1p(self._takes[consumer]) for tool in gold.protocols]
        return np.array(found, np.float32)


class Logistic(Method):
    """What ships: two logistic regressions."""

    def __init__(self, name: str, features: Features, *, vectors: bool) -> None:
        self.name, self._features, self._vectors = name, features, vectors
        self.model: LinkModel | None = None

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        self.model = fit([self._features.examples(part) for part in parts], vectors=self._vectors)

    def into(self, gold: Gold, consumer: str) -> Matrix:
        assert self.model is not None
        return self.model.chances(self._features.into(gold, consumer)).astype(np.float32)


def methods(features: Features, *, vectors: bool) -> dict[str, Callable[[], Method]]:
    """The methods that need no torch, by name."""
    found: dict[str, Callable[[], Method]] = {
        "names": lambda: Column("names", "affinity", features),
        "words": lambda: Column("words", "gives_all:takes_all", features),
        "degrees": Degrees,
        "logistic": lambda: Logistic("logistic", features, vectors=False),
    }
    if vectors:
        found["cosine"] = lambda: Column("cosine", "cosine", features)
        found["logistic, vectors"] = lambda: Logistic("logistic, vectors", features, vectors=True)
    return found


SPLITS = ("tools", "source", "edges")
AT = (1, 5, 10)
"""Providers that are looked at for recall."""
_CODE = (links_data.__file__, __file__, link_features.__file__, link_fit.__file__)
"""What decides on the figures; where one of these changed, what was kept is measured again."""


def area(there: Matrix, none: Matrix) -> float:
    """The area under the ROC curve; equal scores count half. Not a number where there are none."""
    if not len(there) or not len(none):
        return float("nan")
    _, places, counts = np.unique(np.concatenate([there, none]), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    wins = ranks[: len(there)].sum() - len(there) * (len(there) + 1) / 2
    return float(wins / (len(there) * len(none)))


def best_threshold(there: Matrix, none: Matrix) -> float:
    """The score from which taking a pair for an edge is right most often, both sides counted alike."""
    tried = np.unique(np.concatenate([there, none]))
    if not len(there) or not len(none):
        return 0.5
    rights = [(there >= score).mean() + (none < score).mean() for score in tried[:: max(1, len(tried) // 500)]]
    return float(tried[:: max(1, len(tried) // 500)][int(np.argmax(rights))])


def scored(method: Method, part: Part) -> dict[str, Matrix]:
    """The scores of a part's edges, and of each kind of pairs without one."""
    found = {}
    for kind, pairs in {"edges": part.edges, **part.none}.items():
        scores: dict[tuple[str, str], float] = {}
        for consumer, providers in by_consumer(pairs).items():
            into = method.into(part.gold, consumer)
            keys = list(part.gold.protocols)
            rows = {key: row for row, key in enumerate(keys)} if len(providers) > 3 else None
            for provider in providers:
                scores[provider, consumer] = float(into[rows[provider] if rows else keys.index(provider)])
        found[kind] = np.array([scores[pair] for pair in pairs], np.float32)
    return found


def recall(method: Method, part: Part, learnt: Sequence[Part] = ()) -> list[float]:
    """The share of a consumer's providers among the likeliest of all the source's tools, for each of :data:`AT`.

    Providers that the consumer is known to have, from ``learnt``, take no place among them.
    """
    keys = list(part.gold.protocols)
    known = by_consumer(tuple(pair for each in learnt if each.gold is part.gold for pair in each.edges))
    shares = []
    for consumer, providers in sorted(by_consumer(part.edges).items()):
        into = np.array(method.into(part.gold, consumer), np.float64)
        into[[keys.index(tool) for tool in (consumer, *known.get(consumer, ()))]] = -np.inf
        first = [keys[row] for row in np.argsort(-into, kind="stable")[: max(AT)]]
        shares.append([len(set(providers) & set(first[:k])) / len(providers) for k in AT])
    return [float(value) for value in np.mean(shares, axis=0)] if shares else []


def measured(method: Method, split: Split, features: Features) -> Iterator[dict[str, Any]]:
    """One row for each source that is asked."""
    method.learn(split.train, split.seed)
    known = [scored(method, part) for part in split.train]
    cuts = {}
    for kind in KINDS:
        cuts[kind] = best_threshold(
            np.concatenate([each["edges"] for each in known]), np.concatenate([each[kind] for each in known])
        )
    for part in split.test:
        if not part.edges:
            continue
        found = scored(method, part)
        shares = recall(method, part, split.train)
        row: dict[str, Any] = {"source": part.gold.source, "edges": len(part.edges), "recall": shares}
        for kind in KINDS:
            there, none = found["edges"], found[kind]
            hit, false = (there >= cuts[kind]).mean(), (none >= cuts[kind]).mean() if len(none) else 0.0
            row[kind] = {
                "auc": area(there, none),
                "acc": float((hit + 1 - false) / 2),
                "f1": float(2 * hit / (1 + hit + false)),
                "spread": _spread(there, none),
            }
        yield row


def _spread(there: Matrix, none: Matrix, times: int = 200) -> list[float]:
    """Bounds of 95 % of the areas of so many draws with replacement."""
    rng = np.random.default_rng(0)
    if not len(there) or not len(none):
        return []
    areas = [area(rng.choice(there, len(there)), rng.choice(none, len(none))) for _ in range(times)]
    return [float(value) for value in np.percentile(areas, [2.5, 97.5])]


def _version() -> str:
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in _CODE)).hexdigest()[:12]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _read(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # cut short
            continue
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for each split, method and source, and the mean of the sources."""
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["split"], row["method"]][row["source"]].append(row)
    lines = []
    for (split, method), by_source in groups.items():
        means = []
        for source in MEASURED:
            some = by_source.get(source, [])
            if some:
                line: dict[str, Any] = {"split": split, "method": method, "source": source, "rows": len(some)}
                for kind in KINDS:
                    for what in ("auc", "acc", "f1"):
                        values = [row[kind][what] for row in some if not np.isnan(row[kind][what])]
                        line[f"{kind} {what}"] = float(np.mean(values)) if values else float("nan")
                    values = [row[kind]["auc"] for row in some]
                    half = 1.96 * float(np.nanstd(values)) / np.sqrt(len(values))
                    bounds = some[0][kind]["spread"]
                    line[f"{kind} ±"] = half if len(some) > 1 else (bounds[1] - bounds[0]) / 2 if bounds else 0.0
                for place, k in enumerate(AT):
                    line[f"recall@{k}"] = float(np.mean([row["recall"][place] for row in some if row["recall"]]))
                means.append(line)
        numbers = [name for name, value in means[0].items() if isinstance(value, float) and "±" not in name]
        macro = {name: float(np.nanmean([line[name] for line in means])) for name in numbers}
        lines += [*means, {"split": split, "method": method, "source": "mean", "rows": len(means), **macro}]
    return lines


def _show(lines: Sequence[Mapping[str, Any]]) -> None:
    for split in SPLITS:
        rows = []
        for line in lines:
            if line["split"] == split:
                areas = [f"{line[f'{kind} auc']:.3f}" + _half(line.get(f"{kind} ±")) for kind in KINDS]
                rates = ["/".join(_share(line[f"{kind} {what}"]) for what in ("acc", "f1")) for kind in KINDS]
                recalls = "/".join(_share(line[f"recall@{k}"]) for k in AT)
                rows.append([line["method"], line["source"], *areas, *rates, recalls])
        columns = ["method", "source", *(f"AUC {k}" for k in KINDS), *(f"ACC/F1 {k}" for k in KINDS), "recall@1/5/10"]
        if rows:
            show(f"Held out: {split}", columns, rows)


def _share(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".")


def _half(value: float | None) -> str:
    return "" if value is None else f" ±{value:.3f}".replace("0.", ".")


def _write(split: Split, features: Features, *, vectors: bool) -> None:
    """The weights that ship: learnt from the half of all tools that the first split does not ask about."""
    made = "python -m atc_research_benchmarks.links --data DIR --write"
    models = {"words": False, **({"vectors": True} if vectors else {})}
    examples = [features.examples(part) for part in split.train]
    records = {name: link_fit.fit(examples, vectors=with_, made=made).record() for name, with_ in models.items()}
    path = Path(link_model.__file__).with_name("link_weights.json")
    text = re.sub(r"\[\s+(\S+),\s+(\S+)\s+\]", r"[\1, \2]", json.dumps(records, indent=1))  # a line for each feature
    path.write_text(text + "\n", encoding="utf-8")


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/.")
    ] = None,
    method: Annotated[str, typer.Option(help="Only these, by name, separated by `;`.")] = "",
    seeds: Annotated[int, typer.Option(min=1, max=50, help="Splits by tools, and by edges.")] = 5,
    held_out: Annotated[str, typer.Option(help="What is held out: some of `tools`, `source`, `edges`.")] = ",".join(
        SPLITS
    ),
    graph_networks: Annotated[bool, typer.Option(help="Train graph networks too, where torch is installed.")] = True,
    file: Annotated[Path, typer.Option("--out", help="Where each result is kept as a JSON line.")] = RESULTS
    / "links.jsonl",
    write: Annotated[bool, typer.Option("--write", help="Write the weights that ship.")] = False,
    kept: Annotated[
        Path | None,
        typer.Option("--summary", exists=True, help="Print the tables of such a file; nothing is measured."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well links are predicted."""
    if kept is not None:
        _print(summary(_read(kept)), as_json=as_json)
        return
    if data is None:
        raise EnvironmentProblem("the benchmark of links needs its data: give --data DIR or ATC_DATA")
    encoder: MiniLM | None = MiniLM(threads=1)
    try:
        MiniLM().check()
    except EncoderUnavailable as error:
        err.print(f"without vectors: {error}", markup=False)
        encoder = None
    features = Features(KeptVectors(encoder, RESULTS / "links") if encoder is not None else None)
    known = methods(features, vectors=encoder is not None)
    if graph_networks and encoder is not None:
        known |= _networks(features)
    names = [name.strip() for name in method.split(";") if name.strip()] or list(known)
    if wrong := [name for name in names if name not in known]:
        raise UsageError(f"there is no method {wrong[0]!r}: take of {'; '.join(known)}")
    sources = gold(data)
    every = list(splits(sources, seeds))
    if write:
        _write(every[0], features, vectors=encoder is not None)
    version = _version()
    there = {(row["version"], row["method"], row["split"], row["seed"]) for row in _read(file)}
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("a", encoding="utf-8") as out:
            for name in names:
                for split in (each for each in every if each.name in held_out.split(",")):
                    if (version, name, split.name, split.seed) in there:
                        continue
                    began, trained = time.monotonic(), known[name]()
                    rows = list(measured(trained, split, features))
                    key = {"version": version, "method": name, "split": split.name, "seed": split.seed}
                    about = {"device": trained.device, "seconds": round(time.monotonic() - began, 1)}
                    out.writelines(json.dumps({**key, **about, **_rounded(row)}) + "\n" for row in rows)
                    out.flush()
                    err.print(f"{name}, {split.name} {split.seed}", markup=False)
    except KeyboardInterrupt:
        err.print(f"interrupted; what was measured is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    rows = [row for row in _read(file) if row["version"] == version and row["method"] in names]
    _print(summary(rows), as_json=as_json)


def _print(lines: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"links": lines})
        return
    _show(lines)


def _networks(features: Features) -> dict[str, Callable[[], Method]]:
    try:
        from atc_research_benchmarks.links_networks import networks
    except EnvironmentProblem as error:
        err.print(f"left out: {error}", markup=False)
        return {}
    return networks(features)


if __name__ == "__main__":
    typer.run(main)

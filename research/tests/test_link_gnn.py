"""Graph networks for links: a small one learns; without torch a line says what is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc_research.extras import TRAIN
from atc_research.naviagent.link_features import Matrix
from atc_research.naviagent.link_model import read_predictions

STRING = {"type": "string"}


class Hashed:
    """An encoder for tests: a random vector for each word."""

    name, digest, dimensions = "hashed", "0" * 32, 32

    def check(self) -> None:
        """It is always there."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        rows = []
        for text in texts:
            words = text.replace("_", " ").split()
            row = sum(np.random.default_rng(sum(map(ord, word))).normal(size=32) for word in words)
            rows.append(row / np.linalg.norm(row))
        return np.array(rows, np.float32)


def tools() -> dict[str, Protocol]:
    made = {}
    for name in ("hotel", "flight", "song", "book", "film", "city"):
        search = Protocol(
            name=f"search_{name}",
            parameters={"properties": {"query": STRING}},
            returns={"type": "object", "properties": {f"{name}_id": STRING}},
        )
        show = Protocol(name=f"show_{name}", parameters={"properties": {f"{name}_id": STRING}})
        made |= {each.name: each for each in (search, show)}
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hgt", "gcn", "sage"])
def test_a_small_network_learns_its_edges(kind: str) -> None:
    pytest.importorskip("torch")
    from atc_research.naviagent.link_gnn import LinkGraph, Options, Predictions, train

    fed = {(f"search_{name}", f"show_{name}"): 2.0 for name in ("hotel", "flight", "song", "book")}
    graph = LinkGraph.of(tools(), Hashed()).with_runs(fed, {tool: 2 for pair in fed for tool in pair})
    assert set(graph.fed.values()) == {1.0}
    options = Options(size=16, heads=4, epochs=30, pair=True, reversed_too=True)
    network = train([graph], kind, options)  # type: ignore[arg-type]
    predictions = Predictions(network, graph)
    row = {key: number for number, key in enumerate(graph.keys)}
    for provider, consumer in fed:
        assert predictions.into(consumer)[row[provider]] > predictions.into(provider)[row[consumer]]
    again = Predictions(train([graph], kind, options), graph)  # type: ignore[arg-type]
    assert np.array_equal(again.into("show_film"), predictions.into("show_film"))
    with pytest.raises(ValueError, match="no edges"):
        train([LinkGraph.of(tools(), Hashed())])


@pytest.mark.slow
def test_no_message_passes_along_the_edges_that_a_network_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from atc_research.naviagent import link_gnn
    from atc_research.naviagent.link_gnn import LinkGraph, Options, train

    fed = {(f"search_{name}", f"show_{name}"): 1.0 for name in ("hotel", "flight", "song", "book")}
    graph = LinkGraph.of(tools(), Hashed()).with_runs(fed, {tool: 1 for pair in fed for tool in pair})
    seen = []
    loss = link_gnn._loss

    def watched(network: Any, prepared: Any, graph: LinkGraph, asked: Any, *more: Any) -> Any:
        passed = {(u, v) for u, v in zip(*(side.tolist() for side in prepared.edges["feeds"]), strict=True)}
        seen.append((len(asked), passed.isdisjoint(asked), passed | {*asked} == {*graph.fed}))
        return loss(network, prepared, graph, asked, *more)

    monkeypatch.setattr(link_gnn, "_loss", watched)
    train([graph], "hgt", Options(size=16, heads=4, epochs=5, hidden=0.5))
    assert seen == [(2, True, True)] * 5


@pytest.mark.slow  # with the others that need torch: CI installs it for these
def test_predictions_are_read_without_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from atc_research.naviagent.link_gnn import write_predictions

    edges = {("search_hotel", ("hotels", "[]", "id"), "show_hotel", "hotel_id"): 0.9}
    write_predictions(tmp_path / "p.json", edges)
    assert read_predictions(tmp_path / "p.json") == edges


@pytest.mark.parametrize(
    "rows", ["{}", "[[]]", '[["a", ["b"], "c", "d", 2]]', '[["a", "b", "c", "d", 0.5]]', '[["a", [1], "c", "d", 0.5]]']
)
def test_a_file_without_predictions_is_refused(tmp_path: Path, rows: str) -> None:
    (tmp_path / "p.json").write_text(f'{{"version": 1, "edges": {rows}}}')
    with pytest.raises(UsageError, match="no predicted edges"):
        read_predictions(tmp_path / "p.json")


def test_without_torch_a_line_says_what_is_missing() -> None:
    program = "import sys; sys.modules['torch'] = None; import atc_research.naviagent.link_gnn"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"graph networks need torch, which is not installed: {TRAIN}" in ran.stderr

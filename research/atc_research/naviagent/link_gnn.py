"""Link prediction by graph networks: the weighted graph transformer of NaviAgent (§3.2.2, App. B), and two plain ones.

They need torch (``./research[train]``); what they predict is a file that is read without.

The paper leaves open the size, the margin, both constants of the mix of losses, the negatives, the rate and the epochs:
:class:`Options` has what was chosen here. It names no relations against the direction of structural edges either: here
they are there, so that a provider knows of the parameters that it could supply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc import EnvironmentProblem, Protocol
from atc.plugins.learning import QUALIFIERS, Encoder, fields_of, parameters_of, words_of
from atc_research.extras import TRAIN
from atc_research.naviagent.link_features import MAX_FIELDS, Matrix
from atc_research.naviagent.link_model import VERSION, Edge, write_private

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    raise EnvironmentProblem(f"graph networks need torch, which is not installed: {TRAIN}") from None

Kind = Literal["hgt", "gcn", "sage"]
RELATIONS = ("takes", "gives", "taken by", "given by", "feeds")
"""Parameter → tool that takes it; tool → field that it gives; both reversed; tool → tool as runs did it."""
_STATS = 4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DEVICE_NAME = torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE
"""What a figure was made on."""


@dataclass(frozen=True)
class Options:
    """What the paper leaves open, and what it says.

    Attributes:
        layers, heads: as the paper has them.
        size: of a node's vector, d; each head has d/heads.
        epochs, rate: of the training (Adam).
        negatives: k of Eq. 8, drawn on the provider's side.
        margin: m₀ of Eq. 7.
        mix, decay: μ₀ and γ of Eq. 9.
        pair: add a product of both vectors to the head of Eq. 17, which alone cannot tell whom a tool fits.
        reversed_too: take the reverse of each edge as one more negative of Eq. 6.
        hidden: the share of the edges of runs that an epoch learns from. No message passes along them in it, nor do
            they count in degrees: else the network reads off what it is asked for. 0: it learns from all, and all pass.
    """

    layers: int = 2
    heads: int = 8
    size: int = 64
    epochs: int = 60
    rate: float = 5e-3
    negatives: int = 5
    margin: float = 0.5
    mix: float = 0.9
    decay: float = 0.97
    pair: bool = False
    reversed_too: bool = False
    hidden: float = 0.0


@dataclass
class LinkGraph:
    """The nodes and edges of some tools.

    Attributes:
        keys: the tools, which are the first nodes; the others are parameters and fields of one meaning.
        text: of each node a vector of length one.
        edges: of each relation the nodes that they leave, and those that they enter.
        fed: edges of runs among tools, with their weights (Eq. 4).
        uses: times that each tool was called in runs that succeeded.
    """

    keys: tuple[str, ...]
    text: Matrix
    edges: dict[str, NDArray[np.int64]]
    fed: Mapping[tuple[int, int], float] = field(default_factory=dict)
    uses: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, protocols: Mapping[str, Protocol], encoder: Encoder, tools: Matrix | None = None) -> LinkGraph:
        """The structure of some tools.

        Args:
            protocols: by key.
            encoder: of names and descriptions.
            tools: the tools' vectors, where they are there already.
        """
        nodes: dict[tuple[str, ...], int] = {}
        takes: list[tuple[int, int]] = []
        gives: list[tuple[int, int]] = []
        for row, protocol in enumerate(protocols.values()):
            taken = [each.original for each in parameters_of(protocol)[:MAX_FIELDS]]
            given = [path[-1] for path in list(fields_of(protocol.returns))[:MAX_FIELDS] if path[-1] != "[]"]
            for names, edges in ((taken, takes), (given, gives)):
                for name in names:
                    words = tuple(word for word in words_of(name) if word not in QUALIFIERS) or words_of(name)
                    edges.append((len(protocols) + nodes.setdefault(words, len(nodes)), row))
        if tools is None:
            tools = encoder.encode([f"{each.name}: {each.description}" for each in protocols.values()])
        meanings = encoder.encode([" ".join(words) or "value" for words in nodes])
        into, out = (np.array(sorted(set(pairs)), np.int64).reshape(-1, 2).T for pairs in (takes, gives))
        relations = {"takes": into, "taken by": into[::-1], "gives": out[::-1], "given by": out}
        return cls(tuple(protocols), np.concatenate([tools, meanings]).astype(np.float32), relations)

    def with_runs(self, fed: Mapping[tuple[str, str], float], calls: Mapping[str, int]) -> LinkGraph:
        """The graph with what runs did.

        Args:
            fed: how often a tool fed another one.
            calls: how often each was called: w̃ = N(i→j)/N(j) (Eq. 4).
        """
        rows = {key: row for row, key in enumerate(self.keys)}
        weights = {(rows[a], rows[b]): min(1.0, n / max(1, calls.get(b, 0))) for (a, b), n in fed.items()}
        uses = {rows[key]: count for key, count in calls.items()}
        pairs = np.array(sorted(weights), np.int64).reshape(-1, 2).T
        return LinkGraph(self.keys, self.text, {**self.edges, "feeds": pairs}, weights, uses)

    def without(self, hidden: set[tuple[int, int]]) -> LinkGraph:
        """The graph without some edges of runs."""
        fed = {pair: weight for pair, weight in self.fed.items() if pair not in hidden}
        pairs = np.array(sorted(fed), np.int64).reshape(-1, 2).T
        return LinkGraph(self.keys, self.text, {**self.edges, "feeds": pairs}, fed, self.uses)


def features(graph: LinkGraph) -> Matrix:
    """Eq. 13: the text, and the sigmoids of successes, their share, and both degrees."""
    text = graph.text * math.sqrt(graph.text.shape[1])  # of the size of the others, which drown it else
    made: Matrix = np.concatenate([text, 1 / (1 + np.exp(-_stats(graph)))], axis=1).astype(np.float32)
    return made


def _stats(graph: LinkGraph) -> Matrix:
    count = len(graph.text)
    stats = np.zeros((count, _STATS), np.float32)
    for row, uses in graph.uses.items():
        stats[row, 0], stats[row, 1] = uses, 1.0
    for leaves, enters in graph.edges.values():
        stats[:, 2] += np.bincount(enters, minlength=count)
        stats[:, 3] += np.bincount(leaves, minlength=count)
    return stats


class _Prepared:
    """A graph as tensors.

    Args:
        graph: the graph.
        whole: the same with more edges of runs: its vectors of texts are used again.
    """

    def __init__(self, graph: LinkGraph, whole: _Prepared | None = None) -> None:
        if whole is None:
            self.x = torch.from_numpy(features(graph)).to(DEVICE)
        else:
            stats = torch.from_numpy(1 / (1 + np.exp(-_stats(graph)))).to(DEVICE)
            self.x = torch.cat([whole.x[:, :-_STATS], stats], dim=1)
        self.tools, self.count = len(graph.keys), len(graph.text)
        self.edges = {
            name: (torch.from_numpy(pair[0].copy()).to(DEVICE), torch.from_numpy(pair[1].copy()).to(DEVICE))
            for name, pair in graph.edges.items()
            if pair.size
        }
        self.weights = {name: torch.ones(len(pair[0]), device=DEVICE) for name, pair in self.edges.items()}
        if "feeds" in self.edges:
            pairs = zip(*(side.tolist() for side in self.edges["feeds"]), strict=True)
            self.weights["feeds"] = torch.tensor([graph.fed[a, b] for a, b in pairs], device=DEVICE)


class _Transformer(nn.Module):
    """One layer, Eq. 15 and 16."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads, self.per_head = heads, size // heads
        self.query, self.key, self.value = (
            nn.ModuleDict({name: nn.Linear(size, size, bias=False) for name in RELATIONS}) for _ in range(3)
        )
        self.bias = nn.ParameterDict({name: nn.Parameter(torch.zeros(heads)) for name in RELATIONS})
        self.out, self.norm = nn.Linear(size, size, bias=False), nn.LayerNorm(size)

    def forward(self, h: torch.Tensor, graph: _Prepared) -> torch.Tensor:
        shape = (-1, self.heads, self.per_head)
        total = torch.zeros_like(h).view(shape)
        for name, (u, v) in graph.edges.items():
            q, k, value = (each[name](h).view(shape) for each in (self.query, self.key, self.value))
            score = (q[u] * k[v]).sum(-1) / math.sqrt(self.per_head) + self.bias[name] + graph.weights[name][:, None]
            score = (score - score.max()).clamp(min=-60).exp()  # one constant for all leaves each softmax as it is
            mass = torch.zeros(graph.count, self.heads, device=DEVICE).index_add(0, v, score)
            total = total.index_add(0, v, (score / mass[v])[..., None] * value[u])
        return self.norm(h + functional.leaky_relu(self.out(total.reshape(h.shape))))


class _Plain(nn.Module):
    """One layer of GCN (Kipf and Welling) or of GraphSAGE (mean): one kind of edge, in both directions, unweighted."""

    def __init__(self, size: int, *, sage: bool) -> None:
        super().__init__()
        self.sage = sage
        self.near, self.own = nn.Linear(size, size), nn.Linear(size, size, bias=False)

    def forward(self, h: torch.Tensor, graph: _Prepared) -> torch.Tensor:
        u, v = (torch.cat(sides) for sides in zip(*graph.edges.values(), strict=True))
        u, v = torch.cat([u, v]), torch.cat([v, u])
        ones = torch.ones(len(v), device=DEVICE)
        degree = torch.zeros(graph.count, device=DEVICE).index_add(0, v, ones) + (0 if self.sage else 1)
        if self.sage:
            mean = torch.zeros_like(h).index_add(0, v, h[u]) / degree.clamp(min=1)[:, None]
            return functional.leaky_relu(self.own(h) + self.near(mean))
        scale = degree.rsqrt()
        total = torch.zeros_like(h).index_add(0, v, h[u] * (scale[u] * scale[v])[:, None]) + h / degree[:, None]
        return functional.leaky_relu(self.near(total))


class Network(nn.Module):
    """An encoder of nodes and the head that predicts links.

    Args:
        width: of the nodes' features.
        kind: ``hgt``, ``gcn`` or ``sage``.
        options: its constants.
    """

    def __init__(self, width: int, kind: Kind = "hgt", options: Options | None = None) -> None:
        super().__init__()
        self.options = o = options or Options()
        self.inputs = nn.ModuleList([nn.Linear(width, o.size) for _ in ("tool", "parameter")])
        self.norms = nn.ModuleList([nn.LayerNorm(o.size) for _ in ("tool", "parameter")])
        layers = [
            _Transformer(o.size, o.heads) if kind == "hgt" else _Plain(o.size, sage=kind == "sage")
            for _ in range(o.layers)
        ]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(2 * o.size, 1)
        self.product = nn.Linear(o.size, o.size, bias=False) if o.pair else None

    def encode(self, graph: _Prepared) -> torch.Tensor:
        """Vectors of the tools: Eq. 14 by type, then the layers."""
        parts = (graph.x[: graph.tools], graph.x[graph.tools :])
        h = torch.cat(
            [norm(functional.leaky_relu(of(x))) for of, norm, x in zip(self.inputs, self.norms, parts, strict=True)]
        )
        for layer in self.layers:
            h = layer(h, graph)
        return h[: graph.tools]

    def logit(self, h: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Of the probability that ``u`` feeds ``v`` (Eq. 17)."""
        found: torch.Tensor = self.head(torch.cat([h[u], h[v]], -1)).squeeze(-1)
        if self.product is not None:
            found = found + (self.product(h[u]) * h[v]).sum(-1) / math.sqrt(h.shape[1])
        return found


def train(graphs: Sequence[LinkGraph], kind: Kind = "hgt", options: Options | None = None, seed: int = 0) -> Network:
    """Train a network on graphs with edges of runs, by the losses of Eq. 6 to 10, on one thread or a GPU.

    Raises:
        ValueError: no graph has an edge of runs.
    """
    taught = [(graph, _Prepared(graph)) for graph in graphs if graph.fed]
    if not taught:
        raise ValueError("no edges to learn from")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    o = options or Options()
    network = Network(taught[0][1].x.shape[1], kind, o)
    network.to(DEVICE)
    optimiser = torch.optim.Adam(network.parameters(), lr=o.rate, weight_decay=1e-4)
    for epoch in range(o.epochs):
        mix = o.mix * o.decay**epoch
        optimiser.zero_grad()
        for graph, prepared in taught:
            share = math.sqrt(len(graph.fed)) / sum(math.sqrt(len(each.fed)) for each, _ in taught)
            asked = list(graph.fed)
            if o.hidden:
                asked = [asked[n] for n in rng.permutation(len(asked))[: math.ceil(o.hidden * len(asked))]]
                prepared = _Prepared(graph.without({*asked}), prepared)
            torch.autograd.backward([share * _loss(network, prepared, graph, asked, mix, rng)])
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    network.eval()
    return network


def _loss(
    network: Network,
    prepared: _Prepared,
    graph: LinkGraph,
    asked: Sequence[tuple[int, int]],
    mix: float,
    rng: np.random.Generator,
) -> torch.Tensor:
    o = network.options
    h = network.encode(prepared)
    u, v = (torch.tensor(side, device=DEVICE) for side in zip(*asked, strict=True))
    weights = torch.tensor([graph.fed[pair] for pair in asked], dtype=torch.float32, device=DEVICE)
    drawn = torch.from_numpy(rng.integers(0, len(graph.keys), (len(u), o.negatives))).to(DEVICE)
    there = torch.tensor(
        [[(a, b) in graph.fed for a in some] for some, b in zip(drawn.tolist(), v.tolist(), strict=True)],
        device=DEVICE,
    )
    absent = (~there).float()
    positive, negative = network.logit(h, u, v), network.logit(h, drawn.reshape(-1), v.repeat_interleave(o.negatives))
    entropy = functional.binary_cross_entropy_with_logits
    soft = entropy(positive, weights) + entropy(negative, torch.zeros_like(negative), absent.reshape(-1))  # Eq. 6
    if o.reversed_too:
        back = torch.tensor([(b, a) not in graph.fed for a, b in asked], dtype=torch.float32, device=DEVICE)
        soft = soft + entropy(network.logit(h, v, u), torch.zeros_like(positive), back)
    unit = functional.normalize(h, dim=-1)
    near, far = (unit[u] * unit[v]).sum(-1), (unit[drawn] * unit[v][:, None]).sum(-1)
    margin = o.margin * (1 + torch.sigmoid(weights))  # Eq. 7
    hinge = (functional.relu(margin[:, None] - near[:, None] + far) * absent).mean()  # Eq. 8
    return mix * soft + (1 - mix) * hinge  # Eq. 10


class Predictions:
    """The chances that a network gives the edges of one graph."""

    def __init__(self, network: Network, graph: LinkGraph) -> None:
        self._network, self._rows = network, {key: row for row, key in enumerate(graph.keys)}
        with torch.no_grad():
            self._h = network.encode(_Prepared(graph))

    def into(self, consumer: str) -> NDArray[np.float32]:
        """The probability that each tool feeds one, in their order."""
        with torch.no_grad():
            count = len(self._rows)
            all_tools = torch.arange(count, device=DEVICE)
            there = torch.full((count,), self._rows[consumer], device=DEVICE)
            chances = torch.sigmoid(self._network.logit(self._h, all_tools, there))
        made: NDArray[np.float32] = chances.cpu().numpy()
        return made


def write_predictions(path: Path, edges: Mapping[Edge, float]) -> None:
    """Write predicted edges to a file that :func:`.link_model.read_predictions` reads without torch."""
    rows = [
        [provider, list(at), consumer, parameter, round(p, 4)]
        for (provider, at, consumer, parameter), p in edges.items()
    ]
    write_private(path, {"version": VERSION, "edges": rows})

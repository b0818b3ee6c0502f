"""The layer predictor of RETO (§3.2, Eq. 3 to 10): a small transformer over an encoder's vectors. It needs torch.

What it makes is read with NumPy (:mod:`atc.graph.layer_network`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atc.errors import EnvironmentProblem
from atc.extras import install_command
from atc.graph.layer_model import LAYERS
from atc.graph.layer_network import LayerNetwork
from atc.graph.link_features import Matrix

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    raise EnvironmentProblem(f"training needs torch: `{install_command('train')}`") from None


@dataclass(frozen=True)
class LayerExample:
    """The tools of one task.

    Attributes:
        query: the task's vector. ``tools``: those of the tools that it needs, then of others, a row each.
        layers: of the tools that it needs, in their order. What the others stand in is not known, and counts nothing.
    """

    query: Matrix
    tools: Matrix
    layers: Sequence[int]


@dataclass(frozen=True)
class Options:
    """The network and its training; what is not given is as in the paper.

    Attributes:
        size: d′. ``inner``: of the feed-forward part, which the paper leaves open.
        batch: tasks that are learnt from at once.
        others: of all batches those that the tools which a task does not need are part of.
        balance: λ_k is the share of tools at most at layer k over the share above it, to this power.
    """

    size: int = 256
    inner: int = 256
    layers: int = 2
    heads: int = 8
    dropout: float = 0.1
    epochs: int = 10
    rate: float = 1e-3
    batch: int = 32
    others: float = 0.6
    balance: float = 0.5


class Network(nn.Module):
    """Eq. 3 to 8."""

    def __init__(self, dimensions: int, options: Options) -> None:
        super().__init__()
        o = options
        self.query = nn.Sequential(nn.Linear(dimensions, o.size), nn.LayerNorm(o.size), nn.ReLU())  # Eq. 3
        self.tool = nn.Sequential(nn.Linear(dimensions, o.size), nn.LayerNorm(o.size), nn.ReLU())  # Eq. 4
        each = nn.TransformerEncoderLayer(o.size, o.heads, o.inner, o.dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(each, o.layers, enable_nested_tensor=False)  # Eq. 6
        self.weight = nn.Linear(o.size, 1, bias=False)
        self.bias = nn.Parameter(-torch.arange(LAYERS - 1, dtype=torch.float32))
        self.heads = o.heads

    def forward(self, query: torch.Tensor, tools: torch.Tensor, absent: torch.Tensor) -> torch.Tensor:
        """The logits of Eq. 8; ``absent`` marks the rows that only fill a batch."""
        h = torch.cat([self.query(query)[:, None], self.tool(tools)], 1)  # Eq. 5
        padding = torch.cat([torch.zeros(len(query), 1, dtype=torch.bool), absent], 1)
        h = self.encoder(h, src_key_padding_mask=padding)
        made: torch.Tensor = self.weight(h[:, 1:]) + self.bias
        return made

    def exported(self, made: str = "") -> LayerNetwork:
        """The weights as NumPy reads them."""
        arrays = {name: value.detach().numpy().astype(np.float32) for name, value in self.state_dict().items()}
        return LayerNetwork(arrays, self.heads, made)


def train(examples: Sequence[LayerExample], options: Options | None = None, seed: int = 0) -> Network:
    """Train a network by Eq. 10, on one thread.

    Raises:
        ValueError: there is no example.
    """
    if not examples:
        raise ValueError("no layers to learn from")
    o = options or Options()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    network = Network(examples[0].tools.shape[1], o)
    optimiser = torch.optim.AdamW(network.parameters(), lr=o.rate, weight_decay=0.0)
    weights = torch.tensor(_balance(examples, o.balance), dtype=torch.float32)
    for epoch in range(o.epochs):
        for group in optimiser.param_groups:
            group["lr"] = o.rate * (1 - epoch / o.epochs)
        order = rng.sample(examples, len(examples))
        for at in range(0, len(order), o.batch):
            loss = _loss(network, order[at : at + o.batch], weights, others=rng.random() < o.others)
            optimiser.zero_grad()
            torch.autograd.backward([loss])
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
    network.eval()
    return network


def _balance(examples: Sequence[LayerExample], power: float) -> list[float]:
    """λ_k of Eq. 10: what a tool above layer k counts beside one that is not."""
    layers = np.array([layer for each in examples for layer in each.layers])
    return [float(min(20.0, (layers <= k).sum() / max(1, (layers > k).sum())) ** power) for k in range(LAYERS - 1)]


def _loss(network: Network, some: Sequence[LayerExample], weights: torch.Tensor, *, others: bool) -> torch.Tensor:
    """Eq. 10, the mean of the tasks."""
    counts = [len(each.tools) if others else len(each.layers) for each in some]
    tools = np.zeros((len(some), max(counts), some[0].tools.shape[1]), np.float32)
    layers = np.full((len(some), max(counts)), -1)
    absent = np.ones((len(some), max(counts)), bool)
    for row, (each, count) in enumerate(zip(some, counts, strict=True)):
        tools[row, :count], absent[row, :count] = each.tools[:count], False
        layers[row, : len(each.layers)] = np.minimum(each.layers, LAYERS - 1)
    query = torch.from_numpy(np.stack([each.query for each in some]))
    logits = network(query, torch.from_numpy(tools), torch.from_numpy(absent))
    right = torch.from_numpy(layers)
    above = (right[..., None] > torch.arange(LAYERS - 1)).float()
    each_loss = functional.binary_cross_entropy_with_logits(logits, above, reduction="none", pos_weight=weights)
    known = (right >= 0).float()
    loss: torch.Tensor = ((each_loss.sum(-1) * known).sum(1) / known.sum(1)).mean()
    return loss

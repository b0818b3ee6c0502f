"""Training the network behind codes (ToolWeaver Eq. 4 to 9, App. A.3 and B.6), from where it stopped if it stopped.

All random choices of an epoch follow from the seed and its number, so that a training that was cut short and goes on
gives what it would have given.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from atc import EnvironmentProblem
from atc.plugins.learning import Floats
from atc_research.extras import TRAIN
from atc_research.toolweaver.clustering import k_means, nearest
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.code_network import Network
from atc_research.toolweaver.smoothing import similarity

try:
    import torch
except ImportError:
    raise EnvironmentProblem(f"training needs torch: {TRAIN}") from None

Told = Callable[[int, int, float], None]
"""Called with the epochs that are done, those in all, and the mean loss of the last."""


@dataclass(frozen=True)
class Options:
    """The network and its training. What differs from the paper says why.

    Attributes:
        inner: hidden layers of the encoder, (1024, 512, 256, 128) in App. A.3. Without any the encoder is the linear
            projection of §3.2, which is as good here and ten times quicker
            (``python -m atc_research_benchmarks.codes``).
        size: dimensions of the codebooks, D′.
        beta: of the commitment (Eq. 4).
        smoothing: λ of Eq. 7; both sums of the loss are means over the tools, as in the closed form.
        rate: of AdamW. The paper's 1e-5 is for many more steps than a processor makes: with it nothing has moved here.
        batch: tools of a step; the paper's 5,096 leaves a catalogue of 1,400 one step an epoch.
        epochs: in all. ``warm_up``: of them the first ones, without codes, while the rate rises; then k-means starts
            the codebooks on a space that says something.
        rounds_start: of k-means at most.
        rounds: of Sinkhorn in each step. ``epsilon``: of its entropy.
    """

    inner: tuple[int, ...] = ()
    size: int = 64
    beta: float = 0.25
    smoothing: float = 1.0
    rate: float = 3e-3
    batch: int = 256
    epochs: int = 60
    warm_up: int = 10
    rounds_start: int = 100
    rounds: int = 50
    epsilon: float = 0.01

    def for_epochs(self, epochs: int) -> Options:
        """The same for another number of epochs, a sixth of them warming up."""
        return replace(self, epochs=epochs, warm_up=epochs // 6)


def train(
    vectors: Floats,
    co_usage: CoUsage | None,
    books: tuple[int, ...],
    options: Options,
    seed: int = 0,
    *,
    kept: Path | None = None,
    told: Told | None = None,
) -> Network:
    """Train a network on the tools of a catalogue, on one thread.

    Args:
        vectors: of the tools, of shape ``(tools, dimensions)``.
        co_usage: what was used together; without it the collaborative loss is 0.
        books: codes of each level.
        kept: a file for what an interrupted training goes on from; it is written after each epoch.

    Raises:
        OSError: the file cannot be written.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = Network(vectors.shape[1], options.inner, options.size, books)
    optimiser = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=0.0)
    pairs, weights = _pairs(co_usage)
    given = torch.from_numpy(np.ascontiguousarray(vectors, np.float32))
    name = _name(vectors, pairs, weights, books, options, seed)
    if not len(given):
        return network
    network.start(given)
    done = _read(kept, name, network, optimiser) if kept else 0
    for epoch in range(done, options.epochs):
        if epoch == options.warm_up:
            _start_books(network, given, options.rounds_start, seed)
        optimiser.param_groups[0]["lr"] = options.rate * _share(epoch, options)
        loss = _epoch(network, optimiser, given, pairs, weights, options, epoch, seed)
        if kept:
            _write(kept, name, network, optimiser, epoch + 1)
        if told:
            told(epoch + 1, options.epochs, loss)
    return network


def _epoch(
    network: Network,
    optimiser: torch.optim.Optimizer,
    given: torch.Tensor,
    pairs: torch.Tensor,
    weights: torch.Tensor,
    options: Options,
    epoch: int,
    seed: int,
) -> float:
    """One pass over all tools and all pairs; a step has its share of both. Returns the mean loss."""
    draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order, pair_order = torch.randperm(len(given), generator=draw), torch.randperm(len(pairs), generator=draw)
    steps = -(-len(given) // options.batch)
    sum_ = 0.0
    for some, some_pairs in zip(order.tensor_split(steps), pair_order.tensor_split(steps), strict=True):
        ends, places = torch.unique(pairs[some_pairs], return_inverse=True)
        z = network.encoded(given[torch.cat([some, ends])])
        if epoch < options.warm_up:
            through, loss = z, torch.zeros(len(z))
        else:
            _, total, loss = network.quantised(z, options.beta, options.rounds, options.epsilon)
            through = total + (z - z.detach())  # straight through: the gradient at ẑ is also that at z
        back = network.decoded(z + (through - z).detach() if epoch >= options.warm_up else z)[: len(some)]
        whole = ((back - given[some]).square().sum(1) + loss[: len(some)]).mean()
        if len(some_pairs):
            apart = through[len(some) :][places]
            together = weights[some_pairs] * (apart[:, 0] - apart[:, 1]).square().sum(1)
            whole = whole + options.smoothing * together.sum() / len(some)  # Eq. 6 and 7
        optimiser.zero_grad()
        torch.autograd.backward([whole])
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        sum_ += float(whole.detach()) * len(some)
    return sum_ / len(given)


def _share(epoch: int, options: Options) -> float:
    """Of the rate: it rises while the network warms up, and falls to a tenth by a cosine."""
    if epoch < options.warm_up:
        return (epoch + 1) / options.warm_up
    left = (epoch - options.warm_up) / max(1, options.epochs - options.warm_up)
    return 0.1 + 0.45 * (1 + float(np.cos(np.pi * left)))


def _start_books(network: Network, given: torch.Tensor, rounds: int, seed: int) -> None:
    """Residual k-means over the encoder's output: a start for the codebooks of each level."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        left = network.encoded(given).numpy().copy()
        for book in network.books:
            centres = k_means(left, len(book), random, rounds)
            left -= centres[nearest(left, centres)[0]]
            book.copy_(torch.from_numpy(centres))


def _pairs(co_usage: CoUsage | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs and A_uv (Eq. 5); what is no number counts as nothing."""
    if co_usage is None or not len(co_usage.pairs):
        return torch.zeros((0, 2), dtype=torch.int64), torch.zeros(0)
    similar = np.nan_to_num(similarity(co_usage), nan=0.0, posinf=1.0, neginf=0.0)
    return torch.from_numpy(co_usage.pairs.astype(np.int64)), torch.from_numpy(similar.astype(np.float32))


# What an interrupted training goes on from


def _name(
    vectors: Floats, pairs: torch.Tensor, weights: torch.Tensor, books: tuple[int, ...], options: Options, seed: int
) -> str:
    found = hashlib.sha256(json.dumps([asdict(options), books, seed, torch.__version__, list(vectors.shape)]).encode())
    for array in (np.ascontiguousarray(vectors), pairs.numpy(), weights.numpy()):
        found.update(array.tobytes())
    return found.hexdigest()


def _read(kept: Path, name: str, network: Network, optimiser: torch.optim.Optimizer) -> int:
    """Epochs that are done; 0 where there is no file, or it is of another training or damaged."""
    try:
        state: dict[str, Any] = torch.load(kept, weights_only=True)  # tensors alone: nothing in it is run
        if state["name"] != name:
            return 0
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        return int(state["epochs"])
    except FileNotFoundError:
        return 0
    except Exception:  # whatever torch finds wrong with it, the training can begin anew
        return 0


def _write(kept: Path, name: str, network: Network, optimiser: torch.optim.Optimizer, epochs: int) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    scratch = kept.with_suffix(".part")
    state = {"name": name, "network": network.state_dict(), "optimiser": optimiser.state_dict(), "epochs": epochs}
    torch.save(state, scratch)
    os.replace(scratch, kept)

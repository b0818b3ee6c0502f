"""The network behind trained codes (ToolWeaver §3.2, App. A.3): encoder, codebooks, decoder. It needs torch.

Eq. 4 compares what the codebooks give with the encoder's own output, which a network meets by giving zeros for all. A
decoder gives the *input* vector back here, as App. B.6 has one; and the encoder's output is of length one, for else a
network makes the collaborative loss small by making every vector small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from atc import EnvironmentProblem
from atc.plugins.learning import Floats
from atc_research.extras import TRAIN
from atc_research.toolweaver.tool_codes import BIAS, WEIGHT

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    raise EnvironmentProblem(f"training needs torch: {TRAIN}") from None


class Mapped(nn.Module):
    """A linear map, and beside it layers whose sum with it is given; they begin by adding nothing.

    Args:
        sizes: of the input, the hidden layers and the output; without hidden layers the linear map is all.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.straight = nn.Linear(sizes[0], sizes[-1])
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes)) if len(sizes) > 2 else None
        if self.layers is not None:
            nn.init.zeros_(self.layers[-1].weight)
            nn.init.zeros_(self.layers[-1].bias)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Of shape ``(rows, size of the output)``."""
        made: torch.Tensor = self.straight(given)
        if self.layers is not None:
            found = given
            for layer in self.layers[:-1]:
                found = functional.relu(layer(found))
            made = made + self.layers[-1](found)
        return made


class Network(nn.Module):
    """Encoder, codebooks and decoder.

    Args:
        dimensions: of the vectors.
        inner: sizes of the encoder's hidden layers; the decoder has them the other way round.
        size: of the space of the codebooks, D′.
        books: codes of each level.
    """

    def __init__(self, dimensions: int, inner: Sequence[int], size: int, books: Sequence[int]) -> None:
        super().__init__()
        self.encoder = Mapped([dimensions, *inner, size])
        self.decoder = Mapped([size, *reversed(inner), dimensions])
        self.books = nn.ParameterList(nn.Parameter(torch.zeros(codes, size)) for codes in books)

    def start(self, vectors: torch.Tensor) -> None:
        """Begin with the main directions of the vectors, of shape ``(tools, dimensions)``.

        From random weights a network of these sizes needs hundreds of passes over a thousand tools until it gives back
        as much of a vector as these do at once.
        """
        values, directions = torch.linalg.eigh((vectors.T @ vectors).double())
        main = directions[:, values.argsort(descending=True)[: len(self.books[0][0])]].float()
        signs = main.gather(0, main.abs().argmax(0, keepdim=True)).sign()  # a direction's sign is the library's whim
        main = main * torch.where(signs == 0, 1.0, signs)
        lengths = (vectors @ main).norm(dim=1)
        with torch.no_grad():
            for linear in (self.encoder.straight, self.decoder.straight):
                linear.weight.zero_()
                linear.bias.zero_()
            self.encoder.straight.weight[: main.shape[1]] = main.T
            self.decoder.straight.weight[:, : main.shape[1]] = main * lengths.mean()

    def encoded(self, vectors: torch.Tensor) -> torch.Tensor:
        """z_d, of length one, of shape ``(tools, size)``."""
        made: torch.Tensor = functional.normalize(self.encoder(vectors), eps=1e-6)
        return made

    def quantised(
        self, z: torch.Tensor, beta: float, rounds: int, epsilon: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Residual quantisation (Eq. 2 to 4), the last level spread evenly over the batch (Eq. 8 and 9).

        Args:
            z: what :meth:`encoded` gave.
            beta: the commitment's weight.
            rounds: of Sinkhorn; 0 takes the nearest code at the last level too.
            epsilon: the entropy's weight there.

        Returns:
            The codes, of shape ``(tools, levels)``; ẑ_d, of shape ``(tools, size)``, whose gradient goes to the
            codebooks; and the quantisation loss of each tool.
        """
        rest, total, taken = z, torch.zeros_like(z), []
        loss = torch.zeros(len(z))
        for level, book in enumerate(self.books):
            with torch.no_grad():
                distances = squared(rest, book)
                last = level == len(self.books) - 1
                code = evenly(distances, rounds, epsilon) if last and rounds else distances.argmin(1)
            vector = book[code]
            loss = loss + (rest.detach() - vector).square().sum(1) + beta * (rest - vector.detach()).square().sum(1)
            rest, total = rest - vector.detach(), total + vector
            taken.append(code)
        return torch.stack(taken, 1), total, loss

    def decoded(self, z: torch.Tensor) -> torch.Tensor:
        """The input vectors again, of shape ``(tools, dimensions)``."""
        made: torch.Tensor = self.decoder(z)
        return made

    def given_back(self, z: Floats) -> Floats:
        """As :meth:`decoded`, for NumPy."""
        made: Floats = self.decoded(torch.from_numpy(z)).detach().numpy()
        return made

    def exported(self) -> dict[str, Floats]:
        """The encoder's weights by the names under which :func:`~.tool_codes.into_space` reads them."""
        linear = [self.encoder.straight, *(self.encoder.layers or ())]
        arrays = {f"{WEIGHT}{n}": layer.weight for n, layer in enumerate(linear)}
        arrays |= {f"{BIAS}{n}": layer.bias for n, layer in enumerate(linear)}
        return {name: value.detach().numpy().astype(np.float32) for name, value in arrays.items()}


def squared(vectors: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    """Squared distances, of shape ``(vectors, codes)``."""
    made: torch.Tensor = vectors.square().sum(1, keepdim=True) - 2 * vectors @ book.T + book.square().sum(1)
    return made.clamp_min(0)


def evenly(distances: torch.Tensor, rounds: int, epsilon: float) -> torch.Tensor:
    """Sinkhorn-Knopp: a code for each row, so that each code has about as many rows (Eq. 8 and 9).

    The potentials are kept in the log domain, so that nothing over- or underflows. They are put into the kernel every
    few rounds, and scalings are multiplied in between, which is some ten times quicker than logarithms of sums. That is
    why each step of a training has this form, and :mod:`.transport`, which makes codes once, has not.

    Args:
        distances: of shape ``(rows, codes)``.
        rounds: over rows and codes.
        epsilon: the entropy's weight, in distances that were brought to the range from -1 to 1.

    Returns:
        The likeliest code of each row.
    """
    low, high = distances.min(), distances.max()
    cost = (2 * (distances - low) / (high - low).clamp_min(1e-12) - 1).double() / epsilon
    rows, codes = cost.shape
    by_row = cost.min(1).values
    by_code = torch.zeros(codes, dtype=torch.float64)
    log_rows, log_codes = math.log(1 / rows), math.log(1 / codes)
    for at in range(0, rounds, _ABSORB):
        kernel = torch.exp(by_row[:, None] + by_code - cost)
        u, v = torch.ones(rows, dtype=torch.float64), torch.ones(codes, dtype=torch.float64)
        for _ in range(min(_ABSORB, rounds - at)):
            v = math.exp(log_codes) / (kernel.T @ u).clamp_min(_LEAST)
            u = math.exp(log_rows) / (kernel @ v).clamp_min(_LEAST)
        by_row, by_code = by_row + u.log(), by_code + v.log()
    return (by_code - cost).argmax(1)


_ABSORB, _LEAST = 5, 1e-250
"""Rounds between two kernels; what a sum counts as at least."""

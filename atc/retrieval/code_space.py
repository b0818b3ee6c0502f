"""Vectors in the space of a catalogue's codebooks, so that tools which come later are given codes too."""

from __future__ import annotations

import numpy as np

from atc.retrieval.codes import Codes
from atc.retrieval.vectors import Floats

WEIGHT, BIAS = "encoder-weight-", "encoder-bias-"
"""How the names of a trained encoder's arrays begin; the number of the layer follows."""


def into_space(codes: Codes, vectors: Floats) -> Floats:
    """Take vectors into the space of the codebooks.

    The closed form quantises the vectors themselves. Trained codes have an encoder (ToolWeaver App. A.3): a linear
    map, beside it layers with the positive part taken between them; the sum is divided by its length.

    Args:
        codes: whose ``arrays`` hold the encoder, if there is one.
        vectors: of tools, of shape ``(tools, dimensions)``.

    Returns:
        Vectors of shape ``(tools, dimensions of a codebook)``.

    Raises:
        ValueError: the encoder takes vectors of other dimensions.
    """
    found = np.asarray(vectors, np.float32)
    linear = [
        (np.asarray(codes.arrays[f"{WEIGHT}{layer}"]), np.asarray(codes.arrays[f"{BIAS}{layer}"]))
        for layer in range(sum(name.startswith(WEIGHT) for name in codes.arrays))
    ]
    if not linear:
        return found
    (weight, bias), *inner = linear
    made = found @ weight.T + bias
    for weight, bias in inner[:-1]:
        found = np.maximum(found @ weight.T + bias, 0)
    for weight, bias in inner[-1:]:
        made = made + found @ weight.T + bias
    return lengths_one(made)


def lengths_one(vectors: Floats) -> Floats:
    """Vectors of length one; those of length zero stay."""
    lengths = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
    made: Floats = vectors / np.maximum(lengths, 1e-6)
    return made

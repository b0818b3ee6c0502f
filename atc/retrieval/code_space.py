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
        ValueError: the encoder takes vectors of other dimensions, or a layer of it is missing.
    """
    found = np.asarray(vectors, np.float32)
    linear = _layers(codes)
    if not linear:
        return found
    (weight, bias), *inner = linear
    made = found @ weight.T + bias
    for weight, bias in inner[:-1]:
        found = np.maximum(found @ weight.T + bias, 0)
    for weight, bias in inner[-1:]:
        made = made + found @ weight.T + bias
    return lengths_one(made)


def dimensions_of(codes: Codes, dimensions: int) -> int:
    """The components that :func:`into_space` makes of vectors.

    Args:
        dimensions: of the vectors.

    Raises:
        ValueError: the encoder's layers do not fit the vectors, or each other.
    """
    layers = _layers(codes)
    if not layers:
        return dimensions
    (straight, _), *inner = layers
    width = dimensions
    for place, (weight, bias) in enumerate(layers):
        if place == 1:
            width = dimensions  # the other layers begin at the vectors too
        if weight.ndim != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
            raise ValueError(f"layer {place} of the encoder has no shape that fits")
        width = len(weight)
    if inner and width != len(straight):
        raise ValueError("the encoder's layers have no sum")
    return width


def _layers(codes: Codes) -> list[tuple[Floats, Floats]]:
    """The weights and the offsets of each layer: the linear map, then those beside it."""
    count = sum(name.startswith(WEIGHT) for name in codes.arrays)
    wanted = [(f"{WEIGHT}{layer}", f"{BIAS}{layer}") for layer in range(count)]
    missing = next((name for pair in wanted for name in pair if name not in codes.arrays), None)
    if missing is not None:
        raise ValueError(f"{missing} of the encoder is missing")
    return [(np.asarray(codes.arrays[weight]), np.asarray(codes.arrays[bias])) for weight, bias in wanted]


def lengths_one(vectors: Floats) -> Floats:
    """Vectors of length one; those of length zero stay."""
    lengths = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
    made: Floats = vectors / np.maximum(lengths, 1e-6)
    return made

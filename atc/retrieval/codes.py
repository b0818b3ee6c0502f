"""Codes of tools: a short sequence of numbers for each, near for near tools, different for all (ToolWeaver §3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.vectors import Floats

CODES_VERSION = 1
"""Changes with what the arrays of a column of codes mean; codes of another version are left out."""


@dataclass(frozen=True)
class CodesFacts:
    """How codes were made; the manifest of an index holds it.

    Attributes:
        method: ``closed-form``, ``trained``, or a baseline of the benchmark.
        seed: of all random choices.
        smoothing: λ of ToolWeaver's Eq. 7, or of the closed form.
        encoder: the digest of the encoder of the vectors.
    """

    method: str
    seed: int = 0
    smoothing: float = 1.0
    encoder: str = ""
    version: int = CODES_VERSION


@dataclass(frozen=True)
class Codes:
    """The codes of the documents of an index, no two of them the same.

    Attributes:
        values: a row of codes for each document, of shape ``(documents, levels)``.
        books: the vector of each code, a codebook a level, each of shape ``(codes, dimensions)``.
        facts: how they were made.
        arrays: what else the method keeps, by name: the weights that take a vector into the space of the codebooks, or
            those of a head that says codes.
    """

    values: NDArray[np.int16]
    books: tuple[Floats, ...]
    facts: CodesFacts
    arrays: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def levels(self) -> int:
        """Codes of one tool."""
        return len(self.books)

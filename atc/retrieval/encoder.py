"""The interface that turns texts into vectors; any class with these members fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Encoder(Interface):
    """Texts in, vectors of length one out."""

    @property
    def name(self) -> str:
        """The encoder's name in messages."""
        ...

    @property
    def digest(self) -> str:
        """Hexadecimal; differs between encoders whose vectors do not compare. Made of the model's files or its name."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...

    def check(self) -> None:
        """Check that it can be used.

        Raises:
            EncoderUnavailable: it cannot; the message says how to get it.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts.

        Returns:
            An array of shape ``(len(texts), dimensions)``; each row has length one.

        Raises:
            EncoderUnavailable: it cannot be used.
            ModelError: it failed in the middle of work.
        """
        ...


def normalised(vectors: Floats) -> Floats:
    """Vectors of shape ``(n, dimensions)`` scaled to length one; one without a direction stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return scaled


def readable(text: str) -> str:
    """A text that every tokeniser takes: half a surrogate pair and control characters are none."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else " " for c in whole) or " "

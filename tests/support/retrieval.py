"""An encoder for tests: the words of a text, each thrown into one of 512 components. Deterministic, and it counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.vectors import normalised
from atc.catalogue.index.words import STOP_WORDS, words
from atc.errors import EncoderUnavailable
from atc.schemas.protocol import Protocol

SAME = {"automobile": "car", "forecast": "weather"}
"""Words that mean the same to the encoder."""


class HashedWords:
    """An :class:`~atc.catalogue.index.vectors.Encoder`, whose digest is made of its name."""

    dimensions = 512

    def __init__(self, name: str = "hashed") -> None:
        self.name = name
        self.digest = hashlib.sha256(name.encode()).hexdigest()
        self.encoded: list[str] = []
        self.missing = False

    def check(self) -> None:
        if self.missing:
            raise EncoderUnavailable("the encoder of this test is missing: bring it")

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.check()
        self.encoded += texts
        return normalised(np.array([list(self._row(text)) for text in texts], np.float32))

    def _row(self, text: str) -> Iterator[float]:
        row = [0.001] * self.dimensions
        for word in set(words(text)) - STOP_WORDS:
            word = SAME.get(word, word)
            row[int.from_bytes(hashlib.sha256(word.encode()).digest()[:2]) % self.dimensions] += 1.0
        return iter(row)


def protocol(name: str, description: str = "", *parameters: str, returns: Sequence[str] = ()) -> Protocol:
    """A protocol with parameters and response fields of these names."""
    return Protocol(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {p: {"type": "string"} for p in parameters}},
        returns={"type": "object", "properties": {f: {} for f in returns}} if returns else None,
    )


def some() -> list[Protocol]:
    """A small catalogue."""
    return [
        protocol("get_weather", "The weather at a place, by the hour.", "city", returns=["temperature", "wind"]),
        protocol("rentVehicle", "Book an automobile.", "pickUpPlace", "days"),
        protocol("list_invoices", "Bills that are open.", "customer_id", returns=["invoice_id", "amount"]),
        protocol("search_movies", "Films by title.", "title", "year", returns=["movie_id"]),
        protocol("undocumented"),
        protocol("dictionary", "Die Übersetzung eines Wortes.", "wort"),
    ]


def many(count: int) -> list[tuple[str, Any]]:
    return [(f"s/{n:04}", protocol(f"tool_{n}", f"Thing number {n}.")) for n in range(count)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def built(folder: Path) -> ToolIndex:
    return ToolIndex.build(some(), HashedWords(), folder)


async def no_model(*_: Any) -> Any:
    """Stand where a model is asked, in searches that ask none."""
    raise AssertionError("no model is asked")

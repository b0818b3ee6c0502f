"""The layers by which a strategy acts that goes layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

from atc.strategies.context import RunContext


def likely_layers(context: RunContext) -> Sequence[Sequence[str]]:
    """Return the layers of the tools that are offered, as the sketch has them."""
    return context.sketch.layers

"""Layers as an order: what feeds others is shown before what it feeds (RETO §3.2, as an order and not as walls).

The stubs of a prompt stand in the order of their layers, and a numbered line behind the task names the layers. The
model still writes one whole program over all tools, and is asked no more often.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from atc.sketch import Sketch

MAX_NAMES, MAX_CHARACTERS = 15, 600
"""Tools that the line names, and characters of their names together."""


@dataclass(frozen=True)
class LayerOrder:
    """The layers of a run's tools, as they were when the run began: what is found later stands behind them.

    Attributes:
        layers: names of tools, suppliers in earlier layers than what they supply.
        suppliers: tools that feed others of them.
    """

    layers: tuple[tuple[str, ...], ...] = ()
    suppliers: frozenset[str] = frozenset()

    @classmethod
    def of_sketch(cls, sketch: Sketch) -> LayerOrder:
        """The order that a sketch has found."""
        return cls(sketch.layers, frozenset(feed.supplier.tool for feed in sketch.feeds))

    def among(self, names: Collection[str]) -> list[list[str]]:
        """The layers of these tools alone, each in their own order; empty where all that are known stand in one."""
        place = {name: at for at, layer in enumerate(self.layers) for name in layer}
        found: dict[int, list[str]] = {at: [] for at in range(len(self.layers))}
        for name in names:
            if name in place:
                found[place[name]].append(name)
        left = [layer for layer in found.values() if layer]
        return left if len(left) > 1 else []

    def sorted(self, names: Sequence[str]) -> list[str]:
        """These tools by layer; what is in no layer stands last. Within a layer their own order stays."""
        layers = self.among(names)
        place = {name: at for at, layer in enumerate(layers) for name in layer}
        return sorted(names, key=lambda name: place.get(name, len(layers)))

    def line(self, ranked: Sequence[str], hidden: Collection[str] = (), *, chosen: bool) -> str:
        """The layers as ``1. find_cities  2. get_city, get_weather``; empty where there is nothing to tell.

        A tool of the first layer is only named if it feeds another, so that each name says something of the order.

        Args:
            ranked: the tools that are offered, the likeliest first where they were chosen.
            hidden: those of them that are not to be named. No other takes the place of one in the line.
            chosen: they were chosen for the task: of too many the likeliest are named, else none.
        """
        layers = self.among(ranked)
        if not layers:
            return ""
        layers[0] = [name for name in layers[0] if name in self.suppliers] or layers[0]
        ordered = {name for layer in layers for name in layer}
        if len(ordered) > MAX_NAMES and not chosen:
            return ""
        named, room = set[str](), MAX_CHARACTERS
        for name in [name for name in ranked if name in ordered][:MAX_NAMES]:
            if len(name) <= room:
                named.add(name)
                room -= len(name)
        shown = [[name for name in layer if name in named and name not in hidden] for layer in layers]
        shown = [layer for layer in shown if layer]
        if len(shown) < 2:
            return ""
        return "  ".join(f"{number}. {', '.join(layer)}" for number, layer in enumerate(shown, 1))


NO_ORDER = LayerOrder()
"""Nothing is known of an order."""

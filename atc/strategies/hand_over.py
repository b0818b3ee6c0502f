"""When the chain goes over to layer by layer: after two whole programs failed, or before the first one.

Both are rules, ``layered-after-two`` and ``layered-undocumented``. Without a known order of the tools neither applies:
there would be one layer, and nothing gained.
"""

from __future__ import annotations

from atc.fired_rules import fired
from atc.strategies.context import RunContext
from atc.strategies.layers import Layers
from atc.strategies.program_loop import ProgramLoop
from atc.tools.observed import says_nothing
from atc.tools.parameters import parameters_of

AFTER_TWO, UNDOCUMENTED = "layered-after-two", "layered-undocumented"
FAILED = 2
"""Whole programs that ran and failed."""


def fails_as_a_whole(loop: ProgramLoop) -> bool:
    """Whether enough whole programs ran and failed. One that met a broken tool which is routed round does not count.

    Never after a look: what a write may rest on then is known to this loop alone.
    """
    context = loop.context
    if loop.requests.looks or AFTER_TWO not in context.settings.active_rules or loop.ways.revision == "edit":
        return False
    failed = sum(each.fault is not None and not each.fault.substitutes for each in loop.history)
    over = failed >= FAILED and len(Layers.of(context).tools) > 1
    fired(AFTER_TWO, over)
    return over


def must_be_seen(context: RunContext) -> bool:
    """Whether a required argument comes from a response that no document describes, nor an earlier run showed.

    It must be known which tool feeds which, by more than a prediction, and the two must stand in different layers.
    """
    if UNDOCUMENTED not in context.settings.active_rules:
        return False
    layers = Layers.of(context).tools
    place = {name: number for number, layer in enumerate(layers) for name in layer}
    for feed in context.sketch.feeds:
        supplier, consumer = feed.supplier.tool, feed.consumer
        if not {supplier, consumer} <= place.keys() or place[supplier] >= place[consumer]:
            continue
        if feed.evidence == "predicted":
            continue
        shown = context.graph.protocols_with_shapes[supplier].returns
        wanted = (each for each in parameters_of(context.tools[consumer].protocol) if each.required)
        if says_nothing(shown) and any(each.original == feed.parameter for each in wanted):
            fired(UNDOCUMENTED)
            return True
    return False

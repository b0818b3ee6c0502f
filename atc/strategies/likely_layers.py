"""The layers by which a strategy acts that goes layer by layer, with what is likely for the task."""

from __future__ import annotations

from collections.abc import Sequence

from atc.fired_rules import fired
from atc.strategies.context import RunContext

RULE = "predicted-layers"


def likely_layers(context: RunContext) -> Sequence[Sequence[str]]:
    """The layers of the tools that are offered: as the sketch has them, or as is likely where it knows of no order.

    Where all tools are offered a sketch predicts nothing: a prompt that shows all of them depends on no task. Here each
    prompt shows a part. Where documents or runs order some tools, a prediction would part those that can go together,
    and each layer costs a model call.
    """
    sketch = context.sketch
    if (
        len(sketch.layers) != 1
        or RULE not in context.settings.active_rules
        or sketch.tools.keys() > context.tools.keys()
    ):
        return sketch.layers
    from atc.graph.layer_model import predicted_layers  # NumPy is loaded for no other strategy

    graph = context.graph_of(sketch.tools)
    layers = graph.layers([*sketch.tools], predicted_layers(graph.protocols_with_shapes, context.task))
    fired(RULE, len(layers) > 1)
    return layers

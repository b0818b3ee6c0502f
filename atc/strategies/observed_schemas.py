"""What tools without a documented response have answered in this run, as their response for the programs to come.

It serves to repair a program, where the shape leaves one way (:mod:`atc.programs.repair.schema`), and no more: one
answer shows what is there, not what else may be, so nothing is refused by it and nothing is told as documented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atc.result import Call
from atc.schemas.infer.shape import Shape
from atc.tools.observed import says_nothing
from atc.tools.protocol import Protocol


def with_observed_responses(protocols: Mapping[str, Protocol], calls: Sequence[Call]) -> dict[str, Protocol]:
    """The protocols, those that say nothing of their response with the shape of what they answered (ATC §4.1).

    Args:
        protocols: by tool name.
        calls: the calls of the run so far; those that failed show nothing.
    """
    shapes: dict[str, Shape] = {}
    for call in calls:
        protocol = protocols.get(call.tool)
        if call.succeeded and protocol is not None and says_nothing(protocol.returns):
            shapes.setdefault(call.tool, Shape()).add(call.value)
    seen = {name: protocols[name].model_copy(update={"returns": shape.schema()}) for name, shape in shapes.items()}
    return {**protocols, **seen}

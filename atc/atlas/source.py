"""The tool source ``atlas``: the bundled tools as they are, or on a bad day."""

from __future__ import annotations

from atc.atlas.broken import broken_atlas
from atc.atlas.catalogue import atlas_toolset
from atc.tools.tool import Toolset


def open_atlas(argument: str) -> Toolset:
    """Return the bundled tools, as :mod:`atc.parts` names their source.

    Args:
        argument: ``broken`` for :func:`atc.atlas.broken.broken_atlas`; else empty.
    """
    return broken_atlas() if argument == "broken" else atlas_toolset()

"""Atlas: a bundled catalogue of real, offline, deterministic tools about places, times and trips.

It needs the extra ``atlas`` (``pip install -e '.[atlas]'``). Start at :func:`atlas_toolset`.
"""

from __future__ import annotations

from atc.atlas.catalogue import Atlas, atlas_toolset
from atc.atlas.trips import TripStore

__all__ = ["Atlas", "TripStore", "atlas_toolset"]

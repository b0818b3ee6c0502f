"""Near-duplicates of reads: what another service offers in their place, with other names for the same things."""

from __future__ import annotations

from dataclasses import dataclass

from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool


@dataclass(frozen=True)
class Twin:
    """A near-duplicate of a tool.

    Attributes:
        name: of the twin, in the catalogue.
        adapter: Python text that defines ``_<original>(**arguments)``, which answers as the original does, by a call of
            the twin.
        protocol: what is read of the twin.
    """

    name: str
    adapter: str
    protocol: Protocol

    def tool(self, original: Tool) -> Tool:
        """Make the twin of an original: it works on what the original works on."""
        raise NotImplementedError


def twin_of(protocol: Protocol) -> Twin | None:
    """Make the near-duplicate of a read; ``None`` where its document does not say what it answers with."""
    raise NotImplementedError

"""What may repair the arguments of a call where no rule can (RETO §3.4, Alg. 1, tier 2). The broker has no model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from atc.tools.protocol import Protocol


@dataclass(frozen=True)
class Complaint:
    """A call that was refused for its arguments.

    Attributes:
        protocol: of the tool.
        arguments: as they were refused, after the repairs by rule; of the gate with what those dropped.
        reason: why, one line for each thing that is wrong.
        by: who refused: the schema gate, before anything was sent, or the service.
    """

    protocol: Protocol
    arguments: Mapping[str, Any]
    reason: str
    by: str


Repairer = Callable[[Complaint], Awaitable[Mapping[str, Any] | None]]
"""Gives other arguments for the same tool, or ``None``. What it gives passes the schema gate as any arguments do."""

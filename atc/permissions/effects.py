"""What a tool is taken for: a read, a write, or nobody knows. A server's hint is a stranger's word."""

from __future__ import annotations

from collections.abc import Sequence

from atc.permissions.patterns import Patterns
from atc.result import Effect
from atc.tools.protocol import Protocol
from atc.tools.telltales import telltale

_GRAVITY = {Effect.READ: 0, Effect.UNKNOWN: 1, Effect.WRITE: 2}


def effect_of(protocol: Protocol, said: Sequence[tuple[Patterns, Effect]] = ()) -> Effect:
    """The effect of a tool.

    The user's own word counts first, the gravest of all that fit. Else the protocol's; but a tool of an MCP server that
    says it reads, and has a verb of effects in its name, is of unknown effect, as it is for probing.

    Args:
        protocol: of the tool.
        said: by the user, for patterns of names.
    """
    fitting = [effect for patterns, effect in said if _says(patterns, effect, protocol)]
    if fitting:
        return max(fitting, key=_GRAVITY.__getitem__)
    if protocol.effect is not Effect.READ or protocol.source.kind != "mcp":
        return protocol.effect
    doubted = telltale(protocol.source.operation) or telltale(protocol.name)
    return Effect.UNKNOWN if doubted else Effect.READ


def _says(patterns: Patterns, effect: Effect, protocol: Protocol) -> bool:
    """A word that makes a tool a read counts for the name that programs use alone (:class:`.facts.Grant`)."""
    if effect is Effect.READ:
        return patterns.fit(protocol.name)
    return patterns.may_fit(protocol.name) or patterns.may_fit(protocol.source.operation)

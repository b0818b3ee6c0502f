"""What a tool is taken for: a read, a write, or nobody knows. A server's hint is a stranger's word."""

from __future__ import annotations

from collections.abc import Sequence

from atc.permissions.patterns import Patterns
from atc.result import Effect
from atc.tools.protocol import Protocol
from atc.tools.telltales import disguised_telltale

_GRAVITY = {Effect.READ: 0, Effect.UNKNOWN: 1, Effect.WRITE: 2}


def effect_of(protocol: Protocol, said: Sequence[tuple[Patterns, Effect]] = ()) -> Effect:
    """The effect of a tool.

    The user's own word counts first, the gravest of all that fit. Else the protocol's; but a tool of an MCP server that
    says it reads, and has a verb of effects in its name, however it is written, is of unknown effect, as for probing.

    Args:
        protocol: of the tool.
        said: by the user, for patterns of names.
    """
    fitting = [effect for patterns, effect in said if _says(patterns, effect, protocol)]
    if fitting:
        return max(fitting, key=_GRAVITY.__getitem__)
    if protocol.effect is not Effect.READ or protocol.source.kind != "mcp":
        return protocol.effect
    doubted = disguised_telltale(protocol.source.operation) or disguised_telltale(protocol.name)
    return Effect.UNKNOWN if doubted else Effect.READ


def _says(patterns: Patterns, effect: Effect, protocol: Protocol) -> bool:
    """A word that makes a tool a read is as strict as a rule that allows (:class:`.facts.Grant`)."""
    return surely_names(patterns, protocol) if effect is Effect.READ else may_name(patterns, protocol)


def surely_names(patterns: Patterns, protocol: Protocol) -> bool:
    """Whether patterns name a tool, for a rule that widens: by the name that programs use, or letter by letter in full.

    A wildcard does not count for the full name: ``get_*`` is no word about all tools of a module ``get_data``.
    """
    return patterns.fit(protocol.name) or protocol.full_name in patterns.texts


def may_name(patterns: Patterns, protocol: Protocol) -> bool:
    """Whether patterns may name a tool, for a rule that restricts: by any name that it has here or at its source."""
    names = {protocol.name, protocol.plain_name, protocol.source.operation}
    return any(map(patterns.may_fit, names)) or protocol.full_name in patterns.texts

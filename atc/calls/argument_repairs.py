"""The schema gate of one run: arguments are held to their schema, and repaired by rule (RETO §3.4, Eq. 11, Alg. 1).

Of a tool, a run's table of key aliases has the keys that are read as one of its parameters, as earlier runs taught.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc import wording
from atc._host.redaction import Redactor
from atc.calls.attempt import Attempt
from atc.errors import CallRefused
from atc.schemas.protocol import original_arguments
from atc.schemas.repair import repair_arguments

MAX_KEYS = 2_000
"""Keys of one run's table, of all tools together: a trace holds it."""

KeyAliases = Mapping[str, Mapping[str, str]]


def bounded_key_aliases(learnt: KeyAliases) -> KeyAliases:
    """Return the table of a run that begins, made of what was learnt."""
    made: dict[str, dict[str, str]] = {}
    left = MAX_KEYS
    for tool, keys in learnt.items():
        taken = dict(list(keys.items())[:left])
        left -= len(taken)
        if taken:
            made[tool] = taken
    return made


def read_key_aliases(found: Any) -> KeyAliases:
    """Return the table of a run that goes on, from its trace. Anything but names is left out."""
    if not isinstance(found, dict):
        return {}
    made = {
        tool: {key: name for key, name in keys.items() if isinstance(name, str)}
        for tool, keys in found.items()
        if isinstance(keys, dict)
    }
    return bounded_key_aliases(made)


class ArgumentRepairs:
    """Repairs the arguments of one run's calls. A strategy may put another one into the broker's place for it.

    Args:
        redactor: of the run. No repair shows a credential.

    Attributes:
        key_aliases: of a tool, keys that runs have shown to mean a parameter; the same for the whole run.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.key_aliases: KeyAliases = {}
        self._redactor = redactor

    async def gate(self, attempt: Attempt, rules: frozenset[str]) -> None:
        """Hold a call to its schema, and repair by the rules that are on what does not fit (RETO §3.4, Eq. 11).

        Args:
            attempt: the call. Its arguments become those that are sent.
            rules: the ids of the rules.

        Raises:
            CallRefused: the arguments do not fit even so.
        """
        protocol = attempt.granted.protocol
        original = original_arguments(protocol, attempt.arguments)
        known, masked = self.key_aliases.get(attempt.tool), self._redactor.value
        made = repair_arguments(protocol.parameters, original, attempt.effect, known, rules, masked)
        attempt.arguments, attempt.repairs = made.arguments, made.repairs
        attempt.original = original if made.repairs else None
        if made.repairs:
            attempt.notes += wording.argument_repairs(made.repairs, made.more)
        if made.problems:
            raise CallRefused("; ".join(map(str, made.problems[:3])), status="invalid_arguments")

"""The effect of an operation: as its author declares it, else by its method and its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.errors import UsageError
from atc.result import Effect
from atc.tools.names import function_name
from atc.tools.openapi.text import clean
from atc.tools.telltales import promises_read, telltale

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that HTTP calls safe."""

EXTENSION = "x-atc-effect"
"""The key by which a document declares an operation's effect."""


def effect_of(node: Mapping[str, Any], original: str, method: str, path: str) -> Effect:
    """The effect of one operation.

    A safe method makes a read, unless the operation's name or path suggests an effect: then the effect is unknown. A
    summary that begins with a reading verb (``"Lists …"``) is the author's word for a read all the same.

    Args:
        node: the operation as the document has it.
        original: its operation id, else ``"GET /path"``.
    """
    declared = node.get(EXTENSION)
    if isinstance(declared, str) and declared in list(Effect):
        return Effect(declared)
    if method.upper() not in READING:
        return Effect.WRITE
    named = named_effect(original, method, path)
    summary = clean(node.get("summary"), 200) or clean(node.get("description"), 200)
    return Effect.UNKNOWN if named and not promises_read(summary) else Effect.READ


def named_effect(original: str, method: str, path: str) -> str:
    """The verb in an operation's name or path that suggests an effect; empty where there is none."""
    return telltale(function_name(original, method, path)) or telltale(f"{method.upper()} {path}")


def checked_effects(given: Mapping[str, str] | None) -> dict[str, Effect]:
    """The user's own word on effects: pattern → effect.

    Raises:
        UsageError: a value that is no effect.
    """
    for pattern, effect in (given or {}).items():
        if effect not in list(Effect):
            raise UsageError(f"effects[{pattern!r}] is {effect!r}: take {', '.join(Effect)}")
    return {pattern: Effect(effect) for pattern, effect in (given or {}).items()}

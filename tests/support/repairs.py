"""The repair of arguments, as its result and its notes."""

from __future__ import annotations

from typing import Any

from atc import Effect, wording
from atc.schemas.repair import repair_arguments


def repaired(
    schema: dict[str, Any], arguments: dict[str, Any], effect: Effect = Effect.READ
) -> tuple[dict[str, Any], list[str]]:
    """Return the repaired arguments, and the note of each repair."""
    made = repair_arguments(schema, arguments, effect)
    return made.arguments, wording.argument_repairs(made.repairs, made.more)

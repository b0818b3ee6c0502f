"""Repairs of arguments in words: the notes of a call."""

from __future__ import annotations

from collections.abc import Sequence

from atc.facts import ArgumentRepair
from atc.packing import as_text


def argument_repair(made: ArgumentRepair) -> str:
    """``took "5" as 5 for at.lat``."""
    where = _where(made.path)
    match made.kind:
        case "respelt":
            return f"read the argument {where} as {made.name}"
        case "unwrapped" if made.name:
            return f"took the field {made.name!r} of the object given for {where}"
        case "unwrapped":
            return f"took the one item of the list given for {where}"
        case "left_out":
            return f"left out {where}, which was null"
        case "dropped":
            return f"dropped unknown argument {where}"
        case "default":
            return f"gave {where} its default {as_text(made.sent)}"
        case "model" if made.name is not None:
            return f"the model read the argument {where} as {made.name}"
        case "model" if made.sent is None:
            return f"the model left out {where}"
        case "model" if made.given is None:
            return f"the model gave {as_text(made.sent)} for {where}"
        case "model":
            return f"the model gave {as_text(made.sent)} in place of {as_text(made.given)} for {where}"
        case "joined" | "nearest" | "format" | "wrapped":
            return f"took {as_text(made.given)} as {as_text(made.sent)} for {where}"


def argument_repairs(made: Sequence[ArgumentRepair], more: int = 0) -> list[str]:
    """One note for each repair; ``more``: how many there are besides."""
    return [*map(argument_repair, made), *([f"and {more:,} more repairs"] if more else [])]


def _where(path: Sequence[str | int]) -> str:
    """``at.days[0]``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "all arguments"

"""What a model is told for its next program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atc.facts import Fault, Raised, Replacement
from atc.tools.names import parameter_name
from atc.wording.faults import fault_alone

MAX_NOTE = 400
"""Characters of a note."""
MAX_FRAMES, MAX_LINE = 5, 300
"""Frames of an exception, the innermost, and characters of a line of a program."""
MAX_PAIRS = 12
"""Arguments of a substitute that a note matches with those of the tool that broke."""


def fault_feedback(failed: Fault) -> str:
    """The fault, with the program's text there where the program alone is at fault."""
    text = fault_alone(failed)
    shown = f"`{failed.source_line}` failed: {text}" if failed.kind == "program" and failed.source_line else text
    return shown[:MAX_NOTE]


SENT_BACK = "nothing ran: a write depends on this or comes before it; if it is right, write the program again as it is"
"""Of a program that only warnings kept from running."""

SAID_IMPOSSIBLE = "if that is so, write the same program again; else solve the task with the tools above"
"""Of a program that says that no tool can do the task."""


def done(made: str, value: str) -> str:
    """A call that had an effect, as a program writes it, and what it returned, where that is shown."""
    return f"{made} returned {value}" if value else made


def frames(raised: Raised, lines: Callable[[int], str]) -> list[str]:
    """The frames of an exception, the innermost last: ``line 7, in <module>: total(rows)``."""
    return [
        f"line {line}, in {name if name.strip('<>').isidentifier() else '?'}: {lines(line)[:MAX_LINE]}"
        for name, line in raised.trace[-MAX_FRAMES:]
    ]


def is_down(tool: str, substitutes: Sequence[Replacement]) -> str:
    """A tool that broke and is not called again in this run, and what gives the same, the likeliest first."""
    gives = "gives" if len(substitutes) == 1 else "give"
    return f"{tool} is down in this run: {' or '.join(map(_replacement, substitutes))} {gives} the same"


def takes_place(instead_of: Sequence[str]) -> str:
    """Of a write that is asked for because another one failed and surely did nothing."""
    return f"in place of {' and '.join(instead_of)}, which failed"


def _replacement(made: Replacement) -> str:
    """``city_details (its place is the city_id)``, by the names that a program writes: those of documents are text.

    What both call alike is not said.
    """
    named = [(parameter_name(mine), parameter_name(theirs)) for mine, theirs in made.arguments]
    told = [(mine, theirs) for mine, theirs in named if mine != theirs]
    pairs = " and ".join(f"its {mine} is the {theirs}" for mine, theirs in told[:MAX_PAIRS])
    return f"{made.tool} ({pairs})" if pairs else made.tool

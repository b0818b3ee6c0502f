"""What a model is told for its next program."""

from __future__ import annotations

from collections.abc import Sequence

from atc.facts import Fault, Replacement
from atc.packing import as_text
from atc.result import Call
from atc.tools.names import parameter_name
from atc.wording.faults import fault_alone

MAX_NOTE = 400
"""Characters of a note."""
MAX_PAIRS = 12
"""Arguments of a substitute that a note matches with those of the tool that broke."""


def fault_feedback(failed: Fault) -> str:
    """The fault, with the program's text there where the program alone is at fault."""
    text = fault_alone(failed)
    shown = f"`{failed.source_line}` failed: {text}" if failed.kind == "program" and failed.source_line else text
    return shown[:MAX_NOTE]


SENT_BACK = "nothing ran: a write depends on this or comes before it; if it is right, write the program again as it is"
"""Of a program that only warnings kept from running."""


def failed_again(line: str, times: int) -> str:
    """A line that was wrong in several programs."""
    return f"`{line}` failed in {times} programs: write it differently"


def likely_tools(names: Sequence[str]) -> str:
    """The tools that fit the task."""
    return f"call the tools: {', '.join(names)} fit the task's words best"


def about_argument(name: str, tool: str, description: str) -> str:
    """What a tool's document says of an argument."""
    return f"{name} of {tool}: {description}"


def supplied_by(name: str, tool: str, source: str, *, is_id: bool) -> str:
    """Where an argument comes from."""
    return f"{name} of {tool}{' is an id, not a name' if is_id else ''}: take it {source}"


def comes_first(tool: str) -> str:
    """A tool whose name has the words of a refusal."""
    return f"the words of this refusal are those of {tool}: see whether it comes first"


def takes_argument(tool: str, name: str, given: str) -> str:
    """How an argument is called that a program called otherwise."""
    return f"`{tool}` takes `{name}`, not `{given}`"[:MAX_NOTE]


def has_no_argument(tool: str, given: str) -> str:
    """An argument that a tool does not have."""
    return f"`{tool}` has no argument `{given}`"[:MAX_NOTE]


def takes_value(tool: str, name: str, sent: object, given: object) -> str:
    """How a value is written that a program wrote otherwise."""
    return f"`{name}` of `{tool}` is {sent!r}, not {given!r}"[:MAX_NOTE]


def done(made: Call) -> str:
    """A call that had an effect, as a program writes it, and what it returned."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in made.arguments.items())
    return f"{made.tool}({arguments}) returned {as_text(made.value)[:300]}"


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

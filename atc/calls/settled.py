"""Records of a journal by which a doubt ends, and by which what a run did is undone.

======================================================  ============================================================
a record                                                says
======================================================  ============================================================
``{"settled": N, "done": true, "by": …, "at": …, …}``   call N, which was in doubt, was done; its answer is not known
``{"settled": N, "done": false, …}``                    call N, which was in doubt, was surely not done
``{"undo": N, "run": RUN, "state": "begun", …}``        run RUN is about to make the inverse of call N
``{"undo": N, "run": RUN, "state": "done", …}``         it made it, or (``refused``) surely did not
======================================================  ============================================================

A version that does not know them refuses the journal. It could else go on with a call as done that was undone since.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from atc.calls.program_start import LAST_TIME

MAX_SAID = 2_000
"""Characters of what a read said, or of who decided."""
SETTLED = "settled"
"""The status of an answer that is not known, for a read or a person said that its call was done."""
UndoState = Literal["begun", "done", "refused"]


@dataclass(frozen=True, config=ConfigDict(strict=True))
class Settlement:
    """What is known of a call that was in doubt.

    Attributes:
        done: it was done; else it surely was not.
        by: who said so: the read, as the user's file writes it, or the name of a person.
        person: a person said so.
        at: when, in seconds since 1970.
    """

    done: bool
    by: str
    person: bool
    at: Annotated[float, Field(ge=0, lt=LAST_TIME, allow_inf_nan=False)]


@dataclass(frozen=True, config=ConfigDict(strict=True))
class Undo:
    """The last that a journal says about the inverse of a call.

    Attributes:
        run: that makes it.
        state: how far it got; ``begun``: the journal of that run knows more.
        tool: the inverse's. ``digest``: of its arguments. By these it is found in the journal of that run.
    """

    run: str
    state: UndoState
    tool: str
    digest: str


def settled_record(number: int, found: Settlement) -> dict[str, Any]:
    """Return the record that a call in doubt was settled."""
    said = {"done": found.done, "by": found.by[:MAX_SAID], "person": found.person, "at": found.at}
    return {"settled": number, **said}


def read_settled(record: dict[str, Any]) -> tuple[int, Settlement]:
    """Return the call that a record settles, and how.

    Raises:
        ValueError, KeyError: the record is none.
    """
    number = record["settled"]
    if type(number) is not int:
        raise ValueError("not the number of a call")
    return number, Settlement(record["done"], record["by"], record["person"], record["at"])


def undo_record(number: int, undo: Undo) -> dict[str, Any]:
    """Return the record of the inverse of a call."""
    return {"undo": number, "run": undo.run, "state": undo.state, "tool": undo.tool, "key": undo.digest}


def read_undo(record: dict[str, Any]) -> tuple[int, Undo]:
    """Return the call whose inverse a record tells of, and what it says.

    Raises:
        ValueError, KeyError: the record is none.
    """
    number = record["undo"]
    if type(number) is not int:
        raise ValueError("not the number of a call")
    return number, Undo(record["run"], record["state"], record["tool"], record["key"])

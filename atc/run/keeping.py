"""Keep a good run as a tool: what its program would be as one is proposed, edited by the user, tried and written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atc._records.keeping import Proposal
from atc.tools.tool import Tool
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent


@dataclass(frozen=True)
class Edits:
    """What the user changes of a proposal.

    Attributes:
        parameters: by the name that is proposed: another name, or fields of its schema (``description``, ``enum`` …),
            a ``name`` among them.
        lift: values of the program, or names of constants, that become parameters.
        constants: names of parameters that stay as they were in the run.
        about: what the tool does, in place of the task's words.
    """

    parameters: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    lift: Sequence[Any] = ()
    constants: Collection[str] = ()
    about: str = ""


async def propose(agent: Agent, stored: StoredRun, name: str, edits: Edits = Edits()) -> Proposal:  # noqa: B008
    """Propose what a run would be as a tool: nothing is written, and nothing is called.

    What cannot be kept has its reasons in ``unfit``; what needs a yes in ``doubts`` and ``to_confirm``.

    Args:
        agent: with the tools that the program calls.
        stored: the run.
        name: of the tool to be.
        edits: what the user changes of it.

    Raises:
        UsageError: an edit names what is not there.
        EnvironmentProblem: not the isolation that was asked for: the program is tried on the recorded calls.
    """
    raise NotImplementedError


async def keep(
    agent: Agent,
    proposal: Proposal,
    *,
    confirm: bool | Callable[[Proposal], bool] = False,
    into: Path | None = None,
    replace: bool = False,
) -> tuple[Tool, Path]:
    """Write a proposal as a tool; returns it, and its file.

    Args:
        agent: as for :func:`propose`; it can call the tool from now on.
        proposal: as it was shown.
        confirm: the yes where one is needed (:attr:`Proposal.needs_yes`), or what asks for it.
        into: the folder; by default the data folder's.
        replace: a tool of that name that is there already is replaced.

    Raises:
        UsageError: it cannot be kept, or needs a yes and has none; or a tool of that name is there.
        EnvironmentProblem: the file cannot be written.
    """
    raise NotImplementedError

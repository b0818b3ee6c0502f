"""A strategy is one way of acting on a task, found by its name; an ending says how it ended.

A strategy is code of the host: it runs on the trusted side, with everything that the user has given to the agent. So
one that is not bundled is loaded only when the user names it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from atc._host.loading import load_named, names_code
from atc._records.records import FaultCase, Misfit
from atc.calls.json_values import to_json_value
from atc.errors import UsageError
from atc.facts import Fault
from atc.parts import STRATEGIES
from atc.result import RunStatus
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.programs.answers.types import Fitted
    from atc.run.run import Run

RESEARCH = frozenset({"codeact", "dfsdt", "layered", "layered-calls", "navigate", "plan", "react"})
"""The names of those in ``research/``, a package of its own that who wants to compare installs."""
GIVEN = "given"
"""The name of the strategy that runs a program of the caller's own: nothing opens it without the program."""
FORMS = "FILE.py:NAME, MODULE:NAME, or the name of an installed one"


@dataclass(frozen=True)
class Ending:
    """Describes how a strategy ended: ``answered`` with a value, or with another status and its fault.

    ``partial`` and ``remarks`` are those of :class:`atc.result.Result`. The agent finds them by the calls of a run that
    answered (:mod:`atc.run.left_undone`): a strategy need not set them.
    """

    status: RunStatus
    value: Any = None
    fault: Fault | None = None
    partial: bool = False
    remarks: tuple[Fault, ...] = ()


def checked(found: Any, strategy: str) -> Ending:
    """Return what a strategy returned, if a result can be made of it.

    Raises:
        UsageError: it is no ending, or its status, value or fault is none.
    """
    if not isinstance(found, Ending):
        raise UsageError(f"strategy {strategy!r} returned {type(found).__name__}, not an Ending")
    if not isinstance(found.status, str) or found.status not in get_args(RunStatus):
        what = f"the status {str(found.status)[:100]!r}; there are {', '.join(get_args(RunStatus))}"
    elif not isinstance(found.fault, Fault | None):
        what = f"a fault that is none, but {type(found.fault).__name__}"
    else:
        try:
            to_json_value(found.value)
        except ValueError as error:
            what = f"a value that has no JSON form: {error}"
        else:
            if found.status not in ("answered", "planned") and found.fault is None:
                return replace(found, fault=Fault(kind="answer", reason=f"strategy {strategy!r} gave no reason"))
            return found
    raise UsageError(f"strategy {strategy!r} ended with {what}")


def typed_ending(run: Run, ending: Ending) -> tuple[Ending, Fitted | None]:
    """Return an ending, with its value as the type that was asked for. Where it is none of that type, the run is
    unsolved; one that is partial has no value then.
    """
    if run.answer_type is None or not (ending.status == "answered" or ending.partial):
        return ending, None
    found = run.answer_type.fit(to_json_value(ending.value))
    if not isinstance(found, Misfit):
        return replace(ending, value=found.plain), found
    if ending.status != "answered":
        return replace(ending, value=None), None
    return Ending("unsolved", fault=Fault(kind="answer", case=FaultCase.ANSWER_TYPE, misfit=found)), None


class Strategy(abc.ABC):
    """One way to solve tasks. One object serves many runs, also at once: the state of a run is in its run.

    Attributes:
        name: as the trace and messages have it.
    """

    name: str

    async def choose_tools(self, run: Run, stored: StoredRun | None) -> None:
        """Offer the tools of the run, before it acts; by default those that the task needs.

        A new run calls some of them here where the setting ``probe`` says so.

        Args:
            stored: the run that goes on; ``None`` for a new one.
        """
        await run.choose_tools(stored)
        if stored is None and run.settings.probe == "reads":
            from atc.run.probing import probe_offered  # few runs probe

            await probe_offered(run)

    @abc.abstractmethod
    async def solve(self, run: Run) -> Ending:
        """Act on ``run.task`` until it is answered, or nothing more can be done.

        Raises:
            ModelError, ModelUnavailable, SandboxUnavailable, BudgetExceeded, JournalError, InputNeeded, WritesPlanned:
                from the run's methods. Let them pass: the agent makes the run's ending of them.
        """

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Go on with a run that was cut off. ``stored`` holds its trace and its journal.

        The default begins again. The journal keeps that safe: no write is made twice, also where a request is begun
        again (:meth:`~atc.calls.journal.Journal.begin_again`).

        Raises:
            As :meth:`solve`.
        """
        run.broker.journal.begin_again()
        return await self.solve(run)


def open_strategy(given: str | Strategy) -> Strategy:
    """Return the strategy of a name: of a bundled one, of ``MODULE:NAME`` or ``FILE.py:NAME``, of an entry point.

    Raises:
        UsageError: nothing has this name, its code cannot be imported, or it is no strategy.
    """
    if isinstance(given, Strategy):
        return given
    if names_code(given):
        return _made(load_named(given), given)
    if STRATEGIES.has(given):
        return _made(STRATEGIES.load(given), given)
    if given in RESEARCH:
        how = "run `pip install ./research` in a checkout of ATC"
        raise UsageError(f"strategy {given!r} is in the package atc-runtime-research, which is not installed: {how}")
    raise UsageError(f"no strategy is named {given!r}: give {', '.join(STRATEGIES.names())}; or {FORMS}")


def resumed_strategy(run_id: str, started: Mapping[str, Any], given: Strategy | None) -> tuple[Strategy, str | None]:
    """Return the strategy that a stored run was begun with, and what opens it; ``None`` for one given as an object.

    Raises:
        UsageError: it cannot be had, or another one was given.
    """
    name, opened_by = started.get("strategy"), started.get("strategy_given", "chain")
    if given is not None and given.name != name:
        raise UsageError(f"run {run_id} was begun with the strategy {name!r}: {given.name!r} cannot go on with it")
    if given is not None:
        return given, None
    if opened_by is None:
        raise UsageError(
            f"run {run_id} was begun with a strategy that was given as an object, {name!r}: give it again, "
            "Agent(strategy=…).resume(…)"
        )
    return open_strategy(opened_by), opened_by


def _made(found: Any, name: str) -> Strategy:
    if isinstance(found, type) and issubclass(found, Strategy):
        try:
            return found()
        except TypeError as error:
            raise UsageError(f"strategy {name!r} cannot be made without arguments: {error}") from error
    if isinstance(found, Strategy):
        return found
    what = found.__name__ if isinstance(found, type) else type(found).__name__
    raise UsageError(f"{name!r} is no strategy, but {what}: give a subclass of atc.Strategy, or an object of one")

"""The plan of a dry run, as its page shows it before one yes to all of it.

What is applied is what was shown: the page names the plan with the digest of what it showed
(:attr:`atc.run.apply.PlannedRun.digest`). A plan that does not fit a page is shown in part, and applied where all of it
is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc._host.redaction import Redactor
from atc._records.records import PlannedCall
from atc.errors import UsageError
from atc.run.apply import PlannedRun, is_being_applied, planned_run
from atc.serve.pages.run.nodes import brief
from atc.serve.ui.parked_runs import Card, Cards, fitting
from atc.serve.ui.shown_calls import MOST_NOTES, done_already, shown_call, shown_text, text_of
from atc.settings import Settings
from atc.traces.stores.base import StoredRun
from atc.wording import plans

MOST_CALLS = 200
"""Calls of one plan that are shown."""


class PlannedRuns:
    """The plans of dry runs. Its methods read from disk or a database: call them in a thread.

    Args:
        settings: which credentials no page may show.
        goes_on: whether this server can go on with a run, by the source of its tools.
    """

    def __init__(self, settings: Settings, goes_on: Callable[[Any], bool]) -> None:
        self._goes_on, self._redactor = goes_on, Redactor(settings.secrets)
        self._cards = Cards(self._card, no_plan, self._redactor)

    def card(self, stored: StoredRun) -> Card | None:
        """Return the plan of a run that has ended, as its page shows it; ``None`` where there is none to apply.

        Its fields: ``run_id``; ``heading``; ``calls``, and how many more are ``left``; ``stop`` and ``unseen``, what is
        not known; ``digest``, which the yes names, empty where not all of it is shown; ``until``, when it is too late;
        ``goes_on``, whether it was begun to be applied, ``began``, whether a write of it was, and ``done``, what was
        done then; ``here``, whether this server has its tools; ``damage``, why it cannot be read. One that was applied
        to its end has no calls, and ``applied``: by whom, and when.
        """
        return self._cards.of(stored)

    def whole(self, stored: StoredRun, number: int) -> str | None:
        """Return the arguments of a planned call whole, as a text of which a page changes nothing; ``None``: there is
        none."""
        try:
            found = planned_run(stored, looking=True).found.planned
        except UsageError:
            return None
        call = next((call for call in found if call.index == number), None)
        return None if call is None else text_of(self._redactor.value(_arguments(call)))

    def _card(self, stored: StoredRun) -> Card | None:
        card, started = no_plan(stored.run_id), stored.first("run_started") or {}
        if not started.get("dry_run") or not stored.has_journal:
            return None
        if is_being_applied(stored) and (stored.last("run_ended") or {}).get("status") == "answered":
            yes = stored.peek_journal().applied
            return None if yes is None else card | {"applied": {"by": brief(yes.by), "at": yes.at}}
        try:
            planned = planned_run(stored, looking=True)
        except UsageError:  # it cannot be applied, or not any more
            return None
        return card | self._shown(planned) | {"here": self._goes_on(started.get("source"))}

    def _shown(self, planned: PlannedRun) -> dict[str, Any]:
        found = planned.found
        calls = fitting(map(self._call, found.planned[:MOST_CALLS]))
        is_whole = len(calls) == len(found.planned) and not any(call["notes_left"] for call in calls)
        return {
            "heading": plans.heading(found),
            "calls": calls,
            "left": len(found.planned) - len(calls),
            "stop": self._text(plans.stop(found.stop, found.planned)) if found.stop is not None else "",
            "unseen": self._text(plans.unseen(found.unseen)) if found.unseen else "",
            "digest": planned.digest if is_whole else "",
            "until": planned.until,
            "goes_on": planned.goes_on,
            "began": planned.began,
            **done_already(self._redactor, planned.done),
        }

    def _call(self, call: PlannedCall) -> dict[str, Any]:
        return {
            "index": call.index,
            **shown_call(self._redactor, call, _arguments(call)),
            "notes": [self._text(each) for each in call.notes[:MOST_NOTES]],
            "notes_left": max(0, len(call.warnings) - MOST_NOTES),
        }

    def _text(self, text: str) -> str:
        return shown_text(self._redactor, text)


def no_plan(run_id: str) -> Card:
    """Return what a page is told of a run without a plan to apply."""
    return {"run_id": run_id, "calls": [], "left": 0, "digest": "", "until": 0.0, "here": False}


def is_open(card: Card | None, now: float) -> bool:
    """Return whether a plan that is shown may still be applied, here or elsewhere."""
    return card is not None and bool(card["digest"]) and now <= float(card["until"])


def _arguments(call: PlannedCall) -> dict[str, Any]:
    return call.arguments | plans.unknown_arguments(call)

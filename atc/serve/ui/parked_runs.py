"""The runs of a store that wait for approval, whoever began them, as pages show them; and the yes or no to their calls.

What is approved is what was shown: a page names each call with the digest of what it showed. The decision itself is a
record of the run's journal (:func:`atc.run.approvals.decide`), so the first one counts, on whatever page, at whatever
terminal it was made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from atc._host.redaction import Redactor
from atc.calls.parked import ParkedCall
from atc.errors import AtcError, UsageError
from atc.run.approvals import UNREADABLE, Decider, WaitingRun, decide, decider_of, user, waiting_run
from atc.serve.pages.run.nodes import brief
from atc.serve.ui.shown_calls import MOST_NOTES, SHOWN_OF_ONE, done_already, shown_call, shown_text, text_of
from atc.serve.ui.streams import AS_JSON
from atc.settings import Settings
from atc.traces.reading import FAILS
from atc.traces.stores.base import RunStore, StoredRun
from atc.wording import plans

MOST_CALLS = 50
"""Calls of one run that are shown; the next ones are once these are decided."""
MOST_SHOWN = 200_000
"""Characters of JSON that the calls of one run take; one call is shown whatever it takes."""
MOST_RUNS = 20
"""Runs that the list shows with their calls, the latest; a run's own page shows its own."""
REMEMBERED = 100
"""Runs whose calls are not read again while neither trace nor journal changes."""

Card = dict[str, Any]
"""A run that waits, as pages get it; see :meth:`ParkedRuns.card`."""


class Stale(AtcError):
    """What a page wants to decide does not wait any more as it was shown."""


class Cards:
    """What pages show of runs, made anew only where a trace or a journal has changed: the same card means no change.

    Args:
        make: makes the card of a run.
        blank: what stands for a run that cannot be read, by its id; why is its ``damage``.
        redactor: of credentials.
    """

    def __init__(
        self, make: Callable[[StoredRun], Card | None], blank: Callable[[str], Card], redactor: Redactor
    ) -> None:
        self._make, self._blank, self._redactor = make, blank, redactor
        self._made: OrderedDict[str, tuple[tuple[Hashable, Hashable], Card | None]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, stored: StoredRun) -> Card | None:
        """Return the card of a run, as it is now."""
        version = (stored.version(), stored.journal_version())
        with self._lock:
            known = self._made.get(stored.run_id)
        if known is not None and known[0] == version and version[1] is not None:
            return known[1]
        try:
            made = self._make(stored)
        except FileNotFoundError:
            raise
        except (*UNREADABLE, OSError, *FAILS) as error:  # one run hides no other
            damage = shown_text(self._redactor, str(error) or type(error).__name__)
            made = self._blank(stored.run_id) | {"damage": damage}
        if known is not None and known[1] == made:
            made = known[1]
        with self._lock:
            self._made[stored.run_id] = (version, made)
            self._made.move_to_end(stored.run_id)
            while len(self._made) > REMEMBERED:
                self._made.popitem(last=False)
        return made


class ParkedRuns:
    """The runs that wait for approval. Its methods read from disk or a database: call them in a thread.

    Args:
        store: where the runs are.
        settings: who may decide, and which credentials no page may show.
        goes_on: whether this server can go on with a run, by the source of its tools.
    """

    def __init__(self, store: RunStore, settings: Settings, goes_on: Callable[[Any], bool]) -> None:
        self._store, self._settings, self._goes_on = store, settings, goes_on
        self._redactor = Redactor(settings.secrets)
        unread: Card = {"task": "", "here": False}
        self._cards = Cards(self._card, lambda run_id: none_waits(run_id) | unread, self._redactor)
        self._listed: dict[str, Card] = {}
        self.more = 0

    def card(self, stored: StoredRun) -> Card | None:
        """Return a run that ended as ``waiting``, as pages show it; ``None`` where no call of it is asked about.

        Its fields: ``run_id``, ``task``; ``calls``; ``waits``, the number of those about which nobody has decided, and
        ``left``, of these, such as are not shown; ``done``, calls with effects that it has made already; ``here``,
        whether this server can go on with it; ``damage``, why it cannot be read. A call has ``digest``, which a
        decision names, and ``decided``: by whom, if it is.
        """
        return self._cards.of(stored)

    def look(self, run_ids: Sequence[str]) -> list[Card]:
        """Look what has changed in the runs that wait, the latest first; return what the list has to be told.

        A run that does not wait any more has no calls.
        """
        found: dict[str, Card] = {}
        for run_id in run_ids[:MOST_RUNS]:
            try:
                card = self.card(self._store.run(run_id))
            except FileNotFoundError:
                continue  # it was just deleted
            if card is not None:
                found[run_id] = card
        changed = [card for run_id, card in found.items() if self._listed.get(run_id) is not card]
        gone = [none_waits(run_id) for run_id in self._listed if run_id not in found]
        self._listed, self.more = found, max(0, len(run_ids) - MOST_RUNS)
        return [*gone, *changed]

    def listed(self) -> list[Card]:
        """Return what the list shows, by the last look."""
        return [*self._listed.values()]

    def whole(self, stored: StoredRun, number: int) -> str | None:
        """Return the arguments of a call whole, as a text of which a page changes nothing; ``None``: there is none."""
        found = next((call for call in waiting_run(stored).calls if call.number == number), None)
        return None if found is None else text_of(self._redactor.value(found.shown.arguments))

    def decider(self) -> Decider:
        """Return who decides on a page.

        Raises:
            UsageError: the permissions name approvers, and the settings have the key of none.
            SettingsError: the permissions cannot be read.
        """
        return decider_of(by=on_the_page(), via="page", settings=self._settings)

    def decide(self, stored: StoredRun, seen: Mapping[int, str], *, yes: bool) -> None:
        """Say yes or no to calls of a run, to all of them or none.

        Args:
            stored: the run.
            seen: by the number of a call, the digest of what was shown of it.
            yes: whether they may be made.

        Raises:
            Stale: one of them is not what waits now, and the message says who was first; or nobody decides here.
            TraceError, JournalError: it cannot be read or written, or another process works on the run.
            EnvironmentProblem: the audit log cannot be written.
        """
        try:
            decide(stored, [*seen], yes=yes, decider=self.decider(), seen=seen)
        except UsageError as error:
            raise Stale(str(error)) from None

    def _card(self, stored: StoredRun) -> Card | None:
        run = waiting_run(stored)
        source = (stored.first("run_started") or {}).get("source")
        return {"run_id": stored.run_id, **self._shown(run), "here": self._goes_on(source)} if run.calls else None

    def _shown(self, run: WaitingRun) -> dict[str, Any]:
        waiting = [call for call in run.calls if call.decision is None]
        decided = [call for call in run.calls if call.decision is not None]
        shown = [call for some in (waiting, decided) for call in fitting(map(self._call, some[:MOST_CALLS]))]
        return {
            "task": shown_text(self._redactor, run.task, SHOWN_OF_ONE),
            "calls": sorted(shown, key=lambda call: call["index"]),
            "waits": len(waiting),
            "left": len(waiting) - sum(not call["decided"] for call in shown),
            **done_already(self._redactor, run.done),
        }

    def _call(self, call: ParkedCall) -> dict[str, Any]:
        asked, decision = call.shown, call.decision
        decided = None
        if decision is not None:
            decided = {"yes": decision.yes, "by": brief(decision.by), "at": decision.at}
        return {
            "index": call.number,
            "digest": call.digest,
            **shown_call(self._redactor, asked, asked.arguments),
            "changed": [self._text(plans.read_again(each)) for each in asked.changed[:MOST_NOTES]],
            "same_as": self._text(plans.waits_in(asked.same_as)) if asked.same_as else "",
            "notes_left": max(0, len(asked.warnings) - MOST_NOTES) + max(0, len(asked.changed) - MOST_NOTES),
            "until": asked.until,
            "decided": decided,
        }

    def _text(self, text: str) -> str:
        return shown_text(self._redactor, text)


def fitting(calls: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first of some calls, as many as :data:`MOST_SHOWN` lets be shown, and one in any case."""
    shown, size = list[dict[str, Any]](), 0
    for made in calls:
        size += len(AS_JSON(made))
        if shown and size > MOST_SHOWN:
            break
        shown.append(made)
    return shown


def on_the_page() -> str:
    """Return who says yes or no on a page, for the record."""
    return f"{user()} on the page of `atc ui`"


def none_waits(run_id: str) -> Card:
    """Return what a page is told of a run that does not wait any more."""
    return {"run_id": run_id, "calls": [], "waits": 0, "left": 0}

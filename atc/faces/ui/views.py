"""How runs are shown: the functions that make the pages (:mod:`atc.pages.run`, :mod:`atc.pages.runs`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from atc.faces.ui.streams import AS_JSON

Event = dict[str, Any]


@dataclass(frozen=True)
class Views:
    """What makes pages of events and rows.

    Attributes:
        show: the event of a trace's line as a page gets it; ``None`` where it is not for the page.
        whole_value: the value at a JSON pointer of an event.
        run_page: a run's page, of shown events.
        runs_page: the page of the list, of rows.
    """

    show: Callable[[int, Event], Event | None]
    whole_value: Callable[[Event, str], Any]
    run_page: Callable[[list[Event], Mapping[str, Any] | None], str]
    runs_page: Callable[[list[dict[str, Any]], Mapping[str, Any] | None], str]

    def shown(self, number: int, event: Event) -> tuple[Event, str] | None:
        """What a page gets of an event, also as JSON. One that cannot be shown becomes a word about that: the page
        goes on."""
        try:
            made = self.show(number, event)
            return None if made is None else (made, AS_JSON(made))
        except Exception as error:
            told = f"line {number} cannot be shown ({type(error).__name__}): `atc show --json` reads it"
            made = {"line": number, "kind": "damaged", "at": 0, "data": {"message": told}}
            return made, AS_JSON(made)


def own_views() -> Views:
    """The pages of ATC."""
    shown, run, runs = (import_module(f"atc.pages.{name}") for name in ("run.shown", "run.page", "runs.page"))
    return Views(shown.shown, shown.whole_value, run.run_page, runs.runs_page)

"""The question whether the login of a recording is used: asked once, at a terminal, before tools are opened."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import TYPE_CHECKING

from atc._host.invisible import visible
from atc._records.choices import SessionWord
from atc.calls import question

if TYPE_CHECKING:
    from atc.tools.har.session import SessionChoice, SessionOffer

_KEEP = "k"
_CAREFUL = ("calls are made as whoever was logged in there; each call that changes something is asked about by itself",)


def session_choice() -> SessionChoice:
    """What is done with the login of a recording where no option says it: a question at a terminal."""
    return _asked if question.has_terminal() else "ask"


@cache  # a command may open its tools more than once
def _asked(offer: SessionOffer) -> SessionWord:
    from atc.wording.origins import recorded_session  # most commands open no recording

    about = offer.about
    shown = {
        "recording": str(offer.path),
        "sent_to": f"{about.origin}, and nowhere else",
        "carried_by": ", ".join(about.carriers),
        "ends": "unknown" if offer.ends_at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(offer.ends_at)),
    }
    others = {_KEEP: "yes, and later commands use it too, until the recording is made again"}
    heading = f"use {visible(recorded_session(about))}?"
    answer = asyncio.run(question.choose(heading, shown, (), question.About(careful=_CAREFUL), others))
    return "keep" if answer == _KEEP else "memory" if answer == question.YES else "none"

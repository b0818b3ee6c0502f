"""A call that somebody is asked about, as pages show it: its arguments cut, with where each comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from atc import wording
from atc._host.invisible import visible
from atc._host.redaction import Redactor
from atc._records.records import DataFlow, Feed, Invocation, PendingCall, PlannedCall
from atc.serve.pages.run.nodes import brief, plain
from atc.wording import plans
from atc.wording.abridged import abridged
from atc.wording.origins import careful, untrusted_first

SHOWN_OF_ONE = 400
"""Characters of one argument, or of a call that is done, that a question shows."""
SHOWN_OF_ORIGIN = 1_000
MOST_ARGUMENTS = 40
MOST_DONE = 20
"""Calls that are done already and that a question names; the last ones."""
MOST_TEXT = 500
"""Characters of a warning, and of what is wrong with a run."""
MOST_NOTES = 10
"""Warnings of a call, and likewise changes. A call that has more is decided where all of them are shown."""


def shown_text(redactor: Redactor, text: str, most: int = MOST_TEXT) -> str:
    """Return a text for a page: credentials masked, cut, with nothing that steers or hides."""
    masked = redactor.text(text)
    return plain(masked if len(masked) <= most else f"{masked[:most]}…")


def done_already(redactor: Redactor, done: Sequence[Invocation]) -> dict[str, Any]:
    """Return the last calls that are done already, in words, and how many came before them."""
    last = [brief(redactor.text(wording.call(each)), SHOWN_OF_ONE) for each in done[-MOST_DONE:]]
    return {"done": last, "done_before": len(done) - len(last)}


def shown_call(redactor: Redactor, call: PendingCall | PlannedCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a call that is not made yet, with these arguments."""
    return {
        "tool": brief(call.tool),
        "effect": call.effect,
        "line": call.line,
        "within": brief(call.within),
        **shown_arguments(redactor, redactor.value(arguments), call.feeds, call.data_flow),
        "warnings": [shown_text(redactor, each) for each in call.warnings[:MOST_NOTES]],
    }


def shown_arguments(
    redactor: Redactor, arguments: Mapping[str, Any], feeds: Sequence[Feed], flow: DataFlow | None = None
) -> dict[str, Any]:
    """Return what a page shows of the arguments of a call, with nothing that steers or hides.

    Args:
        redactor: of credentials.
        arguments: packed, credentials masked.
        feeds: where they come from.
        flow: their origins, where these are known; those that a stranger may have chosen are shown first.

    Returns:
        ``careful``, what to look at before approval; ``arguments``, pairs of a name and a text; ``origins``, each the
        name of an argument, where it comes from, and which part of it, if not all; ``cut``, whether a part is not
        shown; ``left_out``, how many arguments are not.
    """
    arguments = untrusted_first(arguments, flow)
    given = list(islice(arguments.items(), MOST_ARGUMENTS))
    shown = [(abridged(name, SHOWN_OF_ONE), abridged(value, SHOWN_OF_ONE)) for name, value in given]
    names = [visible(name) if len(name) <= SHOWN_OF_ONE else abridged(name, SHOWN_OF_ONE).text for name, _ in given]
    origins = plans.origins(feeds, arguments, flow)
    return {
        "careful": [brief(redactor.text(each), SHOWN_OF_ORIGIN) for each in careful(flow)],
        "arguments": [[name, value.text] for name, (_, value) in zip(names, shown, strict=True)],
        "origins": [
            [shown_name, *(brief(redactor.text(each), SHOWN_OF_ORIGIN) for each in (origin, part) if each)]
            for shown_name, (name, _) in zip(names, given, strict=True)
            for part, origin in origins.get(name, ())
        ],
        "cut": len(given) < len(arguments) or any(name.cut or value.cut for name, value in shown),
        "left_out": len(arguments) - len(given),
    }


def text_of(arguments: Any) -> str:
    """Return arguments as JSON, as it is written here: a browser would round numbers and put keys in another order."""
    lines = json.dumps(arguments, indent=2, ensure_ascii=False, default=str).split("\n")
    return "\n".join(map(visible, lines))

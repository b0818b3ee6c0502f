"""The tool that a run would be kept as, as its page shows it before one yes to it.

What is kept is what was shown: the page names the proposal with the digest of all of it. A proposal that does not fit a
page is shown in part, and kept at a terminal.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from atc._host.redaction import Redactor
from atc._records.keeping import Proposal
from atc.serve.pages.run.nodes import brief, plain
from atc.serve.ui.parked_runs import MOST_SHOWN, Card
from atc.serve.ui.shown_calls import MOST_NOTES, shown_text
from atc.serve.ui.streams import AS_JSON
from atc.wording import keeping as words


def digest_of(proposal: Proposal) -> str:
    """Return what names a proposal: all of it, so that nothing else is kept than what was shown."""
    text = json.dumps(proposal.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def card_of(proposal: Proposal, redactor: Redactor) -> Card:
    """Return a proposal as the page of its run shows it.

    Its fields: ``run_id`` and ``name``; ``signature``, ``about`` and ``effect``; ``parameters`` and ``constants``, each
    with its ``name``, its ``value`` in the run and ``why``; ``confirm`` of a constant: it may hold for that run alone;
    ``program``; ``doubts`` and ``unfit``, sentences; ``digest``, which the yes names, empty where it cannot be kept, or
    not all of it is shown.
    """

    def text(given: str) -> str:
        return shown_text(redactor, given)

    card = {
        "run_id": proposal.run_id,
        "name": brief(proposal.name),
        "signature": text(words.signature(proposal)),
        "about": text(proposal.about),
        "effect": text(words.effect(proposal)),
        "parameters": [
            {"name": brief(each.name), "value": text(words.value(each.value)), "why": text(words.lifted(each))}
            for each in proposal.parameters
        ],
        "constants": [
            {
                "name": brief(each.name),
                "value": text(words.value(each.value)),
                "why": text(words.constant(each)),
                "confirm": each.must_confirm,
            }
            for each in proposal.constants
        ],
        "program": plain(redactor.text(proposal.program)),
        "doubts": [text(words.doubt(each)) for each in proposal.doubts],
        "unfit": [text(words.unfit(each)) for each in proposal.unfit[:MOST_NOTES]],
    }
    if len(AS_JSON(card)) > MOST_SHOWN:
        return _too_large(proposal)
    return card | {"digest": "" if proposal.unfit else digest_of(proposal)}


def _too_large(proposal: Proposal) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("parameters", "constants", "doubts"), ())
    why = f"it does not fit a page: keep it by `atc runs keep {proposal.run_id} --as {brief(proposal.name)}`"
    said = {"run_id": proposal.run_id, "name": brief(proposal.name), "signature": "", "about": "", "effect": ""}
    return said | empty | {"program": "", "unfit": [why], "digest": ""}

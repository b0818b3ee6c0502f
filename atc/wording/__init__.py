"""Facts → sentences, for people and for the model. The one place that words findings and faults.

Records (:mod:`atc.facts`) carry data; what reads them decides by data. Sentences are made here, where they are read,
and no code reads one back: with one that says nothing but each record's kind, all decisions stay the same.
Other modules call ``wording.finding(…)`` through the package, so that it can be replaced as a whole.
"""

from __future__ import annotations

from atc.wording.faults import (
    SAID_IMPOSSIBLE,
    SAY_WHY,
    SENT_BACK,
    beside,
    done,
    evidence,
    fault,
    fault_alone,
    fault_feedback,
    frames,
    is_down,
    names_answer,
    takes_place,
)
from atc.wording.findings import finding, finding_alone
from atc.wording.outcomes import (
    approved_by,
    argument_repairs,
    asked_elsewhere,
    decided_before,
    denied_by,
    more_calls,
    no_credential,
    other_address,
    outcome,
    read_changed,
    repeat,
    same_call,
    sent_again,
    settled,
    settled_as_not_done,
)
from atc.wording.parts import (
    HIDDEN,
    answer,
    call,
    drifted,
    exception,
    short,
    stated,
    steps,
)

__all__ = [
    "HIDDEN",
    "SAID_IMPOSSIBLE",
    "SAY_WHY",
    "SENT_BACK",
    "answer",
    "approved_by",
    "asked_elsewhere",
    "decided_before",
    "denied_by",
    "read_changed",
    "argument_repairs",
    "beside",
    "call",
    "done",
    "drifted",
    "evidence",
    "exception",
    "fault",
    "fault_alone",
    "fault_feedback",
    "finding",
    "finding_alone",
    "frames",
    "is_down",
    "more_calls",
    "no_credential",
    "other_address",
    "names_answer",
    "outcome",
    "repeat",
    "same_call",
    "settled",
    "settled_as_not_done",
    "sent_again",
    "short",
    "stated",
    "steps",
    "takes_place",
]

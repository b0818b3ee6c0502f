"""Facts → sentences, for people and for the model. The one place that words findings and faults.

Records (:mod:`atc.facts`) carry data; what reads them decides by data. Sentences are made here, where they are read,
and no code reads one back: with one that says nothing but each record's kind, all decisions stay the same.
Other modules call ``wording.finding(…)`` through the package, so that it can be replaced as a whole.
"""

from __future__ import annotations

from atc.wording.faults import MAX_MESSAGE, evidence, fault, fault_alone
from atc.wording.feedback import (
    MAX_NOTE,
    SENT_BACK,
    about_argument,
    comes_first,
    done,
    failed_again,
    fault_feedback,
    has_no_argument,
    is_down,
    likely_tools,
    supplied_by,
    takes_argument,
    takes_place,
    takes_value,
)
from atc.wording.findings import ALL_PAGES, MAX_FINDING, finding, finding_alone, no_keys
from atc.wording.outcomes import more_calls, outcome
from atc.wording.parts import (
    HIDDEN,
    answer,
    call,
    described,
    drift,
    drifted,
    exception,
    expression,
    short,
)
from atc.wording.repairs import argument_repair, argument_repairs

__all__ = [
    "ALL_PAGES",
    "HIDDEN",
    "MAX_FINDING",
    "MAX_MESSAGE",
    "MAX_NOTE",
    "SENT_BACK",
    "about_argument",
    "answer",
    "argument_repair",
    "argument_repairs",
    "call",
    "comes_first",
    "described",
    "done",
    "drift",
    "drifted",
    "evidence",
    "exception",
    "expression",
    "failed_again",
    "fault",
    "fault_alone",
    "fault_feedback",
    "finding",
    "finding_alone",
    "has_no_argument",
    "is_down",
    "likely_tools",
    "more_calls",
    "no_keys",
    "outcome",
    "short",
    "supplied_by",
    "takes_argument",
    "takes_place",
    "takes_value",
]

"""Revisions without the values of responses, where the setting ``show_values`` keeps these from the model."""

from __future__ import annotations

from typing import Any

from atc import wording
from atc.facts import Answered, Fault, Finding, Invocation, Observed, Record
from atc.result import Revision


def without_values(revision: Revision) -> Revision:
    """A program's findings and fault without what was given to calls and what these answered.

    The words of an error stay as they are: a service may quote a value in them.
    """
    findings, fault = _hidden(revision.findings), _hidden(revision.fault)
    return revision.model_copy(update={"findings": findings, "fault": fault})


def _hidden(part: Any) -> Any:
    """A record or a tuple of records without values."""
    if isinstance(part, Answered):
        return None
    if isinstance(part, tuple):
        return tuple(map(_hidden, part))
    if not isinstance(part, Record):
        return part
    changed = {name: _hidden(each) for name, each in part if isinstance(each, Record | tuple)}
    is_answer = isinstance(part, Fault) and bool(part.value)
    of_response = isinstance(part, Finding) and part.place is not None
    if isinstance(part, Invocation):
        changed["arguments"] = dict.fromkeys(part.arguments, wording.HIDDEN)
    elif is_answer or of_response or (isinstance(part, Observed) and part.type == "value"):
        changed["value"] = wording.HIDDEN
    return part.model_copy(update=changed)

"""Revisions without the values of responses, where the setting ``show_values`` keeps these from the model."""

from __future__ import annotations

from typing import Any

from atc import wording
from atc.facts import Fault, Finding, Invocation, Misfit, Mismatch, Observed
from atc.result import Revision


def without_values(revision: Revision) -> Revision:
    """A program's findings and fault without what was given to calls and what these answered.

    The words of an error stay as they are: a service may quote a value in them.
    """
    fault = revision.fault
    findings = tuple(map(_finding, revision.findings))
    return revision.model_copy(update={"findings": findings, "fault": _fault(fault) if fault is not None else None})


def _fault(fault: Fault) -> Fault:
    changed: dict[str, Any] = {
        "invocation": _call(fault.invocation) if fault.invocation is not None else None,
        "answered": None,
        "observed": _observed(fault.observed) if fault.observed is not None else None,
        "value": wording.HIDDEN if fault.value else fault.value,
        "misfit": _misfit(fault.misfit) if fault.misfit is not None else None,
        "finding": _finding(fault.finding) if fault.finding is not None else None,
    }
    return fault.model_copy(update=changed)


def _call(made: Invocation) -> Invocation:
    return made.model_copy(update={"arguments": dict.fromkeys(made.arguments, wording.HIDDEN)})


def _observed(seen: Observed) -> Observed:
    first = _observed(seen.first) if seen.first is not None else None
    return seen.model_copy(update={"first": first, "value": wording.HIDDEN if seen.type == "value" else None})


def _misfit(found: Misfit) -> Misfit:
    problems = tuple(map(_mismatch, found.problems))
    return found.model_copy(update={"found": _observed(found.found), "problems": problems})


def _mismatch(problem: Mismatch) -> Mismatch:
    found = _observed(problem.found) if problem.found is not None else None
    return problem.model_copy(update={"found": found})


def _finding(found: Finding) -> Finding:
    """Of a finding about a response, the example of what stands there is left out."""
    return found.model_copy(update={"value": wording.HIDDEN}) if found.place is not None else found

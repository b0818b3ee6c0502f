"""An answer that is not of the type that was asked for: what is wrong with it, and the call that it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc.answers.types import AnswerType
from atc.facts import Misfit, Place
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import NOTHING
from atc.programs.attribution.responses import answered
from atc.programs.attribution.trace import suspects_of
from atc.result import Call


def misfit_facts(wanted: AnswerType, value: Any, flow: Flow | None, calls: Sequence[Call]) -> dict[str, Any]:
    """The misfit of a value, and the call behind it, as fields of a fault; empty where the value fits.

    A tool is named where the program answered a part of its response as it is. Of what a program made of a response
    the program's own line is at fault.
    """
    misfit = wanted.fit(value)
    if not isinstance(misfit, Misfit):
        return {}
    behind = suspects_of(flow.scope.names.get("answer", NOTHING), flow, calls) if flow is not None else ()
    for suspect in behind:
        call = suspect.call
        if call.succeeded and not suspect.derived and suspect.value == value:
            place = Place(tool=call.tool, path=suspect.path)
            return {
                "misfit": misfit,
                "tool": call.tool,
                "call": call.index,
                "answered": answered(call),
                "place": place,
            }
    return {"misfit": misfit}

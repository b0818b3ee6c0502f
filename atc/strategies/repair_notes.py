"""What repairs of arguments tell the next program: one line for each, so that it gives them right by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from atc import wording
from atc.facts import ArgumentRepair
from atc.result import Call
from atc.tools.names import parameter_name
from atc.tools.protocol import Protocol

RULE = "repaired-arguments"
MAX_NOTES, MAX_VALUE = 3, 60
"""Lines, the latest, and characters of a value in one."""
_NUMERIC = re.compile(r"[\s\d.,;:+-]*")


def repair_notes(calls: Sequence[Call], tools: Mapping[str, Protocol]) -> list[str]:
    """A sentence for each argument that was repaired so that its call was answered.

    Args:
        calls: of the programs so far.
        tools: the protocols of those that are offered.
    """
    told = (note for call in calls if call.succeeded and call.tool in tools for note in _of(call, tools[call.tool]))
    return list(dict.fromkeys(told))[-MAX_NOTES:]


def _of(call: Call, protocol: Protocol) -> Iterator[str]:
    known = protocol.parameters.get("properties")
    for each in call.repairs:
        if len(each.path) != 1 or not isinstance(key := each.path[0], str):
            continue
        if each.name is not None and each.kind in ("respelt", "model"):
            yield wording.takes_argument(call.tool, parameter_name(each.name), key)
        elif each.kind == "dropped" or (each.kind == "model" and isinstance(known, dict) and key not in known):
            yield wording.has_no_argument(call.tool, key)
        elif each.kind in ("nearest", "model") and _may_be_told(each):
            yield wording.takes_value(call.tool, parameter_name(key), each.sent, each.given)


def _may_be_told(repair: ArgumentRepair) -> bool:
    """Whether both values are short words. A number that a note names is copied, whatever it was of."""
    both = (repair.given, repair.sent)
    return all(isinstance(each, str) and len(each) <= MAX_VALUE and not _NUMERIC.fullmatch(each) for each in both)

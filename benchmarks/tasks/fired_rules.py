"""Which rules of ATC fired in a run, by its events: each program, finding, fault and call says what was done to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from atc._records.events import Event
from atc._records.records import RepairKind
from atc._records.rules import IDS
from atc.schemas.repair import FORMAT, SPELLING, UNWRAP

_FINDINGS = {"invented_id": "invented-id", "name_for_id": "name-for-id"}
_RULE_OF: Mapping[RepairKind, str] = {"respelt": SPELLING, "unwrapped": UNWRAP, "format": FORMAT}
"""The rule that a repair is of. A ``format`` may also be a conversion that is always made: ``"5"`` for 5."""
_WITH_OTHERS = {
    "unknown_argument": "similar-tool",
    "unknown_tool": "nearest-name",
    "undefined_name": "nearest-name",
    "unknown_field": "key-elsewhere",
}
"""Rules that add to a finding what may be meant instead."""


def fired_rules(events: Iterable[Event], on: frozenset[str] = IDS) -> Counter[str]:
    """Return how often each rule fired.

    Args:
        events: of a run.
        on: the rules that the run had; a format is repaired in part without its rule.
    """
    return Counter(rule for event in events for rule in _fired(event.kind, event.data) if rule in on)


def _fired(kind: str, data: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "program_written":
            yield from data.get("rules", ())
        case "findings" | "program_started":
            errors = [each for each in data.get("findings", ()) if each["severity"] == "error"]
            yield from filter(None, map(_of_finding, [*errors, *data.get("warned", ())]))
        case "call_ended":
            kinds = [repair["kind"] for repair in data.get("repairs", ())]
            yield from (_RULE_OF[each] for each in kinds if each in _RULE_OF)
        case "fault":
            yield from ["idle-call"] if data["fault"]["idle"] else []
            yield from ["unpacked-keys"] if data["fault"]["case"] == "unpacked" else []
        case "tool_banned":
            yield "recombine"


def _of_finding(finding: Mapping[str, Any]) -> str | None:
    if finding["case"] == "compared":
        return "enum-comparison"
    if finding["case"] == "address":
        return "invented-address"
    if finding["kind"] in _WITH_OTHERS:
        return _WITH_OTHERS[finding["kind"]] if finding["instead"] else None
    return _FINDINGS.get(finding["kind"])

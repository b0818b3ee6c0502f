"""An event of a trace as the page of its run shows it: fields of known types, bounded, with values as nodes.

The page is a pure function of its shown events. What is no event as :mod:`atc._records.events` describes it is shown
too, as ``damaged`` (a known kind with a wrong field) or ``unknown`` (a kind of a later version, or of nobody's).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from atc import wording
from atc._records.packing import as_text
from atc._records.prices import money_text
from atc._records.records import BodyError, DataFlow, Drift, DryRun, Feed, PlannedCall, Replacement, SketchFacts
from atc.errors import TraceError
from atc.serve.pages.run.nodes import WHOLE, Limits, as_json, brief, node, plain, value_at
from atc.traces.reading import FAILS
from atc.wording import outcomes, plans, sketches
from atc.wording.origins import careful

_MOST, _SENTENCE = 300, 500
_FEEDS = 40
"""Of one planned call."""


def _sentence(text: str) -> str:
    return brief(text, _SENTENCE)


def _chosen(data: Mapping[str, Any]) -> dict[str, Any]:
    sketch = SketchFacts.of_trace(data)
    return {
        "why": [[brief(t), _sentence(sketches.why(r, sketch))] for t, r in islice(sketch.why.items(), _MOST)],
        "substitutes": [[brief(t), list(map(brief, by[:20]))] for t, by in islice(sketch.substitutes.items(), _MOST)],
    }


def _asked(data: Mapping[str, Any]) -> dict[str, Any]:
    return _came([Feed.model_validate_json(as_json(each)) for each in islice(data.get("feeds", ()), _MOST)], data)


def _came(feeds: Sequence[Feed], data: Mapping[str, Any]) -> dict[str, Any]:
    flow = DataFlow.model_validate_json(as_json(data.get("data_flow") or {}))
    arguments = data.get("arguments")
    found = plans.origins(feeds, arguments if isinstance(arguments, Mapping) else {}, flow)
    origins = [
        [brief(name), *(_sentence(each) for each in (origin, part) if each)]
        for name, parts in found.items()
        for part, origin in parts
    ]
    told = {"origins": origins, "careful": list(map(_sentence, careful(flow)))}
    return {name: each for name, each in told.items() if each}


def _called(data: Mapping[str, Any]) -> dict[str, Any]:
    drifts = islice(data.get("drift") or (), 20)
    found = [wording.drifted(Drift.model_validate(each)) for each in drifts]
    if data.get("body_error"):
        found.append(wording.stated(BodyError.model_validate(data["body_error"])))
    return ({"drift": list(map(_sentence, found))} if found else {}) | (_came((), data) if "data_flow" in data else {})


def _banned(data: Mapping[str, Any]) -> dict[str, Any]:
    substitutes = [Replacement.model_validate(each) for each in islice(data.get("substitutes", ()), 20)]
    return {"words": _sentence(wording.is_down(str(data["tool"])[:200], substitutes))}


def _planned(call: PlannedCall) -> dict[str, Any]:
    came = plans.came(call.feeds, call.arguments, call.data_flow)
    told = [*call.notes[:20], *(f"careful: {text}" for text in careful(call.data_flow)), *came[:_FEEDS]]
    more = [f"… and {len(came) - _FEEDS} more"] if len(came) > _FEEDS else []
    text = plain(plans.planned_call(call)[:_SENTENCE])
    return {
        "index": call.index,
        "line": call.line,
        "text": text,
        "notes": [*map(_sentence, told), *more],
    }


def _ended(data: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    remarks = [(str(each["message"]), str(each.get("case", ""))) for each in islice(data.get("remarks", ()), 20)]
    fault, caught = data.get("fault"), [message for message, _ in remarks]
    if caught:
        made["caught"] = [_sentence(outcomes.remark(*each)) for each in remarks]
    if data.get("partial"):
        made["incomplete"] = _sentence(
            outcomes.incomplete(str(data["status"]), fault and str(fault["message"]), caught)
        )
        if data["status"] != "answered":
            made["kept"] = _sentence(as_text(data.get("value")))
    if (cost := data.get("cost")) is not None:
        made["cost"] = brief(money_text(Decimal(str(cost)), str(data.get("currency", ""))[:20]))
    if data.get("dry_run"):
        found = DryRun.model_validate_json(as_json(data["dry_run"]))
        made["plan"] = {
            "heading": plans.heading(found),
            "calls": [_planned(call) for call in found.planned[:_MOST]],
            "stop": _sentence(plans.stop(found.stop, found.planned)) if found.stop is not None else "",
            "unseen": _sentence(plans.unseen(found.unseen)) if found.unseen else "",
        }
    return made


WORDED: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "tools_chosen": _chosen,
    "approval_asked": _asked,
    "call_ended": _called,
    "tool_banned": _banned,
    "run_ended": _ended,
}
"""Of a kind: what makes its sentences. Raises as :data:`atc.traces.reading.FAILS` says where the data is damaged."""


SKIPPED = frozenset({"indexing", "model_waiting", "store_waiting"})
"""Kinds that no page shows: they tell that something takes a while."""
LIMITS = Limits()
TEXT, LONG, PROGRAM = 2_000, 6_000, 100_000
"""Characters of a sentence, of a reply or a task, of a program."""
NAMES, TEXTS, RECORDS = 300, 60, 300
"""Members of a list of names, of sentences, of records."""


@dataclass(frozen=True)
class _Place:
    """Where a field stands, and how much of a value is shown."""

    at: tuple[int, ...]
    limits: Limits


Reader = Callable[[Any, _Place], Any]
"""Gives what the page gets of a field, or raises ``TypeError`` or ``ValueError`` where it is none."""


def text(most: int = TEXT) -> Reader:
    """A text; of a longer one the beginning, as a node with its size."""

    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, str):
            raise TypeError("no text")
        if len(value) <= most:
            return plain(value)
        return {"t": plain(value[:most]), "size": len(value), "at": ".".join(map(str, place.at))}

    return read


def _name(value: Any, _: _Place) -> str:
    if not isinstance(value, str):
        raise TypeError("no name")
    return brief(value)


def _number(value: Any, _: _Place) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e15:
        raise TypeError("no number")
    return value


def _flag(value: Any, _: _Place) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _value(value: Any, place: _Place) -> Any:
    return node(value, place.limits, place.at)


def _status(value: Any, _: _Place) -> str:
    if not isinstance(value, str | int):
        raise TypeError("no status")
    return brief(str(value))


def several(read: Reader, most: int) -> Reader:
    """A list; ``{"more": number}`` at its end stands for those that there is no room for."""

    def read_all(values: Any, place: _Place) -> list[Any]:
        if not isinstance(values, list | tuple):
            raise TypeError("no list")
        made = [read(each, _Place((*place.at, n), place.limits)) for n, each in enumerate(values[:most])]
        return [*made, {"more": len(values) - most}] if len(values) > most else made

    return read_all


def record(fields: Mapping[str, Reader]) -> Reader:
    """An object of known fields; one that lacks is left out, and so is ``null``."""

    def read_record(value: Any, place: _Place) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError("no object")
        made = {}
        for position, (name, each) in enumerate(value.items()):
            if name in fields and each is not None:
                made[name] = fields[name](each, _Place((*place.at, position), place.limits))
        return made

    return read_record


_names, _texts = several(_name, NAMES), several(text(), TEXTS)
_FINDING = record(
    {"kind": _name, "severity": _name, "message": text(), "line": _number, "source_line": text(), "tool": _name}
)
_FAULT = record(
    {"kind": _name, "case": _name, "tool": _name, "call": _number, "line": _number, "source_line": text()}
    | {"message": text(LONG), "evidence": text(LONG), "hint": text(), "traceback": text(), "by": _name, "cause": _name}
)
_CALL: dict[str, Reader] = {"index": _number, "tool": _name, "arguments": _value, "effect": _name, "line": _number}
_CALL |= {"within": _name, "outer_line": _number}
_KINDS: dict[str, dict[str, Reader]] = {
    "run_started": {
        "run_id": _name,
        "task": text(LONG),
        "model": _name,
        "endpoint": _name,
        "tools": _number,
        "strategy": _name,
        "settings": _value,
        "images": several(record({"name": _name, "type": _name, "bytes": _number}), NAMES),
        "instructions": text(LONG),
        "turn": _number,
        "earlier": _value,
        "answer": _value,
        "dry_run": _flag,
        "applies": _flag,
    },
    "tools_chosen": {
        "tools": _names,
        "of": _number,
        "plan": text(LONG),
        "queries": _texts,
        "needs": _texts,
        "stopped": text(),
        "subgoals": _texts,
        "layers": several(_names, NAMES),
        "feeds": several(
            record({"supplier": _name, "consumer": _name, "parameter": _name, "path": _names, "evidence": _name}),
            RECORDS,
        ),
        "sure": _flag,
        "notices": _texts,
        "found": _names,
        "whole": _names,
    },
    "tool_probed": {"tool": _name, "arguments": _value, "status": _status, "learnt": _flag, "seconds": _number},
    "model_started": {"purpose": _name, "model": _name},
    "model_ended": {
        "purpose": _name,
        "model": _name,
        "seconds": _number,
        "prompt_tokens": _number,
        "completion_tokens": _number,
        "cached": _flag,
        "finish_reason": _name,
        "text": text(LONG),
        "problem": text(),
        "notice": text(),
    },
    "stage_started": {"stage": _number, "new_request": _flag, "inputs": _value},
    "layer_started": {"layer": _number, "tools": _names, "layers": several(_names, NAMES), "variables": _names},
    "program_written": {
        "attempt": _number,
        "program": text(PROGRAM),
        "rewrites": _texts,
        "inputs": _value,
    },
    "findings": {"attempt": _number, "findings": several(_FINDING, RECORDS)},
    "program_started": {"attempt": _number, "warnings": _texts},
    "approval_asked": _CALL | {"warnings": _texts, "instead_of": _names},
    "question_asked": {"question": text(LONG), "number": _number},
    "call_started": _CALL,
    "call_sent": {"index": _number},
    "call_ended": _CALL
    | {
        "attempt": _number,
        "status": _name,
        "value": _value,
        "error": text(LONG),
        "service_message": text(),
        "error_status": _status,
        "cause": _name,
        "seconds": _number,
        "notes": _texts,
        "original": _value,
        "traceback": text(),
        "page": _number,
        "stage": _number,
        "awaits": _value,
    },
    "program_ended": {
        "attempt": _number,
        "kind": _name,
        "seconds": _number,
        "detail": text(LONG),
        "stdout": text(LONG),
        "stderr": text(LONG),
        "isolation": _name,
        "host_s": _number,
        "looked": _names,
    },
    "fault": {"attempt": _number, "fault": _FAULT},
    "tool_banned": {"tool": _name, "call": _number, "effect": _name},
    "substituted": {"tool": _name, "by": _name},
    "call_settled": {"index": _number, "tool": _name, "outcome": _name, "by": text()},
    "call_undone": {"index": _number, "tool": _name, "run": _name},
    "answered": {"value": _value, "answer": text(LONG), "unresolved": _flag},
    "run_ended": {
        "status": _name,
        "answer": text(LONG),
        "fault": _FAULT,
        "question": text(LONG),
        "isolation": _name,
        "raised": _flag,
        "usage": record(
            dict.fromkeys(("model_calls", "prompt_tokens", "completion_tokens", "model_seconds"), _number)
            | dict.fromkeys(("tool_calls", "tool_seconds", "seconds", "host_seconds"), _number)
        ),
    },
}


def shown(number: int, event: Mapping[str, Any], limits: Limits = LIMITS) -> dict[str, Any] | None:
    """An event as the page shows it; ``None`` where the page has no place for it.

    Args:
        number: of its line in the trace, from 1.
        event: as :func:`atc.traces.reading.read_event` returns it, or as anybody wrote it.
        limits: how much of each value is shown.

    Returns:
        Plain JSON: ``n``, the number; ``kind``; ``at``, seconds since the epoch; ``data``, of known fields. A damaged
        event has the kind ``damaged`` with ``was`` and ``why``, an unknown one ``unknown``; both ``value``, all of it.
    """
    kind, data, at = str(event.get("kind")), event.get("data"), event.get("at")
    if kind in SKIPPED:
        return None
    made: dict[str, Any] = {"n": number, "kind": kind, "at": at if _is_number(at) else 0}
    if kind == "damaged":  # a server says so of a line that it cannot read
        message = data.get("message") if isinstance(data, Mapping) else data
        return made | {"data": {"was": "", "why": brief(str(message), TEXT), "value": None}}
    fields = _KINDS.get(kind)
    if fields is None or not isinstance(data, Mapping):
        what = "unknown" if fields is None else "damaged"
        return made | {"kind": what, "data": {"was": brief(kind), "why": "", "value": node(data, limits)}}
    try:
        read = record(fields)(data, _Place((), limits))
        if kind == "call_ended" and "value" not in read:
            read["value"] = None  # a call may return nothing
        return made | {"data": read | _words(kind, data)}
    except FAILS as error:
        wrong = {"was": kind, "why": brief(f"{type(error).__name__}: {error}"), "value": node(data, limits)}
        return made | {"kind": "damaged", "data": wrong}


def _words(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the event says in words; nothing where its facts give none: its fields are shown all the same."""
    worded = WORDED.get(kind)
    try:
        return worded(data) if worded is not None else {}
    except FAILS:
        return {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def damage(error: TraceError, number: int = 0) -> dict[str, Any]:
    """A line of a trace that cannot be read, as the page shows it."""
    return {"n": number, "kind": "damaged", "at": 0, "data": {"was": "", "why": brief(str(error), TEXT), "value": None}}


def whole_value(event: Mapping[str, Any], pointer: str) -> Any:
    """The whole of a value of which an event shows a part, as a node that is not cut.

    Raises:
        UsageError: the pointer is none, or leads nowhere.
    """
    return node(value_at(event.get("data"), pointer), WHOLE)

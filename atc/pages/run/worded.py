"""Facts of events as sentences: what the page shows in words is worded where ``atc show`` words it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

from atc import wording
from atc.facts import BodyError, Drift, DryRun, Feed, Replacement
from atc.packing import as_text
from atc.pages.run.nodes import as_json, brief, plain
from atc.prices import money_text
from atc.result import SketchFacts
from atc.wording import outcomes, plans, sketches

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
    feeds = [Feed.model_validate_json(as_json(each)) for each in islice(data.get("feeds", ()), _MOST)]
    arguments = data.get("arguments")
    found = plans.origins(feeds, arguments if isinstance(arguments, Mapping) else {})
    origins = [
        [brief(name), *(_sentence(each) for each in (origin, part) if each)]
        for name, parts in found.items()
        for part, origin in parts
    ]
    return {"origins": origins} if origins else {}


def _called(data: Mapping[str, Any]) -> dict[str, Any]:
    drifts = islice(data.get("drift") or (), 20)
    found = [wording.drifted(Drift.model_validate(each)) for each in drifts]
    if data.get("body_error"):
        found.append(wording.stated(BodyError.model_validate(data["body_error"])))
    return {"drift": list(map(_sentence, found))} if found else {}


def _banned(data: Mapping[str, Any]) -> dict[str, Any]:
    substitutes = [Replacement.model_validate(each) for each in islice(data.get("substitutes", ()), 20)]
    return {"words": _sentence(wording.is_down(str(data["tool"])[:200], substitutes))}


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
            "calls": [
                {
                    "index": call.index,
                    "line": call.line,
                    "text": plain(plans.planned_call(call)[:_SENTENCE]),
                    "notes": [_sentence(note) for note in call.notes[:20]]
                    + [_sentence(plans.fed(feed, call.arguments)) for feed in call.feeds[:_FEEDS]]
                    + ([f"… and {left} more"] if (left := len(call.feeds) - _FEEDS) > 0 else []),
                }
                for call in found.planned[:_MOST]
            ],
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

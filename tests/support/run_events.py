"""Events of runs as a trace holds them: one of every kind with every field, many calls, what attackers would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atc._records.events import VERSION

ATTACKS = (
    "</script><script>window.__pwned=1</script>",
    "<img src=x onerror=window.__pwned=1><svg onload=window.__pwned=1>",
    "\"><iframe srcdoc='<script>parent.__pwned=1</script>'></iframe>",
    "javascript:window.__pwned=1",
    "<!--<script>{{7*7}}${window.__pwned=1}",
    "\u202egnp.exe\u2066\u200b\x1b[2J\x1b]0;x\x07\x00\ud800\u2028",
    "__proto__",
    "constructor",
)
PROGRAM = (
    '"""Weighs\nthings."""\nout = []\nfor n in range(3):\n    out.append(weigh(n=n))  # each\n'
    "book(place='x')\nanswer = {'all': out, 'n': 1_000}"
)
FAULT = {
    "kind": "tool",
    "tool": "book",
    "call": 2,
    "line": 6,
    "source_line": "book(place='x')",
    "message": "book failed",
    "evidence": "it answered 500",
    "hint": "wait",
    "traceback": "/tmp/t.txt",
    "by": "structure",
    "case": "failed",
}
VALUE = {
    "id": 7,
    "big": 2**70,
    "whole": 1.0,
    "list": [1, [2, {"deep": None}], True],
    "bytes": {"$bytes": "aGVsbG8="},
    "text": "line\nline",
    "long": "x" * 9_000,
    "1": "a",
    "0": "b",
    "__proto__": {"polluted": 1},
}


def call(index: int, **more: Any) -> dict[str, Any]:
    """The data of a ``call_ended`` event."""
    data = {"index": index, "attempt": 0, "tool": "weigh", "arguments": {"n": index}, "effect": "read", "status": "ok"}
    data |= {"value": {"tons": index * 1.5, "of": f"thing {index}"}, "error": None, "line": 5, "seconds": 0.002}
    return data | {"notes": [], "drift": [], "stage": 0} | more


def events_of(*kinds: tuple[str, dict[str, Any]], began: float = 1.79e9) -> list[dict[str, Any]]:
    """Events of these kinds and data, a tenth of a second apart."""
    return [{"v": VERSION, "kind": kind, "data": data, "at": began + n / 10} for n, (kind, data) in enumerate(kinds)]


def all_kinds() -> list[dict[str, Any]]:
    """A run in which everything happens."""
    started = {
        "run_id": "20261123-174345-bb624b",
        "task": "Weigh the things.",
        "model": "m",
        "endpoint": "https://e/v1",
        "tools": 9,
        "source": None,
        "strategy": "layered",
        "strategy_given": None,
        "settings": {"max_calls": 200},
        "images": [{"name": "i.png", "type": "image/png", "bytes": 12, "sha256": "0"}],
        "instructions": "Be kind.",
        "turn": 0,
        "earlier": [{"task": "x"}],
        "answer": {"annotation": "int"},
        "dry_run": True,
    }
    chosen = {
        "tools": ["weigh", "book"],
        "of": 9,
        "plan": "1. weigh",
        "queries": ["q"],
        "subgoals": ["g"],
        "sure": False,
        "layers": [["weigh"], ["book"]],
        "notices": ["note"],
        "stopped": "it",
        "feeds": [{"supplier": "weigh", "consumer": "book", "parameter": "place", "path": ["of"], "evidence": "seen"}],
        "substitutes": {"book": ["book2"]},
        "why": {"weigh": {"kind": "words"}, "book": {"kind": "all"}},
    }
    finding = {"kind": "unknown_key", "severity": "error", "message": "no such key", "line": 5, "source_line": "x"}
    replied = {
        "purpose": "program",
        "seconds": 0.3,
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "cached": True,
        "finish_reason": "stop",
        "text": "```python\n…```",
        "problem": "cut",
        "notice": "slow",
    }
    asked = {"index": 2, "tool": "book", "arguments": {"place": "x"}, "effect": "write", "line": 6}
    usage = {
        "model_calls": 2,
        "prompt_tokens": 24,
        "completion_tokens": 68,
        "model_seconds": 0.6,
        "tool_calls": 3,
        "tool_seconds": 0.01,
        "seconds": 2.5,
        "host_seconds": 0.1,
    }
    planned = {
        "planned": [
            {
                "index": 2,
                "tool": "book",
                "effect": "write",
                "line": 6,
                "arguments": {"place": "x"},
                "feeds": [{"argument": "place", "kind": "task"}],
                "notes": ["note"],
            }
        ],
        "stop": {"line": 7, "source_line": "answer", "reason": "it"},
        "unseen": [1],
    }
    return events_of(
        ("run_started", started),
        ("indexing", {"stage": "s", "done": 1, "total": 2}),
        ("tools_chosen", chosen),
        ("tool_probed", {"tool": "weigh", "arguments": {"n": 1}, "status": "ok", "learnt": True, "seconds": 0.1}),
        ("model_started", {"purpose": "program"}),
        ("model_waiting", {"purpose": "program", "seconds": 9, "silent": 9}),
        ("store_waiting", {"journal": "j"}),
        ("model_ended", replied),
        ("program_written", {"attempt": 0, "program": PROGRAM + "\n1", "rewrites": []}),
        ("findings", {"attempt": 0, "findings": [finding, finding | {"line": 99, "severity": "warning"}]}),
        ("model_started", {"purpose": "program"}),
        ("model_ended", replied),
        ("program_written", {"attempt": 1, "program": PROGRAM, "rewrites": ["respelt"], "inputs": {"a": [1]}}),
        (
            "program_started",
            {
                "attempt": 0,
                "warnings": ["unsure"],
                "linked": {"source": PROGRAM + "\ndef kept():\n    return 1", "hoisted": 1},
                "tools": {"weigh": {"parameters": ["n"], "digest": "d", "effect": "read"}},
            },
        ),
        *[
            ("call_started", {"index": n, "tool": "weigh", "arguments": {"n": n}, "effect": "read", "line": 5})
            for n in (1,)
        ],
        (
            "call_ended",
            call(
                1,
                value=VALUE,
                original={"m": 1},
                notes=["m was read as n"],
                awaits=[{"argument": "x"}],
                drift=[{"path": ["tons"], "what": "is missing"}],
            ),
        ),
        ("approval_asked", asked | {"warnings": ["careful"], "instead_of": ["book0"]}),
        ("call_started", asked),
        ("call_sent", {"index": 2}),
        (
            "call_ended",
            call(
                2,
                tool="book",
                effect="write",
                status="failed",
                error="500",
                service_message="oh",
                line=6,
                error_status=500,
                cause="broken",
                traceback="/tmp/t.txt",
                value=None,
            ),
        ),
        *[
            (
                "call_ended",
                call(
                    n,
                    status=("ok", "replayed", "refused", "in_doubt", "planned")[n % 5],
                    error="no" if n % 5 == 2 else None,
                ),
            )
            for n in range(3, 15)
        ],
        ("question_asked", {"question": "Which?", "number": 1}),
        (
            "program_ended",
            {
                "attempt": 0,
                "all_pages": [{"tool": "weigh", "arguments": {"n": 1}, "calls": [[1, ["items"], 2]], "failed": 2}],
                "kind": "raised",
                "seconds": 0.5,
                "detail": "it raised",
                "stdout": "out\n",
                "stderr": "err",
                "isolation": "process/L",
                "host_s": 0.01,
            },
        ),
        ("fault", {"attempt": 1, "fault": FAULT}),
        (
            "tool_banned",
            {"tool": "book", "call": 2, "effect": "write", "substitutes": [{"tool": "book2", "arguments": []}]},
        ),
        ("substituted", {"tool": "book", "by": "book2"}),
        ("call_settled", {"index": 2, "tool": "book", "outcome": "done", "by": "ann"}),
        ("call_undone", {"index": 2, "tool": "book", "run": "20261123-174345-bb624c"}),
        ("stage_started", {"stage": 1, "new_request": False, "inputs": {}}),
        ("layer_started", {"layer": 1, "tools": ["weigh"], "layers": [["weigh"]], "variables": ["v"]}),
        ("tools_chosen", {"tools": ["weigh"], "found": ["weigh"], "whole": []}),
        ("of_a_later_version", {"what": [VALUE]}),
        ("call_ended", call(1) | {"index": "none"}),
        ("answered", {"value": VALUE, "answer": "It is 7.", "program_value": VALUE}),
        (
            "run_ended",
            {
                "run_id": "20261123-174345-bb624b",
                "status": "planned",
                "answer": "",
                "usage": usage,
                "fault": FAULT,
                "cost": 0.0123,
                "currency": "EUR",
                "isolation": "process/L",
                "dry_run": planned,
            },
        ),
        ("run_started", started | {"turn": 1, "task": "And now?"}),
        ("answered", {"value": [1], "answer": ""}),
        (
            "run_ended",
            {"status": "needs_input", "question": "Which one?", "usage": usage, "fault": FAULT | {"case": "asked"}}
            | {"partial": True, "remarks": [FAULT, FAULT], "value": VALUE},
        ),
    )


def poisoned(value: Any, attack: str) -> Any:
    """The same with an attack at the end of every text and every key of a stranger's."""
    if isinstance(value, str):
        return value + attack
    if isinstance(value, Mapping):
        return {key: poisoned(each, attack) for key, each in value.items()} | {attack: attack}
    return [poisoned(each, attack) for each in value] if isinstance(value, list | tuple) else value


def hostile(attack: str) -> Iterator[dict[str, Any]]:
    """All kinds of events, with an attack wherever a text stands."""
    for event in all_kinds():
        yield event | {"data": poisoned(event["data"], attack)}


def many_calls(calls: int) -> list[dict[str, Any]]:
    """A run of one program with so many calls, most of them on one line."""
    first = all_kinds()[0]["data"] | {"dry_run": False}
    made = [("call_ended", call(n, status="failed" if n % 97 == 0 else "ok")) for n in range(1, calls + 1)]
    ended = {"status": "answered", "answer": "done", "usage": {"seconds": 3.0}}
    program = ("program_written", {"attempt": 0, "program": PROGRAM, "rewrites": []})
    return events_of(
        ("run_started", first),
        program,
        ("program_started", {"attempt": 0, "warnings": []}),
        *made,
        ("answered", {"value": 7, "answer": "done"}),
        ("run_ended", ended),
    )

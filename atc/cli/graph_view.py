"""What `atc graph show` and `atc graph path` print: facts of the tool graph as plain data, and as lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from atc.cli.console import clean, out, print_table, short
from atc.graph.edges import Counts, Evidence, Feed, Substitute
from atc.graph.substitutes import same_parameters
from atc.graph.tool_graph import ToolGraph
from atc.result import Effect
from atc.tools.observed import is_documented
from atc.tools.protocol import Protocol, parameters_of
from atc.wording.sketches import WORDS, WORDS_OF_SUBSTITUTES, path_text, place_text

if TYPE_CHECKING:
    from atc.graph.search import ToolPath

SAME = 6
"""Arguments of other tools that are named as meaning the same."""
_STYLES: Mapping[Evidence, str] = {
    "corrected": "magenta",
    "seen": "green",
    "stated": "cyan",
    "names": "dim",
    "predicted": "yellow",
}


def described(graph: ToolGraph, tool: str) -> dict[str, Any]:
    """All that the graph holds about one tool, as plain data."""
    protocol, learnt = graph.protocols[tool], graph.learnt
    into = graph.feeds(tool)
    out_of = [feed for other in graph.protocols if other != tool for feed in graph.feeds(other)]
    return {
        "tool": tool,
        "effect": protocol.effect.value,
        "service": protocol.source.service,
        "description": protocol.description,
        "arguments": [{"name": each.original, "required": each.required} for each in parameters_of(protocol)],
        "response": "documented"
        if is_documented(protocol.returns)
        else "observed"
        if tool in learnt.shapes
        else "unknown",
        "calls": _counted(learnt.calls.get(tool)),
        "stood_in": {str(layer): round(times, 2) for layer, times in sorted(learnt.habits.get(tool, {}).items())},
        "fed_by": [_fed(feed) for feed in into],
        "feeds": [_fed(feed) for feed in out_of if feed.supplier.tool == tool],
        "substitutes": [_substitute(each) for each in graph.substitutes(tool)],
        "followed_by": _after(((b, counts) for (a, b), counts in learnt.follows.items() if a == tool)),
        "follows": _after(((a, counts) for (a, b), counts in learnt.follows.items() if b == tool)),
        "taken_away": [
            {"from": place_text(supplier, path), "to": f"{consumer}.{parameter}"}
            for (supplier, path, consumer, parameter), there in learnt.corrected_feeds.items()
            if not there and tool in (supplier, consumer)
        ],
        "means": _meanings(graph, tool),
        "respelt": dict(sorted(learnt.respellings.get(tool, {}).items())),
        "not_substitutes": sorted(
            by for (one, by), there in learnt.corrected_substitutes.items() if one == tool and not there
        ),
    }


def _meanings(graph: ToolGraph, tool: str) -> list[dict[str, Any]]:
    """For each argument those of other tools that mean the same."""
    return [
        {"name": name, "same": [f"{each.tool}.{each.path[0]}" for each in same[:SAME]], "others": len(same)}
        for name, same in same_parameters(graph, tool).items()
    ]


def _fed(feed: Feed) -> dict[str, Any]:
    into = (feed.parameter, *feed.supplier.inside)
    return {
        "from": place_text(feed.supplier.tool, feed.supplier.path),
        "to": place_text(feed.consumer, into),
        "supplier": feed.supplier.tool,
        "path": list(feed.supplier.path),
        "consumer": feed.consumer,
        "parameter": feed.parameter,
        "argument": path_text(into),
        "evidence": feed.evidence,
        "why": WORDS[feed.evidence],
        "weight": round(feed.weight, 4),
        "seen": round(feed.seen, 2),
    }


def _substitute(each: Substitute) -> dict[str, Any]:
    return {
        "by": each.by,
        "weight": round(each.weight, 4),
        "evidence": list(each.why),
        "why": ", ".join(WORDS_OF_SUBSTITUTES[kind] for kind in each.why),
        "arguments": dict(each.arguments),
    }


def _counted(counts: Counts | None) -> dict[str, float]:
    counts = counts or Counts()
    return {"ok": round(counts.ok, 2), "failed": round(counts.failed, 2), "last": counts.last}


def _after(pairs: Iterable[tuple[str, Counts]]) -> list[dict[str, Any]]:
    rows = [{"tool": tool, **_counted(counts)} for tool, counts in pairs]
    return sorted(rows, key=lambda row: (-row["ok"], row["tool"]))


def print_tool(found: Mapping[str, Any]) -> None:
    """What :func:`described` gives, as people read it."""
    tool = found["tool"]
    origin = f", {found['service']}" if found["service"] else ""
    _say(f"{tool} ({found['effect']}{origin}): {short(found['description'], 200)}", "bold")
    _say(_calls_text(found["calls"]))
    if found["stood_in"]:
        stood = (f"{int(layer) + 1} ({times:g}×)" for layer, times in found["stood_in"].items())
        _say(f"in their programs it stood in layer {', '.join(stood)}")
    if found["response"] != "documented":
        _say(
            "its response is documented nowhere"
            + (", and was observed in runs" if found["response"] == "observed" else "")
        )
    _table(
        "what feeds it", ("argument", "from"), [_row(each, each["argument"], each["from"]) for each in found["fed_by"]]
    )
    fed = {each["parameter"] for each in found["fed_by"]}
    if rest := [each["name"] for each in found["arguments"] if each["name"] not in fed]:
        _say(f"nothing feeds {', '.join(rest)}", "dim")
    _table(
        "what it feeds",
        ("field", "into"),
        [_row(each, path_text(each["path"]) or "?", each["to"]) for each in found["feeds"]],
    )
    _table(
        "what can take its place",
        ("tool", "weight", "why", "arguments"),
        [
            (Text(clean(each["by"])), f"{each['weight']:.2f}", each["why"], Text(clean(_pairs(each["arguments"]))))
            for each in found["substitutes"]
        ],
    )
    for each in found["means"]:
        if each["same"]:
            more = f" and {each['others'] - SAME:,} more" if each["others"] > SAME else ""
            _say(f"{each['name']} means the same as {', '.join(each['same'])}{more}")
    for key, parameter in found["respelt"].items():
        _say(f"{key} was read as {parameter}")
    for title, rows in (("ran right after it", found["followed_by"]), ("ran right before it", found["follows"])):
        if rows:
            _say(f"{title}: " + ", ".join(f"{row['tool']} ({row['ok']:g}×)" for row in rows[:10]))
    for each in found["taken_away"]:
        _say(f"taken away by you: {each['from']} → {each['to']}", "magenta")
    if found["not_substitutes"]:
        _say(f"not in its place, you say: {', '.join(found['not_substitutes'])}", "magenta")


def path_facts(path: ToolPath, tools: Mapping[str, Protocol]) -> dict[str, Any]:
    """A path as plain data."""
    return {
        "tools": list(path.tools),
        "writes": [each for each in path.tools if tools[each].effect is Effect.WRITE],
        "cost": round(path.cost, 3),
        "feeds": [_fed(feed) for feed in path.feeds],
        "open": [place_text(tool, parameter.split(".")) for tool, parameter in path.open],
    }


def print_path(found: Mapping[str, Any]) -> None:
    """What :func:`path_facts` gives, as people read it."""
    _say(" → ".join(f"{each} (write)" if each in found["writes"] else each for each in found["tools"]), "bold")
    for each in found["feeds"]:
        _say(f"  {each['from']} → {each['to']}  {each['why']}, {each['weight']:.2f}", _STYLES[each["evidence"]])
    if found["open"]:
        _say(f"  still needed: {', '.join(found['open'])}", "dim")


def _say(text: str, style: str = "") -> None:
    out.print(Text(clean(text), style))


def _calls_text(calls: Mapping[str, float]) -> str:
    if not calls["ok"] and not calls["failed"]:
        return "no run has called it yet"
    last = f", the last on {time.strftime('%Y-%m-%d', time.gmtime(calls['last']))}" if calls["last"] else ""
    times = "1 call" if calls["ok"] == 1 else f"{calls['ok']:g} calls"
    return f"{times} in answered runs, {calls['failed']:g} that failed{last}"


def _pairs(arguments: Mapping[str, str]) -> str:
    return ", ".join(name if name == other else f"{name} = {other}" for name, other in arguments.items())


def _row(each: Mapping[str, Any], one: str, other: str) -> tuple[Text | str, ...]:
    seen = f"{each['seen']:g}×" if each["seen"] else ""
    evidence: Evidence = each["evidence"]
    return Text(clean(one)), Text(clean(other)), Text(each["why"], _STYLES[evidence]), f"{each['weight']:.2f}", seen


def _table(title: str, first: Sequence[str], rows: Sequence[tuple[Text | str, ...]]) -> None:
    if not rows:
        _say(f"{title}: nothing", "dim")
        return
    out.print()
    _say(title, "bold")
    columns = first if len(first) == len(rows[0]) else (*first, "why", "weight", "seen")
    table = Table(*columns, box=None, header_style="dim")
    for row in rows:
        table.add_row(*row)
    print_table(table)

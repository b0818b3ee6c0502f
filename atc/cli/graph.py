"""``atc graph``: look at what the tools feed each other and what runs taught, and correct it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from atc.catalogue.graph.edges import Counts, Evidence, Feed, Substitute
from atc.catalogue.graph.substitutes import same_parameters
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli import options
from atc.cli.console import (
    clean,
    err,
    guarded,
    out,
    print_json,
    print_table,
    short,
)
from atc.errors import UsageError
from atc.schemas.observed import is_documented
from atc.schemas.protocol import Protocol, parameters_of
from atc.settings import Settings
from atc.wording.sketches import (
    WORDS,
    WORDS_OF_SUBSTITUTES,
    known_tool,
    path_text,
    place_text,
    read_feed,
    read_parameter,
)

if TYPE_CHECKING:
    from atc.catalogue.graph.store import GraphStore


app = typer.Typer(
    help="Show which tool's response gives another tool's argument, and why; correct it.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="The tool's name.")]


@app.callback()
def graph() -> None:
    """Show which tool's response gives another tool's argument, and why; correct it. No model is needed."""


@app.command()
@guarded
@options.takes()
def show(
    tool: Name,
    source: options.Source,
    as_json: options.Json = False,
) -> None:
    """Show which tools a tool needs, which need it, which can take its place, and why."""
    opened = _graph(source)
    found = described(opened, known_tool(tool, opened.protocols))
    if as_json:
        print_json(found)
    else:
        print_tool(found)


@app.command("list")
@guarded
@options.takes()
def list_(source: options.Source, as_json: options.Json = False) -> None:
    """List which tool's response gives which argument of another, and why."""
    opened = _graph(source)
    found = [_fed(feed) for tool in opened.protocols for feed in opened.told_feeds(tool)]
    if as_json:
        print_json(found)
    else:
        _table("what feeds what", ("from", "into"), [_row(each, each["from"], each["to"]) for each in found])


@app.command()
@guarded
@options.takes()
def correct(
    one: Annotated[
        str, typer.Argument(metavar="FROM", help="TOOL.FIELD; with --instead: TOOL; with --same: TOOL.ARGUMENT.")
    ],
    other: Annotated[str, typer.Argument(metavar="TO", help="TOOL.ARGUMENT that takes it; with --instead: a tool.")],
    source: options.Source,
    there: Annotated[
        bool | None,
        typer.Option("--exists/--absent", help="It is so, whatever runs and documents show; or it is not."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take your correction back.")] = False,
    instead: Annotated[bool, typer.Option("--instead", help="About tools: TO can take the place of FROM.")] = False,
    same: Annotated[bool, typer.Option("--same", help="About arguments of two tools: they mean the same.")] = False,
    as_json: options.Json = False,
) -> None:
    """State that a field gives an argument, a tool can take another's place, or two arguments mean the same; or not.

    Example: `atc graph correct -t shop.yaml search_user.results[].id get_user.user_id --exists`.
    """
    if clear == (there is not None):
        raise UsageError(
            "give one of three: --exists (it is so), --absent (it is not) or --clear (take your correction back)"
        )
    protocols = _protocols(source)
    if instead and same:
        raise UsageError("--instead is about two tools, --same about two arguments: give one of them")
    edge: dict[str, object]
    if same:
        first, second = read_parameter(one, protocols, "the first"), read_parameter(other, protocols, "the second")
        with _store() as store:
            store.correct_same(protocols, first, second, there)
        edge = {"same": [".".join(first), ".".join(second)]}
        what = f"{'.'.join(first)} means the same as {'.'.join(second)}"
    elif instead:
        tool, by = known_tool(one, protocols), known_tool(other, protocols)
        if tool == by:
            raise UsageError("a tool cannot take its own place: name two")
        with _store() as store:
            store.correct_substitute(protocols, tool, by, there)
        edge, what = {"tool": tool, "by": by}, f"{by} in place of {tool}"
    else:
        with _store() as store:
            feed = read_feed(one, other, protocols, store.learnt(protocols).shapes)
            store.correct_feed(protocols, feed, there)
        supplier, place, consumer, parameter = feed
        edge = {"supplier": supplier, "path": list(place), "consumer": consumer, "parameter": parameter}
        what = f"{place_text(supplier, place)} → {consumer}.{parameter}"
    if as_json:
        print_json({**edge, "there": there})
    else:
        _say(f"{what}: {'your correction is taken back' if there is None else 'yes' if there else 'no'}")


@app.command()
@guarded
@options.takes()
def forget(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOOL]...", help="The tools to forget; default: all of --tools.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget all tools, of all services.")] = False,
    source: options.Source = options.NOWHERE,
    as_json: options.Json = False,
) -> None:
    """Forget what runs taught about tools, predictions, your corrections and the ranking that was learnt for them.

    With only --tools, it forgets all tools of that source, including those that it no longer has.
    """
    if everything and names:
        raise UsageError("--all forgets all tools of all services: leave the names out, or leave --all out")
    if everything and source.tools:
        raise UsageError("--all forgets all tools of all services: leave --all out to forget those of --tools")
    if not (everything or names or source.tools):
        raise UsageError("name the tools to forget, or a source with --tools, or give --all to forget everything")
    if names and not source.tools:
        raise UsageError("say with --tools where the tools are: a name may stand for tools of several services")
    chosen: dict[str, Protocol] | None = None
    if source.tools:
        protocols = _protocols(source)
        chosen = {known_tool(name, protocols): protocols[name] for name in names or protocols}
    with _store() as store:
        facts = store.forget(chosen, whole=not (names or source.only))
    if as_json:
        print_json({"forgotten": sorted(chosen) if chosen else "all", "facts": facts})
    else:
        whose = (
            "all tools" if chosen is None else ", ".join(chosen) if names else f"all tools of {', '.join(source.tools)}"
        )
        _say(f"forgot {facts:,} fact{'s' * (facts != 1)} about {whose}")


def _protocols(source: options.Source) -> dict[str, Protocol]:
    return {name: tool.protocol for name, tool in source.opened().items()}


def _graph(source: options.Source) -> ToolGraph:
    protocols = _protocols(source)
    with _store() as store:
        return ToolGraph(protocols, store.learnt(protocols))


@contextmanager
def _store() -> Iterator[GraphStore]:
    from atc.catalogue.catalogue import store_in

    store = store_in(Settings.load().catalogue)
    try:
        yield store
    finally:
        store.close()
        if store.notice:
            err.print(f"atc: {clean(store.notice)}", markup=False, style="yellow")


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
    calls = learnt.calls.get(tool, Counts())
    observed = "observed" if tool in learnt.shapes else "unknown"
    response = "documented" if is_documented(protocol.returns) else observed
    out_of = [feed for other in graph.protocols if other != tool for feed in graph.feeds(other)]
    return {
        "tool": tool,
        "effect": protocol.effect.value,
        "service": protocol.source.service,
        "description": protocol.description,
        "arguments": [{"name": each.original, "required": each.required} for each in parameters_of(protocol)],
        "response": response,
        "calls": {"ok": round(calls.ok, 2), "failed": round(calls.failed, 2), "last": calls.last},
        "fed_by": [_fed(feed) for feed in graph.feeds(tool)],
        "feeds": [_fed(feed) for feed in out_of if feed.supplier.tool == tool],
        "substitutes": [_substitute(each) for each in graph.substitutes(tool)],
        "taken_away": [
            {"from": place_text(supplier, path), "to": f"{consumer}.{parameter}"}
            for (supplier, path, consumer, parameter), there in learnt.corrected_feeds.items()
            if not there and tool in (supplier, consumer)
        ],
        "means": [
            {"name": name, "same": [f"{each.tool}.{each.path[0]}" for each in same[:SAME]], "others": len(same)}
            for name, same in same_parameters(graph, tool).items()
        ],
        "respelt": dict(sorted(learnt.key_aliases.get(tool, {}).items())),
        "not_substitutes": sorted(
            by for (one, by), there in learnt.corrected_substitutes.items() if one == tool and not there
        ),
    }


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


def print_tool(found: Mapping[str, Any]) -> None:
    """What :func:`described` gives, as people read it."""
    tool = found["tool"]
    origin = f", {found['service']}" if found["service"] else ""
    _say(f"{tool} ({found['effect']}{origin}): {short(found['description'], 200)}", "bold")
    _say(_calls_text(found["calls"]))
    if found["response"] != "documented":
        observed = ", and was observed in runs" if found["response"] == "observed" else ""
        _say(f"its response is documented nowhere{observed}")
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
    for each in found["taken_away"]:
        _say(f"taken away by you: {each['from']} → {each['to']}", "magenta")
    if found["not_substitutes"]:
        _say(f"not in its place, you say: {', '.join(found['not_substitutes'])}", "magenta")


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

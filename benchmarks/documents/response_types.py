"""How much of an answer's keys a stub shows that nobody wrote, after one, three and ten earlier answers of the tool.

``python -m benchmarks.documents.response_types --data DIR [--tools SOURCE …] [--json]`` reads recorded answers of
tools: those of the gold calls of ``DIR/executable/*/tasks.jsonl.gz``, and
``DIR/failures/toolbench_response_cache.jsonl.gz``, real services of which the answers count that still are whole JSON
objects or lists. No answer is read twice for the same arguments of a tool.

They are observed one by one, as runs teach them: keys that are surely names, types and counts. Then every *later*
answer is held against the stub: the share of its keys, at every level, that stands there (*shown*), the share that does
not because it is not surely a name (*no name*), and the share that no earlier answer had (*new*). Keys of dictionaries,
which are data, are no keys to be shown. *whole*: later answers of which every key is shown. Shares are means over
tools, of the mean over their later answers.

It also counts the tools of each source whose own document has a schema of the response; ``--tools`` adds sources of
your own, as ``atc run`` takes them. Last, whom a check by observed keys would wrong: *odd* answers have a key that is
new, though the stub shows every key of all earlier ones.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from atc.catalogue.graph.lessons import MAX_TEXT
from atc.cli.console import guarded
from atc.schemas.infer.outline import Outline, merged, outline_of, vocabulary
from atc.schemas.observed import is_documented
from atc.tools.sources import open_tools
from benchmarks.common import AsJson, Data, print_json, show

AFTER = (1, 3, 10)
"""Earlier answers."""
SERVICES = "services (cache)"
MAX_ANSWERS = 40
"""Answers of one tool that are looked at."""


@dataclass
class Recorded:
    """A tool of a source: the words of its document, whether that has a response schema, and its answers in order."""

    words: frozenset[str] = frozenset()
    declared: bool = False
    answers: list[Any] | None = None


@dataclass
class Row:
    """What the stubs of one source showed of later answers."""

    source: str
    after: int
    tools: int
    answers: int
    shown: float
    no_name: float
    new: float
    whole: float
    checked: int
    odd: float


def recorded(data: Path) -> dict[str, dict[str, Recorded]]:
    """The tools of each source by name."""
    found: dict[str, dict[str, Recorded]] = {}
    for folder in sorted((data / "executable").iterdir()):
        tools = {each["name"]: _tool(each) for each in _lines(folder / "tools.jsonl.gz")}
        seen: set[str] = set()
        for task in _lines(folder / "tasks.jsonl.gz"):
            for call in _calls(task):
                _add(tools, seen, call["tool"], call.get("resolved", call.get("args")), _answer(call))
        found[folder.name] = tools
    services: dict[str, Recorded] = defaultdict(Recorded)
    seen = set()
    for call in _lines(data / "failures" / "toolbench_response_cache.jsonl.gz"):
        if call["label"] == "ok":
            services[call["tool"]].words = vocabulary([call["tool"].rpartition("/")[2], *call["args"]])
            _add(services, seen, call["tool"], call["args"], _parsed(call["response"]))
    found[SERVICES] = services
    return found


def _tool(document: dict[str, Any]) -> Recorded:
    parameters = document.get("parameters") or {}
    properties = parameters.get("properties", parameters)
    texts = [str(each.get("description") or "") for each in properties.values() if isinstance(each, dict)]
    words = vocabulary([document["name"], document["description"][:MAX_TEXT], *properties, *texts])
    returns = document.get("returns")
    properties = returns.get("properties", returns) if isinstance(returns, dict) else None
    return Recorded(words, bool(properties), None)


def _calls(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    turns = task.get("turns") or []
    for call in [
        *(task.get("gold") or []),
        *(c for turn in turns if isinstance(turn, dict) for c in turn.get("gold") or ()),
    ]:
        if isinstance(call, dict) and "tool" in call and not call.get("error"):
            yield call
    for turn in task.get("gold_turns") or []:
        for call in filter(lambda each: isinstance(each, dict), turn):
            name = str(call.get("call", "")).partition("(")[0]
            yield {"tool": name, "args": call.get("call"), "output": call.get("output")}


def _answer(call: dict[str, Any]) -> Any:
    answer = call.get("response", call.get("output"))
    return _parsed(answer) if isinstance(answer, str) else answer


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _add(tools: dict[str, Recorded], seen: set[str], name: str, arguments: Any, answer: Any) -> None:
    key = json.dumps([name, arguments], sort_keys=True)
    if not isinstance(answer, dict | list) or not answer or key in seen:
        return
    seen.add(key)
    tool = tools.setdefault(name, Recorded())
    tool.answers = tool.answers or []
    if len(tool.answers) < MAX_ANSWERS:
        tool.answers.append(answer)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        for line in file:
            yield json.loads(line)


# -- what a stub shows -------------------------------------------------------------------------------------------------

Place = tuple[str, ...]


def held(answer: Any, outline: Outline | None, earlier: set[Place]) -> tuple[int, int, int]:
    """Of the places of keys in an answer: how many an outline shows, how many it left out, and how many are new."""
    shown: set[Place] = set()
    left_out: set[Place] = set()
    new: set[Place] = set()
    todo: list[tuple[Any, Outline | None, Place]] = [(answer, outline, ())]
    while todo:
        value, known, place = todo.pop()
        if isinstance(value, list):
            todo += [(item, known.items if known else None, (*place, "[]")) for item in value]
        elif isinstance(value, dict):
            for key, part in value.items():
                at = (*place, key)
                field = known.fields.get(key) if known else None
                if field is None and known is not None and known.values is not None and at not in earlier:
                    todo.append((part, known.values, (*place, "*")))
                    continue
                (shown if field is not None else left_out if at in earlier else new).add(at)
                todo.append((part, field, at))
    return len(shown), len(left_out), len(new)


def places(answer: Any, place: Place = ()) -> set[Place]:
    """The places of all keys in an answer."""
    if isinstance(answer, list):
        return set[Place]().union(*(places(item, (*place, "[]")) for item in answer))
    if not isinstance(answer, dict):
        return set()
    inner = (places(part, (*place, key)) for key, part in answer.items())
    return {(*place, key) for key in answer}.union(*inner)


def row(source: str, tools: dict[str, Recorded], after: int) -> Row | None:
    """What later answers find in the stubs; ``None`` where no tool of a source has so many."""
    of_tools: list[tuple[float, float, float, float]] = []
    answers, complete = 0, list[bool]()
    for tool in tools.values():
        some = tool.answers or []
        if len(some) <= after:
            continue
        outline = outline_of(some[:1], tool.words)
        for each in some[1:after]:
            outline = merged(outline, outline_of([each], tool.words))
        earlier = set[Place]().union(*map(places, some[:after]))
        counts = [held(each, outline, earlier) for each in some[after:]]
        if all(held(each, outline, earlier)[1:] == (0, 0) for each in some[:after]):
            complete += [each[2] > 0 for each in counts]
        counts = [each for each in counts if sum(each)]
        if counts:
            answers += len(counts)
            shares = [tuple(part / sum(each) for part in each) for each in counts]
            means = [fmean(each[n] for each in shares) for n in range(3)]
            of_tools.append((means[0], means[1], means[2], fmean(each[0] == 1 for each in shares)))
    if not of_tools:
        return None
    shown, no_name, new, whole = (fmean(each[n] for each in of_tools) for n in range(4))
    odd = fmean(complete) if complete else 0.0
    return Row(source, after, len(of_tools), answers, shown, no_name, new, whole, len(complete), odd)


@guarded
def main(
    data: Data,
    tools: Annotated[
        list[str] | None, typer.Option(help="A source whose own types are counted; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold later answers of tools against what earlier ones taught."""
    found = recorded(data)
    declared: list[tuple[object, ...]] = []
    for source in tools or ():
        own = open_tools([source]).values()
        declared.append((source[-20:], len(own), sum(is_documented(tool.protocol.returns) for tool in own), ""))
    for source, known in found.items():
        answered = sum(bool(tool.answers) for tool in known.values())
        declared.append((source, len(known), sum(tool.declared for tool in known.values()), answered))
    rows = [made for source, known in found.items() for after in AFTER if (made := row(source, known, after))]
    whole = {f"{source}/{name}": tool for source, known in found.items() for name, tool in known.items()}
    rows += [made for after in AFTER if (made := row("all", whole, after))]
    if as_json:
        print_json({"rows": [asdict(each) for each in rows]})
        return
    show("Response types of their own", ("source", "tools", "declare", "answered"), declared)
    columns = ("source", "after", "tools", "answers", "shown", "no name", "new", "whole", "checked", "odd")
    shares = [
        (r.source, r.after, r.tools, r.answers, *(f"{each:.1%}" for each in (r.shown, r.no_name, r.new, r.whole)),
         r.checked, f"{r.odd:.1%}")
        for r in rows
    ]  # fmt: skip
    show("Keys of later answers in the stub", columns, shares)


if __name__ == "__main__":
    typer.run(main)

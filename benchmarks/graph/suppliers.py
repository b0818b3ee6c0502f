"""What is suggested as the source of an identifier argument: is the first suggestion the right one?

``python -m benchmarks.graph.suppliers --data DIR`` takes OpenAPI documents (those of
:mod:`benchmarks.documents.openapi_import` that have an identifier argument and a read that could supply one) and the
tools of four environments that are typed functions (:data:`TYPED`). It collects all arguments that are identifiers, and
the tool graph names the suppliers of each, as hints in prompts do; all tools of the document are offered. Two truths
judge what it names first:

* *readers*: two readers saw cards of some arguments, which name no tool, and marked which of at most twelve reads are
  right sources, and at which field, or none of them. ``suppliers.jsonl`` keeps hashes and labels, no text. What was
  labelled later is counted by itself: nobody looked at it while the graph was improved.
* *paths*, a proxy that needs no reader: ``GET /xs`` supplies what ``/xs/{id}`` takes. Another source may be as right,
  so a first suggestion that the proxy does not know is no mistake; a change of the share is what it shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from atc.catalogue.graph.suppliers import Supplier, fields_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli.console import guarded, out
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.identifiers import words_of
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of
from atc.schemas.validate import resolve, types_of
from atc.tools.openapi.importer import read_openapi
from atc.tools.openapi.transport import OperationTransport
from atc.tools.tool import Tool
from benchmarks.common import AsJson, print_json, share, show
from benchmarks.documents.openapi_import import documents
from benchmarks.environments import open_environment

LABELS = Path(__file__).with_suffix(".jsonl")
TYPED = ("api_bank", "atlas", "bfcl", "workbench")
"""Environments whose tools are functions with types."""
IDENTIFYING = frozenset(
    "id uuid guid slug sku iata icao isbn imdb code symbol number reference handle login username email sid key".split()
)
"""Last words of what a resource is addressed by: a list of the ruler's own, so that no change of ATC's changes it."""
NAMING = frozenset({"name", "title", "domain", "uri", "path", "tag"})
"""Last words that address a resource in a path or in a function's arguments, and may be plain content elsewhere."""
NO_RESOURCE = frozenset(
    "version format api lat lon latitude longitude date year month day language lang locale".split()
)
"""Words of arguments that no service hands out, wherever they stand."""
Truth = Literal["source", "none", "differ"]
Judgement = Literal["right", "other field", "disputed", "wrong", "not on the card", "nothing"]
_SECRET = frozenset({"api", "access", "oauth", "auth", "secret", "idempotency", "private", "public"})
_GIVEN = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Argument:
    """An identifier argument: the key of its tool in a set, its name, and whether it stands in the path."""

    tool: str
    name: str
    in_path: bool


class ToolSet:
    """The tools of one document or environment, and what can be read off them without a look at the graph.

    Args:
        name: of the document or the environment.
        tools: by name.
        operations: the method and path of each; empty where they are functions.
    """

    def __init__(
        self, name: str, tools: Mapping[str, Protocol], operations: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        self.name, self.tools, self.operations = name, tools, operations or {}

    def key(self, tool: str) -> str:
        """The hash of a tool by its method and path, or by the function's name: never by the name that ATC gives."""
        return hashed(self.name, " ".join(self.operations.get(tool, (tool,))))

    def card(self, argument: Argument) -> str:
        """The hash by which an argument is labelled."""
        return hashed(self.key(argument.tool), argument.name)

    @cached_property
    def graph(self) -> ToolGraph:
        return ToolGraph([*self.tools.values()])

    @cached_property
    def by_key(self) -> dict[str, str]:
        return {self.key(tool): tool for tool in self.tools}

    def named(self, argument: Argument) -> Sequence[Supplier]:
        """What the graph names as suppliers of an argument, the surest first."""
        return self.graph.suppliers_into(argument.tool).get(argument.name, [])

    @cached_property
    def arguments(self) -> list[Argument]:
        """The identifier arguments of all tools."""
        return [
            Argument(tool, each.original, in_path)
            for tool, protocol in self.tools.items()
            for each in parameters_of(protocol)
            for in_path in [each.original in _GIVEN.findall(self._path(tool))]
            if is_addressing(each.original, resolve(protocol.parameters, each.schema), in_path or not self.operations)
        ]

    @cached_property
    def reads(self) -> dict[str, list[str]]:
        """The reads whose response has a field that could be an identifier: their fields."""
        found = {}
        for tool, protocol in self.tools.items():
            fields = fields_on(protocol.returns)
            if protocol.effect is Effect.READ and any(_is_candidate(field) for field in fields):
                found[tool] = fields
        return found

    def parent(self, argument: Argument) -> str | None:
        """The read of ``/xs`` for an argument in ``/xs/{id}``; ``None`` where there is none."""
        before = self._path(argument.tool).partition("{" + argument.name + "}")[0]
        if not argument.in_path or not before.endswith("/"):
            return None
        return self._gets.get(_plain(before))

    @cached_property
    def _gets(self) -> dict[str, str]:
        gets = {
            _plain(path): tool
            for tool, (method, path) in self.operations.items()
            if method == "GET" and self.tools[tool].returns is not None
        }
        return {path: tool for path, tool in gets.items() if not path.endswith("{}") and path}

    def _path(self, tool: str) -> str:
        return self.operations[tool][1] if tool in self.operations else ""


def hashed(*parts: str) -> str:
    """A short hash of some texts: it stands for them where they are not ours to publish."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def is_addressing(name: str, schema: JsonSchema, by_name: bool) -> bool:
    """Whether an argument addresses a resource.

    Args:
        name: of the argument.
        schema: of it.
        by_name: it stands in a path, or is a function's: a name addresses a resource there, too.
    """
    words = words_of(name)
    if not words or "enum" in schema or types_of(schema) & {"boolean", "object"} or not NO_RESOURCE.isdisjoint(words):
        return False
    if words == ("key",) or not _SECRET.isdisjoint(words):
        return False
    return words[-1] in (IDENTIFYING | NAMING if by_name else IDENTIFYING)


def fields_on(returns: JsonSchema | None) -> list[str]:
    """The fields of a response as a reader writes them: ``items[].id``; the response itself where it is one value."""
    if returns is None:
        return []
    return [*dict.fromkeys(written(path) for path in fields_of(returns))] or ["response"]


def written(path: Sequence[str]) -> str:
    """A place in a response as cards and labels have it: ``items[].id``."""
    return ".".join(path).replace(".[]", "[]") or "response"


def place_hash(tool_key: str, place: str) -> str:
    """The hash by which a field of a tool is labelled; whether its steps are lists makes no difference."""
    return hashed(tool_key, place.strip().replace("[]", ""))


def _is_candidate(field: str) -> bool:
    words = words_of(field.rpartition(".")[2])
    return bool(words) and (words[-1] in IDENTIFYING | NAMING or field == "response")


def _plain(path: str) -> str:
    return _GIVEN.sub("{}", path.partition("?")[0]).strip("/")


# -- the tool sets -------------------------------------------------------------------------------------------------


def tool_sets(data: Path) -> Iterator[ToolSet]:
    """The documents with an identifier argument and a read that could supply it, and the typed functions."""
    for name, document in documents(data):
        try:
            tools = read_openapi(document).toolset
        except UsageError:
            continue
        operations = {tool.name: operation_of(tool) for tool in tools.values()}
        made = ToolSet(name, {tool.name: tool.protocol for tool in tools.values()}, operations)
        if any(made.reads.keys() - {each.tool} for each in made.arguments):
            yield made
    for name in TYPED:
        environment = open_environment(name, data)
        found: dict[str, Protocol] = {}
        for task in environment.tasks():
            if not found.keys() >= set(task.tools):
                found |= {each.name: each for each in environment.open(task).tools.protocols}
        yield ToolSet(name, found)


def operation_of(tool: Tool) -> tuple[str, str]:
    """The method and the path of a tool of an OpenAPI document."""
    if not isinstance(tool.transport, OperationTransport):
        raise TypeError(f"{tool.name} is no operation of a document")
    return tool.transport.operation.method, tool.transport.operation.path


# -- labels and figures ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Label:
    """What readers say of one argument: the tools on its card, and the tools and fields that each reader marked.

    Attributes:
        draw: the cards of which it was one: 1 for the first ones.
    """

    card: str
    candidates: frozenset[str]
    right: tuple[frozenset[tuple[str, str]], ...]
    draw: int = 1

    @property
    def tools(self) -> tuple[frozenset[str], ...]:
        """The tools that each reader marked."""
        return tuple(frozenset(tool for tool, _ in marks) for marks in self.right)

    @property
    def both(self) -> frozenset[str]:
        """The tools that all readers marked."""
        return frozenset.intersection(*self.tools)

    @property
    def truth(self) -> Truth:
        """Whether all readers mark one source, all mark none, or they differ."""
        return "source" if self.both else "differ" if any(self.right) else "none"

    def judged(self, tool: str, place: str) -> Judgement:
        """What a suggestion is worth, given the hashes of its tool and its field."""
        if tool in self.both:
            return "right" if any((tool, place) in marks for marks in self.right) else "other field"
        if any(tool in marked for marked in self.tools):
            return "disputed"
        return "wrong" if tool in self.candidates else "not on the card"


def read_labels(path: Path = LABELS) -> dict[str, Label]:
    """The labels that are kept, by card."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.is_file() else ()
    return {
        row["card"]: Label(
            row["card"],
            frozenset(row["candidates"]),
            tuple(frozenset((tool, place) for tool, place in marks) for marks in row["right"]),
            row.get("draw", 1),
        )
        for row in rows
    }


@dataclass(frozen=True)
class Found:
    """What the graph named first for an argument, and what that is worth.

    Attributes:
        groups: what the argument is counted under.
        judgement: of the first suggestion.
        second: the right tool is among the first two, which prompts show.
    """

    groups: tuple[str, ...]
    truth: Truth
    judgement: Judgement
    second: bool


def by_readers(sets: Iterable[ToolSet], labels: Mapping[str, Label]) -> list[Found]:
    """The suggestions for the arguments that readers labelled."""
    found = []
    for each in sets:
        for argument in each.arguments:
            if (label := labels.get(each.card(argument))) is not None:
                named = [
                    (key := each.key(one.tool), place_hash(key, written(one.path))) for one in each.named(argument)
                ]
                judgement = label.judged(*named[0]) if named else "nothing"
                groups = _groups(each, argument, label.draw)
                found.append(Found(groups, label.truth, judgement, _is_shown(named, label.both)))
    return found


def by_paths(sets: Iterable[ToolSet]) -> list[Found]:
    """The suggestions for all arguments of a path whose resources a read of the path before them lists."""
    found = []
    for each in sets:
        for argument in each.arguments:
            parent = each.parent(argument)
            if parent is not None and parent != argument.tool:
                named = [(one.tool, "") for one in each.named(argument)]
                judgement: Judgement = ("right" if named[0][0] == parent else "wrong") if named else "nothing"
                found.append(Found(("all", _half(each)), "source", judgement, _is_shown(named, {parent})))
    return found


def _groups(tools: ToolSet, argument: Argument, draw: int) -> tuple[str, ...]:
    kind = "functions" if not tools.operations else "in a path" if argument.in_path else "in a query or body"
    return "all", kind, _half(tools) if draw == 1 else f"draw {draw}"


def _half(tools: ToolSet) -> str:
    """Documents by hash: who improves the graph looks at one half alone, and the other tells whether it holds."""
    return "half 1" if int(hashed(tools.name), 16) % 2 else "half 2"


def _is_shown(named: Sequence[tuple[str, str]], right: Collection[str]) -> bool:
    return any(tool in right for tool in [*dict.fromkeys(tool for tool, _ in named)][:2])


def agreement(labels: Iterable[Label]) -> dict[str, int]:
    """How far two readers agree: on whether there is a source, and on one of them."""
    some = [*labels]
    sourced = [each for each in some if all(each.right)]
    return {
        "arguments": len(some),
        "a source, or none, to both": len(sourced) + sum(each.truth == "none" for each in some),
        "a source to both": len(sourced),
        "the same one among them": sum(bool(each.both) for each in sourced),
        "exactly the same ones": sum(each.tools[0] == each.tools[1] for each in sourced),
    }


def counted(found: Iterable[Found], truth: Truth) -> dict[str, Counter[str]]:
    """By group how many arguments have each judgement; ``shown``: the right tool is among the first two."""
    groups: dict[str, Counter[str]] = {}
    for each in found:
        if each.truth == truth:
            for group in each.groups:
                counts = groups.setdefault(group, Counter())
                counts.update({"arguments": 1, each.judgement: 1, "shown": int(each.second)})
    return dict(sorted(groups.items()))


def _table(title: str, groups: Mapping[str, Counter[str]]) -> None:
    names = [name for name in get_args(Judgement) if any(counts[name] for counts in groups.values())]
    rows = []
    for group, counts in groups.items():
        tool = counts["right"] + counts["other field"]
        found = (share(tool, counts["arguments"]), counts["shown"])
        rows.append([group, counts["arguments"], *(counts[name] for name in names), *found])
    show(title, ["arguments", "all", *names, "right tool first", "in the first two"], rows)


@guarded
def main(
    data: Annotated[
        Path, typer.Option(envvar="ATC_DATA", help="Folder of third-party data.", exists=True, file_okay=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Print how often the first suggestion is right, by readers and by paths."""
    sets = [*tool_sets(data)]
    known = read_labels()
    read, proxy = by_readers(sets, known), by_paths(sets)
    if as_json:
        truths = {truth: counted(read, truth) for truth in get_args(Truth)}
        print_json({"readers": truths, "agreement": agreement(known.values()), "paths": counted(proxy, "source")})
        return
    if known:
        _table("Arguments of which both readers mark a source", counted(read, "source"))
        _table("Arguments of which both readers say that no read is one", counted(read, "none"))
        show("Two readers", [*agreement(known.values())], [[*agreement(known.values()).values()]])
    if len(known) > len(read):
        out.print(f"{len(known) - len(read)} labelled arguments are not in this data")
    _table("By paths, a proxy: GET /xs for /xs/{id}", counted(proxy, "source"))


if __name__ == "__main__":
    typer.run(main)

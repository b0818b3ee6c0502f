"""What is suggested as the source of an identifier argument: is the first suggestion the right one?

``python -m benchmarks.graph.suppliers --data DIR`` takes OpenAPI documents (those of
:mod:`benchmarks.documents.openapi_import` that have an identifier argument and a read that could supply one) and the
tools of four environments that are typed functions (:data:`TYPED`). It collects all arguments that are identifiers, and
the tool graph names the suppliers of each, as hints in prompts do; all tools of the document are offered. Two truths
judge what it names first:

* *readers*: two readers saw cards of some arguments, which name no tool, and marked which of at most
  :data:`CANDIDATES` reads are right sources, and at which field, or none of them. ``suppliers.jsonl`` keeps hashes and
  labels, no text. ``--cards DIR`` writes the cards of :data:`DRAWN` arguments that nobody labelled, and of those for
  which a read is named first that was not on their card. ``--labels DIR`` takes ``reader_{a,b}_*.jsonl`` from there.
  What was labelled later is counted by itself: nobody looked at it while the graph was improved.
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
from typing import Annotated, Any, Literal, get_args

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
DRAWN, A_SET, A_NAME, A_FILE = 200, 6, 2, 50
"""New arguments on cards: in all, of one tool set at most, of one name in a set at most, and in a file."""
CANDIDATES, FIELDS, FEWEST, MAX_TEXT = 12, 25, 8, 300
"""Reads on a card; of each at most so many fields, that could be an identifier, filled up to so many with others; and
characters of a description."""
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

    # -- cards ---------------------------------------------------------------------------------------------------------

    def candidates(self, argument: Argument) -> list[str]:
        """The reads on an argument's card: those nearest by words, what the graph names first, and the path's parent.

        They stand in the order of their hashes, which tells nothing.
        """
        wanted = self._wanted(argument)
        others = [tool for tool in self.reads if tool != argument.tool]
        ranked = sorted(others, key=lambda tool: (-self._nearness(wanted, tool), self.key(tool)))
        always = [each.tool for each in self.named(argument)[:1]]
        if (parent := self.parent(argument)) is not None and parent != argument.tool:
            always.append(parent)
        return sorted([*dict.fromkeys([*always, *ranked])][:CANDIDATES], key=self.key)

    def _wanted(self, argument: Argument) -> set[str]:
        """Words for what an argument is of: its own, and of a bare ``id`` those before it in the path."""
        own = set(words_of(argument.name)) - IDENTIFYING
        before = self._path(argument.tool).partition("{" + argument.name + "}")[0] if argument.in_path else ""
        parts = [part for part in before.split("/") if part and "{" not in part]
        return own | set(words_of(parts[-1] if parts else "" if own else argument.tool))

    def _nearness(self, wanted: set[str], tool: str) -> float:
        parts = [part for part in self._path(tool).split("/") if "{" not in part] or [tool]
        in_path, last = set(words_of(" ".join(parts))), set(words_of(parts[-1]))
        in_fields = {word for field in self.reads[tool] for word in words_of(field)}
        needs = len(self.tools[tool].required)
        return 3 * len(wanted & last) + 2 * len(wanted & in_path) + len(wanted & in_fields) - 0.1 * needs

    def card_of(self, argument: Argument) -> dict[str, Any]:
        """What a reader is shown: no tool's name, and nothing that tells what the graph says."""
        protocol, wanted = self.tools[argument.tool], self._wanted(argument) | set(words_of(argument.name))
        schema = protocol.parameters["properties"][argument.name]
        first = {each.tool: written(each.path) for each in self.named(argument)[:1]}
        return {
            "card": self.card(argument),
            "operation": self._shown(argument.tool),
            "summary": self._masked(protocol.description),
            "argument": argument.name,
            "description": self._masked(str(schema.get("description", ""))) if isinstance(schema, dict) else "",
            "candidates": [
                {
                    "number": number,
                    "key": self.key(tool),
                    "operation": self._shown(tool),
                    "summary": self._masked(self.tools[tool].description),
                    "fields": nearest_fields(fields_on(self.tools[tool].returns), wanted, first.get(tool, "")),
                }
                for number, tool in enumerate(self.candidates(argument), 1)
            ],
        }

    def _shown(self, tool: str) -> str:
        parameters = ", ".join(
            f"{each.original}{'' if each.required else '?'}: {'|'.join(sorted(types_of(each.schema))) or 'any'}"
            for each in parameters_of(self.tools[tool])
        )
        return f"{' '.join(self.operations.get(tool, ('a function',)))} ({parameters[:MAX_TEXT]})"

    def _masked(self, text: str) -> str:
        text = " ".join(text.split())[:MAX_TEXT]
        for tool in self.tools if not self.operations else ():
            text = re.sub(rf"\b{re.escape(tool)}\b", "(a function)", text)
        return text


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


def nearest_fields(fields: Sequence[str], wanted: set[str], always: str = "") -> list[str]:
    """The fields that a card has room for, in the order of the response.

    Args:
        fields: of the response.
        wanted: words of the argument; fields with them come before others.
        always: a field that is there whatever its words are.
    """

    def far(field: str) -> tuple[bool, bool, int]:
        shared = len(wanted & set(words_of(field)))
        return field.removesuffix("[]") != always.removesuffix("[]"), not _is_candidate(field), -shared

    ranked = sorted(fields, key=far)
    kept = set(ranked[: max(FEWEST, min(FIELDS, sum(map(_is_candidate, fields))))])
    return [field for field in fields if field in kept]


def _is_candidate(field: str) -> bool:
    words = words_of(field.rpartition(".")[2])
    return bool(words) and (words[-1] in IDENTIFYING | NAMING or field == "response")


def _plain(path: str) -> str:
    return _GIVEN.sub("{}", path.partition("?")[0]).strip("/")


# -- the tool sets and the draw ----------------------------------------------------------------------------------------


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


def drawn(sets: Sequence[ToolSet], labels: Mapping[str, Label]) -> list[tuple[ToolSet, Argument]]:
    """The arguments on cards: of each set some by hash, those in a path first, and of all of these some by hash.

    Args:
        sets: of tools.
        labels: the arguments that were read, by card: they are drawn again if their card lacks what is named first.
    """
    pool = []
    for each in sets:
        names: Counter[str] = Counter()
        taken = 0
        for argument in sorted(each.arguments, key=lambda a, s=each: (not a.in_path, s.card(a))):  # type: ignore[misc]
            names[argument.name] += 1
            if each.reads.keys() - {argument.tool} and names[argument.name] <= A_NAME and taken < A_SET:
                taken += 1
                pool.append((each, argument))
    functions = [pair for pair in pool if not pair[0].operations]
    rest = sorted((pair for pair in pool if pair[0].operations), key=lambda pair: pair[0].card(pair[1]))
    new = [pair for pair in (*functions, *rest) if pair[0].card(pair[1]) not in labels]
    known = [(each, argument) for each in sets for argument in each.arguments if _lacks_first(each, argument, labels)]
    some = [*new[:DRAWN], *known]
    return sorted(some, key=lambda pair: (hashed(pair[0].name), pair[0].card(pair[1])))


def _lacks_first(tools: ToolSet, argument: Argument, labels: Mapping[str, Label]) -> bool:
    label = labels.get(tools.card(argument))
    return label is not None and not {tools.key(each.tool) for each in tools.named(argument)[:1]} <= label.candidates


def write_cards(sets: Sequence[ToolSet], folder: Path, labels: Mapping[str, Label]) -> int:
    """Write the cards for readers, :data:`A_FILE` a file, as JSON lines and as text; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = [each.card_of(argument) for each, argument in drawn(sets, labels)]
    for start in range(0, len(cards), A_FILE):
        some, path = cards[start : start + A_FILE], folder / f"cards_{start // A_FILE + 1}.jsonl"
        path.write_text("".join(json.dumps(card, ensure_ascii=False) + "\n" for card in some), encoding="utf-8")
        path.with_suffix(".txt").write_text("\n".join(map(text_of, some)), encoding="utf-8")
    return len(cards)


def text_of(card: Mapping[str, Any]) -> str:
    """A card as a reader reads it."""
    lines = [
        f"=== card {card['card']}",
        f"WHERE DOES A CALLER GET `{card['argument']}` FROM, for: {card['operation']}",
        f"  what it does: {card['summary']}",
        f"  the argument: {card['description'] or '(no description)'}",
    ]
    for each in card["candidates"]:
        lines += [f"  [{each['number']}] {each['operation']}", f"      {each['summary']}"]
        lines += [f"      returns: {', '.join(each['fields']) or '(not documented)'}"]
    return "\n".join([*lines, "  [none of these]", ""])


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


def take_labels(folder: Path, path: Path = LABELS) -> int:
    """Keep what two readers wrote about the cards of a folder, as hashes; how many cards both of them read.

    A card that was labelled before had other tools on it, if the graph named another one first: what was said of these
    stays. Cards that are not in the folder stay, too.

    Raises:
        UsageError: a reader's file is missing, or marks what is not on a card.
    """
    cards = {card["card"]: card for file in sorted(folder.glob("cards_*.jsonl")) for card in _lines(file)}
    marks = [{}, {}]  # type: list[dict[str, list[list[str]]]]
    for place, reader in enumerate("ab"):
        for file in sorted(folder.glob(f"reader_{reader}_*.jsonl")):
            for row in _lines(file):
                if (card := cards.get(row["card"])) is None:
                    raise UsageError(f"{file}: there is no card {row['card']!r}")
                marks[place][row["card"]] = [_marked(file, card, *mark) for mark in row["right"]]
    both = [card for card in cards if all(card in some for some in marks)]
    if not both:
        raise UsageError(
            f"{folder} has no card that both readers labelled: it needs reader_a_*.jsonl, reader_b_*.jsonl"
        )
    kept = {row["card"]: row for row in _lines(path)} if path.is_file() else {}
    draw = 1 + max((row.get("draw", 1) for row in kept.values()), default=0)
    for card in both:
        tools = [each["key"] for each in cards[card]["candidates"]]
        before = kept.get(card, {"candidates": [], "right": [[], []], "draw": draw})
        earlier = [tool for tool in before["candidates"] if tool not in tools]
        right = [
            [*some[card], *(mark for mark in old if mark[0] in earlier)]
            for some, old in zip(marks, before["right"], strict=True)
        ]
        kept[card] = {"card": card, "candidates": tools + earlier, "right": right, "draw": before.get("draw", 1)}
    lines = [json.dumps(row) for row in kept.values()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(both)


def _marked(file: Path, card: Mapping[str, Any], number: int, field: str) -> list[str]:
    for each in card["candidates"]:
        if each["number"] == number:
            return [each["key"], place_hash(each["key"], field)]
    raise UsageError(f"{file}: the card {card['card']} has no read {number}")


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield json.loads(line)
        except ValueError:
            raise UsageError(f"{file}, line {number}: this is no JSON") from None


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
    cards: Annotated[Path | None, typer.Option(help="Write the cards to this folder, and measure nothing.")] = None,
    labels: Annotated[Path | None, typer.Option(help="First take the readers' labels from this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print how often the first suggestion is right, by readers and by paths."""
    sets = [*tool_sets(data)]
    if cards is not None:
        out.print(f"{write_cards(sets, cards, read_labels())} cards of {len(sets)} tool sets are in {cards}")
        return
    if labels is not None:
        out.print(f"{take_labels(labels)} labels are in {LABELS}")
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

"""API-Bank where each tool must be searched for first (ToolQP §4.3, Tab. 3 and 6, App. E).

``python -m benchmarks.tool_searcher --data DIR [--by user|model] [--method hybrid,needs,…] [--call] [--offer 1]``

Every recorded call of a dialogue is a target. The assistant sees the dialogue so far and one tool, a search over
API-Bank's catalogue. With ``--by model`` a model writes what to search for (Tab. 3); with ``--by user`` it is the
user's last words (near to Tab. 6), and then only those methods ask a model that do by themselves. What a method finds
is all that is offered: ``found@1`` and ``found@5`` count the targets whose tool is there. With ``--call`` the model
calls one of the first ``--offer`` tools, and ``right`` counts the calls of the right tool with the recorded arguments;
a tool that was not found cannot be called.

Targets come in the order of a hash, and all methods answer one before the next is taken; rows are kept and gone on
from. No text of a dialogue is kept in them or printed. The dialogue that stands before a target is the recorded one,
not what the model did, as API-Bank's own evaluation has it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as record
from rich import box
from rich.progress import Progress
from rich.table import Table

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import UsageError
from atc.models.base import Message
from atc.prompting import fenced
from atc.retrieval.dialogue import parse_query
from atc.retrieval.minilm import MiniLM
from atc.tools.names import tool_name
from benchmarks.environments.api_bank import SEARCHER, ApiBank
from benchmarks.expansion import filled
from benchmarks.retrieval import RESULTS
from benchmarks.retrieval_data import Catalogues
from benchmarks.retrieval_methods import METHODS, Bench, Method
from benchmarks.retrieval_report import RESAMPLES

POOL = "api_bank"
By = Literal["user", "model"]
OFFERED = 1
"""Tools that the model sees: accuracy is "based on the top retrieved tool" (§4.3); 5 in Tab. 6."""
_LINES, _LINE = 20, 400
"""Of a dialogue that is shown: its last turns, and characters of each."""


@dataclass(frozen=True)
class Target:
    """One recorded call of a tool.

    Attributes:
        id: of the dialogue and the call.
        level: of API-Bank: 1 or 2.
        dialogue: what was said and called before it, a line each.
        user: the user's last words.
        tool: as the catalogue names it. ``arguments``: as they were recorded.
    """

    id: str
    level: int
    dialogue: tuple[str, ...]
    user: str
    tool: str
    arguments: dict[str, Any]

    @property
    def of(self) -> str:
        """The dialogue's id."""
        return self.id.rpartition("#")[0]


@record(frozen=True)
class Tried:
    """What became of one target.

    Attributes:
        setting: who searches by which method, and how many tools are offered for a call.
        version: of the method, and the model.
        place: of the right tool among what was found, from 1; 0 where it was not.
        right: whether the call was right; ``None`` where none was asked for.
    """

    setting: str
    version: str
    target: str
    place: int
    right: bool | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.setting, self.version, self.target


_ROWS: TypeAdapter[Tried] = TypeAdapter(Tried)


def targets(environment: ApiBank) -> list[Target]:
    """The recorded calls of all dialogues, but those of the search for tools, in the order of a hash."""
    found = []
    for id, dialogue in environment.dialogues.items():
        calls, before, user = iter(dialogue["gold"]), [], ""
        for number, turn in enumerate(dialogue["dialogue"]):
            if turn["role"] != "API":
                before.append(f"{turn['role']}: {fenced(str(turn['text'])[:_LINE])}")
                user = str(turn["text"]) if turn["role"] == "User" else user
            elif (call := next(calls, None)) is not None and call["tool"] != SEARCHER:
                shown = tuple(before[-_LINES:])
                found.append(Target(f"{id}#{number}", dialogue["level"], shown, user, call["tool"], call["args"]))
                answered = json.dumps([call["args"], call["output"]], ensure_ascii=False)[:_LINE]
                before.append(f"Called {tool_name(call['tool'])}, arguments and answer: {fenced(answered)}")
    return sorted(found, key=lambda target: hashlib.sha256(target.id.encode()).digest())


class Assistant:
    """Searches, and calls what was found.

    Args:
        bench: with the catalogue and the model.
        environment: the services that the calls are of.
        by: who says what to search for.
        offered: tools that a call may take; 0 asks for no call.
    """

    def __init__(self, bench: Bench, environment: ApiBank, by: By, offered: int) -> None:
        self._bench, self._environment, self._by, self._offered = bench, environment, by, offered

    @property
    def asks(self) -> bool:
        """Whether the model is asked for more than a method asks it."""
        return self._by == "model" or self._offered > 0

    def setting(self, method: Method) -> str:
        """How a row names what was tried."""
        return f"{self._by} {method.name} {self._offered}"

    async def try_(self, target: Target, method: Method, version: str) -> Tried:
        """Search for a target's tool, and have it called where that is asked for.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        pool = self._bench.index(POOL)
        ranked = await method.rank(self._bench, pool, await self._wanted(target))
        wanted = f"{POOL}/{target.tool}"
        place = ranked.index(wanted) + 1 if wanted in ranked else 0
        right = None
        if self._offered:
            offered = ranked[: self._offered]
            right = wanted in offered and await self._called(target, offered)
        return Tried(self.setting(method), version, target.id, place, right)

    async def _wanted(self, target: Target) -> str:
        if self._by == "user":
            return target.user
        prompt = filled("search_first", dialogue=target.dialogue)
        reply = await self._bench.ask([Message("user", prompt)], 40)
        return parse_query(reply.text) or target.user

    async def _called(self, target: Target, offered: Sequence[str]) -> bool:
        """Whether the model's call is the recorded one."""
        protocols = [self._bench.index(POOL).whole.protocol(id) for id in offered]
        tools = [fenced(f"{p.name}: {p.description} {json.dumps(p.parameters['properties'])}") for p in protocols]
        prompt = filled("call_found", dialogue=target.dialogue, tools=tools, today=self._environment.today)
        call = first_object((await self._bench.ask([Message("user", prompt)], 200)).text)
        arguments = call.get("arguments")
        if call.get("tool") != tool_name(target.tool) or not isinstance(arguments, dict):
            return False
        return self._environment.alike(tool_name(target.tool), arguments, target.arguments)


def first_object(text: str) -> dict[str, Any]:
    """The first JSON object in a text; an empty one where there is none."""
    at = text.find("{")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, at) if at >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def summary(rows: Sequence[Tried], level_of: dict[str, int]) -> list[dict[str, Any]]:
    """A line for each setting and level, with 95 % intervals by drawing dialogues anew.

    Args:
        rows: of any settings.
        level_of: the level of each target.
    """
    groups: dict[tuple[int, str], list[Tried]] = defaultdict(list)
    for row in rows:
        if row.target in level_of:
            groups[level_of[row.target], row.setting].append(row)
    lines = []
    for (level, setting), group in sorted(groups.items()):
        marks = {"found@1": [row.place == 1 for row in group], "found@5": [0 < row.place <= 5 for row in group]}
        if all(row.right is not None for row in group):
            marks["right"] = [bool(row.right) for row in group]
        line: dict[str, Any] = {"level": level, "setting": setting, "calls": len(group)}
        for name, values in marks.items():
            line[name] = fmean(values)
            line[f"{name} interval"] = _interval([row.target for row in group], values)
        lines.append(line)
    return lines


def _interval(ids: Sequence[str], values: Sequence[bool]) -> tuple[float, float]:
    by_dialogue: dict[str, list[bool]] = defaultdict(list)
    for id, value in zip(ids, values, strict=True):
        by_dialogue[id.rpartition("#")[0]].append(value)
    groups, draw = list(by_dialogue.values()), random.Random(0)
    means = sorted(
        fmean(value for group in draw.choices(groups, k=len(groups)) for value in group) for _ in range(RESAMPLES)
    )
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def read_tried(file: Path) -> Iterator[Tried]:
    """The rows of a file; a line that was cut off is left out."""
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            yield _ROWS.validate_json(line)
        except ValueError:
            continue


async def measured(
    assistant: Assistant, bench: Bench, methods: Sequence[Method], asked: Sequence[Target], file: Path
) -> None:
    """Try what the file does not hold yet."""
    done = {row.key for row in read_tried(file)}
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("ab") as rows, Progress(console=err, transient=True) as progress:
            for target in progress.track(asked, description="API-Bank"):
                for method in methods:
                    version = _version(bench, method, assistant)
                    if (assistant.setting(method), version, target.id) not in done:
                        rows.write(_ROWS.dump_json(await assistant.try_(target, method, version)) + b"\n")
                        rows.flush()
    finally:
        await bench.aclose()


def _version(bench: Bench, method: Method, assistant: Assistant) -> str:
    asks = (
        method.asks or not assistant.setting(method).startswith("user") or not assistant.setting(method).endswith(" 0")
    )
    return f"{bench.version(method)} {bench.model_name if asks else ''}".strip()


@guarded
def main(
    data: Annotated[Path, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/ and executable/.")],
    by: Annotated[str, typer.Option(help="Who says what to search for: user or model.")] = "user",
    method: Annotated[str, typer.Option(help=f"Of {', '.join(METHODS)}.")] = "lexical,dense,hybrid,needs",
    call: Annotated[bool, typer.Option("--call", help="Have the model call what was found.")] = False,
    offer: Annotated[int, typer.Option(min=1, help="Tools that a call may take.")] = OFFERED,
    limit: Annotated[int, typer.Option(min=0, help="Targets, the first by a hash; 0: all.")] = 0,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where each row is kept.")] = RESULTS / "tool_searcher.jsonl",
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure API-Bank where tools must be searched for."""
    wanted = [name.strip() for name in method.split(",") if name.strip()]
    if wrong := [name for name in wanted if name not in METHODS]:
        raise UsageError(f"there is no method {wrong[0]!r}: take of {', '.join(METHODS)}")
    if by not in ("user", "model"):
        raise UsageError(f"--by {by}: take user or model")
    encoder, environment = MiniLM(), ApiBank(data)
    encoder.check()
    bench = Bench(Catalogues(data), RESULTS / "retrieval", model, encoder)
    assistant = Assistant(bench, environment, "user" if by == "user" else "model", offer if call else 0)
    asked = targets(environment)[: limit or None]
    methods = [METHODS[name] for name in wanted]
    try:
        asyncio.run(measured(assistant, bench, methods, asked, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was tried is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    keys = {(assistant.setting(each), _version(bench, each, assistant)) for each in methods}
    lines = summary(
        [row for row in read_tried(file) if (row.setting, row.version) in keys], {t.id: t.level for t in asked}
    )
    if as_json:
        print_json(lines)
        return
    table = Table("level", "setting", "calls", "found@1", "found@5", "right", box=box.SIMPLE_HEAD)
    for line in lines:
        table.add_row(str(line["level"]), line["setting"], str(line["calls"]), *(_shown(line, name) for name in _MARKS))
    out.print(table)


_MARKS = ("found@1", "found@5", "right")


def _shown(line: dict[str, Any], name: str) -> str:
    if name not in line:
        return "-"
    low, high = line[f"{name} interval"]
    return f"{100 * line[name]:.1f} ({100 * low:.1f}-{100 * high:.1f})"


if __name__ == "__main__":
    typer.run(main)

"""The runner of sequences: what its script writes, how it goes on, and what it counts, over four small services."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc.models.base import Message
from atc.result import Effect
from atc.sandboxes.drivers import open_sandbox
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from benchmarks.environments import Episode, MadeCall
from benchmarks.right_programs import right_program
from benchmarks.sequences.__main__ import picked
from benchmarks.sequences.breaking import Way, broken
from benchmarks.sequences.play import Play
from benchmarks.sequences.rows import Row, latest, publish, read_rows
from benchmarks.sequences.script import NOTHING, Script, mistaken
from benchmarks.sequences.systems import SYSTEMS
from benchmarks.sequences.table import COLUMNS, figures, lines
from benchmarks.sequences.twins import Twin
from benchmarks.sequences.world import Opened, Step, World
from benchmarks.shops import ServiceEnvironment, environments

BOOK = "get_book"
ADAPTER = """
def _get_book(book_id):
    found = volume(number=book_id)["volume"]
    return {"id": found["nr"], "title": found["name"], "author_id": found["by"], "copies": found["owned"]}
"""
VOLUME = Protocol(
    name="volume",
    description="A book of the library, by its number.",
    parameters={
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "Number of the book"}},
        "required": ["number"],
    },
    returns={
        "type": "object",
        "properties": {
            "volume": {
                "type": "object",
                "properties": {
                    "nr": {"type": "integer"},
                    "name": {"type": "string"},
                    "by": {"type": "integer"},
                    "owned": {"type": "integer", "description": "copies"},
                },
                "required": ["nr", "name", "by", "owned"],
            }
        },
        "required": ["volume"],
    },
    effect=Effect.READ,
)
"""What another service offers in the place of ``get_book``."""


class _Opened(Opened):
    def __init__(self, tools: Toolset, episode: Episode) -> None:
        object.__setattr__(self, "tools", tools)
        object.__setattr__(self, "episode", episode)

    @property
    def calls(self) -> Sequence[MadeCall]:
        return self.episode.calls

    @property
    def unwanted_writes(self) -> int:
        return self.episode.forbidden_writes


class Services(World):
    """The tasks of the four services over the tools of all, with one twin; ``ways`` breaks tools in the last task."""

    def __init__(self, ways: Mapping[str, Way] | None = None) -> None:
        self._services = {each.name: each for each in environments()}
        tasks = [(each.name, task) for each in self._services.values() for task in each.tasks()]
        last = next(pair for pair in tasks if pair[1].id == "copies")
        tasks = [*[pair for pair in tasks if pair != last][:2], last]
        self.steps = [
            Step(number, name, task, (ways or {}) if number == 2 else {}, number + 1, self._calls(name, task))
            for number, (name, task) in enumerate(tasks)
        ]
        self.twins = {BOOK: Twin("volume", ADAPTER, VOLUME)}
        self.protocols = {name: tool.protocol for name, tool in self.open(self.steps[0]).tools.items()}

    def _calls(self, name: str, task: Any) -> tuple[str, ...]:
        return tuple(tool for tool, _ in self._services[name].gold(task).calls)

    def open(self, step: Step) -> Opened:
        episode = self._services[step.environment].open(step.task)
        others = [each for each in self._services.values() if each.name != step.environment]
        tools = [*episode.tools.values(), *(tool for each in others for tool in _tools(each))]
        book = next(tool for tool in tools if tool.name == BOOK)

        async def call(arguments: dict[str, Any]) -> Any:
            assert book.transport is not None
            found = await book.transport({"book_id": arguments["number"]})
            names = {"nr": "id", "name": "title", "by": "author_id", "owned": "copies"}
            return {"volume": {new: found[old] for new, old in names.items()}}

        source = book.protocol.source.model_copy(update={"location": "elsewhere"})
        twin = Tool(VOLUME.model_copy(update={"source": source}), _Async(call))
        return _Opened(broken(Toolset([*tools, twin]), step.broken), episode)

    async def program(self, step: Step) -> str:
        found = await right_program(self._services[step.environment], step.task)
        return found.source + {"copies": "['copies']", "price": "['price_cents']", "order": "['id']"}.get(step.task.id, "")


class _Async:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return await self._call(arguments)

    def opened(self) -> None:
        return None


def _tools(environment: ServiceEnvironment) -> list[Tool]:
    return list(environment.open(environment.tasks()[0]).tools.values())


def _prompt(*names: str) -> list[Message]:
    return [Message("user", "\n".join(f"def {name}(x: int) -> dict: ..." for name in names))]


def _script(**more: Any) -> Script:
    return Script("r0 = get_book(book_id=207)\nanswer = r0", (BOOK,), {BOOK: Twin("volume", ADAPTER, VOLUME)}, **more)


def test_the_script_writes_what_the_prompt_shows() -> None:
    assert _script(broken={}).write(_prompt("lend")) == NOTHING
    assert _script(broken={}).write(_prompt(BOOK, "volume")) == "r0 = get_book(book_id=207)\nanswer = r0"
    alone = _script(broken={}).write(_prompt("volume"))
    assert alone == f"{ADAPTER}\nr0 = _get_book(book_id=207)\nanswer = r0"


def test_the_script_takes_the_twin_of_a_broken_tool_once_a_program_has_failed() -> None:
    script = _script(broken={BOOK: "down"})
    assert "volume" not in script.write(_prompt(BOOK, "volume"))
    assert "volume" in script.write(_prompt(BOOK, "volume"))
    whole = _script(broken={})
    assert [("volume" in whole.write(_prompt(BOOK, "volume"))) for _ in range(2)] == [False, False]


def test_a_mistake_is_made_once_and_is_one_that_says_what_was_meant() -> None:
    protocols = Services().protocols
    program = "r0 = get_book(book_id=207)\nanswer = r0"
    made = [found for seed in range(20) if (found := mistaken(program, protocols, str(seed)))]
    assert len({found.kind for found in made}) > 3
    assert all(found.source != program and ast.parse(found.source) for found in made)
    assert mistaken(program, protocols, "3") == mistaken(program, protocols, "3")
    assert mistaken("answer = 1", protocols, "3") is None
    script = _script(broken={}, mistake=made[0])
    assert [script.write(_prompt(BOOK)) for _ in range(2)] == [made[0].source, program]


def test_a_write_is_given_no_mistake_but_in_spelling() -> None:
    protocols = Services().protocols
    program = "answer = lend(book_id=209, member_id=33)"
    kinds = {found.kind for seed in range(30) if (found := mistaken(program, protocols, str(seed)))}
    assert kinds == {"key: case", "key: camel or snake", "key: separators", "type: number as text"}


def _played(world: World, name: str, file: Path, tried: frozenset[int] = frozenset()) -> list[Row]:
    async def play() -> None:
        sandbox = open_sandbox(Settings.load())
        try:
            folder = file.parent / name
            await Play(world, world.steps, SYSTEMS[name], 0, None, sandbox, folder, "v", "t", tried).play(
                file, lambda row: None
            )
        finally:
            await sandbox.aclose()

    asyncio.run(play())
    return read_rows(file)


@pytest.mark.slow
def test_a_sequence_is_played_and_what_breaks_is_routed_round(tmp_path: Path) -> None:
    world = Services({BOOK: "down"})
    rows = _played(world, "default", tmp_path / "rows.jsonl")
    assert [(row.step, row.third, row.solved) for row in rows] == [(0, 1, True), (1, 2, True), (2, 3, True)]
    last = rows[-1]
    assert (last.broken, last.met, last.banned, last.routed) == (1, 1, 1, 1)
    assert (last.offered, last.missed, last.unwanted_writes) == (20, 0, 0)
    assert (tmp_path / "default").is_dir()  # it has learnt there
    (again,) = _played(world, "no-recombine", tmp_path / "others.jsonl", frozenset({0, 1}))
    assert (again.banned, again.routed) == (0, 0)


def test_so_many_tasks_are_picked_of_each_third_and_half_of_them_need_what_is_broken() -> None:
    step = Services().steps[0]
    steps = [
        replace(
            step, number=number, third=1 + number // 10, tools=("a",), broken={"a": "down"} if number % 5 == 4 else {}
        )
        for number in range(30)
    ]
    chosen = picked(steps, 9)
    assert [sum(each.third == third for each in chosen) for third in (1, 2, 3)] == [3, 3, 3]
    assert sum(bool(each.broken) for each in chosen) == 3
    assert [each.number for each in chosen] == sorted({each.number for each in chosen})
    assert picked(steps, None) == picked(steps, 50) == steps


def _row(system: str, step: int, solved: bool, **more: Any) -> Row:
    given = {"seed": 0, "model": "scripted", "version": "v", "terms": "t", "env": "shop", "task": str(step)} | more
    return Row(system=system, step=step, third=step + 1, status="answered", solved=solved, **given)


def test_systems_are_compared_task_by_task() -> None:
    rows = [_row("default", n, n < 2, needed=2, missed=n) for n in range(3)]
    rows += [_row("no-learn", n, n > 1, broken=1, routed=n) for n in range(3)]
    default, other = figures(rows)
    assert (default["solved"], default["missed"], default["tasks_missing"]) == (2, 3, 2)
    assert [default[f"third_{third}"]["solved"] for third in (1, 2, 3)] == [1, 1, 0]
    assert (other["only_default"], other["only_this"], other["with_broken"], other["routed"]) == (2, 1, 3, 2)
    assert all(len(line) == len(COLUMNS) for line in lines([default, other]))


def test_a_file_is_read_back_and_published_without_texts(tmp_path: Path) -> None:
    from benchmarks.sequences.rows import append

    file = tmp_path / "rows.jsonl"
    append(file, _row("default", 0, True, version="old", answer="'Emma'", names={"missed": ["get_book"]}))
    append(file, _row("default", 0, True))
    with file.open("a") as lines_:
        lines_.write("{cut off")
    rows = read_rows(file)
    assert [row.version for row in rows] == ["old", "v"]
    assert latest(rows) == [rows[1]]
    assert publish(rows, tmp_path / "published.jsonl") == 2
    texts = [json.loads(line) for line in (tmp_path / "published.jsonl").read_text().splitlines()]
    assert all({"names", "answer", "program", "error"}.isdisjoint(text) for text in texts)
    assert read_rows(tmp_path / "published.jsonl")[0].version == "old"

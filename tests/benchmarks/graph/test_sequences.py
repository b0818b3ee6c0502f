"""The runner of sequences: what its script writes, how it goes on, and what it counts."""

from __future__ import annotations

import ast
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc.models.base import Message
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from benchmarks.environments import Task
from benchmarks.environments.services import Library
from benchmarks.sequences.__main__ import opened_model, picked, run
from benchmarks.sequences.play import Play
from benchmarks.sequences.rows import Row, append, latest, publish, read_rows
from benchmarks.sequences.script import NOTHING, Script, mistaken
from benchmarks.sequences.systems import SYSTEMS
from benchmarks.sequences.table import COLUMNS, figures, lines
from benchmarks.sequences.twins import Twin, twin_of
from benchmarks.sequences.world import Step, World
from tests.support.fake_openai_server import serving
from tests.support.ruler import says

BOOK = "get_book"
PROTOCOLS = {name: tool.protocol for name, tool in Library().toolset().items()}
PROGRAM = "r0 = get_book(book_id=207)\nanswer = r0"


def _twin() -> Twin:
    made = twin_of(PROTOCOLS[BOOK])
    assert made is not None
    return made


TWIN = _twin()


def _prompt(*names: str) -> list[Message]:
    return [Message("user", "\n".join(f"def {name}(x: int) -> dict: ..." for name in names))]


def _script(**more: Any) -> Script:
    return Script(PROGRAM, (BOOK,), {BOOK: TWIN}, PROTOCOLS, **more)


def test_the_script_writes_what_the_prompt_shows() -> None:
    assert _script(broken={}).write(_prompt("lend")) == NOTHING
    assert _script(broken={}).write(_prompt(BOOK, TWIN.name)) == PROGRAM
    alone = _script(broken={}).write(_prompt(TWIN.name))
    assert alone == f"{TWIN.adapter}\nr0 = _get_book(book_id=207)\nanswer = r0"


def test_the_script_takes_the_twin_of_a_broken_tool_once_a_program_has_failed() -> None:
    script = _script(broken={BOOK: "down"})
    assert TWIN.name not in script.write(_prompt(BOOK, TWIN.name))
    assert TWIN.name in script.write(_prompt(BOOK, TWIN.name))
    whole = _script(broken={})
    assert [(TWIN.name in whole.write(_prompt(BOOK, TWIN.name))) for _ in range(2)] == [False, False]


def test_the_script_looks_once_for_what_is_not_shown_and_for_another_tool_in_the_place_of_a_broken_one() -> None:
    script = _script(broken={})
    prompt = _prompt("lend", "find_tools")
    assert [script.write(prompt), script.write(prompt)] == ["find_tools(query='get book')", NOTHING]
    assert script.write(_prompt(BOOK, "find_tools")) == PROGRAM
    broken = _script(broken={BOOK: "down"})
    prompt = _prompt(BOOK, "find_tools")
    assert [broken.write(prompt) for _ in range(3)] == [PROGRAM, "find_tools(query='get book')", PROGRAM]
    assert _script(broken={}, asks=False).write(_prompt("lend", "find_tools")) == NOTHING


def test_the_script_reads_new_keys_once_the_prompt_shows_them() -> None:
    script = _script(broken={BOOK: "changed"})
    assert script.write(_prompt(BOOK)) == PROGRAM
    assert script.write(_prompt(BOOK)) == PROGRAM  # nothing showed them
    told = Message("user", "get_book(...) has no 'id': it has the keys 'v2Id', 'v2Title'")
    source = script.write([*_prompt(BOOK), told])
    made: dict[str, Any] = {BOOK: lambda book_id: {"v2Id": book_id, "v2Title": ["Emma"]}}
    exec(source, made)  # noqa: S102 - the script's own text
    assert made["answer"] == {"id": 207, "title": ["Emma"]}


def test_a_mistake_is_made_once_and_is_one_that_says_what_was_meant() -> None:
    made = [found for seed in range(20) if (found := mistaken(PROGRAM, PROTOCOLS, str(seed)))]
    assert len({found.kind for found in made}) > 3
    assert all(found.source != PROGRAM and ast.parse(found.source) for found in made)
    assert mistaken(PROGRAM, PROTOCOLS, "3") == mistaken(PROGRAM, PROTOCOLS, "3")
    assert mistaken("answer = 1", PROTOCOLS, "3") is None
    script = _script(broken={}, mistake=made[0])
    assert [script.write(_prompt(BOOK)) for _ in range(2)] == [made[0].source, PROGRAM]


def test_a_write_is_given_no_mistake_but_in_spelling() -> None:
    program = "answer = lend(book_id=209, member_id=33)"
    kinds = {found.kind for seed in range(30) if (found := mistaken(program, PROTOCOLS, str(seed)))}
    assert kinds == {"key: case", "key: camel or snake", "key: separators", "type: number as text"}


def _played(world: World, name: str, file: Path, tried: frozenset[int] = frozenset()) -> dict[int, Row]:
    async def play() -> None:
        sandbox = open_sandbox(Settings.load())
        try:
            made = Play(world, world.steps, SYSTEMS[name], 0, None, sandbox, file.parent / name, "v", "t", tried)
            await made.play(file, lambda row: None)
        finally:
            await sandbox.aclose()

    asyncio.run(play())
    return {row.step: row for row in read_rows(file)}


@pytest.mark.slow
def test_a_sequence_is_played_and_what_breaks_is_routed_round(tmp_path: Path) -> None:
    world = World(None, tasks=9)
    rows = _played(world, "default", tmp_path / "rows.jsonl")
    assert [row.third for row in rows.values()] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert all(row.solved and row.unwanted_writes == 0 for row in rows.values() if not row.missed + row.broken)
    needing = {step.number for step in world.steps if step.broken.keys() & set(step.tools)}
    assert needing == {row.step for row in rows.values() if row.broken}
    assert all(row.met for row in rows.values() if row.broken and not row.missed)
    assert all(row.banned >= row.routed for row in rows.values())
    assert list((tmp_path / "default").glob("learnt-*"))
    others = _played(world, "no-recombine", tmp_path / "others.jsonl", frozenset(range(4)))
    assert list(others) == [4, 5, 6, 7, 8]  # what was tried is not tried again
    assert not any(row.banned or row.routed for row in others.values())


@pytest.mark.slow
def test_a_model_at_an_endpoint_writes_the_programs_and_what_has_ended_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    with serving(*[says("```python\nanswer = 1\n```", read=1000)] * 40) as server:
        for _ in range(2):
            with opened_model("openai:tiny", server.url) as model:
                asyncio.run(run(None, [SYSTEMS["no-learn"]], [0], model, 6, 0, 3, file))
            rows = read_rows(file)
            asked = sum(row.model_calls for row in rows)
            assert [row.third for row in rows] == [1, 2, 3]
            assert {row.model for row in rows} == {"tiny"}
            assert not any(row.solved or row.mistake for row in rows)
            assert asked == len(server.requests) >= 3
            assert sum(row.prompt_tokens for row in rows) == 1000 * asked


def test_so_many_tasks_are_picked_of_each_third_and_half_of_them_need_what_is_broken() -> None:
    step = Step(0, "shop", Task("price", "", ()), {}, 1, ())
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
    given: dict[str, Any] = {
        "seed": 0,
        "model": "scripted",
        "version": "v",
        "terms": "t",
        "env": "shop",
        "task": str(step),
    } | more
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

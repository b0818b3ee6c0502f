"""BFCL's base tasks are judged by what is left in the objects behind their tools."""

from __future__ import annotations

import asyncio
import copy
import gzip
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from benchmarks.environments import Episode
from benchmarks.environments import bfcl as module
from benchmarks.environments.bfcl import INSTALL, Bfcl, answer, converted, load_class, reads, text
from benchmarks.environments.self_test import judge
from tests.support.tools import call

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)
needs_package = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("bfcl_eval", "mpmath"))), reason=f"BFCL's classes are missing: {INSTALL}"
)


class Drawer:
    """A class as BFCL has them: papers in a drawer, a cursor that is no state, errors as values."""

    def __init__(self) -> None:
        self.papers: list[Any] = []
        self._at = 0

    def _load_scenario(self, scenario: dict[str, Any]) -> None:
        self.papers = scenario.get("papers", [])

    def ls(self) -> dict[str, Any]:
        return {"papers": self.papers}

    def cd(self, place: int) -> None:
        self._at = place

    def touch(self, file_name: str) -> None:
        self.papers.append(file_name)

    def putTwo(self, first: str, second: Any) -> dict[str, Any]:
        self.papers.append(first)
        if second == first:
            return {"error": "they are the same"}
        self.papers.append(second.strip())
        return {"count": len(self.papers)}

    def get_paper(self, number: int = 0) -> dict[str, Any]:
        return {"paper": self.papers[number]} if number < 9 else {"error": f"no paper {number}"}

    def drop(self) -> dict[str, Any]:
        self.papers.pop()
        return {}


def load(name: str) -> type:
    assert name == "Drawer"
    return Drawer


def tool(name: str, properties: dict[str, Any] | None = None, returns: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "group": "Drawer",
        "name": name,
        "description": f"This is about drawers. Tool description: It does {name}.",
        "parameters": {"type": "dict", "properties": properties or {}, "required": list(properties or {})},
        "returns": {"type": "dict", "properties": returns or {}},
    }


TOOLS = [
    tool("ls", returns={"papers": {"type": "array", "items": {"type": "string"}}}),
    tool("cd", {"place": {"type": "integer"}}),
    tool("touch", {"file_name": {"type": "string"}}),
    tool("putTwo", {"first": {"type": "string"}, "second": {"type": "string"}}, {"sum": {"type": "integer"}}),
    tool("get_paper", {"number": {"type": "integer", "default": "None"}}, {"paper": {"type": "string"}}),
    tool("drop"),
]


def task(number: int, *turns: tuple[str, list[str]], **more: Any) -> dict[str, Any]:
    return {
        "id": f"base_{number}",
        "category": "base",
        "turns": [[said] for said, _ in turns],
        "groups": ["Drawer"],
        "initial_state": {"Drawer": {"papers": ["old note"]}},
        "gold_turns": [[{"call": call, "output": None} for call in calls] for _, calls in turns],
        **more,
    }


TASKS = [
    task(1, ("Put the plan in.", ["cd(place=1)", "putTwo('plan', second='map')"]), ("And a list.", ["touch('list')"])),
    task(2, ("What is there?", ["ls()"])),
    task(3, ("Put a pen in, take it out again.", ["touch(file_name='pen')", "drop()"]), excluded_function=["putTwo"]),
    task(4, ("Put in what I think of you.", ["touch(file_name='a long poem of praise')"])),
    task(5, ("Put a cup and a key in.", ["putTwo(first='cup', second='key')"]), initial_state={}),
    task(6, ("A miss.", ["drop()"]), category="miss_func"),
]


def written(folder: Path, tasks: list[dict[str, Any]]) -> None:
    for name, lines in (("tasks", tasks), ("tools", TOOLS)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(json.dumps(line) for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "executable" / "bfcl_multi_turn"
    path.mkdir(parents=True)
    written(path, TASKS)
    return path


@pytest.fixture
def bench(folder: Path, tmp_path: Path) -> Bfcl:
    return Bfcl(tmp_path, load)


def begun(bench: Bfcl, id_: str) -> Episode:
    return bench.open(next(one for one in bench.tasks() if one.id == id_))


def test_its_own_solutions_pass_and_spoilt_ones_fail(bench: Bfcl) -> None:
    verdict = asyncio.run(judge(bench))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (4, [], [], [])


def test_tasks_are_those_of_the_category_that_leave_something_to_judge(bench: Bfcl) -> None:
    assert [one.id for one in bench.tasks()] == ["base_1", "base_3", "base_4", "base_5"]


def test_turns_become_numbered_requests() -> None:
    assert text([["One."]]) == "One."
    assert (
        text([["One."], ["Two.", "And more."]])
        == "Do these requests of one user in their order:\n1. One.\n2. Two. And more."
    )


def test_any_way_to_the_same_state_is_right_and_no_other_state_is(bench: Bfcl) -> None:
    episode = begun(bench, "base_1")
    for paper in ("plan", "map"):
        call(episode, "touch", file_name=paper)
    assert not episode.check("plan, map and list")
    call(episode, "touch", file_name="list")
    assert episode.check(None)
    call(episode, "drop")
    assert not episode.check(None)


def test_where_all_is_as_it_was_its_writes_must_have_been_done(bench: Bfcl) -> None:
    episode = begun(bench, "base_3")
    assert not episode.check(None)
    call(episode, "touch", file_name="pen")
    call(episode, "drop")
    assert episode.check(None)


def test_excluded_methods_are_not_offered(bench: Bfcl) -> None:
    assert "put_two" not in begun(bench, "base_3").tools
    assert "put_two" in begun(bench, "base_1").tools


def test_a_cursor_is_read_and_what_is_not_known_writes(bench: Bfcl) -> None:
    episode = begun(bench, "base_1")
    for _ in range(3):
        call(episode, "cd", place=2)
        call(episode, "touch", file_name="list")
    assert (episode.writes, episode.repeated_writes) == (3, 2)
    assert episode.tools["drop"].protocol.effect is Effect.WRITE
    assert reads("MathAPI", "power")
    assert not reads("TicketAPI", "ticket_login")


def test_a_text_that_leaves_the_wording_open_is_not_stated(bench: Bfcl) -> None:
    assert [one.id for one in bench.tasks() if not one.stated] == ["base_4"]


def test_a_response_that_its_document_contradicts_is_shown_by_another_tasks_example(bench: Bfcl) -> None:
    tools = begun(bench, "base_1").tools
    two = tools["put_two"].protocol
    assert two.returns is None
    assert [(e.arguments, e.response) for e in two.examples] == [({"first": "cup", "second": "key"}, {"count": 2})]
    assert tools["ls"].protocol.returns == converted(TOOLS[0]["returns"])
    assert tools["touch"].protocol.returns == {"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]}
    assert two.description == "Drawer: It does putTwo."


def test_schemas_are_real_json_schemas() -> None:
    given = {"type": "dict", "properties": {"type": {"type": "float", "default": "None"}, "n": {"default": 0}}}
    assert converted(given) == {"type": "object", "properties": {"type": {"type": "number"}, "n": {"default": 0}}}


@pytest.mark.parametrize(
    ("method", "arguments", "message", "outcome"),
    [
        ("get_paper", {"number": 9}, "no paper 9", "refused"),
        ("get_paper", {"number": 5}, "IndexError", "refused"),
        ("get_paper", {"wrong": 5}, "unexpected keyword", "refused"),
        ("putTwo", {"first": "a", "second": "a"}, "they are the same", "unknown"),
        ("putTwo", {"first": "a", "second": 1}, "AttributeError", "unknown"),
        ("get_paper", {"precision": 10**9}, "at most", "refused"),
    ],
)
def test_every_refusal_is_a_tool_error_that_tells_whether_it_acted(
    method: str, arguments: dict[str, Any], message: str, outcome: str
) -> None:
    drawer = Drawer()
    drawer.papers = ["old note"]
    with pytest.raises(ToolError, match=message) as caught:
        answer(drawer, method, arguments)
    assert caught.value.outcome == outcome


def test_responses_are_copies_in_json_values() -> None:
    drawer = Drawer()
    answer(drawer, "ls", {})["papers"].append("smuggled")
    assert drawer.papers == []
    drawer.papers = [(1, 2)]
    assert answer(drawer, "ls", {}) == {"papers": [[1, 2]]}


@pytest.mark.parametrize("call", ["touch(open('x'))", "touch(", "unknown()", "a.touch('x')", "1"])
def test_a_solution_is_never_evaluated(bench: Bfcl, folder: Path, call: str) -> None:
    written(folder, [task(1, ("Do it.", [call]))])
    with pytest.raises(EnvironmentProblem, match="no call of a documented tool"):
        bench.tasks()


def test_a_missing_package_names_the_command(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no_such_package_at_all")
    with pytest.raises(EnvironmentProblem, match=r"python -m benchmarks\.fetch bfcl"):
        Bfcl(tmp_path).tasks()


def test_a_class_that_is_not_known_says_so() -> None:
    with pytest.raises(EnvironmentProblem, match="no class 'Drawer'"):
        load_class("Drawer")


# With the data ------------------------------------------------------------------------------------------------------


@needs_data
@needs_package
def test_every_solution_of_bfcl_passes_and_spoilt_ones_fail() -> None:
    verdict = asyncio.run(judge(Bfcl(DATA)))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (94, [], [], [])


@needs_data
@needs_package
def test_what_reads_leaves_the_state_of_bfcl_alone() -> None:
    bench = Bfcl(DATA)
    for record in bench.records.values():
        objects = bench._instances(record)
        for method, arguments, _ in bench.steps[record["id"]]:
            group = bench.documents[method]["group"]
            before = {name: module.public_state(one) for name, one in copy.deepcopy(objects).items()}
            answer(objects[group], method, arguments)
            after = {name: module.public_state(one) for name, one in objects.items()}
            assert before == after or not reads(group, method), method

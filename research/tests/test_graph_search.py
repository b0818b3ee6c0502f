"""The benchmark of searches: what counts as a chain, what counts as found, and what it says of wrong input."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from atc_research_benchmarks.graph_search import Service, Task, flows_of, main, measured, service
from benchmarks.retrieval.data import protocol_of


def _tool(name: str, takes: str = "", gives: str = "") -> dict[str, Any]:
    return {
        "id": f"nestools/{name}",
        "name": name,
        "description": "",
        "source": "nestools",
        "parameters": {takes: {"type": "string", "required": True}} if takes else {},
        "response": {gives: {"type": "string"}} if gives else None,
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three tools, each of which feeds the next, one that has no part, and three tasks."""
    tools = [
        _tool("find_user", "name", "user_id"), _tool("get_cart", "user_id", "cart_id"), _tool("pay", "cart_id"),
        _tool("now", "", "time"),
    ]  # fmt: skip
    calls = [
        (["find_user", "get_cart", "now", "pay"], [[0, 1], [1, 3]]),  # `now` is gold, and no part of the chain
        (["find_user", "get_cart"], [[0, 1]]),
        (["now"], []),  # depends on nothing
    ]
    tasks = [
        {"id": str(number), "source": "nestools", "calls": [{"tool": f"nestools/{name}"} for name in names]}
        | {"edges": edges}
        for number, (names, edges) in enumerate(calls)
    ]
    files: dict[str, list[dict[str, Any]]] = {
        "retrieval/corpus_toolbench.jsonl.gz": [],
        "retrieval/corpus_other.jsonl.gz": tools,
        "trajectories/trajectories.jsonl.gz": tasks,
    }
    for name, records in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with gzip.open(tmp_path / name, "wt") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    with gzip.open(tmp_path / "retrieval" / "pools.json.gz", "wt") as file:
        file.write("{}")
    return tmp_path


def test_a_chain_is_what_the_last_tool_depends_on(data: Path) -> None:
    found = service(data, "nestools")
    assert [sorted(task.chain) for task in found.tasks] == [
        ["nestools/find_user", "nestools/get_cart", "nestools/pay"],
        ["nestools/find_user", "nestools/get_cart"],
    ]
    assert len(found.tasks[0].gold) == 4


@pytest.mark.parametrize("edges", ["schemas", "seen", "names"])
def test_each_search_is_counted_by_the_same_chains(data: Path, edges: Any) -> None:
    lines = {line.search: line for line in measured(service(data, "nestools"), edges)}
    best = lines["exact, best path"]
    assert (best.tasks, best.whole, best.wanted, best.found, best.offered, best.right) == (2, 2, 3, 3, 3, 3)
    assert lines["alpha-beta (Alg. 1)"].whole == 1  # it finds what is one step away
    assert lines["breadth-first"].whole == 2


def test_what_was_seen_teaches_the_other_half_alone() -> None:
    tools = {name: protocol_of(_tool(name, takes, gives)) for name, takes, gives in (("a", "", "x"), ("b", "y", "z"))}
    chain = frozenset({"a", "b"})
    seen = Task("b", chain, chain, 0, (("b", "y"), ("b", "y")), (("a", "b", "y"),))
    other = replace(seen, half=1, flows=())
    first, second = Service("s", tools, [seen, other]).graphs("seen")
    assert first[1] == [seen]
    assert list(first[0].feeds("b")) == []
    (feed,) = second[0].feeds("b")
    assert (feed.supplier.tool, feed.evidence, feed.weight, feed.seen) == ("a", "seen", 0.5, 1)


@pytest.mark.parametrize(
    ("call", "argument"),
    [({"label": "var1"}, "$var1.id$"), ({}, "API_call_0"), ({"output": {"id": "u77"}}, "u77")],
)
def test_an_argument_that_came_from_an_earlier_call_is_known(call: dict[str, Any], argument: str) -> None:
    calls = [{"tool": "a", **call}, {"tool": "b", "args": {"user": argument, "day": "Monday"}}]
    assert list(flows_of({"calls": calls, "edges": [[0, 1]]})) == [("a", "b", "user")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give --data DIR"),
        (["--data", "/nowhere"], "/nowhere"),
        (["--data", "/nowhere", "--source", "nestool"], "--source knows no 'nestool'"),
        (["--data", "/nowhere", "--edges", "words"], "--edges knows no 'words'"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATC_DATA", raising=False)
    app = typer.Typer()
    app.command()(main)
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code
    assert says in ran.output.replace("\n", "")


def test_the_figures_can_be_had_as_json(data: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    ran = CliRunner().invoke(app, ["--data", str(data), "--source", "nestools", "--edges", "schemas", "--json"])
    assert json.loads(ran.stdout)["found"][0]["whole"] == 2

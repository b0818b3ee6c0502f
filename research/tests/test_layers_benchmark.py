"""The benchmark of layers: its figures, its data, and what it says of wrong input; on data made here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from atc.errors import EnvironmentProblem, UsageError
from atc_research_benchmarks import layers
from atc_research_benchmarks.layers import Habits, Known, LayerTask, layer_data, methods


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(layers.main)
    return made


def write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in records).encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sources of ten tasks: look something up, then send it."""
    tools, tasks = [], []
    for source in ("nestools", "seal_tools"):
        for number in range(10):
            found, sent, unused = (f"{source}/{verb}_{number}" for verb in ("find_thing", "send_thing", "draw_thing"))
            response = {"thing_id": {"type": "string"}} if source == "nestools" else {}
            tools.append({"id": found, "source": source, "name": f"find_thing_{number}", "parameters": {}})
            tools[-1]["response"] = response
            parameters = {"thing_id": {"type": "string", "required": True}}
            tools.append({"id": sent, "source": source, "name": f"send_thing_{number}", "parameters": parameters})
            tools.append({"id": unused, "source": source, "name": f"draw_thing_{number}", "parameters": {}})
            calls = [{"tool": sent}, {"tool": found}, {"tool": sent}]
            task = {"source": source, "task": f"Send thing {number}", "calls": calls, "layers": [1, 0, 7]}
            tasks.append({**task, "id": f"{source}:{number}"})
            single = {"source": source, "task": f"Draw {number}", "calls": [{"tool": unused}], "layers": [0]}
            tasks.append({**single, "id": f"{source}:single {number}"})
    write(tmp_path / "retrieval/corpus_other.jsonl.gz", tools)
    write(tmp_path / "retrieval/corpus_toolbench.jsonl.gz", [])
    write(tmp_path / "trajectories/trajectories.jsonl.gz", tasks)
    return tmp_path


def test_figures() -> None:
    right = {"a": 0, "b": 0, "c": 1}
    assert layers.figures([(right, right)]) == layers.Figures(1, 100.0, 100.0, 1.0)
    in_one = layers.figures([(right, dict.fromkeys(right, 0))])
    assert (round(in_one.exact, 1), in_one.pairs, in_one.tau) == (66.7, 50.0, 0.0)
    backwards = layers.figures([(right, {"a": 1, "b": 1, "c": 0})])
    assert (backwards.exact, backwards.pairs, backwards.tau) == (0.0, 0.0, -1.0)
    assert 0 < layers.tau_b([0, 0, 1], [0, 1, 2]) < 1, "an order that is not there costs"


def test_of_a_tool_on_two_layers_the_first_counts_and_others_are_of_the_source(folder: Path) -> None:
    data = layer_data(folder)
    task = next(each for each in data.tasks if each.id == "nestools:3")
    assert dict(task.layers) == {"nestools/send_thing_3": 1, "nestools/find_thing_3": 0}
    assert 0 < len(task.others) <= 5
    assert not set(task.others) & task.layers.keys()
    assert all(tool.startswith("nestools/") for tool in task.others)
    assert data.sources == ["nestools", "seal_tools"]
    assert layer_data(folder) == data


def test_a_task_is_left_out_of_the_habits_that_it_is_asked_with(folder: Path) -> None:
    data = layer_data(folder)
    task = next(each for each in data.tasks if each.ordered)
    habits = Habits(data)
    assert habits.of(task, list(task.layers)) == {}
    again = LayerTask("another", task.source, {})
    assert habits.of(again, list(task.layers)) == {tool: {layer: 1.0} for tool, layer in task.layers.items()}
    first = Known("schemas, habit", data, habits).layers(again, list(task.layers))
    assert first == task.layers


def test_the_table_and_its_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = layers.layer_data(folder)
    names = {each.name for each in methods(found)}
    assert names == {"all in one", "schemas", "habit", "schemas, habit"}
    arguments = ["--data", str(folder), "--method", "all in one;schemas"]
    shown = CliRunner().invoke(app(), arguments)
    assert shown.exit_code == 0, shown.output
    assert "nestools" in shown.output
    told = CliRunner().invoke(app(), [*arguments, "--json", "--others"])
    rows = json.loads(told.stdout)["rows"]
    by = {(row["method"], row["source"]): row for row in rows}
    assert by["all in one", "nestools"]["pairs"] == 50
    assert by["schemas", "nestools"]["pairs"] == 100
    assert by["schemas", "mean"]["pairs"] == (100 + by["schemas", "seal_tools"]["pairs"]) / 2


def test_wrong_input_is_named(folder: Path) -> None:
    result = CliRunner().invoke(app(), ["--data", str(folder), "--method", "luck"])
    assert isinstance(result.exception, UsageError)
    assert "no method 'luck'" in str(result.exception)


def test_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="--data DIR"):
        layer_data(tmp_path)

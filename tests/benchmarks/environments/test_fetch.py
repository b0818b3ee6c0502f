"""Other people's benchmarks are fetched by the hash of their wheels, from an index of our own here."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from atc.errors import EnvironmentProblem
from benchmarks import fetch as fetching
from benchmarks.environments.complexfuncbench import ComplexFuncBench
from benchmarks.environments.complexfuncbench_wheel import convert, cut, in_half
from benchmarks.environments.self_test import judge
from benchmarks.fetch import SETS, Set, Wheel, fetch, main, use_packages

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's


def wheel_of(folder: Path, name: str, files: dict[str, str]) -> Wheel:
    """A wheel on disk, and its entry in a set."""
    path, info = folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl", f"{name.replace('-', '_')}-1.0.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    meta = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", f"{info}/WHEEL": tag}
    record = "".join(f"{file},,{len(text)}\n" for file, text in {**files, **meta}.items())
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, **meta, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return Wheel(name, "1.0", hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only index there is."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_set_is_installed_once_and_can_be_imported(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "toy", Set("a toy", (wheel_of(index, "atc-toy-set", {"atc_toy_set.py": "ONE = 1\n"}),)))
    monkeypatch.setattr(sys, "path", sys.path.copy())
    told: list[str] = []
    fetch("toy", tmp_path / "data", told.append)
    fetch("toy", tmp_path / "data", told.append)
    assert told == ["toy: atc-toy-set 1.0"]
    use_packages(tmp_path / "data")
    import atc_toy_set  # type: ignore[import-not-found]

    assert atc_toy_set.ONE == 1


def test_another_wheel_under_the_same_name_is_not_taken(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(index, "atc-toy-set", {"atc_toy_set.py": "ONE = 2\n"})
    monkeypatch.setitem(SETS, "toy", Set("a toy", (Wheel("atc-toy-set", "1.0", "0" * 64),)))
    with pytest.raises(EnvironmentProblem, match="toy could not be fetched"):
        fetch("toy", tmp_path / "data")
    assert not list((tmp_path / "data" / "packages").iterdir())


def command(*arguments: str) -> Any:
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, [*arguments])


def test_what_cannot_be_had_is_an_error_that_says_where_from(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "toy", Set("a toy", (Wheel("atc-toy-set", "1.0", "0" * 64),)))
    ran = command("toy", "--to", str(tmp_path / "data"))
    assert ran.exit_code == 3
    assert "No matching distribution" in ran.output
    assert "needs PyPI" in " ".join(ran.output.split())


def test_a_check_says_what_is_missing_and_fetches_nothing(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "toy", Set("a toy", (wheel_of(index, "atc-toy-set", {}),)))
    ran = command("toy", "--check", "--json", "--to", str(tmp_path / "data"))
    assert (ran.exit_code, json.loads(ran.stdout)["sets"][0]["missing"]) == (1, ["atc-toy-set 1.0"])
    assert not (tmp_path / "data").exists()
    assert command("toy", "--to", str(tmp_path / "data")).exit_code == 0
    assert command("toy", "--check", "--to", str(tmp_path / "data")).exit_code == 0


def test_a_package_that_lost_a_file_is_missing_and_is_fetched_again(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(index, "atc-toy-set", {"atc_toy_set/__init__.py": "ONE = 1\n", "atc_toy_set/data.json": "[1]"})
    monkeypatch.setitem(SETS, "toy", Set("a toy", (wheel,)))
    data, whole = tmp_path / "data", tmp_path / "data/packages/atc_toy_set/data.json"
    fetch("toy", data)
    assert SETS["toy"].missing(data) == []
    whole.write_text("[")
    assert SETS["toy"].missing(data) == ["atc-toy-set 1.0"]
    whole.unlink()
    assert command("toy", "--check", "--to", str(data)).exit_code == 1
    fetch("toy", data)
    assert (whole.read_text(), SETS["toy"].missing(data)) == ("[1]", [])


def test_sets_may_be_named_with_commas(tmp_path: Path) -> None:
    ran = command("telecom,long", "bfcl", "--check", "--json", "--to", str(tmp_path))
    assert [each["set"] for each in json.loads(ran.stdout)["sets"]] == ["telecom", "long", "bfcl"]


def test_a_folder_that_cannot_be_filled_is_named(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "toy", Set("a toy", (wheel_of(index, "atc-toy-set", {"a.py": ""}),)))
    said = "ERROR: Exception:\nTraceback (most recent call last):\nOSError: [Errno 28] No space left on device\n"
    broken = subprocess.CompletedProcess([], 2, "", said)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: broken)
    ran = command("toy", "--to", str(tmp_path / "data"))
    assert ran.exit_code == 2
    assert "No space left on device" in " ".join(ran.output.split())
    assert str(tmp_path) in "".join(ran.output.split())
    (tmp_path / "file").write_text("")
    assert command("toy", "--to", str(tmp_path / "file")).exit_code == 2


def test_an_index_that_is_not_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setitem(SETS, "toy", Set("a toy", (Wheel("atc-toy-set", "1.0", "0" * 64),)))
    with pytest.raises(EnvironmentProblem, match=r"http://127\.0\.0\.1:9/simple cannot be reached"):
        fetch("toy", tmp_path / "data")


def test_a_set_that_nobody_knows_and_a_python_without_pip_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (command("moon").exit_code, "take some of telecom" in command("moon").output) == (2, True)
    monkeypatch.setattr(fetching.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="ensurepip"):
        fetch("telecom", tmp_path)


def test_every_wheel_is_named_with_a_version_and_a_hash() -> None:
    for known in SETS.values():
        for wheel in [*known.wheels, *([known.source] if known.source else [])]:
            assert re.fullmatch(r"[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", wheel.requirement)


# ComplexFuncBench -----------------------------------------------------------------------------------------------------


def step(label: str, name: str, arguments: dict[str, Any], response: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "label": label, "errors": [], "response": response}


def text_in_half(wanted: bool) -> str:
    return next(text for text in (f"Which  Flight\n{n}?" for n in range(99)) if in_half(text) is wanted)


def test_the_wheel_becomes_what_the_environment_reads(index: Path, tmp_path: Path) -> None:
    wide = {f"f{number}": number for number in range(20)} | {"token": "t" * 200}
    output = [
        step("var1", "Find_City", {"query": "Rome"}, [wide, wide, wide]),
        step("var2", "Get_Map", {"city": "$var1.token$"}, {"status": True}),
    ]
    records = [{"input": text_in_half(False), "output": []}, {"input": text_in_half(True), "output": output}]
    parameter = {"type": "string", "description": "It.", "required": True, "enum": [], "default": None}
    tools = [
        {"name": name, "description": "It.", "host": "h", "endpoint": f"api/v1/city/{name}",
         "query_parameters": {argument: parameter}, "output_parameters": {}}
        for name, argument in (("Find_City", "query"), ("Get_Map", "city"))
    ]  # fmt: skip
    folder = "data_v1/complexfuncbench/complexfuncbench-"
    wheel_of(index, "toy", {f"{folder}data.json": json.dumps(records), f"{folder}spec.json": json.dumps(tools)})
    assert convert(index / "toy-1.0-py3-none-any.whl", tmp_path) == 1
    lines = gzip.decompress((tmp_path / "executable/complexfuncbench/tasks.jsonl.gz").read_bytes()).splitlines()
    (task,) = map(json.loads, lines)
    assert (task["id"], task["query"]) == ("cfb/1", " ".join(text_in_half(True).split()))
    assert len(task["gold"][0]["response"]) == 2
    assert list(task["gold"][0]["response"][0]) == [*(f"f{number}" for number in range(14)), "token"]
    assert task["gold"][1]["args"] == {"city": "$var1.token$"}
    assert task["gold"][1]["resolved"] == {"city": "t" * 120}, "the part of it that a caller can see"

    import asyncio

    verdict = asyncio.run(judge(ComplexFuncBench(tmp_path)))
    assert (verdict.tasks, verdict.unsolved, verdict.taken) == (1, [], [])


def test_deep_parts_of_a_response_are_cut_shorter() -> None:
    fields = {f"f{number}": number for number in range(9)}
    deep = {"a": {"b": {**fields, "c": {"list": [1], **fields, "d": {"e": 1}}}}}
    short = {f"f{number}": number for number in range(6)}
    assert cut(deep) == {"a": {"b": short}}
    kept = cut(deep, frozenset({("a", "b", "c", "d")}))
    assert kept == {"a": {"b": {**short, "c": {**short, "d": {"e": 1}}}}}

"""``atc tools learn decoder``: it says what is missing; with torch, a model of two layers goes through both stages."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from atc.catalogue.index.index import ToolIndex
from atc.cli import app
from atc.schemas.protocol import Protocol
from atc_research.extras import TRAIN
from atc_research.toolweaver.tool_codes import Codes, CodesFacts, write_codes
from tests.support.retrieval import HashedWords
from tests.support.tiny_model import model_in

TOOLS = {"weather/now": (0, 1), "weather/week": (0, 2), "mail/send": (3, 1)}


def index_in(folder: Path, codes: dict[str, tuple[int, int]] | None = None) -> Path:
    """An index of three tools, with codes where they are given."""
    tools = [(id, Protocol(name=id.replace("/", "_"), description=f"About {id}.")) for id in TOOLS]
    encoder = HashedWords()
    index = ToolIndex.build(tools, encoder, folder)
    if codes:
        values = np.array([codes[id] for id in index.ids], np.int16)
        books = (np.zeros((4, encoder.dimensions), np.float32),) * 2
        write_codes(folder, Codes(values, books, CodesFacts("closed-form", encoder=encoder.digest)), index.ids)
    return folder


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["tools", "learn", "decoder", *map(str, words)])
    return result.exit_code, " ".join(result.output.split())


def pairs_in(folder: Path, gold: str = "mail/send") -> Path:
    path = folder / "pairs.jsonl"
    path.write_text(json.dumps({"query": "write to Ann", "gold": [gold]}) + "\n")
    return path


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    plain = index_in(tmp_path / "plain")
    there = ("--model", tmp_path, "-o", tmp_path / "out")
    code, said = run("queries", pairs_in(tmp_path), "--index", plain, *there)
    assert code == 2
    assert "has no codes: make them with `atc tools learn codes --closed-form`" in said
    index = index_in(tmp_path / "index", TOOLS)
    code, said = run("queries", pairs_in(tmp_path), "--index", index, *there, "--start", "zero")
    assert (code, "take words or random" in said) == (2, True)
    if find_spec("torch") or find_spec("transformers"):
        return
    code, said = run("ask", "x", "--index", index, "--model", tmp_path, "--from", tmp_path)
    assert code == 3
    assert TRAIN in said


@pytest.mark.slow
def test_both_stages_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_in(tmp_path / "model")
    index = index_in(tmp_path / "index", TOOLS)
    one, two = tmp_path / "one", tmp_path / "two"
    where = ("--index", index, "--model", model)
    code, said = run("queries", pairs_in(tmp_path, "no/tool"), *where, "-o", one)
    assert (code, "no/tool" in said) == (2, True)
    train = ("queries", pairs_in(tmp_path), *where, "-o", one, "--rank", 4, "--rate", 0.02, "--epochs", 60)
    code, said = run(*train, "--device", "abacus")
    assert (code, "no device 'abacus'" in said) == (2, True)
    code, said = run(*train, "--minutes", 0)
    assert (code, "0 of 60 steps; the same command goes on" in said) == (1, True)
    code, said = run(*train)
    assert (code, "60 steps over 4 examples" in said) == (0, True), said
    asked = ["tools", "learn", "decoder", "ask", "write to Ann", *map(str, where), "--from", str(one), "--json"]
    found = json.loads(CliRunner().invoke(app, asked).stdout)
    assert found[0]["tool"] == "mail/send"
    assert len(found) == 3

    call = {"function": {"name": "mail_send", "arguments": "{}"}}
    stranger = {"function": {"name": "no_tool", "arguments": "{}"}}
    chats = [
        [{"role": "user", "content": "mail"}, {"role": "assistant", "tool_calls": [each]}] for each in (call, stranger)
    ]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in chats))
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    stage = ("trajectories", path, "--runs", *where, "--from", one)
    code, said = run(*stage, "-o", two, "--recompute")
    assert (code, "1 trajectories of 2 call tools of this index" in said) == (0, True), said
    code, said = run(*stage, "-o", one)
    assert (code, "name another folder" in said) == (2, True)
    code, said = run(*train[:-4], "--rank", 2)
    assert (code, "another model or rank" in said) == (2, True)
    other = index_in(tmp_path / "other", {**TOOLS, "mail/send": (3, 2)})
    code, said = run("ask", "x", "--index", other, "--model", model, "--from", one)
    assert (code, "of other tools or codes" in said) == (2, True)

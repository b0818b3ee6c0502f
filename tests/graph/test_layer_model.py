"""Predicted layers: features of pairs, the model that ships, and what becomes of a damaged file."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.errors import EnvironmentProblem, UsageError
from atc.graph import layer_model
from atc.graph.layer_features import PAIR_FEATURES, pair_features
from atc.graph.layer_model import LAYERS, MAX_TOOLS, LayerModel, load, predicted_layers, shipped
from atc.graph.layer_network import MAX_BYTES, LayerNetwork
from atc.learn.layer_fit import OrderedTools, fit
from atc.tools.protocol import Protocol

TEXT = {"type": "string"}


def protocol(name: str, takes: tuple[str, ...] = (), about: str = "") -> Protocol:
    parameters = {"type": "object", "properties": dict.fromkeys(takes, TEXT), "required": list(takes)}
    return Protocol(name=name, description=about, parameters=parameters)


TOOLS: dict[str, Protocol] = {
    each.name: each
    for each in (
        protocol("send_report", ("report_text", "address"), "Send a report to an address."),
        protocol("write_report", ("sales_figures",), "Write a report about sales figures."),
        protocol("get_sales_figures", (), "Get the sales figures of the last month."),
    )
}


def test_what_looks_up_comes_before_what_sends() -> None:
    found = predicted_layers(TOOLS)
    assert found["get_sales_figures"] < found["write_report"] <= found["send_report"]
    assert list(found) != []
    backwards = dict(reversed(TOOLS.items()))
    assert predicted_layers(backwards) == found, "the order in which tools are given decides nothing"


def test_what_a_task_mentions_first_counts() -> None:
    rows = pair_features(TOOLS, "Write the report, then send it.")
    column = PAIR_FEATURES.index("order of mention")
    names = list(TOOLS)
    assert rows[names.index("write_report"), names.index("send_report"), column] == 1
    assert rows[names.index("send_report"), names.index("write_report"), column] == -1
    assert not pair_features(TOOLS)[:, :, column].any()
    assert np.isfinite(pair_features(TOOLS, "\x00" * 10_000)).all()


def test_few_tools_and_very_many_are_not_asked_about() -> None:
    assert predicted_layers({}) == {}
    assert predicted_layers({"send_report": TOOLS["send_report"]}) == {}
    many = {f"tool_{number}": protocol(f"tool_{number}") for number in range(MAX_TOOLS + 1)}
    assert predicted_layers(many) == {}


def test_there_are_never_more_layers_than_the_most() -> None:
    words = "search get choose compute create update send delete list show rank book cancel notify close".split()
    tools = {f"{word}_thing": protocol(f"{word}_thing") for word in words}
    found = predicted_layers(tools, " ".join(tools), threshold=0.1)
    assert found.keys() == tools.keys()
    assert max(found.values()) < LAYERS


def test_a_model_is_what_its_record_says() -> None:
    record = shipped().record()
    again = LayerModel.read(record)
    assert again.record() == record
    assert predicted_layers(TOOLS, model=again) == predicted_layers(TOOLS)
    assert "learnt from" in shipped().made


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"weights": {}},
        {"weights": None},
        {"bias": "0"},
        {"bias": True},
        {"bias": 1e9},
        {"weights": dict.fromkeys(PAIR_FEATURES, None)},
    ],
)
def test_what_is_no_model_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="layer model"):
        LayerModel.read({**shipped().record(), **change})


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="install atc-runtime again"):
        load(tmp_path / "gone.json", layer_model.SHA256)
    damaged = tmp_path / "layer_weights.json"
    damaged.write_bytes(Path(layer_model.__file__).with_name("layer_weights.json").read_bytes() + b" ")
    with pytest.raises(EnvironmentProblem, match="damaged"):
        load(damaged, layer_model.SHA256)


def test_a_model_learns_an_order_and_the_same_each_time() -> None:
    found = pair_features(TOOLS)
    tasks = [OrderedTools(found, (2, 1, 0)), OrderedTools(found[:2, :2], (0, 0))]
    model = fit(tasks, ridge=1.0)
    assert predicted_layers(TOOLS, model=model) == {"send_report": 2, "write_report": 1, "get_sales_figures": 0}
    assert fit(tasks, ridge=1.0).record() == model.record()
    with pytest.raises(ValueError, match="no order"):
        fit([OrderedTools(found, (0, 0, 0))])


def archive(about: bytes, *, packed: bool = False, more: bytes = b"") -> bytes:
    held, one = io.BytesIO(), io.BytesIO()
    np.save(one, np.frombuffer(about, np.uint8))
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as made:
        made.writestr("about.npy", one.getvalue())
        made.writestr("more.npy", more)
    return held.getvalue()


def broken() -> bytes:
    """An archive whose packed bytes are damaged."""
    content = bytearray(archive(b'{"heads": 1}' * 50, packed=True))
    at = content.find(b"about.npy") + len(b"about.npy")
    content[at + 2 : at + 12] = b"\xff" * 10
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 100,
        archive(b'{"heads": 1e999}'),
        archive(b"[" * 100_000),
        archive(b"\xff\xfe\xfa"),
        archive(b"{}", packed=True, more=b"0" * (MAX_BYTES + 1)),
        broken(),
    ],
    ids=["empty", "garbage", "infinite", "deep", "no text", "packed", "damaged"],
)
def test_what_is_no_network_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "weights.npz"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="make it anew"):
        LayerNetwork.read(file, hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b"[]"])
def test_what_is_no_layer_model_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "weights.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="no layer model"):
        load(file, hashlib.sha256(content).hexdigest())

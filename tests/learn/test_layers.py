"""The paper's layer network: it learns, NumPy computes what torch does, and its file is read strictly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atc.errors import UsageError
from atc.extras import install_command
from atc.graph.layer_model import LAYERS
from atc.graph.layer_network import LayerNetwork


def tiny(seed: int = 0) -> LayerNetwork:
    """A network of size 4 with 2 heads over vectors of 3 numbers."""
    rng = np.random.default_rng(seed)
    shapes = {
        **{f"{which}.0.weight": (4, 3) for which in ("query", "tool")},
        **{f"{which}.{part}": (4,) for which in ("query", "tool") for part in ("0.bias", "1.weight", "1.bias")},
        "encoder.layers.0.self_attn.in_proj_weight": (12, 4),
        "encoder.layers.0.self_attn.in_proj_bias": (12,),
        "encoder.layers.0.self_attn.out_proj.weight": (4, 4),
        "encoder.layers.0.linear1.weight": (5, 4),
        "encoder.layers.0.linear1.bias": (5,),
        "encoder.layers.0.linear2.weight": (4, 5),
        **{
            f"encoder.layers.0.{part}": (4,)
            for part in ("self_attn.out_proj.bias linear2.bias norm1.weight norm1.bias norm2.weight norm2.bias".split())
        },
        "weight.weight": (1, 4),
        "bias": (LAYERS - 1,),
    }
    arrays = {name: rng.normal(size=shape).astype(np.float16).astype(np.float32) for name, shape in shapes.items()}
    return LayerNetwork(arrays, 2, "by hand")


def test_stored_weights_give_the_same_layers(tmp_path: Path) -> None:
    network = tiny()
    digest = network.write(tmp_path / "network.npz")
    assert digest == tiny().write(tmp_path / "again.npz"), "the same weights are the same bytes"
    again = LayerNetwork.read(tmp_path / "network.npz", digest)
    query, tools = np.ones(3, np.float32), np.eye(3, dtype=np.float32)
    assert np.allclose(again.logits(query, tools), network.logits(query, tools))
    found = again.layers(query, tools)
    assert len(found) == 3
    assert all(0 <= layer < LAYERS for layer in found)
    assert again.layers(query, tools[[2, 0, 1]]) == [found[2], found[0], found[1]], "their order decides nothing"
    assert again.layers(query, tools[:0]) == []
    assert (again.made, again.heads, again.depth) == ("by hand", 2, 1)


def test_another_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    with pytest.raises(UsageError, match="cannot be read"):
        LayerNetwork.read(path, "")
    digest = tiny().write(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="make it anew"):
        LayerNetwork.read(path, digest)
    odd = dict(tiny().arrays)
    odd["bias"] = odd["bias"][:1]
    with pytest.raises(UsageError, match="do not fit"):
        LayerNetwork.read(path, LayerNetwork(odd, 2).write(path))
    del odd["bias"]
    with pytest.raises(UsageError, match="no layer network"):
        LayerNetwork.read(path, LayerNetwork(odd, 2).write(path))
    with pytest.raises(UsageError, match="do not fit"):
        LayerNetwork.read(path, LayerNetwork(tiny().arrays, 3).write(path))


@pytest.mark.slow
def test_numpy_computes_what_torch_does_and_a_network_learns() -> None:
    torch = pytest.importorskip("torch")
    from atc.learn.layers import LayerExample, Options, train

    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(3, 16)).astype(np.float32)
    examples = []
    for _ in range(60):
        layers = [int(each) for each in rng.integers(0, 3, 4)]
        tools = kinds[[*layers, 0]] + 0.1 * rng.normal(size=(5, 16)).astype(np.float32)
        examples.append(LayerExample(rng.normal(size=16).astype(np.float32), tools, layers))
    network = train(examples, Options(size=16, inner=24, heads=4, epochs=20, batch=4, rate=5e-3))
    numpy_one = network.exported("a test")
    right = total = 0
    for each in examples:
        with torch.no_grad():
            absent = torch.zeros(1, len(each.tools), dtype=torch.bool)
            theirs = network(torch.from_numpy(each.query[None]), torch.from_numpy(each.tools[None]), absent)[0].numpy()
        assert np.abs(numpy_one.logits(each.query, each.tools) - theirs).max() < 1e-4
        found = numpy_one.layers(each.query, each.tools[: len(each.layers)])
        right, total = right + sum(a == b for a, b in zip(found, each.layers, strict=True)), total + len(found)
    assert right / total > 0.9
    with pytest.raises(ValueError, match="no layers"):
        train([])


def test_without_torch_a_line_says_what_is_missing() -> None:
    code = "import sys; sys.modules['torch'] = None; import atc.learn.layers"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert install_command("train") in ran.stderr

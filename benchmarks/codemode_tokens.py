"""Tokens of a text, by the tokenizer in a model's file: what a client's context holds is counted with a real one.

A GGUF file holds its model's vocabulary and merges. The library ``tokenizers`` applies them; no runtime is loaded.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.errors import UsageError

CHARACTERS = 4.0
"""Of a token, where no tokenizer is at hand."""

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# How Qwen2 cuts text before its merges (its own tokenizer.json says so; a GGUF file has only the name `qwen2`).
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Tokenizer:
    """Counts tokens.

    Attributes:
        name: of the tokenizer, as a table says it.
        count: tokens of a text.
    """

    name: str
    count: Callable[[str], int]


def tokenizer_of(model: Path | None) -> Tokenizer:
    """The tokenizer of a model's file; four characters a token where there is no file, or no ``tokenizers``.

    Raises:
        UsageError: the file is no GGUF model of a kind that is known here.
    """
    if model is None or not model.is_file():
        return Tokenizer("4 characters a token", lambda text: round(len(text) / CHARACTERS))
    try:
        import tokenizers
    except ImportError:
        return tokenizer_of(None)
    facts = gguf_facts(model)
    if facts.get("tokenizer.ggml.pre") != "qwen2":
        raise UsageError(f"{model} has the tokenizer {facts.get('tokenizer.ggml.pre')!r}: only qwen2 is known here")
    vocabulary = {word: number for number, word in enumerate(facts["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    cut = tokenizers.pre_tokenizers
    made.pre_tokenizer = cut.Sequence(
        [
            cut.Split(tokenizers.Regex(_QWEN2), "isolated"),
            cut.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return Tokenizer(str(facts.get("general.name", model.stem)), lambda text: len(made.encode(text).tokens))


def gguf_facts(file: Path) -> dict[str, Any]:
    """What a GGUF file says of its model: its metadata, without the weights.

    Raises:
        UsageError: it is none.
    """
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(data).facts()
        except (struct.error, KeyError, UnicodeDecodeError, IndexError):
            raise UsageError(f"{file} is no GGUF file that can be read") from None


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 0

    def facts(self) -> dict[str, Any]:
        magic, _, _, count = self._unpack("4sIQQ")
        if magic != b"GGUF":
            raise KeyError(magic)
        return {self._text(): self._value(self._unpack("I")[0]) for _ in range(count)}

    def _unpack(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _text(self) -> str:
        (length,) = self._unpack("Q")
        text = self._data[self._at : self._at + length]
        if len(text) < length:
            raise IndexError(length)
        self._at += length
        return text.decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            inner, count = self._unpack("IQ")
            return [self._value(inner) for _ in range(count)]
        return self._unpack(_FORMATS[kind])[0]

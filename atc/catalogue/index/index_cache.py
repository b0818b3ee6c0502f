"""Indexes that are made unasked, kept in the user's cache: one folder for each toolset, encoder and version.

The folder's name is a digest of the protocols, of the encoder and of the index's format, so that a tool that changed
leads to another folder and nothing stale is ever read. Several processes may use one cache: an index takes its place
whole (:mod:`atc.catalogue.index.index_store`). Protocols are not kept, for the toolset holds them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from atc._host.files import make_private
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_store import FILE, FORMAT, VERSION
from atc.catalogue.index.shared import SharedWriter
from atc.catalogue.index.snapshot import Progress
from atc.catalogue.index.vectors import Encoder
from atc.errors import ToolIndexError, UsageError
from atc.tools.tool import Toolset

INDEXES = "indexes"
"""The folder of kept indexes, in the folder of the setting ``catalogue``."""
KEPT_FROM = 100
"""Tools from which an index by words alone is kept: a smaller one is made in the time that it takes to read."""
MOST, MOST_BYTES = 8, 2_000_000_000
"""Indexes that are kept, those used last, and what they may take together."""
_UNFINISHED_S = 7 * 24 * 3600
"""Seconds after which a folder without an index is given up: the process that made it has been killed."""


def kept_index(
    tools: Toolset, encoder: Encoder | None, cache: Path | None, progress: Progress
) -> tuple[ToolIndex, str]:
    """Return the index of tools: the kept one, else a new one, which is kept.

    Args:
        tools: of the index.
        encoder: of its vectors; ``None``: by words alone.
        cache: the folder of all kept indexes; ``None``: nothing is kept.
        progress: told of each stage of a new one.

    Returns:
        The index, and why it could not be kept; empty if it could.

    Raises:
        ModelError: the encoder failed in the middle of work.
    """
    if cache is None or (encoder is None and len(tools) < KEPT_FROM):
        return ToolIndex.build(tools, encoder, progress=progress), ""
    folder = cache / digest_of(tools, encoder)
    index: ToolIndex | None = None
    try:
        _make_private(cache)  # first: what others could have put there is not read
        with suppress(ToolIndexError, UsageError):  # there is none, or it is damaged: it is made anew
            kept = ToolIndex.load(folder, encoder, tools)
            with suppress(OSError):
                os.utime(folder / FILE)  # pruning sees that it is used
            return kept, ""
        index = ToolIndex.build(tools, encoder, progress=progress)
        index.save(folder, progress, documents=False)
        problem = ""
    except (ToolIndexError, OSError) as error:
        reason = str(error) if isinstance(error, ToolIndexError) else f"{cache}: {error.strerror or error}"
        problem = f"the index of the tools is not kept for the next run: {reason}"
        index = index or ToolIndex.build(tools, encoder, progress=progress)
    with suppress(OSError):
        prune(cache, keep=folder)
    return index, problem


def digest_of(tools: Toolset, encoder: Encoder | None) -> str:
    """Return a name that changes with any protocol, the encoder or the format of indexes."""
    digest = hashlib.sha256(f"{FORMAT} {VERSION} {encoder.digest if encoder else ''}\n".encode())
    shared = SharedWriter()
    lines = [shared.line(name, tool.protocol) for name, tool in tools.items()]
    for line in (*lines, *shared.texts):
        digest.update(line)
        digest.update(b"\n")
    return digest.hexdigest()[:32]


def prune(cache: Path, *, keep: Path | None = None, most: int = MOST, most_bytes: int = MOST_BYTES) -> list[Path]:
    """Delete all but the indexes that were used last. Who has one open keeps it.

    Args:
        cache: the folder of all kept indexes.
        keep: one that stays, whatever its size.
        most: indexes that stay. ``most_bytes``: what they take together.

    Returns:
        The folders that were deleted.

    Raises:
        OSError: the cache cannot be read.
    """
    gone, total = [], 0
    found = sorted(_used(cache), key=lambda each: (each[1] != keep, -each[0]))
    for place, (used, folder) in enumerate(found):
        total += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        unfinished = not (folder / FILE).exists()
        old = time.time() - used > _UNFINISHED_S if unfinished else place >= most or total > most_bytes
        if folder != keep and old:
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


def _make_private(cache: Path) -> None:
    make_private(cache)
    if cache.stat().st_mode & 0o077:
        cache.chmod(0o700)


def _used(cache: Path) -> Iterator[tuple[float, Path]]:
    for folder in cache.iterdir():
        if folder.is_dir() and not folder.is_symlink():
            file = folder / FILE
            with suppress(OSError):
                yield (file if file.exists() else folder).stat().st_mtime, folder

"""The user's own adapters of queries: private files in the folder of the catalogue, one for each family of tools."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atc.errors import UsageError
from atc.retrieval.adapter import Adapter
from atc.retrieval.snapshot import id_digest

if TYPE_CHECKING:
    from atc.retrieval.index import ToolIndex

MAX_FILES = 64
"""Adapters that are looked at, the newest."""
_DRAFT_S = 3_600
"""Seconds after which nobody writes a draft any more."""
_PREFIX, _SUFFIX, _BEFORE = "ranking-", ".json", ".before.json"


class OwnAdapters:
    """The adapters in one folder. Reading never fails: a damaged file counts as none.

    Args:
        folder: of the setting ``catalogue``.

    Attributes:
        notices: which files do not count, and why, as of the last reading.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[tuple[int, int], Adapter | str]] = {}
        self.notices: tuple[str, ...] = ()

    def columns(self, index: ToolIndex) -> Sequence[Adapter]:
        """What counts for an index: one adapter at most."""
        return [adapter for _, adapter in filter(None, [self.find(index)])]

    def find(self, index: ToolIndex) -> tuple[Path, Adapter] | None:
        """The adapter with the most of its tools in an index, at least half, and of its encoder; with its file."""
        best: tuple[int, str, Path, Adapter] | None = None
        for path, adapter in self._read():
            if adapter.encoder == index.encoder_digest and (scorer := adapter.scorer(index.snapshot)) is not None:
                found = (int(scorer.taught.sum()), path.name, path, adapter)
                best = max(best or found, found, key=lambda each: each[:2])
        return None if best is None else best[2:]

    def keep(self, adapter: Adapter, index: ToolIndex) -> Path:
        """Keep an adapter, in the place of the one that counts for the index until now, which can be had back.

        Raises:
            UsageError: it cannot be written.
        """
        for draft in self._drafts():
            with suppress(OSError):
                if time.time() - draft.stat().st_mtime > _DRAFT_S:
                    draft.unlink()
        known = self.find(index)
        if known is None:
            path = self._folder / f"{_PREFIX}{id_digest(adapter.encoder + str(adapter.tools.tolist())):016x}{_SUFFIX}"
            _before(path).unlink(missing_ok=True)
        else:
            path, old = known
            old.write(_before(path))
        adapter.write(path)
        return path

    def roll_back(self, index: ToolIndex) -> Adapter | None:
        """Go back to the adapter before; ``None``: there was none, and ranking is as without.

        Raises:
            UsageError: nothing was learnt for these tools, or a file cannot be changed.
        """
        known = self.find(index)
        if known is None:
            raise UsageError("there is nothing to roll back: no ranking was learnt for these tools")
        path, _ = known
        try:
            if _before(path).exists():
                os.replace(_before(path), path)
            else:
                path.unlink()
        except OSError as error:
            raise UsageError(f"{path} cannot be rolled back: {error.strerror}") from None
        found = self.find(index)
        return None if found is None else found[1]

    def forget(self, ids: Collection[str] | None = None) -> int:
        """Delete the adapters that were learnt for some tools, and those before them; all when not given.

        An adapter cannot forget one of its tools alone. Damaged ones are deleted too: nobody can say what is in them.

        Returns:
            How many files are gone.

        Raises:
            UsageError: a file cannot be deleted; those before it are gone.
        """
        named = None if ids is None else np.array([id_digest(id) for id in ids], np.uint64)
        gone = 0
        for draft in self._drafts():
            with suppress(OSError):
                draft.unlink()
        for path in self._files(before=True):
            adapter = _read(path)
            if named is None or isinstance(adapter, str) or bool(np.isin(named, adapter.tools).any()):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise UsageError(f"{path} cannot be deleted: {error.strerror}. Delete it by hand") from None
                gone += 1
        return gone

    def _read(self) -> Iterator[tuple[Path, Adapter]]:
        """The adapters; a file that has not changed is not read again."""
        known, notices = {}, []
        found: list[tuple[tuple[int, int], Path]] = []
        for path in self._files():
            with suppress(OSError):
                state = path.stat()
                found.append(((state.st_mtime_ns, state.st_size), path))
        for stamp, path in sorted(found, reverse=True)[:MAX_FILES]:
            before = self._known.get(path)
            adapter = before[1] if before is not None and before[0] == stamp else _read(path)
            known[path] = (stamp, adapter)
            if isinstance(adapter, str):
                notices.append(f"what was learnt of ranking does not count: {adapter}; `atc learn` makes it anew")
        self._known, self.notices = known, tuple(notices)
        for path, (_, adapter) in known.items():
            if not isinstance(adapter, str):
                yield path, adapter

    def _drafts(self) -> list[Path]:
        """What a process that was killed while it wrote has left, and what another one writes right now."""
        with suppress(OSError):
            return sorted(self._folder.glob(f".{_PREFIX}*{_SUFFIX}.*"))
        return []

    def _files(self, *, before: bool = False) -> list[Path]:
        with suppress(OSError):
            found = sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))
            return [path for path in found if before or not path.name.endswith(_BEFORE)]
        return []


def _before(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_SUFFIX) + _BEFORE)


def _read(path: Path) -> Adapter | str:
    """An adapter, or what is wrong with its file."""
    try:
        return Adapter.read(path)
    except UsageError as error:
        return str(error)

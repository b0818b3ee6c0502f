"""What probing keeps in its folder: a document for each tool, and beside them what is known, to go on from."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from atc.errors import UsageError
from atc.files import write_whole
from atc.probing.document import protocol_of
from atc.probing.record import Record
from atc.tools.documents import DRIFTED, drifted_tools, dump_protocols
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset

STATE = ".probe"
"""The folder of records inside the folder of documents; importers pass over it."""


class Store:
    """The folder, or none: then nothing is kept.

    Args:
        folder: made if need be.
        must_exist: it is read only.

    Raises:
        UsageError: it cannot be written, or is not there and must be.
    """

    def __init__(self, folder: str | Path | None, *, must_exist: bool = False) -> None:
        self._folder = Path(folder) if folder else None
        if must_exist and (self._folder is None or not self._folder.is_dir()):
            raise UsageError(f"there is no folder {folder}: give one that `atc probe -o` wrote")
        if self._folder is not None and not must_exist:
            try:
                (self._folder / STATE).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"the folder {folder} cannot be made: {error.strerror}") from None

    def load(self, tools: Toolset) -> dict[str, Record]:
        """A record for each tool: as it was left, or a new one.

        Raises:
            UsageError: a record is damaged; its file is named.
        """
        return {name: self._read(name) or Record(name) for name in tools}

    def load_all(self) -> dict[str, Record]:
        """All records that are there.

        Raises:
            UsageError: a record is damaged; its file is named.
        """
        if self._folder is None:
            return {}
        names = sorted(file.stem for file in (self._folder / STATE).glob("*.json") if file.name != DRIFTED.name)
        return {name: record for name in names if (record := self._read(name)) is not None}

    def save(self, record: Record) -> None:
        """Keep a record; a crash leaves the old one or the new one, whole."""
        if self._folder is None:
            return
        file = self._folder / STATE / f"{record.name}.json"
        write_whole(file, json.dumps(record.to_json(), ensure_ascii=False), 0o666)

    def document(self, declared: Protocol, record: Record) -> None:
        """Write the tool's document."""
        if self._folder is not None:
            dump_protocols([protocol_of(declared, record)], self._folder)
            if record.name in (drifted := drifted_tools(self._folder)):
                self.note_drifted(drifted - {record.name})

    def note_drifted(self, names: Iterable[str]) -> None:
        """Keep which tools answer otherwise than their documents say, for those who load them; a folder that cannot be
        written keeps none.
        """
        if self._folder is None:
            return
        file = self._folder / DRIFTED
        with contextlib.suppress(OSError):
            write_whole(file, json.dumps(sorted(names)), 0o666)

    def _read(self, name: str) -> Record | None:
        if self._folder is None:
            return None
        file = self._folder / STATE / f"{name}.json"
        try:
            return Record.from_json(json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{file} is no record of this version ({error}): remove it to probe anew") from None

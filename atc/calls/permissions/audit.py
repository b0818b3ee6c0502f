"""The audit log: who approved or refused what, a JSON line each, in a file that its owner alone reads.

Names and a masked, shortened form of arguments stand in it; answers of tools do not. Old lines go: the file is turned
over at a size, and few of its predecessors stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atc._host.files import close_file, lock, make_private, open_plain, unlock
from atc._host.redaction import Redactor
from atc._host.secret_detection import masked_exception
from atc._records.packing import as_text
from atc._records.records import DataFlow, Origin
from atc.calls.permissions.facts import Caller
from atc.result import Effect

MAX_BYTES, KEPT = 10_000_000, 4
"""Bytes of the file, from which a new one is begun; and how many old ones stay beside it."""
MAX_ARGUMENTS, MAX_VALUE, MAX_NAME = 30, 300, 200
"""Arguments of a line, characters of the value of one, and of a name."""
MAX_ORIGINS, MAX_STEPS, MAX_KEY = 50, 4, 50
"""Origins of a line, keys of the path of one, and characters of such a name."""
_MASKED_OF = 20_000
"""Characters of a value that are looked through for what looks secret; all of it is searched for known secrets."""
_MAX_LINE = 200_000
_LOCK_S = 2.0


Verdict = Literal["allowed", "refused", "parked", "approved", "denied", "voided", "expired"]


class AuditRecord(BaseModel):
    """One decision.

    Attributes:
        at: when, UTC, ISO 8601.
        principal: who called, as far as that was proved; ``client`` is what it calls itself.
        verdict: ``allowed`` or ``refused``, when it was to be made; ``parked``: it waits for approval; ``approved`` or
            ``denied``, when somebody decided about it while it waited; ``voided``: a yes to it does not hold any more;
            ``expired``: nobody decided in time.
        by: ``rule N``, ``default``, ``user``, ``nobody`` (who could have been asked), ``read_only``, ``grant``,
            ``choice`` (``--approve``) or ``cap NAME``.
        who: who decided while it waited. ``via``: where.
        call: its number in the run, where it waits or waited.
        why: it was voided: ``tool``, ``reads``, ``question`` (there is more to ask), ``approver`` (no approver said it)
            or ``expired``.
        repeats: the run of the same caller that did the same.
        origins: of each argument, where its origins were found; never a value. ``untrusted``: the arguments that
            strangers may have chosen. ``author_saw``: the tools whose text, which strangers write, the program's author
            had seen.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    at: str = Field(max_length=40)
    principal: str
    client: str = ""
    run: str = ""
    tool: str
    effect: Effect
    arguments: dict[str, str] = Field(default_factory=dict)
    verdict: Verdict
    by: str
    who: str = ""
    via: str = ""
    call: int = 0
    why: str = ""
    repeats: str = ""
    origins: dict[str, tuple[Origin, ...]] = Field(default_factory=dict)
    untrusted: tuple[str, ...] = ()
    author_saw: tuple[str, ...] = ()


class AuditLog:
    """Writes the log. Several processes may share a file.

    Args:
        path: of the file.
        redactor: masks the secrets that ATC knows.
        max_bytes: from which a new file is begun.
    """

    def __init__(self, path: Path, redactor: Redactor | None = None, *, max_bytes: int = MAX_BYTES) -> None:
        self.path, self.max_bytes = path, max_bytes
        self._redactor = redactor or Redactor()

    async def note(
        self,
        client: Caller,
        *,
        tool: str,
        effect: Effect,
        arguments: Mapping[str, Any],
        verdict: Verdict,
        by: str,
        run: str = "",
        repeats: str = "",
        who: str = "",
        via: str = "",
        call: int = 0,
        why: str = "",
        flow: DataFlow | None = None,
    ) -> None:
        """Write down a decision, before what it allows is done. While another process writes, the event loop goes on.

        Raises:
            OSError: it cannot be written.
            EnvironmentProblem: the operating system has no locks of files.
        """
        record = AuditRecord(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            principal=self._redactor.text(client.principal)[:MAX_NAME],
            client=self._redactor.text(client.name)[:MAX_NAME],
            run=run[:MAX_NAME],
            tool=tool[:MAX_NAME],
            effect=effect,
            arguments=self._shown(arguments),
            verdict=verdict,
            by=by[:MAX_NAME],
            who=self._redactor.text(who)[:MAX_NAME],
            via=via[:MAX_NAME],
            call=call,
            why=why[:MAX_NAME],
            repeats=repeats[:MAX_NAME],
            **self._flow(flow or DataFlow()),
        )
        text = json.dumps(record.model_dump(exclude_defaults=True), ensure_ascii=False)
        whole = json.loads(text.encode("utf-8", "replace"))  # no reader of JSON takes halves of letters
        await self._append(json.dumps(whole).encode() + b"\n")

    def _flow(self, flow: DataFlow) -> dict[str, Any]:
        """Return where arguments came from: names and keys, and no value; first what strangers may have chosen."""
        names = [name for name in flow.untrusted if name in flow.origins]
        origins, left = {}, MAX_ORIGINS
        for name in list(dict.fromkeys([*names, *flow.origins]))[:MAX_ARGUMENTS]:
            origins[self._name(name)] = tuple(map(self._origin, flow.origins[name][:left]))
            left -= len(flow.origins[name][:left])
        untrusted, saw = ([self._name(each) for each in of[:MAX_ARGUMENTS]] for of in (flow.untrusted, flow.author_saw))
        return {"origins": origins, "untrusted": untrusted, "author_saw": saw}

    def _origin(self, found: Origin) -> Origin:
        path = tuple(map(self._name, found.path[:MAX_STEPS]))
        return found.model_copy(update={"tool": self._name(found.tool), "path": path})

    def _name(self, name: str) -> str:
        return self._redactor.text(name)[:MAX_KEY]

    def _shown(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        shown = {}
        for name, value in list(arguments.items())[:MAX_ARGUMENTS]:
            text = as_text(self._redactor.value(value))  # masked before it is cut: half a secret is known as none
            name = self._redactor.text(name)[:MAX_NAME]
            named = masked_exception(f"{name}={text[:_MASKED_OF]}")  # by its look, and by the name beside it
            value_text = named[len(name) + 1 :] if named.startswith(f"{name}=") else "***"
            cut = f"{value_text[:MAX_VALUE]} … ({len(text):,} characters)"
            shown[name] = value_text if len(text) <= MAX_VALUE else cut
        if len(arguments) > MAX_ARGUMENTS:
            shown["…"] = f"{len(arguments) - MAX_ARGUMENTS} more"
        return shown

    async def _append(self, line: bytes) -> None:
        make_private(self.path.parent)
        async with _locked(self.path.with_name(f"{self.path.name}.lock")):
            with _opened(self.path) as file:
                turned = os.fstat(file.fileno()).st_size + len(line) > self.max_bytes
                if not turned:
                    _write(file, line)
            if turned:
                self._turn_over()
                with _opened(self.path) as file:
                    _write(file, line)

    def _turn_over(self) -> None:
        for number in range(KEPT - 1, 0, -1):
            older = _numbered(self.path, number)
            if older.exists():
                os.replace(older, _numbered(self.path, number + 1))
        os.replace(self.path, _numbered(self.path, 1))


def read_audit(path: Path, tell: Callable[[Path, int], None] | None = None) -> Iterator[AuditRecord | None]:
    """Yield the decisions, the oldest first; ``None`` for a line that cannot be read.

    Args:
        path: of the log; what was turned over is beside it.
        tell: is told of each line that cannot be read: its file, and its number from 1.

    Raises:
        OSError: a file cannot be read.
    """
    for file_path in (*(_numbered(path, number) for number in range(KEPT, 0, -1)), path):
        try:
            file = open_plain(file_path)
        except FileNotFoundError:
            continue
        with file:
            number = 0
            while line := file.readline(_MAX_LINE):
                number += 1
                try:
                    yield AuditRecord.model_validate_json(line)
                except ValidationError:
                    if tell is not None:
                        tell(file_path, number)
                    yield None


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _opened(path: Path) -> IO[bytes]:
    """Its owner alone may read it. Raises OSError where it cannot be opened, is a link, or no file."""
    file = open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, "ab", buffering=0)
    close_file(file.fileno())
    return file


def _write(file: IO[bytes], line: bytes) -> None:
    if file.write(line) != len(line):
        raise OSError("the disk took a part of a line")


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    until = time.monotonic() + _LOCK_S
    with _opened(path) as file:
        while True:
            with suppress(BlockingIOError):
                lock(file)
                break
            if time.monotonic() > until:
                raise OSError(f"{path} is locked by another process")
            await asyncio.sleep(0.002)
        try:
            yield
        finally:
            unlock(file)

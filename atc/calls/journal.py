"""The journal of a run: what was asked of tools and what came of it, written before and after every call.

A revised program runs from its start; a call that already succeeded is answered from here. The n-th success of a tool
with the same canonical arguments answers the n-th such call of a later program. A call with effects whose outcome was
never learned is *in doubt*: it is reported, and never made again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from atc.calls.canonical import canonical
from atc.errors import JournalError
from atc.locks import lock, unlock
from atc.packing import pack, unpack
from atc.result import Effect
from atc.tools.tool import NextPage

_WHAT_NOW = (
    "calls that were made may be missing from it, and would be made again. See what was done (`atc show`, and at the "
    "service itself), then start the task anew"
)
_HEAD = b'{"call": '  # how every record begins
_RECORD = re.compile(rb'\{"call": \d+, "(?:begin|value|failed)": ')
_UNFINISHED = [
    (re.compile(pattern, re.ASCII), completion)
    for pattern, completion in (
        ("", ""),
        (r'"(?:[^"\\\x00-\x1f]|\\.)*\\?', '""'),
        (r"-|t(ru?)?|f(a(ls?)?)?|n(ul?)?", "null"),
        (r"\.", ".0"),
        (r"e[+-]?", "e0"),
        (r"u[0-9a-f]{0,4}", 'u0041"'),
    )
]
"""Tokens that are cut short, and one that could stand in their place."""

CallKey = tuple[str, str]
"""A tool's name and the digest of its canonical arguments."""


def call_key(tool: str, arguments: dict[str, Any]) -> CallKey:
    """What makes two calls the same call.

    Raises:
        ValueError: the arguments have no canonical form.
    """
    return tool, hashlib.sha256(canonical(arguments).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class Entry:
    """One call that was begun. ``state`` is ``open`` until its outcome is written.

    ``arguments`` are for people to read, credentials masked; ``key`` is made from what was really sent.
    """

    number: int
    key: CallKey
    arguments: dict[str, Any]
    effect: Effect
    attempt: int
    state: Literal["open", "done", "refused", "unknown"] = "open"
    value: Any = None
    next_page: NextPage = None

    @property
    def tool(self) -> str:
        return self.key[0]

    @property
    def in_doubt(self) -> bool:
        return self.effect is not Effect.READ and self.state in ("open", "unknown")


class Journal:
    """An append-only file of JSON lines, and its index in memory.

    Args:
        path: the file; ``None`` keeps the journal in memory only. An existing file is read back and continued. The
            beginning of a record at its very end, which a crash cut short, is dropped: its call was not begun yet, or
            is in doubt. Any other damage could hide a write that was made, so such a file is refused as it is. One
            process at a time may hold it.

    Raises:
        JournalError: the file cannot be read, written or understood, or another process holds it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.entries: dict[int, Entry] = {}
        self.attempt = -1
        self._successes: dict[CallKey, list[Entry]] = {}
        self._claimed: Counter[CallKey] = Counter()
        self._met: set[int] = set()
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                self._open(path)
            except OSError as error:
                self.close()
                raise JournalError(f"cannot use the journal {path}: {error.strerror}") from None
            except JournalError:
                self.close()
                raise

    def require(self, numbers: Iterable[int]) -> None:
        """Be sure that these calls are in it: somebody else knows that they were begun.

        Raises:
            JournalError: one is not, so a part of the file is gone.
        """
        lost = next((number for number in numbers if number not in self.entries), None)
        if lost is not None:
            raise JournalError(f"the journal {self.path} lacks call {lost}, which was begun: {_WHAT_NOW}")

    def begin_attempt(self) -> None:
        """A new program starts: earlier successes may be claimed again from the first one on."""
        self.attempt += 1
        self._claimed.clear()
        self._met.clear()

    def claim(self, key: CallKey) -> Entry | None:
        """Return the recorded success that answers this call, if an earlier program made it; each answers once."""
        recorded = self._successes.get(key, [])
        position = self._claimed[key]
        if position < len(recorded) and recorded[position].attempt < self.attempt:
            self._claimed[key] += 1
            return recorded[position]
        return None

    def doubtful(self, key: CallKey) -> Entry | None:
        """The same call with effects, made before, whose outcome is unknown. A call still under way is none."""
        for entry in self.entries.values():
            under_way = entry.state == "open" and entry.attempt == self.attempt
            if entry.key == key and entry.in_doubt and not under_way:
                self._met.add(entry.number)
                return entry
        return None

    def unasked(self, tool: str) -> Entry | None:
        """What an earlier program did, or may have done, through ``tool`` and this one has not asked for (yet)."""
        for entry in self.entries.values():
            if entry.tool == tool and entry.attempt < self.attempt and entry.in_doubt and entry.number not in self._met:
                return entry
        for key, recorded in self._successes.items():
            if key[0] == tool:
                for entry in recorded[self._claimed[key] :]:
                    if entry.effect is not Effect.READ and entry.attempt < self.attempt:
                        return entry
        return None

    def begin(self, number: int, key: CallKey, arguments: dict[str, Any], effect: Effect) -> Entry:
        """Write down that a call is about to be made. On disk before this returns, if it has effects."""
        entry = Entry(number, key, arguments, effect, self.attempt)
        record = {
            "call": number,
            "begin": key[0],
            "key": key[1],
            "args": pack(arguments),
            "effect": effect.value,
            "attempt": self.attempt,
        }
        self._append(record, sync=effect is not Effect.READ)
        self.entries[number] = entry
        return entry

    def succeed(self, entry: Entry, value: Any, next_page: NextPage = None) -> None:
        """Write down the answer of a call, and what its headers say of the next page."""
        beside = {} if next_page is None else {"next_page": next_page}
        self._append({"call": entry.number, "value": pack(value), **beside}, sync=entry.effect is not Effect.READ)
        self._done(entry, value, next_page)

    def fail(self, entry: Entry, *, surely_not_done: bool, message: str) -> None:
        """Write down that a call failed, and whether it surely did nothing."""
        state: Literal["refused", "unknown"] = "refused" if surely_not_done else "unknown"
        self._append({"call": entry.number, "failed": state, "message": message}, sync=entry.effect is not Effect.READ)
        entry.state = state

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                unlock(self._file)  # a process that another thread is just starting holds it too
            self._file.close()
            self._file = None

    def _done(self, entry: Entry, value: Any, next_page: NextPage) -> None:
        entry.state, entry.value, entry.next_page = "done", value, next_page
        self._successes.setdefault(entry.key, []).append(entry)

    # -- the file -----------------------------------------------------------------------------------------------------

    def _open(self, path: Path) -> None:
        new = not path.exists()
        self._file = os.fdopen(
            os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0
        )
        try:
            lock(self._file)
        except BlockingIOError:
            raise JournalError(f"the journal {path} is in use: another process works on this run") from None
        if new:
            _sync_folder(path.parent)
        self._read(path, self._file)

    def _append(self, record: dict[str, Any], *, sync: bool) -> None:
        if self.path is None:
            return
        if self._file is None:
            raise JournalError(f"the journal {self.path} is closed")
        line = json.dumps(record, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        try:
            if self._file.write(line) != len(line):
                raise OSError(0, "the disk took a part of it only")
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self.close()  # nothing may follow half a line
            raise JournalError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def _read(self, path: Path, file: BinaryIO) -> None:
        content = file.read()
        *lines, last = content.split(b"\n")
        ended = last.rstrip(b"\0")  # some file systems leave zeros where a crash kept the rest from being written
        torn = _is_torn(ended)
        if not torn:
            lines.append(ended)
        for line_number, line in enumerate(lines, start=1):
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise JournalError(
                    f"{path}, line {line_number} is not a journal record ({error!r}): {_WHAT_NOW}"
                ) from None
        if last:  # and only now that all of it is understood: what is refused stays as it is
            file.truncate(len(content) - len(last) + (0 if torn else len(ended)))
            if not torn and file.write(b"\n") != 1:
                raise OSError(errno.EIO, "the last line cannot be ended")

    def _apply(self, record: dict[str, Any]) -> None:
        number = record["call"]
        if "begin" in record:
            key, arguments = (record["begin"], record["key"]), unpack(record["args"])
            entry = Entry(number, key, arguments, Effect(record["effect"]), record["attempt"])
            well_formed = type(number) is int and type(entry.attempt) is int and isinstance(entry.arguments, dict)
            if not well_formed or number in self.entries or not all(isinstance(part, str) for part in entry.key):
                raise ValueError("not the beginning of a new call")
            self.entries[number] = entry
            self.attempt = max(self.attempt, entry.attempt)
            return
        entry = self.entries[number]
        if entry.state != "open":
            raise ValueError(f"call {number} has ended before")
        if "value" in record:
            self._done(entry, unpack(record["value"]), _next_page(record.get("next_page")))
        elif record["failed"] in ("refused", "unknown"):
            entry.state = record["failed"]
        else:
            raise ValueError("not an outcome")


def _is_torn(last: bytes) -> bool:
    """Whether what follows the last line end is nothing, or the beginning of a record that is not all there."""
    if not last.startswith(_HEAD):
        return _HEAD.startswith(last)
    if _RECORD.search(last, 1):
        return False  # a second record, after one that was cut short in front of a value
    try:
        text = last.decode("ascii")
        json.loads(text)
    except json.JSONDecodeError as error:
        completions = [token for unfinished, token in _UNFINISHED if unfinished.fullmatch(text, error.pos)]
        return any(_lacks_only_its_end(text[: error.pos] + token) for token in completions)
    except (ValueError, RecursionError):
        return False
    return False


def _lacks_only_its_end(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos == len(text)
    return True


def _next_page(raw: Any) -> NextPage:
    if raw is None or raw is False:
        return raw
    if not isinstance(raw, dict) or not all(isinstance(text, str) for text in raw.values()):
        raise ValueError("not the arguments of a next page")
    return raw


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

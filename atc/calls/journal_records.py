"""The records of a journal: what each of them says, as JSON, and where they are kept.

=================================  =================================================================================
a record                           says
=================================  =================================================================================
``{"call": N, "begin": TOOL, …}``  call N is about to be made
``{"call": N, "sent": true}``      call N is handed to its tool; only a write has it
``{"call": N, "value": …}``        call N succeeded
``{"call": N, "failed": …}``       call N failed: ``refused`` (it surely did nothing) or ``unknown``
``{"stage": N, "commits": …}``     stage N begins, and what the one before did is committed; with ``request``, so does a
                                   task of a conversation
``{"ban": TOOL, "by": TOOL, …}``   a write is not called again, and what may be called in its place
``{"plan": DIGEST, "calls": …}``   a dry run planned these calls; ``{"apply": N, …}``: they are made from now on
``{"start": DIGEST, "at": …}``     a program begins, with this clock and seed (:mod:`atc.calls.program_start`)
``{"run_key": KEY}``               digests of tools are taken under it from here on (:mod:`atc.calls.tool_digest`)
``{"reply": N, "passed": …}``      at this reply, a program was told that it has run so long
=================================  =================================================================================

What a reader does not understand refuses the whole journal: it could hide a write that was made. A version that does
not know a program's start must not go on with its run either: it would run the program by another clock, which makes
other calls, so what was sent is sent once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from atc._records.origins import CallOrigins, data_flow
from atc._records.packing import pack, unpack
from atc._records.records import DataFlow, Replacement
from atc.calls.entry import CallEntry, CallKey, Unread
from atc.calls.idempotency import read_key
from atc.errors import JournalError
from atc.result import Effect
from atc.schemas.protocol import SourceKey
from atc.tools.tool import NextPage

Record = dict[str, Any]


class Records(Protocol):
    """Records of one run, in order, that one process at a time may append to.

    Attributes:
        name: where they are, for messages.
        marks: what a mark of a call that is about to leave survives. A call that was begun and bears no mark was surely
            not sent, as long as this text is the same. Empty where nothing is sure.
    """

    @property
    def name(self) -> str: ...

    @property
    def marks(self) -> str: ...

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all records back, in order.

        Args:
            apply: is called with each. Its ValueError, KeyError, TypeError or AttributeError refuses them all.

        Raises:
            JournalError: they cannot be read, or one of them is wrong; they are left as they are, and let go of.
        """

    def append(self, record: str, *, sync: bool, mark: bool = False) -> None:
        """Append a record, as JSON. It survives the machine before this returns if ``sync``; if it is a ``mark`` that a
        call is about to leave, it survives what :attr:`marks` says.

        Raises:
            JournalError: it cannot be written, or another process holds them now. Nothing is appended after that.
        """

    def close(self) -> None:
        """Let go of them. What is appended later fails."""


class PeekedRecords:
    """Records that are only looked at: nobody is kept from appending to them meanwhile, so the last may be cut short.

    Args:
        name: where they are, for messages.
        lines: the records as JSON lines.
    """

    marks = ""  # whether a call was sent is decided by who goes on with the run

    def __init__(self, name: str, lines: Iterable[bytes]) -> None:
        self.name, self._lines = name, lines

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all of them, in order (:meth:`Records.read`)."""
        for number, line in enumerate(self._lines, start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    return  # it is being written, or a crash cut it short
                raise self._damaged(number, error) from None
            try:
                apply(record)
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                raise self._damaged(number, error) from None

    def append(self, record: str, *, sync: bool, mark: bool = False) -> None:
        """Refuse: who only looks writes nothing."""
        raise JournalError(f"the journal {self.name} is only looked at")

    def close(self) -> None:
        """Nothing is held."""

    def _damaged(self, number: int, error: Exception) -> JournalError:
        why = f"{type(error).__name__}: {error}"[:200]
        return JournalError(f"{self.name}, record {number} is not a journal record ({why})")


class WrittenBehind:
    """Records that a thread writes, in the order in which they are given: no event loop waits for a disk.

    Args:
        records: which nobody else appends to any more.

    Attributes:
        writer: one thread. It writes the events of the run, too, each after the record that it tells of.
    """

    def __init__(self, records: Records, writer: ThreadPoolExecutor) -> None:
        self.name, self.marks = records.name, records.marks
        self._records, self._given, self._done = records, 0, 0
        self._problem: BaseException | None = None
        self.writer = writer

    @property
    def unwritten(self) -> int:
        """Return how many characters of records were given and are not written yet."""
        return self._given - self._done

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all of them (:meth:`Records.read`)."""
        self._records.read(apply)

    def append(self, record: str, *, sync: bool, mark: bool = False) -> None:
        """Give a record to the thread. That it could not be written is raised by what comes after it.

        Raises:
            JournalError: one before it could not be written.
        """
        self._check()
        self._given += len(record)
        try:
            self.writer.submit(self._write, record, sync, mark)
        except RuntimeError as ended:  # the interpreter ends
            raise JournalError(f"cannot write the journal {self.name}: {ended}") from None

    async def written(self) -> None:
        """Wait until all that was given so far is written.

        Raises:
            JournalError: it could not be.
        """
        await asyncio.wrap_future(self.writer.submit(int))
        self._check()

    def close(self) -> None:
        """Let go of them once all that was given is written."""
        with contextlib.suppress(RuntimeError):  # the thread has ended, and they are closed
            self.writer.submit(self._records.close)

    def _write(self, record: str, sync: bool, mark: bool) -> None:
        if self._problem is None:  # else nothing may follow
            try:
                self._records.append(record, sync=sync, mark=mark)
            except BaseException as problem:
                self._problem = problem
        self._done += len(record)

    def _check(self) -> None:
        if self._problem is not None:
            raise JournalError(str(self._problem)) from self._problem


# ----------------------------------------------------------------------------------------------------------------------
# A call: its beginning, and its outcome.


def begin_record(entry: CallEntry, boot: str) -> Record:
    """Return the record of a call that is about to be made.

    Args:
        entry: the call.
        boot: this start of the machine (:attr:`Records.marks`), for a call that is marked when it is sent; else empty.
    """
    key = entry.key
    return {
        "call": entry.number,
        "begin": key.tool,
        "key": key.digest,
        **({} if key.source is None else {"source": list(key.source)}),
        "args": pack(entry.arguments),
        "effect": entry.effect.value,
        "attempt": entry.attempt,
        "stage": entry.stage,
        **({"boot": boot} if boot else {}),
        **({} if entry.original is None else {"original": pack(entry.original)}),
        **({"approved": entry.approved} if entry.approved else {}),
        **({"after_parked": True} if entry.after_parked else {}),
        **({} if entry.idempotency is None else {"idempotency": entry.idempotency.record()}),
        **({"again": entry.again} if entry.again else {}),
    }


def read_begin(record: Record) -> tuple[CallEntry, str]:
    """Return the call of a record of its beginning, and the start of the machine that it names; empty if none.

    Raises:
        ValueError, KeyError, TypeError: the record is none.
    """
    number, boot = record["call"], record.get("boot", "")
    key = CallKey(record["begin"], record["key"], source_of(record.get("source")))
    attempt, stage = record["attempt"], record["stage"]
    entry = CallEntry(number, key, unpack(record["args"]), Effect(record["effect"]), attempt, stage)
    well_formed = type(number) is int and type(attempt) is int and isinstance(entry.arguments, dict)
    if not well_formed or not all(isinstance(part, str) for part in (key.tool, key.digest, boot)):
        raise ValueError("not the beginning of a new call")
    if "original" in record:
        entry.original = unpack(record["original"])
        if not isinstance(entry.original, dict):
            raise ValueError("not the arguments as they were given")
    entry.approved = record.get("approved", 0)
    if type(entry.approved) is not int:
        raise ValueError("not the number of a call that was approved")
    entry.after_parked = record.get("after_parked", False)
    if type(entry.after_parked) is not bool:
        raise ValueError("not whether a write was parked before")
    if "idempotency" in record:
        entry.idempotency = read_key(record["idempotency"])
    entry.again = record.get("again", 0)
    if type(entry.again) is not int or (entry.again and entry.idempotency is None):
        raise ValueError("not the number of a call that is sent again")
    return entry, boot


def value_record(number: int, value: Any, next_page: NextPage, unread: Unread | None) -> Record:
    """Return the record of a call that succeeded."""
    beside: Record = {} if next_page is None else {"next_page": next_page}
    beside |= {} if unread is None else {"unread": [unread.message, unread.status]}
    return {"call": number, "value": pack(value), **beside}


def read_value(record: Record) -> tuple[Any, NextPage, Unread | None]:
    """Return the response of a call that succeeded, its next page, and why the response cannot be had.

    Raises:
        ValueError: the record is none.
    """
    next_page, unread = _next_page_of(record.get("next_page")), _unread_of(record.get("unread"))
    return unpack(record["value"]), next_page, unread


def source_of(raw: Any) -> SourceKey | None:
    """Return what a tool is known by at its source; ``None`` of one without a source.

    Raises:
        ValueError: the record says something else there.
    """
    if raw is None:
        return None
    if not isinstance(raw, list) or len(raw) != 3 or not all(isinstance(part, str) for part in raw):
        raise ValueError("not what a tool is known by")
    return SourceKey(*raw)


def _unread_of(raw: Any) -> Unread | None:
    if raw is None:
        return None
    if not isinstance(raw, list) or len(raw) != 2 or not all(isinstance(text, str) for text in raw):
        raise ValueError("not why a response cannot be had")
    return Unread(*raw)


def _next_page_of(raw: Any) -> NextPage:
    if raw is None or raw is False:
        return raw
    if not isinstance(raw, dict) or not all(isinstance(text, str) for text in raw.values()):
        raise ValueError("not the arguments of a next page")
    return raw


# ----------------------------------------------------------------------------------------------------------------------
# A stage, a task of a conversation, and a write that may not be called again.


class StageBegins(NamedTuple):
    """The beginning of a stage.

    Attributes:
        stage: its number.
        commits: numbers of the calls that it commits.
        new_request: whether the stage may do again what earlier stages did.
        inputs: values of earlier stages, by name.
        request: number of the task of a conversation that begins with it; ``None`` if none does.
        answered: whether the task before was answered.
        origins: where the inputs came from, as far as that was found.
    """

    stage: int
    commits: list[int]
    new_request: bool
    inputs: dict[str, Any]
    request: int | None = None
    answered: bool = False
    origins: CallOrigins = MappingProxyType({})


def stage_record(begins: StageBegins) -> Record:
    """Return the record of the beginning of a stage."""
    record = begins._asdict() | {"inputs": pack(begins.inputs)}
    if begins.request is None:
        del record["request"], record["answered"]
    flow = data_flow(begins.origins)
    record["origins"] = {} if flow is None or flow.left_out else flow.model_dump(mode="json")["origins"]
    if not record["origins"]:
        del record["origins"]
    return record


def read_stage(record: Record) -> StageBegins:
    """Return the beginning of a stage.

    Raises:
        ValueError, KeyError, TypeError: the record is none.
    """
    commits, new_request, inputs = record["commits"], record["new_request"], unpack(record["inputs"])
    if type(record["stage"]) is not int or type(new_request) is not bool or not isinstance(inputs, dict):
        raise ValueError("not the beginning of a stage")
    begins = StageBegins(record["stage"], commits, new_request, inputs, origins=_read_origins(record))
    if "request" not in record:
        return begins
    request, answered = record["request"], record["answered"]
    if type(request) is not int or type(answered) is not bool or not new_request:
        raise ValueError("not the beginning of a task")
    return begins._replace(request=request, answered=answered)


def _read_origins(record: Record) -> CallOrigins:
    """Empty where the record does not say it. Raises ValueError where it says something else."""
    read = DataFlow.model_validate_json(json.dumps({"origins": record.get("origins", {})}))
    return {name: frozenset(of) for name, of in read.origins.items()}


Sources = tuple[SourceKey | None, SourceKey | None]


def ban_record(tool: str, substitute: Replacement, sources: Sources) -> Record:
    """Return the record of a write that may not be called again, and of what may be called in its place."""
    known = [source and list(source) for source in sources]
    return {"ban": tool, "by": substitute.tool, "arguments": dict(substitute.arguments), "sources": known}


def read_ban(record: Record) -> tuple[str, Replacement, Sources]:
    """Return the write, what may be called in its place, and what both are known by at their sources.

    Raises:
        ValueError, KeyError, TypeError: the record is none.
    """
    tool, by, arguments = record["ban"], record["by"], record["arguments"]
    if not isinstance(arguments, dict) or not all(isinstance(e, str) for e in (tool, by, *arguments.values())):
        raise ValueError("no tool that is banned")
    of_tool, of_by = map(source_of, record["sources"])
    return tool, Replacement(tool=by, arguments=tuple(arguments.items())), (of_tool, of_by)

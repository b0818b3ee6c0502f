"""The file of results, and beside it what is needed to go on: which run each task has.

``RESULTS`` has a line for each task that has ended. ``RESULTS.runs`` is written ahead of it: the id of a task's run
before the run begins, and that it has begun before it can do anything. One process at a time may have both, by
whatever names it reaches them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from atc._host.files import lock
from atc._records.packing import pack, unpack
from atc._records.records import Invocation, PendingCall
from atc.batch.limits import Spent, Which
from atc.batch.tasks import BatchTask
from atc.errors import EnvironmentProblem, UsageError
from atc.facts import Fault
from atc.result import Result, Usage
from atc.traces.stores.base import RUN_ID


class TaskResult(Result[Any]):
    """The result of a task of a batch.

    Attributes:
        id: the task's.
        over: the budget over all tasks that ended the run, or that was used up before it began; else ``None``.
        begun: whether there was a run.
        in_use: whether another process works on the run, so that the task has not ended and gets no row.
    """

    id: str = ""
    over: Which | None = None
    begun: bool = True
    in_use: bool = False


def task_result(result: Result[Any], task: BatchTask, over: Which | None = None) -> TaskResult:
    """The result of a run as that of its task."""
    fields = {name: getattr(result, name) for name in Result.model_fields if name != "value"}
    made = TaskResult.typed(result.value, result.json_value, **fields, id=task.id, over=over)
    assert isinstance(made, TaskResult)
    return made


def failed(task: BatchTask, run_id: str, reason: str, *, in_use: bool = False) -> TaskResult:
    """The result of a task that could not be run, or not be gone on with."""
    fault = Fault(kind="environment", reason=reason)
    return TaskResult(run_id=run_id, task=task.task, status="failed", fault=fault, id=task.id, in_use=in_use)


def not_begun(task: BatchTask, over: Which) -> TaskResult:
    """The result of a task for which nothing was left."""
    reason = f"the tasks before it have used up the batch's budget of {over}"
    fault = Fault(kind="limit", reason=reason)
    return TaskResult(run_id="", task=task.task, status="budget", fault=fault, id=task.id, over=over, begun=False)


def row_of(result: TaskResult, task: BatchTask) -> dict[str, Any]:
    """The line that a file of results has of a task, as plain JSON."""
    usage = result.usage
    row: dict[str, Any] = {
        "id": result.id,
        "status": result.status,
        "value": pack(result.json_value),
        "answer": result.answer,
        "task": result.task,
        "run_id": result.run_id,
        "digest": task.digest,
        "model_calls": usage.model_calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 3),
    }
    if result.cost is not None:
        row |= {"cost": str(result.cost), "currency": result.currency}
    if result.fault is not None and result.status != "answered":
        row["error"] = result.fault.message
        if result.fault.hint:
            row["hint"] = result.fault.hint
        for name, calls in (("done", result.done), ("not_done", result.not_done)):
            if calls:
                row[name] = [call.model_dump(mode="json") for call in calls]
    if result.partial:
        row["partial"] = True
    if result.remarks:
        row["remarks"] = [each.message for each in result.remarks]
    if result.question is not None:
        row["question"] = result.question
    if result.in_doubt:
        row["in_doubt"] = [{"tool": call.tool, "arguments": pack(call.arguments)} for call in result.in_doubt]
    if result.pending:
        row["pending"] = [call.model_dump(mode="json") for call in result.pending]
    if result.over is not None:
        row["over"] = result.over
    return row


def spent_in(row: Mapping[str, Any]) -> Spent:
    """What a row says that its run spent.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: it is damaged.
    """
    calls, *tokens = (int(row[name]) for name in ("model_calls", "prompt_tokens", "completion_tokens"))
    cost = Decimal(str(row.get("cost", 0)))
    if min(calls, *tokens) < 0 or not (cost.is_finite() and cost >= 0):
        raise ValueError("nobody spends less than nothing")
    return Spent(calls, sum(tokens), cost)


def result_of(row: Mapping[str, Any], task: BatchTask) -> TaskResult:
    """The result that an earlier process wrote into a file: without its programs and calls, its value as JSON.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: the row is damaged.
    """
    given = {name: row[name] for name in ("run_id", "task", "status", "answer", "id")} | {"value": unpack(row["value"])}
    usage = Usage(**{name: row[name] for name in ("model_calls", "prompt_tokens", "completion_tokens", "seconds")})
    more: dict[str, Any] = {name: row[name] for name in ("question", "currency", "over") if name in row}
    if "cost" in row:
        more["cost"] = Decimal(row["cost"])
    for name in ("done", "not_done"):
        more[name] = tuple(Invocation.model_validate_json(json.dumps(each)) for each in row.get(name, ()))
    pending = tuple(PendingCall.model_validate_json(json.dumps(each)) for each in row.get("pending", ()))
    if "error" in row:
        more["fault"] = Fault(kind="environment", reason=row["error"], hint=row.get("hint", ""))
    remarks = tuple(Fault(kind="tool", reason=text) for text in row.get("remarks", ()))
    more |= {"partial": row.get("partial", False), "remarks": remarks, "pending": pending}
    return TaskResult(**given, **more, usage=usage)


_DAMAGE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
SHOWN = 10
"""Tasks that a message names one by one."""


@dataclass(frozen=True)
class Begun:
    """A run that a task was given.

    Attributes:
        run_id: its name.
        started: whether it surely began, so that it may have done something.
        again: whether it is gone on with also where it has ended without an answer.
    """

    run_id: str
    started: bool = False
    again: bool = False


class Book:
    """What has been done of a batch. Open one with ``with``.

    Args:
        path: the file of results; it is made where it is not there.
        again: go on also with tasks that have ended without an answer.
        waits: says of the id of a run whose calls waited for approval whether they still do. A task whose run waits is
            not gone on with, whatever ``again`` says; any other is.

    Attributes:
        begun: by a task's id, the run of each that has begun and has no row.
        spent: by earlier processes.
    """

    def __init__(self, path: Path, *, again: bool = False, waits: Callable[[str], bool] = lambda run_id: False) -> None:
        self.path, self._again = path.resolve(), again  # a link to the file has no runs of its own
        self._waits = waits
        self.begun: dict[str, Begun] = {}
        self.spent = Spent()
        self._digests: dict[str, str] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._runs: IO[bytes] | None = None
        self._results: IO[bytes] | None = None
        self._writer = ThreadPoolExecutor(1, "atc-book")

    @property
    def runs_path(self) -> Path:
        """The file beside it."""
        return self.path.with_name(self.path.name + ".runs")

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files, once all that was given to its thread is written."""
        self._writer.shutdown()
        self._let_go()

    def _let_go(self) -> None:
        for file in (self._results, self._runs):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        self._results = self._runs = None

    async def in_thread(self, work: Callable[..., object], *given: Any) -> None:
        """Do some of its work in a thread of its own, in the order in which that is given."""
        await asyncio.get_running_loop().run_in_executor(self._writer, work, *given)

    def _open(self) -> None:
        try:
            _opened(self.path).close()  # what is no ordinary file gets no file beside it
            self._runs = self._locked(self.runs_path)
            for number, record in _records(self._runs, self.runs_path, ours=True):
                try:
                    self._take(record)
                except _DAMAGE:
                    raise _damaged(self.runs_path, number) from None
            self._results = self._locked(self.path)
            for number, row in _records(self._results, self.path, ours=bool(self._digests)):
                try:
                    if not isinstance(row["id"], str) or row["id"] in self._rows:
                        raise ValueError
                    self._rows[row["id"]] = row
                    self._digests.setdefault(row["id"], row["digest"])
                    self.spent += spent_in(row)
                except _DAMAGE:
                    raise _damaged(self.path, number) from None
            again = [row for row in self._rows.values() if self._goes_on(row)]
            if again:
                self._drop(again)
            for task_id in self._rows:
                self.begun.pop(task_id, None)
        except OSError as error:
            raise EnvironmentProblem(f"{self.path} cannot be used for results: {error.strerror}") from None

    def _locked(self, path: Path) -> IO[bytes]:
        file = _opened(path)
        try:
            lock(file)
        except BlockingIOError:
            file.close()
            raise UsageError(f"another process works on {self.path}: wait for it, or name another file") from None
        return file

    def _take(self, record: Mapping[str, Any]) -> None:
        match record["kind"]:
            case "begin":
                if not RUN_ID.fullmatch(record["run_id"]):
                    raise ValueError
                self.begun[record["id"]] = Begun(record["run_id"])
                self._digests[record["id"]] = record["digest"]
            case "started":
                self.begun[record["id"]] = replace(self.begun[record["id"]], started=True)
            case "dropped":
                self.begun[record["id"]] = replace(self.begun[record["id"]], again=record.get("again", True))
                self.spent += spent_in(record)
            case _:
                raise ValueError

    def _goes_on(self, row: Mapping[str, Any]) -> bool:
        """Whether a task that has a row is gone on with: a budget of the batch ended it, its run waits for nobody any
        more, or that is asked for."""
        if row["status"] == "waiting":
            return not self._waits(row["run_id"])
        answered = row["status"] in ("answered", "planned")
        return not answered and ("over" in row or self._again)

    def _drop(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            spent = {name: row[name] for name in ("model_calls", "prompt_tokens", "completion_tokens")}
            again = row["status"] != "waiting"  # how it ended since then, elsewhere, is its end
            dropped = {"kind": "dropped", "id": row["id"], "again": again, "cost": row.get("cost", 0), **spent}
            self._append(dropped, sync=False)
            del self._rows[row["id"]]
            self.begun[row["id"]] = Begun(row["run_id"], started=True, again=again)
        assert self._runs is not None
        os.fsync(self._runs.fileno())
        descriptor, name = tempfile.mkstemp(dir=self.path.absolute().parent, prefix=f".{self.path.name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, self.path.stat().st_mode & 0o777)
                file.writelines(map(_line, self._rows.values()))
                file.flush()
                os.fsync(descriptor)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        if self._results is not None:
            self._results.close()
        self._results = self._locked(self.path)

    def check(self, tasks: list[BatchTask]) -> None:
        """Hold the tasks to what the files say of them.

        Raises:
            UsageError: a task is another one than the one that had its id.
        """
        changed = [task.id for task in tasks if self._digests.get(task.id, task.digest) != task.digest]
        if changed:
            more = len(changed) - SHOWN
            named = ", ".join(map(repr, changed[:SHOWN])) + (f" and {more:,} more" if more > 0 else "")
            raise UsageError(
                f"{self.path} has results of other tasks under the ids {named}: a task that changed needs an id of its "
                "own, or name another file for the results"
            )

    def done(self, task: BatchTask) -> TaskResult | None:
        """The result of a task that has a row.

        Raises:
            UsageError: the row is damaged.
        """
        row = self._rows.get(task.id)
        if row is None:
            return None
        try:
            return result_of(row, task)
        except _DAMAGE:
            raise UsageError(f"the row of the task {task.id!r} in {self.path} is damaged: remove that line") from None

    def begin(self, task: BatchTask, run_id: str) -> None:
        """Write down which run a task gets, before it begins."""
        self._append({"kind": "begin", "id": task.id, "run_id": run_id, "digest": task.digest}, sync=True)
        self.begun[task.id] = Begun(run_id)

    def started(self, task: BatchTask) -> None:
        """Have its thread write down that the run of a task has begun; that this failed is told by :meth:`end`."""
        known = self.begun.get(task.id)
        if known is not None and not known.started:
            self._writer.submit(partial(self._append, {"kind": "started", "id": task.id}, sync=False))
            self.begun[task.id] = replace(known, started=True)

    def end(self, result: TaskResult, task: BatchTask) -> None:
        """Write the row of a task. It survives the machine before this returns.

        Raises:
            EnvironmentProblem: it cannot be written.
        """
        _write(self._results, _line(row_of(result, task)), self.path, sync=True)
        self.begun.pop(task.id, None)

    def _append(self, record: Mapping[str, Any], *, sync: bool) -> None:
        _write(self._runs, _line(record), self.runs_path, sync=sync)


def _opened(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a device or a pipe may have no end
        os.close(descriptor)
        raise UsageError(f"{path} is no ordinary file: name another file for the results")
    return os.fdopen(descriptor, "r+b", buffering=0)


def _records(file: IO[bytes], path: Path, *, ours: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file with the numbers of their lines. Of our own, a last one that a crash cut is removed."""
    whole = 0
    with os.fdopen(os.dup(file.fileno()), "rb") as reading:
        reading.seek(0)
        for number, line in enumerate(reading, start=1):
            if not line.endswith(b"\n"):
                if not ours:
                    raise _damaged(path, number)
                os.ftruncate(file.fileno(), whole)
                return
            whole += len(line)
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise _damaged(path, number) from None
            if not isinstance(record, dict):
                raise _damaged(path, number)
            yield number, record


def _damaged(path: Path, number: int) -> UsageError:
    return UsageError(f"{path}, line {number}, is nothing that `atc batch` wrote: name another file for the results")


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _write(file: IO[bytes] | None, line: bytes, path: Path, *, sync: bool) -> None:
    if file is None:
        raise EnvironmentProblem(f"{path} is closed")
    try:
        if file.write(line) != len(line):
            raise OSError(0, "the disk took a part of a line only")
        if sync:
            os.fsync(file.fileno())
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be written: {error.strerror}; run it again to go on") from None

"""Traces and journals of runs, as they are read back from a disk that kept whatever."""

from __future__ import annotations

import tempfile
from pathlib import Path

from atc.calls.journal import Journal
from atc.errors import JournalError, UsageError
from atc.programs.lessons.reading import all_lessons
from atc.serve.mcp.client import _made
from atc.traces.stores.files import FileRun, FileStore
from benchmarks.fuzzing.mutator import LINES
from benchmarks.fuzzing.programs import BY_NAME
from benchmarks.fuzzing.target import Broken, Target

_ID = "20240101-000000-abcdef"
_store = FileStore(Path(tempfile.mkdtemp(prefix="atc-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)))
_run = _store.run(_ID)
_run.make()


def run(data: bytes) -> None:
    """Read an input as a journal and as a trace."""
    _run.trace.write_bytes(data)
    _store.find("last")
    _trace(_run)
    _run.journal.write_bytes(data)
    _made(_run.where, _run.peeked())
    try:
        Journal(_run.journal).close()
    except JournalError:
        if _run.journal.read_bytes() != data:
            raise Broken("journal: a file that was refused is not what it was") from None
        return
    kept = _run.journal.read_bytes()
    try:
        Journal(_run.journal).close()
    except JournalError as error:
        raise Broken(f"journal: what was taken is refused when it is read again: {error}") from None
    if _run.journal.read_bytes() != kept:
        raise Broken("journal: read twice, the file changed twice")


def _trace(stored: FileRun) -> None:
    readers = (
        lambda: list(stored.latest()),
        lambda: list(stored.begun_writes()),
        stored.programs,
        lambda: stored.first("run_started"),
        lambda: stored.last("run_ended"),
        lambda: list(all_lessons(stored, BY_NAME)),
    )
    for read in readers:
        try:
            read()
        except UsageError:
            continue


TARGET = Target(
    "records",
    run,
    head_lines=LINES,
    words=(
        "v", "kind", "data", "at", "run_started", "run_ended", "program_written", "call_started", "call_sent",
        "call_ended", "tools_chosen", "model_ended", "index", "tool", "arguments", "effect", "read", "write",
        "unknown", "status", "ok", "failed", "replayed", "value", "error", "line", "task", "turn", "program",
        "attempt", "stage", "commits", "inputs", "call", "begin", "sent", "refused", "message", "key", "args", "boot",
        "ban", "by", "$bytes", "search", "order", "request", "answered", "repaired_for", "origins", "original",
        "awaits", "page", "next_page", "unread", "start", "seed", "of",
    ),
)  # fmt: skip

"""Stores of runs that say where a coroutine of the product came into them: its event loop would stand with them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from atc.batch.book import Book
from atc.calls.journal_file import JournalFile
from atc.traces.stores.base import StoredRun
from atc.traces.stores.files import FileRun, FileStore, FileTrace

WATCHED: tuple[type, ...] = (StoredRun, FileStore, FileRun, FileTrace, JournalFile, Book)
OPENING: tuple[type, ...] = (JournalFile, FileTrace)
"""They open what they write as they are made."""
if find_spec("psycopg") is not None:
    from atc.traces.stores.postgres import PostgresRun, PostgresStore
    from atc.traces.stores.postgres_records import PostgresRecords, PostgresTrace
    from atc.traces.stores.postgres_session import Session

    WATCHED += (PostgresStore, PostgresRun, PostgresTrace, PostgresRecords, Session)
    OPENING += (PostgresRecords,)
HARMLESS = (
    *("FileStore.run", "PostgresStore.run", "kept_in_doubt", "traceback_place"),
    *("Book.check", "Book.done", "Book.started", "Book.in_thread"),
)
"""Methods that reach neither a disk nor a server."""
TESTS = str(Path(__file__).parents[1])
PRODUCT = tuple(str(Path(__file__).parents[2] / folder) for folder in ("atc", "research/atc_research"))


def watch() -> list[str]:
    """Watch all stores of this process from now on; return the list to which what is found is added."""
    found: list[str] = []
    for owner in WATCHED:
        for name, method in [*vars(owner).items()]:
            whole, opens = f"{owner.__name__}.{name}", name == "__init__" and owner in OPENING
            if inspect.isfunction(method) and not whole.endswith(HARMLESS) and (opens or not name.startswith("_")):
                setattr(owner, name, _watched(whole, method, found))
    return found


def _watched(name: str, method: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        if name.endswith("__init__") and (maker := sys._getframe(2)).f_code.co_filename.startswith(TESTS):
            given[0].of_a_test = maker.f_code.co_name  # what a test opened by itself is no run's
        if asyncio._get_running_loop() is not None and not hasattr(given[0], "of_a_test") and (where := _coroutine()):
            found.append(f"{name} by {where}")
        return method(*given, **named)

    return called


def _coroutine() -> str:
    """Return where the innermost coroutine of this thread stands, if it is the product's; a test's may do as it likes.
    A callback of the loop has none, and is the product's."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        code = frame.f_code
        is_callback = code.co_filename.endswith("asyncio/events.py")
        if is_callback or code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            ours = is_callback or code.co_filename.startswith(PRODUCT)
            return f"{code.co_filename}:{frame.f_lineno} {code.co_name}" if ours else ""
        frame = frame.f_back
    return ""

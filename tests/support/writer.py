"""A run that has not begun, and what writes its programs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from atc._host.redaction import Redactor
from atc.calls.broker import Broker
from atc.calls.journal import Journal
from atc.catalogue.catalogue import Catalogue
from atc.models.base import Model
from atc.run.resources import Resources, limits_of
from atc.run.run import Run
from atc.run.writer import DEFAULT_OPTIONS, Writer, WritingOptions
from atc.settings import Settings
from atc.tools.tool import Toolset


def run_of(task: str, tools: Toolset, model: Model, *, secrets: tuple[str, ...] = (), **settings: Any) -> Run:
    """A run that offers all these tools."""
    loaded = Settings.load(**settings)
    emit: Any = lambda kind, data: None  # noqa: E731
    return Run(
        task=task,
        run_id="run",
        settings=loaded,
        model=model,
        budget=limits_of(loaded, model),
        broker=Broker(tools, Journal(), emit, redactor=Redactor(secrets, {})),
        resources=Resources(loaded, model, None),
        catalogue=Catalogue(tools, settings=loaded),
        emit=emit,
        stack=AsyncExitStack(),
        tools=tools,
    )


def writer_of(
    task: str, tools: Toolset, model: Model, options: WritingOptions = DEFAULT_OPTIONS, **settings: Any
) -> Writer:
    return Writer(run_of(task, tools, model, **settings), options)

"""``atc ui``: the page of runs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import html
import logging
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from atc.cli import options
from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.cli.leaving import leaving
from atc.cli.run import (
    Answer,
    BudgetMoney,
    BudgetS,
    Model,
    ModelUrl,
    NoLearn,
    SandboxName,
    Sentence,
    StrategyName,
    WarningsOption,
)
from atc.errors import EnvironmentProblem
from atc.extras import install_command
from atc.settings import Settings
from atc.traces.stores import open_store

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.calls.approval import Approve
    from atc.faces.ui.app import Address
    from atc.traces.events import Event

FILE_S = 30.0
"""Seconds after which the file that leads a browser to the page is removed."""


@guarded
def ui(
    tools: Annotated[list[str] | None, options.Tools.__metadata__[0]] = None,
    only: options.Only = None,
    model: Model = None,
    base_url: ModelUrl = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    strategy: StrategyName = None,
    sandbox: SandboxName = None,
    warnings: WarningsOption = None,
    permissions: options.Permissions = None,
    read_only: options.ReadOnly = None,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask", help="Programs may ask you: a run ends with its question, and a reply here goes on with it."
        ),
    ] = None,
    instructions: options.Instructions = None,
    budget_s: BudgetS = None,
    budget_money: BudgetMoney = None,
    answer: Answer = None,
    sentence: Sentence = None,
    no_learn: NoLearn = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on this machine; 0 (default) takes a free one.")
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Open a page of your runs: see them live, approve writes, begin and resume tasks.

    Without --tools the page only shows runs. Only this machine can open it, and needs the address: one address gives
    all rights, others fewer. Ctrl-C ends it, and stops the runs that it began.

    Exit codes: 0 it was ended, 2 wrong use, 3 something is missing (a port, a folder of runs, a package).
    """
    for package in ("starlette", "uvicorn", "h11"):
        try:
            __import__(package)
        except ImportError:
            message = f"the package `{package}` is not installed: {install_command('ui')}"
            raise EnvironmentProblem(message) from None
    from atc.faces.ui.app import make_ui, serve_ui

    settings = Settings.load(permissions=permissions, read_only=read_only)
    store = open_store(settings)
    store.versions()  # a store that cannot be read is told now
    opened: Callable[[Approve, Callable[[Event], None]], Agent] | None = None
    source = ""
    if tools:
        toolset = options.opened(
            tools, only=only, service_url=service_url, auth=auth, documents=documents, openapi=openapi
        )
        source = options.source_of(tools, only=only, service_url=service_url, documents=documents, openapi=openapi)
        asks = ask or settings.ask_user != "never"

        def opened(approve: Approve, on_event: Callable[[Event], None]) -> Agent:
            from atc.agent import Agent

            return Agent(
                toolset,
                model=model,
                base_url=base_url,
                strategy=strategy,
                sandbox=sandbox,
                warnings=warnings,
                instructions=options.instructions_of(instructions),
                budget_s=budget_s,
                budget_money=budget_money,
                answer=answer,
                sentence=sentence,
                learn=False if no_learn else None,
                ask_user="stop" if asks else None,
                approve=approve,
                on_event=on_event,
                permissions=permissions,
                read_only=read_only,
            )

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.WARNING)
    served = make_ui(store, settings, opened, source)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - whoever is asked is asked on the page
    shown = not no_open and not as_json and out.is_terminal
    with leaving(INTERRUPTED), contextlib.closing(store):
        asyncio.run(serve_ui(served, port, lambda address: _announce(address, as_json=as_json, browser=shown)))


def _announce(address: Address, *, as_json: bool, browser: bool) -> None:
    """Say where the page is."""
    if as_json:
        urls = {right: address.url(right) for right in address.tokens}
        api = f"{address.url()}api"
        print_json({"urls": urls, "api": api, "tokens": address.tokens, "port": address.port, "pid": os.getpid()})
        sys.stdout.flush()
        return
    most = list(address.tokens)[-1]
    out.print(Text(f"{'all rights' if most != 'read' else 'read alone'}: {address.url(most)}"))
    if most != "read":
        out.print(Text(f"approve and read: {address.url('approve')}"))
        out.print(Text(f"read alone: {address.url('read')}"))
    err.print("atc: who has an address may use it until Ctrl-C ends this", markup=False)
    if browser:
        threading.Thread(target=_open, args=(address.url(most),), daemon=True).start()


def _open(url: str) -> None:
    """Open a browser by a file of the user's own: a command line, which others of this machine see, has no token."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="atc-ui-", suffix=".html")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:  # nobody else can read it
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">')
        atexit.register(Path(name).unlink, missing_ok=True)
        webbrowser.open(Path(name).as_uri())
        threading.Event().wait(FILE_S)
        Path(name).unlink(missing_ok=True)
    except (OSError, webbrowser.Error):
        return  # the address is printed

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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from atc._host.extras import install_command
from atc.calls import question
from atc.cli import options
from atc.cli.console import INTERRUPTED, err, guarded, leaving, out, print_json
from atc.errors import EnvironmentProblem
from atc.settings import Settings
from atc.traces.stores import open_store

if TYPE_CHECKING:
    from atc._records.events import Event
    from atc.agent import Agent
    from atc.calls.approval import Approve
    from atc.serve.ui.app import Address

_RIGHTS = {"run": "all rights", "approve": "approve and read", "read": "only read"}
FILE_S = 30.0
"""Seconds after which the file that leads a browser to the page is removed."""


@guarded
@options.takes("model", "strategy", "sandbox", "read_only", "ask_user", "answer", "instructions", panels=True)
def ui(
    given: options.Given,
    source: options.Source = options.NOWHERE,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on this machine; 0 (default) takes a free one.")
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Open a page of your runs: see them live, approve writes, begin and resume tasks.

    The page shows which calls of all runs wait for approval. Start it at a terminal to approve them there. Without
    --tools it begins and resumes nothing. Only this machine can open it, and needs the address: one address gives all
    rights, others fewer. Ctrl-C ends it, and stops the runs that it began.
    """
    for package in ("starlette", "uvicorn", "h11"):
        try:
            __import__(package)
        except ImportError:
            message = f"the package `{package}` is not installed: {install_command('ui')}"
            raise EnvironmentProblem(message) from None
    from atc.serve.ui.app import make_ui, serve_ui

    settings = Settings.load(**given)
    if not source.tools:
        source = replace(source, tools=options.default_tools())
    store = open_store(settings)
    store.versions()  # a store that cannot be read is told now
    opened: Callable[[Approve, Callable[[Event], None]], Agent] | None = None
    if source.tools:
        toolset = source.opened()
        asks = "never" if settings.ask_user == "never" else "stop"  # a reply on the page goes on with the run

        def opened(approve: Approve, on_event: Callable[[Event], None]) -> Agent:
            from atc.agent import Agent

            return Agent(toolset, approve=approve, on_event=on_event, **given | {"ask_user": asks})

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.WARNING)
    at_terminal = question.has_terminal()
    served = make_ui(store, settings, opened, source.note if source.tools else "", at_terminal=at_terminal)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - whoever is asked is asked on the page
    shown = not no_open and not as_json and out.is_terminal
    with leaving(INTERRUPTED), contextlib.closing(store):
        asyncio.run(serve_ui(served, port, lambda address: _announce(address, as_json=as_json, browser=shown)))


def _announce(address: Address, *, as_json: bool, browser: bool) -> None:
    if as_json:
        urls = {right: address.url(right) for right in address.tokens}
        api = f"{address.url()}api"
        print_json({"urls": urls, "api": api, "tokens": address.tokens, "port": address.port, "pid": os.getpid()})
        sys.stdout.flush()
        return
    rights = [*reversed(address.tokens)]
    for right in rights:
        out.print(Text(f"{_RIGHTS[right]}: {address.url(right)}"))
    err.print("atc: who has an address may use it until Ctrl-C ends this", markup=False)
    if browser:
        threading.Thread(target=_open, args=(address.url(rights[0]),), daemon=True).start()


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

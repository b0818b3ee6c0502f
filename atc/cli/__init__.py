"""The command line. Each command is a small module, named in :mod:`atc.cli.lazy`; this one is their root."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import atc
from atc.cli.lazy import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    name="atc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"atc {atc.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A language model writes one program that calls your tools. A sandbox runs it. If it fails, it is revised."""


def main() -> None:
    """Entry point of the ``atc`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a letter gets a question mark for it
    app()

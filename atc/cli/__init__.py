"""The command line. Each command is a small module; this one only puts them together."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import atc
from atc.cli import atlas, doctor, learn, model, probe, run, runs, sandbox, serve, tools, trust
from atc.cli.console import out

app = typer.Typer(
    name="atc",
    help="A language model writes one whole program over your tools; a sandbox runs it; what fails is mended.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run.run)
app.command()(probe.probe)
app.add_typer(tools.app, name="tools")
app.add_typer(model.app, name="model")
app.command()(runs.runs)
app.command()(runs.show)
app.command()(runs.resume)
app.add_typer(atlas.app, name="atlas")
app.add_typer(learn.app, name="learn")
app.add_typer(sandbox.app, name="sandbox")
app.command()(serve.serve)
app.command()(trust.trust)
app.command()(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"atc {atc.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A language model writes one whole program over your tools; a sandbox runs it; what fails is traced and mended."""


def main() -> None:
    """Entry point of the ``atc`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a letter gets a question mark for it
    app()

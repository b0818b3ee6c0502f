"""``atc runs record``: a run that was answered becomes a test, which replays it offline."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from atc._host.invisible import visible
from atc._host.redaction import Redactor
from atc.calls import question
from atc.cli import options
from atc.cli.console import DENIED, clean, guarded, out, print_json
from atc.errors import UsageError
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc._records.recording import Recording


@guarded
def record(
    run: options.RunName,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the two files go; it is made.")
    ] = Path("tests"),
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the test; by default the first words of the task.")
    ] = "",
    redact: Annotated[
        list[str] | None,
        typer.Option(
            "--redact",
            metavar="PLACE",
            help="Put a stand-in for the value there, and wherever else it stands: calls.0.value.email, "
            "calls.*.arguments.to, inputs.name. May be given several times.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Record it without a question, even if others may have written its program.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Make a test of a run that was answered: `pytest` replays it offline, without a model and without its tools.

    It writes test_NAME.py, which is the same for every run, and test_NAME.json, which holds the program, its calls and
    its answer, and which only you can read (mode 0600). It tries the test first. If it finds a credential, it writes
    nothing.
    """
    from atc.run.recorded_file import files_of, name_of, write_recording
    from atc.run.recorded_file import record as recorded_of
    from atc.sandboxes.drivers import open_sandbox

    settings = Settings.load()
    stored = open_store(settings).find(run)
    if name:
        files_of(folder, name)  # a wrong name is told before the work
    if not yes:
        _ask(stored)

    async def recorded() -> Recording:
        async with open_sandbox(settings) as sandbox:
            return await recorded_of(stored, ways=redact or (), redactor=Redactor(settings.secrets), sandbox=sandbox)

    made = asyncio.run(recorded())
    files = files_of(folder, name or name_of(made))
    write_recording(made, files, force=force)
    if as_json:
        print_json(
            {
                "run_id": made.run,
                "test": str(files.test),
                "data": str(files.data),
                "calls": len(made.calls),
                "replaced": [*made.replaced],
            }
        )
        return
    calls = "1 call" if len(made.calls) == 1 else f"{len(made.calls):,} calls"
    out.print(Text(clean(f"run {made.run} is a test, with {calls}: {files.test}, and its data {files.data}")))
    for place in made.replaced:
        out.print(Text(clean(f"a stand-in took the place of {place}, and wherever else that value stood")))
    out.print(Text(clean(f"replay it with `pytest {files.test}`; {files.data.name} says whose data it holds")))


def _ask(stored: StoredRun) -> None:
    """Ask whether a run is recorded whose program strangers may have written, or had a say in."""
    why = stored.why_strange()
    saw = (stored.last("program_written") or {}).get("saw")
    if not why and saw:
        why = f"its author had read what {', '.join(map(str, saw))} answered, which strangers write"
    if not why:
        return
    if not question.has_terminal():
        raise UsageError(
            f"run {stored.run_id} is not recorded without a question, for {visible(why)}: look at it, and give --yes"
        )
    shown: dict[str, Any] = {"program": next(reversed(stored.programs()), "")}
    heading = f"record run {stored.run_id}? {visible(why)}; its program runs in the sandbox alone"
    if not asyncio.run(question.ask(heading, shown)):
        raise typer.Exit(DENIED)

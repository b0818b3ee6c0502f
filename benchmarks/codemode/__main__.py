"""Code mode for MCP clients, measured: ``python -m benchmarks.codemode PART``.

``tokens``: a client's context and round trips for the same tasks over plain MCP, over servers with search and execute,
and over ``atc mcp``; with scripted replies, so that they measure the machinery. ``footprint``: the definitions alone.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import err, guarded
from atc.errors import UsageError
from benchmarks.codemode.github import GithubTasks
from benchmarks.codemode.others import ServerTasks
from benchmarks.codemode.run import ARMS, FASTMCP_PYTHON, as_json, fastmcp_version, run_sources
from benchmarks.codemode.tasks import AtlasTasks, CompToolBenchTasks, Source
from benchmarks.codemode.tokens import COUNTS, run_footprint, tokenizer_of
from benchmarks.common import ROOT, AsJson, listed, numbers, print_json, show

app = typer.Typer(help=__doc__, no_args_is_help=True)

SOURCES = ("atlas", "comptoolbench", "servers", "github")
OTHERS = ROOT / ".venv-others" / "bin"
MODEL = Path.home() / ".cache" / "atc" / "models" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"

Data = Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/ and retrieval/.")]
ModelFile = Annotated[Path, typer.Option("--tokenizer", help="A GGUF file, whose tokenizer counts.")]


@app.command()
@guarded
def tokens(
    source: Annotated[str, typer.Option(help=f"Sources of tasks: {', '.join(SOURCES)}.")] = ",".join(SOURCES),
    arm: Annotated[str, typer.Option(help=f"Ways: {', '.join(ARMS)}.")] = ",".join(ARMS),
    data: Data = None,
    github: Annotated[Path | None, typer.Option(help="GitHub's OpenAPI document.")] = None,
    servers: Annotated[Path, typer.Option(help="Folder of the MCP servers git, time and fetch.")] = OTHERS,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many tasks of each source.")] = None,
    model: ModelFile = MODEL,
    as_json_: AsJson = False,
) -> None:
    """Tokens in a client's context, and its round trips, with scripted replies."""
    tokenizer, version = tokenizer_of(model), fastmcp_version()
    chosen = listed(arm, ARMS, "arm")
    if not version:
        chosen = [name for name in chosen if not name.startswith("fastmcp")]
        err.print(f"FastMCP is left out: name a Python that has it in {FASTMCP_PYTHON}", markup=False)
    figures = asyncio.run(run_sources(_sources(source, data, github, servers), tokenizer, chosen, limit))
    labels = {name: about.format(fastmcp=version) for name, about in ARMS.items()}
    if as_json_:
        print_json(as_json(figures, tokenizer, labels))
        return
    rows = [each.row() for each in figures]
    columns = [
        "source",
        "tools",
        "tasks",
        "definitions",
        "trips",
        "context",
        "billed",
        "written",
        "right",
        "failed",
        "missed",
    ]
    show(
        f"A client's context in tokens ({tokenizer.name}); scripted replies: the machinery, not a model",
        ["way", *columns],
        [[labels[row["arm"]], *(row[column] for column in columns)] for row in rows],
    )


@app.command()
@guarded
def footprint(
    counts: Annotated[str, typer.Option(help="Numbers of tools.")] = ",".join(map(str, COUNTS)),
    data: Data = None,
    model: ModelFile = MODEL,
    as_json_: AsJson = False,
) -> None:
    """Tokens of the definitions that a client holds from the start, for a few tools and for very many."""
    tokenizer = tokenizer_of(model)
    rows = run_footprint(data, numbers(counts, "counts"), tokenizer)
    if as_json_:
        print_json({"tokenizer": tokenizer.name, "rows": rows})
        return
    show(f"Definitions at the start, in tokens ({tokenizer.name})", list(rows[0]), [list(row.values()) for row in rows])


def _sources(names: str, data: Path | None, github: Path | None, servers: Path) -> list[Source]:
    made: list[Source] = []
    for name in listed(names, SOURCES, "source"):
        if name == "atlas":
            made.append(AtlasTasks(sys.executable))
        elif name == "comptoolbench":
            made.append(CompToolBenchTasks(sys.executable, data))
        elif name == "servers":
            made.append(ServerTasks(servers))
        elif github is None:
            if names != ",".join(SOURCES):
                raise UsageError("the source github needs --github FILE: GitHub's OpenAPI document")
            err.print("left out: github: give its OpenAPI document with --github FILE", markup=False)
        else:
            made.append(GithubTasks(sys.executable, github))
    return made


if __name__ == "__main__":
    app()

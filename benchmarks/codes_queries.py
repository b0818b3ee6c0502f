"""Queries for tools that nobody wrote any for: the embedded model makes them up from the tools' documents.

ToolWeaver (App. A.1) trains on 489,702 pairs of a query and a tool, which cannot be had here. So a pool's tools are
taken in the order of a hash, and for each the model writes a few requests. What is made is kept, a JSON line a tool;
started again it goes on. ``python -m benchmarks.codes_queries --data DIR --pool toolbench_g3``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import jinja2
import typer

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem
from atc.models.base import Message
from atc.models.embedded import EmbeddedModel
from atc.prompting import fenced
from atc.tools.protocol import Protocol
from benchmarks.retrieval_data import Catalogues

RESULTS = Path(__file__).with_name("results") / "codes"
PROMPT = Path(__file__).with_name("prompts") / "tool_queries.jinja"
COUNT, AT_ONCE = 2, 8
"""Requests a tool, and tools that the model writes for at the same time."""
_MAX_DOCUMENT, _MAX_TOKENS, _TEMPERATURE = 700, 110, 0.8


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    pool: Annotated[str, typer.Option(help="Tools to write for.")] = "toolbench_g3",
    limit: Annotated[int, typer.Option(min=0, help="Tools at most, in the order of a hash; 0: all.")] = 0,
    minutes: Annotated[float, typer.Option(min=0.1, help="Stop after so many.")] = 600.0,
    file: Annotated[Path | None, typer.Option("--out", help="Where the requests are kept.")] = None,
) -> None:
    """Write requests for the tools of a pool."""
    if data is None:
        raise EnvironmentProblem("the queries are written for tools of the data: give --data DIR or ATC_DATA")
    out = file or RESULTS / f"queries-{pool}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {id for id, _ in read_queries(out)}
    order = sorted(Catalogues(data).pool(pool), key=lambda each: hashlib.sha256(each[0].encode()).digest())
    missing = [each for each in order[: limit or None] if each[0] not in done]
    try:
        made = asyncio.run(_write(missing, out, time.monotonic() + 60 * minutes))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was written is in {out}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    err.print(f"{made} tools more, {len(missing) - made} are left; all are in {out}", markup=False)


def read_queries(file: Path) -> Iterator[tuple[str, list[str]]]:
    """The tools of a file, each with its requests; a line that was cut off is left out."""
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        yield record["tool"], record["queries"]


def requests_in(reply: str, count: int) -> list[str]:
    """The requests of a reply, a line each, without what numbers or quotes them."""
    lines = (re.sub(r"^\s*(?:\d+[.):]|[-*])\s*", "", line).strip().strip("\"'") for line in reply.splitlines())
    return [line for line in dict.fromkeys(lines) if len(line.split()) > 4][:count]


async def _write(tools: list[tuple[str, Protocol]], out: Path, until: float) -> int:
    template = jinja2.Template(PROMPT.read_text("utf-8"))
    waiting, made = iter(tools), 0
    async with aclosing(EmbeddedModel(slots=AT_ONCE, context_tokens=2_048)) as model:
        with out.open("ab") as lines:

            async def work() -> None:
                nonlocal made
                for id, protocol in waiting:
                    if time.monotonic() > until:
                        return
                    prompt = template.render(document=fenced(_document(protocol)), count=COUNT)
                    reply = await model.complete(
                        [Message("user", prompt)], max_tokens=_MAX_TOKENS, temperature=_TEMPERATURE, seed=0
                    )
                    record = {"tool": id, "queries": requests_in(reply.text, COUNT)}
                    lines.write(json.dumps(record).encode() + b"\n")
                    lines.flush()
                    made += 1

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return made


def _document(protocol: Protocol) -> str:
    names = ", ".join(protocol.parameters.get("properties", {}))
    service = protocol.source.location
    head = f"{protocol.name} ({service})" if service else protocol.name
    return f"{head}: {protocol.description}"[:_MAX_DOCUMENT] + (f"\narguments: {names}"[:200] if names else "")


if __name__ == "__main__":
    typer.run(main)

"""``atc tools stub``: what a model reads of tools."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli import options
from atc.cli.console import clean, err, guarded, out, print_json
from atc.cli.tools import known, note_unbound
from atc.models.base import bounded_tokens
from atc.tools.short_stubs import WHOLE
from atc.tools.stub_budget import SEPARATOR, Fit, Fitter
from atc.tools.stubs import render_stub


@guarded
def stub(
    names: Annotated[list[str] | None, typer.Argument(help="The tools' names; default: all tools.")] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=1, help="Most tokens (characters / 3) of the stubs; the rest is cut."),
    ] = None,
    task: Annotated[str, typer.Option("--task", help="With --budget: a task, whose words say what is kept.")] = "",
    tools: options.Tools = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Print the Python stubs of tools, exactly as a model reads them."""
    opened = options.opened(options.named_tools(tools), openapi=openapi, look=True)
    for name in names or ():
        known(opened, name)
    note_unbound(opened.only(*dict.fromkeys(names)) if names else opened)
    if budget is not None:
        chosen = (opened.only(*dict.fromkeys(names)) if names else opened).protocols
        fitter = Fitter(chosen, ToolGraph(chosen).suppliers, task, pages=True, plain=True)
        shown = asyncio.run(fitter.fit(budget, _bound))
    else:
        hints = ToolGraph(opened.protocols).hints
        protocols = (opened.only(*dict.fromkeys(names)) if names else opened).protocols
        stubs = [render_stub(protocol, hints.get(protocol.name), pages=True, plain=True) for protocol in protocols]
        grades = {protocol.name: WHOLE.name for protocol in protocols}
        shown = Fit(SEPARATOR.join(stubs), grades, tokens=bounded_tokens(SEPARATOR.join(stubs)))
    if as_json:
        print_json(
            {"text": shown.text, "tokens": shown.tokens, "grades": shown.grades, "left_out": list(shown.left_out)}
        )
        return
    out.print(Text(clean(shown.text)), end="\n\n")
    if budget is not None:
        for name, grade in [*shown.grades.items(), *((name, "left out") for name in shown.left_out)]:
            err.print(f"{clean(name)}: {grade}", markup=False, highlight=False)


async def _bound(text: str) -> int:
    return bounded_tokens(text)

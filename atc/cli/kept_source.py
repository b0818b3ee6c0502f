"""Where the tools of a kept run are, as its trace says; who did not write the trace alone is asked before."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace

from atc._host.invisible import visible
from atc.calls import question
from atc.cli import options
from atc.errors import UsageError
from atc.parts import STRATEGIES
from atc.run.base import Strategy, open_strategy
from atc.traces.stores.base import StoredRun


def kept_source(
    stored: StoredRun,
    tools: list[str] | None,
    openapi: list[str] | None,
    *,
    trust_run: bool = False,
) -> tuple[options.Source, Strategy | None]:
    """Return where the tools of a kept run are, and its strategy, where the user was asked about code.

    Args:
        stored: the run.
        tools: where they are now, if not where they were.
        openapi: options of OpenAPI documents.
        trust_run: load what its trace names, even if others could have written to its folder.

    Raises:
        UsageError: the run does not say where its tools were, or what it names is not loaded.
    """
    source = options.Source.of_note((stored.first("run_started") or {}).get("source"))
    strange = "" if trust_run else stored.why_strange()
    strategy = _asked_for(stored, source, strange) if strange and not tools and source.tools else None
    if tools:  # of a trace that others may have written, nothing else is taken
        source = options.Source(tools, openapi=None if strange else source.openapi)
    if not source.tools:
        raise UsageError(f"run {stored.run_id} does not say where its tools were: name them with --tools")
    return replace(source, openapi=[*(source.openapi or ()), *(openapi or ())]), strategy


def named_again(stored: StoredRun, tools: Sequence[str] | None) -> str:
    """Return the options that name these tools again, for a command about a run that does not say where its tools were;
    empty where it does."""
    named = () if knows_tools(stored) else tools or ()
    return " ".join(f"--tools {shlex.quote(each)}" for each in named)


def knows_tools(stored: StoredRun) -> bool:
    """Return whether a run says where its tools were; one of `atc mcp`, or of a program of yours, does not."""
    return bool(options.Source.of_note((stored.first("run_started") or {}).get("source")).tools)


def _asked_for(stored: StoredRun, source: options.Source, strange: str) -> Strategy | None:
    """What is loaded is what was shown: whoever can write to the trace may do so after the question."""
    name = (stored.first("run_started") or {}).get("strategy_given")
    code = name if isinstance(name, str) and name not in STRATEGIES.own else None
    named = {key: value for key, value in (asdict(source) | {"strategy": code}).items() if value}
    heading = f"load what run {stored.run_id} names? Its code runs as you; {visible(strange)}"
    if question.has_terminal() and asyncio.run(question.ask(heading, named)):
        return None if code is None else open_strategy(code)
    raise UsageError(
        f"the tools that run {stored.run_id} names are not loaded, for {strange}: name them with --tools, or, "
        "if you know who wrote it, say --trust-run"
    )

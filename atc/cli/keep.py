"""``atc runs keep``: what a run would be as a tool is shown, changed by options, asked about, and written."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.syntax import Syntax
from rich.text import Text

from atc._records.keeping import Proposal
from atc.calls import question
from atc.cli import options
from atc.cli.console import DENIED, clean, err, guarded, out, print_json
from atc.cli.kept_source import kept_source, named_again
from atc.errors import UsageError
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.wording import keeping as words


@guarded
@options.takes("sandbox")
def keep(
    run: options.RunName,
    given: options.Given,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the tool: `rain_days`.")],
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="OLD=NEW", help="Give a parameter another name. May be given several times."),
    ] = None,
    lift: Annotated[
        list[str] | None,
        typer.Option(
            "--lift",
            metavar="VALUE",
            help="Make a value that stays a parameter, named by itself or by its name. May be given several times.",
        ),
    ] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option("--constant", metavar="NAME", help="Let a parameter stay as it was. May be given several times."),
    ] = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option(
            "--confirm",
            metavar="VALUE",
            help="Confirm that this value, which a call had returned, stays. May be given several times.",
        ),
    ] = None,
    about: Annotated[str, typer.Option("--about", metavar="TEXT", help="The tool's purpose, in one sentence.")] = "",
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Folder of its file; it then needs `atc trust <folder>`."),
    ] = None,
    tools: options.ToolsNow = None,
    openapi: options.OpenApi = None,
    trust_run: options.TrustRun = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would be, and keep nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a kept program of this name.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Keep it without a question, where nothing speaks against it.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Keep the program of a run that answered as a tool: `atc tools call NAME` calls it without a model.

    Values of the task become parameters. It tries the program in the sandbox on the calls that were recorded, and calls
    nothing. You see the program, and are asked once.
    """
    from atc.agent import Agent
    from atc.run.keeping import Edits, propose
    from atc.run.keeping import keep as kept_as

    stored = open_store(Settings.load()).find(run)
    source, _ = kept_source(stored, tools, openapi, trust_run=trust_run)
    edits = Edits(_renamed(param or ()), lift or (), constant or (), about)
    with Agent(source.opened(), **given) as agent:
        proposal = asyncio.run(propose(agent, stored, name, edits))
        if proposal.unfit:
            if not as_json and any(each.line for each in proposal.unfit):
                err.print(Text("not kept; the program whose lines are named below:", style="yellow"))
                _print_program(proposal)
            raise UsageError(words.not_kept(proposal))
        if not as_json:
            _show(proposal)
        if dry_run:
            if as_json:
                print_json(_record(proposal))
            return
        if not _may_be_kept(proposal, yes=yes, confirmed=confirm or ()):
            raise typer.Exit(DENIED)
        _, path = asyncio.run(kept_as(agent, proposal, confirm=True, into=into, replace=force))
    if as_json:
        print_json(_record(proposal) | {"file": str(path)})
        return
    out.print(Text(clean(f"kept: {path}")))
    given_by = " ".join(f"{each.name}=…" for each in proposal.parameters)
    if into is None:
        where = named_again(stored, tools)
        out.print(Text(clean(" ".join(filter(None, (f"call it: atc tools call {proposal.name}", given_by, where))))))
    else:
        words_of = " ".join(f"--tools {shlex.quote(each)}" for each in dict.fromkeys([*source.tools, str(path)]))
        out.print(Text(clean(f"trust it: atc trust {shlex.quote(str(into))}; then offer it: {words_of}")))


def _renamed(pairs: list[str] | tuple[str, ...]) -> dict[str, str]:
    """``["city_name=city"]`` → ``{"city_name": "city"}``."""
    made = {}
    for pair in pairs:
        old, sign, new = pair.partition("=")
        if not (sign and old.strip() and new.strip()):
            raise UsageError(f"--param takes OLD=NEW, not {pair!r:.100}")
        made[old.strip()] = new.strip()
    return made


def _show(proposal: Proposal) -> None:
    said = "" if not proposal.of_task else "  (the task's words: --about says it otherwise)"
    out.print(Text(clean(words.signature(proposal)), style="bold"))
    out.print(Text(clean(f"  {proposal.about}{said}")))
    if unsaid := words.unsaid(proposal):
        out.print(Text(clean(f"  {unsaid}"), style="yellow"))
    out.print(Text(clean(f"  {words.effect(proposal)}")))
    for parameter in proposal.parameters:
        value = words.value(parameter.value)
        out.print(Text(clean(f"parameter {parameter.name}, in the run {value}: {words.lifted(parameter)}")))
    for constant in proposal.constants:
        style = "yellow" if constant.must_confirm else ""
        value = words.value(constant.value)
        out.print(Text(clean(f"stays: {value} ({constant.name}): {words.constant(constant)}"), style=style))
    _print_program(proposal)
    for doubt in proposal.doubts:
        out.print(Text(clean(words.doubt(doubt)), style="yellow"))


def _print_program(proposal: Proposal) -> None:
    if out.is_terminal:
        out.print(Syntax(clean(proposal.program), "python", background_color="default", word_wrap=True))
    else:
        out.print(Text(clean(proposal.program.rstrip("\n"))))


def _may_be_kept(proposal: Proposal, *, yes: bool, confirmed: list[str] | tuple[str, ...]) -> bool:
    left = [each for each in proposal.to_confirm if not {each.name, str(each.value)} & {*confirmed}]
    needs = [words.doubt(each) for each in proposal.doubts]
    needs += [f"{words.value(each.value)}: {words.constant(each)}" for each in left]
    if yes and not needs:
        return True
    if not question.has_terminal():
        if needs:
            raise UsageError(words.needs_terminal(proposal, needs, [str(each.value) for each in left]))
        raise UsageError("no one is available to confirm it here: give --yes, or --dry-run to see what it would be")
    err.print()
    shown: dict[str, Any] = {"program": proposal.program}
    asked = question.ask(f"keep this as the tool {proposal.name}?", shown, needs)
    return asyncio.run(asked) is True


def _record(proposal: Proposal) -> dict[str, Any]:
    return proposal.model_dump(mode="json")

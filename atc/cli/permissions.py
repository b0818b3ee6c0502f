"""``atc permissions`` and ``atc audit``: what a permissions file says before it counts, and who approved what."""

from __future__ import annotations

import json
import os
from collections import deque
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from atc._host.invisible import visible
from atc.calls.permissions import Decision, Permissions, Rule, Who
from atc.calls.permissions.agent_permissions import permissions_file, permissions_named, user_path
from atc.calls.permissions.audit import AuditRecord, Verdict, read_audit
from atc.calls.permissions.conditions import shown
from atc.calls.permissions.lines import quoted
from atc.calls.permissions.patterns import may_name, surely_names
from atc.calls.permissions.permissions import decided_by
from atc.cli import options
from atc.cli.console import DENIED, clean, err, guarded, out, print_json, print_table, short
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from atc.wording.sketches import known_tool

app = typer.Typer(help="See which calls are made unasked, which need a yes, and which are denied.")

File = Annotated[Path | None, typer.Argument(help="The permissions file; by default the one that `atc run` takes.")]
Principal = Annotated[str, typer.Option(help="Who calls: `local` (you, and clients over pipes), or a token's owner.")]
ClientName = Annotated[str, typer.Option("--client", help="Name that a client gives itself.")]
ReadOnly = Annotated[bool | None, typer.Option("--read-only", help="As if only reads were made.")]
PermissionsFile = Annotated[
    Path | None,
    typer.Option("--permissions", metavar="<file>", help="The permissions file; by default the one of `atc run`."),
]


@app.command()
@guarded
def check(
    file: File = None,
    tools: options.MaybeTools = None,
    only: options.Only = None,
    principal: Principal = "local",
    client: ClientName = "",
    read_only: ReadOnly = None,
    as_json: options.Json = False,
) -> None:
    """Check a permissions file; with --tools, say of each tool what would happen, and by which rule.

    Exit codes: 0 the file is right, 2 it is wrong or not there.
    """
    permissions = _opened(file, read_only)
    who = Who(principal, client)
    opened = _tools(tools, only)
    rows = [_row(permissions, who, tool) for tool in permissions.graded(opened).values()]
    unused = _unused(permissions, opened) if opened else []
    if as_json:
        rules = [
            {"rule": rule.number, "verdict": rule.verdict, "tools": rule.tools.texts} for rule in permissions.rules
        ]
        about: dict[str, Any] = {"file": permissions.path, "read_only": permissions.read_only, "rules": rules}
        about["approvers"] = [*permissions.approvers.keys]
        print_json({**about, "tools": rows, "rules_that_fit_no_tool": unused})
        return
    mode = ", read-only" if permissions.read_only else ""
    out.print(
        f"{clean(permissions.path or 'no file: the defaults')}: {len(permissions.rules)} rules{mode}", markup=False
    )
    if permissions.approvers:
        names = ", ".join(map(visible, permissions.approvers.keys))
        out.print(f"calls that need a yes wait for one of the approvers: {names}", markup=False)
    if rows:
        again = ["sent again?"] if any(row["sent_again"] for row in rows) else []
        table = Table("tool", "effect", "unasked?", "by", "but", *again, box=None, header_style="bold")
        for row in rows:
            cells = [row["tool"], row["effect"], row["verdict"], row["by"], "; ".join(row["but"])]
            cells += [row["sent_again"]] if again else []
            table.add_row(*(Text(visible(cell)) for cell in cells))
        print_table(table)
    for number in unused:
        out.print(f"rule {number} fits none of these tools", markup=False)
    for said in permissions.tools if opened else ():
        if not any(surely_names(said.tools, each) for each in opened.protocols):
            out.print(f"[tools.{clean(said.tools.texts[0])}] names none of these tools", markup=False)


@app.command()
@guarded
def explain(
    tool: Annotated[str, typer.Argument(help="The tool, as programs call it.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="KEY=VALUE, with JSON or text. May be given several times.")
    ] = None,
    permissions: PermissionsFile = None,
    tools: options.MaybeTools = None,
    effect: Annotated[Effect, typer.Option(help="Effect of the tool, if no --tools say it.")] = Effect.UNKNOWN,
    principal: Principal = "local",
    client: ClientName = "",
    read_only: ReadOnly = None,
    as_json: options.Json = False,
) -> None:
    """Say what would happen to one call, which rule decides, and which line would allow it.

    Exit codes: 0 allowed or asked about, 2 wrong use, 4 denied.
    """
    loaded = _opened(permissions, read_only)
    protocol = _protocol(tool, effect, _tools(tools, None))
    decision = loaded.decide(Who(principal, client), protocol, _arguments(arguments or []))
    if as_json:
        print_json(_explained(decision))
    else:
        waits = ", and it waits for a yes (`atc approvals`)" if decision.parks else ""
        out.print(f"{decision.verdict}: {_why(decision)}, effect {decision.effect.value}{waits}", markup=False)
        if decision.line:
            out.print(f"this would allow it unasked:\n{clean(decision.line)}", markup=False)
    if decision.verdict == "deny":
        raise typer.Exit(DENIED)


@app.command()
@guarded
def approver(
    name: Annotated[str, typer.Argument(help="The approver's name, as decisions show it.")],
    key_file: Annotated[
        Path,
        typer.Option("--key-file", metavar="<file>", help="New file for the private key, the approver's own."),
    ],
) -> None:
    """Make an approver's key, and print the lines for the permissions file.

    Where the file names approvers, nobody else decides about calls that need a yes: they wait, and it takes the key of
    one (`atc runs approve RUN --key-file FILE`). Keep the key where those who ask cannot read it.

    Exit codes: 0, 2 the file is there already, or cannot be written.
    """
    from atc.calls.permissions.approvers import ApproverKey, encoded

    text = ApproverKey.new()
    try:
        descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise UsageError(f"{key_file} cannot be written: {error.strerror or error}") from None
    public = encoded(ApproverKey(text).public)
    out.print(f"[approvers]\n{quoted(name)} = {{ public_key = {quoted(public)} }}", markup=False, highlight=False)


def _opened(file: Path | None, read_only: bool | None) -> Permissions:
    settings = Settings.load(permissions=file, read_only=read_only)
    return permissions_named(settings) or Permissions.default()


def _tools(sources: list[str] | None, only: list[str] | None) -> Toolset:
    return options.opened(sources, only=only) if sources else Toolset()


def _protocol(name: str, effect: Effect, tools: Toolset) -> Protocol:
    if tools:
        protocols = {each: tool.protocol for each, tool in tools.items()}
        return protocols[known_tool(name, protocols)]
    try:
        return Protocol(name=name, effect=effect)
    except ValueError:
        raise UsageError(f"{name!r} is no tool's name: give it as programs call it (`atc tools list`)") from None


def _arguments(pairs: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise UsageError(f"{pair!r} is no KEY=VALUE")
        try:
            made[name] = json.loads(text)
        except (ValueError, RecursionError):
            made[name] = text
    return made


def _row(permissions: Permissions, who: Who, tool: Tool) -> dict[str, Any]:
    protocol = tool.protocol
    decision = permissions.decide(who, protocol, {})
    return {
        "tool": protocol.name,
        "effect": decision.effect.value,
        "verdict": f"{decision.verdict}, waits" if decision.parks else decision.verdict,
        "by": decided_by(decision),
        "but": [_but(rule) for rule in permissions.conditional(who, protocol) if _matters(rule, decision)],
        "sent_again": _sent_again(tool),
    }


def _sent_again(tool: Tool) -> str:
    """How long a call in doubt is sent again by itself, and with which key; empty where it never is."""
    rule, said = tool.key_rule, tool.said_key
    if rule is None and said is not None and said.place is not None:
        return f"no: its calls bear no {said.place.kind}"
    if rule is None or tool.protocol.effect is Effect.READ:
        return ""
    return f"{rule.window_s:g} s, {rule.place.kind} {rule.place.name}" if rule.window_s else "no: its window is 0 s"


def _matters(rule: Rule, decision: Decision) -> bool:
    """Whether a rule with conditions can change what is said of a call without arguments."""
    gravity = {"allow": 0, "ask": 1, "deny": 2}
    waits = rule.waits and not decision.parks and decision.verdict == "ask"
    if decision.rule is not None or decision.why != "default":
        return waits or gravity[rule.verdict] > gravity[decision.verdict]
    return waits or rule.verdict != decision.verdict


def _but(rule: Rule) -> str:
    verdict = f"{rule.verdict}, waits" if rule.waits else rule.verdict
    return f"rule {rule.number}: {verdict} where {' and '.join(map(shown, rule.conditions))}"


def _unused(permissions: Permissions, tools: Toolset) -> list[int]:
    """The rules that speak of none of the tools, whoever calls."""
    protocols = tools.protocols
    return [rule.number for rule in permissions.rules if not any(may_name(rule.tools, each) for each in protocols)]


def _why(decision: Decision) -> str:
    return decided_by(decision).replace("_", "-")


def _explained(decision: Decision) -> dict[str, Any]:
    rule = decision.rule.number if decision.rule is not None else None
    told = {"verdict": decision.verdict, "why": decision.why, "rule": rule, "waits": decision.parks}
    return {**told, "effect": decision.effect.value, "line": decision.line}


Pattern = Annotated[str | None, typer.Option(metavar="<pattern>", help="Only tools whose name fits this pattern.")]
ClientPattern = Annotated[
    str | None,
    typer.Option("--client", metavar="<pattern>", help="Only clients whose principal, or own name, fits this pattern."),
]
Shown = Annotated[Verdict | None, typer.Option("--verdict", help="Only decisions of this kind.")]


@guarded
def audit(
    last: Annotated[int, typer.Option(min=1, max=100_000, help="How many of the latest decisions to show.")] = 50,
    tool: Pattern = None,
    client: ClientPattern = None,
    verdict: Shown = None,
    run: Annotated[str | None, typer.Option(help="Only the run whose id begins with this.")] = None,
    file: Annotated[
        Path | None, typer.Option("--audit", metavar="<file>", help="File where decisions about calls are recorded.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Read who approved or refused which calls, the latest last.

    Exit codes: 0, also where nothing was written down yet; 3 the log cannot be read.
    """
    settings = Settings.load(audit=file)
    path = settings.audit
    found, damaged = _found(path, last, tool, client, verdict, run)
    if not found and not damaged:
        (err if as_json else out).print(Text(clean(_nothing(settings))))
    if as_json:
        print_json([record.model_dump(mode="json") for record in found])
    elif found:
        table = Table("at", "verdict", "by", "who", "call", "run", box=None, header_style="bold")
        for record in found:
            repeats = f" (as run {record.repeats})" if record.repeats else ""
            by = f"{record.by} {record.who}".rstrip() + (f" ({record.via})" if record.via else "")
            what = f"{record.verdict}: {record.why}" if record.why else record.verdict
            cells = (record.at[:19], what, by, _who(record), f"{_call(record)}{repeats}", record.run)
            table.add_row(*(Text(short(cell, 100)) for cell in cells))
        print_table(table)
    if damaged:
        where, line = damaged[0]
        what = f"{len(damaged)} lines of {path} cannot be read, the first is line {line} of {where}"
        err.print(f"{clean(what)}: what was decided there is not known", markup=False)


def _nothing(settings: Settings) -> str:
    """What to say where no decision is found: why there is none, and what writes some."""
    if settings.audit.exists():
        return (
            f"no decision in {settings.audit} fits. `atc run`, `atc chat` and `atc ui` write there only with "
            "permissions; what was approved without them, `atc show RUN` says"
        )
    if settings.read_only or permissions_file(settings) is not None:
        return (
            f"nothing is written in {settings.audit} yet: no call that needs a decision was made with your permissions"
        )
    return (
        f"nothing is written in {settings.audit} yet. `atc mcp` writes all its decisions there; `atc run`, `atc chat` "
        "and `atc ui` only with permissions, and you have none: name a file in the setting `permissions`, or "
        f"write {user_path()} (docs/mcp-server.md, Permissions). What was approved without them, `atc show RUN` says"
    )


def _found(
    path: Path, last: int, tool: str | None, client: str | None, verdict: str | None, run: str | None
) -> tuple[list[AuditRecord], list[tuple[Path, int]]]:
    kept: deque[AuditRecord] = deque(maxlen=last)
    damaged: list[tuple[Path, int]] = []
    for record in read_audit(path, lambda *where: damaged.append(where)):
        if record is None:
            continue
        names = (record.principal, record.client)
        if (
            (tool is None or fnmatchcase(record.tool, tool))
            and (client is None or any(fnmatchcase(name, client) for name in names))
            and (verdict is None or record.verdict == verdict)
            and (run is None or record.run.startswith(run))
        ):
            kept.append(record)
    return list(kept), damaged


def _who(record: AuditRecord) -> str:
    return f"{record.principal} ({record.client})" if record.client else record.principal


def _call(record: AuditRecord) -> str:
    return f"{record.tool}({', '.join(f'{name}={value}' for name, value in record.arguments.items())})"

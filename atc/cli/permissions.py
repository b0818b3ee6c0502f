"""``atc permissions``: what a permissions file says before it counts, and who approved what."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from atc._host.invisible import visible
from atc._records.origins import Origins
from atc._records.records import DataFlow
from atc.calls.permissions import Decision, Permissions, Rule, Who, origins
from atc.calls.permissions.agent_permissions import permissions_named, user_path
from atc.calls.permissions.audit import AuditRecord, Verdict, read_audit
from atc.calls.permissions.conditions import shown
from atc.calls.permissions.lines import quoted
from atc.calls.permissions.meanings import how_read
from atc.calls.permissions.patterns import may_name, patterns_of, surely_names
from atc.calls.permissions.permissions import decided_by
from atc.calls.permissions.strangers import SERVER, Strangers, is_server
from atc.calls.untrusted import declared_paths, declared_targets, targets_of, untrusted_arguments
from atc.cli import options
from atc.cli.console import DENIED, clean, err, guarded, out, print_json, print_table, short
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol, parameters_of
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from atc.wording.origins import careful
from atc.wording.sketches import known_tool

app = typer.Typer(
    help="Show which calls are made without approval, which need it, which are denied, and who approved what."
)

_NAMED = 3
"""Tools that a remark names."""
AFTER_UNTRUSTED = 'after_untrusted = "allow"'

File = Annotated[Path | None, typer.Argument(help="The permissions file; by default the one that `atc run` takes.")]
Principal = Annotated[str, typer.Option(help="Caller: `local` (you, and clients over pipes), or a token's owner.")]
ClientName = Annotated[str, typer.Option("--client", help="Name that a client gives itself.")]
ReadOnly = Annotated[bool | None, typer.Option("--read-only", help="As if only reads were made.")]
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="ARG=ORIGIN",
        help="Where an argument comes from: `task`, `literal`, `author`, `unknown`, `tool:NAME.path`, or what chose "
        "it, `via tool:NAME.path`. May be given several times.",
    ),
]
PermissionsFile = Annotated[
    Path | None,
    typer.Option("--permissions", metavar="FILE", help="The permissions file; by default the one of `atc run`."),
]


@app.command()
@guarded
def check(
    file: File = None,
    tools: options.Tools = None,
    only: options.Only = None,
    principal: Principal = "local",
    client: ClientName = "",
    read_only: ReadOnly = None,
    as_json: options.Json = False,
) -> None:
    """Check a permissions file; with --tools, show what would happen to each tool, and by which rule."""
    permissions = _opened(file, read_only)
    who = Who(principal, client)
    opened = _tools(tools, only)
    rows = [_row(permissions, who, tool) for tool in permissions.graded(opened).values()]
    in_vain = [*_named_in_vain(permissions, opened), *_arguments_in_vain(permissions, opened)] if opened else []
    if as_json:
        rules = [
            {"rule": rule.number, "verdict": rule.verdict, "tools": rule.tools.texts} for rule in permissions.rules
        ]
        about: dict[str, Any] = {"file": permissions.path, "read_only": permissions.read_only, "rules": rules}
        about["approvers"] = [*permissions.approvers.keys]
        about |= {"untrusted": permissions.strangers.untrusted, "after_untrusted": permissions.strangers.after}
        print_json(about | {"read": [*_read(permissions)], "tools": rows, "in_vain": in_vain})
        return
    mode = ", read-only" if permissions.read_only else ""
    out.print(
        f"{clean(permissions.path or 'no file: the defaults')}: {len(permissions.rules)} rules{mode}", markup=False
    )
    if permissions.strangers.after == "allow":
        out.print(f"{AFTER_UNTRUSTED}: a program may write unasked after its model saw text of strangers", markup=False)
    if permissions.approvers:
        names = ", ".join(map(visible, permissions.approvers.keys))
        out.print(f"calls that need approval wait for one of the approvers: {names}", markup=False)
    if rows:
        more = {"sent_again": "sent again?", "untrusted": "untrusted by"}
        more = {key: title for key, title in more.items() if any(row[key] for row in rows)}
        more |= {"targets": "targets"} if permissions.needs_origins or "untrusted" in more else {}
        table = Table("tool", "effect", "unasked?", "by", "but", *more.values(), box=None, header_style="bold")
        for row in rows:
            cells = [row["tool"], row["effect"], row["verdict"], row["by"], "; ".join(row["but"])]
            cells += [_targets(row) if key == "targets" else row[key] for key in more]
            table.add_row(*(Text(visible(cell)) for cell in cells))
        print_table(table)
    for text in (*_read(permissions), *in_vain):
        out.print(clean(text), markup=False)


@app.command()
@guarded
def explain(
    tool: Annotated[str, typer.Argument(help="The tool, as programs call it.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="KEY=VALUE, with JSON or text. May be given several times.")
    ] = None,
    permissions: PermissionsFile = None,
    tools: options.Tools = None,
    principal: Principal = "local",
    client: ClientName = "",
    origin: From = None,
    as_json: options.Json = False,
) -> None:
    """Show what would happen to one call, which rule decides, and which line would allow it."""
    loaded, who = _opened(permissions, None), Who(principal, client)
    protocols = {name: each.protocol for name, each in _tools(tools, None).items()}
    if not protocols:
        raise UsageError("say with --tools where the tool is, such as --tools shop.yaml")
    protocol = protocols[known_tool(tool, protocols)]
    said = _origins(origin or [], protocol, protocols)
    given = {path.partition(".")[0]: None for path in said} | _arguments(arguments or [])
    writes, targets = loaded.effect(protocol) is not Effect.READ, loaded.targets(protocol)
    strange = bool(loaded.strangers.untrusted) or any(map(loaded.is_untrusted, protocols.values()))
    untrusted = untrusted_arguments(
        protocol,
        said,
        lambda name: loaded.is_untrusted(protocols[name]),
        unknown_counts=strange,
        arguments=given if said and writes else {},
        targets=targets,
    )
    decision = loaded.decide(who, protocol, given, said, untrusted=untrusted, protocol_of=protocols.get)
    counts = (writes and strange) or any(rule.origins for rule in loaded.conditional(who, protocol))
    wanted = targets_of(protocol, given, targets) if counts else ()
    unsaid = [path for path in wanted if path.partition(".")[0] not in said]
    if as_json:
        told = {"verdict": decision.asks, "by": decided_by(decision), "waits": decision.parks, "line": decision.line}
        print_json(told | {"effect": decision.effect.value, "untrusted": untrusted, "unsaid": unsaid})
    else:
        waits = ", and it waits for approval (`atc runs approvals`)" if decision.parks else ""
        by = decided_by(decision).replace("_", "-")
        out.print(f"{decision.asks}: {by}, effect {decision.effect.value}{waits}", markup=False)
        for path in untrusted:
            out.print(f"an untrusted tool may have chosen {clean(path)}", markup=False)
        for path in unsaid:
            out.print(f"where {clean(path)} comes from counts, too: add `--from {clean(path)}=…`", markup=False)
        if decision.line:
            unless = ", as long as no target comes from an untrusted tool" if unsaid else ""
            out.print(f"this would allow it unasked{unless}:\n{clean(decision.line)}", markup=False)
    if decision.verdict == "deny":
        raise typer.Exit(DENIED)


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


def _origins(said: list[str], protocol: Protocol, protocols: Mapping[str, Protocol]) -> dict[str, Origins]:
    """Return the origins that are said of arguments: a whole has those of its parts, too."""
    found: dict[str, Origins] = {}
    known = [name for each in parameters_of(protocol) for name in dict.fromkeys((each.name, each.original))]
    for text in said:
        path, sign, origin_text = text.partition("=")
        steps = path.split(".")
        if not (sign and all(steps)):
            raise UsageError(f"{text!r} is no ARG=ORIGIN, such as to=tool:read_mail.sender")
        try:
            origin = origins.origin_of(origin_text)
        except ValueError as error:
            raise UsageError(f"--from {path}: {error}") from None
        if origin.tool and origin.tool not in protocols:
            raise UsageError(f"--from {path}: there is no tool {origin.tool[:80]} among those of --tools")
        if steps[0] not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"--from {steps[0][:80]}: {protocol.name} has no such argument: {has}")
        for number in range(1, len(steps) + 1):
            part = ".".join(steps[:number])
            found[part] = found.get(part, frozenset()) | {origin}
    return found


@app.command()
@guarded
def approver(
    name: Annotated[str, typer.Argument(help="The approver's name, as decisions show it.")],
    key_file: Annotated[
        Path,
        typer.Option("--key-file", metavar="FILE", help="New file for the private key, the approver's own."),
    ],
) -> None:
    """Make an approver's key, and print the lines for the permissions file.

    If the file names approvers, only they decide about calls that need approval: such calls wait, and the decision
    needs the key of one (`atc runs approve RUN --key-file FILE`). Keep the key where those who ask cannot read it.
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
    return permissions_named(settings) or Permissions()


def _tools(sources: list[str] | None, only: list[str] | None) -> Toolset:
    sources = sources or options.default_tools()
    return options.opened(sources, only=only) if sources else Toolset()


def _row(permissions: Permissions, who: Who, tool: Tool) -> dict[str, Any]:
    protocol = tool.protocol
    unsaid = [rule for rule in permissions.rules if not rule.origins]  # these speak of arguments, and none is given
    decision = replace(permissions, rules=tuple(unsaid)).decide(who, protocol, {})
    return {
        "tool": protocol.name,
        "effect": decision.effect.value,
        "verdict": f"{decision.verdict}, waits" if decision.parks else decision.verdict,
        "by": decided_by(decision),
        "but": [_but(rule) for rule in permissions.conditional(who, protocol) if _matters(rule, decision)],
        "sent_again": _sent_again(tool),
        "untrusted": permissions.strangers.marks(protocol),
        "targets": [] if decision.effect is Effect.READ else declared_targets(protocol, permissions.targets(protocol)),
    }


def _targets(row: dict[str, Any]) -> str:
    """Return the targets of a write as a cell; where none is named, all of its arguments are."""
    return "" if row["effect"] == Effect.READ.value else ", ".join(row["targets"]) or "all arguments"


def _sent_again(tool: Tool) -> str:
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
    where = f" where {' and '.join(map(shown, rule.conditions))}" if rule.conditions else ""
    told = origins.shown(rule.origins, allows=rule.verdict == "allow") if rule.origins else ""
    return f"rule {rule.number}: {verdict}{where}{' and ' * bool(where and told) or ' '}{told}".rstrip()


def _read(permissions: Permissions) -> Iterator[str]:
    """Yield how patterns are read that look like commands or addresses."""
    for rule in permissions.rules:
        for condition in rule.conditions:
            for text in condition.patterns.texts if condition.patterns else ():
                if fits := how_read(text, allows=rule.verdict == "allow"):
                    yield f"rule {rule.number}: {'.'.join(condition.path)} `{text}` fits {fits}"


def _named_in_vain(permissions: Permissions, tools: Toolset) -> Iterator[str]:
    protocols, said = tools.protocols, permissions.strangers
    unused = [f"rule {r.number}" for r in permissions.rules if not any(may_name(r.tools, each) for each in protocols)]
    yield from (f"{rule} fits none of these tools" for rule in unused)
    for patterns, _ in permissions.tools:
        if not any(surely_names(patterns, each) for each in protocols):
            yield f"[tools.{patterns.texts[0]}] names none of these tools"
    for text in said.untrusted:
        if not any(map(replace(said, untrusted=(text,), trusted=()).is_named, protocols)):
            yield f"untrusted: {text} names none of these tools"
    for name in said.trusted:
        if not any(is_server(each, (name,)) for each in protocols):
            yield f"trusted: {SERVER}{name} names none of these tools"
    for rule in permissions.rules:
        for pattern in (each for condition in rule.origins for each in condition.tools):
            if not any(may_name(pattern.tools, each) for each in protocols):
                yield f"rule {rule.number}: {origins.TOOL}{pattern.tools.texts[0]} names none of these tools"


def _arguments_in_vain(permissions: Permissions, tools: Toolset) -> Iterator[str]:
    """A tool that may be given more than its schema names says nothing of that."""
    said: list[tuple[str, str, Callable[[str], bool] | None, list[Protocol]]] = []
    tables = [("targets", permissions.strangers.targets, tools.protocols)]
    for named, table in permissions.tools:
        own = [each for each in tools.protocols if surely_names(named, each)]
        tables.append((f"[tools.{named.texts[0]}] targets", table.targets, own))
    for at, patterns, own in tables:
        for text in patterns.texts if patterns is not None else ():
            said.append((at, text, Strangers().targets_of(patterns_of([text])).only, own))
    for rule in permissions.rules:
        own = [each for each in tools.protocols if may_name(rule.tools, each)]
        paths = dict.fromkeys(each.path for each in rule.origins if each.path)
        said += [(f"rule {rule.number}", path, path.__eq__, own) for path in paths]
    for at, text, names, own in said:
        known = [declared_paths(each) for each in own]
        if known and not any(is_open or any(map(names or bool, paths)) for paths, is_open in known):
            of = ", ".join(each.name for each in own) if len(own) <= _NAMED else f"any of {len(own)} tools"
            yield f"{at}: {text} is no argument of {of}"


Pattern = Annotated[str | None, typer.Option(metavar="PATTERN", help="Only tools whose name fits this pattern.")]
ClientPattern = Annotated[
    str | None,
    typer.Option("--client", metavar="PATTERN", help="Only clients whose principal, or own name, fits this pattern."),
]
Shown = Annotated[Verdict | None, typer.Option("--verdict", help="Only decisions of this kind.")]


@app.command()
@guarded
def audit(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many of the latest decisions to show.")
    ] = 50,
    tool: Pattern = None,
    client: ClientPattern = None,
    verdict: Shown = None,
    run: Annotated[str | None, typer.Option(help="Only the run whose id begins with this.")] = None,
    file: Annotated[
        Path | None, typer.Option("--audit", metavar="FILE", help="File where decisions about calls are recorded.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Read who approved or refused which calls, the latest last."""
    path = Settings.load(audit=file).audit
    found, damaged = _found(path, limit, tool, client, verdict, run)
    if not found and not damaged:
        nothing = (
            f"no decision in {path} fits. `atc mcp` writes all of its own there; `atc run`, `atc chat` and `atc ui` "
            f"only with permissions: a file that the setting `permissions` names, or {user_path()}. What was approved "
            "without them, `atc runs show RUN` says"
        )
        (err if as_json else out).print(Text(clean(nothing)))
    if as_json:
        print_json([record.model_dump(mode="json") for record in found])
    elif found:
        table = Table("at", "verdict", "by", "who", "call", "run", box=None, header_style="bold")
        for record in found:
            repeats = f" (as run {record.repeats})" if record.repeats else ""
            repeats += "".join(f" ({told})" for told in careful(_flow(record)))
            by = f"{record.by} {record.who}".rstrip() + (f" ({record.via})" if record.via else "")
            what = f"{record.verdict}: {record.why}" if record.why else record.verdict
            cells = (record.at[:19], what, by, _who(record), f"{_call(record)}{repeats}", record.run)
            table.add_row(*(Text(short(cell, 100)) for cell in cells))
        print_table(table)
    if damaged:
        where, line = damaged[0]
        what = f"{len(damaged)} lines of {path} cannot be read, the first is line {line} of {where}"
        err.print(f"{clean(what)}: what was decided there is not known", markup=False)


def _flow(record: AuditRecord) -> DataFlow:
    return DataFlow(origins=record.origins, untrusted=record.untrusted, author_saw=record.author_saw)


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

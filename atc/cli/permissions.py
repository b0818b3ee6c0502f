"""``atc permissions``: what a permissions file says before it counts, and who approved what."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from atc.calls.permissions.agent_permissions import permissions_file, permissions_named, user_path
from atc.calls.permissions.audit import AuditRecord, Verdict, read_audit
from atc.calls.permissions.conditions import shown
from atc.calls.permissions.lines import allowing_from, quoted
from atc.calls.permissions.patterns import Patterns, may_name, patterns_of, surely_names
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
UNTRUSTED = "untrusted tools"
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
    unused = _unused(permissions, opened) if opened else []
    named_in_vain = list(_named_in_vain(permissions, opened)) if opened else []
    arguments_in_vain = list(_arguments_in_vain(permissions, opened)) if opened else []
    if as_json:
        rules = [
            {"rule": rule.number, "verdict": rule.verdict, "tools": rule.tools.texts} for rule in permissions.rules
        ]
        about: dict[str, Any] = {"file": permissions.path, "read_only": permissions.read_only, "rules": rules}
        about["approvers"] = [*permissions.approvers.keys]
        about |= {"untrusted": permissions.strangers.untrusted, "after_untrusted": permissions.strangers.after}
        about |= {"tools": rows, "rules_that_fit_no_tool": unused, "named_in_vain": named_in_vain}
        print_json(about | {"arguments_in_vain": arguments_in_vain})
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
    for number in unused:
        out.print(f"rule {number} fits none of these tools", markup=False)
    for what in named_in_vain:
        out.print(f"{clean(what)} names none of these tools", markup=False)
    for vain in arguments_in_vain:
        names = vain["tools"]
        of = ", ".join(names) if len(names) <= _NAMED else f"any of {len(names)} tools"
        out.print(f"{clean(vain['at'])}: {clean(vain['argument'])} is no argument of {clean(of)}", markup=False)


@app.command()
@guarded
def explain(
    tool: Annotated[str, typer.Argument(help="The tool, as programs call it.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="KEY=VALUE, with JSON or text. May be given several times.")
    ] = None,
    permissions: PermissionsFile = None,
    tools: options.Tools = None,
    effect: Annotated[Effect, typer.Option(help="Effect of the tool, where no --tools are given.")] = Effect.UNKNOWN,
    principal: Principal = "local",
    client: ClientName = "",
    read_only: ReadOnly = None,
    origin: From = None,
    as_json: options.Json = False,
) -> None:
    """Show what would happen to one call, which rule decides, and which line would allow it."""
    loaded = _opened(permissions, read_only)
    known = _tools(tools, None)
    protocol = _protocol(tool, effect, known)
    who, call = Who(principal, client), CallFrom(loaded, protocol, _arguments(arguments or []), origin or [], known)
    decision = call.decision(who)
    depends = [] if origin else call.depends(who)
    line = call.line(who, decision)
    if as_json:
        print_json(_explained(decision, line, call, depends))
    else:
        out.print(f"{decision.asks}: {_why(decision)}, effect {decision.effect.value}{_waits(decision)}", markup=False)
        for path in call.untrusted:
            out.print(f"an untrusted tool may have chosen {clean(path)}", markup=False)
        if depends:
            what = clean(", ".join(depends))
            out.print(f"it depends on where its arguments come from ({what}): say that with --from", markup=False)
        for path in call.unsaid:
            out.print(f"`{clean(path)}` is unknown: add `--from {clean(path)}=…`", markup=False)
        if line:
            which = "what is known of it" if call.unsaid else "it"
            unless = ", as long as no target comes from an untrusted tool" if UNTRUSTED in depends else ""
            out.print(f"this would allow {which} unasked{unless}:\n{clean(line)}", markup=False)
    if decision.verdict == "deny":
        raise typer.Exit(DENIED)


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
    return permissions_named(settings) or Permissions.default()


def _tools(sources: list[str] | None, only: list[str] | None) -> Toolset:
    sources = sources or options.default_tools()
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
    where = f" where {' and '.join(map(shown, rule.conditions))}" if rule.conditions else ""
    told = origins.shown(rule.origins, allows=rule.verdict == "allow") if rule.origins else ""
    return f"rule {rule.number}: {verdict}{where}{' and ' * bool(where and told) or ' '}{told}".rstrip()


def _unused(permissions: Permissions, tools: Toolset) -> list[int]:
    """The rules that speak of none of the tools, whoever calls."""
    protocols = tools.protocols
    return [rule.number for rule in permissions.rules if not any(may_name(rule.tools, each) for each in protocols)]


def _named_in_vain(permissions: Permissions, tools: Toolset) -> Iterator[str]:
    """Yield what names none of the tools: tables, untrusted tools, trusted servers, origins in rules."""
    protocols, said = tools.protocols, permissions.strangers
    for table in permissions.tools:
        if not any(surely_names(table.tools, each) for each in protocols):
            yield f"[tools.{table.tools.texts[0]}]"
    for text in said.untrusted:
        if not any(map(replace(said, untrusted=(text,), trusted=()).is_named, protocols)):
            yield f"untrusted: {text}"
    for name in said.trusted:
        if not any(is_server(each, (name,)) for each in protocols):
            yield f"trusted: {SERVER}{name}"
    for rule in permissions.rules:
        for pattern in (each for condition in rule.origins for each in condition.patterns.tools):
            if not any(may_name(pattern.tools, each) for each in protocols):
                yield f"rule {rule.number}: {origins.TOOL}{pattern.tools.texts[0]}"


def _arguments_in_vain(permissions: Permissions, tools: Toolset) -> Iterator[dict[str, Any]]:
    """Yield what names no argument of any tool that it may speak of: ``targets`` of both forms, and origins in rules.

    A tool that may be given more than its schema names says nothing of that.
    """
    protocols = tools.protocols
    said = [("targets", text, protocols) for text in _texts(permissions.strangers.targets)]
    for table in permissions.tools:
        own = [each for each in protocols if surely_names(table.tools, each)]
        said += [(f"[tools.{table.tools.texts[0]}] targets", text, own) for text in _texts(table.targets)]
    for at, text, of in said:
        only = Strangers().targets_of(patterns_of([text]))
        if _is_in_vain(of, only.only):
            yield _vain(at, text, of)
    for rule in permissions.rules:
        own = [each for each in protocols if may_name(rule.tools, each)]
        for path in dict.fromkeys(each.path for each in rule.origins if each.path):
            if _is_in_vain(own, path.__eq__):
                yield _vain(f"rule {rule.number}", path, own)


def _is_in_vain(protocols: Sequence[Protocol], names: Callable[[str], bool] | None) -> bool:
    known = [declared_paths(each) for each in protocols]
    return bool(known) and not any(is_open or any(map(names or bool, paths)) for paths, is_open in known)


def _vain(at: str, argument: str, protocols: Sequence[Protocol]) -> dict[str, Any]:
    return {"at": at, "argument": argument, "tools": [each.name for each in protocols]}


def _texts(patterns: Patterns | None) -> tuple[str, ...]:
    return () if patterns is None else patterns.texts


def _why(decision: Decision) -> str:
    return decided_by(decision).replace("_", "-")


def _waits(decision: Decision) -> str:
    return ", and it waits for approval (`atc runs approvals`)" if decision.parks else ""


def _explained(decision: Decision, line: str, call: CallFrom, depends: list[str]) -> dict[str, Any]:
    rule = decision.rule.number if decision.rule is not None else None
    told: dict[str, Any] = {"verdict": decision.asks, "why": decision.why, "rule": rule, "waits": decision.parks}
    return {
        **told,
        "untrusted": call.untrusted,
        "unsaid": call.unsaid,
        "depends_on_origins": depends,
        "effect": decision.effect.value,
        "line": line,
    }


class CallFrom:
    """Holds a call that is asked about, with where its arguments are said to come from.

    Args:
        permissions: of the user.
        protocol: of the tool.
        arguments: of the call; one of which an origin alone is said is given, too.
        said: ``ARG=ORIGIN``, of which several may speak of one argument.
        tools: that are known.
    """

    def __init__(
        self, permissions: Permissions, protocol: Protocol, arguments: dict[str, Any], said: list[str], tools: Toolset
    ) -> None:
        self._permissions, self._protocol, self._arguments = permissions, protocol, arguments
        self._protocols = {name: tool.protocol for name, tool in tools.items()}
        self._origins: dict[str, Origins] = {}
        self._said: dict[str, Origins] = {}
        for text in said:
            path, sign, origin = text.partition("=")
            if not (sign and all(path.split("."))):
                raise UsageError(f"{text!r} is no ARG=ORIGIN, such as to=tool:read_mail.sender")
            try:
                found = {origins.origin_of(origin)}
            except ValueError as error:
                raise UsageError(f"--from {path}: {error}") from None
            for each in found if self._protocols else ():
                if each.tool and each.tool not in self._protocols:
                    raise UsageError(f"--from {path}: there is no tool {each.tool[:80]} among those of --tools")
            steps = path.split(".")
            self._check(steps[0])
            self._said[path] = self._said.get(path, frozenset()) | found
            for number in range(1, len(steps) + 1):  # the whole has what its parts have
                part = ".".join(steps[:number])
                self._origins[part] = self._origins.get(part, frozenset()) | found
            _fill(arguments, steps)
        self.untrusted = self._untrusted() if said else ()

    def decision(self, who: Who) -> Decision:
        """Return what the permissions say of the call."""
        return self._permissions.decide(
            who,
            self._protocol,
            self._arguments,
            self._origins,
            untrusted=self.untrusted,
            protocol_of=self._protocols.get,
        )

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Return the targets whose origin nobody said, where some are said: they are unknown."""
        if not self._said:
            return ()
        targets = targets_of(self._protocol, self._arguments, self._permissions.targets(self._protocol))
        return tuple(path for path in targets if path.partition(".")[0] not in self._origins)

    def line(self, who: Who, decision: Decision) -> str:
        """Return the lines that would have the call made unasked, and no other one: of what is said of it alone."""
        if decision.asks != "ask" or not self._said or (decision.rule is not None and decision.rule.verdict == "ask"):
            return decision.line
        known = {path: of for path, of in self._said.items() if any(map(origins.needs_listing, of))}
        return allowing_from(self._protocol.name, who.principal, known)

    def _check(self, name: str) -> None:
        """Raise an error for an argument that a tool does not have."""
        if not self._protocols:  # nobody knows its arguments
            return
        names = [name for each in parameters_of(self._protocol) for name in dict.fromkeys((each.name, each.original))]
        if name not in names and name not in self._arguments:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise UsageError(f"--from {name[:80]}: {self._protocol.name} has no such argument: {has}")

    def depends(self, who: Who) -> list[str]:
        """Return what makes it depend on where the arguments come from: rules, and untrusted tools."""
        rules = [each.number for each in self._permissions.conditional(who, self._protocol) if each.origins]
        told = [f"rule {number}" for number in rules]
        writes = self._permissions.effect(self._protocol) is not Effect.READ
        return [*told, UNTRUSTED] if writes and self._some_are_untrusted else told

    @property
    def _some_are_untrusted(self) -> bool:
        return bool(self._permissions.strangers.untrusted) or any(map(self._is_untrusted, self._protocols))

    def _is_untrusted(self, name: str) -> bool:
        try:
            return self._permissions.is_untrusted(self._protocols.get(name) or Protocol(name=name))
        except ValueError:
            raise UsageError(f"{name!r} is no tool's name") from None

    def _untrusted(self) -> tuple[str, ...]:
        if self._permissions.effect(self._protocol) is Effect.READ:
            return ()
        return untrusted_arguments(
            self._protocol,
            self._origins,
            self._is_untrusted,
            unknown_counts=self._some_are_untrusted,
            arguments=self._arguments,
            targets=self._permissions.targets(self._protocol),
        )


def _fill(arguments: dict[str, Any], path: list[str]) -> None:
    """Give an argument that stands nowhere, so that a rule can speak of it."""
    at: Any = arguments
    for number, key in enumerate(path, 1):
        if not isinstance(at, dict):
            return
        at = at.setdefault(key, {} if number < len(path) else None)


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
    settings = Settings.load(audit=file)
    path = settings.audit
    found, damaged = _found(path, limit, tool, client, verdict, run)
    if not found and not damaged:
        (err if as_json else out).print(Text(clean(_nothing(settings))))
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


def _nothing(settings: Settings) -> str:
    """What to say where no decision is found: why there is none, and what writes some."""
    if settings.audit.exists():
        return (
            f"no decision in {settings.audit} fits. `atc run`, `atc chat` and `atc ui` write there only with "
            "permissions; what was approved without them, `atc runs show RUN` says"
        )
    if settings.read_only or permissions_file(settings) is not None:
        return (
            f"nothing is written in {settings.audit} yet: no call that needs a decision was made with your permissions"
        )
    return (
        f"nothing is written in {settings.audit} yet. `atc mcp` writes all its decisions there; `atc run`, `atc chat` "
        "and `atc ui` only with permissions, and you have none: name a file in the setting `permissions`, or "
        f"write {user_path()}. What was approved without them, `atc runs show RUN` says"
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

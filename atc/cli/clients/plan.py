"""What an installation or its undoing would do to a client's file, before anything is written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc.cli.clients.clients import (
    Client,
    Machine,
    Place,
    Scope,
    arguments_of,
    is_atc,
    movable,
    own_entry,
    place_of,
    words_of,
)
from atc.cli.clients.document import ConfigProblem, same
from atc.cli.clients.editor import KINDS, Editor, Step, parsed, shown_diff
from atc.cli.clients.state import ConfigFile, Record, State
from atc.errors import AtcError, UsageError
from atc.tools.mcp.spec import MAX_SERVERS, read_specs
from atc.tools.sources import mcp_source

NAME = "atc"
_PART = re.compile(r"(.*?)((?<=\.py):[^:]*)?", re.DOTALL)
"""A file, and what is meant of it: ``FILE.py:NAME``."""


@dataclass
class Plan:
    """What is to be done.

    Attributes:
        client: whose file it is. ``place``: which file. ``name``: of ATC's entry in it.
        file: as it was read. ``after``: its text when it is done; ``None`` deletes it.
        record: what is remembered afterwards. ``servers``: what stands behind ATC afterwards.
        moved: servers that go behind ATC, or come back from there.
        kept: servers that stay where they are, and why.
        notes: what else the user should know.
    """

    client: Client
    place: Place
    state: State
    file: ConfigFile
    name: str
    after: str | None
    record: Record | None
    servers: Mapping[str, Any]
    moved: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether the client's file becomes another one."""
        return (self.after is None) != (self.file.content is None) or (self.after or "") != self.file.text

    def diff(self) -> str:
        """The change of the client's file, in unified form, without credentials."""
        before, after = (parsed(self.client.form, text) for text in (self.file.text, self.after or ""))
        return shown_diff(before, after, str(self.file.target)) if self.changes else ""

    def carry_out(self) -> Path | None:
        """Write it: a copy of the file, the servers, the record, and the file. Whatever is cut off loses no server.

        Returns:
            The copy; ``None`` if there was no file, or it does not change.

        Raises:
            EnvironmentProblem: the file was changed meanwhile, or is locked. Nothing of it was written.
        """
        copy = self.state.copy(self.file.content) if self.changes and self.file.content is not None else None
        servers, record = self.state.servers(), self.state.record()
        if self.record is not None:
            self.state.keep_servers({**servers, **self.servers})
            self.state.keep(self.record)
        try:
            if self.changes and self.after is None:
                self.file.remove()
            elif self.changes:
                self.file.write(self.after or "", private=self.place.scope == "user")
        except (AtcError, OSError):
            self.state.keep_servers(servers)
            self.state.keep(record)
            raise
        self.state.keep_servers(self.servers)  # what came back leaves our file last
        if self.record is None:
            self.state.keep(None)
        return copy


@dataclass(frozen=True)
class Wanted:
    """What a user asks for.

    Attributes:
        command: the words that start ATC.
        name: of the entry; ``None``: the one that is there, else ``atc``.
        tools: where the tools are, as ``--tools`` of ``atc mcp`` takes it.
        options: more words for ``atc mcp``.
        move: whether the client's servers go behind ATC.
    """

    command: Sequence[str]
    name: str | None = None
    tools: Sequence[str] = ()
    options: Sequence[str] = ()
    move: bool = False


def plan_install(client: Client, place: Place, machine: Machine, wanted: Wanted) -> Plan:
    """What would put ATC into a client's file.

    Raises:
        UsageError: the client is not here, no tools are named, or the name is another server's.
        ConfigProblem: the file cannot be read or edited; ``paste`` says what to add by hand.
    """
    state, file = opened(client, place, machine)
    if file.content is None and not place.here:
        raise UsageError(
            f"{client.title} was not found: there is no {place.missing}. Install and start it once, or name its file "
            "with --config"
        )
    record, servers = state.record(), state.servers()
    try:
        editor = Editor(client, file.text)
        name = _name(client, editor.servers(), wanted.name, record)
        made_keys = record.made_keys if record else editor.missing_keys()
        _still_there(servers, editor.servers(), record)
        moved, kept, notes = _move(client, editor, servers, machine) if wanted.move else ([], {}, [])
        present = editor.servers()
        renamed = record.name if record and record.name != name and is_atc(client, present.get(record.name)) else ""
        old = present.get(name) or present.get(renamed) or {}
        words = [*wanted.command, "mcp", *_arguments(client, old, wanted, servers, state, kept)]
        entry = {**old, **own_entry(client, name, words)}
        if renamed:
            editor.take(renamed)
        if not same(present.get(name), entry):
            if name in present:
                editor.take(name)
            editor.put(name, entry)
    except ConfigProblem as problem:
        words = [*wanted.command, "mcp", *_told(wanted)]
        snippet = KINDS[client.form]("").put(client.key, wanted.name or NAME, own_entry(client, NAME, words)).new
        raise by_hand(problem, file, snippet) from None
    steps = (*(record.steps if record else ()), *editor.steps)
    made_file = record.made_file if record else file.content is None
    text = editor.document.text
    kept_record = Record(
        client=client.id, path=str(place.path), name=name, made_file=made_file, made_keys=made_keys, steps=steps
    )
    record = kept_record if editor.steps or record else None
    plan = Plan(client, place, state, file, name, text, record, servers, moved, kept, notes + file.notes, entry)
    plan.notes += [f"{why}: {client.title} starts ATC in another folder" for why in _only_here(wanted.tools)]
    if not editor.steps and record is None:
        plan.servers = state.servers()
    if entry.get("disabled") or entry.get("enabled") is False:
        plan.notes.append(f"{name} is switched off in {client.title}")
    if place.scope == "project" and not place.chosen:
        plan.notes.append("the entry names a file of this machine: think before you commit it")
        if moved:
            plan.notes.append("servers of a project that moved start without the client's own question about them")
    return plan


@dataclass(frozen=True)
class Found:
    """What is known of one client on this machine, without changing anything.

    Attributes:
        here: whether it seems to be installed. ``entry``: the name of ATC's entry; empty if it has none.
        behind: how many servers moved behind it. ``problem``: why its file cannot be read.
    """

    client: Client
    place: Place
    here: bool
    entry: str = ""
    behind: int = 0
    problem: str = ""


def look(client: Client, machine: Machine, scope: Scope) -> Found:
    """What is known of a client here.

    Raises:
        UsageError: it has no file of that scope.
    """
    place = place_of(client, machine, scope=scope)
    here = place.here if scope == "user" else os.path.lexists(place.path)
    try:
        state, file = opened(client, place, machine)
        servers = Editor(client, file.text).servers() if file.content is not None else {}
        ours = [name for name, entry in servers.items() if is_atc(client, entry)]
        return Found(client, place, here, ", ".join(ours), len(state.servers()))
    except (UsageError, OSError) as error:
        return Found(client, place, here, problem=str(error))


# -- the pieces --------------------------------------------------------------------------------------------------------


def opened(client: Client, place: Place, machine: Machine) -> tuple[State, ConfigFile]:
    default = place.scope == "user" and (
        not place.chosen or place.path == place_of(client, machine).path if client.user else False
    )
    state = State(machine.state, client, place.path, default=default)
    known = state.record() if default else None
    if known is not None and known.path != str(place.path):  # the client has another file now
        state = State(machine.state, client, place.path, default=False)
    try:
        return state, ConfigFile.read(client, place, machine)
    except ConfigProblem as problem:
        raise _located(problem, place.path) from None


def _name(client: Client, present: Mapping[str, Any], name: str | None, record: Record | None) -> str:
    ours = [each for each, entry in present.items() if is_atc(client, entry)]
    if name is None:
        name = record.name if record and record.name in (*ours, NAME) else only_one(ours) or NAME
    if not name.isprintable() or not 0 < len(name) <= 64:
        raise UsageError(f"--name {name!r} is no name for a server: take letters, digits and - of at most 64")
    if name in present and name not in ours:
        raise UsageError(f"a server {name!r} is there already and is not ATC: give another --name")
    return name


def only_one(ours: Sequence[str]) -> str:
    if len(ours) > 1:
        raise UsageError(f"several entries start ATC ({', '.join(map(repr, ours))}): say which one with --name")
    return ours[0] if ours else ""


def _move(
    client: Client, editor: Editor, servers: dict[str, Any], machine: Machine
) -> tuple[list[str], dict[str, str], list[str]]:
    moved: list[str] = []
    kept: dict[str, str] = {}
    lost: dict[str, None] = {}
    for name, entry in editor.servers().items():
        if is_atc(client, entry):
            continue
        made = movable(client, name, entry, machine.environ)
        if isinstance(made, str):
            kept[name] = made
        elif name in servers and not same(servers[name], made):
            kept[name] = "behind ATC there is another one of this name already"
        elif name not in servers and len(servers) >= MAX_SERVERS:
            kept[name] = f"behind ATC there are {MAX_SERVERS} already"
        else:
            try:
                editor.take(name, made)
            except ConfigProblem as problem:
                kept[name] = problem.what
                continue
            servers[name] = made
            moved.append(name)
            lost |= dict.fromkeys(key for key in client.entry.dropped if "timeout" in key and key in entry)
    notes = [f"what they say of {', '.join(lost)} has no effect behind ATC"] if lost else []
    return moved, kept, notes


def _arguments(
    client: Client, old: Any, wanted: Wanted, servers: Mapping[str, Any], state: State, kept: Mapping[str, str]
) -> list[str]:
    """The words behind ``atc mcp``: what is asked for, else what the entry has; and the servers behind it."""
    behind = ["--tools", str(state.servers_path)]
    before = arguments_of(words_of(client, old)) or []
    at = next((at for at in range(len(before)) if before[at : at + 2] == behind), None)
    rest = before if at is None else before[:at] + before[at + 2 :]
    if wanted.tools or wanted.options:
        rest = _told(wanted)
    made = [*rest, *behind] if servers else rest
    if not made and not before:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in list(kept.items())[:5])
        none = f"no server can move ({why})" if why else "there is no server that could move" if wanted.move else ""
        raise UsageError(f"no tools are named: give --tools, or --move-servers{': ' + none if none else ''}")
    return made


def _told(wanted: Wanted) -> list[str]:
    return [*(word for tool in wanted.tools for word in ("--tools", _from_anywhere(tool))), *wanted.options]


def _from_anywhere(tool: str) -> str:
    """The word for a source of tools that means the same in the folder that a client starts ATC in.

    Raises:
        UsageError: it names a file that is not there.
    """
    if os.path.exists(tool):
        return os.path.abspath(tool)
    if "://" in tool or tool.startswith("mcp:"):
        return tool
    file, part = _PART.fullmatch(tool).groups()  # type: ignore[union-attr]  # it matches every word
    if part and os.path.exists(file):
        return os.path.abspath(file) + str(part)
    if os.sep in tool or file.endswith((".json", ".yaml", ".yml", ".py")):
        raise UsageError(f"--tools {tool!r}: there is no such file")
    return tool


def _only_here(tools: Sequence[str]) -> Iterator[str]:
    """Say which words of the servers that are named are found only from this folder, and what to write instead."""
    for tool in tools:
        try:
            servers = read_specs(source) if (source := mcp_source(tool)) is not None else []
        except AtcError:
            continue  # `atc mcp --check` says what is wrong
        for spec in servers:
            if spec.cwd and os.path.isabs(spec.cwd):
                continue
            for word in spec.command:
                if os.path.isfile(word) and not os.path.isabs(word):
                    yield f"give {word!r} of {spec.name or spec.location} with its whole path, {os.path.abspath(word)}"
            program = shutil.which(spec.command[0]) if spec.command else None
            if program and not os.path.isabs(spec.command[0]) and program.startswith(sys.prefix + os.sep):
                yield f"give {spec.command[0]!r} of {spec.name or spec.location} with its whole path, {program}"


def _still_there(servers: dict[str, Any], present: Mapping[str, Any], record: Record | None) -> None:
    """Forget servers behind ATC that never left the client's file: an installation was cut off."""
    for step in record.steps if record else ():
        left = step.moved is not None and same(servers.get(step.name), step.moved)
        if left and step.name in present and same(present[step.name], step.value):
            del servers[step.name]


def _located(problem: ConfigProblem, path: Path) -> ConfigProblem:
    return ConfigProblem(problem.what, line=problem.line, column=problem.column, file=str(path))


def by_hand(problem: ConfigProblem, file: ConfigFile, snippet: str) -> ConfigProblem:
    made = _located(problem, file.path)
    made.paste = snippet
    return made


# -- the undoing -------------------------------------------------------------------------------------------------------


def plan_uninstall(client: Client, place: Place, machine: Machine, *, name: str | None = None) -> Plan:
    """What would take ATC out of a client's file, and put back what moved behind it.

    The present file is edited: what the user changed since then stays.

    Raises:
        UsageError: several entries start ATC and none is named, or the folder of the file is gone.
        ConfigProblem: the file cannot be read or edited.
    """
    state, file = opened(client, place, machine)
    record, servers = state.record(), state.servers()
    if file.content is None and (record or servers) and not place.path.parent.is_dir():
        raise UsageError(f"there is no {place.path.parent}: the servers that moved are in {state.servers_path}")
    try:
        editor = Editor(client, file.text)
        plan = Plan(client, place, state, file, "", file.text, None, servers, notes=file.notes)
        left = dict(servers)
        present = editor.servers()
        if record is None or not is_atc(client, present.get(name or record.name)):
            ours = [each for each, entry in present.items() if is_atc(client, entry)]
            if name is not None and name not in (*ours, record.name if record else ""):
                raise UsageError(f"no entry {name!r} starts ATC in {place.path}: it has {', '.join(ours) or 'none'}")
            plan.name = name or only_one(ours)
            if plan.name in ours and (record is None or plan.name != record.name):
                editor.take(plan.name)
        plan.name = plan.name or (record.name if record else name or NAME)
        for step in reversed(record.steps if record else ()):
            _undo(plan, editor, step, left)
        for other in [each for each in left if each not in plan.kept]:
            if other in editor.servers():
                plan.kept[other] = f"another one of this name is in the file now; it stays in {state.servers_path}"
            else:
                editor.put(other, _back(client, other, left.pop(other)))
                plan.moved.append(other)
        editor.prune(record.made_keys if record else ())
    except ConfigProblem as problem:
        raise by_hand(problem, file, "") from None
    plan.after, plan.servers = editor.document.text, left
    nothing_left = plan.after.strip() in ("", "{}") and record is not None and record.made_file
    if nothing_left or (file.content is None and not plan.after):
        plan.after = None
    return plan


def _undo(plan: Plan, editor: Editor, step: Step, left: dict[str, Any]) -> None:
    present, name = editor.servers(), step.name
    if step.action == "put":
        if name not in present:
            return
        if is_atc(plan.client, present[name]):
            editor.undo(step)
        else:
            plan.kept[name] = "it is not ATC any more"
        return
    if step.moved is not None and name not in left:
        if name not in present:
            plan.notes.append(f"{name!r} was taken out of {plan.state.servers_path.name} since, and does not come back")
        return
    if name in present:
        if same(present[name], step.value):
            left.pop(name, None)
        elif step.moved is not None:
            where = plan.state.servers_path
            plan.kept[name] = f"another one of this name is in the file now; the one that moved stays in {where}"
        elif not is_atc(plan.client, present[name]):
            plan.kept[name] = "another one of this name is in the file now; the copies have the one before"
        return
    if step.moved is not None:
        now = left.pop(name)
        plan.moved.append(name)
        if not same(now, step.moved):
            editor.put(name, _back(plan.client, name, now))
            return
    editor.undo(step)


def _back(client: Client, name: str, server: Any) -> dict[str, Any]:
    """A server of our file in the form of a client."""
    dialect = client.entry
    if not isinstance(server, Mapping) or "command" not in server:
        made = dict(server) if isinstance(server, Mapping) else {}
        if "url" in made:
            made = {dialect.url if key == "url" else dialect.headers if key == "headers" else key: value
                    for key, value in made.items()}  # fmt: skip
            made |= {"type": dialect.http[0]} if dialect.http else {}
        return made
    words = [str(server["command"]), *map(str, server.get("args") or [])]
    made = own_entry(client, name, words)
    if not dialect.joined and not server.get("args"):
        made.pop("args")
    made |= {dialect.env: server["env"]} if server.get("env") else {}
    return made | ({"cwd": server["cwd"]} if server.get("cwd") else {})

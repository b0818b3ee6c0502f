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
from atc.cli.clients.documents import ConfigProblem, Document, snippet
from atc.cli.clients.shown import shown_diff
from atc.cli.clients.state import ConfigFile, Record, State, digest
from atc.errors import AtcError, UsageError
from atc.tools.mcp.spec import MAX_SERVERS, read_specs
from atc.tools.sources import mcp_source

NAME = "atc"
RELAID = "the rest of the file keeps its values and is laid out anew"
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
    servers: dict[str, Any]
    moved: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Whether the client's file becomes another one."""
        return (self.after is None) != (self.file.content is None) or (self.after or "") != self.file.text

    def diff(self) -> str:
        """The change of the client's file, in unified form, without credentials."""
        before, after = (Document.read(self.client, text).servers for text in (self.file.text, self.after or ""))
        return shown_diff(self.client, before, after, str(self.file.target)) if self.changes else ""

    def carry_out(self) -> Path | None:
        """Write it: a copy of the file, the servers, the record, and the file. Whatever is cut off loses no server.

        Returns:
            The copy; ``None`` if there was no file, or it does not change.

        Raises:
            EnvironmentProblem: the file was changed meanwhile. Nothing of it was written.
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
    try:
        return _installed(client, place, machine, wanted)
    except ConfigProblem as problem:
        name, words = wanted.name or NAME, [*wanted.command, "mcp", *_told(wanted)]
        problem.file, problem.paste = str(place.path), snippet(client, {name: own_entry(client, name, words)})
        raise


def _installed(client: Client, place: Place, machine: Machine, wanted: Wanted) -> Plan:
    state, file = State(client, place, machine), ConfigFile.read(client, place, machine)
    if file.content is None and place.missing is not None:
        raise UsageError(
            f"{client.title} was not found: there is no {place.missing}. Install and start it once, or name its file "
            "with --config"
        )
    record, servers, document = state.record(), state.servers(), Document.read(client, file.text)
    present = document.servers
    name = _name(client, present, wanted.name, record)
    for each, made in (record.behind if record else {}).items():  # one that never left the file: it was cut off
        if record and servers.get(each) == made and present.get(each) == record.taken[each]:
            del servers[each]
    before = None if file.content is None else file.text
    record = None if record and record.before == before else record  # an installation or an undoing was cut off
    document, moved, kept = _move(document, servers, machine) if wanted.move else (document, [], {})
    renamed = record.name if record and record.name != name and is_atc(client, present.get(record.name)) else ""
    old = present.get(name) or present.get(renamed) or {}
    entry = {
        **old,
        **own_entry(client, name, [*wanted.command, "mcp", *_arguments(client, old, wanted, servers, state, kept)]),
    }
    document = document.take(renamed) if renamed else document
    document = document.put(name, entry) if present.get(name) != entry else document
    taken = {each: present[each] for each in moved}
    if record is None and name in present:
        taken[name] = present[name]
    if document.text != file.text:
        ours = record is None or record.after == digest(file.text)
        record = Record(
            client=client.id,
            path=str(place.path),
            name=name,
            before=record.before if record else before,
            after=digest(document.text) if ours else "",
            taken={**(record.taken if record else {}), **taken},
            behind={**(record.behind if record else {}), **{each: servers[each] for each in moved}},
        )
    plan = Plan(client, place, state, file, name, document.text, record, servers, moved, kept, [*file.notes])
    plan.notes += [RELAID] * bool(document.relaid)
    if lost := {key for each in moved for key in client.entry.dropped if "timeout" in key and key in present[each]}:
        plan.notes.append(f"what they say of {', '.join(sorted(lost))} has no effect behind ATC")
    plan.notes += [f"{why}: {client.title} starts ATC in another folder" for why in _only_here(wanted.tools)]
    if entry.get("disabled") or entry.get("enabled") is False:
        plan.notes.append(f"{name} is switched off in {client.title}")
    if place.scope == "project" and not place.chosen:
        plan.notes.append("the entry names a file of this machine: think before you commit it")
        if moved:
            plan.notes.append("servers of a project that moved start without the client's own question about them")
    return plan


def look(client: Client, machine: Machine, scope: Scope) -> dict[str, Any]:
    """What is known of a client here, without changing anything.

    Raises:
        UsageError: it has no file of that scope.
    """
    place = place_of(client, machine, scope=scope)
    here = place.missing is None if scope == "user" else os.path.lexists(place.path)
    found: dict[str, Any] = {"client": client.id, "title": client.title, "path": str(place.path), "here": here}
    found |= {"entry": None, "behind": 0, "problem": None}
    try:
        servers = Document.read(client, ConfigFile.read(client, place, machine).text).servers
        found["entry"] = ", ".join(name for name, entry in servers.items() if is_atc(client, entry)) or None
        found["behind"] = len(State(client, place, machine).servers())
    except (UsageError, OSError) as error:
        found["problem"] = f"{place.path}: {error}" if isinstance(error, ConfigProblem) else str(error)
    return found


# -- the pieces --------------------------------------------------------------------------------------------------------


def _name(client: Client, present: Mapping[str, Any], name: str | None, record: Record | None) -> str:
    ours = [each for each, entry in present.items() if is_atc(client, entry)]
    if name is None:
        name = record.name if record and record.name in (*ours, NAME) else _only_one(ours) or NAME
    if not name.isprintable() or not 0 < len(name) <= 64:
        raise UsageError(f"--name {name!r} is no name for a server: take letters, digits and - of at most 64")
    if name in present and name not in ours:
        raise UsageError(f"a server {name!r} is there already and is not ATC: give another --name")
    return name


def _only_one(ours: Sequence[str]) -> str:
    if len(ours) > 1:
        raise UsageError(f"several entries start ATC ({', '.join(map(repr, ours))}): say which one with --name")
    return ours[0] if ours else ""


def _move(document: Document, servers: dict[str, Any], machine: Machine) -> tuple[Document, list[str], dict[str, str]]:
    moved: list[str] = []
    kept: dict[str, str] = {}
    for name, entry in document.servers.items():
        if is_atc(document.client, entry):
            continue
        made = movable(document.client, name, entry, machine.environ)
        if isinstance(made, str):
            kept[name] = made
        elif servers.get(name, made) != made:
            kept[name] = "behind ATC there is another one of this name already"
        elif name not in servers and len(servers) >= MAX_SERVERS:
            kept[name] = f"behind ATC there are {MAX_SERVERS} already"
        else:
            try:
                document = document.take(name)
            except ConfigProblem as problem:
                kept[name] = problem.what
                continue
            servers[name] = made
            moved.append(name)
    return document, moved, kept


def _arguments(
    client: Client, old: Any, wanted: Wanted, servers: Mapping[str, Any], state: State, kept: Mapping[str, str]
) -> list[str]:
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
    """The word that means the same in the folder that a client starts ATC in."""
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


# -- the undoing -------------------------------------------------------------------------------------------------------


def plan_uninstall(client: Client, place: Place, machine: Machine, *, name: str | None = None) -> Plan:
    """What would take ATC out of a client's file, and put back what moved behind it.

    The present file is edited: what the user changed since then stays.

    Raises:
        UsageError: several entries start ATC and none is named, or the folder of the file is gone.
        ConfigProblem: the file cannot be read or edited.
    """
    try:
        return _undone(client, place, machine, name)
    except ConfigProblem as problem:
        problem.file = str(place.path)
        raise


def _undone(client: Client, place: Place, machine: Machine, name: str | None) -> Plan:
    state, file = State(client, place, machine), ConfigFile.read(client, place, machine)
    record, servers = state.record(), state.servers()
    if file.content is None and (record or servers) and not place.path.parent.is_dir():
        raise UsageError(f"there is no {place.path.parent}: the servers that moved are in {state.servers_path}")
    as_written = record is not None and record.after == digest(file.text) and servers == record.behind
    if record is not None and as_written and name in (None, record.name) and file.content is not None:
        return Plan(
            client, place, state, file, record.name, record.before, None, {}, [*record.behind], notes=file.notes
        )
    document = Document.read(client, file.text)
    ours = [each for each, entry in document.servers.items() if is_atc(client, entry)]
    known = record.name if record else ""
    if name is not None and name not in (*ours, known):
        raise UsageError(f"no entry {name!r} starts ATC in {place.path}: it has {', '.join(ours) or 'none'}")
    name = name or (known if known in ours else _only_one(ours)) or known or NAME
    plan = Plan(client, place, state, file, name, None, None, dict(servers), notes=file.notes)
    if name in ours:
        document = document.take(name)
    elif name in document.servers and record is not None:
        plan.kept[name] = "it is not ATC any more"
    for each, entry in (record.taken if record else {}).items():
        if _comes_back(plan, each, entry, document.servers.get(each), record.behind if record else {}):
            document = document.put(each, entry)
    for each in plan.servers:
        plan.kept.setdefault(each, f"it was added behind ATC, and stays in {state.servers_path}")
    plan.notes += [RELAID] * bool(document.relaid)
    plan.after = None if file.content is None and not document.text else document.text
    return plan


def _comes_back(plan: Plan, name: str, entry: Any, now: Any, behind: Mapping[str, Any]) -> bool:
    """Whether an entry that was taken out is put back; what it became behind ATC is dropped, or stays and is told."""
    where = plan.state.servers_path
    if name not in behind:
        return now is None
    if name not in plan.servers:
        if now is None:
            plan.notes.append(f"{name!r} was taken out of {where.name} since, and does not come back")
        return False
    if now is not None and now != entry:
        plan.kept[name] = f"another one of this name is in the file now; the one that moved stays in {where}"
        return False
    if plan.servers[name] == behind[name]:
        del plan.servers[name]
    else:
        plan.kept[name] = f"it was changed behind ATC: it comes back as it was, and the changed one stays in {where}"
    if now is None:
        plan.moved.append(name)
    return now is None

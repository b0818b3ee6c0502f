"""What would take ATC out of a client's file again, and put back what moved behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.errors import UsageError
from atc.faces.mcp_clients.document import same
from atc.faces.mcp_clients.editor import Editor
from atc.faces.mcp_clients.entries import is_atc, own_entry
from atc.faces.mcp_clients.plan import NAME, Plan, by_hand, only_one, opened
from atc.faces.mcp_clients.problems import ConfigProblem
from atc.faces.mcp_clients.records import Client, Machine, Place
from atc.faces.mcp_clients.state import Step


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

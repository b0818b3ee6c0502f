"""What a run has learned of its tools, held against the next program before it runs.

A call that found nothing is answered from the journal and finds nothing again. Where a later program repeats it with an
optional argument that the task never gave, that argument is left out: it was made up. And a reading call that was
refused, and whose answer nothing uses, is left out of the next program: it would end it again.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from atc.calls.canonical import canonical
from atc.programs.attribution.responses import hollow
from atc.programs.program import NotParsed, parse
from atc.result import Call, Effect
from atc.tools.parameters import original_arguments, parameters_of
from atc.tools.protocol import Protocol


def without_made_up_arguments(
    source: str, calls: Sequence[Call], protocols: Mapping[str, Protocol], task: str
) -> tuple[str, tuple[str, ...]]:
    """Return the program without optional arguments that were made up and found nothing before, and a note for each.

    Args:
        source: the next program.
        calls: the calls of the run so far.
        protocols: the tools.
        task: the user's words; a value that stands in them is never left out.
    """
    empty = {(c.tool, canonical(c.arguments)) for c in calls if c.succeeded and hollow(c)}
    try:
        tree = parse(source) if empty else None
    except NotParsed:
        tree = None
    notes: list[str] = []
    lines = [line.encode() for line in source.split("\n")]
    for node in _calls_last_first(tree, protocols):
        protocol = protocols[node.func.id]  # type: ignore[attr-defined]
        given = _literals(node)
        if given is None or (protocol.name, canonical(original_arguments(protocol, given))) not in empty:
            continue
        optional = {p.name for p in parameters_of(protocol) if not p.required}
        made_up = {
            name for name, value in given.items() if name in optional and str(value).casefold() not in task.casefold()
        }
        if made_up and node.lineno == node.end_lineno:
            kept = [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords if k.arg not in made_up]
            line = lines[node.lineno - 1]
            text = f"{protocol.name}({', '.join(kept)})".encode()
            lines[node.lineno - 1] = line[: node.col_offset] + text + line[node.end_col_offset :]
            notes.append(
                f"line {node.lineno}: left out {', '.join(sorted(made_up))}: {protocol.name} found nothing with it"
            )
    return b"\n".join(lines).decode(), tuple(notes)


def without_idle_refusals(
    source: str, calls: Sequence[Call], protocols: Mapping[str, Protocol]
) -> tuple[str, tuple[str, ...]]:
    """Return the program without reading calls that failed before and stand for themselves, and a note for each."""
    failed = {(c.tool, canonical(c.arguments)) for c in calls if not c.succeeded and c.effect is Effect.READ}
    try:
        tree = parse(source) if failed else None
    except NotParsed:
        tree = None
    idle = {node.value for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.Expr)}
    notes: list[str] = []
    lines = [line.encode() for line in source.split("\n")]
    for node in _calls_last_first(tree, protocols):
        protocol, given = protocols[node.func.id], _literals(node)  # type: ignore[attr-defined]
        known = given is not None and (protocol.name, canonical(original_arguments(protocol, given))) in failed
        if known and node in idle and protocol.effect is Effect.READ and node.lineno == node.end_lineno:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + b"pass" + line[node.end_col_offset :]
            notes.append(f"line {node.lineno}: left out {protocol.name}, which failed before and nothing uses")
    return b"\n".join(lines).decode(), tuple(notes)


def _calls_last_first(tree: ast.Module | None, protocols: Mapping[str, Protocol]) -> list[ast.Call]:
    """The calls of tools with keyword arguments only, from the end, so that edits do not move what is before them."""
    found = [
        n for n in (ast.walk(tree) if tree else ())
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in protocols and not n.args
    ]  # fmt: skip
    return sorted(found, key=lambda n: (n.lineno, n.col_offset), reverse=True)


def _literals(node: ast.Call) -> dict[str, Any] | None:
    """All arguments, if all are literals."""
    try:
        return {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg is not None}
    except (ValueError, TypeError, SyntaxError):
        return None

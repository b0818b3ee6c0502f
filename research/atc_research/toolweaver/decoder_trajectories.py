"""Trajectories that a decoder is taught in stage 2: stored runs, or conversations as chats (ToolWeaver §3.3).

A conversation is a line of JSON: ``{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content":
"…", "tool_calls": [{"function": {"name": "TOOL", "arguments": "{…}"}}]}, {"role": "tool", "content": "…"}, …]}``. A
tool's name is its id in the index. Files of ``atc tools learn trajectories`` are such conversations, without calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from atc import UsageError
from atc.plugins.learning import StoredRun
from atc_research.toolweaver.code_tokens import Role, Turn

MAX_REPLY = 1_500
"""Characters of what a tool replied that are read."""
MAX_LINE = 4_000_000
"""Characters of one line of a file."""


def read_trajectories(path: Path) -> Iterator[list[Turn]]:
    """The conversations of a JSON Lines file.

    Raises:
        UsageError: it cannot be read, or a line is no conversation; the line is named.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if line.strip():
                    yield _conversation(line, f"{path}, line {number}")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def turns_of(run: StoredRun) -> list[Turn]:
    """The last task of a stored run as the paper has it: task, plan, one call and one reply after another, answer.

    What counts is the program that answered: its calls that were made, in their order. None where there was no answer.

    Raises:
        UsageError: a newer version of ATC wrote the trace.
    """
    task, plan, answer = "", "", ""
    calls: list[Mapping[str, Any]] = []
    for event in run.latest():
        data = event["data"]
        match event["kind"]:
            case "run_started":
                task = _text(data.get("task"))
            case "tools_chosen":
                plan = plan or _text(data.get("plan"))
            case "call_ended" if data.get("status") in ("ok", "replayed"):
                calls.append(data)
            case "run_ended" if data.get("status") == "answered":
                answer = _text(data.get("answer"))
    if not (task and answer and calls):
        return []
    made = [call for call in calls if call.get("attempt") == calls[-1].get("attempt")]
    turns = [Turn("user", task)]
    for at, call in enumerate(made):
        arguments = call.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        turns.append(Turn("assistant", plan if not at else "", _text(call.get("tool")), given))
        turns.append(Turn("tool", json.dumps(call.get("value"), ensure_ascii=False)[:MAX_REPLY]))
    return [*turns, Turn("assistant", answer)]


def _conversation(line: bytes, where: str) -> list[Turn]:
    if len(line) > MAX_LINE:
        raise UsageError(f"{where} has more than {MAX_LINE:,} characters: is it JSON Lines?")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: no JSON ({error})") from None
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: no conversation: give an object with `messages`, a list")
    return [turn for message in messages for turn in _turns(message, where)]


def _turns(message: object, where: str) -> Iterator[Turn]:
    if not isinstance(message, dict) or message.get("role") not in get_args(Role):
        raise UsageError(f"{where}: a message has a `role`: {', '.join(get_args(Role))}")
    role: Role = message["role"]
    text = _text(message.get("content"))
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or (calls and role != "assistant"):
        raise UsageError(f"{where}: `tool_calls` is a list, in a message of the assistant")
    if not calls:
        yield Turn(role, text[:MAX_REPLY] if role == "tool" else text)
    for at, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        name, arguments = _call(function if isinstance(function, dict) else {}, where)
        yield Turn("assistant", text if not at else "", name, arguments)


def _call(function: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    name, given = function.get("name"), function.get("arguments", {})
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise UsageError(f"{where}: a call has a `function` with a `name` and `arguments`, an object or its JSON")
    return name, arguments


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

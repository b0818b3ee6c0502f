"""The messages between a caller and the sandbox service over a run's WebSocket: each is one JSON text.

``run``, then ``call`` and ``reply`` as on the channel of a process, then one ``outcome``; ``refused`` where the service
will not go on. ``pause`` and ``resume`` stop the program's wall clock and let it go on: its caller waits for a person.
Both ends parse to the letter and believe nothing beyond its form.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Container
from typing import Any, get_args

from atc._records.outcome import Outcome, OutcomeKind, ProgramError
from atc._records.packing import pack
from atc._records.strict_json import parse
from atc.calls.contract import CallReply, CallRequest
from atc.calls.program_start import MOST_PASSED_S, ProgramStart
from atc.errors import FrameError, UsageError
from atc.sandboxes import inputs
from atc.sandboxes.channel.session import value_of
from atc.sandboxes.contract import TIERS, Job, Limits, least

PROTOCOL = 7
"""2: bytes are tagged in values (:mod:`atc._records.packing`). 3: ``inputs`` of a program, ``pause`` and ``resume``.
4: ``dry_run`` of a program, ``planned`` of a reply, and ``unknown`` of a call. 5: ``done`` of a reply. 6: ``start``
of a program, ``passed`` of a reply, and ``forms`` of a call. 7: ``hoisted`` of a program, and
``outer`` of a call."""
MESSAGE_BYTES = 16 << 20
"""The largest message that a service takes: a program with its tools, or a tool's answer."""
MAX_TOOLS = 2_000
MAX_HOISTED = 10_000
MAX_NAME = 200
_KINDS = get_args(OutcomeKind)
_FRACTIONS = ("wall_s", "host_s")


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as UTF-8 JSON; half a surrogate pair becomes ``?``. Raises ValueError for NaN and infinity."""
    text = json.dumps(message, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def decode(text: str) -> dict[str, Any]:
    """Parse one message.

    Raises:
        FrameError: it is not exactly one JSON object to the letter.
    """
    try:
        message = parse(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the message is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(message, dict):
        raise FrameError("the message is not a JSON object")
    return message


def acceptable(body: bytes) -> str:
    """Return why the other end would not take ``body``; empty if it would."""
    try:
        parse(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return str(error)[:200] or type(error).__name__
    return ""


def most_bytes(limits: Limits) -> int:
    """Return the largest message that a service sends about a program: its answer and what it printed, written out."""
    return 2 * limits.frame_bytes + 12 * limits.output_bytes + 65_536


# -- from the caller -------------------------------------------------------------------------------------------------


def job_of(message: dict[str, Any], most: Limits) -> Job:
    """Return the job that a ``run`` message asks for, held to ``most``.

    Raises:
        FrameError: it is no such message. The error never quotes the program.
    """
    if message.get("op") != "run":
        raise FrameError("the first message must be `run`")
    program, tools = message.get("program"), message.get("tools", {})
    if not isinstance(program, str):
        raise FrameError("`program` must be text")
    if not isinstance(tools, dict) or len(tools) > MAX_TOOLS:
        raise FrameError(f"`tools` must be an object of at most {MAX_TOOLS:,} names")
    for name, parameters in tools.items():
        if len(name) > MAX_NAME or not name.isidentifier() or not _names(parameters):
            raise FrameError("`tools` must give a list of parameter names for each tool's name")
    limits = _limits_of(message.get("limits", {}), most)
    dry_run = message.get("dry_run", False)
    if type(dry_run) is not bool:
        raise FrameError("`dry_run` must be true or false")
    hoisted = message.get("hoisted", 0)
    if type(hoisted) is not int or not 0 <= hoisted <= MAX_HOISTED:
        raise FrameError(f"`hoisted` must be a whole number, at most {MAX_HOISTED:,}")
    given = _inputs_of(message.get("inputs", {}), tools, limits)
    start = _start_of(message.get("start"))
    return Job(program, tools, limits, given, dry_run=dry_run, start=start, hoisted=hoisted)


def pause_message(stopped: bool) -> dict[str, Any]:
    """Return the message that stops the program's clock, or lets it go on."""
    return {"op": "pause" if stopped else "resume"}


def pause_of(message: dict[str, Any]) -> bool | None:
    """Return whether the program's clock is to stand still from now on; ``None`` if the message is about another."""
    match message:
        case {"op": "pause", **rest} if not rest:
            return True
        case {"op": "resume", **rest} if not rest:
            return False
    return None


def reply_of(message: dict[str, Any]) -> tuple[int, CallReply]:
    """Return the call number and the answer of a ``reply`` message.

    Raises:
        FrameError: it is no such message.
    """
    number = message.get("id")
    if message.get("op") != "reply" or type(number) is not int or ("value" in message) == ("error" in message):
        raise FrameError("after `run` only pauses and replies are taken; a reply has an `id`, and `value` or `error`")
    passed_s = message.get("passed")
    if passed_s is not None and (type(passed_s) not in (int, float) or not 0 <= passed_s < MOST_PASSED_S):
        raise FrameError("`passed` must be a number of seconds")
    if "value" in message:
        planned = message.get("planned") is True
        return number, CallReply(value=value_of(message["value"]), planned=planned, passed_s=passed_s)
    error = message["error"]
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise FrameError("the `error` of a reply must be an object with a `message`")
    status = error.get("status")
    if status is not None and type(status) not in (int, str):
        raise FrameError("the `status` of an error must be a whole number, text or null")
    done = message.get("done") is True
    return number, CallReply(error=error["message"], status=status, done=done, passed_s=passed_s)


def _start_of(raw: Any) -> ProgramStart | None:
    if raw is None:
        return None
    try:
        return ProgramStart(**raw)
    except (TypeError, ValueError):
        raise FrameError("`start` must have a time, `at`, and a `seed`") from None


def _inputs_of(raw: Any, tools: Container[str], limits: Limits) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise FrameError("`inputs` must be an object")
    try:
        inputs.check_names(raw, tools)
        made = {name: value_of(value) for name, value in raw.items()}
        inputs.packed(made, frame_bytes=limits.frame_bytes, channel_bytes=limits.channel_bytes)
    except UsageError as error:
        raise FrameError(str(error)) from None
    return made


def _names(raw: Any) -> bool:
    return (
        isinstance(raw, list)
        and len(raw) <= MAX_TOOLS
        and all(isinstance(name, str) and len(name) <= MAX_NAME for name in raw)
    )


def _limits_of(raw: Any, most: Limits) -> Limits:
    if not isinstance(raw, dict):
        raise FrameError("`limits` must be an object")
    known = {item.name: item.type for item in dataclasses.fields(Limits)}
    if unknown := [name for name in raw if name not in known]:
        raise FrameError(f"there is no limit {unknown[0][:40]!r}: the limits are {', '.join(known)}")
    for name, value in raw.items():
        if type(value) is not int and not (name in _FRACTIONS and type(value) is float):
            raise FrameError(f"the limit {name} must be a {'' if name in _FRACTIONS else 'whole '}number")
    try:
        return least(dataclasses.replace(most, **raw), most)
    except UsageError as error:
        raise FrameError(str(error)) from None


# -- from the service ------------------------------------------------------------------------------------------------


def call_message(request: CallRequest) -> dict[str, Any]:
    """Return the message that asks the caller for a tool call."""
    arguments = {name: pack(value) for name, value in request.arguments.items()}
    made = {"op": "call", "id": request.number, "tool": request.tool, "args": arguments, "line": request.line}
    forms = {"forms": pack(dict(request.forms))} if request.forms is not None else {}
    made |= {"outer": request.outer} if request.outer else {}
    return made | {"unknown": dict(request.unknown)} | forms if request.unknown else made


def refusal_message(code: str, why: str, *, handed_over: bool) -> dict[str, Any]:
    """Return the message that ends a run without an outcome.

    Args:
        code: one word for programs.
        why: what is wrong and what to do.
        handed_over: whether the program may have run.
    """
    return {"op": "refused", "code": code, "message": why, "handed_over": handed_over}


def outcome_message(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome; its error has the form in which a sandbox reports one."""
    fields = {item.name: getattr(outcome, item.name) for item in dataclasses.fields(outcome)}
    return {"op": "outcome", **fields, "value": pack(outcome.value), "error": _error_out(outcome.error)}


def _error_out(error: ProgramError | None) -> dict[str, Any] | None:
    return None if error is None else dataclasses.asdict(error)


def outcome_of(message: dict[str, Any]) -> Outcome:
    """Return the outcome in a message, its ``value`` and ``error`` apart: a program's claim, read elsewhere.

    Raises:
        FrameError: it is no outcome.
    """
    kind, isolation = message.get("kind"), message.get("isolation")
    texts = {name: message.get(name) for name in ("detail", "stdout", "stderr")}
    numbers = {name: message.get(name) for name in ("seconds", "cpu_s")}
    memory = message.get("memory_bytes")
    if (
        kind not in _KINDS
        or isolation not in TIERS
        or not all(isinstance(text, str) for text in texts.values())
        or not all(type(number) in (int, float) and 0 <= number < math.inf for number in numbers.values())  # type: ignore[operator]
        or type(memory) is not int
        or memory < 0
    ):
        raise FrameError("the service sent an outcome of the wrong form")
    return Outcome(kind, **texts, **numbers, memory_bytes=memory, isolation=isolation)  # type: ignore[arg-type]

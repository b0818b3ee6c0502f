"""What calls did, for the model that says an answer, and for the user of a run that ended without one."""

from __future__ import annotations

from collections.abc import Sequence

from atc.facts import Invocation
from atc.wording.parts import call

MAX_CALLS = 20
"""Calls of one kind that :func:`effects` names."""

NO_VALUE = "done, as the calls above say; they returned no value"
"""The answer of a program whose calls with effects returned nothing."""

DONE = "done; no value was returned"
"""The same, where the calls are not shown."""

_OUTCOMES = {
    "ok": "returned",
    "replayed": "returned",
    "failed": "failed:",
    "refused": "was refused:",
    "in_doubt": "may or may not have been done:",
}


def outcome(status: str, made: str, result: str) -> str:
    """A call and what came of it.

    Args:
        status: of the call (:data:`atc.result.CallStatus`).
        made: the call as a program writes it.
        result: its value, or what went wrong.
    """
    return f"{made} {_OUTCOMES.get(status, f'{status}:')} {result}".rstrip(" :")


def more_calls(count: int) -> str:
    """Calls that are not shown."""
    return f"- and {count:,} more"


def effects(done: Sequence[Invocation], not_done: Sequence[Invocation], *, in_doubt: bool = False) -> list[str]:
    """What a run that ended without an answer has changed, and what it has not: a line for each call with effects.

    Nothing where it changed nothing and its fault says the one call that was not made. That of a run that ended
    ``in_doubt`` says another one.
    """
    if not done and len(not_done) < (1 if in_doubt else 2):
        return []
    return [
        line
        for what, calls in (("done", done), ("not done", not_done))
        for line in [
            *(f"{what}: {call(each)}" for each in calls[:MAX_CALLS]),
            *([f"{what}: {len(calls) - MAX_CALLS:,} more calls"] if len(calls) > MAX_CALLS else []),
        ]
    ]


def no_credential(scheme: str, variable: str, tools: Sequence[str] = ()) -> str:
    """That a credential is missing which a document asks for, and how to give it.

    Args:
        scheme: the name of the document's security scheme.
        variable: of the environment, which may hold it; empty where the scheme is not supported.
        tools: that need it, where that is to be said.
    """
    if not variable:
        return f"the security scheme {scheme!r} is not supported: pass headers= to the import"
    way = f"pass auth={{{scheme!r}: …}} to the import (`atc run --openapi auth.{scheme}=…`), or set {variable}"
    if not tools:
        return f"no credential is set for {scheme!r}: {way}"
    named = ", ".join(tools[:3]) + (f" and {len(tools) - 3:,} more" if len(tools) > 3 else "")
    return f"no credential is set for {scheme!r}, which {named} {'needs' if len(tools) == 1 else 'need'}: {way}"


def other_address(named: str, found: str) -> str:
    """That a document names another address than the one where it was found, and how to call the latter."""
    way = f"to call that one, pass base_url={found!r} (`atc run --openapi service_url={found}`)"
    return f"calls go to {named}, which the document names, and not to {found}, where it was read: {way}"

"""What calls did, for the model that says an answer."""

from __future__ import annotations

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

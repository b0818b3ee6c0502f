"""The earlier place of :mod:`atc.sandboxes.contract`, and of what calls and outcomes are."""

from __future__ import annotations

from atc.execution import moved

__getattr__ = moved(
    __name__,
    {
        "CallReply": "atc.calls.contract",
        "CallRequest": "atc.calls.contract",
        "Job": "atc.sandboxes.contract",
        "Limits": "atc.sandboxes.contract",
        "Outcome": "atc.outcome",
        "ProgramError": "atc.outcome",
        "Sandbox": "atc.sandboxes.contract",
    },
)

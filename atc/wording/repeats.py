"""That a write may do again what was done: in a question, in a refusal, and as a note on the call."""

from __future__ import annotations

from atc.facts import SameCall


def same_call(same: SameCall) -> str:
    """That a call of the run did the same: ``the same as call 7``."""
    of = "" if same.own else f" ({same.tool})"
    return f"the same as call {same.number}{of}{', which may not have been done' if same.in_doubt else ''}"


def repeat(run: str, in_doubt: bool, same: SameCall | None) -> str:
    """What a write would repeat.

    Args:
        run: that did, or may have done, the same; empty where a call of this one did.
        in_doubt: nobody knows whether that run did it.
        same: the call of this run.
    """
    if run or same is None:
        return f"run {run} {'may have done' if in_doubt else 'did'} the same"
    if same.was_read:
        return f"call {same.number} ({same.tool}) may have done the same: its tool was said to read only"
    did = "may have done" if same.in_doubt else "did"
    return f"call {same.number} ({same.tool}) {did} the same, perhaps by this tool under another name"

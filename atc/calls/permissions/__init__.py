"""Permissions say what may be called unasked, by whom, and how often: the user's rules, decisions, and their record.

The room imports no server: a caller is a principal, which was proved, and a name, which is only claimed. A claimed
name can restrict and never widens: rules that allow have no place for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc.calls.permissions.facts import Caller, Caps, Decision, Rule, Who
    from atc.calls.permissions.permissions import Permissions

__all__ = ["Caller", "Caps", "Decision", "Permissions", "Rule", "Who"]


def __getattr__(name: str) -> Any:
    """Return a name of the room, imported at its first use: an agent without rules loads none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from atc.calls.permissions import facts, permissions

    return getattr(permissions if name == "Permissions" else facts, name)

"""Permissions of an agent: in front of its choice over calls with effects (``ask``, ``never``, ``always``, a function).

A rule that denies denies whatever the choice is, and one that asks has a person asked. One that allows has a call made
also where nobody can be asked; but an explicit ``never`` stays a no. What no rule speaks of is the choice's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import platformdirs

from atc._host.redaction import Redactor
from atc.calls import approval as approvals
from atc.calls import question
from atc.calls.approval import Approval, ApprovalRequest, Approve, Refusal, Verdicts
from atc.errors import UsageError
from atc.result import Effect
from atc.settings import Settings
from atc.tools.functions import toolset_of
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:  # an agent without rules loads nothing of them
    from atc.calls.permissions.facts import Decision
    from atc.calls.permissions.permissions import Permissions

FILE = "permissions.toml"
"""The file's name in the user's configuration folder: it counts where no other is named."""


def permissions_of(
    given: Permissions | None, settings: Settings, approve: Approve | Approval | None = None
) -> Permissions | None:
    """Return the permissions of an agent; ``None`` where nobody said anything.

    Args:
        given: to the agent; those of the settings when not.
        settings: that name a file, or read-only mode.
        approve: of the agent. A whole rule with a policy has its own permissions, of its own caller.

    Raises:
        UsageError: there is no such file; or ``approve`` is a whole rule without a policy, which would go unheeded.
        SettingsError: something in it is not understood.
    """
    if isinstance(approve, Approval) and approve.policy is not None:
        return None
    found = permissions_named(settings) if given is None else given
    if found is not None and isinstance(approve, Approval):
        raise UsageError("permissions stand beside a choice of `approve`; a whole rule gets them by `Guard.approval`")
    return found.reading_only() if found is not None and settings.read_only else found


def permissions_named(settings: Settings) -> Permissions | None:
    """Return those of the file that the settings name, or the user's own, or of read-only mode; ``None`` without any.

    Raises:
        UsageError: there is no such file.
        SettingsError: something in it is not understood.
    """
    path = settings.permissions or (user_path() if user_path().exists() else None)
    if path is None and not settings.read_only:
        return None
    from atc.calls.permissions.permissions import Permissions

    if path is not None:
        return Permissions.load(path, read_only=settings.read_only)
    return Permissions(read_only=True)


def user_path() -> Path:
    """Return where a file counts without being named, in the user's configuration folder."""
    return platformdirs.user_config_path("atc") / FILE


Tools = Toolset | Iterable[Tool | Callable[..., Any]]


def held_to(permissions: Permissions | None, settings: Settings, tools: Tools | None) -> tuple[Settings, Tools | None]:
    """Return what the permissions leave of an agent's settings (the caps), and of its tools: what it may call at all.

    Raises:
        UsageError: no tool is left.
    """
    if permissions is None:
        return settings, tools
    from atc.calls.permissions.facts import Who

    caps = permissions.caps(Who()).settings(settings.max_calls, settings.wall_s)
    changed = {name: value for name, value in caps.items() if value != getattr(settings, name)}
    settings = settings.model_copy(update=changed) if changed else settings
    if tools is None:
        return settings, None
    made = toolset_of(tools)
    left = permissions.offered(Who(), made)
    if made and not left:
        where = permissions.path or "read-only mode"
        raise UsageError(f"{where} leaves none of the {len(made)} tools: `atc permissions check` shows what decides")
    return settings, left


def approval_of(permissions: Permissions | None, approve: Approve | Approval | None, settings: Settings) -> Approval:
    """Return the rule for an agent's calls.

    Raises:
        UsageError: ``approve`` is neither one of the words nor a function.
    """
    chosen = approvals.approval_of(approve, settings.approve, settings.warnings)
    if permissions is None:
        return chosen
    from atc.calls.permissions.audit import AuditLog
    from atc.calls.permissions.facts import Who
    from atc.calls.permissions.guard import Guard

    choice = _Chosen(chosen, explicit=approve is not None or settings.approve is not None)
    audit = AuditLog(settings.audit, Redactor(settings.secrets))
    guard = Guard(permissions, Who(), choice.ask, audit, choice=choice.unasked)
    return replace(chosen, policy=guard)


@dataclass(frozen=True)
class _Chosen:
    """An agent's choice, where the permissions leave something open (:data:`atc.calls.permissions.guard.Choice`).

    Attributes:
        approval: the choice.
        explicit: somebody made it; else it is the default.
    """

    approval: Approval
    explicit: bool

    def unasked(self, request: ApprovalRequest, decision: Decision) -> Literal[True] | Refusal | None:
        choice = self.approval.approve
        warned = bool(request.warnings) and self.approval.warnings == "ask"
        ordinary = not (warned or request.instead_of or request.is_repeat or request.of_session or decision.suspect)
        if choice == "never" and self.explicit and decision.effect is not Effect.READ:
            return Refusal("calls with effects are not approved in this run", by_user=True)
        if decision.verdict == "allow" and ordinary:
            return True
        if request.decided is not None or decision.waits:
            return None
        if choice == "always" and decision.rule is None and ordinary:
            return True
        if callable(choice) or choice in ("ask", "park") or (choice == "always" and question.has_terminal()):
            return None
        if choice == "always" and decision.rule is None and not decision.suspect:
            from atc.calls.permissions.permissions import oddity

            alone = warned and not (request.instead_of or request.is_repeat)
            return Refusal(oddity(request), "warned" if alone else "denied", by_user=True)
        return _nobody(request)

    async def ask(self, request: ApprovalRequest) -> Verdicts:
        """Ask as the choice says."""
        choice = self.approval.approve
        if choice == "park":  # writes wait before they come here
            return Refusal("it needs approval, and a read does not wait for one")
        answer = choice(request) if callable(choice) else approvals.ask_at_terminal(request)
        said = await answer if inspect.isawaitable(answer) else answer
        return _nobody(request) if said is approvals.NOBODY and request.of_strangers else said


def _nobody(request: ApprovalRequest) -> Refusal:
    told = "nobody could be asked to approve this call"
    if not request.of_strangers:
        return Refusal(told)
    from atc.wording.origins import ONE_YES

    return Refusal(f"{told} ({ONE_YES})")

"""Which tools clients may know of, and who decides over the calls of their programs: the permissions, then the person.

One set of permissions, one audit log, and a count for every principal, for all connections of a server.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal

from atc._host.redaction import Redactor
from atc.calls.approval import ApprovalRequest, Refusal
from atc.calls.permissions import Caller, Permissions
from atc.calls.permissions.agent_permissions import permissions_named
from atc.calls.permissions.audit import AuditLog
from atc.calls.permissions.facts import Decision
from atc.calls.permissions.guard import Ask, Choice, Guard, Limiter, always_asks
from atc.calls.sending import check_schemas
from atc.errors import AtcError, UsageError
from atc.result import Effect
from atc.schemas.names import RESERVED_NAMES
from atc.serve.mcp.reports import one_line
from atc.settings import Settings
from atc.tools.tool import Toolset

MAX_KEPT = 100
"""Principals, each with the rules that its clients' names fit, whose visible tools are kept. Names themselves are
claims, so there is no end of them."""


def parks_no_repeat(request: ApprovalRequest, decision: Decision) -> Literal[True] | Refusal | None:
    """Return a no to what another run did, or waits for approval to do, else what always holds: what waits is not shown
    with that, so an approval could never hold."""
    if request.repeats and decision.effect is not Effect.READ:
        what = "that run" if request.waits else f"what run {request.repeats} did"
        return Refusal(f"nobody could be asked about that. To go on with {what}, give it as `run`")
    return always_asks(request, decision)


class Guards:
    """The guards of a server.

    Args:
        permissions: of the user; those that the settings name when not given, else the default.
        settings: name the audit log; in read-only mode, no permissions allow a write.

    Raises:
        UsageError: there is no such file.
        SettingsError: something in it is not understood.
    """

    def __init__(self, permissions: Permissions | None, settings: Settings) -> None:
        found = permissions or permissions_named(settings) or Permissions()
        self.permissions = found.reading_only() if settings.read_only else found
        self.audit = AuditLog(settings.audit, Redactor(settings.secrets))
        self._limiters: dict[str, Limiter] = {}
        self._visible: dict[tuple[str, frozenset[int]], tuple[Toolset, Toolset]] = {}

    def graded(self, tools: Toolset) -> Toolset:
        """The tools that some client may see, each with the effect that it is taken for.

        What a server says of the effects of its tools is a claim, and journal, retries and approval go by the effect.
        """
        return self.permissions.served(tools)

    def visible(self, client: Caller, tools: Toolset) -> Toolset:
        """Those of the tools that a client may know of; the same set where it may know of all.

        It is asked with every request: what was found for a client is kept while the tools are the same.
        """
        if not self.permissions.hides_from(client):
            return tools
        key = client.principal, self.permissions.named_by(client)
        known = self._visible.pop(key, None)
        if known is None or known[0] is not tools:
            seen = [tool for tool in tools.values() if self.permissions.sees(client, tool.protocol)]
            known = tools, tools if len(seen) == len(tools) else Toolset(seen)
        self._visible[key] = known
        while len(self._visible) > MAX_KEPT:
            del self._visible[next(iter(self._visible))]
        return known[1]

    def guard(self, client: Caller, ask: Ask, *, parks: bool = False) -> Guard:
        """Decides over a client's calls; :meth:`Guard.approval` is the rule for an agent.

        Args:
            ask: asks the person behind the client. It answers with a refusal where nobody could be asked, and the line
                that would allow the call is put behind that; ``Refusal(by_user=True)``, or ``False``, is the person's
                no.
            parks: what needs approval waits for it.
        """
        choice: Choice = parks_no_repeat if parks else always_asks
        limiter = self._limiters.setdefault(client.principal, Limiter())
        return Guard(self.permissions, client, ask, self.audit, limiter=limiter, choice=choice)

    def limits(self, client: Caller, settings: Settings) -> dict[str, Any]:
        """The settings of an agent that runs a client's programs: as ``settings``, or less by the client's caps."""
        return self.permissions.caps(client).settings(settings.max_calls, settings.wall_s)

    def run(self, client: Caller) -> AbstractContextManager[None]:
        """Hold one of the runs that a client may have at once.

        Raises:
            UsageError: it has as many already.
        """
        return self._limiters.setdefault(client.principal, Limiter()).run(self.permissions.caps(client))


def usable_tools(tools: Toolset, few: int) -> tuple[Toolset, list[str]]:
    """Those of some tools that programs can call, and for each that is left out a line of why.

    Args:
        tools: all of them.
        few: so many at most have their schemas checked at once; of more, each is checked when a program names it.
    """
    usable, notices = [], []
    for tool in tools.values():
        try:
            if tool.name in RESERVED_NAMES:
                raise UsageError(f"{tool.name!r} means something else in a program")
            if len(tools) <= few:
                check_schemas(Toolset([tool]))
        except AtcError as error:
            notices.append(one_line(f"the tool {tool.name} is left out: {error}", 300))
        else:
            usable.append(tool)
    return (tools if len(usable) == len(tools) else Toolset(usable)), notices

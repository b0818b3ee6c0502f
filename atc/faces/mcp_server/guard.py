"""Who decides over the calls of clients' programs: the permissions, then the person behind the client.

One set of permissions, one audit log, and a count for every principal, for all connections of a server.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from atc.calls.redact import Redactor
from atc.permissions import Caller, Permissions
from atc.permissions.audit import AuditLog
from atc.permissions.guard import Ask, Guard
from atc.permissions.limiter import Limiters
from atc.permissions.of_agent import permissions_named
from atc.settings import Settings
from atc.tools.tool import Toolset

__all__ = ["Ask", "Guard", "Guards"]


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
        found = permissions or permissions_named(settings) or Permissions.default()
        self.permissions = found.reading_only() if settings.read_only else found
        self.audit = AuditLog(settings.audit, Redactor(settings.secrets))
        self._limiters = Limiters()

    def graded(self, tools: Toolset) -> Toolset:
        """All tools, each with the effect that it is taken for: what a server says of itself is a claim."""
        return self.permissions.graded(tools)

    def visible(self, client: Caller, tools: Toolset) -> Toolset:
        """The tools that a client may know of."""
        if not self.permissions.hides_any:
            return tools
        return Toolset(tool for tool in tools.values() if self.permissions.sees(client, tool.protocol))

    def guard(self, client: Caller, ask: Ask) -> Guard:
        """Decides over a client's calls; :meth:`Guard.approval` is the rule for an agent.

        Args:
            client: who calls.
            ask: asks the person behind it. It answers with a refusal where nobody could be asked, and the line that
                would allow the call is put behind that; ``Refusal(by_user=True)``, or ``False``, is the person's no.
        """
        return Guard(self.permissions, client, ask, self.audit, limiter=self._limiters.of(client.principal))

    def limits(self, client: Caller, settings: Settings) -> dict[str, Any]:
        """The settings of an agent that runs a client's programs: as ``settings``, or less by the client's caps."""
        return self.permissions.caps(client).settings(settings.max_calls, settings.wall_s)

    def run(self, client: Caller) -> AbstractContextManager[None]:
        """Hold one of the runs that a client may have at once.

        Raises:
            UsageError: it has as many already.
        """
        return self._limiters.of(client.principal).run(self.permissions.caps(client))

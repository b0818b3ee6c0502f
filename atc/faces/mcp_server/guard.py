"""Who decides over the calls of a client's program: the permissions, then the person behind the client.

``Guard(permissions, client, ask, audit, run=…, limiter=…)``: ``asker`` is an :data:`atc.calls.approval.Asker`, and
``approval(earlier)`` the whole rule for an agent. ``ask`` answers with a :class:`atc.calls.approval.Refusal` where
nobody could be asked: the line that would allow the call is put behind it here.
"""

from atc.permissions.guard import Ask, Guard
from atc.permissions.limiter import Limiter, Limiters

__all__ = ["Ask", "Guard", "Limiter", "Limiters"]

"""What tools that write do to a thing, as far as their names say: what makes it, and what takes it back."""

from __future__ import annotations

from collections.abc import Mapping

from atc.graph.identifiers import words_of
from atc.result import Effect
from atc.tools.protocol import Protocol
from atc.tools.telltales import READS, telltale


def may_write(protocol: Protocol) -> bool:
    """Whether a call changes something: the tool is known to write, or nothing is known and its name says so."""
    if protocol.effect is Effect.UNKNOWN:
        return bool(telltale(protocol.source.operation) or telltale(protocol.name))
    return protocol.effect is Effect.WRITE


def surely_reads(protocol: Protocol) -> bool:
    """Whether a call only reads: the tool is known to, or nothing is known and its name says so."""
    return protocol.effect is Effect.READ or (
        protocol.effect is Effect.UNKNOWN and not may_write(protocol) and not READS.isdisjoint(words_of(protocol.name))
    )


def writers(protocols: Mapping[str, Protocol]) -> frozenset[str]:
    """The keys of the tools of which a call changes something, as far as is known."""
    return frozenset(key for key, each in protocols.items() if may_write(each))


def acts_otherwise(one: str, other: str) -> bool:
    """Whether the names of two tools that write say different acts, as ``confirm_order`` and ``cancel_order`` do.

    What they take and give may be the same to the last field. A name without an act that is known says nothing.
    """
    first, second = _acts(one, other)
    return bool(first and second) and not first & second


def undoes(one: str, other: str) -> bool:
    """Whether one of two tools takes back what the other does, as far as their names say."""
    first, second = ({_ACTS[act] for act in acts} for acts in _acts(one, other))
    return bool(first and second) and not first & second


def _acts(one: str, other: str) -> tuple[set[str], set[str]]:
    """The acts in which the names of two tools differ: the ``order`` of both says nothing."""
    words = set(words_of(one)), set(words_of(other))
    alone = words[0] - words[1], words[1] - words[0]
    first, second = ({_ACT_OF[word] for word in some if word in _ACT_OF} for some in alone)
    return first, second


_ACTS = {
    "create add book reserve make open place new order insert register buy purchase schedule start begin activate "
    "enable resume restore undelete": True,
    "update edit change modify set adjust patch replace": True,
    "move rename transfer": True,
    "confirm approve accept allow grant": True,
    "pay charge debit": True,
    "send post publish share submit notify": True,
    "lock block ban freeze mute": True,
    "subscribe follow join": True,
    "increase raise increment": True,
    "delete remove cancel drop close stop end terminate unregister destroy clear deactivate disable unschedule suspend "
    "pause revoke abort withdraw archive hide": False,
    "reject decline deny refuse": False,
    "refund reimburse": False,
    "recall unpublish retract unsend unshare": False,
    "unlock unblock unban unfreeze unmute": False,
    "unsubscribe unfollow leave": False,
    "decrease lower decrement reduce": False,
}
"""Acts, as words of names of tools that write, and whether they do a thing or take it back."""
_ACT_OF = {word: act for act in _ACTS for word in act.split()}

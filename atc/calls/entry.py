"""One call in a journal, and the key by which two calls are the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from atc.calls.canonical import canonical
from atc.packing import unpack
from atc.result import Effect
from atc.tools.tool import NextPage

CallKey = tuple[str, str]
"""A tool's name and the digest of its canonical arguments."""
RepairedFor = Literal["", "gate", "service"]
"""Who had refused arguments that the model repaired: the schema gate, or the service."""


def call_key(tool: str, arguments: dict[str, Any]) -> CallKey:
    """Return the key of a call: two calls with one key are the same call.

    Raises:
        ValueError: the arguments have no canonical form.
    """
    return tool, hashlib.sha256(canonical(arguments).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Unread:
    """Why the response of a call that was done cannot be had: in words, and as a status."""

    message: str
    status: str


@dataclass
class Entry:
    """One call that was begun. ``state`` is ``open`` until its outcome is written.

    ``arguments`` are for people to read, credentials masked; ``key`` is made from what was really sent.

    Attributes:
        stage: number of the stage that made it, from 0.
        sent: whether its tool may have received it. Until then it surely did nothing.
        original: the arguments as the program gave them, masked too, where a repair changed them.
        repaired_for: who had refused them, where the model repaired them; empty where it did not.
        unread: of a call that is done, why ``value`` is not its response.
    """

    number: int
    key: CallKey
    arguments: dict[str, Any]
    effect: Effect
    attempt: int
    stage: int = 0
    sent: bool = field(default=False, compare=False)
    state: Literal["open", "done", "refused", "unknown"] = "open"
    value: Any = None
    next_page: NextPage = None
    original: dict[str, Any] | None = None
    repaired_for: RepairedFor = ""
    unread: Unread | None = None

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.key[0]

    @property
    def observation(self) -> Any:
        """What a model is shown of a call that is done: its value, or why it has none."""
        return self.value if self.unread is None else self.unread.message

    @property
    def in_doubt(self) -> bool:
        """Whether the call has effects and its outcome is unknown."""
        return self.effect is not Effect.READ and (self.state == "unknown" or (self.state == "open" and self.sent))

    @classmethod
    def begun(cls, record: dict[str, Any]) -> tuple[Entry, str]:
        """The call of a record of its beginning, and the start of the machine that it names; empty if none.

        Raises:
            ValueError, KeyError, TypeError: the record is none.
        """
        number, key, boot = record["call"], (record["begin"], record["key"]), record.get("boot", "")
        attempt, stage = record["attempt"], record.get("stage", 0)
        entry = cls(number, key, unpack(record["args"]), Effect(record["effect"]), attempt, stage)
        well_formed = type(number) is int and type(attempt) is int and isinstance(entry.arguments, dict)
        if not well_formed or not all(isinstance(part, str) for part in (*key, boot)):
            raise ValueError("not the beginning of a new call")
        if "original" in record:  # a journal of an older version has none
            entry.original, entry.repaired_for = unpack(record["original"]), record.get("repaired_for", "")
            if not isinstance(entry.original, dict) or entry.repaired_for not in get_args(RepairedFor):
                raise ValueError("not the arguments as they were given")
        return entry, boot


def unread_of(raw: Any) -> Unread | None:
    """Why a record holds no response.

    Raises:
        ValueError: it does not say that.
    """
    if raw is None:
        return None
    if not isinstance(raw, list) or len(raw) != 2 or not all(isinstance(text, str) for text in raw):
        raise ValueError("not why a response cannot be had")
    return Unread(*raw)


def next_page_of(raw: Any) -> NextPage:
    """The next page that a record names.

    Raises:
        ValueError: it is none.
    """
    if raw is None or raw is False:
        return raw
    if not isinstance(raw, dict) or not all(isinstance(text, str) for text in raw.values()):
        raise ValueError("not the arguments of a next page")
    return raw

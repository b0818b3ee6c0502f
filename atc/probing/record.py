"""What is known of one tool so far: every statement from calls that were really made. It is kept between sessions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from atc.calls.json_values import canonical, holds_nothing
from atc.errors import TRANSIENT_STATUSES
from atc.probing.arguments import NOBODYS, NONSENSE, ArgumentEvidence
from atc.probing.call_policy import REFUSED_BY_US
from atc.probing.candidates import holds_keys
from atc.probing.error_messages import read_error_message
from atc.result import Call
from atc.schemas.infer.shape import Shape, mask
from atc.schemas.infer.text import MASKED

State = Literal["waiting", "documented", "partial", "undocumented", "skipped"]
"""``partial``: it answered, but never with anything in it; ``undocumented``: it never did; ``skipped``: not called."""

MAX_INSTANCES = 5
MAX_REFUSALS = 12
PASSING = frozenset({*map(str, TRANSIENT_STATUSES), "timeout", "unreachable", "broken"})
"""Failures that say nothing of the call: a later session makes it again."""
MAX_ERROR_TEXT = 600
"""Characters kept of what a service said."""


@dataclass(frozen=True)
class Instance:
    """One call of the tool that was answered with something, secrets masked: its arguments and the response r."""

    arguments: dict[str, Any]
    response: Any


@dataclass(frozen=True)
class Demonstration:
    """(q, C) of ATC §4.1: what a user would ask, and the program that answers it.

    Attributes:
        arguments: of the tool's own call in it, as its :class:`Instance` has them.
    """

    question: str
    program: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """One call that the tool refused.

    Attributes:
        arguments: of the call, secrets masked.
        status: as :attr:`atc.result.Call.error_status`.
        error: the error's text, with our label.
        own_words: what the service itself wrote; empty where ``error`` is nothing else.
    """

    arguments: dict[str, Any]
    status: int | str | None
    error: str
    own_words: str = ""

    @property
    def service_message(self) -> str:
        """What the service wrote, without our label before it."""
        return self.own_words or self.error

    @cached_property
    def in_doubt(self) -> set[str]:
        """The arguments whose values the service repeats in quotes, if it says of none that it is missing."""
        if any(detail.problem == "missing" for detail in read_error_message(self.service_message)):
            return set()
        return {name for name, value in self.arguments.items() if _quoted(value, self.error)}

    def to_json(self) -> dict[str, Any]:
        """The refusal as a record keeps it."""
        return {"arguments": self.arguments, "status": self.status, "said": self.error, "words": self.own_words}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Refusal:
        """The refusal that :meth:`to_json` wrote.

        Raises:
            KeyError: it is no refusal.
        """
        return cls(raw["arguments"], raw["status"], raw["said"], raw.get("words", ""))


@dataclass
class Record:
    """One tool.

    Attributes:
        reason: why it is not documented, with the last evidence.
        round: in which it was; ``helpers`` are the tools that it needed.
        tries: programs that were written for it.
        description: a sentence of the model's, where the tool came without one.
        demonstration: how the tool is used (:mod:`atc.probing.demonstrations`), if that is known.
    """

    name: str
    state: State = "waiting"
    reason: str = ""
    round: int = 0
    tries: int = 0
    helpers: tuple[str, ...] = ()
    description: str = ""
    shape: Shape = field(default_factory=Shape)
    arguments: ArgumentEvidence = field(default_factory=ArgumentEvidence)
    statuses: dict[str, int] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    demonstration: Demonstration | None = None
    refusals: list[Refusal] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    run: set[str] = field(default_factory=set)
    """Calls made by rules in this session, whether or not they reached the tool."""
    broke: str = ""
    """How the last program ended, if it did not end well. Not kept."""

    @property
    def answered(self) -> int:
        """Calls that were answered with something."""
        return self.shape.count

    @property
    def open(self) -> bool:
        """Whether the tool is still to be probed."""
        return self.state in ("waiting", "partial", "undocumented")

    def was_tried(self, arguments: dict[str, Any]) -> bool:
        """Whether these arguments were tried, in this session or an earlier one."""
        return key_of(arguments) in self.tried or key_of(arguments) in self.run

    def named_in_refusal(self, names: set[str]) -> list[str]:
        """Of these arguments, those that refusals name: the last one's first, in its order.

        A worse call that came later does not take away what an earlier refusal said.
        """
        found: dict[str, None] = {}
        for refusal in reversed(self.refusals):
            at = {name: match.start() for name in names if (match := _word(name).search(refusal.error))}
            found |= dict.fromkeys(sorted(at, key=lambda name: at[name]))
        return list(found)[:4]

    def refused_with(self, names: set[str]) -> bool:
        """Whether a call with just these arguments was refused."""
        return any(refusal.arguments.keys() == names for refusal in self.refusals)

    def refused_values(self, name: str) -> set[str]:
        """Values of an argument that a refusal quotes, in canonical form: the service does not know them.

        One that quotes those of several may mean any of them.
        """
        return {
            canonical(refusal.arguments[name])
            for refusal in self.refusals
            if name in refusal.arguments and refusal.in_doubt == {name}
        }

    def learn(self, call: Call) -> bool:
        """Take one call of this tool as evidence; return whether its response is new and not empty."""
        if call.status == "refused" or call.error_status in REFUSED_BY_US:
            return False  # it says nothing of the tool
        key = key_of(call.arguments)
        if key in self.tried:
            return False
        status = str(call.error_status or "error")
        if call.succeeded or status not in PASSING:
            self.tried.add(key)
        if not call.succeeded:
            error, own_words = (_safe_text(text or "", call.arguments) for text in (call.error, call.service_message))
            refusal = Refusal(mask(call.arguments), call.error_status, error, own_words)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            self.arguments.refused(call.arguments, refusal.service_message, call.error_status)
            self.refusals = [*self.refusals, refusal][-MAX_REFUSALS:]
            return False
        self.statuses["ok"] = self.statuses.get("ok", 0) + 1
        self.arguments.accepted(call.arguments)
        if call.error is not None:
            return False  # its response cannot be had
        self.shape.add(call.value)
        full = not holds_nothing(call.value, deep=True) or holds_keys(call.value)
        meant = all(value not in (NONSENSE, NOBODYS) for value in call.arguments.values())
        if full and meant and len(self.instances) < MAX_INSTANCES:
            self.instances.append(Instance(mask(call.arguments), mask(call.value)))
        return full

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON, for :meth:`from_json`."""
        return {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "round": self.round,
            "tries": self.tries,
            "helpers": list(self.helpers),
            "description": self.description,
            "shape": self.shape.to_json(),
            "arguments": self.arguments.to_json(),
            "statuses": self.statuses,
            "instances": [vars(instance) for instance in self.instances],
            "demonstration": vars(self.demonstration) if self.demonstration else None,
            "refusals": [refusal.to_json() for refusal in self.refusals],
            "tried": sorted(self.tried),
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Record:
        """The record that :meth:`to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is no record of this version.
        """
        fields = {name: raw[name] for name in ("name", "state", "reason", "round", "tries", "description", "statuses")}
        return cls(
            **fields,
            helpers=tuple(raw["helpers"]),
            shape=Shape.from_json(raw["shape"]),
            arguments=ArgumentEvidence.from_json(raw["arguments"]),
            instances=[Instance(each["arguments"], each["response"]) for each in raw["instances"]],
            demonstration=Demonstration(**shown) if (shown := raw.get("demonstration")) else None,
            refusals=[Refusal.from_json(refusal) for refusal in raw["refusals"]],
            tried=set(raw["tried"]),
        )


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b")


def _safe_text(text: str, arguments: Mapping[str, Any]) -> str:
    """What is kept of an error's text: no secret, nothing that drives a terminal."""
    return printable(str(mask(hidden(text, [arguments]))))[:MAX_ERROR_TEXT]


def _quoted(value: Any, error: str) -> bool:
    return isinstance(value, str | int) and any(f"{quote}{value}{quote}" in error for quote in "'\"`")


def key_of(arguments: Mapping[str, Any]) -> str:
    """The canonical form of a call; of one with a secret in it, its hash."""
    text = canonical(arguments)
    return text if mask(arguments) == arguments else hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def hidden(text: str, arguments: Iterable[Mapping[str, Any]]) -> str:
    """A text without the secrets that are among these arguments."""
    for given in arguments:
        for secret in _secrets(given, mask(given)):
            text = text.replace(secret, MASKED)
    return text


def _secrets(value: Any, masked: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(masked, Mapping):
        for item, other in zip(value.values(), masked.values(), strict=False):
            yield from _secrets(item, other)
    elif isinstance(value, list) and isinstance(masked, list):
        for item, other in zip(value, masked, strict=False):
            yield from _secrets(item, other)
    elif value != masked and str(value):
        yield str(value)


def printable(text: str) -> str:
    """A text that drives no terminal and hides nothing."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)

"""The plain records of the room: a caller, a rule, what rules decide, and caps."""

from __future__ import annotations

import abc
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal
from typing import Protocol as Interface

from pydantic import BaseModel, ConfigDict, Field

from atc.calls.permissions.conditions import Condition
from atc.calls.permissions.origins import CallSources, OriginCondition
from atc.calls.permissions.patterns import Patterns, Reader, may_name, surely_names
from atc.result import Effect
from atc.schemas.protocol import Protocol

Verdict = Literal["allow", "ask", "deny"]
Suspicion = Literal["origins", "author"]
Why = Literal["rule", "default", "read_only", "grant"]
"""What decided: a rule; the default for this effect; read-only mode; the tools that a principal was granted."""

LOCAL = "local"
"""The principal of whoever runs this process, and of a client over pipes, which started it."""
EVERYONE = "*"
"""The section of principals that have none of their own."""
MOST = 1_000_000
"""The greatest number that a file may give."""


class Caller(Interface):
    """Describes who calls."""

    @property
    def principal(self) -> str:
        """Return who it is, as far as that was proved. Grants bind to it."""

    @property
    def name(self) -> str:
        """Return what it calls itself: a claim. It can restrict, and never widen."""


@dataclass(frozen=True)
class Who:
    """A :class:`Caller`."""

    principal: str = LOCAL
    name: str = ""


@dataclass(frozen=True)
class Rule(abc.ABC):
    """One rule of the file: which calls it speaks of.

    Attributes:
        number: its place in the file, from 1.
        verdict: what it says of them.
        tools: patterns over names.
        sources: patterns over where tools come from (``mcp:NAME …``, ``openapi:…``, ``function:…``); ``None``: any.
        effects: of the tools; empty: any.
        conditions: on the arguments; all must hold.
        principals: patterns over who calls; ``None``: anyone.
        origins: where arguments must, or must not, have come from.
    """

    number: int
    verdict: Verdict
    tools: Patterns
    sources: Patterns | None = None
    effects: frozenset[Effect] = frozenset()
    conditions: tuple[Condition, ...] = ()
    principals: Patterns | None = None
    origins: tuple[OriginCondition, ...] = ()

    @property
    def is_conditional(self) -> bool:
        """Return whether it speaks of some calls of a tool alone, by their arguments."""
        return bool(self.conditions or self.origins)

    @property
    def waits(self) -> bool:
        """Return whether the yes that it wants is given elsewhere: the run ends, and the call waits."""
        return False

    @abc.abstractmethod
    def speaks_of(self, caller: Caller, protocol: Protocol, effect: Effect) -> bool:
        """Return whether it speaks of a caller's calls of a tool, whatever their arguments are."""

    @abc.abstractmethod
    def fits(self, call: CallSources, reader: Reader) -> bool:
        """Return whether it speaks of a call with its arguments, which the call's one reader reads."""

    def _common(self, caller: Caller, effect: Effect) -> bool:
        if self.effects and effect not in self.effects:
            return False
        return self.principals is None or self.principals.fit(caller.principal)


@dataclass(frozen=True)
class Grant(Rule):
    """A rule that allows. It has no place for the name that a client gives itself, so that no claim can widen.

    A tool counts under the name that programs call it by, or its full one (:func:`.effects.surely_names`), and every
    doubt about an argument speaks against it.
    """

    def speaks_of(self, caller: Caller, protocol: Protocol, effect: Effect) -> bool:
        if not surely_names(self.tools, protocol) or not self._common(caller, effect):
            return False
        return self.sources is None or self.sources.fit(source_of(protocol))

    def fits(self, call: CallSources, reader: Reader) -> bool:
        fit = all(each.allows(call.arguments, reader) for each in self.conditions)
        return fit and all(each.allows(call, reader) for each in self.origins)

    def covers(self, call: CallSources, paths: Collection[str], reader: Reader) -> bool:
        """Return whether its own ``from`` lists all that each of these arguments may have come from."""
        return all(any(each.covers(path, call, reader) for each in self.origins) for path in paths)


@dataclass(frozen=True)
class Restriction(Rule):
    """A rule that asks or denies. Every doubt speaks for it.

    A tool counts under its own name at its service too: two services with a tool of one name must not rename it away.

    Attributes:
        clients: patterns over the names that clients give themselves; ``None``: any.
        wait: ``park``: the run ends, and the call waits for approval that is given elsewhere.
    """

    clients: Patterns | None = None
    wait: Literal["park"] | None = None

    @property
    def waits(self) -> bool:
        return self.wait == "park"

    def speaks_of(self, caller: Caller, protocol: Protocol, effect: Effect) -> bool:
        if not may_name(self.tools, protocol):
            return False
        if self.clients is not None and not self.clients.may_fit(caller.name):
            return False
        named = self.sources is None or self.sources.may_fit(source_of(protocol))
        return named and self._common(caller, effect)

    def fits(self, call: CallSources, reader: Reader) -> bool:
        if not all(each.restricts(call.arguments, reader) for each in self.conditions):
            return False
        return not self.origins or not all(each.allows(call, reader) for each in self.origins)


def source_of(protocol: Protocol) -> str:
    """Return where a tool comes from, as rules see it: ``mcp:github (npx …)``, ``openapi:https://…``."""
    return f"{protocol.source.kind}:{protocol.source.location}"


@dataclass(frozen=True)
class Decision:
    """Holds what the permissions say of a call.

    Attributes:
        verdict: made, asked about, or refused.
        rule: that decided; ``None`` where none did.
        line: TOML that would allow the call, to be pasted into the file; empty where no line would.
        why: what decided.
        effect: of the tool, as the permissions take it.
        unjudged: the arguments are more than the rules could judge within their budget of work, so that rules that
            restrict count them.
        waits: a yes to it, if it needs one, is given elsewhere, and not by whoever runs the program.
        suspect: why it is asked about whatever else allows it: strangers may have chosen a target of it (``origins``),
            and no rule that allows it lists where the target came from; or its program's author had seen what
            strangers wrote (``author``), and the file does not say that this is no matter.
    """

    verdict: Verdict
    rule: Rule | None = None
    line: str = ""
    why: Why = "default"
    effect: Effect = Effect.UNKNOWN
    unjudged: bool = False
    waits: bool = False
    suspect: tuple[Suspicion, ...] = ()

    @property
    def asks(self) -> Verdict:
        """Return what becomes of the call: one that is suspect is asked about, though a rule allows it."""
        return "ask" if self.suspect and self.verdict == "allow" else self.verdict

    @property
    def parks(self) -> bool:
        """Return whether it says that the call waits, of itself and without anything odd about the call."""
        return self.asks == "ask" and self.waits


class Part(BaseModel):
    """A part of a permissions file, read strictly."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class Caps(Part):
    """Bounds how much a caller may do; ``None``: nothing is said.

    Attributes:
        max_calls: calls of a run.
        wall_s: seconds that a program may run.
        max_runs_at_once: runs at the same time.
        calls_per_hour: calls within 60 minutes, of all its runs. ``writes_per_hour``: of those, all but reads.
    """

    max_calls: int | None = Field(default=None, ge=1, le=MOST)
    wall_s: float | None = Field(default=None, gt=0, le=MOST, allow_inf_nan=False)
    max_runs_at_once: int | None = Field(default=None, ge=1, le=10_000)
    calls_per_hour: int | None = Field(default=None, ge=0, le=100_000)
    writes_per_hour: int | None = Field(default=None, ge=0, le=100_000)

    def tighter(self, other: Caps) -> Caps:
        """Return the tighter one of each cap."""
        made = {}
        for name in Caps.model_fields:
            said = [value for caps in (self, other) if (value := getattr(caps, name)) is not None]
            made[name] = min(said, default=None)
        return Caps(**made)

    def settings(self, max_calls: int, wall_s: float) -> dict[str, Any]:
        """Return the settings of an agent for this caller.

        Args:
            max_calls: of the settings, beside which a cap can only be less. ``wall_s``: likewise.
        """
        calls = max_calls if self.max_calls is None else min(max_calls, self.max_calls)
        return {"max_calls": calls, "wall_s": wall_s if self.wall_s is None else min(wall_s, self.wall_s)}

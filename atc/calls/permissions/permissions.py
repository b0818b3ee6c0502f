"""The user's permissions: of all rules that speak of a call the strictest counts: deny, then ask, then allow.

Of two that ask, the one counts that has the call wait. Where none speaks, reads are allowed and all else is asked
about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from atc import wording
from atc._records.origins import CallOrigins
from atc._records.records import DataFlow
from atc.calls.approval import ApprovalRequest, nobody_knows
from atc.calls.permissions.approvers import Approvers
from atc.calls.permissions.document import Section, read_document
from atc.calls.permissions.facts import (
    EVERYONE,
    Caller,
    Caps,
    Decision,
    Grant,
    Restriction,
    Rule,
    Suspicion,
    Verdict,
    Who,
)
from atc.calls.permissions.lines import AFTER_UNTRUSTED, allowing, allowing_from, granting
from atc.calls.permissions.origins import CallSources, ProtocolOf
from atc.calls.permissions.patterns import Patterns, Reader, effect_of, patterns_of, surely_names
from atc.calls.permissions.strangers import Strangers
from atc.calls.permissions.tool_tables import ToolTable, said_of
from atc.calls.responses import MAX_ERROR
from atc.calls.untrusted import Targets, origins_at
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.kept import KIND
from atc.tools.tool import Tool, Toolset

_ALL = Section()
_ORDER: tuple[tuple[Verdict, bool], ...] = (("deny", False), ("ask", True), ("ask", False), ("allow", False))
"""Verdicts, and whether the call waits for approval, from the strictest on."""


@dataclass(frozen=True)
class Permissions:
    """Decides what may be called unasked, by whom, and how often. Without rules reads are, and all else is asked about.

    Attributes:
        rules: of the file, in its order.
        effects: what the user takes tools for.
        read_only: no call with effects is made, whoever makes it.
        caps: on what every caller does.
        sections: of single principals.
        approvers: who alone may say yes or no to a call.
        path: of the file; empty without one.
        tools: how calls of tools are sent again, settled and undone (:mod:`.tool_tables`).
        strangers: which tools answer what strangers write, and what follows from that.
    """

    rules: tuple[Rule, ...] = ()
    effects: tuple[tuple[Patterns, Effect], ...] = ()
    read_only: bool = False
    caps_of_all: Caps = field(default_factory=Caps)
    sections: Mapping[str, Section] = field(default_factory=dict)
    path: str = ""
    approvers: Approvers = field(default_factory=Approvers)
    tools: Sequence[tuple[Patterns, ToolTable]] = ()
    strangers: Strangers = field(default_factory=Strangers)

    @classmethod
    def load(cls, path: str | Path, *, read_only: bool = False) -> Permissions:
        """Return those of a file.

        Args:
            path: of the file.
            read_only: whatever the file says of that.

        Raises:
            UsageError: there is none.
            SettingsError: something in it is not understood.
        """
        file = read_document(Path(path))
        keys = {name: each.public_key for name, each in (file.approvers or {}).items()}
        untrusted = file.untrusted.texts if file.untrusted is not None else ()
        return cls(
            rules=tuple(each.rule(number) for number, each in enumerate(file.rules, 1)),
            effects=tuple((patterns_of([text]), Effect(name)) for text, name in file.effects.items()),
            read_only=read_only or file.read_only,
            caps_of_all=file.caps,
            sections=file.clients,
            path=str(path),
            approvers=Approvers(keys),
            tools=tuple((patterns_of([text]), table) for text, table in file.tools.items()),
            strangers=Strangers(untrusted, file.trusted, file.targets, file.after_untrusted),
        )

    # -- decisions -----------------------------------------------------------------------------------------------------

    def decide(
        self,
        client: Caller,
        protocol: Protocol,
        arguments: Mapping[str, Any],
        origins: CallOrigins | None = None,
        *,
        untrusted: Sequence[str] = (),
        author_saw: Sequence[str] = (),
        protocol_of: ProtocolOf = nobody_knows,
    ) -> Decision:
        """Return what is said of a call.

        Args:
            client: who makes it.
            protocol: of the tool.
            arguments: as the tool would be sent them.
            origins: where they came from; what it does not say is ``unknown``.
            untrusted: the targets among them that have an untrusted origin (:mod:`atc.calls.untrusted`).
            author_saw: the untrusted tools whose answers the program's author had seen.
            protocol_of: returns the protocol of a tool that values came from.
        """
        effect = self.effect(protocol)
        barred = self._barred(client, protocol, effect)
        if barred is not None:
            return barred
        call = CallSources(protocol, arguments, origins or {}, self.targets(protocol), protocol_of)
        if effect is Effect.READ:
            untrusted = author_saw = ()
        reader = Reader()
        rule = self._rule(client, call, effect, reader, untrusted)
        if rule is None and effect is Effect.READ:
            return Decision("allow", effect=effect)
        suspect: tuple[Suspicion, ...] = ()
        if untrusted and not (isinstance(rule, Grant) and rule.covers(call, untrusted, reader)):
            suspect = ("origins",)
        if author_saw and self.strangers.after != "allow":
            suspect = (*suspect, "author")
        verdict: Verdict = "ask" if rule is None else rule.verdict
        return Decision(
            verdict,
            rule,
            self._line(client, call, untrusted, suspect, rule),
            why="default" if rule is None else "rule",
            effect=effect,
            unjudged=reader.is_spent,
            waits=verdict != "deny" and (bool(self.approvers) or (rule is not None and rule.waits)),
            suspect=suspect,
        )

    def _rule(
        self, client: Caller, call: CallSources, effect: Effect, reader: Reader, untrusted: Sequence[str]
    ) -> Rule | None:
        """Return the rule that decides; of those that allow, one that says where the untrusted targets may come from,
        if there is one."""
        fitting = (
            rule
            for verdict in _ORDER
            for rule in self.rules
            if (rule.verdict, rule.waits) == verdict
            and rule.speaks_of(client, call.protocol, effect)
            and rule.fits(call, reader)
        )
        first = next(fitting, None)
        if not untrusted or not isinstance(first, Grant):
            return first
        grants = (rule for rule in chain([first], fitting) if isinstance(rule, Grant))
        return next((rule for rule in grants if rule.covers(call, untrusted, reader)), first)

    def _line(
        self,
        client: Caller,
        call: CallSources,
        untrusted: Sequence[str],
        suspect: tuple[Suspicion, ...],
        rule: Rule | None,
    ) -> str:
        if rule is not None and rule.verdict != "allow":
            return ""
        lines = [AFTER_UNTRUSTED] if "author" in suspect else []
        if "origins" in suspect:
            known = {path: call.at(path) for path in untrusted}
            found = allowing_from(call.protocol.name, client.principal, known, partial(self._may_be_strange, call))
            return "\n".join([*lines, found]) if found else ""
        if rule is None:
            lines.append(allowing(call.protocol.name, client.principal))
        return "\n".join(filter(None, lines))

    def _may_be_strange(self, call: CallSources, tool: str) -> bool:
        protocol = call.protocol_of(tool)
        return protocol is None or self.is_untrusted(protocol)

    def is_untrusted(self, protocol: Protocol) -> bool:
        """Return whether strangers write what a tool answers."""
        return bool(self.strangers.marks(protocol))

    @property
    def needs_origins(self) -> bool:
        """Return whether a rule asks where arguments came from."""
        return any(rule.origins for rule in self.rules)

    def targets(self, protocol: Protocol) -> Targets:
        """Return which arguments of a tool are targets."""
        return self.strangers.targets_of(said_of(self.tools, protocol, lambda table: table.targets))

    @property
    def may_park(self) -> bool:
        """Return whether a call may have to wait for approval that is given elsewhere."""
        return bool(self.approvers) or any(rule.waits for rule in self.rules)

    def sees(self, client: Caller, protocol: Protocol) -> bool:
        """Return whether a caller can make some call of a tool. Others it need not see."""
        effect = self.effect(protocol)
        if self._barred(client, protocol, effect) is not None:
            return False
        denied = (rule for rule in self.rules if rule.verdict == "deny" and not rule.is_conditional)
        return not any(rule.speaks_of(client, protocol, effect) for rule in denied)

    def named_by(self, client: Caller) -> frozenset[int]:
        """Return the rules that speak of what a caller calls itself: callers of one principal differ in no more."""
        named = (rule for rule in self.rules if isinstance(rule, Restriction) and rule.clients is not None)
        return frozenset(rule.number for rule in named if rule.clients and rule.clients.may_fit(client.name))

    def hides_from(self, client: Caller) -> bool:
        """Return whether there may be a tool that a caller does not see."""
        section = self.section(client)
        whole = any(rule.verdict == "deny" and not rule.is_conditional for rule in self.rules)
        return whole or self.read_only or section.read_only or section.tools is not None

    def offered(self, client: Caller, tools: Toolset) -> Toolset:
        """Return the tools that a caller sees, each with the effect that the permissions take it for.

        A kept program that calls one which the caller does not see is none of them.
        """
        return Toolset(tool for tool in self.graded(tools).values() if self._sees_whole(client, tool))

    def _sees_whole(self, client: Caller, tool: Tool) -> bool:
        kept = (each for each in tool.inner.values() if each.kept is not None)
        return self.sees(client, tool.protocol) and all(self._sees_whole(client, each) for each in kept)

    def served(self, tools: Toolset) -> Toolset:
        """Return the tools that some caller may see, each with the effect that the permissions take it for."""
        graded = self.graded(tools)
        open_ = [tool for tool in graded.values() if not self._closed_to_all(tool.protocol)]
        return graded if len(open_) == len(graded) else Toolset(open_)

    def graded(self, tools: Toolset) -> Toolset:
        """Return all tools, each with the effect that the permissions take it for, and with what they say of its
        idempotency keys; the same set where none differs."""
        made = [self._graded(tool) for tool in tools.values()]
        return tools if all(new is old for new, old in zip(made, tools.values(), strict=True)) else Toolset(made)

    def _graded(self, tool: Tool) -> Tool:
        if tool.kept is None:
            graded = tool.graded(self.effect(tool.protocol))
            return graded.bearing(said_of(self.tools, tool.protocol, lambda table: table.key)) if self.tools else graded
        inner = {name: self._graded(each) for name, each in tool.inner.items()}
        return tool if all(inner[name] is each for name, each in tool.inner.items()) else tool.with_inner(inner)

    def conditional(self, client: Caller, protocol: Protocol) -> list[Rule]:
        """Return the rules that speak of some calls of a tool, by their arguments."""
        effect = self.effect(protocol)
        return [rule for rule in self.rules if rule.is_conditional and rule.speaks_of(client, protocol, effect)]

    def effect(self, protocol: Protocol) -> Effect:
        """Return what a tool is taken for. A kept program is taken for what its calls are: no line says otherwise."""
        return protocol.effect if protocol.source.kind == KIND else effect_of(protocol, self.effects)

    def caps(self, client: Caller) -> Caps:
        """Return how much a caller may do."""
        return self.caps_of_all.tighter(self.section(client))

    def section(self, client: Caller) -> Section:
        """Return what is said of a principal, or of everyone."""
        found = self.sections.get(client.principal) if client.principal != EVERYONE else None
        return found or self.sections.get(EVERYONE, _ALL)

    def reading_only(self) -> Permissions:
        """Return the same, with no call that is not a read."""
        return replace(self, read_only=True)

    def _closed_to_all(self, protocol: Protocol) -> bool:
        """The tool's effect is what the permissions take it for."""
        effect = protocol.effect
        if self.read_only and effect is not Effect.READ:
            return True
        denied = (rule for rule in self.rules if isinstance(rule, Restriction) and rule.verdict == "deny")
        general = (rule for rule in denied if not (rule.is_conditional or rule.principals or rule.clients))
        return any(rule.speaks_of(Who(), protocol, effect) for rule in general)

    def _barred(self, client: Caller, protocol: Protocol, effect: Effect) -> Decision | None:
        section = self.section(client)
        if section.tools is not None and not surely_names(section.tools, protocol):
            return Decision("deny", line=granting(protocol.name, client.principal, section), why="grant", effect=effect)
        if effect is not Effect.READ and (self.read_only or section.read_only):
            return Decision("deny", why="read_only", effect=effect)
        return None


# ----------------------------------------------------------------------------------------------------------------------
# What permissions say, in words. The facts are :class:`atc.calls.permissions.facts.Decision`; nothing reads these back.


_FILE = "the permissions file"


def refusal(decision: Decision, permissions: Permissions) -> str:
    """Return why a call is refused, and what would allow it."""
    where = permissions.path or _FILE
    match decision.why:
        case "read_only":
            return "this is read-only mode: no call with effects is made" + (
                f" (`read_only` in {where})" if permissions.path else ""
            )
        case "grant":
            return f"this tool is not granted to this client{to_allow(decision, permissions)}"
        case _ if decision.rule is not None:
            rule = f"rule {decision.rule.number} of {where}"
            return f"{rule} denies it{_too_much(decision)}: no other rule allows what one denies"
    return f"it is not allowed{to_allow(decision, permissions)}"


def to_allow(decision: Decision, permissions: Permissions) -> str:
    """Return what would allow a call unasked, to stand behind a refusal; empty where nothing would."""
    if decision.verdict == "ask" and decision.rule is not None:
        return f" (rule {decision.rule.number} of {permissions.path or _FILE} wants a question{_too_much(decision)})"
    if not decision.line:
        return ""
    where = permissions.path or "a permissions file (`Agent(permissions=…)`, `--set permissions=FILE`)"
    if decision.suspect:
        return f"; with this in {where}, no such call needs approval:\n{decision.line}"
    return f"; the user can allow it with this in {where}:\n{decision.line}"


def to_allow_suspect(request: ApprovalRequest, decision: Decision, permissions: Permissions) -> str:
    """Return the same of a call in which strangers may have had a say; where no rule can, why, and what helps."""
    protocol = request.protocol or Protocol(name=request.tool)
    found = {path: origins_at(request.origins, path, protocol) for path in request.untrusted}
    lost = [path for path, of in found.items() if any(each.kind == "unknown" for each in of)]
    ruled = decision.rule is not None and decision.verdict != "allow"
    if ruled or decision.line or not lost or "origins" not in decision.suspect:
        return to_allow(decision, permissions)
    from atc.wording import origins

    return f"; {origins.not_followed(lost)}"


def _too_much(decision: Decision) -> str:
    return ", for its arguments are more than the rules can judge" if decision.unjudged else ""


def oddity(request: ApprovalRequest) -> str:
    """Return why a call wants a person though a rule allows such calls."""
    if request.is_repeat:
        did = wording.repeat(request.repeats, request.in_doubt, request.same_as, request.waits)
        return did if request.waits else f"{did} before"
    if request.instead_of:
        return f"it takes the place of {', '.join(request.instead_of)}"
    if request.of_session and request.session is not None and not request.warnings:
        from atc.wording import origins

        return origins.session_not_asked(request.session)
    return f"it depends on what the check warned about: {'; '.join(request.warnings)[:MAX_ERROR]}"


def suspicion(request: ApprovalRequest, decision: Decision) -> str:
    """Return what strangers may have had a say in, so that a call wants a person whatever allows it."""
    from atc.wording import origins

    flow = request.data_flow or DataFlow()
    no_matter = {"origins": "untrusted", "author": "author_saw"}
    left_out = {field: () for why, field in no_matter.items() if why not in decision.suspect}
    return origins.suspicion(flow.model_copy(update=left_out))


def decided_by(decision: Decision) -> str:
    """Return what decided, in one word or two, for the audit."""
    return f"rule {decision.rule.number}" if decision.rule is not None else decision.why

"""The permissions file: TOML → rules, strictly. What is not understood is an error, for a guess could allow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from atc._host.files import read_own
from atc._host.trust import parse_toml
from atc.calls.permissions.approvers import KEY_BYTES, PRIVATE, Approvers, decoded, is_of_large_order
from atc.calls.permissions.conditions import MAX_CONDITIONS, Condition, condition_of
from atc.calls.permissions.facts import Caps, Grant, Restriction, Rule, Verdict
from atc.calls.permissions.origins import OriginCondition, conditions_of
from atc.calls.permissions.patterns import Patterns, pattern_problem, patterns_of
from atc.calls.permissions.strangers import SERVER, Strangers, server_named
from atc.calls.permissions.tool_tables import (
    CallText,
    Settle,
    ToolTable,
    call_text,
    outcome_conditions,
    place_of,
)
from atc.errors import SettingsError, UsageError
from atc.result import Effect
from atc.tools.keys import IdempotencyKey

MAX_FILE = 256_000
"""Bytes of a permissions file."""
MAX_RULES, MAX_PATTERNS, MAX_CLIENTS = 500, 200, 500
MAX_NAME = 100
"""Characters of an approver's name."""
MAX_SHOWN = 5
"""Mistakes that one message names."""
_MOST = 1_000_000
_MESSAGES = {"extra_forbidden": "there is no such key", "too_long": "it has too many items"}


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("permissions", "{message}", {"message": message})


def _patterns(given: Any) -> Patterns:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise _wrong("takes a pattern, or a list of patterns")
    if not 0 < len(texts) <= MAX_PATTERNS:
        raise _wrong(f"takes 1 to {MAX_PATTERNS} patterns")
    for each in texts:
        if problem := pattern_problem(each):
            raise _wrong(f"the pattern {each[:60]!r} {problem}")
    return patterns_of(texts)


def _effects(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _conditions(given: Any) -> tuple[Condition, ...]:
    if not isinstance(given, dict) or not 0 < len(given) <= MAX_CONDITIONS:
        raise _wrong(f'takes a table of 1 to {MAX_CONDITIONS} arguments, such as {{repo = "me/*"}}')
    return tuple(_condition(path, value) for path, value in given.items())


def _condition(path: str, value: Any) -> Condition:
    try:
        return condition_of(path, value)
    except ValueError as error:
        raise _wrong(f"`{path[:80]}`: {error}") from None


def _origins(given: Any, *, forbids: bool) -> tuple[OriginCondition, ...]:
    try:
        return conditions_of(given, forbids=forbids, most=MAX_CONDITIONS)
    except ValueError as error:
        raise _wrong(str(error)) from None


def _servers(given: Any) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise _wrong(f'takes the names of servers: ["{SERVER}crm"]')
    try:
        return tuple(map(server_named, texts))
    except ValueError as error:
        raise _wrong(str(error)) from None


def _outcome(given: Any) -> tuple[Condition, ...]:
    try:
        return outcome_conditions(given)
    except ValueError as error:
        raise _wrong(str(error)) from None


def _call(given: Any, *, response: bool) -> CallText:
    if not isinstance(given, str):
        raise _wrong('takes a call as text, such as "get_order(order_id=$order_id)"')
    try:
        return call_text(given, response=response)
    except ValueError as error:
        raise _wrong(str(error)) from None


PatternsOf = Annotated[Patterns, BeforeValidator(_patterns)]
OriginsOf = Annotated[tuple[OriginCondition, ...], BeforeValidator(partial(_origins, forbids=False))]
OriginsNotOf = Annotated[tuple[OriginCondition, ...], BeforeValidator(partial(_origins, forbids=True))]
EffectName = Literal["read", "write", "unknown"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class _RuleText(_Part):
    allow: PatternsOf | None = None
    ask: PatternsOf | None = None
    deny: PatternsOf | None = None
    source: PatternsOf | None = None
    effect: Annotated[list[EffectName], BeforeValidator(_effects)] = Field([], max_length=3)
    arguments: Annotated[tuple[Condition, ...], BeforeValidator(_conditions)] = ()
    from_: Annotated[OriginsOf, Field(alias="from")] = ()
    not_from: OriginsNotOf = ()
    principal: PatternsOf | None = None
    client: PatternsOf | None = None
    wait: Literal["park"] | None = None

    @model_validator(mode="after")
    def _one_verdict(self) -> _RuleText:
        said = [name for name in ("allow", "ask", "deny") if getattr(self, name) is not None]
        if len(said) != 1:
            raise _wrong('takes one of `allow`, `ask` and `deny`, with the tools: deny = "delete_*"')
        if said == ["allow"] and self.client is not None:
            raise _wrong(
                "`client` stands beside `ask` and `deny` alone: what a client calls itself is a claim and no right. "
                "`principal` is who it was proved to be"
            )
        if said != ["allow"] and self.from_:
            raise _wrong(
                f"`from` stands beside `allow` alone. Beside `{said[0]}` write `not_from`, with the origins that the "
                'argument must not have: not_from = {to = "tool:read_mail"}'
            )
        if said != ["ask"] and self.wait is not None:
            raise _wrong("`wait` stands beside `ask` alone: what is allowed or denied does not wait")
        return self

    def rule(self, number: int) -> Rule:
        common = (self.source, frozenset(map(Effect, self.effect)), self.arguments, self.principal)
        origins = (*self.from_, *self.not_from)
        if self.allow is not None:
            return Grant(number, "allow", self.allow, *common, origins)
        verdict: Verdict = "deny" if self.deny is not None else "ask"
        tools = self.deny if self.deny is not None else self.ask
        assert tools is not None
        return Restriction(number, verdict, tools, *common, origins, self.client, self.wait)


def _public_key(given: Any) -> bytes:
    if isinstance(given, str) and given.startswith(PRIVATE):
        raise _wrong("is a private key: it belongs to the approver alone. Make a new one (`atc permissions approver`)")
    key = decoded(given, KEY_BYTES) if isinstance(given, str) else None
    if key is not None and not is_of_large_order(key):
        raise _wrong("is a weak key, for which others could sign: make a new one (`atc permissions approver NAME`)")
    if key is None:
        raise _wrong("is no public key, as `atc permissions approver NAME` prints it")
    return key


class _ApproverText(_Part):
    public_key: Annotated[bytes, BeforeValidator(_public_key)]


class _CapsText(_Part):
    max_calls: int | None = Field(None, ge=1, le=_MOST)
    wall_s: float | None = Field(None, gt=0, le=_MOST, allow_inf_nan=False)
    max_runs_at_once: int | None = Field(None, ge=1, le=10_000)
    calls_per_hour: int | None = Field(None, ge=0, le=100_000)
    writes_per_hour: int | None = Field(None, ge=0, le=100_000)

    def caps(self) -> Caps:
        return Caps(**{name: getattr(self, name) for name in _CapsText.model_fields})


class _ClientText(_CapsText):
    tools: PatternsOf | None = None
    read_only: bool = False


Outcome = Annotated[tuple[Condition, ...], BeforeValidator(_outcome)]


class _KeyText(_Part):
    header: str | None = None
    meta: str | None = None
    window_s: float | None = Field(None, ge=0, le=_MOST, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_place(self) -> _KeyText:
        try:
            place_of(self.header, self.meta)
        except ValueError as error:
            raise _wrong(str(error)) from None
        return self

    def key(self) -> IdempotencyKey:
        return IdempotencyKey(place_of(self.header, self.meta), self.window_s)


class _SettleText(_Part):
    read: Annotated[CallText, BeforeValidator(partial(_call, response=False))]
    done: Outcome = ()
    not_done: Outcome = ()

    @model_validator(mode="after")
    def _some_outcome(self) -> _SettleText:
        if not (self.done or self.not_done):
            raise _wrong("takes `done`, `not_done` or both: by what the read's answer says so")
        return self


class _ToolText(_Part):
    idempotency_key: _KeyText | None = None
    settle: _SettleText | None = None
    undo: Annotated[CallText, BeforeValidator(partial(_call, response=True))] | None = None
    targets: PatternsOf | None = None

    def table(self, pattern: str) -> ToolTable:
        given = self.settle
        settle = None if given is None else Settle(given.read, given.done, given.not_done)
        key = None if self.idempotency_key is None else self.idempotency_key.key()
        return ToolTable(patterns_of([pattern]), key, settle, self.undo, self.targets)


class Section(_Part):
    """Describes what one principal may do.

    Attributes:
        tools: patterns of the tools that it sees and may call; ``None``: all.
        read_only: it makes no call with effects.
        caps: on what it does.
    """

    tools: Patterns | None = None
    read_only: bool = False
    caps: Caps = Caps()


class _File(_Part):
    read_only: bool = False
    rules: list[_RuleText] = Field([], max_length=MAX_RULES)
    effects: dict[str, EffectName] = Field(default_factory=dict, max_length=MAX_RULES)
    caps: _CapsText = Field(default_factory=lambda: _CapsText.model_validate({}))
    clients: dict[str, _ClientText] = Field(default_factory=dict, max_length=MAX_CLIENTS)
    approvers: dict[str, _ApproverText] | None = Field(None, min_length=1, max_length=MAX_CLIENTS)
    tools: dict[str, _ToolText] = Field(default_factory=dict, max_length=MAX_RULES)
    untrusted: PatternsOf | None = None
    trusted: Annotated[tuple[str, ...], BeforeValidator(_servers), Field(max_length=MAX_PATTERNS)] = ()
    targets: PatternsOf | None = None
    after_untrusted: Literal["ask", "allow"] = "ask"

    @model_validator(mode="after")
    def _names(self) -> _File:
        for table in ("effects", "tools"):
            for pattern in getattr(self, table):
                if problem := pattern_problem(pattern):
                    raise _wrong(f"`{table}`: the pattern {pattern[:60]!r} {problem}")
        for text in self.untrusted.texts if self.untrusted is not None else ():
            problem = pattern_problem(name := text.removeprefix(SERVER))
            if name != name.strip() or (name == text and name.casefold().startswith(SERVER)):
                problem = f"would fit nothing: a server is {SERVER}NAME, in small letters and without blanks"
            if problem:
                raise _wrong(f"`untrusted`: the pattern {text[:60]!r} {problem}")
        for name in self.approvers or ():
            if not (name.strip() == name and name.isprintable() and 0 < len(name) <= MAX_NAME):
                raise _wrong(f"`approvers`: a name has 1 to {MAX_NAME} characters that can be seen")
        return self


class Document(_Part):
    """A permissions file, read.

    Attributes:
        path: of the file.
        rules: in the order of the file.
        effects: what tools are taken for, with the patterns of their names.
        sections: by principal; ``*`` is everyone who has none.
        approvers: who may decide about calls.
        tools: how calls of tools are sent again, settled and undone, and which arguments of theirs are targets, in the
            order of the file.
        strangers: which tools answer what strangers write, and what follows from that.
    """

    path: str
    read_only: bool
    rules: tuple[Rule, ...]
    effects: tuple[tuple[Patterns, Effect], ...]
    caps: Caps
    sections: dict[str, Section]
    approvers: Approvers
    tools: tuple[ToolTable, ...]
    strangers: Strangers


def read_document(path: Path) -> Document:
    """Read a permissions file.

    Raises:
        UsageError: there is none.
        SettingsError: it cannot be read, others can write it, or something in it is not understood: the message names
            the file, the rule by its number, and the key.
    """
    try:
        content = read_own(path, MAX_FILE)
        values = parse_toml(content.decode())
    except FileNotFoundError:
        raise UsageError(f"there is no permissions file {path}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(f"{path} cannot be read: {why}") from None
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[:MAX_SHOWN]
        lines = [f"{_place(each['loc'])}{_MESSAGES.get(each['type'], each['msg'])}" for each in found]
        raise SettingsError(f"{path}: {'; '.join(lines)}") from None
    effects = tuple((patterns_of([text]), Effect(name)) for text, name in file.effects.items())
    sections = {
        principal: Section(tools=each.tools, read_only=each.read_only, caps=each.caps())
        for principal, each in file.clients.items()
    }
    rules = tuple(each.rule(number) for number, each in enumerate(file.rules, 1))
    return Document(
        path=str(path),
        read_only=file.read_only,
        rules=rules,
        effects=effects,
        caps=file.caps.caps(),
        sections=sections,
        approvers=Approvers({name: each.public_key for name, each in (file.approvers or {}).items()}),
        tools=tuple(each.table(pattern) for pattern, each in file.tools.items()),
        strangers=Strangers(
            file.untrusted.texts if file.untrusted is not None else (),
            trusted=file.trusted,
            targets=file.targets,
            after=file.after_untrusted,
        ),
    )


def _place(location: tuple[int | str, ...]) -> str:
    match location:
        case ():
            return ""
        case ("rules", int() as index, *rest):
            where, rest = f"rule {index + 1}", list(rest)
        case ("approvers", str() as name, *rest):
            where, rest = f"approver {name[:60]!r}", list(rest)
        case ("clients", str() as principal, *rest):
            where, rest = f"client {principal[:60]!r}", list(rest)
        case ("tools", str() as pattern, *rest):
            where, rest = f"tools {pattern[:60]!r}", list(rest)
        case (first, *rest):
            where, rest = f"`{first}`", list(rest)
    keys = [str(step)[:60] for step in rest if step != "[key]"]
    return f"{where}, `{'.'.join(keys)}`: " if keys else f"{where}: "

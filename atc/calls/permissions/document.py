"""The permissions file: TOML → rules, strictly. What is not understood is an error, for a guess could allow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from atc._host.files import read_own
from atc._host.trust import parse_toml
from atc.calls.permissions.approvers import KEY_BYTES, PRIVATE, decoded, is_of_large_order
from atc.calls.permissions.conditions import MAX_CONDITIONS, Condition, conditions_of
from atc.calls.permissions.facts import Caps, Grant, Part, Restriction, Rule, Verdict
from atc.calls.permissions.origins import OriginCondition
from atc.calls.permissions.origins import conditions_of as origins_of
from atc.calls.permissions.patterns import MAX_PATTERNS, PatternsOf, pattern_problem
from atc.calls.permissions.strangers import SERVER, server_named
from atc.calls.permissions.tool_tables import ToolTable
from atc.errors import SettingsError, UsageError
from atc.result import Effect

MAX_FILE = 256_000
"""Bytes of a permissions file."""
MAX_RULES, MAX_CLIENTS = 500, 500
MAX_NAME = 100
"""Characters of an approver's name."""
MAX_SHOWN = 5
"""Mistakes that one message names."""
_NAMED: dict[int | str, str] = {"rules": "rule", "approvers": "approver", "clients": "client", "tools": "tools"}
_MESSAGES = {"extra_forbidden": "there is no such key", "too_long": "it has too many items"}


def _effects(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _servers(given: Any) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f'takes the names of servers: ["{SERVER}crm"]')
    return tuple(map(server_named, texts))


_CONDITIONS = partial(conditions_of, what='arguments, such as {repo = "me/*"}')
_ORIGINS = partial(origins_of, most=MAX_CONDITIONS)
OriginsOf = Annotated[tuple[OriginCondition, ...], BeforeValidator(partial(_ORIGINS, forbids=False))]
OriginsNotOf = Annotated[tuple[OriginCondition, ...], BeforeValidator(partial(_ORIGINS, forbids=True))]
EffectName = Literal["read", "write", "unknown"]


class _RuleText(Part):
    allow: PatternsOf | None = None
    ask: PatternsOf | None = None
    deny: PatternsOf | None = None
    source: PatternsOf | None = None
    effect: Annotated[list[EffectName], BeforeValidator(_effects)] = Field([], max_length=3)
    arguments: Annotated[tuple[Condition, ...], BeforeValidator(_CONDITIONS)] = ()
    from_: Annotated[OriginsOf, Field(alias="from")] = ()
    not_from: OriginsNotOf = ()
    principal: PatternsOf | None = None
    client: PatternsOf | None = None
    wait: Literal["park"] | None = None

    @model_validator(mode="after")
    def _one_verdict(self) -> _RuleText:
        said = [name for name in ("allow", "ask", "deny") if getattr(self, name) is not None]
        if len(said) != 1:
            raise ValueError('takes one of `allow`, `ask` and `deny`, with the tools: deny = "delete_*"')
        if said == ["allow"] and self.client is not None:
            raise ValueError(
                "`client` stands beside `ask` and `deny` alone: what a client calls itself is a claim and no right. "
                "`principal` is who it was proved to be"
            )
        if said != ["allow"] and self.from_:
            raise ValueError(
                f"`from` stands beside `allow` alone. Beside `{said[0]}` write `not_from`, with the origins that the "
                'argument must not have: not_from = {to = "tool:read_mail"}'
            )
        if said != ["ask"] and self.wait is not None:
            raise ValueError("`wait` stands beside `ask` alone: what is allowed or denied does not wait")
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
        raise ValueError(
            "is a private key: it belongs to the approver alone. Make a new one (`atc permissions approver`)"
        )
    key = decoded(given, KEY_BYTES) if isinstance(given, str) else None
    if key is not None and not is_of_large_order(key):
        raise ValueError("is a weak key, for which others could sign: make a new one (`atc permissions approver NAME`)")
    if key is None:
        raise ValueError("is no public key, as `atc permissions approver NAME` prints it")
    return key


class _ApproverText(Part):
    public_key: Annotated[bytes, BeforeValidator(_public_key)]


class Section(Caps):
    """Describes what one principal may do, and its own caps on that.

    Attributes:
        tools: patterns of the tools that it sees and may call; ``None``: all.
        read_only: it makes no call with effects.
    """

    tools: PatternsOf | None = None
    read_only: bool = False


class File(Part):
    """A permissions file, as it is written. What its keys mean says :class:`.permissions.Permissions`."""

    read_only: bool = False
    rules: list[_RuleText] = Field([], max_length=MAX_RULES)
    effects: dict[str, EffectName] = Field(default_factory=dict, max_length=MAX_RULES)
    caps: Caps = Caps()
    clients: dict[str, Section] = Field(default_factory=dict, max_length=MAX_CLIENTS)
    approvers: dict[str, _ApproverText] | None = Field(None, min_length=1, max_length=MAX_CLIENTS)
    tools: dict[str, ToolTable] = Field(default_factory=dict, max_length=MAX_RULES)
    untrusted: PatternsOf | None = None
    trusted: Annotated[tuple[str, ...], BeforeValidator(_servers), Field(max_length=MAX_PATTERNS)] = ()
    targets: PatternsOf | None = None
    after_untrusted: Literal["ask", "allow"] = "ask"

    @model_validator(mode="after")
    def _names(self) -> File:
        for table in ("effects", "tools"):
            for pattern in getattr(self, table):
                if problem := pattern_problem(pattern):
                    raise ValueError(f"`{table}`: the pattern {pattern[:60]!r} {problem}")
        for text in self.untrusted.texts if self.untrusted is not None else ():
            problem = pattern_problem(name := text.removeprefix(SERVER))
            if name != name.strip() or (name == text and name.casefold().startswith(SERVER)):
                problem = f"would fit nothing: a server is {SERVER}NAME, in small letters and without blanks"
            if problem:
                raise ValueError(f"`untrusted`: the pattern {text[:60]!r} {problem}")
        for name in self.approvers or ():
            if not (name.strip() == name and name.isprintable() and 0 < len(name) <= MAX_NAME):
                raise ValueError(f"`approvers`: a name has 1 to {MAX_NAME} characters that can be seen")
        return self


def read_document(path: Path) -> File:
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
        return File.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[:MAX_SHOWN]
        told = [each["ctx"]["error"] if "error" in each.get("ctx", {}) else each["msg"] for each in found]
        lines = [
            f"{_place(each['loc'])}{_MESSAGES.get(each['type'], said)}" for each, said in zip(found, told, strict=True)
        ]
        raise SettingsError(f"{path}: {'; '.join(lines)}") from None


def _place(location: tuple[int | str, ...]) -> str:
    if not location:
        return ""
    first, *rest = location
    where = f"`{first}`"
    if first in _NAMED and rest:
        key = rest.pop(0)
        where = f"{_NAMED[first]} {key + 1 if isinstance(key, int) else repr(key[:60])}"
    keys = [str(step)[:60] for step in rest if step != "[key]"]
    return f"{where}, `{'.'.join(keys)}`: " if keys else f"{where}: "

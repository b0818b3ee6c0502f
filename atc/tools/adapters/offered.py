"""What the importers of frameworks share: which objects become tools, under which names, with which effects, and how
they are called in this process.
"""

from __future__ import annotations

import functools
import logging
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from atc.errors import EnvironmentProblem, ToolError, ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.names import UniqueNames, tool_name
from atc.schemas.protocol import MAX_DESCRIPTION, JsonSchema, Protocol, Provenance, Source
from atc.schemas.telltales import disguised_telltale
from atc.tools.docstrings import with_modern_typeddicts
from atc.tools.functions import EffectName, InProcessTransport, failure_of, return_schema
from atc.tools.mcp.importer import converted
from atc.tools.openapi.text import clean
from atc.tools.tool import GradedTransport, Tool, Toolset

Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ObjectTransport(InProcessTransport, GradedTransport):
    """Calls an object of a framework.

    Attributes:
        call: makes the call, given the arguments and whether the tool is taken for a read; returns the value, or an
            awaitable of it.
        in_thread: ``call`` blocks, so it runs in a worker thread.
        code: the user's code behind it, for whether an exception is a bug of it.
        explain: the error that an exception of the framework is; ``None`` for any other exception.
        check: is given the arguments before anything of the call may happen, and raises ToolError.
        held: what must be entered for the length of a run; tools that share it have an equal one.
        reads: the tool only reads, so a call that failed did nothing.
        approved_by_caller: the framework wants approval before a call. Ours stands in its place: it is never a read.
    """

    call: Callable[[Arguments, bool], Any]
    in_thread: bool = False
    code: Callable[..., Any] | None = None
    explain: Callable[[BaseException], ToolError | None] = lambda _: None
    check: Callable[[Arguments], None] = lambda _: None
    held: AbstractAsyncContextManager[Any] | None = None
    reads: bool = False
    approved_by_caller: bool = False

    def graded(self, *, reads: bool) -> ObjectTransport:
        return replace(self, reads=reads)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.held

    def bound(self, arguments: Arguments) -> tuple[Callable[[], Any], bool]:
        """The call, once its arguments are checked.

        Raises:
            ToolError: the object refuses the arguments.
        """
        self.check(arguments)
        return functools.partial(self.call, arguments, self.reads), self.in_thread

    def failed(self, error: BaseException) -> ToolError:
        """What an exception of the object means; of a tool that only reads, that nothing was done."""
        made = error if isinstance(error, ToolError) else self.explain(error) or failure_of(error, self.code)
        if self.reads:
            made.outcome = "refused"
        return made


_LOG = logging.getLogger(__name__)
_SHOWN = 10
"""Refused tools that a message names."""


@dataclass(frozen=True)
class Described:
    """What an object of a framework says about itself.

    Attributes:
        description: what the tool does.
        parameters: JSON Schema of its arguments, without those that are injected; as a stranger may write it.
        returns: JSON Schema of its response (:func:`hinted_schema`, :func:`stated_schema`).
        effect: as its own metadata state it.
        location: the module that it is from.
        transport: how it is called.
        untrusted: strangers write what it returns, as its metadata state it; ``None``: they do not say.
    """

    description: str
    parameters: Mapping[str, Any]
    returns: JsonSchema | None
    effect: Effect
    location: str
    transport: ObjectTransport
    untrusted: bool | None = None


@dataclass(frozen=True)
class Candidate:
    """One object that may become a tool.

    Raises:
        ToolImportError: it cannot be a tool.
    """

    original: str
    describe: Callable[[], Described]


def toolset_of(
    kind: str,
    candidates: Iterable[Candidate],
    *,
    only: list[str] | None = None,
    effects: Mapping[str, EffectName | Effect] | None = None,
) -> Toolset:
    """Make a tool of each candidate.

    Args:
        kind: of :class:`Source`.
        candidates: the objects, in order.
        only: keep those that one of these shell patterns names, by tool name or by the name in the framework.
        effects: for patterns of names, whether a call only reads. They go before what the objects say.

    Raises:
        ToolImportError: some of the objects cannot be tools, with the reason for each; or there are none.
        UsageError: a pattern fits none of them, or an effect is no effect.
    """
    said = {pattern: _effect(effect) for pattern, effect in (effects or {}).items()}
    unmatched = dict.fromkeys([*(only or []), *said])
    names, made, refused = UniqueNames(), list[Tool](), list[str]()
    for candidate in candidates:
        name = names.take(tool_name(candidate.original))
        known = (name, candidate.original)
        fitting = [pattern for pattern in unmatched if _fits(pattern, known)]
        if only is not None and not any(_fits(pattern, known) for pattern in only):
            continue
        effect = next((said[pattern] for pattern in said if _fits(pattern, known)), None)
        try:
            made.append(_tool(kind, name, candidate, effect))
        except ToolImportError as error:
            refused.append(f"{clean(candidate.original, 100)!r}: {error}")
        for pattern in fitting:
            unmatched.pop(pattern, None)
    if refused:
        more = f" (and {len(refused) - _SHOWN} more)" if len(refused) > _SHOWN else ""
        raise ToolImportError(
            f"{len(refused)} of these {kind} tools cannot be used{more}: {'; '.join(refused[:_SHOWN])}. "
            "Leave them out, or name the others with only=[…]"
        )
    if unmatched:
        raise UsageError(f"only= or effects= names {', '.join(map(repr, unmatched))}, which fits no {kind} tool here")
    if not made:
        raise ToolImportError(f"there are no {kind} tools here: give some")
    return Toolset(made)


def _tool(kind: str, name: str, candidate: Candidate, said: Effect | None) -> Tool:
    described = candidate.describe()
    parameters = converted(_untitled(described.parameters), "request", "the schema of its arguments")
    if parameters.get("type", "object") != "object":
        raise ToolImportError("the schema of its arguments is not of an object")
    effect = said or _doubted(described.effect, name, candidate.original)
    if described.transport.approved_by_caller and effect is Effect.READ:
        raise ToolImportError("it asks for approval, so it cannot count as a read: leave it out of effects=")
    try:
        protocol = Protocol(
            name=name,
            description=clean(described.description, MAX_DESCRIPTION),
            parameters=parameters,
            returns=described.returns,
            effect=effect,
            untrusted=described.untrusted,
            source=Source(kind=kind, location=described.location, operation=candidate.original),
            provenance=Provenance.IMPORTED,
        )
    except ValidationError as error:
        raise ToolImportError(error.errors()[0]["msg"]) from None
    return Tool(protocol, described.transport.graded(reads=effect is Effect.READ))


def _doubted(stated: Effect, *names: str) -> Effect:
    """As of a tool of an MCP server: what says that it reads is unknown where its name has a verb of effects."""
    return Effect.UNKNOWN if stated is Effect.READ and any(map(disguised_telltale, names)) else stated


def stated_schema(name: str, schema: Any) -> JsonSchema | None:
    """The response schema that an object states; ``None`` where it cannot be used: the tool can be called without."""
    if not isinstance(schema, Mapping) or not schema:
        return None
    try:
        return converted(dict(schema), "response", "the schema of its response") or None
    except ToolImportError as error:
        _LOG.warning("%s: nothing is known about its response: %s", name, error)
        return None


def _untitled(schema: Mapping[str, Any]) -> JsonSchema:
    """The schema of arguments without titles that repeat their names: they cost tokens and say nothing."""
    properties = {
        name: {key: value for key, value in part.items() if key != "title" or value != name.replace("_", " ").title()}
        if isinstance(part, Mapping)
        else part
        for name, part in dict(schema.get("properties") or {}).items()
    }
    return {**schema, "properties": properties}


def hints_of(code: Callable[..., Any] | None) -> dict[str, Any]:
    """The type hints of the user's code; none where they cannot be resolved: a hint is any expression."""
    try:
        return typing.get_type_hints(code, include_extras=True) if code is not None else {}
    except Exception:
        return {}


def hinted_schema(hint: Any, where: str) -> JsonSchema | None:
    """The schema of a return hint; ``None`` where it says nothing, or has no JSON Schema."""
    if hint is None or hint is Any:
        return None
    try:
        return return_schema({"return": with_modern_typeddicts(hint)}, where)
    except ToolImportError as error:
        _LOG.debug("%s: %s", where, error)
        return None


def effect_by_hints(metadata: Any) -> Effect:
    """The effect by the annotations of an MCP server, where an adapter of the framework left them in the metadata.

    They are a server's claims, and count as those of :meth:`atc.Toolset.from_mcp` do.
    """
    hints = _hints(metadata)
    reads = hints.get("readOnlyHint", hints.get("read_only_hint"))
    if isinstance(reads, bool):
        return Effect.READ if reads else Effect.WRITE
    others = ("destructiveHint", "destructive_hint", "idempotentHint", "idempotent_hint")
    return Effect.WRITE if any(hints.get(name) is not None for name in others) else Effect.UNKNOWN


def untrusted_by_hints(metadata: Any) -> bool | None:
    """Whether strangers write what a tool returns, by the same annotations; ``None`` where they do not say."""
    hints = _hints(metadata)
    said = hints.get("openWorldHint", hints.get("open_world_hint"))
    return said if isinstance(said, bool) else None


def _hints(metadata: Any) -> Mapping[str, Any]:
    if not isinstance(metadata, Mapping):
        return {}
    hints = metadata.get("annotations")
    return hints if isinstance(hints, Mapping) else metadata


def module_of(thing: object) -> str:
    """The module that an object's code is from."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def need(package: str, extra: str) -> EnvironmentProblem:
    """The problem that a framework is not installed."""
    return EnvironmentProblem(f"the package {package} is not installed", fix=f"pip install {extra}")


def _fits(pattern: str, names: tuple[str, ...]) -> bool:
    return any(pattern == name or fnmatchcase(name, pattern) for name in names)


def _effect(given: EffectName | Effect) -> Effect:
    try:
        return Effect(given)
    except ValueError:
        raise UsageError(f"effects takes 'read' or 'write', not {given!r}") from None

"""A tool is a protocol and a way to call it; a toolset is a set of tools with unique names."""

from __future__ import annotations

import abc
import hashlib
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from typing import Protocol as Interface

from atc._host.lazy import lazy
from atc._records.records import MissingReason, RecordedSession
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.schemas.names import MAX_NAME, tool_name
from atc.schemas.protocol import Protocol, SourceKey, called_after_sources, parameters_of
from atc.tools.kept import KeptProgram, LeftOut, strongest
from atc.tools.keys import WINDOW_S, IdempotencyKey, KeyedTransport, KeyRule


class Transport(Interface):
    """The way a call reaches its tool. Only the broker uses it."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Make one call and return the response: plain JSON values and bytes, or :class:`Answered`.

        Raises:
            ToolError: the tool refused or failed; ``outcome`` tells whether it may have acted.
        """
        ...

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        """What a run needs for its whole length, such as an HTTP client; ``None`` if there is nothing.

        Tools that share a resource return an equal, hashable manager: it is entered once.
        """
        return None


NextPage = dict[str, str] | Literal[False] | None
"""The next page by a response's headers: the arguments that ask for it, that there is none, or unknown."""


@dataclass(slots=True)
class Answered:
    """A response, with what stands beside it and is no part of the value that a program sees.

    A transport may return it in place of the bare value.

    Attributes:
        next_page: what its headers say of the next page.
        notes: what to know of the value, a sentence each; they stand with the call.
    """

    value: Any
    next_page: NextPage = None
    notes: tuple[str, ...] = ()


Sending = Callable[[], Awaitable[None]]
"""Is awaited right before a call may reach its tool: until that is on disk. What it raises must be passed on, and the
call not be sent."""


async def unannounced() -> None:
    """Announce a call to nobody: the :data:`Sending` of a call outside of a run."""


class AnnouncingTransport(Transport, abc.ABC):
    """A transport that may have to wait before it sends (for a token, or a server that starts) and says when it sends.

    A call that is cut off before that surely did nothing. It says so by inheriting.
    """

    @abc.abstractmethod
    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        """Make one call, as :class:`Transport` does, and await ``sending`` before anything of it may leave.

        Args:
            arguments: as the tool takes them.
            sending: may be awaited more than once. It is awaited in the task that makes the call.

        Raises:
            ToolError: the tool refused or failed.
        """

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Make one call, of which nobody asks when it is sent."""
        return (await self.announced(arguments, unannounced)).value


async def answer_of(transport: Transport, arguments: dict[str, Any], sending: Sending = unannounced) -> Answered:
    """Make one call through any transport. ``sending`` is awaited before anything of it may reach the tool.

    Raises:
        ToolError: from the transport.
    """
    try:
        if isinstance(transport, AnnouncingTransport):
            return await transport.announced(arguments, sending)
        await sending()
        value = await transport(arguments)
    except Exception:
        raise
    except BaseException as error:  # as SystemExit: it would end the task of the call, and the event loop with it
        from atc.tools.bugs import is_of_host

        if is_of_host(error):
            raise
        name = type(error).__name__
        raise ToolError(f"{name}: {error}", status=name, outcome="unknown", raised=error) from error
    return value if isinstance(value, Answered) else Answered(value)


class GradedTransport(abc.ABC):
    """Mixin of a transport that takes a failure otherwise where its tool only reads: nothing can have been done."""

    @abc.abstractmethod
    def graded(self, *, reads: bool) -> Transport:
        """The same transport, for a tool that is taken for a read, or is not."""


@dataclass(frozen=True)
class MissingCredential:
    """A credential that the document of some tools asks for, and that nobody has given.

    Attributes:
        scheme: the name of the document's security scheme.
        variable: of the environment, which may hold it.
        tools: the names of the tools that cannot do without it.
        reason: why it is not there, where a recording had it.
        session: the recorded login that it is of; ``None`` where no recording had it.
    """

    scheme: str
    variable: str
    tools: tuple[str, ...] = ()
    reason: MissingReason = ""
    session: RecordedSession | None = None


@dataclass(frozen=True)
class OtherAddress:
    """That a document names another address for its service than the one where it was found.

    Attributes:
        named: the base URL that the document names: calls go there.
        found: the same at the place that the document was read from.
    """

    named: str
    found: str


@dataclass(frozen=True)
class FoundDocument:
    """How the document of a service was found, of which the user gave the address alone.

    Attributes:
        url: where it was found.
        named_by: the page that names it; empty where it stands in a usual place.
        others: the paths of further documents that the same page names.
        elsewhere: hosts that pages and redirects named, and that were not asked.
        requests: how many were made.
        is_listing: it is none that the service publishes, but made of the paths that ``url`` lists.
    """

    url: str
    named_by: str = ""
    others: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    requests: int = 0
    is_listing: bool = False


class ServiceTransport:
    """Mixin of a transport to a service: on whose account its calls are made, and what the service's document says.

    What a transport does not say is not known.
    """

    @property
    def account(self) -> Mapping[str, str]:
        """Return what says where a call goes and for whom, by its kind and name: ``address``, ``header x-account``,
        ``login``. There are credentials among the values: nobody shows one, or keeps more than a digest of it."""
        return {}

    @property
    def session(self) -> RecordedSession | None:
        """The recorded login that goes with a call; ``None`` without one."""
        return None

    @property
    def missing(self) -> MissingCredential | None:
        """The credential that is asked for and not given. The document may be wrong: a call is tried all the same."""
        return None

    @property
    def sends_credential(self) -> bool:
        """Whether a credential of the user's is known to go with a call."""
        return False

    @property
    def other_address(self) -> OtherAddress | None:
        """The two addresses, where the one that is called may be meant for another place."""
        return None


class WrappingTransport(ServiceTransport):
    """Mixin of a transport around another one: its calls go out on the same account, and with the same login."""

    inner: Transport

    @property
    def account(self) -> Mapping[str, str]:
        return service_of(self.inner).account

    @property
    def session(self) -> RecordedSession | None:
        return service_of(self.inner).session


def service_of(transport: Transport | None) -> ServiceTransport:
    """What a transport says of its service."""
    return transport if isinstance(transport, ServiceTransport) else ServiceTransport()


@dataclass(frozen=True)
class Tool:
    """One tool: what is known about it and how it is called. Without a transport it can be shown, not called.

    Attributes:
        drifted: whether it answers differently from its document; a program that follows the document will likely fail.
        undo: the call that undoes one of it, in the user's own words; a stranger's document has none.
        said_key: what the user's permissions say of the idempotency keys of its calls.
        kept: the program that it is, where it is a kept one: it has no transport then, and programs alone call it.
        inner: the tools that a kept program calls, kept ones among them, by the names that it writes. They go where it
            goes: whoever narrows a toolset to it can still run it. A tool may have another name than the program
            writes.
    """

    protocol: Protocol
    transport: Transport | None = None
    drifted: bool = False
    undo: str = ""
    said_key: IdempotencyKey | None = None
    kept: KeptProgram | None = None
    inner: Mapping[str, Tool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name under which programs call it."""
        return self.protocol.name

    @property
    def sends_credential(self) -> bool:
        """Whether a credential of the user's is known to go with a call."""
        return service_of(self.transport).sends_credential

    @property
    def session(self) -> RecordedSession | None:
        """The recorded login that goes with a call; ``None`` without one."""
        return service_of(self.transport).session

    def called(self, name: str) -> Tool:
        """The tool under a name that has its source in front; its plain name is kept in its protocol."""
        source = self.protocol.source.model_copy(update={"name": self.protocol.plain_name})
        return replace(self, protocol=self.protocol.model_copy(update={"name": name, "source": source}))

    @lazy
    def key_rule(self) -> KeyRule | None:
        """How its calls bear an idempotency key; ``None`` where they bear none."""
        transport = self.transport
        if not isinstance(transport, KeyedTransport):
            return None
        said = self.said_key or IdempotencyKey()
        place = said.place or transport.key_place
        if place is None or place.kind != transport.key_kind:
            return None
        return KeyRule(place, WINDOW_S if said.window_s is None else said.window_s)

    def bearing(self, said: IdempotencyKey | None) -> Tool:
        """The tool whose calls bear an idempotency key as the user says. What stands there is no argument any more."""
        if said is None:
            return self
        made, place = replace(self, said_key=said), said.place
        argument = None
        if place is not None and isinstance(self.transport, KeyedTransport):
            argument = self.transport.argument_at(place)
        parameters = self.protocol.parameters
        if argument is None or argument not in parameters.get("properties", {}):
            return made
        left = {name: each for name, each in parameters["properties"].items() if name != argument}
        required = [name for name in parameters.get("required", ()) if name != argument]
        parameters = {key: each for key, each in parameters.items() if key != "required"} | {"properties": left}
        parameters |= {"required": required} if required else {}
        return replace(made, protocol=self.protocol.model_copy(update={"parameters": parameters}))

    def with_inner(self, inner: Mapping[str, Tool]) -> Tool:
        """A kept program with these tools to call: its effect is the strongest of theirs, and strangers write what it
        returns where they write what one of them does.

        Args:
            inner: the tools by the names that the program writes.
        """
        words = {tool.protocol.untrusted for tool in inner.values()}
        update = {
            "effect": strongest(tool.protocol.effect for tool in inner.values()),
            "untrusted": True if True in words else None if None in words else False,
        }
        return replace(self, protocol=self.protocol.model_copy(update=update), inner=dict(inner))

    def with_protocol_of(self, known: Mapping[str, Protocol], moved: Collection[str]) -> Tool:
        """The tool with the protocol of its name, as :meth:`Toolset.with_protocols` says."""
        own = self.protocol
        if self.kept is not None:
            return self.with_inner({name: each.with_protocol_of(known, moved) for name, each in self.inner.items()})
        protocol = known.get(self.name, own)
        update = {
            "effect": own.effect,
            "source": own.source,
            "untrusted": True if protocol.untrusted else own.untrusted,
        }
        return replace(self, protocol=protocol.model_copy(update=update), drifted=self.name in moved)

    def graded(self, effect: Effect) -> Tool:
        """The tool with this effect; itself if it has this effect already."""
        if effect is self.protocol.effect:
            return self
        transport = self.transport
        if isinstance(transport, GradedTransport):
            transport = transport.graded(reads=effect is Effect.READ)
        return replace(self, protocol=self.protocol.model_copy(update={"effect": effect}), transport=transport)


def signatures(tools: Mapping[str, Tool]) -> dict[str, list[str]]:
    """Return the names of each tool's parameters in positional order, as a sandbox job takes them."""
    return {name: [parameter.name for parameter in parameters_of(tool.protocol)] for name, tool in tools.items()}


def _is_same(tool: Tool, other: Tool) -> bool:
    one, two = (each.protocol.source.model_copy(update={"name": ""}) for each in (tool, other))
    return one == two


def _told_apart(tools: list[Tool]) -> list[Tool]:
    counts = Counter(tool.protocol.plain_name for tool in tools)
    if len(counts) == len(tools):
        return tools
    shared = [tool for tool in tools if counts[tool.protocol.plain_name] > 1]
    if kept := next((tool for tool in shared if tool.kept is not None), None):
        raise UsageError(
            f"a kept program and a tool are named {kept.name!r}: leave one out, or keep the run again with another name"
        )
    places: dict[str, set[tuple[str, str]]] = {}
    for tool in shared:
        source = tool.protocol.source
        places.setdefault(tool.protocol.plain_name, set()).add((source.kind, source.location))
    apart = {id(tool) for tool in shared if len(places[tool.protocol.plain_name]) > 1 and tool.protocol.source.label}
    taken = {tool.name for tool in tools if id(tool) not in apart}
    ways: list[Callable[[Protocol], str]] = [lambda each: each.full_name, _placed_name, _marked_name]
    uses = [Counter(way(tool.protocol) for tool in tools if id(tool) in apart) for way in ways]

    def name_of(tool: Tool) -> str:
        names = [way(tool.protocol) for way in ways]
        free = (name for name, used in zip(names, uses, strict=True) if used[name] == 1 and name not in taken)
        return next(free, names[-1])

    return [tool.called(name_of(tool)) if id(tool) in apart else tool for tool in tools]


def _placed_name(protocol: Protocol) -> str:
    """A name with title and place in front, for two sources of one title, as ``FastAPI`` often is."""
    return tool_name(f"{protocol.source.prefix} {protocol.source.place} {protocol.plain_name}")


def _marked_name(protocol: Protocol) -> str:
    """A name with a digest of where the tool comes from, where nothing that can be read tells two sources apart."""
    source = protocol.source
    digest = hashlib.sha256(f"{source.kind}\0{source.location}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{protocol.full_name[: MAX_NAME - 7].rstrip('_')}_{digest[:6]}"


class Toolset(Mapping[str, Tool]):
    """An immutable set of tools, by name, in the order they were given.

    Build one with :meth:`from_functions`, :meth:`from_openapi`, :meth:`from_har`, :meth:`from_mcp` or
    :meth:`from_protocols`, or out of other frameworks with :meth:`from_langchain`, :meth:`from_pydantic_ai` or
    :meth:`from_smolagents`; join two with ``+``; narrow one with :meth:`select` (patterns) or :meth:`only` (names).

    Tools of several sources that have one name are all called after their source, whatever the order: ``list_items`` of
    the services "Shop" and "Library" become ``shop_list_items`` and ``library_list_items``. The source is called by its
    title, else by its module or class, file or host.

    Attributes:
        left_out: kept programs that were asked for with these tools and are not among them, each with the reason.
        found: how the documents were found, where the address of a service was given.

    Raises:
        UsageError: two tools of one source have the same name, or a kept program has the name of a tool.
    """

    left_out: tuple[LeftOut, ...] = ()
    found: tuple[FoundDocument, ...] = ()

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in _told_apart(list(tools)):
            if tool.name in self._tools:
                where = tool.protocol.source.location
                both = f" and both come from {where}" if where else ""
                raise UsageError(f"two tools are named {tool.name!r}{both}: leave one out, or rename it at its source")
            self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def items(self) -> ItemsView[str, Tool]:
        return self._tools.items()  # a mapping by itself looks each of thousands up again

    def values(self) -> ValuesView[Tool]:
        return self._tools.values()

    def __repr__(self) -> str:
        shown = ", ".join(list(self._tools)[:6])
        return f"Toolset({len(self)}: {shown}{', …' if len(self) > 6 else ''})"

    def __add__(self, other: Toolset) -> Toolset:
        made = Toolset([*self.values(), *other.values()])
        made.left_out = self.left_out + other.left_out
        made.found = self.found + other.found
        return made

    @property
    def protocols(self) -> list[Protocol]:
        return [tool.protocol for tool in self.values()]

    @cached_property
    def source_keys(self) -> Mapping[str, SourceKey]:
        """What each tool is known by at its source, by its name; not those that two tools share."""
        keys = {name: key for name, tool in self.items() if (key := tool.protocol.source.key) is not None}
        counts = Counter(keys.values())
        return {name: key for name, key in keys.items() if counts[key] == 1}

    @cached_property
    def by_source_key(self) -> Mapping[SourceKey, str]:
        """The name of each tool of :attr:`source_keys`."""
        return {key: name for name, key in self.source_keys.items()}

    @cached_property
    def inner_tools(self) -> Toolset:
        """The tools that the kept programs of this set call, one through the other, and that are not in it: a run opens
        and grants them, and shows them to no model. No kept program is among them.

        A tool of this set stands for the same tool of its source, also where a kept program has it otherwise.

        Raises:
            UsageError: a kept program calls a tool whose name another tool has.
        """
        found: dict[str, Tool] = {}
        open_ = [tool for tool in self.values() if tool.kept is not None]
        seen = set(map(id, open_))
        while open_:
            for tool in open_.pop().inner.values():
                if id(tool) in seen:
                    continue
                seen.add(id(tool))
                if tool.kept is not None:
                    open_.append(tool)
                    continue
                known = self.get(tool.name) or found.get(tool.name)
                if known is not None and not _is_same(known, tool):
                    raise UsageError(
                        f"a kept program calls {tool.name!r} of {tool.protocol.source.label!r}, and another tool has "
                        "this name: name the sources of both, or leave the kept program out"
                    )
                if known is None:
                    found[tool.name] = tool
        return Toolset(found.values())

    def with_kept(self, path: str | Path) -> Toolset:
        """These tools and kept programs that call them: see :func:`atc.tools.kept_tools.import_kept`.

        Args:
            path: a file ``NAME.atc``, or a folder of such files, that you have trusted (``atc trust``); ``"kept"`` is
                your own folder of them.

        Raises:
            ToolImportError: a file cannot be taken; the file, the place and what to do are named.
        """
        return _imported("kept")(self, path)

    def only(self, *names: str) -> Toolset:
        """The named tools, in the order given.

        Raises:
            UsageError: a name is not in the set.
        """
        missing = [name for name in names if name not in self]
        if missing:
            raise UsageError(f"no tool named {', '.join(map(repr, missing))} in {self!r}")
        return self._narrowed(self[name] for name in names)

    def select(self, *patterns: str) -> Toolset:
        """The tools whose name fits one of the shell patterns (``"get_*"``).

        A tool may also be named with its source in front where it needs none (``"shop_list_items"``); it then has that
        name. A pattern with wildcards is about the name without the source, too.

        Raises:
            UsageError: a pattern fits no tool.
        """
        if (problem := self.problem_of(patterns)) is not None:
            raise problem
        return self.fitting(patterns)

    def problem_of(self, patterns: Iterable[str]) -> UsageError | None:
        """What is wrong with the first of some patterns that fits no tool, and what was meant, perhaps."""
        unfit = (pattern for pattern in patterns if not self.fitting([pattern]))
        return next((UsageError(self._unfit(pattern)) for pattern in unfit), None)

    def fitting(self, patterns: Collection[str]) -> Toolset:
        """As :meth:`select`, where a pattern may fit no tool."""
        unknown = {pattern for pattern in patterns if pattern.isidentifier() and pattern not in self}
        chosen = []
        for tool in self.values():
            plain = tool.protocol.plain_name
            if any(fnmatchcase(tool.name, each) or (each != plain and fnmatchcase(plain, each)) for each in patterns):
                chosen.append(tool)
            elif unknown and tool.kept is None and (full := tool.protocol.full_name) in unknown:
                chosen.append(tool.called(full))
        return self._narrowed(chosen)

    def _narrowed(self, tools: Iterable[Tool]) -> Toolset:
        made = Toolset(tools)
        made.left_out, made.found = self.left_out, self.found
        return made

    def _unfit(self, pattern: str) -> str:
        if not self:
            return f"no tool fits the pattern {pattern!r}"
        if shared := called_after_sources(pattern, self.protocols):
            return f"several sources have a tool {pattern!r}: name the one that you mean, {' or '.join(shared)}"
        near = get_close_matches(pattern, self, 3) if len(pattern) <= MAX_NAME else []
        meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(list(self)[:6])}"
        more = ", …" if not near and len(self) > 6 else ""
        return f"no tool fits the pattern {pattern!r}: {meant}{more}"

    def missing_credentials(self) -> list[MissingCredential]:
        """The credentials that these tools' documents ask for, and that nobody has given."""
        found: dict[MissingCredential, list[str]] = {}
        for tool in self.values():
            if (missing := service_of(tool.transport).missing) is not None:
                found.setdefault(missing, []).append(tool.name)
        return [replace(missing, tools=tuple(tools)) for missing, tools in found.items()]

    def other_addresses(self) -> list[OtherAddress]:
        """The addresses that these tools' documents name, where they may be meant for another place."""
        found: dict[OtherAddress, None] = {}
        for tool in self.values():
            if (other := service_of(tool.transport).other_address) is not None:
                found[other] = None
        return [*found]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Toolset]:
        """Hold what the transports need (HTTP clients) for the length of the block."""
        async with AsyncExitStack() as stack:
            seen: set[Any] = set()
            for tool in self.values():
                manager = tool.transport.opened() if tool.transport else None
                if manager is not None and manager not in seen:
                    seen.add(manager)
                    await stack.enter_async_context(manager)
            yield self

    def documented(self, directory: str | Path) -> Toolset:
        """These tools with the protocol documents of a folder in place of their own, by name; others stay as they are.

        Args:
            directory: what ``atc probe -o`` wrote, or documents of your own. Effects are not taken from there. A tool
                that ``atc probe --check`` found to have moved is marked (:attr:`Tool.drifted`).

        Raises:
            ToolImportError: the folder cannot be read, or none of its documents is of one of these tools.
        """
        return _imported("documented")(self, directory)

    def with_protocols(self, known: Mapping[str, Protocol], moved: Collection[str] = ()) -> Toolset:
        """These tools with other protocols, by name; others stay as they are. Effects and sources stay, and so
        does that strangers write what a tool returns. A kept program stays as it is; the tools that it calls do not.

        Args:
            known: protocols by the names of tools; those of no tool of this set do not count.
            moved: names of the tools that answer otherwise than their protocols say.
        """
        return self._narrowed(tool.with_protocol_of(known, moved) for tool in self._tools.values())

    @classmethod
    def from_functions(cls, *functions: Callable[..., Any]) -> Toolset:
        """Tools from Python functions: see :func:`atc.tools.functions.tool_from_function`."""
        return _imported("functions")(*functions)

    @classmethod
    def from_openapi(cls, source: str | Path | dict[str, Any], **options: Any) -> Toolset:
        """Tools from an OpenAPI document: see :func:`atc.tools.openapi.read_openapi` for the options."""
        return _imported("openapi")(source, **options)

    @classmethod
    def from_har(cls, path: str | Path, **options: Any) -> Toolset:
        """Tools from a recording of a browser: see :func:`atc.tools.har.from_har` for the options."""
        return _imported("har")(path, **options)

    @classmethod
    def from_mcp(cls, source: str | Path | Sequence[str] | Mapping[str, Any], **options: Any) -> Toolset:
        """Tools from MCP servers: see :func:`atc.tools.mcp.import_mcp` for the forms and the options."""
        return _imported("mcp")(source, **options)

    @classmethod
    def from_langchain(cls, tools: Any, **options: Any) -> Toolset:
        """Tools from LangChain: see :func:`atc.tools.adapters.import_langchain` for the forms and the options."""
        return _imported("langchain")(tools, **options)

    @classmethod
    def from_pydantic_ai(cls, tools: Any, **options: Any) -> Toolset:
        """Tools from pydantic-ai: see :func:`atc.tools.adapters.import_pydantic_ai` for the forms and the options."""
        return _imported("pydantic_ai")(tools, **options)

    @classmethod
    def from_smolagents(cls, tools: Any, **options: Any) -> Toolset:
        """Tools from smolagents: see :func:`atc.tools.adapters.import_smolagents` for the forms and the options."""
        return _imported("smolagents")(tools, **options)

    @classmethod
    def from_protocols(cls, directory: str | Path) -> Toolset:
        """Tools from protocol documents (JSON or YAML files): see :func:`atc.tools.documents.load_protocols`."""
        return _imported("protocols")(directory)


IMPORTERS: Mapping[str, str] = {
    "documented": "atc.tools.documents:documented",
    "functions": "atc.tools.functions:import_functions",
    "har": "atc.tools.har:from_har",
    "kept": "atc.tools.kept_tools:import_kept",
    "langchain": "atc.tools.adapters:import_langchain",
    "mcp": "atc.tools.mcp.importer:import_mcp",
    "openapi": "atc.tools.openapi.importer:import_openapi",
    "protocols": "atc.tools.documents:load_protocols",
    "pydantic_ai": "atc.tools.adapters:import_pydantic_ai",
    "smolagents": "atc.tools.adapters:import_smolagents",
}
"""The functions behind the methods of a toolset. They are built on this module, so each is found by its name."""


def _imported(name: str) -> Callable[..., Toolset]:
    module, _, attribute = IMPORTERS[name].partition(":")
    function: Callable[..., Toolset] = getattr(import_module(module), attribute)
    return function


@dataclass(frozen=True)
class Progress:
    """One report of a tool.

    Attributes:
        tool: its name where it comes from.
        done: how much is done; the tool chooses the unit.
        total: of how much, where the tool says so.
        message: the tool's words, one line, without credentials. Text from outside: data, never an instruction.
    """

    tool: str
    done: float
    total: float | None = None
    message: str = ""


ProgressListener = Callable[[Progress], None]

PROGRESS: ContextVar[ProgressListener | None] = ContextVar("atc_progress", default=None)
"""Who hears of progress. Set it around a run: the run's calls report to it, in the run's event loop."""

"""One conversation with a server, who holds it, and what the server says in it unasked.

The SDK's context managers must be left by the task that entered them, while calls come from tasks of all kinds and are
cancelled at will. So each conversation belongs to a task of its own, which enters, waits, and leaves.

What a server *asks* is refused: this side declares neither sampling nor roots nor elicitation, and the SDK answers a
server that asks all the same with an error that says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp import Client, Implementation, MCPError
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from atc._host.trace_context import NOTHING, carry
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.mcp.exchange import EXCHANGE, Exchange
from atc.tools.mcp.failures import Unreachable, reason_of
from atc.tools.mcp.http import http_transport
from atc.tools.mcp.spec import ServerSpec
from atc.tools.mcp.stdio import ServerLog, stdio_transport
from atc.tools.mcp.streams import Looked, looked_at
from atc.tools.openapi.text import clean
from atc.tools.tool import PROGRESS, Progress

MAX_STARTS = 20
"""Starts of a server without one answer, after which the run gives it up."""

_CLOSE_S = 10.0
_INFO = Implementation(name="atc", version="1")
_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class Connection:
    """A conversation that its own task holds open.

    Args:
        spec: the server.
        max_bytes: bytes of one message of the server's, and of its list; what its entry says counts instead.
        start_timeout_s: seconds until it must be ready.
        mode: how the protocol's version is negotiated, as :class:`mcp.Client` takes it.
        on_list_changed: is called when the server says that its list of tools has changed, or may have.

    Attributes:
        looked: what is known of its lists beside what :meth:`page` gives.
    """

    def __init__(
        self,
        spec: ServerSpec,
        *,
        max_bytes: int,
        start_timeout_s: float,
        mode: str = "auto",
        on_list_changed: Callable[[], None] | None = None,
    ) -> None:
        self.spec = spec
        self._on_list_changed = on_list_changed
        self.log = ServerLog()
        self.lost = False
        self.looked = Looked()
        self.max_bytes, self._start_timeout_s, self._mode = spec.max_bytes or max_bytes, start_timeout_s, mode
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + start_timeout_s
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = loop.create_future()
        self.exchange = Exchange()
        self._calls, self._idle = 0, asyncio.Event()
        self._idle.set()
        self._owner = asyncio.create_task(self._own(), name="atc-mcp")

    @property
    def over(self) -> bool:
        """Whether it has come to its end: nothing can be sent any more."""
        return self.lost or self.log.ended

    async def ready(self) -> Client:
        """Wait until it can be used.

        Raises:
            Unreachable: it cannot, or not in time.
        """
        if not self._ready.done():
            await asyncio.wait({self._ready}, timeout=self._deadline - asyncio.get_running_loop().time())
        if not self._ready.done():
            self._fail(Unreachable(f"did not answer within {self._start_timeout_s:g} s{self.log.summary(self.spec)}"))
            self._owner.cancel()
        return self._ready.result()

    async def settled(self) -> None:
        """Give a conversation that broke a moment to come to its end, so that the reason is known."""
        await asyncio.wait({self._owner}, timeout=0.2)

    async def retire(self) -> None:
        """End it once no call is under way: where a session is gone, the server says so to each."""
        idle = asyncio.ensure_future(self._idle.wait())
        try:
            await asyncio.wait({self._owner, idle}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
            await self.close()

    async def close(self) -> None:
        """End it, with the server's process if it is one of ours."""
        self._stop.set()
        if not self._ready.done():
            self._owner.cancel()  # it waits for a greeting, not for us
        try:
            _, waiting = await asyncio.wait({self._owner}, timeout=_CLOSE_S)
            if waiting:
                self._owner.cancel()
                await asyncio.wait({self._owner}, timeout=_CLOSE_S)
        except asyncio.CancelledError:
            self._owner.cancel()  # it kills before it leaves
            raise

    async def _own(self) -> None:
        EXCHANGE.set(self.exchange)
        carry(NOTHING)  # the call that began the conversation is not the one that every later message belongs to
        try:
            async with self._client() as client:
                if not self._ready.done():
                    self._ready.set_result(client)
                async with following(client, self._on_list_changed):
                    await self._stop.wait()
        except asyncio.CancelledError:
            self._fail(Unreachable("was stopped"))
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            why = reason_of(error, self.exchange, self.spec) + self.log.summary(self.spec)
            self._fail(Unreachable(why, self.exchange))
        finally:
            self.lost = True

    def _fail(self, error: Unreachable) -> None:
        self.lost = True
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # looked at: nobody may be waiting

    def _client(self) -> Client:
        if self.spec.url:
            transport: Any = http_transport(self.spec, self.max_bytes)
        else:
            transport = stdio_transport(self.spec, self.log, self.max_bytes)
        transport = looked_at(transport, self.looked)
        handler = handler_of(self._on_list_changed) if self._on_list_changed is not None else None
        return Client(transport, mode=self._mode, client_info=_INFO, cache=None, message_handler=handler)

    async def page(self, cursor: str | None) -> types.ListToolsResult:
        """One page of the server's tools.

        Raises:
            MCPError: the server refuses, or went away.
            pydantic.ValidationError: what it sent is no list of tools.
        """
        client = await self.ready()
        self.looked.aside = client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        with _tracking(self.exchange):
            page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        if self.looked.aside:
            page.tools = [*self.looked.tools]
        for tool in page.tools:
            tool.output_schema = self.looked.answers.get(tool.name, tool.output_schema)
        return page

    async def call(
        self,
        client: Client,
        name: str,
        arguments: dict[str, Any],
        exchange: Exchange,
        meta: dict[str, Any] | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call one tool. The answer is not held to its schema here: the broker does that, in linear time.

        Raises:
            MCPError: the server refuses, or went away.
            pydantic.ValidationError: what it sent is no answer.
        """
        noted: dict[str, Any] = {"_meta": cast(types.RequestParamsMeta, meta)} if meta else {}
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments, **noted))
        progress = forwarding(name, self.spec)
        self._calls += 1
        self._idle.clear()
        try:
            with _tracking(exchange):
                try:
                    return await client.session.send_request(request, _ANSWER, progress_callback=progress)
                except MCPError as error:
                    if error.code != types.HEADER_MISMATCH:
                        raise
                await self._relist()  # the server wants arguments in headers too; it said so before it did anything
                return await client.session.send_request(request, _ANSWER, progress_callback=progress)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _relist(self) -> None:
        cursor = None
        for _ in range(100):
            cursor = (await self.page(cursor)).next_cursor
            if cursor is None:
                return


@contextmanager
def _tracking(exchange: Exchange) -> Iterator[None]:
    token = EXCHANGE.set(exchange)
    try:
        yield
    finally:
        EXCHANGE.reset(token)


@dataclass
class HeldServer:
    """What an event loop holds of a server: its conversation, and those that are just ending."""

    starts: int = 0
    connection: Connection | None = None
    ending: list[asyncio.Task[None]] = field(default_factory=list)


class McpServer(HeldPerLoop[HeldServer]):
    """A server that the tools of an import share: one conversation for each running event loop.

    The server is started at the first call, and once more at the first call after it died; the last user to leave ends
    it.

    Args:
        spec: the server.
        timeout_s: seconds that one call may take in all.
        start_timeout_s: seconds until the server must be ready.
        max_bytes: bytes of one answer.
    """

    def __init__(self, spec: ServerSpec, *, timeout_s: float, start_timeout_s: float, max_bytes: int) -> None:
        super().__init__()
        self.spec = spec
        self.timeout_s = timeout_s
        self.max_bytes = spec.max_bytes or max_bytes
        self._start_timeout_s = start_timeout_s
        self._mode = "auto"

    def __repr__(self) -> str:
        return f"McpServer({self.spec.location!r})"

    def _make(self) -> HeldServer:
        return HeldServer()

    async def _close(self, resource: HeldServer) -> None:
        self._end(resource)
        try:
            await asyncio.gather(*resource.ending, return_exceptions=True)
        except asyncio.CancelledError:  # a second Ctrl-C, say: the children are killed, not waited for
            await asyncio.gather(*resource.ending, return_exceptions=True)
            raise

    def connect(self) -> Connection:
        """Begin a conversation. Whoever does so closes it."""
        return Connection(self.spec, max_bytes=self.max_bytes, start_timeout_s=self._start_timeout_s, mode=self._mode)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Connection, Client]]:
        """The loop's conversation, ready; one for the length of the block when the server is not entered.

        Raises:
            Unreachable: the server cannot be used; no call was made.
        """
        if (held := self._current()) is not None:
            connection = self._live(held)
            yield connection, self._known(await connection.ready())
            return
        connection = self.connect()
        try:
            yield connection, self._known(await connection.ready())
        finally:
            await connection.close()

    def answered(self) -> None:
        """The server is well."""
        if (held := self._current()) is not None:
            held.starts = 0

    def reads_still(self, name: str) -> bool:
        """Whether a tool that was taken for a read is one by the server's last list."""
        return True

    def unreached(self, error: Unreachable) -> None:
        """A request over the conversation did not get through, or was not let in; it did nothing."""

    def _live(self, held: HeldServer) -> Connection:
        if held.connection is not None and held.connection.over:
            self._end(held)
        if held.connection is None:
            self._ensure_startable(held)
            held.connection = self.connect()
        return held.connection

    def _end(self, held: HeldServer) -> None:
        if held.connection is not None:
            held.ending = [task for task in held.ending if not task.done()]
            held.ending.append(asyncio.create_task(held.connection.retire()))
            held.connection = None

    def _ensure_startable(self, held: HeldServer) -> None:
        if held.starts >= MAX_STARTS:
            raise Unreachable(f"ended {MAX_STARTS} times without an answer and is not started again")
        held.starts += 1

    def _known(self, client: Client) -> Client:
        """Spare a server that speaks an older version the question on the next connection."""
        if client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            self._mode = "legacy"
        return client


# -- what a server says unasked: that its list has changed, and how far a call has come --------------------------------

LISTEN_AGAIN_S = 5.0
"""Seconds before a subscription that was lost is opened again; ten times as many at most."""

MAX_REPORTS = 1_000
"""Reports of progress that one call may make; the rest is not passed on."""

_MAX_MESSAGE = 200


def handler_of(changed: Callable[[], None]) -> MessageHandlerFnT:
    """The handler of the notifications of a server of an older version."""

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    return handle


@asynccontextmanager
async def following(client: Client, changed: Callable[[], None] | None) -> AsyncIterator[None]:
    """Subscribe, for the length of the block, to changes of the list of a server of a newer version."""
    if changed is None or client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _announces(client):
        yield
        return
    task = asyncio.create_task(_listen(client, changed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _announces(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    EXCHANGE.set(Exchange())  # how the subscription's request ends says nothing about the conversation
    wait_s = LISTEN_AGAIN_S
    while True:
        try:
            async with client.listen(tools_list_changed=True) as events:
                wait_s = LISTEN_AGAIN_S
                async for _ in events:
                    changed()
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                return
        await asyncio.sleep(wait_s)
        wait_s = min(10 * LISTEN_AGAIN_S, 2 * wait_s)
        changed()  # what happened in between was not heard


def forwarding(name: str, spec: ServerSpec) -> ProgressFnT | None:
    """What passes a call's progress on to who listens; ``None`` where nobody does, and the server need not report."""
    listener = PROGRESS.get()
    if listener is None:
        return None
    reports, heard = 0, listener

    async def forward(progress: float, total: float | None, message: str | None) -> None:
        nonlocal reports
        reports += 1
        if reports > MAX_REPORTS or not math.isfinite(progress) or (total is not None and not math.isfinite(total)):
            return
        said = " ".join(clean(spec.secrets.text(message or ""), 4 * _MAX_MESSAGE).split())[:_MAX_MESSAGE]
        heard(Progress(name, progress, total, said))

    return forward

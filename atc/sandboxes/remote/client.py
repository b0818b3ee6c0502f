"""The ``service`` sandbox: programs run elsewhere, behind HTTP; their tool calls come back and are executed here.

A caller's WebSocket is the channel to its program.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import random
import ssl
import threading
import time
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from atc._host.trace_context import carried
from atc._records.outcome import Outcome
from atc.calls.clock import Clock
from atc.calls.contract import CallHandler
from atc.errors import FrameError, SandboxUnavailable, SettingsError
from atc.sandboxes.channel.frames import Channel, Listener
from atc.sandboxes.channel.session import Session
from atc.sandboxes.contract import Job, Limits, Sandbox, least
from atc.sandboxes.process.driver import tiers_from
from atc.sandboxes.remote import messages


class ServiceChannel(Channel):
    """The channel of one run, with how the run ended.

    Args:
        connection: the open WebSocket.
        limits: what the program may use at most.
        message_bytes: the largest message that the service takes.
        clock: the program's: the service gets a message when it stops and goes on.

    Attributes:
        outcome: how the program ended, without its value and error.
        refusal: why the service would not go on.
        handed_over: whether the program may have run by then.
    """

    def __init__(self, connection: ClientConnection, limits: Limits, message_bytes: int, clock: Clock) -> None:
        self._connection, self._limits, self._most, self._clock = connection, limits, message_bytes, clock
        self.outcome: Outcome | None = None
        self.refusal = ""
        self.handed_over = True
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._pumps: list[asyncio.Task[None]] = []

    def listen(self, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        self._pumps = [loop.create_task(self._listen(listener)), loop.create_task(self._follow_clock())]

    def pause(self) -> None:
        self._wanted.clear()

    def resume(self) -> None:
        self._wanted.set()

    async def _listen(self, listener: Listener) -> None:
        try:
            while (frame := await self._receive()) is not None:
                listener.on_frame(frame)
                await self._wanted.wait()
        except FrameError as error:
            listener.on_end(error)
        else:
            listener.on_end(None)

    async def _follow_clock(self) -> None:
        """Send a message whenever the clock stops or goes on; of changes that come faster, only the last."""
        changed = asyncio.Event()
        sent = False
        with self._clock.watched(lambda _: changed.set()), contextlib.suppress(ConnectionClosed):
            while True:
                if sent != self._clock.stopped:
                    sent = self._clock.stopped
                    await self._connection.send(messages.encode(messages.pause_message(sent)), text=True)
                else:
                    await changed.wait()
                    changed.clear()

    async def _receive(self) -> dict[str, Any] | None:
        try:
            body = await self._connection.recv(decode=True)
        except ConnectionClosed as error:
            self.refusal = self.refusal or _why_closed(error)
            return None
        if not isinstance(body, str):
            raise FrameError("it sent bytes instead of text")
        self.received += len(body)
        message = messages.decode(body)
        match message.get("op"):
            case "call":
                return message
            case "refused":
                self.refusal = str(message.get("message"))[:1000]
                self.handed_over = message.get("handed_over") is not False
                return None
            case "outcome":
                self.outcome = messages.outcome_of(message)
                return _report(message)
        raise FrameError("it sent a message of no known kind")

    async def send(self, message: dict[str, Any]) -> None:
        if message["op"] == "run":
            limits = dataclasses.asdict(self._limits)
            del limits["host_s"]  # the service has a share of its own for each program
            message = {**message, "limits": limits}
        body = messages.encode(message)
        if why := self._unacceptable(body):
            if message["op"] == "run":
                raise SandboxUnavailable(f"the sandbox service does not take this program: {why}")
            error = {"message": f"its response cannot be passed on: {why}", "status": None}
            body = messages.encode({"op": "reply", "id": message["id"], "error": error})
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(body, text=True)

    async def close(self) -> None:
        """Let the connection go; the service ends a program whose caller has gone."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self.outcome is not None:
            self._connection.transport.abort()  # the outcome is here: there is nothing to wait for
        else:
            await self._connection.close()

    def _unacceptable(self, body: bytes) -> str:
        if len(body) > self._most:
            return f"it takes {len(body):,} bytes, and the service takes {self._most:,}"
        return messages.acceptable(body)


def _report(message: dict[str, Any]) -> dict[str, Any] | None:
    match message["kind"]:
        case "finished":
            report = {name: message.get(name) for name in ("answered", "value")}
            return {"op": "done", **report, "say": message.get("said")}
        case "raised":
            return {"op": "raised", "error": message.get("error")}
    return None


def _why_closed(error: ConnectionClosed) -> str:
    code = error.rcvd.code if error.rcvd is not None else None
    if code == 1009:
        return "the service ended the run: a message was too large for it"
    if code in (1001, 1012):
        return "the service was shut down during the run"
    return ""


ASK_S = 10.0
"""Seconds for one request, and for connecting to a run."""
GRACE_S = 5.0
"""Seconds beyond a program's own that the service gets to report its end."""
KEEP_S = 20.0
"""Seconds that a connection is kept for the next run; the service keeps it longer."""
RETRY_STATUSES = (429, 503)
_DROPPED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""The errors of a kept connection that the service closed as we wrote: such a request is sent once more."""
CROWDED_S = 4.0
"""Seconds for which a crowded service is asked again for the channel of a run; the run lapses soon after."""
MAX_PAUSE_S = 30.0
_QUIET = logging.getLogger("atc.service.channel")
_QUIET.setLevel(logging.WARNING)  # the library's debugging lines hold tokens and tools' responses


class ServiceSandbox(Sandbox):
    """Programs run at a sandbox service (``atc sandbox serve``). It executes no tools and gets no credentials.

    Args:
        url: the service's address, ``http://`` or ``https://``.
        token: its token for us.
        limits: what a program may use at most; the service may hold it to less.
        require: the least tier (of :data:`atc.sandboxes.contract.TIERS`) that is accepted there.

    Raises:
        SettingsError: the URL is not the address of a service, or a token is missing.
        SandboxUnavailable: there is no such tier.
    """

    name = "service"

    def __init__(self, url: str, token: str | None, limits: Limits, require: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise SettingsError(f"sandbox: {url[:200]!r} is no address of a service: give https://HOST[:PORT]")
        if parts.username or parts.password:
            raise SettingsError("sandbox: give the service's token in ATC_SANDBOX_TOKEN, not in its address")
        if not token:
            raise SettingsError(f"the sandbox service at {url} needs a token: set ATC_SANDBOX_TOKEN")
        if not token.isascii() or not token.isprintable():
            raise SettingsError("sandbox_token: a token has printable ASCII characters only")
        self._accepted = tiers_from(require)
        self.limits = limits
        self._url, self._token, self._require = url.rstrip("/"), token, require
        self._tier = ""
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    async def prepare(self) -> None:
        """Ask the service for its description, once: what is wrong is known before a program is written."""
        if not self._tier:
            self._tier = self._accept(await self._ask("GET", "/v1/service", ASK_S))

    async def isolation(self) -> str:
        """Return the tier that holds at the service.

        Raises:
            SandboxUnavailable: it cannot be asked, or holds less than is required.
        """
        self._tier = ""
        await self.prepare()
        return self._tier

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        began = time.perf_counter()
        granted = await self._ask("POST", "/v1/runs", job.limits.wall_s, {"require": self._require})
        tier = self._accept(granted)
        limits = least(job.limits, self.limits)
        channel = ServiceChannel(await self._connect(granted, limits), limits, granted["message_bytes"], job.clock)
        session = Session(channel, limits, call, job.host_time)
        try:
            async with job.clock.timeout(limits.wall_s + GRACE_S) as deadline:
                await session.begin(job)
                end = await session.serve()
        except TimeoutError:
            if not deadline.expired():
                raise
            end = Outcome("limit", detail=f"it ran longer than {limits.wall_s:g} s, and the service did not end it")
        except FrameError as error:
            end = Outcome("violation", detail=f"the service broke the rules of the channel: {error}")
        finally:
            await channel.close()
        outcome = self._outcome(end, channel, tier, time.perf_counter() - began)
        return dataclasses.replace(outcome, host_s=session.share.used_s())

    async def aclose(self) -> None:
        with self._lock:
            client = self._clients.pop(asyncio.get_running_loop(), None)
            self._clients.clear()  # of other loops: nothing can be awaited there, their sockets close with them
        if client is not None:
            await client.aclose()

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, patience_s: float, body: Any = None) -> dict[str, Any]:
        """Return one answer of the service. While the service is full, ask again for up to ``patience_s`` seconds."""
        until = time.monotonic() + patience_s
        while True:
            try:
                answer = await self._request(method, path, body)
            except (httpx.HTTPError, OSError) as error:  # OSError: no descriptor is left for the certificates
                raise SandboxUnavailable(
                    f"the sandbox service at {self._url} cannot be reached ({_describe(error)}): is it up "
                    "(`atc sandbox serve`), and is the address right? Nothing was run"
                ) from None
            if answer.status_code not in RETRY_STATUSES:
                return self._read(answer)
            pause = _pause(answer)
            if time.monotonic() + pause > until:
                raise SandboxUnavailable(
                    f"the sandbox service at {self._url} had no room within {patience_s:g} s ({_reason(answer)}): add "
                    "replicas, raise its --max-runs, or run fewer at once"
                )
            await asyncio.sleep(pause)

    async def _request(self, method: str, path: str, body: Any) -> httpx.Response:
        """The second request may grant a second run. The service drops a run that nobody connects to."""
        headers = {**carried(), "Authorization": f"Bearer {self._token}"}
        try:
            return await self._http().request(method, self._url + path, json=body, headers=headers)
        except _DROPPED:
            return await self._http().request(method, self._url + path, json=body, headers=headers)

    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._clients = {each: client for each, client in self._clients.items() if not each.is_closed()}
            if loop not in self._clients:
                limits = httpx.Limits(keepalive_expiry=KEEP_S)
                self._clients[loop] = httpx.AsyncClient(verify=_tls(), timeout=ASK_S, limits=limits)
            return self._clients[loop]

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        status, at = answer.status_code, f"the sandbox service at {self._url}"
        if status in (200, 201):
            try:
                message = messages.decode(answer.text)
            except FrameError:
                message = {}
            if message.get("protocol") == messages.PROTOCOL and type(message.get("message_bytes")) is int:
                return message
            text = f"what answers at {self._url} is no sandbox service of this version: check the address"
            raise SandboxUnavailable(text)
        if status == 401:
            raise SandboxUnavailable(f"{at} does not take our token: set ATC_SANDBOX_TOKEN to one that it knows")
        if status == 409:
            raise SandboxUnavailable(f"{at} refuses: {_reason(answer)}. Lower `sandbox_require`, or change it there")
        if status == 404:
            raise SandboxUnavailable(f"there is no sandbox service at {self._url}: its address has no path of its own")
        raise SandboxUnavailable(f"{at} answered {status}: {_reason(answer)}. Nothing was run")

    def _accept(self, description: dict[str, Any]) -> str:
        tier = description.get("isolation")
        if tier not in self._accepted:
            raise SandboxUnavailable(
                f"the sandbox service at {self._url} isolates programs by tier {str(tier)[:20]}, and {self._require} "
                "is required. Nothing was run. Lower `sandbox_require`, or change it there (`atc doctor` says how)"
            )
        return str(tier)

    async def _connect(self, granted: dict[str, Any], limits: Limits) -> ClientConnection:
        address = urljoin(self._url + "/", str(granted.get("url")).removeprefix("/"))
        if urlsplit(address).scheme != urlsplit(self._url).scheme:
            raise SandboxUnavailable(f"the sandbox service at {self._url} names a channel less safe than it: {address}")
        until = time.monotonic() + CROWDED_S
        while True:
            try:
                return await self._open(address, granted, limits)
            except InvalidStatus as error:
                why = f"status {error.response.status_code}: is it behind a balancer without --set advertise=URL?"
                if error.response.status_code == 503 and time.monotonic() < until:
                    await asyncio.sleep(random.uniform(0.25, 0.75))
                    continue
            except (OSError, TimeoutError, WebSocketException) as error:
                why = _describe(error)
            raise SandboxUnavailable(f"no channel to the sandbox service at {address} ({why}). Nothing was run")

    async def _open(self, address: str, granted: dict[str, Any], limits: Limits) -> ClientConnection:
        return await connect(
            address.replace("http", "ws", 1),
            additional_headers={**carried(), "Authorization": f"Bearer {granted.get('channel_token')}"},
            ssl=_tls() if address.startswith("https:") else None,
            compression=None,
            max_size=messages.most_bytes(limits),
            open_timeout=ASK_S,
            close_timeout=2.0,
            ping_interval=20.0,
            ping_timeout=60.0,
            user_agent_header=None,
            logger=_QUIET,
        )

    def _outcome(self, end: Outcome, channel: ServiceChannel, tier: str, seconds: float) -> Outcome:
        outcome = channel.outcome
        if outcome is None:
            if channel.refusal and not channel.handed_over:
                raise SandboxUnavailable(f"the sandbox service at {self._url} refuses: {channel.refusal}")
            if end.kind == "finished":  # a call ended it here, and the service was not waited for
                return dataclasses.replace(end, seconds=seconds, isolation=tier)
            detail = end.detail or channel.refusal or "the connection to the sandbox service was lost, and it with it"
            return dataclasses.replace(end, detail=detail, seconds=seconds, isolation=tier)
        if outcome.isolation not in self._accepted:
            raise SandboxUnavailable(f"the sandbox service at {self._url} ran a program by tier {outcome.isolation}")
        if outcome.kind in ("finished", "raised"):
            claimed = {"answered": end.answered, "value": end.value, "said": end.said, "error": end.error}
            return dataclasses.replace(outcome, kind=end.kind, **claimed)
        return outcome


def _pause(answer: httpx.Response) -> float:
    """Return seconds to wait before the next request: what the service names, spread over the callers."""
    try:
        asked = float(answer.headers.get("Retry-After", "1"))
    except ValueError:
        asked = 1.0  # a date: no service of ours sends one
    return min(max(asked, 0.1), MAX_PAUSE_S) * random.uniform(0.75, 1.25)


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])[:300]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        return f"status {answer.status_code}"


def _describe(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()

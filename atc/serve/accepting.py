"""How servers take connections: counted from when they are accepted, and bounded; a flood costs others little.

asyncio's own way accepts what comes, for as long as there are descriptors; without any it writes a thousand tracebacks
for each attempt. It counts a connection only once its TLS handshake is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from atc.errors import EnvironmentProblem

ACCEPT_AT_ONCE = 64
"""Connections accepted before others have their turn."""
PAUSE_S = 0.5
"""Seconds for which nothing is accepted after the system could not."""
SAY_S = 1.0
"""Seconds between two lines of the log about the same."""
REFUSING = 64
"""Connections that are being told that there is no room; of more, the oldest is closed."""
REFUSED_S = 1.0
"""Seconds that they get to read it."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\nService Unavailable"
)

log = logging.getLogger("atc.serve.http")


class Seldom(logging.Filter):
    """Lets a line through once in ``seconds``, and says how many were left out: strangers must not fill the log."""

    def __init__(self, seconds: float = SAY_S) -> None:
        super().__init__()
        self._seconds = seconds
        self._next = 0.0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return False
        self._next = now + self._seconds
        if self._left_out:
            record.msg = f"{record.msg} ({self._left_out:,} lines before it were left out)"
            self._left_out = 0
        return True


class Connection:
    """One accepted connection.

    Args:
        group: whose it is: an address, of IPv6 the network that one customer gets.

    Attributes:
        abort: closes it without waiting for anything.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.abort: Callable[[], object] = lambda: None


class Crowd:
    """The connections of one server. For one event loop.

    Over the bound, one that owes a request gives way to who comes from an address that has fewer of those: so an
    address gets no more than its share, however many connections it opens.

    Args:
        most: connections at the same time.
        most_silent: of these, such as owe a request; of more, the oldest gives way, whosever it is.
    """

    def __init__(self, most: int, most_silent: int | None = None) -> None:
        self.most, self._most_silent = most, most_silent
        self._open: set[Connection] = set()
        self._silent: dict[str, OrderedDict[Connection, None]] = {}
        self._order: OrderedDict[Connection, None] = OrderedDict()
        self.refused = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    @property
    def silent(self) -> int:
        """How many of these owe a request."""
        return len(self._order)

    def room_for(self, group: str) -> bool:
        """Whether one more may come from there; a silent one of others may have given way."""
        if len(self._open) < self.most:
            return True
        if self._silent:
            crowding = max(self._silent, key=lambda each: len(self._silent[each]))
            own = len(self._silent.get(group, ()))
            if len(self._silent[crowding]) > (own + 1 if own else 0):  # one each; and more only to be equal
                self._drop(next(iter(self._silent[crowding])))
                return True
        self.refused += 1
        return False

    def enter(self, connection: Connection) -> None:
        """Count a connection that was accepted: it owes a request."""
        self._open.add(connection)
        self.owes(connection, True)

    def leave(self, connection: Connection) -> None:
        """Count a connection no more: it was closed."""
        self._open.discard(connection)
        self.owes(connection, False)

    def owes(self, connection: Connection, owing: bool) -> None:
        """Note whether a connection owes a request, or the rest of one, from now on."""
        if owing and connection in self._open:
            self._order.setdefault(connection)
            self._silent.setdefault(connection.group, OrderedDict()).setdefault(connection)
            if self._most_silent is not None and len(self._order) > self._most_silent:
                self.give_way()
        elif connection in self._order:
            del self._order[connection]
            mine = self._silent[connection.group]
            del mine[connection]
            if not mine:
                del self._silent[connection.group]

    def give_way(self) -> bool:
        """Close the connection that has owed a request for the longest; false where none does."""
        if not self._order:
            return False
        self._drop(next(iter(self._order)))
        return True

    def _drop(self, connection: Connection) -> None:
        self.leave(connection)  # its descriptor goes in the next turn of the loop
        connection.abort()


class _Counted(socket.socket):
    """Tells when its descriptor is given back."""

    closed: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.closed is not None:
            closed, self.closed = self.closed, None
            closed()


class Acceptor:
    """Accepts the connections of one listening socket. It takes the place of :class:`asyncio.Server` for uvicorn.

    Args:
        factory: makes a connection's protocol, whose ``crowd`` and ``connection`` are then set.
        sock: listens.
        crowd: what counts them.
        secure: for TLS.
        handshake_s: seconds that a TLS handshake may take.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        sock: socket.socket,
        crowd: Crowd,
        secure: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._factory, self._sock, self._crowd, self._secure = factory, sock, crowd, secure
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()
        self._refused: deque[socket.socket] = deque()
        self._resume: asyncio.TimerHandle | None = None
        self._closed = False
        self._said = Seldom()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more; what is open stays."""
        self._closed = True
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._sock)
        for task in self._opening:
            task.cancel()
        for sock in self._refused:
            sock.close()

    async def wait_closed(self) -> None:
        """Return at once: nothing of it goes on once it is closed."""

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._cannot(error)
                return
            if self._crowd.room_for(group := _group(address)):
                self._take(_Counted(sock.family, sock.type, sock.proto, sock.detach()), group)
            else:
                self._say("crowded: %d connections are open, more are refused", len(self._crowd))
                self._refuse(sock)

    def _take(self, sock: _Counted, group: str) -> None:
        """Count it and make a transport of it, a TLS handshake included."""
        sock.setblocking(False)
        connection = Connection(group)
        sock.closed = lambda: self._crowd.leave(connection)

        def make() -> Any:
            protocol = self._factory()
            protocol.crowd, protocol.connection = self._crowd, connection
            return protocol

        within = {"ssl_handshake_timeout": self._handshake_s} if self._secure else {}
        work = self._loop.connect_accepted_socket(make, sock, ssl=self._secure, **within)
        task: asyncio.Task[object] = self._loop.create_task(work)

        def opened(task: asyncio.Task[object]) -> None:
            self._opening.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
                self._say("a connection could not be opened: %s", type(error).__name__)
            if task.cancelled() or task.exception() is not None:  # most often a handshake that came to nothing
                sock.close()

        self._opening.add(task)
        task.add_done_callback(opened)
        connection.abort = task.cancel
        self._crowd.enter(connection)

    def _refuse(self, sock: socket.socket) -> None:
        """Say that there is no room, without waiting for what is asked. For https it would take a handshake."""
        if self._secure:
            sock.close()
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.send(_FULL)
            sock.shutdown(socket.SHUT_WR)
        if len(self._refused) >= REFUSING:
            self._refused.popleft().close()
        self._refused.append(sock)  # a socket that is closed with something unread is reset, and nothing was said
        self._loop.call_later(REFUSED_S, self._forget, sock)

    def _forget(self, sock: socket.socket) -> None:
        sock.close()
        with contextlib.suppress(ValueError):
            self._refused.remove(sock)

    def _cannot(self, error: OSError) -> None:
        """Have a silent connection give way where there are no descriptors or no memory, and try again later."""
        self._crowd.give_way()
        self._say("no connection can be accepted: %s (see `ulimit -n`)", error.strerror)
        self._loop.remove_reader(self._sock)
        if self._resume is not None:
            self._resume.cancel()
        self._resume = self._loop.call_later(PAUSE_S, self._loop.add_reader, self._sock, self._accept)

    def _say(self, text: str, *values: object) -> None:
        record = log.makeRecord(log.name, logging.WARNING, __file__, 0, text, values, None)
        if self._said.filter(record):
            log.handle(record)


def _group(address: Any) -> str:
    """Return whose connection it is; for IPv6 the first 64 bits: one customer has as many addresses as it likes."""
    host = str(address[0]) if isinstance(address, tuple) else ""
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(host.partition("%")[0])
        if found.version == 6 and found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
    return host


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one.

    Raises:
        EnvironmentProblem: that cannot be.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise EnvironmentProblem(
            f"the service cannot listen at {host} port {port}: {error}. Give another --host or --port"
        ) from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: asyncio sets it only on sockets it made
    return sock


def raise_descriptors(needed: int) -> int:
    """Raise this process's soft limit of descriptors to what is needed, as far as it may. Return what there are."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return needed
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft != endless and soft < needed:
        wanted = needed if hard == endless else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return needed if soft == endless else soft


def require_descriptors(needed: int, what: str) -> None:
    """Make sure of ``needed`` descriptors.

    Args:
        what: what they are for, and what would need fewer.

    Raises:
        EnvironmentProblem: this process may not have so many.
    """
    if (there := raise_descriptors(needed)) < needed:
        raise EnvironmentProblem(
            f"{needed:,} descriptors are needed ({what}), and this process may have {there:,}: raise the hard limit "
            "(`ulimit -Hn`, LimitNOFILE= of systemd, --ulimit nofile of docker)"
        )

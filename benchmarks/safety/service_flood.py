"""A flood of connections without a token at ``atc sandbox serve``, and what it costs those who have one.

``python -m benchmarks.safety.service_flood [--json] [--runs 32 250] [--kinds …] [--connections 1500] [--own-address]``:
for each number of ``--max-runs`` a service is started on loopback, with the soft limit of descriptors that most
machines have. For each kind of flood: ten runs before it, ten during it, ten after it; the log's growth, descriptors,
memory and processor time of the service meanwhile. The flood comes from another address of this machine than the runs
(``--own-address``: from the same), is one process of its own, and opens again what is closed. Exit code 1 where a run
before or after a flood fails, or the log grew by 100 KB.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import multiprocessing
import os
import resource
import secrets
import selectors
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.calls.contract import CallReply, CallRequest
from atc.cli.console import guarded
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote.client import ServiceSandbox
from benchmarks.common import AsJson, listed, machine, median, numbers, print_json, show
from benchmarks.safety.service_started import started

KINDS = {
    "silent": b"",
    "half_request": b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthor",
    "slow_body": b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{",
    "upgrade": (
        b"GET /v1/runs/0/channel HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ),
    "no_http": b"\x00" * 64 + b"\r\n\r\n",
    "reset": b"",
    "half_tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
"""What each connection of a flood says: at once, once. ``half_tls`` is for a service over https."""
AGAIN = 500
"""Connections that a flood opens again, a second, in place of those that were closed."""
SOFT_LIMIT = 1024
RUNS = 10
PATIENCE_S = 20.0
"""Seconds that the ten runs during a flood get."""
MOST_LOG = 100_000
_LIMITS = Limits(wall_s=PATIENCE_S)
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Served:
    """A service that runs, and where its log goes."""

    pid: int
    port: int
    token: str
    log: Path
    certificate: Path | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self.port}"

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Processor seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def service(max_runs: int, *, tls: bool = False, soft_limit: int = SOFT_LIMIT) -> Iterator[Served]:
    """``atc sandbox serve`` on a free port, its log in a file, ended when the block is left.

    Raises:
        SandboxUnavailable: it does not start.
    """
    token = secrets.token_urlsafe(32)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory(prefix="atc-flood-") as folder:
        log, cert = Path(folder, "log"), Path(folder, "cert.pem")
        arguments = ["--max-runs", str(max_runs)]
        if tls:
            _certificate(cert)
            arguments += ["--tls-cert", str(cert), "--tls-key", str(cert)]
        environment = {"ATC_SERVE_TOKEN": token, "ATC_WALL_S": str(PATIENCE_S)}

        def before() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))

        with started(arguments, environment, log, before=before) as (process, port):
            yield Served(process, port, token, log, cert if tls else None)


def _certificate(path: Path) -> None:
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)


# -- the flood -------------------------------------------------------------------------------------------------------


class Flood:
    """So many connections of a kind, in a process of their own; what is closed is opened again."""

    def __init__(self, kind: str, port: int, count: int, source: str) -> None:
        self._end = multiprocessing.get_context("spawn").Event()
        self._up = multiprocessing.get_context("spawn").Event()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_flood, args=(kind, port, count, source, self._up, self._end)
        )

    def __enter__(self) -> Flood:
        self._process.start()
        self._up.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._process.join(60)


def _flood(kind: str, port: int, count: int, source: str, up: Event, end: Event) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))
    said, selector = KINDS[kind], selectors.DefaultSelector()
    opened = 0
    began = time.monotonic()
    while not end.is_set():
        missing = count - len(selector.get_map())
        allowed = count + AGAIN * (time.monotonic() - began) - opened
        for _ in range(min(missing, int(allowed), 200)):
            sock = socket.socket()
            try:
                sock.bind((source, 0))
                sock.settimeout(0.5)
                sock.connect(("127.0.0.1", port))
                sock.setblocking(False)
                if said:
                    sock.send(said)
            except OSError:
                sock.close()
                break
            opened += 1
            if kind == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                sock.close()
            else:
                selector.register(sock, selectors.EVENT_READ)
        if opened >= count or missing == 0:
            up.set()
        for key, _ in selector.select(0.05):
            sock = key.fileobj  # type: ignore[assignment]
            with contextlib.suppress(BlockingIOError):
                try:
                    gone = not sock.recv(4096)
                except ConnectionError:
                    gone = True
                if gone:
                    selector.unregister(sock)
                    sock.close()
        time.sleep(0.02)
    up.set()


# -- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Ten:
    """Ten runs, one after the other: the milliseconds of each that ended as it should, and why the others did not."""

    ms: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


async def ten_runs(served: Served) -> Ten:
    """Ten runs with a call each, by a client that knows nothing of connections kept from before."""
    ten = Ten()

    async def echo(request: CallRequest) -> CallReply:
        return CallReply(value=7)

    sandbox = ServiceSandbox(served.url, served.token, _LIMITS, "F")
    until = time.monotonic() + PATIENCE_S
    try:
        for _ in range(RUNS):
            began = time.perf_counter()
            try:
                async with asyncio.timeout(max(until - time.monotonic(), 0.01)):
                    outcome = await sandbox.run(Job("answer = f()", {"f": ()}, _LIMITS), echo)
            except (TimeoutError, SandboxUnavailable) as error:
                ten.failed.append(str(error)[:300] or "no end within the time")
                continue
            if outcome.value == 7:
                ten.ms.append(1e3 * (time.perf_counter() - began))
            else:
                ten.failed.append(f"{outcome.kind}: {outcome.detail}"[:300])
    finally:
        await sandbox.aclose()
    return ten


def flooded(served: Served, kind: str, count: int, source: str) -> dict[str, Any]:
    """The figures of one flood."""
    asyncio.run(ten_runs(served))  # the first are slower: nothing is warm
    before = asyncio.run(ten_runs(served))
    log, memory, descriptors = served.log.stat().st_size, served.memory(), served.descriptors()
    with Flood(kind, served.port, count, source):
        cpu, began = served.cpu_s(), time.monotonic()
        time.sleep(2.0)
        idle_cpu = (served.cpu_s() - cpu) / (time.monotonic() - began)
        during = asyncio.run(ten_runs(served))
        most_memory, most_descriptors = served.memory(), served.descriptors()
    until = time.monotonic() + 30
    while served.descriptors() > descriptors + 20 and time.monotonic() < until:
        time.sleep(0.1)
    asyncio.run(ten_runs(served))
    after = asyncio.run(ten_runs(served))
    return {
        "kind": kind,
        "before_ms": _ms(before.ms),
        "during_ms": _ms(during.ms),
        "after_ms": _ms(after.ms),
        "during_slowest_ms": round(max(during.ms), 1) if during.ms else None,
        "during_ratio": _ratio(during.ms, before.ms),
        "after_ratio": _ratio(after.ms, before.ms),
        "failed": [len(before.failed), len(during.failed), len(after.failed)],
        "why": sorted({*before.failed, *during.failed, *after.failed})[:3],
        "log_bytes": served.log.stat().st_size - log,
        "descriptors": [descriptors, most_descriptors, served.descriptors()],
        "memory_mb": [round(size / 1e6, 1) for size in (memory, most_memory, served.memory())],
        "cpu_a_second": round(idle_cpu, 2),
    }


def _ms(found: list[float]) -> float | None:
    return round(median(found), 1) if found else None


def _ratio(found: list[float], peer: list[float]) -> float | None:
    return round(median(found) / median(peer), 2) if found and peer else None


def measure(runs: list[int], kinds: list[str], count: int, source: str) -> dict[str, Any]:
    """All figures."""
    rows = []
    for most in runs:
        for tls in (False, True):
            asked = [kind for kind in kinds if (kind == "half_tls") == tls]
            if not asked:
                continue
            with service(most, tls=tls) as served:
                if served.certificate:
                    _trust(served.certificate)
                rows += [{"max_runs": most, **flooded(served, kind, count, source)} for kind in asked]
    ok = all(
        not row["failed"][0] and not row["failed"][2] and row["log_bytes"] < MOST_LOG + 30 * 200  # a line for each run
        for row in rows
    )
    return {"connections": count, "from": source, "machine": machine(), "floods": rows, "ok": ok}


def _trust(certificate: Path) -> None:
    from atc.sandboxes.remote import client

    client._tls.cache_clear()
    os.environ["SSL_CERT_FILE"] = str(certificate)
    assert ssl.create_default_context(cafile=str(certificate))


def _print(figures: dict[str, Any]) -> None:
    rows = [
        (
            f"{row['max_runs']}, {row['kind']}",
            row["before_ms"],
            f"{row['during_ms']} ({row['during_slowest_ms']})",
            row["after_ms"],
            f"{row['during_ratio']} / {row['after_ratio']}",
            "/".join(map(str, row["failed"])),
            f"{row['log_bytes'] / 1e3:.1f}",
            "/".join(map(str, row["descriptors"])),
            "/".join(map(str, row["memory_mb"])),
            row["cpu_a_second"],
        )
        for row in figures["floods"]
    ]
    head = (
        "flood",
        "before, ms",
        "during (slowest)",
        "after",
        "ratios",
        "failed of 10",
        "log KB",
        "fds",
        "MB",
        "cpu/s",
    )
    show(f"{figures['connections']:,} connections from {figures['from']}", head, rows)
    for why in {why for row in figures["floods"] for why in row["why"]}:
        print(why)


@guarded
def main(
    runs: Annotated[str, typer.Option(help="--max-runs of the services, with commas between.")] = "32,250",
    kinds: Annotated[str, typer.Option(help="Floods, with commas between.")] = ",".join(KINDS),
    connections: Annotated[int, typer.Option(help="Connections of a flood.")] = 1500,
    own_address: Annotated[bool, typer.Option("--own-address", help="It comes from where the runs come from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Flood a service; exit with 1 where a promise is broken."""
    source = "127.0.0.1" if own_address else "127.0.0.2"
    figures = measure(numbers(runs, "runs"), listed(kinds, KINDS, "kinds"), connections, source)
    print_json(figures) if as_json else _print(figures)
    raise typer.Exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    typer.run(main)

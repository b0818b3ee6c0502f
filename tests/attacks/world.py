"""A host with things worth having: secrets, a folder to write into, sockets to reach; and what became of them."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

MARK = "atc-planted"
"""In the name of every file that an attack tries to leave."""
PATIENCE_S = 15.0
"""More seconds than a machine that is busy with other things takes for what is done at once."""
_ROOT = Path(__file__).parents[2]
_LIBC = ctypes.CDLL(None)


class World:
    """Planted secrets, listeners and an open folder; :meth:`damage` tells what has been done to them.

    Args:
        within: a folder to plant in, as we see it; by default one for temporary files.
        inside: the same folder as programs would see it.
        token: the secret of the environment; by default a new one.

    Attributes:
        host: the process that programs would like to get at, by the number that it has for them.
        memory: an address in it where a secret lies.
    """

    def __init__(self, within: Path | None = None, inside: Path | None = None, token: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="atc-world-", dir=within))
        self.folder.chmod(0o755)
        self._inside = self.folder if inside is None else inside / self.folder.name
        self.file_secret, self.environment_secret, self.memory_secret = (
            f"{kind}-{os.urandom(12).hex()}" for kind in ("file", "environment", "memory")
        )
        self.environment_secret = token or self.environment_secret
        self.secret_file = self.folder / "secret.txt"
        self.secret_file.write_text(self.file_secret)
        self.drop = self.folder / "drop"
        self.drop.mkdir()
        self.drop.chmod(0o777)
        os.environ["PLANTED_TOKEN"] = self.environment_secret
        self._abstract = f"atc-world-{os.urandom(6).hex()}"
        self.host, self.memory = os.getpid(), id(self.memory_secret)
        self._sockets: dict[str, socket.socket] = {}
        self._listen()

    def names(self) -> dict[str, Any]:
        """What an attack knows of the host; far more than a program could guess."""
        return {
            "SECRET_FILE": str(self._inside / "secret.txt"),
            "DROP": str(self._inside / "drop"),
            "HOST": self.host,
            "MARK": MARK,
            "REPOSITORY": str(_ROOT),
            "TCP": self._port("tcp"),
            "TCP6": self._port("tcp6"),
            "UDP": self._port("udp"),
            "NAMED": str(self._inside / "stream"),
            "NAMED_UDP": str(self._inside / "datagram"),
            "ABSTRACT": "\0" + self._abstract,
            "MEMORY": self.memory,
        }

    def damage(self, said: str) -> list[str]:
        """What was read (and stands in ``said``), written, or reached since the last look."""
        found = [f"loot: {what}" for what, forms in self._secrets().items() if any(form in said for form in forms)]
        found += [f"write: {path}" for path in self._written()]
        if not self.secret_file.exists() or self.secret_file.read_text() != self.file_secret:
            found.append("write: the secret file was changed")
        return found + [f"contact: {name}" for name, sock in self._sockets.items() if _reached(sock)]

    def clean(self) -> None:
        """Take away what a control wrote."""
        for path in self._written():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        os.environ.pop("PLANTED_TOKEN", None)
        for sock in self._sockets.values():
            sock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _listen(self) -> None:
        unix = socket.AF_UNIX
        wanted: list[tuple[str, int, int, Any]] = [
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("named", unix, socket.SOCK_STREAM, str(self.folder / "stream")),
            ("named datagram", unix, socket.SOCK_DGRAM, str(self.folder / "datagram")),
            ("abstract", unix, socket.SOCK_STREAM, "\0" + self._abstract),
        ]
        for name, family, kind, address in wanted:
            try:
                sock = socket.socket(family, kind)
                sock.bind(address)
            except OSError:
                continue  # a machine without IPv6
            if kind == socket.SOCK_STREAM:
                sock.listen()
            sock.setblocking(False)
            self._sockets[name] = sock
        for path in (self.folder / "stream", self.folder / "datagram"):
            path.chmod(0o777)

    def _port(self, name: str) -> int:
        return int(self._sockets[name].getsockname()[1]) if name in self._sockets else 1

    def _secrets(self) -> dict[str, list[str]]:
        named = {
            "the secret file": self.file_secret,
            "the environment": self.environment_secret,
            "the host's memory": self.memory_secret,
        }
        found = {what: _spellings(secret) for what, secret in named.items()}
        return {**found, "/etc/passwd": ["root:x:0:0:"], "/etc/shadow": ["root:*:", "root:!:"]}

    def _places(self) -> list[Path]:
        """Where something may have been left."""
        return [Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"), Path("/"), Path.cwd(), _ROOT, _ROOT / "sandbox"]

    def _written(self) -> list[Path]:
        here = [*self.drop.iterdir()] if self.drop.is_dir() else [self.drop]
        for place in dict.fromkeys(self._places()):
            with contextlib.suppress(OSError):
                here += place.glob(f"*{MARK}*")
        return here


def _spellings(secret: str) -> list[str]:
    raw = secret.encode()
    return [secret, secret[::-1], raw.hex(), base64.b64encode(raw).decode().rstrip("=")[:-2], secret.upper()]


def _reached(sock: socket.socket) -> bool:
    try:
        if sock.type == socket.SOCK_DGRAM:
            sock.recv(100)
        else:
            sock.accept()[0].close()
    except OSError:
        return False
    return True


class Host:
    """A process of the host, by default this one: what it uses, to be compared."""

    def __init__(self, pid: int = 0) -> None:
        self.pid = pid or os.getpid()
        if not pid and hasattr(_LIBC, "malloc_trim"):
            _LIBC.malloc_trim(0)  # what was set free is given back, and hides no growth
        with contextlib.suppress(OSError):  # the peak counts from here; where the kernel has no such file, from before
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        self.descriptors = descriptors_of(self.pid)
        self.resident = _status(self.pid, "VmRSS")

    def peak_growth(self) -> int:
        """Bytes."""
        return _status(self.pid, "VmHWM") - self.resident


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"the kernel does not tell {name}")


def busy_s(pid: int) -> float:
    """Processor seconds that a process has used, in hundredths; those of its children are not among them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stood_still(wall_s: float, busy_s: float) -> float:
    """For how long a host did nothing else. What a busy machine took from it does not count, up to a limit."""
    return wall_s if wall_s > PATIENCE_S else min(wall_s, busy_s)


def descriptors_of(pid: int) -> int:
    """How many descriptors a process holds; -1 where that is not ours to see."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return -1


def at_rest(pid: int, waiting: int) -> int:
    """How many descriptors a parent of programs holds while so many wait and none begins or ends."""
    seen: list[int] = []
    deadline = time.monotonic() + 30
    while len(seen) < 20:  # the same every time: a program that has just begun has no descriptor there yet
        assert time.monotonic() < deadline, f"process {pid} with {waiting} programs that wait never comes to rest"
        held = descriptors_of(pid)
        if len(children(pid)) != waiting or (seen and held != seen[0]):
            seen.clear()
        else:
            seen.append(held)
        time.sleep(0.005)
    return seen[0]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    return sorted(found)


def settled(pid: int, descriptors: int, spare: int = 0) -> list[str]:
    """What is wrong with the descriptors of a process: asked until it is nothing, for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while abs((held := descriptors_of(pid)) - descriptors) > spare and time.monotonic() < deadline:
        time.sleep(0.005)
    if abs(held - descriptors) > spare:
        return [f"process {pid} holds {held} descriptors, not {descriptors}"]
    return []


def left_running(zygote: int, waiting: int) -> list[str]:
    """Processes of a zygote beyond the jails that wait: asked until there is none, for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := _strangers(zygote, waiting)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def _strangers(zygote: int, waiting: int) -> list[str]:
    """Its children are the jails. Whatever else descends from it, or is of its session, has got out of one."""
    parents: dict[int, int] = {}
    session: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended in between
        parents[int(name)] = int(fields[1])
        if int(fields[3]) == zygote:
            session.add(int(name))
    children = {pid for pid, parent in parents.items() if parent == zygote}
    family = set(children)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    odd = (family | session) - children - {zygote}
    busy = [pid for pid in children if _threads(pid) > 1]
    found = [f"process {pid} of the jail's family" for pid in sorted(odd)] + [f"threads in {pid}" for pid in busy]
    return found + ([f"{len(children)} children, {waiting} are waiting"] if len(children) > waiting else [])


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0

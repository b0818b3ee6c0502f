"""The process of the embedded model: started, found to be up, shared inside this process, and never left behind."""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import Literal

import anyio
import httpx
import platformdirs

from atc._host.files import make_private
from atc.errors import ModelUnavailable
from atc.models.machine import needed_bytes, this_machine
from atc.models.messages import Message, estimate_tokens

_log = logging.getLogger(__name__)

_SERVER = Path(__file__).with_name("embedded_server.py")
_START_S = 120.0  # seconds until the server must be up: a cold disk reads a gigabyte in less
_SLOT_S = 60.0  # seconds to write or read what a slot holds
_READ_S = 1800.0  # seconds to read a prompt
_LOG_LIMIT = 1_000_000  # bytes; a longer log is begun anew
# What the server's process may see of the environment: where things are and how threads behave. No keys.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHON",
    "VIRTUAL_ENV",
    "OMP_",
    "GOMP_",
    "XDG_",
)


@dataclass(frozen=True)
class ServerSettings:
    """What a server is started with; two users with equal settings share one."""

    model_path: str
    alias: str
    slots: int
    threads: int
    context_tokens: int
    host: str = "127.0.0.1"
    port: int = 0
    cache_mib: int = 512  # of prompts that left their slot; llama.cpp's own limit is 8 GiB
    prompts_dir: str = ""  # where what a slot has read may be kept; nowhere when empty


class EmbeddedServer:
    """One running server process.

    Args:
        settings: what to run.
        api_key: the key its callers must show; a random one when not given, none for ``""``.
        log: file for what it prints; the one in the user's cache when not given.

    Raises:
        ModelUnavailable: it did not come up.
    """

    def __init__(self, settings: ServerSettings, *, api_key: str | None = None, log: Path | None = None) -> None:
        self.settings = settings
        self.api_key = secrets.token_urlsafe(24) if api_key is None else api_key
        self.log = log or platformdirs.user_cache_path("atc") / "logs" / "embedded-model.log"
        self._owner = os.getpid()
        self._has_room()
        started = time.monotonic()
        self._process = self._spawn()
        try:
            self.url = self._await_address(started + _START_S)
            self._await_health(started + _START_S)
        except BaseException:
            self.stop()
            raise
        self.prompt_cache = self._open_prompt_cache()
        self.gate = Gate()

    @property
    def pid(self) -> int:
        """The id of the server process."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait until the process ends, and return its exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """End the process and wait until it is gone."""
        if os.getpid() != self._owner:  # a fork of the owner: the server is not ours to end
            return
        if self._process.stdin is not None:
            with suppress(OSError):  # settings that a dead process never read
                self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def why_ended(self) -> str:
        """Why the process is no more, as far as its exit status says; with the path of its log."""
        status = None
        with suppress(subprocess.TimeoutExpired):  # its pipes close before it is gone
            status = self._process.wait(timeout=1)
        reasons = {
            -signal.SIGILL: "the runtime is built for another processor (illegal instruction): use an endpoint.",
            -signal.SIGKILL: "it was killed: too little memory?",
        }
        return (
            f"{reasons.get(status or 0, 'too little memory, or a file that is no GGUF model?')} Its log is {self.log}"
        )

    def _has_room(self) -> None:
        """Raises ModelUnavailable where there is surely too little memory."""
        settings, free = self.settings, this_machine().memory
        with suppress(OSError):
            size = Path(settings.model_path).stat().st_size
            need = needed_bytes(size, settings.slots, settings.context_tokens)
            if free is not None and need > free:
                raise ModelUnavailable(
                    f"too little memory for the embedded model: {settings.model_path} with {settings.slots} slots of "
                    f"{settings.context_tokens:,} tokens needs about {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
                    "free: close other programs, set context_tokens lower, take a smaller model, or use an endpoint"
                )

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = asdict(self.settings) | {"api_key": self.api_key}
        if self.settings.prompts_dir:
            settings["prompts_dir"] = _private_folder(self.settings.prompts_dir)
        environment = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        environment |= {"GOMP_SPINCOUNT": "1000"}  # spinning threads starve each other as soon as a core is shared
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.log.exists() and self.log.stat().st_size > _LOG_LIMIT
            with self.log.open("wb" if fresh else "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", str(_SERVER)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for the parent; it ends the server in its own time
                )
        except OSError as error:
            raise ModelUnavailable(f"the embedded model cannot be started: {error}") from error
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once; waiting for its address says so
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            process.stdin.flush()
        return process

    def _open_prompt_cache(self) -> PromptCache | None:
        settings = self.settings
        if not settings.prompts_dir or not Path(settings.prompts_dir).is_dir():
            return None
        file = Path(settings.model_path)
        found = file.stat()
        reader = (file.name, found.st_size, found.st_mtime_ns, settings.context_tokens, settings.slots)
        return PromptCache(Path(settings.prompts_dir), f"{reader} {version('xllamacpp')}", self._slot)

    async def read(self, messages: Sequence[Message]) -> int:
        """Have the first slot read a prompt.

        Returns:
            its tokens; 0 where it could not be read.
        """
        body = {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": 1,
            "temperature": 0.0,
            "cache_prompt": True,
            "id_slot": 0,
        }
        key = {"Authorization": f"Bearer {self.api_key}"}
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_READ_S) as client:
                reply = await client.post(f"{self.url}/chat/completions", json=body, headers=key)
            return int(reply.json()["usage"]["prompt_tokens"]) if reply.status_code == 200 else 0
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as problem:
            _log.warning("the embedded model could not read the beginning of a prompt: %r", problem)
            return 0

    def _slot(self, action: str, name: str) -> int:
        """llama.cpp's own route, beside the OpenAI-compatible ones; how many tokens, 0 where it failed."""
        url = self.url.removesuffix("/v1") + "/slots/0"
        key = {"Authorization": f"Bearer {self.api_key}"}
        try:
            with httpx.Client(trust_env=False, timeout=_SLOT_S) as client:
                reply = client.post(url, params={"action": action}, json={"filename": name}, headers=key)
            return int(reply.json()[f"n_{action}d"]) if reply.status_code == 200 else 0
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as problem:
            _log.warning("the embedded model could not %s the beginning of a prompt: %r", action, problem)
            return 0

    def _await_address(self, deadline: float) -> str:
        out = self._process.stdout
        assert out is not None
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([out], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise self._failed(f"was not up after {_START_S:.0f} s")
            block = os.read(out.fileno(), 4096)
            if not block:
                raise self._failed("ended while it was loading the model")
            line += block
        return str(json.loads(line)["address"]) + "/v1"

    def _await_health(self, deadline: float) -> None:
        with httpx.Client(trust_env=False, timeout=5) as client:
            while time.monotonic() < deadline and self.alive():
                with suppress(httpx.HTTPError):  # not up yet
                    if client.get(self.url.removesuffix("/v1") + "/health").status_code == 200:
                        return
                time.sleep(0.05)
        raise self._failed("did not become healthy")

    def _failed(self, what: str) -> ModelUnavailable:
        settings = self.settings
        hint = f"the port {settings.port} may be taken; " if settings.port else ""
        return ModelUnavailable(
            f"the embedded model's server {what} "
            f"({settings.model_path}, {settings.slots} slots of {settings.context_tokens} tokens): "
            f"{hint}{self.why_ended()}"
        )


def _private_folder(path: str) -> str:
    """The folder, made for its owner alone, as llama.cpp wants it: with a slash at its end; ``""`` if it cannot be."""
    try:
        make_private(Path(path))
    except OSError as problem:
        _log.warning("the beginnings of prompts are not kept in %s: %s", path, problem)
        return ""
    return os.path.join(path, "")


class Shared:
    """The servers of this process, each started by its first user and stopped by its last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[ServerSettings, EmbeddedServer] = {}
        self._users: dict[ServerSettings, set[object]] = {}

    def get(self, settings: ServerSettings, user: object) -> EmbeddedServer:
        """Return the server with these settings for one more user; start it if none runs.

        Raises:
            ModelUnavailable: it did not come up.
        """
        with self._lock:
            server = self._servers.get(settings)
            if server is None or not server.alive():
                if server is not None:
                    server.stop()
                server = self._servers[settings] = EmbeddedServer(settings)
            self._users.setdefault(settings, set()).add(user)
            return server

    def release(self, settings: ServerSettings, user: object) -> None:
        """Drop one user of the server with these settings; the last one stops it."""
        with self._lock:
            users = self._users.get(settings, set())
            users.discard(user)
            server = None if users else self._servers.pop(settings, None)
            if server is not None:
                server.stop()

    def forget(self) -> None:
        """Own nothing: a fork has its parent's servers in its memory, and its parent's lock in whatever state."""
        self._lock = threading.Lock()
        self._servers = {}
        self._users = {}

    def stop_all(self) -> None:
        """Stop all servers, whoever uses them. One that is just starting ends with this process."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for server in self._servers.values():
                server.stop()
            self._servers.clear()
            self._users.clear()
        finally:
            self._lock.release()


shared = Shared()
atexit.register(shared.stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.forget)


KeepPrompts = Literal["tools", "instructions", "nothing"]
"""What the cache keeps on disk: the tools' documents too, this project's own text alone, or nothing."""
WORTH_TOKENS = 200
"""A shorter beginning is read as fast as it is restored."""
MAX_BYTES = 400_000_000
"""Of all files together; what was not used for longest goes first. The newest stays, however large it is."""
_SUFFIX = ".kv"
_BLOCK = 1 << 20
_POLL_S = 0.02

Slot = Callable[[str, str], int]
"""``slot("save" | "restore", name)``: the tokens that the server wrote from its first slot to a file of the folder, or
took back into it; 0 where it did not."""


def kept_prefixes(messages: Sequence[Message], keep: KeepPrompts = "tools") -> list[tuple[Message, ...]]:
    """What other prompts begin with too, the longest first; without what is too short to be worth keeping.

    Only leading messages that are :attr:`Message.fixed` count, and of the one behind them its
    :attr:`Message.stable` part. So whatever a caller puts in between, nothing behind it is kept.
    """
    fixed = tuple(takewhile(lambda message: message.fixed, messages))
    if len(fixed) == len(messages) or keep == "nothing":
        return []
    found = [fixed] if estimate_tokens(fixed) >= WORTH_TOKENS else []
    following = messages[len(fixed)]
    documents = following.content[: following.stable]
    if keep == "tools" and estimate_tokens(documents) >= WORTH_TOKENS:
        found.insert(0, (*fixed, replace(following, content=documents, stable=0)))
    return found


class PromptCache:
    """What one server has read in its first slot, in a folder, for what many prompts begin with.

    Two processor cores read some seventy tokens a second, and a prompt has well over a thousand. llama.cpp saves what
    it has read (28 kB a token) to a file and restores it in a tenth of a second. Two beginnings are kept: instructions
    and example, which every run shares; and these with the documents of the tools, which every task with the same tools
    shares. A task is in no file. The cache only saves time: what cannot be saved or restored is read again.

    A file is named by what it is of and by its own SHA-256, so that a damaged one is never taken for whole.

    Args:
        folder: where; the server was started with it.
        reader: whatever decides what the server makes of a text: the model's file, the version of llama.cpp.
        slot: has the server save and restore.
        max_bytes: of all files together.
    """

    def __init__(self, folder: Path, reader: str, slot: Slot, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._reader, self._slot, self._max_bytes = folder, reader, slot, max_bytes
        self.loaded: set[str] = set()
        """Keys of the beginnings that the server has read."""

    def key(self, prefix: Sequence[Message]) -> str:
        """The name of a beginning as this server reads it."""
        parts = [self._reader, *(part for message in prefix for part in (message.role, message.content))]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def restore(self, key: str) -> bool:
        """Whether the server restored what was saved under ``key``."""
        for file in self._files(f"{key}-*"):
            with suppress(OSError):
                if file.stem == f"{key}-{_sha256(file)}" and self._slot("restore", file.name):
                    file.touch()
                    return True
                file.unlink()
        return False

    def save(self, key: str, most: int | None = None) -> None:
        """Save what the server has just read under ``key``.

        Args:
            most: tokens that this can be. If the slot holds more, something else was read meanwhile: nothing is kept.
        """
        part = self._folder / f"part-{token_hex(8)}"
        try:
            if tokens := self._slot("save", part.name):
                part.chmod(0o600)
                if most is None or tokens <= most:
                    part.replace(self._folder / f"{key}-{_sha256(part)}{_SUFFIX}")
            self._make_room()
        except OSError as problem:
            _log.warning("the beginning of a prompt is not kept in %s: %s", self._folder, problem)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _make_room(self) -> None:
        used = 0
        by_age = sorted(((file.stat(), file) for file in self._files("*")), key=lambda entry: -entry[0].st_mtime_ns)
        for place, (found, file) in enumerate(by_age):
            used += found.st_size
            if place and used > self._max_bytes:
                file.unlink()

    def _files(self, stem: str) -> Iterator[Path]:
        return self._folder.glob(f"{stem}{_SUFFIX}")


class Gate:
    """Lets requests to a server in beside each other, or one alone; for callers of several threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._alone = False

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Enter beside others, as soon as nobody is in alone."""
        while not self._enter():  # noqa: ASYNC110 (an event would belong to one event loop)
            await anyio.sleep(_POLL_S)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Enter alone, if nobody is in: then the value is true. Does not wait."""
        with self._lock:
            entered = not self._inside and not self._alone
            self._alone = self._alone or entered
        try:
            yield entered
        finally:
            if entered:
                with self._lock:
                    self._alone = False

    def _enter(self) -> bool:
        with self._lock:
            self._inside += not self._alone
            return not self._alone


def _sha256(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as blocks:
        while block := blocks.read(_BLOCK):
            found.update(block)
    return found.hexdigest()[:16]

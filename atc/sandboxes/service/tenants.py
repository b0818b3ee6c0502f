"""Who may use the service, and what each may run: tokens that name tenants, runs that were granted, and refusals.

Of tokens only the digests are kept, compared in constant time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from atc.errors import UsageError

MIN_TOKEN = 20
"""Characters of a token."""
HOW_TO_MAKE_ONE = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Tenants:
    """The tenants and their tokens.

    Args:
        tokens: tenant → token.

    Raises:
        UsageError: no token is given, one is too short, two are equal, or a tenant's name is not valid.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens:
            raise UsageError(
                f"the service needs a token that its callers show: make one with `{HOW_TO_MAKE_ONE}` and give it in "
                "ATC_SERVE_TOKEN, by --token-file FILE, or several by --tenants FILE (lines: tenant token)"
            )
        self._digests: dict[str, bytes] = {}
        for tenant, token in tokens.items():
            if not _TENANT.fullmatch(tenant):
                raise UsageError(f"{tenant[:80]!r} is no tenant's name: use 1 to 64 letters, digits, '.', '_' and '-'")
            if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError(
                    f"the token of {tenant} must be at least {MIN_TOKEN} ASCII characters without spaces: make one "
                    f"with `{HOW_TO_MAKE_ONE}`"
                )
            digest = digest_of(token)
            if digest in self._digests.values():
                raise UsageError(f"the token of {tenant} is another tenant's too: give each its own")
            self._digests[tenant] = digest

    def __len__(self) -> int:
        return len(self._digests)

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def named_by(self, authorization: str) -> str | None:
        """The tenant whose token an ``Authorization`` header shows. All are compared, whichever fits."""
        shown = digest_of(bearer(authorization))
        found = None
        for tenant, digest in self._digests.items():
            if hmac.compare_digest(shown, digest):
                found = tenant
        return found


def bearer(authorization: str) -> str:
    """The token in ``Bearer TOKEN``; empty for anything else."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def digest_of(token: str) -> bytes:
    """Return the SHA-256 digest of a token: the service keeps nothing else of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def read_token(path: Path) -> str:
    """Return the token that a file consists of.

    Raises:
        UsageError: it cannot be read, or is empty.
    """
    token = _text(path).strip()
    if not token:
        raise UsageError(f"the token file {path} is empty: make one with `{HOW_TO_MAKE_ONE} > {path}`")
    return token


def read_tenants(path: Path) -> dict[str, str]:
    """Tenants and tokens from a file of lines ``tenant token``; ``#`` begins a comment line.

    Raises:
        UsageError: it cannot be read, or a line has the wrong form; the message gives the line's number alone.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise UsageError(f"{path}, line {number}: write `tenant token`, two words")
        if words[0] in found:
            raise UsageError(f"{path}, line {number}: the tenant {words[0][:64]!r} stands there twice")
        found[words[0]] = words[1]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None


class Refusal(Exception):
    """The service refuses a request.

    Args:
        status: the HTTP status.
        code: one word for programs and for the metrics.
        message: what was wrong and what to do; never a token, a program or an argument.
        retry_after: whole seconds after which to ask again.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the HTTP response. The connection is closed: the next try may reach another replica."""
        made = {"Connection": "close"}
        if self.retry_after is not None:
            made["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            made["WWW-Authenticate"] = "Bearer"
        return made

    @property
    def body(self) -> dict[str, object]:
        """The refusal as the body of an HTTP response."""
        return {"error": {"code": self.code, "message": self.message}}


RETRY_AFTER_S = 1
LEAST_UNUSED = 4
"""Grants that a tenant may have unused in any case."""


@dataclass
class Run:
    """A run that was granted. ``task`` is what serves it, once its caller has connected."""

    id: str
    tenant: str
    digest: bytes
    expiry: asyncio.TimerHandle
    task: asyncio.Task[None] | None = None
    connected: bool = False


class Runs:
    """The runs of one service. For one event loop.

    Args:
        most: runs at the same time.
        most_per_tenant: of these, one tenant's. ``None``: a tenant is granted one more while it has fewer than are
            free. So one that is greedy has half of all, two have a third each, and another always finds room.
        connect_s: seconds in which a run's caller must connect.
        dropped: is called with each run whose caller never did.
    """

    def __init__(
        self, most: int, most_per_tenant: int | None, connect_s: float, dropped: Callable[[Run], None]
    ) -> None:
        self._most, self._most_per_tenant, self._connect_s = most, most_per_tenant, connect_s
        self._dropped = dropped
        self._runs: dict[str, Run] = {}
        self._by_tenant: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def connected(self) -> int:
        """How many runs have a connected caller."""
        return sum(run.connected for run in self._runs.values())

    def grant(self, tenant: str) -> tuple[Run, str]:
        """A new run and the token of its channel.

        Raises:
            Refusal: the service is full, or ends.
        """
        if self.draining:
            raise Refusal(503, "draining", "this replica is ending: ask again, another takes over", retry_after=1)
        if len(self._runs) >= self._most:
            text = f"{self._most} runs are going on, which is all this service does at once: ask again"
            raise Refusal(429, "full", text, retry_after=RETRY_AFTER_S)
        has, most = self._by_tenant[tenant], self._most_of_one
        if has >= most:
            text = f"this tenant has {has} runs already, and the others need room: wait for one to end"
            raise Refusal(429, "tenant_full", text, retry_after=RETRY_AFTER_S)
        if self._unused[tenant] >= max(LEAST_UNUSED, self._most_unused):
            text = f"this tenant has {self._unused[tenant]} grants that it does not use: connect to them first"
            raise Refusal(429, "unused", text, retry_after=RETRY_AFTER_S)
        number, token = secrets.token_hex(16), secrets.token_urlsafe(32)
        expiry = asyncio.get_running_loop().call_later(self._connect_s, self._expire, number)
        run = self._runs[number] = Run(number, tenant, digest_of(token), expiry)
        self._by_tenant[tenant] += 1
        self._unused[tenant] += 1
        self._idle.clear()
        return run, token

    def connect(self, number: str, token: str) -> Run:
        """The run that a channel is for. A token opens one channel, once.

        Raises:
            Refusal: there is no such run, the token is not its, or it was used.
        """
        run = self._runs.get(number)
        if run is None:
            text = f"there is no such run here: it has ended, was not connected to within {self._connect_s:g} s, or"
            raise Refusal(404, "unknown_run", f"{text} is another replica's")
        if not hmac.compare_digest(run.digest, digest_of(token)):
            raise Refusal(401, "channel_token", "the channel token is not this run's")
        if run.connected:
            raise Refusal(409, "channel_used", "the channel token was used already: ask for a new run")
        run.connected = True
        self._used(run.tenant)
        run.task = asyncio.current_task()
        run.expiry.cancel()
        return run

    def end(self, run: Run) -> None:
        """Forget a run; its token opens nothing any more."""
        if self._runs.pop(run.id, None) is None:
            return
        run.expiry.cancel()
        if not run.connected:
            self._used(run.tenant)
        self._by_tenant[run.tenant] -= 1
        if not self._by_tenant[run.tenant]:
            del self._by_tenant[run.tenant]
        if not self._runs:
            self._idle.set()

    async def drain(self, seconds: float) -> int:
        """Grant no more; let runs end within ``seconds``, then end the rest. Return how many those were."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            left = list(self._runs.values())
            for run in left:
                if run.task is not None:
                    run.task.cancel()
                else:
                    self.end(run)
            await asyncio.gather(*(run.task for run in left if run.task is not None), return_exceptions=True)
            return len(left)
        return 0

    @property
    def _most_of_one(self) -> int:
        free = self._most - len(self._runs)
        return free if self._most_per_tenant is None else self._most_per_tenant

    @property
    def _most_unused(self) -> int:
        """Of one tenant: half of what it may have at all, where others wait for it; else all."""
        if self._most_per_tenant is None:
            return self._most // 4
        return self._most if self._most_per_tenant >= self._most else self._most_per_tenant // 2

    def _used(self, tenant: str) -> None:
        self._unused[tenant] -= 1
        if not self._unused[tenant]:
            del self._unused[tenant]

    def _expire(self, number: str) -> None:
        run = self._runs.get(number)
        if run is not None and not run.connected:
            self.end(run)
            self._dropped(run)

"""A sandbox service without its HTTP face: who may run, what is running, and how every run ends."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.websockets import WebSocket

from atc._records.outcome import Outcome
from atc.calls.contract import CallHandler
from atc.errors import FrameError, SandboxUnavailable, UsageError
from atc.sandboxes.contract import FIXED, TIERS, Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.remote import messages
from atc.serve.accepting import Crowd
from atc.serve.request_guard import Refusal
from atc.serve.sandbox.accounts import Account, Accounts
from atc.serve.sandbox.relay import Gone, Relay
from atc.serve.sandbox.runs import Run, Runs
from atc.serve.tokens import Tenants
from atc.traces.telemetry.seam import Telemetry

log = logging.getLogger("atc.service")

STRANGERS = 256
"""Connections beside those of runs."""
UNUSED_S = 5.0
"""Seconds after which a grant lapses that nobody has connected to: it takes the room of a run."""


@dataclass(frozen=True)
class ServiceSettings:
    """Holds what a service is set to.

    Attributes:
        tenants: who may use it.
        limits: what one program may use at most; callers may ask for less.
        require: the least isolation; without it the service does not start.
        preload: packages that programs may use beside the standard library.
        max_runs: at the same time, of all tenants.
        max_runs_per_tenant: of one. 0: all where there is one tenant; of several, each only while it has fewer than
            are free (:class:`atc.serve.sandbox.runs.Runs`).
        connect_s: in which a caller must connect to a run that was granted (``UNUSED_S`` at most), and send the
            program.
        drain_s: that runs get to end when the service ends.
        message_bytes: the largest message that is taken.
        pause_s: for which a caller may stop the clock of one program, because it waits for a person; 0: not at all.
        advertise: the address at which callers reach this replica, where that is not the one they asked at.
        telemetry: makes a span of each program, in the trace of its caller; ``None``: none is made.
    """

    tenants: Tenants
    limits: Limits = field(default_factory=Limits)
    require: str = "L"
    preload: tuple[str, ...] = ()
    max_runs: int = 32
    max_runs_per_tenant: int = 0
    connect_s: float = 10.0
    drain_s: float = 30.0
    message_bytes: int = messages.MESSAGE_BYTES
    advertise: str = ""
    pause_s: float = 3600.0
    telemetry: Telemetry | None = None

    def __post_init__(self) -> None:
        for name in ("max_runs", "connect_s", "message_bytes"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)!r}")
        if self.max_runs_per_tenant < 0 or self.drain_s < 0 or not self.pause_s >= 0:
            raise UsageError("the runs of a tenant, and the seconds of a drain and of a pause, cannot be below 0")


class Service:
    """Serves one event loop: :meth:`start` it, serve, :meth:`drain` it, :meth:`aclose` it."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.tier = ""
        alone = settings.max_runs if len(settings.tenants) == 1 else None
        self.connect_s = min(settings.connect_s, UNUSED_S)
        self.runs = Runs(settings.max_runs, settings.max_runs_per_tenant or alone, self.connect_s, self._dropped)
        self.accounts = Accounts(settings.tenants)
        self.crowd = Crowd(4 * settings.max_runs + STRANGERS)  # those of runs, as many that begin, and others
        self._jails = Jails(self._sandbox, max_idle=max(4, len(settings.tenants)))

    async def start(self) -> None:
        """Find the strongest isolation of this machine and hold to it from now on.

        Raises:
            SandboxUnavailable: it is below what is required. Nothing was started.
        """
        settings = self.settings
        async with ProcessSandbox(settings.limits, settings.require, preload=settings.preload, pool=0) as sandbox:
            self.tier = await sandbox.isolation()
        self.metrics = Metrics(lambda: self.runs.connected, self.tier, self.accounts.items, self.crowd)

    @property
    def ready(self) -> bool:
        """Return whether new runs are granted."""
        return bool(self.tier) and not self.runs.draining

    async def drain(self) -> None:
        """Let the runs end, and end those that go on for too long."""
        log.info("draining: %d runs get %g s to end", len(self.runs), self.settings.drain_s)
        ended = await self.runs.drain(self.settings.drain_s)
        if ended:
            log.warning("%d runs were ended", ended)

    async def aclose(self) -> None:
        """Close the sandboxes and end their programs."""
        await self._jails.aclose()

    # -- before a run ------------------------------------------------------------------------------------------------

    def tenant_of(self, authorization: str) -> str:
        """Return who asks.

        Raises:
            Refusal: nobody that is known.
        """
        tenant = self.settings.tenants.named_by(authorization)
        if tenant is None:
            text = "show a token of this service: `Authorization: Bearer TOKEN`" if not authorization else "wrong token"
            raise Refusal(401, "token", text)
        return tenant

    def grant(self, tenant: str, body: bytes) -> dict[str, object]:
        """Grant a run to a tenant who may demand a tier.

        Raises:
            Refusal: the request has the wrong form, the tier is not met, or there is no room.
        """
        require = _required(body)
        if TIERS.index(self.tier) > TIERS.index(require):
            text = f"programs are isolated by tier {self.tier} here, and {require} was required: nothing is run"
            raise Refusal(409, "isolation", text)
        run, token = self.runs.grant(tenant)
        return {
            "run_id": run.id,
            "channel_token": token,
            "url": f"{self.settings.advertise}/v1/runs/{run.id}/channel",
            "connect_s": self.connect_s,
            **self.description(),
        }

    def description(self) -> dict[str, object]:
        """Return what every tenant may read of the service."""
        return {
            "protocol": messages.PROTOCOL,
            "isolation": self.tier,
            "message_bytes": self.settings.message_bytes,
            "limits": dataclasses.asdict(self.settings.limits),
            "pause_s": self.settings.pause_s,
        }

    # -- a run -------------------------------------------------------------------------------------------------------

    async def serve(self, run: Run, socket: WebSocket) -> None:
        """Serve a connected run to its end: an outcome or a refusal, unless its caller has gone."""
        telemetry = self.settings.telemetry
        if telemetry is None:
            await self._served(run, socket)
            return
        with telemetry.program(socket.headers) as observed:
            observed.ended(*await self._served(run, socket))

    async def _served(self, run: Run, socket: WebSocket) -> tuple[str, Outcome | None]:
        settings, called = self.settings, self.metrics.calls.inc
        relay = Relay(socket, settings.limits, 2 * settings.message_bytes, called, settings.pause_s)
        job: Job | None = None
        outcome: Outcome | None = None
        how = "failed"
        try:
            job = await relay.take(self.settings.connect_s)
            outcome = await relay.serve(job, lambda job, call: self._run(run, job, call))
            how = outcome.kind
            self.metrics.seconds.observe(outcome.seconds)
            await relay.send_last(self._outcome_message(outcome))
        except Gone as gone:
            how = "too_large" if gone.code == 1009 else "disconnected"
        except TimeoutError:
            how = "no_program"
            await relay.send_last(_refused("no_program", "no program came in time", job))
        except FrameError as error:
            how = "bad_message"
            await relay.send_last(_refused(how, str(error), job))
        except SandboxUnavailable as error:
            how = "unavailable"
            log.error("no program can be run: %s", error)
            await relay.send_last(_refused(how, str(error), None))
        except asyncio.CancelledError:
            how = "ended"
            await relay.send_last(_refused("ended", "the service is shutting down and ended the run", job), seconds=1.0)
        finally:
            self.runs.end(run)
            self.metrics.runs.labels(how).inc()
            log.info("run %s of %s: %s", run.id, run.tenant, how)
        return how, outcome

    async def _run(self, run: Run, job: Job, call: CallHandler) -> Outcome:
        async with self._jails.lent(run.tenant, job.limits) as sandbox:
            return await sandbox.run(job, call)

    def _outcome_message(self, outcome: Outcome) -> dict[str, object]:
        message = messages.outcome_message(outcome)
        if len(messages.encode(message)) > messages.most_bytes(self.settings.limits):
            text = "its answer takes too many bytes when it is written out"
            message = messages.outcome_message(
                dataclasses.replace(outcome, kind="violation", answered=False, value=None, error=None, detail=text)
            )
        return message

    def _dropped(self, run: Run) -> None:
        self.metrics.runs.labels("never_connected").inc()
        log.info("run %s of %s: nobody connected to it", run.id, run.tenant)

    def _sandbox(self, limits: Limits) -> ProcessSandbox:
        """Make the sandbox of all runs with these limits on their process; other limits are a run's own, up to ours."""
        fixed = {name: getattr(limits, name) for name in FIXED}
        limits = dataclasses.replace(self.settings.limits, **fixed)
        return ProcessSandbox(limits, self.tier, preload=self.settings.preload)


def _refused(code: str, why: str, job: Job | None) -> dict[str, object]:
    return messages.refusal_message(code, why, handed_over=job is not None)


def _required(body: bytes) -> str:
    try:
        asked = messages.decode(body.decode("utf-8")) if body else {}
    except (UnicodeDecodeError, FrameError) as error:
        why = str(error) if isinstance(error, FrameError) else "it is not UTF-8"
        raise Refusal(400, "bad_request", f"the request's body is not taken: {why}") from None
    require = asked.get("require", TIERS[-1])
    if require not in TIERS or set(asked) - {"require"}:
        text = f'the request\'s body may be {{"require": T}}, T one of {", ".join(TIERS)}, and nothing else'
        raise Refusal(400, "bad_request", text)
    return str(require)


_Key = tuple[str | int, ...]

Make = Callable[[Limits], ProcessSandbox]


class Jails:
    """Sandboxes that are kept for the next program of the same kind. For one event loop.

    No two tenants share one: programs of the same parent share its memory layout and its hash seed.

    Args:
        make: makes a sandbox with these limits, of no weaker tier than the service promised.
        keep: sandboxes to keep that run nothing.
    """

    def __init__(self, make: Make, max_idle: int) -> None:
        self._make, self._max_idle = make, max_idle
        self._sandboxes: collections.OrderedDict[_Key, ProcessSandbox] = collections.OrderedDict()
        self._users: dict[_Key, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lent(self, tenant: str, limits: Limits) -> AsyncIterator[ProcessSandbox]:
        """Lend a sandbox for one run. What is not used for long is closed when others take its place."""
        key = (tenant, *(getattr(limits, name) for name in FIXED))
        if key not in self._sandboxes:
            self._sandboxes[key] = self._make(limits)
        self._sandboxes.move_to_end(key)
        self._users[key] = self._users.get(key, 0) + 1
        try:
            yield self._sandboxes[key]
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
            self._let_go()

    async def aclose(self) -> None:
        """Close every sandbox and end its programs."""
        sandboxes = list(self._sandboxes.values())
        self._sandboxes.clear()
        await asyncio.gather(*self._closing, *(sandbox.aclose() for sandbox in sandboxes))

    def _let_go(self) -> None:
        idle = [key for key in self._sandboxes if key not in self._users]
        while len(idle) > self._max_idle:  # of who has most: one with many kinds of limits does not cost others theirs
            most, _ = collections.Counter(tenant for tenant, *_ in idle).most_common(1)[0]
            key = next(key for key in idle if key[0] == most)
            idle.remove(key)
            task = asyncio.create_task(self._sandboxes.pop(key).aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counts what one service does, for Prometheus (``GET /metrics``).

    Labels come from fixed sets: never from a program, a tool or a token; a tenant's name is one that was set.

    Args:
        running: how many runs are connected now.
        tier: the isolation that holds.
        accounts: gives the tenants' accounts of the service's own processor time, by name: those that were set, and no
            others.
        crowd: counts the service's connections.
    """

    def __init__(
        self, running: Callable[[], int], tier: str, accounts: Callable[[], Iterable[tuple[str, Account]]], crowd: Crowd
    ) -> None:
        self.registry = CollectorRegistry()
        self.runs = Counter("atc_runs", "Runs that ended, by how.", ["outcome"], registry=self.registry)
        self.refused = Counter("atc_refused", "Requests refused, by why.", ["reason"], registry=self.registry)
        self.calls = Counter("atc_tool_calls", "Tool calls passed to callers.", registry=self.registry)
        self.seconds = Histogram(
            "atc_run_seconds", "From a program's start to its end.", buckets=_BUCKETS, registry=self.registry
        )
        self.registry.register(_Times(accounts, crowd))
        Gauge("atc_connections", "Open connections.", registry=self.registry).set_function(lambda: len(crowd))
        Gauge("atc_runs_running", "Runs going on.", registry=self.registry).set_function(running)
        Gauge("atc_isolation", "1 for the tier that holds.", ["tier"], registry=self.registry).labels(tier).set(1)

    def text(self) -> bytes:
        """Return the figures in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Times(Collector):
    def __init__(self, accounts: Callable[[], Iterable[tuple[str, Account]]], crowd: Crowd) -> None:
        self._accounts, self._crowd = accounts, crowd

    def collect(self) -> Iterable[Metric]:
        used = CounterMetricFamily("atc_host_seconds", "The service's own processor time.", labels=["tenant"])
        waited = CounterMetricFamily("atc_held_back_seconds", "Connections waited for a share.", labels=["tenant"])
        for name, account in self._accounts():
            used.add_metric([name], account.used_s)
            waited.add_metric([name], account.waited_s)
        refused = CounterMetricFamily("atc_connections_refused", "Connections there was no room for.")
        refused.add_metric([], self._crowd.refused)
        return [used, waited, refused]

"""A sandbox service without its HTTP face: who may run, what is running, and how every run ends."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass, field

from starlette.websockets import WebSocket

from atc.accepting import Crowd
from atc.calls.contract import CallHandler
from atc.errors import FrameError, SandboxUnavailable, UsageError
from atc.outcome import Outcome
from atc.sandboxes.contract import FIXED, TIERS, Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.service import messages
from atc.sandboxes.service.accounts import Accounts
from atc.sandboxes.service.jails import Jails
from atc.sandboxes.service.metrics import Metrics
from atc.sandboxes.service.refusal import Refusal
from atc.sandboxes.service.relay import Gone, Relay
from atc.sandboxes.service.runs import Run, Runs
from atc.sandboxes.service.tenants import Tenants
from atc.telemetry import Telemetry

log = logging.getLogger("atc.service")

STRANGERS = 256
"""Connections beside those of runs."""
UNUSED_S = 5.0
"""Seconds after which a grant lapses that nobody has connected to: it takes the room of a run."""


@dataclass(frozen=True)
class ServiceSettings:
    """What a service is set to.

    Attributes:
        tenants: who may use it.
        limits: what one program may use at most; callers may ask for less.
        require: the least isolation; without it the service does not start.
        preload: packages that programs may use beside the standard library.
        max_runs: at the same time, of all tenants.
        max_runs_per_tenant: of one. 0: all where there is one tenant; of several, each only while it has fewer than
            are free (:class:`atc.sandboxes.service.runs.Runs`).
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
    """For one event loop: :meth:`start` it, serve, :meth:`drain` it, :meth:`aclose` it."""

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
        """Whether new runs are granted."""
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
        """Who asks.

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
        """Serve a connected run, and return how it ended, in a word, and what came of it."""
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
        """For every run with these limits on its process; the others are each run's own, up to ours."""
        fixed = {name: getattr(limits, name) for name in FIXED}
        limits = dataclasses.replace(self.settings.limits, **fixed)
        return ProcessSandbox(limits, self.tier, preload=self.settings.preload)


def _refused(code: str, why: str, job: Job | None) -> dict[str, object]:
    return messages.refusal_message(code, why, handed_over=job is not None)


def _required(body: bytes) -> str:
    """The tier that a request demands."""
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

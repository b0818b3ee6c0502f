"""Runs the checks on a driver and reports which of its promises it keeps."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atc.calls.contract import CallReply, CallRequest
from atc.errors import SandboxUnavailable, SettingsError
from atc.sandboxes.conformance import calls, limits, programs, values
from atc.sandboxes.conformance.kit import Check, Factory, Lab, NotApplicable
from atc.sandboxes.contract import TIERS, Job, Limits, Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.sandboxes.process.driver import JailSandbox, Pool, pool_size
from atc.sandboxes.process.zygote import Zygote, start_zygote, zygote_settings
from atc.settings import Settings

GROUPS = ("values", "errors", "output", "inputs", "calls", "limits", "isolation", "endings", "modules", "python")
CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (*values.CHECKS, *calls.CHECKS, *limits.CHECKS, *programs.CHECKS), key=lambda check: GROUPS.index(check.group)
    )
)
CHECK_S = 120.0
"""Seconds that one check gets before it counts as hanging."""
LIMITS = Limits(wall_s=60.0)
"""The limits of programs of the suite, where a check sets none of its own."""

Result = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Verdict:
    """The result of one check; ``why``: what was not met, or why there was nothing to look at."""

    name: str
    group: str
    result: Result
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class Report:
    """Describes what a driver kept of its promises.

    Attributes:
        driver: ``process``, ``docker`` or ``service``.
        isolation: the tier that it has, of :data:`atc.sandboxes.contract.TIERS`.
        seconds: of the whole suite.
        verdicts: one a check, in their order.
    """

    driver: str
    isolation: str
    seconds: float
    verdicts: tuple[Verdict, ...]

    def count(self, result: Result) -> int:
        """Return how many checks ended with this result."""
        return sum(verdict.result == result for verdict in self.verdicts)

    @property
    def ok(self) -> bool:
        """Return whether no check failed."""
        return self.count("failed") == 0

    def as_json(self) -> dict[str, Any]:
        """Return plain values: what ``atc sandbox check --json`` prints."""
        counts = {result: self.count(result) for result in ("passed", "failed", "skipped")}
        checks = [dataclasses.asdict(verdict) for verdict in self.verdicts]
        return {"driver": self.driver, "isolation": self.isolation, "seconds": self.seconds, **counts, "checks": checks}


async def check_sandbox(
    factory: Factory, checks: Sequence[Check] = CHECKS, tell: Callable[[Verdict], None] | None = None
) -> Report:
    """Run checks on the sandboxes that ``factory`` opens, one after the other.

    Args:
        factory: opens a sandbox of the driver under test, for given limits.
        checks: which; all of them by default.
        tell: is called with each verdict as soon as it is there.

    Raises:
        SandboxUnavailable: the driver cannot be had at all.
    """
    began = time.perf_counter()
    verdicts: list[Verdict] = []
    async with factory(LIMITS) as sandbox:
        lab = Lab(factory, sandbox, sandbox.name, await _tier_of(sandbox))
        for check in checks:
            verdicts.append(await _verdict(check, lab))
            if tell is not None:
                tell(verdicts[-1])
    return Report(lab.driver, lab.tier, time.perf_counter() - began, tuple(verdicts))


def factory_for(settings: Settings, tier: str | None = None) -> Factory:
    """Return what opens the sandboxes to check.

    Args:
        settings: its ``sandbox*`` fields name the driver.
        tier: for the process driver: just this tier, without extra packages, in place of the strongest there is.

    Raises:
        SettingsError: there is no such tier, or another driver than ``process`` was named with one.
    """
    if tier is None:
        return lambda limits: open_sandbox(settings, limits)
    if tier not in TIERS:
        raise SettingsError(f"there is no tier {tier!r}: choose from {', '.join(TIERS)}")
    if settings.sandbox != "process":
        raise SettingsError(f"a tier can be chosen for the driver `process` only, not for {settings.sandbox!r}")
    return lambda limits: OneTierSandbox(tier, limits)


class OneTierSandbox(JailSandbox):
    """The process sandbox with one tier, neither a stronger nor a weaker one: to check that tier.

    Args:
        tier: of :data:`atc.sandboxes.contract.TIERS`.
        limits: what a program may use at most.
    """

    name = "process"

    def __init__(self, tier: str, limits: Limits) -> None:
        def start(wanted: str) -> Zygote:
            return start_zygote(zygote_settings(wanted, limits))

        super().__init__(Pool(start, (tier,), pool_size()), limits)


async def _tier_of(sandbox: Sandbox) -> str:
    async def no_tools(request: CallRequest) -> CallReply:
        return CallReply(error=f"there is no tool {request.tool}")

    outcome = await sandbox.run(Job("answer = 6 * 7", {}, sandbox.limits), no_tools)
    if outcome.value != 42:
        raise SandboxUnavailable(f"the first program did not run: {outcome.kind}: {outcome.detail or outcome.error}")
    return outcome.isolation


async def _verdict(check: Check, lab: Lab) -> Verdict:
    began = time.perf_counter()
    result: Result = "failed"
    why = ""
    try:
        await asyncio.wait_for(check.run(lab), CHECK_S)
        result = "passed"
    except NotApplicable as reason:
        result, why = "skipped", str(reason)
    except AssertionError as problem:
        why = str(problem)
    except TimeoutError:
        why = f"it did not end within {CHECK_S:g} s"
    except Exception as error:  # whatever a driver raises where the contract has nothing of the kind
        why = f"{type(error).__name__} came out: {error}"
    return Verdict(check.name, check.group, result, time.perf_counter() - began, why)

"""Which sandbox is meant: the name in the settings → the driver."""

from __future__ import annotations

import re

from atc.errors import SettingsError
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.process.driver import ProcessSandbox
from atc.settings import Settings

SPECS = "`process`, `docker`, `docker:strict`, or the http(s) address of a sandbox service"


def open_sandbox(settings: Settings, limits: Limits | None = None) -> Sandbox:
    """The driver that ``settings.sandbox`` names. Nothing is started yet.

    Args:
        settings: its ``sandbox*`` fields, and the limits of a program.
        limits: in place of those from the settings.

    Raises:
        SettingsError: there is no such driver, or it lacks a setting.
        SandboxUnavailable: its requirement means nothing.
    """
    spec = settings.sandbox
    limits = limits or limits_from(settings)
    if spec == "process":
        return ProcessSandbox(limits, settings.sandbox_require, preload=settings.sandbox_preload)
    if spec in ("docker", "docker:strict"):
        from atc.sandboxes.docker.driver import DockerSandbox

        return DockerSandbox(
            limits, settings.sandbox_require, strict=spec == "docker:strict", image=settings.sandbox_image,
            preload=settings.sandbox_preload,
        )  # fmt: skip
    if re.match(r"https?://", spec):
        from atc.sandboxes.service.client import ServiceSandbox

        token = settings.sandbox_token.get_secret_value() if settings.sandbox_token else None
        return ServiceSandbox(spec, token, limits, settings.sandbox_require)
    raise SettingsError(f"sandbox: there is no driver {spec!r}: give {SPECS}")


def limits_from(settings: Settings) -> Limits:
    """What a program may use at most."""
    return Limits(wall_s=settings.wall_s, cpu_s=settings.cpu_s, memory_bytes=settings.memory_mb << 20)

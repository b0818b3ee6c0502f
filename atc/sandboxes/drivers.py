"""The drivers by name: which sandbox the setting ``sandbox`` means.

A package adds a driver by an entry point of the group ``atc.sandboxes``: a name, and a function of the settings and the
limits that returns a :class:`~atc.sandboxes.contract.Sandbox`. It is imported only when the setting gives its name, and
runs on the trusted side, with all that this process may do.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from atc.errors import SandboxUnavailable
from atc.parts import SANDBOXES
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.process.driver import ProcessSandbox
from atc.settings import Settings


def open_process(settings: Settings, limits: Limits) -> Sandbox:
    """Return the driver ``process``."""
    return ProcessSandbox(limits, settings.sandbox_require, preload=settings.sandbox_preload)


def open_docker(settings: Settings, limits: Limits) -> Sandbox:
    """Return the drivers ``docker`` and ``docker:strict``."""
    from atc.sandboxes.docker.driver import DockerSandbox

    return DockerSandbox(
        limits,
        settings.sandbox_require,
        strict=settings.sandbox == "docker:strict",
        image=settings.sandbox_image,
        preload=settings.sandbox_preload,
    )


def _service(settings: Settings, limits: Limits) -> Sandbox:
    if find_spec("websockets") is None:
        from atc._host.extras import install_command

        raise SandboxUnavailable(f"a sandbox service is spoken to by `websockets`: {install_command('service')}")
    from atc.sandboxes.remote.client import ServiceSandbox

    token = settings.sandbox_token.get_secret_value() if settings.sandbox_token else None
    return ServiceSandbox(settings.sandbox, token, limits, settings.sandbox_require)


def open_sandbox(settings: Settings, limits: Limits | None = None) -> Sandbox:
    """Return the driver that ``settings.sandbox`` names. Nothing is started yet.

    A name with a colon that is not known as a whole is looked up by its first part: ``mine:fast`` is the driver
    ``mine``, which reads the rest from the settings.

    Args:
        settings: its ``sandbox*`` fields, and the limits of a program.
        limits: in place of those from the settings.

    Raises:
        SettingsError: there is no such driver, it cannot be loaded, or it lacks a setting.
        SandboxUnavailable: the tier that is required does not exist, or not with this driver.
    """
    name, limits = settings.sandbox, limits or limits_from(settings)
    if re.match(r"https?://", name):
        return _service(settings, limits)
    driver = name if SANDBOXES.has(name) or name.partition(":")[0] in SANDBOXES.ours else name.partition(":")[0]
    return SANDBOXES.make(driver, settings, limits, a=Sandbox)  # type: ignore[type-abstract]


def limits_from(settings: Settings) -> Limits:
    """Return what a program may use at most, by the settings."""
    return Limits(
        wall_s=settings.wall_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mb << 20,
        host_s=settings.host_s,
    )

"""The drivers by name: which sandbox the setting ``sandbox`` means.

A package adds a driver by an entry point of the group ``atc.sandboxes``: a name, and a function of the settings and the
limits that returns a :class:`~atc.sandboxes.contract.Sandbox`. It is imported only when the setting gives its name, and
runs on the trusted side, with all that this process may do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from atc.errors import SettingsError
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.process.driver import ProcessSandbox
from atc.settings import Settings

GROUP = "atc.sandboxes"
"""The entry-point group of drivers from other packages."""

Factory = Callable[[Settings, Limits], Sandbox]
"""Opens a driver and starts nothing. The settings are whole: ``settings.sandbox`` is the name as it was given."""


def _process(settings: Settings, limits: Limits) -> Sandbox:
    return ProcessSandbox(limits, settings.sandbox_require, preload=settings.sandbox_preload)


def _docker(settings: Settings, limits: Limits) -> Sandbox:
    from atc.sandboxes.docker.driver import DockerSandbox

    return DockerSandbox(
        limits,
        settings.sandbox_require,
        strict=settings.sandbox == "docker:strict",
        image=settings.sandbox_image,
        preload=settings.sandbox_preload,
    )


def _service(settings: Settings, limits: Limits) -> Sandbox:
    from atc.sandboxes.service.client import ServiceSandbox

    token = settings.sandbox_token.get_secret_value() if settings.sandbox_token else None
    return ServiceSandbox(settings.sandbox, token, limits, settings.sandbox_require)


DRIVERS: dict[str, Factory] = {"process": _process, "docker": _docker, "docker:strict": _docker}
"""The drivers that come with ATC, by name; beside them the address of a service."""


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
    factory = _factory(settings.sandbox)
    return factory(settings, limits or limits_from(settings))


def limits_from(settings: Settings) -> Limits:
    """Return what a program may use at most, by the settings."""
    return Limits(
        wall_s=settings.wall_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mb << 20,
        host_s=settings.host_s,
    )


def _factory(name: str) -> Factory:
    if name in DRIVERS:
        return DRIVERS[name]
    if re.match(r"https?://", name):
        return _service
    others = {point.name: point for point in entry_points(group=GROUP)}
    point = others.get(name) or others.get(name.partition(":")[0])
    if point is None:
        known = ", ".join(f"`{known}`" for known in [*DRIVERS, *sorted(others.keys() - DRIVERS.keys())])
        raise SettingsError(
            f"sandbox: there is no driver {name[:200]!r}: give {known}, or the http(s) address of a sandbox service"
        )
    return _loaded(point)


def _loaded(point: EntryPoint) -> Factory:
    try:
        factory = point.load()
    except Exception as error:  # whatever the other package's import raises
        raise SettingsError(
            f"sandbox: the driver {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(factory):
        raise SettingsError(f"sandbox: the driver {point.name!r} ({point.value}) is not a function of settings, limits")

    def opened(settings: Settings, limits: Limits) -> Sandbox:
        sandbox = factory(settings, limits)
        if not isinstance(sandbox, Sandbox):
            raise SettingsError(f"sandbox: the driver {point.name!r} ({point.value}) made no Sandbox")
        return sandbox

    return opened

"""Joining a Ray cluster in bounded time, or starting a small one on this machine; nothing of it is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from atc._host.extras import install_command
from atc.errors import EnvironmentProblem, UsageError

JOIN_S = 30.0
"""Seconds for joining a cluster."""
REACH_S = 5.0
"""Seconds for a connection to its address."""
OBJECT_STORE_BYTES = 80_000_000
"""Memory for objects of a cluster of our own: only tasks and results pass through it."""
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})")
_QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": None}
_TRIAL = """
import json, sys
try:
    import ray
    ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
    ray.shutdown()
    found = ""
except BaseException as error:
    found = f"{type(error).__name__}: {error}"
print(json.dumps({"found": found}), flush=True)
"""


def checked_address(address: str | None) -> str | None:
    """The address of a cluster, from ``ray:ADDRESS`` or the variable ``RAY_ADDRESS``; ``None``: start one here.

    Raises:
        UsageError: it is none.
    """
    address = address or os.environ.get("RAY_ADDRESS") or None
    if address is None or address == "auto":
        return address
    if address == "local":
        return None
    if _ADDRESS.fullmatch(address) is None:
        raise UsageError(
            f"{address!r:.100} is no address of a Ray cluster: give HOST:PORT of its head (`ray start --head` prints "
            "it), or auto for the one of this machine. ray://… is not supported: begin the batch on a node of the "
            "cluster, for instance with `ray job submit`"
        )
    return address


def imported() -> Any:
    """The package ``ray``.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise EnvironmentProblem(f"Ray cannot be imported ({error}): {install_command('ray')}") from None
    return ray


@asynccontextmanager
async def joined(address: str | None, slots: int) -> AsyncIterator[Any]:
    """The package ``ray``, connected to a cluster.

    A process that is connected already stays so; else it is disconnected at the end, and a cluster of our own ends.

    Args:
        address: as :func:`checked_address` gives it.
        slots: processors that a cluster of our own says it has.

    Raises:
        EnvironmentProblem: it cannot be reached, is of another version, or answers something else.
    """
    ray = imported()
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        await _tried(address)
        await _initialized(ray, address=address, **_QUIET)
        try:
            yield ray
        finally:
            await asyncio.to_thread(ray.shutdown)
        return
    folder = tempfile.mkdtemp(prefix="atc-ray-")
    size = {"num_cpus": slots, "object_store_memory": OBJECT_STORE_BYTES, "_temp_dir": folder}
    try:
        await _initialized(ray, address="local", **_QUIET | {"include_dashboard": False}, **size)
        yield ray
    finally:
        await asyncio.to_thread(ray.shutdown)
        shutil.rmtree(folder, ignore_errors=True)


async def _initialized(ray: Any, **options: Any) -> None:
    try:
        ray.init(**options)  # in this thread: it sets handlers of signals
    except Exception as error:
        raise EnvironmentProblem(f"Ray cannot be used: {_short(error)}") from None


async def _tried(address: str) -> None:
    """Join from a process of its own first: Ray ends a process that cannot reach a cluster."""
    if (parts := _ADDRESS.fullmatch(address)) is not None:
        host, port = parts[1] or parts[2], int(parts[3])
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), REACH_S)
            writer.close()
        except (OSError, TimeoutError, OverflowError, socket.gaierror) as error:
            why = "nothing answers" if isinstance(error, TimeoutError) else _short(error)
            raise EnvironmentProblem(f"no Ray cluster can be reached at {address} ({why}): is its head up?") from None
    trial = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _TRIAL,
        address,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(trial.communicate(), JOIN_S)
    except TimeoutError:
        raise EnvironmentProblem(f"no Ray cluster answered at {address} within {JOIN_S:g} s: is its head up?") from None
    finally:
        if trial.returncode is None:
            trial.kill()
            await trial.wait()
    try:
        found = json.loads(said.splitlines()[-1])["found"]
    except (IndexError, KeyError, ValueError):
        found = "what answers there is no Ray cluster that can be joined"
    if found:
        raise EnvironmentProblem(f"the Ray cluster at {address} cannot be joined: {_short(found)}")


def _short(error: object) -> str:
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    return " ".join(text.split())[:600]

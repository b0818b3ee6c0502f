"""Run as a program: what of ATC can be imported where Unix's modules and functions lack, and what a run says there.

Everything is imported once as it is here, so that libraries of others are loaded; ATC's own modules are then imported
anew in a world that lacks what Windows or macOS lacks. Prints one JSON document.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

UNIX = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"})
MODULES = {"win32": UNIX, "darwin": frozenset[str]()}
OS = """fchmod fchown fork forkpty getegid geteuid getgid getpgid getuid killpg mkfifo nice pidfd_open memfd_create
    sched_getaffinity setpgid setsid sysconf uname waitid O_PATH O_DIRECTORY O_NOFOLLOW O_NONBLOCK"""
SIGNALS = "ALRM CHLD CONT HUP KILL PIPE QUIT STOP TSTP USR1 USR2"
ATTRIBUTES: dict[str, list[tuple[ModuleType, list[str]]]] = {
    "win32": [
        (os, OS.split()),
        (signal, ["pthread_sigmask", "setitimer", *(f"SIG{name}" for name in SIGNALS.split())]),
        (socket, ["AF_UNIX", "send_fds", "recv_fds", "CMSG_LEN", "SCM_RIGHTS", "MSG_DONTWAIT", "SO_PEERCRED"]),
    ],
    "darwin": [
        (os, ["memfd_create", "pidfd_open", "sched_getaffinity", "O_PATH", "unshare", "setns", "eventfd"]),
        (signal, ["sigtimedwait", "sigwaitinfo"]),
        (socket, ["SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK"]),
    ],
}


class _Hidden:
    """Refuses to find modules by name."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _import_all() -> dict[str, str]:
    """Import every module of ATC; return what failed, by name of the module."""
    import atc

    failed: dict[str, str] = {}
    for found in pkgutil.walk_packages(atc.__path__, "atc."):
        if found.name == "atc.__main__":
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            failed[found.name] = f"{type(error).__name__}: {error}"
    return failed


def main(platform: str) -> dict[str, Any]:
    before = _import_all()
    for name in [name for name in sys.modules if name.partition(".")[0] == "atc"]:
        del sys.modules[name]
    for name in MODULES[platform]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden(MODULES[platform]))
    if platform == "win32":  # there it is made of AF_INET
        socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    for owner, names in ATTRIBUTES[platform]:
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    sys.platform = platform
    after = _import_all()
    return {"broken": {name: why for name, why in after.items() if before.get(name) != why}} | _uses()


def _uses() -> dict[str, Any]:
    """What somebody meets there: a run, the doctor, the help, a page."""
    import atc
    from atc.cli import main as cli
    from atc.sandboxes.contract import Job
    from atc.sandboxes.docker.driver import DockerSandbox
    from atc.sandboxes.process.driver import ProcessSandbox

    async def refused(driver: Any) -> str:
        async def no_tools(request: Any) -> Any:
            raise AssertionError(request)

        try:
            async with driver() as sandbox:
                await sandbox.run(Job("answer = 1", {}), no_tools)
        except atc.AtcError as error:
            return f"{type(error).__name__}: {error}"
        return "it ran"

    def command(*words: str) -> dict[str, Any]:
        printed, faults = io.StringIO(), io.StringIO()
        sys.argv = ["atc", *words]
        code: Any = 0
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(faults):
            try:
                cli()
            except SystemExit as end:
                code = end.code
        return {"code": code, "out": printed.getvalue(), "err": faults.getvalue()}

    @atc.tool(effect="read")
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    def run() -> dict[str, Any]:
        asked: list[Any] = []

        class Counted(atc.FakeModel):
            async def generate(self, request: Any) -> Any:
                asked.append(request)
                return await super().generate(request)

        model = Counted(["```python\nanswer = double(number=21)\n```"])
        try:
            with atc.Agent([double], model=model) as agent:
                result = agent.run("double 21")
            return {"status": result.status, "says": "", "asked": len(asked)}
        except atc.AtcError as error:
            return {"status": type(error).__name__, "says": str(error), "asked": len(asked)}

    return {
        "public": sorted(name for name in atc.__all__ if getattr(atc, name) is None),
        "process": asyncio.run(refused(ProcessSandbox)),
        "docker": asyncio.run(refused(DockerSandbox)),
        "run": run(),
        "help": command("--help"),
        "doctor": command("doctor", "--json"),
        "check": command("sandbox", "check", "process", "--json"),
    }


if __name__ == "__main__":
    found = main(sys.argv[1])
    sys.__stdout__.write(json.dumps(found))  # type: ignore[union-attr]

"""What a user is told where programs cannot be locked: on every system but Linux."""

from __future__ import annotations

import sys

_NAMES = {"darwin": "macOS", "win32": "Windows"}


def why_not_here(driver: str) -> str:
    """Why a driver that locks programs on this very machine cannot do so; empty on Linux.

    Args:
        driver: ``process`` or ``docker``.
    """
    if sys.platform == "linux":
        return ""
    here = _NAMES.get(sys.platform, sys.platform)
    if driver == "docker":
        problem = f"the docker sandbox passes descriptors into its containers, which cannot be done on {here}"
    else:
        problem = f"the process sandbox locks programs by Landlock and seccomp, which Linux alone has: this is {here}"
    return f"{problem}. Nothing was run. {how_to_go_on()}"


def how_to_go_on() -> str:
    """What somebody on this system can do to run programs."""
    if sys.platform == "win32":
        return "Use ATC in WSL 2 (`wsl --install`): it is Linux"
    return (
        "Run the sandbox as a service in a Linux container, or on a Linux machine (`docker run -p 127.0.0.1:8700:8700 "
        "-e ATC_SERVE_TOKEN atc-sandbox`), and give its address: `--sandbox http://127.0.0.1:8700`, with "
        "ATC_SANDBOX_TOKEN set to the same token"
    )

"""The same attacks where nothing protects the host: each does the harm that it is meant to do, so that its failure in
the sandbox means something. They run in a process namespace of their own, and may use little."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.attacks import bombs, channel, claims, native, reach, stubs, walks
from tests.attacks.record import PRELUDE, Attack
from tests.attacks.world import World

pytestmark = pytest.mark.slow
REAL = [
    attack
    for part in (walks, stubs, channel, claims, reach, native, bombs)
    for attack in part.ATTACKS
    if attack.control
]
_TOOLS = """
import json, os, re
ToolError = Exception
def lookup(n=None, **more): return {"n": n}
book, answer = lookup, None
"""
_CONFINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
_LIMITED = ["prlimit", f"--as={1 << 30}", "--cpu=10", f"--fsize={1 << 24}", "--nofile=256", "--core=0"]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.clean()
    made.close()


@pytest.fixture(scope="module")
def confined() -> list[str]:
    for tool in (_CONFINED[0], _LIMITED[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here: a control is not run without it")
    # a plain user makes a user namespace first
    for more in ([], ["--user", "--map-root-user"]):
        command = [*_CONFINED, *more, *_LIMITED]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("unshare cannot make a process namespace here: a control is not run without one")


@pytest.mark.parametrize("attack", REAL, ids=[f"{attack.family}: {attack.name}" for attack in REAL])
def test_an_attack_is_real(attack: Attack, world: World, confined: list[str]) -> None:
    named = "\n".join(f"{name} = {value!r}" for name, value in world.names().items())
    program = f"{named}\n{_TOOLS}{PRELUDE}\n{attack.program}\nprint(repr(answer))"
    ran = subprocess.run(
        [*confined, sys.executable, "-I", "-S", "-c", program],
        cwd=world.drop,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        errors="replace",
    )
    damage = world.damage(ran.stdout + ran.stderr)
    assert any(what.startswith(attack.control) for what in damage), (damage, ran.stderr[-500:])


def test_every_kind_of_harm_is_shown_to_be_real() -> None:
    families = {attack.family for attack in REAL}
    assert {attack.control for attack in REAL} == {"loot", "write", "contact"}
    assert len(REAL) >= 25
    assert {"format", "classes", "modules", "code", "files", "environment", "network", "processes"} <= families

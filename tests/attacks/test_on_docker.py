"""Every attack, in a container: the files, sockets and secrets that it is after lie in there with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.containers import DockerRange, engine
from tests.attacks.ranges import ATTACKS, attacks_of, closing, withstood
from tests.attacks.record import PRELUDE, Attack

pytestmark = pytest.mark.slow


BARE = [
    attack
    for attack in ATTACKS
    if attack.control
    and attack.name
    in {
        "the secret file, by every door",
        "the machine's own files",
        "the environment, by every door",
        "the disk filled",
        "a shell",
        "loopback",
        "UDP",
        "an abstract socket",
        "a named socket",
    }
]


@pytest.fixture(scope="module")
def container() -> Iterator[DockerRange]:
    with engine(), closing(DockerRange()) as there:
        yield there


@pytest.mark.parametrize("attack", attacks_of("L"))
def test_an_attack_in_a_container_does_no_harm(attack: Attack, container: DockerRange) -> None:
    withstood(container, attack)


@pytest.mark.parametrize("attack", BARE, ids=[f"{attack.family}: {attack.name}" for attack in BARE])
def test_the_container_holds_what_an_attack_is_after(attack: Attack, container: DockerRange) -> None:
    """In the same container, but without the jail: each gets what it came for."""
    named = "\n".join(f"{name} = {value!r}" for name, value in container.world.names().items())
    said = container.bare(f"{named}\nlookup = answer = None\n{PRELUDE}\n{attack.program}\nprint(repr(answer))")
    damage = container.world.damage(said)
    container.world.clean()
    assert any(what.startswith(attack.control) for what in damage), (damage, said[-500:])

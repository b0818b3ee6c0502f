"""Attacks where each program has a container of its own: it goes with its program, and all that was in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.containers import StrictRange, engine
from tests.attacks.ranges import Range, attacks_of, closing, withstood
from tests.attacks.record import Attack

pytestmark = pytest.mark.slow


_STRICT = {"files", "environment", "network", "processes", "ways out", "endings", "descriptors"}
"""Families that are run where each program has a container of its own, which takes a third of a second each."""


@pytest.fixture(scope="module")
def strict() -> Iterator[Range]:
    with engine(), closing(StrictRange()) as there:
        yield there


@pytest.mark.parametrize("attack", attacks_of("L", families=_STRICT))
def test_an_attack_in_a_container_of_its_own_does_no_harm(attack: Attack, strict: Range) -> None:
    withstood(strict, attack)

"""Every attack, through a real service: neither the service nor its caller comes to harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.ranges import Range, attacks_of, closing, withstood
from tests.attacks.record import Attack
from tests.attacks.serving import ServiceRange

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service() -> Iterator[Range]:
    with closing(ServiceRange()) as there:
        yield there


@pytest.mark.parametrize("attack", attacks_of())
def test_an_attack_through_a_service_does_no_harm(attack: Attack, service: Range) -> None:
    withstood(service, attack)

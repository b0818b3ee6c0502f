"""Every attack, on the strongest walls that this machine has: nothing is read, written, reached, forged or left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.ranges import ATTACKS, ProcessRange, Range, attacks_of, closing, sample, withstood
from tests.attacks.record import Attack


@pytest.fixture(scope="module")
def strongest() -> Iterator[Range]:
    for tier in ("N", "L", "F"):
        try:
            there = ProcessRange(tier)
        except pytest.skip.Exception:
            continue
        with closing(there):
            yield there
        return
    pytest.skip("this machine has no tier at all")


@pytest.fixture(scope="module")
def landlock() -> Iterator[Range]:
    with closing(ProcessRange("L")) as there:
        yield there


@pytest.fixture(scope="module")
def no_files() -> Iterator[Range]:
    with closing(ProcessRange("F")) as there:
        yield there


def test_there_are_enough_and_each_has_its_own_name() -> None:
    names = [(attack.family, attack.name) for attack in ATTACKS]
    assert len(names) == len(set(names)) >= 120


def test_a_quick_run_tries_some_of_each_family() -> None:
    assert {attack.family for attack in sample()} == {attack.family for attack in ATTACKS}
    assert len(sample()) >= 60


@pytest.mark.parametrize("attack", attacks_of("N", quick=sample()))
def test_an_attack_does_no_harm(attack: Attack, strongest: Range) -> None:
    withstood(strongest, attack)


@pytest.mark.slow
@pytest.mark.parametrize("attack", attacks_of("L"))
def test_an_attack_does_no_harm_without_namespaces(attack: Attack, landlock: Range) -> None:
    withstood(landlock, attack)


@pytest.mark.slow
@pytest.mark.parametrize("attack", attacks_of("F"))
def test_an_attack_does_no_harm_where_no_file_can_be_opened(attack: Attack, no_files: Range) -> None:
    withstood(no_files, attack)

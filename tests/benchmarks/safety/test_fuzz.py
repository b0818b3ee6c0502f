"""Fuzzing without the fuzzer: the kept inputs are replayed, and mutation gives what it promises."""

from __future__ import annotations

import json
import random

import pytest

from benchmarks.fuzzing.mutator import LINES, mutated
from benchmarks.fuzzing.target import NAMES, SEEDS, Broken, Target, finding_of, target_of


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_kept_show_nothing(name: str) -> None:
    target = target_of(name)
    inputs = sorted((SEEDS / name).iterdir())
    assert inputs
    found = [finding_of(target, path.read_bytes()) for path in inputs]
    assert [each for each in found if each is not None and each.kind in ("error", "broken")] == []


def test_the_kept_inputs_are_few() -> None:
    assert sum(path.stat().st_size for path in SEEDS.glob("*/*")) <= 300_000


def test_an_undocumented_error_and_a_property_that_does_not_hold_are_findings() -> None:
    def run(data: bytes) -> None:
        if data == b"broken":
            raise Broken("sum: one and one is three")
        int(data)

    target = Target("one", run)
    found = [finding_of(target, data) for data in (b"1", b"x", b"y", b"broken")]
    assert [each and each.kind for each in found] == [None, "error", "error", "broken"]
    assert found[1] is not None
    assert found[2] is not None
    assert found[1].name == found[2].name  # one cause


def test_what_mutation_makes_of_json_is_mostly_json_and_the_same_for_the_same_seed() -> None:
    words = ("op", "call")
    for head, data in (
        (0, b'{"a": [1, "x", {"b": null}]}'),
        (2, b'h\n1\n{"a": [1]}'),
        (LINES, b'{"a": 1}\n{"b": [2]}'),
    ):
        made = [mutated(data, 400, seed, words, head, lambda data, most: data + b"!") for seed in range(200)]
        assert made == [mutated(data, 400, seed, words, head, lambda data, most: data + b"!") for seed in range(200)]
        assert len(set(made)) > 60
        assert max(map(len, made)) <= 400
        assert head != 0 or sum(map(_is_json, made)) > 100


def test_mutation_takes_anything() -> None:
    rng = random.Random(3)
    for seed in range(300):
        mutated(rng.randbytes(rng.randrange(40)), 100, seed, (), rng.choice((0, 1, 2, LINES)), lambda data, most: data)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True

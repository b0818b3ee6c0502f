"""Frames of a program, and JSON from elsewhere, are read in linear time whatever is in them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from atc._records.strict_json import parse
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "make",
    [
        lambda n: json.dumps({"a": '": ' * n}),
        lambda n: '{"a":1,' + " " * n + '"a" :2}',
        lambda n: "[" + ",".join(['{"a":1}'] * n) + "]",
        lambda n: "[" + ",".join(['{"a" :":"}'] * n) + "]",
        lambda n: '{"a":"' + "\\ud83d\\ude00" * n + '"}',
    ],
    ids=["colons", "blanks", "objects", "objects with colons", "pairs"],
)
def test_json_is_read_in_linear_time(make: Callable[[int], str]) -> None:
    assert_linear(make, parse, n=1_000, most=60_000)

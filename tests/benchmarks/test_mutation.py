"""Places that a mutation changes: each is code, changed at its own place, and drawn alike with the same seed."""

from __future__ import annotations

import ast

from benchmarks.mutation import ROOT, drawn, places_of

SOURCE = b'''
LIMIT = 3


def known(names, n=2):
    """Say "\xc3\xa4"."""
    if n < LIMIT and "\xc3\xa4" not in names:
        names.append("key")
        raise KeyError(f"{n + 1}")
    return len(names) == 7
'''


def test_what_a_function_does_is_changed_and_nothing_else() -> None:
    made = {SOURCE[each.begin : each.end].decode() + " -> " + each.new for each in places_of("x.py", SOURCE)}
    assert made == {
        "n < LIMIT -> (n <= LIMIT)",
        "\"ä\" not in names -> ('ä' in names)",
        "\"ä\" -> 'ä_'",
        "n < LIMIT and \"ä\" not in names -> (n < LIMIT or 'ä' not in names)",
        "n < LIMIT and \"ä\" not in names -> (not (n < LIMIT and 'ä' not in names))",
        'names.append("key") -> pass',
        "\"key\" -> 'key_'",
        'raise KeyError(f"{n + 1}") -> pass',
        "return len(names) == 7 -> return None",
        "len(names) == 7 -> (len(names) != 7)",
        "7 -> (8)",
    }


def test_a_seed_draws_the_same_places_again_and_each_is_code() -> None:
    found = drawn(("atc/schemas",), 3, 40)
    assert found == drawn(("atc/schemas",), 3, 40)
    assert len({each.kind for each in found}) == 6
    for each in found:
        source = (ROOT / each.file).read_bytes()
        ast.parse(source[: each.begin] + each.new.encode() + source[each.end :])

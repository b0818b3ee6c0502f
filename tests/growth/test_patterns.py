"""Every regular expression of ATC, on its own worst texts: runs of what it reads, and its beginnings without an end.

The patterns are found in the modules that hold them. Texts are made out of each one's own structure: runs of each of
its characters and of pairs of them, by themselves and behind the beginning of a text that it fits.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import random
import re
import re._constants as constants
import re._parser as parser
import time
from collections.abc import Iterator
from typing import Any

import pytest

import atc
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

LENGTH = 3_000
MOST_TEXTS, MOST_MEASURED = 60, 2
"""Of one pattern: texts that are tried, and those of them whose growth is measured."""
AT_ONE_PLACE = {
    "atc.calls.permissions.tool_tables._ARGUMENT": "match",
    "atc.calls.permissions.tool_tables._CALL": "fullmatch",
    "atc.calls.permissions.meanings._ADDRESS": "fullmatch",
    "atc.calls.permissions.meanings._HOST": "match",
    "atc.calls.permissions.meanings._STATEMENT": "match",
    "atc.calls.permissions.meanings._URL": "match",
    "atc._host.redaction._GUESSED": "fullmatch",
    "atc._host.extras._REQUIREMENT": "match",
    "atc.catalogue.graph.resources._STEP": "fullmatch",
    "atc.models.endpoint_errors._PAGE": "match",
    "atc._records.packing._TAGS": "fullmatch",
    "atc.calls.permissions.lines._BARE": "match",
    "atc.calls.permissions.patterns._DOTS": "match",
    "atc.probing.document._LABEL": "fullmatch",
    "atc.programs.check.provenance._ADDRESS": "fullmatch",
    "atc.programs.extract._CODE": "match",
    "atc.tools.mcp.spec._LOOKS_RANDOM": "fullmatch",
    "atc.tools.parse._FLOAT": "match",
    "atc.tools.parse._INT": "match",
    "atc.tools.sources._ADDRESS": "match",
}
"""Patterns that are never searched for: how they are used instead."""
OURS = {
    "atc.cli.clients.clients._BRACES",  # only as far as the last brace
    "atc.cli.clients.clients._VARIABLE",  # in a file of the package
}
"""Patterns that are quadratic, and whose text cannot make them so."""
_OF_CATEGORY = {
    constants.CATEGORY_DIGIT: "7",
    constants.CATEGORY_NOT_DIGIT: "x",
    constants.CATEGORY_SPACE: " \n",
    constants.CATEGORY_NOT_SPACE: "x",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_WORD: "-",
}


def _patterns() -> dict[str, re.Pattern[Any]]:
    found: dict[str, re.Pattern[Any]] = {}
    for info in pkgutil.walk_packages(atc.__path__, "atc."):
        if info.name == "atc.__main__":
            continue
        with contextlib.suppress(ImportError):  # an extra that is not installed
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                for number, pattern in enumerate(_held(value)):
                    if pattern not in found.values():
                        found[f"{info.name}.{name}" + (f"[{number}]" if number else "")] = pattern
    return found


def _held(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, list | tuple | dict) and depth < 3 and len(value) < 200:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _held(each, depth + 1)


def _read_by(items: Any) -> Iterator[str]:
    """Characters that the parts of a pattern read."""
    for op, given in items:
        if op is constants.LITERAL:
            yield chr(given)
        elif op is constants.NOT_LITERAL or op is constants.ANY:
            yield "x"
        elif op is constants.CATEGORY:
            yield from _OF_CATEGORY.get(given, "a")
        elif op is constants.RANGE:
            yield from map(chr, given)
        elif op is constants.NEGATE:
            yield from "x 1"
        else:
            for part in _parts(op, given):
                yield from _read_by(part)


def _parts(op: Any, given: Any) -> list[Any]:
    if op is constants.BRANCH:
        return list(given[1])
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
        return [given[2]]
    if op is constants.SUBPATTERN:
        return [given[3]]
    if op in (constants.IN, constants.ATOMIC_GROUP):
        return [given]
    return [given[1]] if op in (constants.ASSERT, constants.ASSERT_NOT) else []


def _fitting(items: Any, rng: random.Random) -> str:
    """A text that a pattern mostly fits."""
    made = ""
    for op, given in items:
        if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            least, most = int(given[0]), min(int(given[1]), int(given[0]) + 2)
            made += "".join(_fitting(given[2], rng) for _ in range(rng.randint(least, most)))
        elif op in (constants.BRANCH, constants.SUBPATTERN, constants.ATOMIC_GROUP):
            made += _fitting(rng.choice(_parts(op, given)), rng)
        elif op not in (constants.ASSERT, constants.ASSERT_NOT, constants.AT):
            made += rng.choice([*_read_by([(op, given)])] or [""])
    return made


def _texts(pattern: re.Pattern[Any]) -> list[tuple[str, str]]:
    """Beginnings, each with what is repeated behind it."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree, rng = parser.parse(source, pattern.flags & ~re.UNICODE), random.Random(1)
    characters = sorted(set(_read_by(tree)))
    made = [("", character) for character in characters[:20]]
    for text in sorted({_fitting(tree, rng)[:16] for _ in range(3)} - {""}):
        made += [("", f"{text} "), *(("", text[:at]) for at in range(2, len(text) + 1))]
        made += [(text[:at], each) for at in range(1, len(text) + 1) for each in (text[at - 1], rng.choice(characters))]
    chosen = rng.sample(characters, min(len(characters), 5))
    made += [("", a + b) for a in chosen for b in chosen if a != b]
    return list(dict.fromkeys(made))[:MOST_TEXTS]


def test_every_pattern_takes_time_that_is_linear_in_its_text() -> None:
    patterns = _patterns()
    assert len(patterns) > 200
    assert patterns.keys() >= AT_ONE_PLACE.keys() | OURS
    for name, pattern in patterns.items():
        if name not in OURS and (problem := _problem(pattern, AT_ONE_PLACE.get(name, "finditer"))):
            pytest.fail(f"{name} {problem}")


def test_a_pattern_that_takes_the_square_is_found() -> None:
    assert "grows like n" in _problem(re.compile(r"\d+$"), "finditer")
    assert "grows like n" in _problem(re.compile(r"^\s*user\s*:", re.MULTILINE), "finditer")
    assert _problem(re.compile(r"\d+$"), "fullmatch") == ""


def _problem(pattern: re.Pattern[Any], use: str) -> str:
    """On which text a pattern takes more than linear time; empty if on none that was tried."""
    is_text, measured = isinstance(pattern.pattern, str), 0

    def run(text: Any) -> None:
        _ = list(pattern.finditer(text)) if use == "finditer" else getattr(pattern, use)(text)

    for begins, repeated in _texts(pattern):

        def made(n: int, begins: str = begins, repeated: str = repeated) -> Any:
            text = begins + repeated * (n // len(repeated)) + "\0"
            return text if is_text else text.encode()

        if measured < MOST_MEASURED and _seconds(run, made(LENGTH)) > _suspect_s():
            measured += 1
            try:
                assert_linear(made, run, n=LENGTH, most=4 * LENGTH)
            except pytest.fail.Exception as error:
                return f"on {begins!r} and {repeated!r} again and again: {error}"
    return ""


@functools.cache
def _suspect_s() -> float:
    """Seconds for one such text from which its growth is measured: an eighth of what the square takes here."""
    square = re.compile(r"\d+$")
    return min(_seconds(lambda text: list(square.finditer(text)), "7" * LENGTH + "\0") for _ in range(5)) / 8


def _seconds(run: Any, text: Any) -> float:
    began = time.process_time()
    run(text)
    return time.process_time() - began


def test_patterns_that_stand_at_one_place_are_used_so() -> None:
    """The list above is no excuse: nobody searches with what is only good for a match."""
    for name, use in AT_ONE_PLACE.items():
        module, _, variable = name.rpartition(".")
        source = importlib.import_module(module).__loader__.get_source(module)
        uses = set(re.findall(rf"\b{variable}\.(match|fullmatch|search|sub|finditer|findall|split)\b", source))
        assert uses == {use}, name

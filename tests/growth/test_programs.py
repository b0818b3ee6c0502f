"""What a program of a model or a client costs the host before it runs, by its worst known kinds.

A program has 60,000 characters at most, and the analysis of its flow gives up after a bounded work: then it finds
nothing.
"""

from __future__ import annotations

import pytest

from atc.facts import Finding
from atc.programs.check.checker import Checker
from atc.programs.edits import RepairContext
from atc.programs.program import Program
from atc.programs.repair.pipeline import repair_program
from atc.schemas.protocol import Protocol
from tests.growth.harness import assert_linear

_FIND = Protocol(
    name="find",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    returns={"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}},
)
_TOOLS = {"find": _FIND}
_KINDS = {
    "assignments": ("", "a = 1\n"),
    "functions": ("b = 1\n", "def f{0}(a): return a\nb = f{0}(b)\n"),
    "fields": ("x = find(q='')\n", "x['k{0}']\n"),
    "copies": ("", "def find(q): ...\n"),
    "awaits": ("", "await asyncio.gather(tools.find(q='{0}'))\n"),
    "kept": ("", "a{0} = [find(q='')]\nawait asyncio.gather(*a{0})\n"),
    "named": ("", "await call_tool('find', {{'q': mcp__a__find(q='{0}')}})\n"),
}
_UNENDING = {
    "branches": ("b = 1\n", "if b: b{0} = 1\n"),
    "loops": ("a = 1\n", "for b{0} in a: c{0} = 1\n"),
    "containers": ("a = find(q='x')\n", "a = [a, str(a)]\n"),
}
"""Their analysis grows with the square of their lines: what is known of each name, at each line."""


def _program(kind: str, n: int) -> str:
    head, line = {**_KINDS, **_UNENDING}[kind]
    return head + "".join(line.format(i) for i in range(n)) + "answer = find(q='x')\n"


def _checked(source: str) -> list[Finding]:
    return Checker([_FIND]).check(Program(source), "known")


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_the_check_of_a_program(kind: str) -> None:
    assert_linear(lambda n: _program(kind, n), _checked, n=50, most=400)


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_the_repair_of_a_program(kind: str) -> None:
    context = RepairContext(_TOOLS)
    assert_linear(lambda n: _program(kind, n), lambda source: repair_program(Program(source), context), n=50, most=400)


@pytest.mark.slow
def test_a_call_with_many_unknown_arguments() -> None:
    def make(n: int) -> str:
        return f"find({', '.join(f'q{i}=1' for i in range(n))})\nanswer = 1\n"

    context = RepairContext(_TOOLS)
    assert_linear(make, lambda source: repair_program(Program(source), context), n=100, most=800)


@pytest.mark.slow
@pytest.mark.parametrize("kind", _UNENDING)
def test_an_analysis_that_would_take_too_long_finds_nothing(kind: str) -> None:
    source = _program(kind, 58_000 // (len(_UNENDING[kind][1]) + 6)) + "answer['nothing']\n"
    program = Program(source)
    assert program.tree is not None
    assert not program.flow(_TOOLS).complete
    assert not _checked(source)


def test_an_honest_program_is_analysed_to_its_end() -> None:
    source = (
        "".join(f"a{i} = find(q='x')\nif a{i}: b{i} = a{i}['id']\n" for i in range(60)) + "answer = b1['nothing']\n"
    )
    assert Program(source).flow(_TOOLS).complete

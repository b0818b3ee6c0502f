"""What a program costs the host that follows where its arguments come from: a model writes it, so it may be any."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import MAX_SOURCE, Program
from tests.growth.harness import assert_linear, slowness

pytestmark = pytest.mark.slow

TOOLS = ("read", "send")
MOST_S = 1.0
"""Processor seconds for any program on a quiet machine: what needs more work is not followed."""

SHAPES: dict[str, Callable[[int], str]] = {
    "calls in a row": lambda n: "x = read(a=1)\n" * n + 'send(to=x["b"])\n',
    "a chain of calls": lambda n: "x = 1\n" + 'x = read(a=x)["b"]\n' * n,
    "many variables": lambda n: "".join(f'x{i} = read(a={i})["b"]\nsend(to=x{i})\n' for i in range(n)),
    "branches": lambda n: "x = read(a=1)\n" + 'if x["b"]:\n    x = read(a=x)\n' * n,
    "branches with a variable each": lambda n: "".join(f"if read(a=1):\n    x{i} = 1\n" for i in range(n)),
    "loops": lambda n: "x = []\n" + "for y in read(a=x):\n    x.append(y)\n" * n,
    "functions": lambda n: "".join(f"def f{i}(x):\n    return read(a=x)\n" for i in range(n)) + "f0(1)\n",
    "functions that call the one before": lambda n: (
        "def f0(x):\n    return x\n" + "".join(f"def f{i}(x):\n    return f{i - 1}(read(a=x))\n" for i in range(1, n))
    ),
    "lists of the list before": lambda n: "x = []\n" + "x = [x, read(a=1)]\n" * n + "send(to=x)\n",
    "lists that hold each other": lambda n: "x = y = []\n" + "x = [y]\ny.append(x)\n" * n + "send(to=x)\n",
    "copies": lambda n: "x = read(a=1)\n" + "x = {**x, 'a': x}\n" * n + "send(to=x)\n",
    "sums of lists": lambda n: "x = read(a=1)\n" + "x = x + [x]\n" * n + "send(to=x)\n",
    "unknown methods": lambda n: "x = read(a=1)\n" + "x = x.fit(x)\n" * n + "send(to=x)\n",
    "the library": lambda n: "import itertools\nx = read(a=1)\n" + "x = itertools.cycle(x)\n" * n + "send(to=x)\n",
    "handlers": lambda n: "x = 1\n" + "try:\n    x = read(a=x)\nexcept KeyError as e:\n    x = e\n" * n,
    "lambdas": lambda n: "x = []\n" + "x.append(lambda y: [f(y) for f in x])\n" * n + "x[0](read(a=1))\n",
    "classes": lambda n: "".join(
        f"class C{i}:\n    def m(self, x):\n        self.x = x\n        return self\nC{i}().m(read(a=1))\n"
        for i in range(n)
    ),
    "a dict that holds itself": lambda n: (
        "x = {}\n" + "".join(f"x['k{i}'] = [{{'a': x}}, x]\n" for i in range(n)) + "send(to=x)\n"
    ),
    "a chain of comparisons": lambda n: "x = " + " < ".join(["a"] * n) + "\nsend(to=x)\n",
    "text": lambda n: "".join(f"send(to='text {i}')\n" for i in range(n)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_to_follow_a_program_is_bounded(shape: str) -> None:
    n = 1
    while len(SHAPES[shape](2 * n)) < MAX_SOURCE:
        n *= 2
    program = Program(SHAPES[shape](n))
    assert program.nodes
    began = time.process_time()
    followed = ProgramOrigins(program, TOOLS, task="a task " * 10_000)
    followed.of_call("send", len(program.lines) - 1, ["to"])
    followed.of_variable("x")
    took = time.process_time() - began
    assert took < MOST_S * slowness(), followed.gave_up


@pytest.mark.parametrize("shape", ["many variables", "branches with a variable each", "text", "calls in a row"])
def test_to_follow_a_program_is_linear_in_it(shape: str) -> None:
    def make(n: int) -> Program:
        program = Program(SHAPES[shape](n))
        assert program.nodes
        return program

    assert_linear(make, lambda program: ProgramOrigins(program, TOOLS), n=20, most=300)

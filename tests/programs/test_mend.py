"""Mending sets the answer and drops what was copied; it never changes what a program computes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest

from atc import Effect, Protocol
from atc.programs.edits import RepairContext
from atc.programs.program import Program
from atc.programs.repair.pipeline import FRAME, repair_program

TOOLS = ("find", "details")


def mend(source: str, tools: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What is repaired in the frame of a program."""
    context = RepairContext({name: Protocol(name=name, effect=Effect.READ) for name in tools})
    program, rewrites = repair_program(Program(source), context, FRAME)
    return program.source, tuple(rewrite.note for rewrite in rewrites)


@pytest.mark.parametrize(
    ("source", "mended"),
    [
        ('x = find(name="a")\nreturn x["total"]', "answer = x['total']"),
        ('x = find(name="a")\nprint(x["total"])', "answer = x['total']"),
        ('x = find(name="a")\nprint("Total:", x["total"])', "answer = x['total']"),
        ('x = find(name="a")\nx["total"]', "answer = x['total']"),
        ('result = find(name="a")["total"]', "answer = result"),
        ('print("go")\ntotal = find(name="a")["total"]', "answer = total"),
        ('def main():\n    return find(name="a")', "answer = main()"),
        ('def main():\n    return find(name="a")\n\nmain()', "answer = main()"),
        ('def main():\n    answer = find(name="a")\n    return answer\n\nprint(main())', "answer = main()"),
        (
            'def main():\n    return find(name="a")\n\nif __name__ == "__main__":\n    print(main())',
            "    answer = main()",
        ),
        ('def answer():\n    return find(name="a")', "answer = answer()"),
    ],
)
def test_the_answer_is_taken_from_the_programs_own_end(source: str, mended: str) -> None:
    made, notes = mend(source, TOOLS)
    assert made.rstrip().split("\n")[-1] == mended
    assert len(notes) == 1
    ast.parse(made)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("x = [1, 2]  # two\nfor n in x:\n    print(n)", [1, 2]),
        ("x = [1, 2]\nprint('All:')\nfor n in x:\n\tprint('Number', n, n + 1)\n\tprint('')", [[1, 2], [2, 3]]),
        (
            "x = {'ä': 1}; y = 2\nif y:\n    print(\n        f'{x} and',\n        y)\nelse:\n    print(y)",
            [["{'ä': 1} and", 2]],
        ),
        ("x = 1\nfor n in (x,):\n    print('a'); print(n)", None),
        ("x = 1\ndef show(n):\n    print(n)\nfor n in (x,):\n    print(n)\nif x:\n    show(x)", None),
        ("for n in (1, 2):\n    print(n)", None),
    ],
)
def test_an_answer_that_is_printed_bit_by_bit_is_collected(source: str, value: object) -> None:
    made, notes = mend(source, TOOLS)
    names: dict[str, Any] = {}
    exec(made, names)  # noqa: S102 - the test's own programs
    assert names.get("answer") == value
    assert bool(notes) == (value is not None)
    assert len(made.split("\n")) == len(source.split("\n"))


@pytest.mark.parametrize(
    "source",
    [
        'answer = find(name="a")',
        'for answer in find(name="a")["cities"]:\n    break',
        'def set_it():\n    global answer\n    answer = find(name="a")\nset_it()',
        "with a as answer:\n    pass",
        'if (answer := find(name="a")):\n    pass',
        "from math import *\nanswer = find(name=str(pi))",
        "from random import choice as find\nanswer = find([1])",
        "import copy\nanswer = copy.copy(find(name='a'))",
        "from tools import find as search\nanswer = search(name='a')",
        "class City(TypedDict):\n    name: str\nanswer: City = find(name='a')",
        "answer = find(name='a'); x = 1",
        "print(details(n=1), find(name='a'))",
        "def main(task):\n    return find(name=task)",
        "def details(n):\n    return find(name=str(n))['total']\nanswer = details(1)",  # a function of its own
        "not a program at all",
        "x = (",
        "",
    ],
)
def test_what_is_right_or_unclear_is_left_alone(source: str) -> None:
    made, notes = mend(source, (*TOOLS, "copy", "choice"))
    assert made == source
    assert notes == ()


def test_copied_stubs_and_imports_of_the_tools_are_dropped_and_lines_keep_their_numbers() -> None:
    source = (
        "from tools import find, details, ToolError\nimport find\n"
        "class City(TypedDict):\n    name: str\nclass Found(TypedDict):\n    cities: list[City]\n"
        'def find(name: str) -> Found:\n    """Finds."""\n    ...\n'
        'answer = find(name="a")["cities"]'
    )
    made, notes = mend(source, TOOLS)
    assert made.split("\n")[9] == 'answer = find(name="a")["cities"]'
    assert made.strip() == 'answer = find(name="a")["cities"]'
    assert len(notes) == 5


def test_what_would_never_have_run_after_a_return_does_not_run() -> None:
    made, _ = mend('return find(name="a")\ndetails(n=1)\n', TOOLS)
    assert "details" not in made
    assert "answer = find(name='a')" in made


def test_a_function_that_is_handed_over_is_not_called_once_more() -> None:
    source = "def one():\n    return find(name='a')\nfound = parallel([one])\nresult = found"
    assert mend(source, TOOLS)[0] == source + "\nanswer = result"


def test_what_stands_before_it_on_the_line_stays() -> None:
    assert mend("x = find(name='ü'); x", TOOLS)[0] == "x = find(name='ü'); answer = x"

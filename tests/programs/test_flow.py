"""Values are followed from where they are used back to the calls they came from; what is not known is never claimed."""

from __future__ import annotations

import ast

import pytest

from atc.programs.analysis.flow import Flow
from tests.support.time import little_work

TOOLS = ("find", "details")


def origins(program: str, name: str = "answer") -> set[str]:
    """Where the value of a variable comes from, if that is all that it can be."""
    value = Flow(ast.parse(program), TOOLS).scope.names[name]
    assert not value.open, "it may be something else"
    return {str(origin) for origin in value.origins}


CITY = "find(...)['cities'][…]"


@pytest.mark.parametrize(
    "program",
    [
        'answer = find(name="a")["cities"][0]',
        'found = find(name="a")\ncities = found["cities"]\nanswer = cities[-1]',
        'for answer in find(name="a")["cities"]:\n    pass',
        'answer = max(find(name="a")["cities"], key=lambda c: c["population"])',
        'answer = sorted(find(name="a")["cities"], key=len)[0]',
        'answer = next(c for c in find(name="a")["cities"] if c["name"] == "b")',
        'answer = [c for c in find(name="a")["cities"]][0]',
        'first, *rest = find(name="a")["cities"]\nanswer = rest[0]',
        'for number, answer in enumerate(find(name="a")["cities"]):\n    pass',
        'for answer, number in zip(find(name="a")["cities"], range(9)):\n    pass',
        'by_name = {c["name"]: c for c in find(name="a")["cities"]}\nanswer = by_name["b"]',
        'by_name = {}\nfor c in find(name="a")["cities"]:\n    by_name[c["name"]] = c\nanswer = by_name.get("b")',
        'kept = []\nfor c in find(name="a")["cities"]:\n    kept.append((1, c))\nanswer = kept[0][1]',
        'def first(items):\n    return items[0]\nanswer = first(find(name="a")["cities"])',
        'take = lambda found: found["cities"][0]\nanswer = take(find(name="a"))',
        'def each(items):\n    for item in items:\n        yield item\nanswer = next(each(find(name="a")["cities"]))',
        'answer = list(map(lambda c: c, find(name="a")["cities"]))[0]',
        'answer = list(filter(None, find(name="a")["cities"]))[0]',
        'answer = parallel(lambda: find(name="a"))[0]["cities"][0]',
        'answer = parallel([lambda n=n: find(name=n) for n in ("a", "b")])[0]["cities"][0]',
        'best = None\nfor c in find(name="a")["cities"]:\n    if best is None or c["n"] > best["n"]:\n'
        '        best = c\nanswer = best',
        'try:\n    answer = find(name="a")["cities"][0]\nexcept ToolError:\n    answer = None',
        'answer = (found := find(name="a"))["cities"][0]',
        'answer = find(name="a").get("cities", [None])[0]',
        'from itertools import chain\nanswer = list(chain(find(name="a")["cities"], []))[0]',
        'import copy\nanswer = copy.deepcopy(find(name="a"))["cities"][0]',
        "class Box:\n    def __init__(self, value):\n        self.value = value\n    def get_it(self):\n"
        "        return self.value\n"
        'answer = Box(find(name="a")["cities"][0]).get_it()',
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    value: dict\n    n: int = 0\n"
        'answer = Box(find(name="a")["cities"][0]).value',
        'groups = {}\nfor c in find(name="a")["cities"]:\n    groups.setdefault(c["n"], []).append(c)\n'
        'answer = groups[1][0]',
        "from collections import defaultdict\ngroups = defaultdict(list)\n"
        'for c in find(name="a")["cities"]:\n    groups[c["n"]].append(c)\nfor key, cities in groups.items():\n'
        '    answer = cities[0]',
        'import asyncio\nasync def main():\n    return find(name="a")["cities"][0]\nanswer = asyncio.run(main())',
        'def search(**arguments):\n    return find(**arguments)["cities"]\nanswer = search(name="a")[0]',
        'def outer():\n    found = None\n    def inner():\n        nonlocal found\n'
        '        found = find(name="a")["cities"][0]\n'
        "    inner()\n    return found\nanswer = outer()",
    ],
)  # fmt: skip
def test_a_city_is_traced_to_its_call(program: str) -> None:
    assert origins(program) == {CITY}


@pytest.mark.parametrize(
    ("then", "first"),
    [
        ("", {"find(...)"}),
        ("both.append(1)", {"find(...)"}),
        ("both.sort(key=str)", {"find(...)", "details(...)"}),
        ("both.reverse()", {"find(...)", "details(...)"}),
        ("both.insert(0, None)", {"find(...)", "details(...)"}),
        ("both.pop(0)", {"find(...)", "details(...)"}),
        ("del both[0]", {"find(...)", "details(...)"}),
        ("both[0] = both[1]", {"find(...)", "details(...)"}),
        ("both[:] = both[::-1]", {"find(...)", "details(...)"}),
        ("import random\nrandom.shuffle(both)", {"find(...)", "details(...)"}),
        ("from heapq import heapify\nheapify(both)", {"find(...)", "details(...)"}),
        ("both = sorted(both, key=str)", {"find(...)", "details(...)"}),
    ],
)
def test_results_of_parallel_stand_at_their_positions_until_something_may_move(then: str, first: set[str]) -> None:
    program = f'both = parallel(lambda: find(name="a"), lambda: details(n=1))\n{then}\nanswer = both[0]'
    assert origins(program) == first


def test_branches_are_joined() -> None:
    program = 'if x:\n    answer = find(name="a")\nelif y:\n    answer = details(n=1)\nelse:\n    answer = None'
    assert origins(program) == {"find(...)", "details(...)"}


def test_a_value_that_may_come_from_elsewhere_is_open() -> None:
    for program in (
        'answer = unknown(find(name="a"))',
        'answer = find(name="a")["total"] + 1',
        'if x:\n    answer = find(name="a")\nelse:\n    answer = load()',
        'def f(x):\n    return x\nanswer = [f(y) for y in stdin][0]',
        'from statistics import median as find\nanswer = find([1])',
    ):  # fmt: skip
        assert Flow(ast.parse(program), TOOLS).scope.names["answer"].open


def test_what_was_computed_still_tells_what_it_was_made_from() -> None:
    value = Flow(ast.parse('answer = round(find(name="a")["total"] / 2, 1)'), TOOLS).scope.names["answer"]
    assert {str(origin) for origin in value.origins} == {"find(...)['total']"}


def test_a_programs_own_function_hides_a_tool_of_its_name() -> None:
    assert Flow(ast.parse("def find(name):\n    return {}\nanswer = find(name='a')"), TOOLS).calls == {}


def test_calls_in_functions_that_nothing_calls_are_seen() -> None:
    flow = Flow(ast.parse("def later():\n    return find(name='a')\nanswer = pool.submit(later)"), TOOLS)
    assert [call.tool for call in flow.calls.values()] == ["find"]


def test_a_tool_that_is_handed_over_is_called_there() -> None:
    (call,) = Flow(ast.parse("answer = list(map(details, [1, 2]))[0]"), TOOLS).calls.values()
    assert (call.tool, call.direct) == ("details", False)


@pytest.mark.parametrize(
    "program",
    [
        "".join(" " * i + f"for a{i} in find(name='a'):\n" for i in range(60)) + " " * 60 + "pass",
        "def f0(x):\n    return x\n"
        + "".join(f"def f{i}(x):\n    return [f{i - 1}(x), f{i - 1}(x)]\n" for i in range(1, 40))
        + "answer = f39(1)",
        "def f(x):\n    return [f(x), f(x), f(x)]\nanswer = f(find(name='a'))",
        "x = []\n" + "x.append(x)\n" * 2000 + "answer = x",
        "answer = " + "[" * 70 + "find(name='a')" + "]" * 70,
        "x = {}\n" + "".join(f"x['k{i}'] = x\n" for i in range(1500)) + "answer = str(x)",
    ],
)
def test_a_hostile_program_takes_bounded_time(program: str) -> None:
    with little_work(20):
        Flow(ast.parse(program), TOOLS)

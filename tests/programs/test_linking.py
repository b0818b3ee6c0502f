"""A program is joined with the kept programs that it calls; each name keeps its meaning."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from atc.programs.linking import Linked, NotLinked, link, unfit_constructs
from atc.programs.program import MAX_SOURCE, Program
from atc.tools.tool import Tool
from tests.support.kept import TEXT, kept
from tests.support.tools import make_tool

READ = make_tool("read_it", lambda arguments: f"read {arguments['what']}", what=TEXT)
CITY = {"city": TEXT}


def linked(source: str, *tools: Tool) -> Linked:
    found = link(Program(source), {tool.name: tool for tool in tools})
    assert found is not None
    return found


def answer_of(source: str, *tools: Tool, **scope: Any) -> Any:
    """Run a linked program as a sandbox does, with a tool that says what it was asked."""
    found = linked(source, *tools)
    tree = ast.parse(found.source)
    names: dict[str, Any] = {"read_it": lambda what: f"read {what}", "parallel": lambda *f: [e() for e in f], **scope}
    exec(compile(ast.Module(tree.body[-found.hoisted :], []), "kept", "exec"), names)  # noqa: S102 - a test's own
    exec(compile(ast.Module(tree.body[: -found.hoisted], []), "own", "exec"), names)  # noqa: S102
    return names["answer"]


def test_the_programs_own_text_stands_first_and_unchanged() -> None:
    source = "# a remark\nx = 1\n\nanswer = weekly('Bergen')  # and one more"
    found = linked(source, kept("weekly", "answer = read_it(what=city)", READ, parameters=CITY))
    assert found.source.startswith(source + "\n")
    assert found.own_lines == 4
    assert [found.within(line) for line in range(1, 5)] == [""] * 4


@pytest.mark.parametrize("end", ["", "\n\n", " \\\n\n", "\n# a remark \\", "\n    ", "\n\f\n", ";"])
def test_a_program_may_end_as_it_likes(end: str) -> None:
    tool = kept("weekly", "answer = read_it(what=city)", READ, parameters=CITY)
    assert answer_of(f"answer = weekly('x'){end}", tool) == "read x"
    found = linked(f"answer = weekly('x'){end}", tool)
    (at,) = [n for n, text in enumerate(found.source.split("\n"), start=1) if text.startswith("def weekly")]
    assert (found.within(at), found.within(at - 1)) == ("weekly", "")


def test_a_line_of_a_kept_program_is_found_again() -> None:
    body = '"""Doc."""\n\nfirst = read_it(what=city)\n# a remark\nanswer = (first,\n          read_it(what=city))\n'
    found = linked("answer = weekly('x')", kept("weekly", body, READ, parameters=CITY))
    lines = found.source.split("\n")
    (at,) = [n for n, text in enumerate(lines, start=1) if text.strip().startswith("first =")]
    assert (found.within(at), found.line_in_kept(at)) == ("weekly", 3)
    assert (found.within(at + 1), found.line_in_kept(at + 1)) == ("weekly", 5)
    assert (found.within(at + 2), found.line_in_kept(at + 2)) == ("weekly", 0), "the line that returns the answer"


@pytest.mark.parametrize("source", ["answer = 1", "answer = read_it(what='x')", "answer = ("])
def test_a_program_that_calls_none_is_not_linked(source: str) -> None:
    assert link(Program(source), {"weekly": kept("weekly", "answer = 1"), "read_it": READ}) is None


BODIES = {
    "a built-in that it names anew": ("sum = sum([1, 2])\nanswer = sum", 3),
    "a tool that it names anew": ("read_it = read_it(what=city)\nanswer = read_it", "read x"),
    "a helper": ("def double(n):\n    return n * 2\nanswer = double(4)", 8),
    "a helper that calls itself": ("def f(n):\n    return n and n + f(n - 1)\nanswer = f(3)", 6),
    "a class": ("class A:\n    n = 3\n    def get(self): return read_it(what=self.n)\nanswer = A().get()", "read 3"),
    "a comprehension": ("names = [city, 'y']\nanswer = [read_it(what=each) for each in names]", ["read x", "read y"]),
    "an import": ("import json\nfrom math import sqrt as root\nanswer = json.dumps(root(4))", "2.0"),
    "a lambda": ("answer = parallel(lambda: read_it(what=city), lambda: city)", ["read x", "x"]),
    "annotations": ("from __future__ import annotations\ndef f(n: Foo) -> Bar:\n    return n\nanswer = f(1)", 1),
    "a dataclass": (
        "from __future__ import annotations\n"
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    n: int\nanswer = P(2).n",
        2,
    ),
    "an f-string": ("n = 3\nanswer = f\"{city!r:>5} {n:{n}d} {'a' + 'b'}\"", "  'x'   3 ab"),
    "a match": (
        "match {'a': [1, 2]}:\n    case {'a': [first, *rest], **other}:\n        answer = [first, rest, other]",
        [1, [2], {}],
    ),
    "a walrus": ("if (n := len(city)) > 0:\n    answer = [m := n, m]", [1, 1]),
    "a sentence": ("answer = 1\nsay = f'It is {answer}.'", 1),
    "a loop with else": ("for n in range(3):\n    pass\nelse:\n    answer = n", 2),
    "a class that names a field after a parameter": (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    city: str = city\n    n: int = 2\n    m: int = n\n"
        "answer = [P().city, P().m]",
        ["x", 2],
    ),
    "a class that names a field after a built-in": ("class P:\n    len = len('abc')\nanswer = P.len", 3),
    "a class with a loop": (
        "class P:\n    for n in range(3):\n        last = n\n    xs = [y := 4, y]\nanswer = [P.last, P.xs]",
        [2, [4, 4]],
    ),
    "a text with a backslash in its parts": (
        "n = 1234\nanswer = f\"{{{f'{n:,}'.replace(',', '\u00a0')!s:>{n - 1227}}}}\"",
        "{  1\u00a0234}",
    ),
    "a text of lines": ('answer = """a\n  b\n\'c\'"""', "a\n  b\n'c'"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "value"), BODIES.values(), ids=BODIES)
def test_what_a_program_does_its_function_does(body: str, value: Any) -> None:
    tool = kept("weekly", body, READ, parameters=CITY)
    assert answer_of("answer = weekly('x')", tool) == value
    clash = (
        "sum = len = json = double = city = print = range = n = None\nread_it = parallel = None\nanswer = weekly('x')"
    )
    assert answer_of(clash, tool) == value, "whatever the outer program names"


@pytest.mark.parametrize(
    "own",
    [
        "read_it = 1\n",
        "import os as read_it\n",
        "from os import *\n",
        "globals()['read_it'] = 1\n",
        "exec('read_it = 1')\n",
        "def f():\n    global read_it\n    read_it = 1\nf()\n",
        "def read_it(what):\n    return 'mine'\n",
        "for read_it in [1]:\n    pass\n",
        "try:\n    1 / 0\nexcept Exception as read_it:\n    pass\n",
        "match 1:\n    case read_it:\n        pass\n",
        "import sys\nsys.modules\n__builtins__\n",
        "del read_it\n",
    ],
)
def test_an_outer_program_does_not_change_what_a_kept_one_calls(own: str) -> None:
    tool = kept("weekly", "answer = read_it(what=city)", READ, parameters=CITY)
    assert answer_of(f"{own}answer = weekly('x')", tool) == "read x"


def test_a_kept_program_does_not_see_the_outer_ones_names() -> None:
    tool = kept("weekly", "answer = secret", parameters={})
    with pytest.raises(UnboundLocalError):
        answer_of("secret = 1\nanswer = weekly()", tool)
    tool = kept("weekly", "def f():\n    return secret\nanswer = f()", parameters={})
    with pytest.raises(NameError, match="secret"):
        answer_of("secret = 1\nanswer = weekly()", tool)


def test_a_tool_is_called_by_the_name_that_it_has_now() -> None:
    tool = kept("weekly", "answer = read_it(what=city)", parameters=CITY)
    tool = tool.with_inner({"read_it": make_tool("shop_read_it", lambda _: None, what=TEXT)})
    assert answer_of("answer = weekly('x')", tool, shop_read_it=lambda what: f"shop {what}", read_it=None) == "shop x"


def test_a_kept_program_calls_another_one_whatever_the_outer_one_names() -> None:
    inner = kept("inner", "answer = read_it(what=city)", READ, parameters=CITY)
    outer = kept("outer", "inner = inner(city)\nanswer = [inner]", inner, parameters=CITY)
    assert answer_of("inner = 3\nanswer = outer('x')", outer) == ["read x"]


def test_a_parameter_that_is_left_out_has_its_default() -> None:
    parameters = {"city": TEXT, "days": {"type": "integer", "default": 7}, "tags": {"type": "array", "default": []}}
    body = "tags.append(days)\nanswer = [city, tags, other]"
    tool = kept("weekly", body, parameters={**parameters, "other": TEXT}, required=["city"])
    assert answer_of("weekly('a')\nanswer = weekly('b')", tool) == ["b", [7], None], "a list of its own each time"


def test_a_circle_is_refused() -> None:
    one = kept("one", "answer = 1")
    two = kept("two", "answer = one()", one)
    one = kept("one", "answer = two()", two)
    two.inner["one"] = one  # type: ignore[index]
    with pytest.raises(NotLinked, match=r"calls itself \(one → two → one\)"):
        linked("answer = one()", one)


def test_more_than_three_deep_is_refused() -> None:
    tool = kept("k1", "answer = 1")
    for number in (2, 3):
        tool = kept(f"k{number}", f"answer = k{number - 1}()", tool)
    assert answer_of("answer = k3()", tool) == 1
    with pytest.raises(NotLinked, match=r"more than 3 deep \(k4 → k3 → k2 → k1\)"):
        linked("answer = k4()", kept("k4", "answer = k3()", tool))


def test_two_of_one_name_are_refused() -> None:
    outer = kept("outer", "answer = same()", kept("same", "answer = 1"))
    with pytest.raises(NotLinked, match="two kept programs are named 'same'"):
        linked("answer = [same(), outer()]", kept("same", "answer = 2"), outer)


def test_many_ways_to_one_kept_program_cost_no_more_than_one() -> None:
    level = [kept(f"a{n}", "answer = 1") for n in range(60)]
    for letter in "bc":
        level = [kept(f"{letter}{n}", "answer = 1", *level) for n in range(60)]
    found = linked("answer = [" + ", ".join(f"c{n}()" for n in range(60)) + "]", *level)
    assert len(found.parts) == 180


def test_what_is_too_long_together_is_refused() -> None:
    long = "x = '" + "a" * (MAX_SOURCE // 2) + "'\nanswer = 1"
    with pytest.raises(NotLinked, match=r"kept programs that it calls \(one, two\) have 60,\d+ characters"):
        linked("answer = [one(), two()]", kept("one", long), kept("two", long))


UNFIT = {
    "global x\nanswer = 1": ("global", 1),
    "answer = globals()": ("globals", 1),
    "x = 1\nanswer = locals()": ("locals", 2),
    "answer = vars()": ("vars", 1),
    "answer = dir()": ("dir", 1),
    "exec('x')": ("exec", 1),
    "answer = eval('1')": ("eval", 1),
    "f = eval\nanswer = f('1')": ("eval", 1),
    "from math import *": ("from math import *", 1),
    "import sys\nsys.exit()": ("sys.exit", 2),
    "import os\nos._exit(0)": ("os._exit", 2),
    "from sys import exit\nexit()": ("exit", 2),
    "raise SystemExit": ("SystemExit", 1),
    "quit()": ("quit", 1),
    "look(a=1)": ("look", 1),
    "def f():\n    global n": ("global", 2),
}


@pytest.mark.parametrize(("source", "found"), UNFIT.items(), ids=UNFIT)
def test_what_cannot_be_kept_is_named_with_its_line(source: str, found: tuple[str, int]) -> None:
    (unfit,) = unfit_constructs(Program(source))
    assert (unfit.construct, unfit.line) == found
    with pytest.raises(NotLinked, match="has "):
        linked("answer = weekly()", kept("weekly", source))


@pytest.mark.parametrize(
    "source", ["answer = vars(x)", "answer = dir('a')", "look = 1\nanswer = look", "exit = 2\nanswer = exit"]
)
def test_what_only_looks_so_can_be_kept(source: str) -> None:
    assert unfit_constructs(Program(source)) == ()

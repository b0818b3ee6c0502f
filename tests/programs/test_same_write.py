"""A write that is known again is what it was: programs that differ are run, and what they send is compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.programs.program import Program
from atc.programs.same_write import MAX_COMPARED, Code

TOOLS = {"read": True, "find": True, "send": False}
LINES = [
    "a = read(1)",
    "b = a['n']",
    "b = a['list'][0]",
    "c = ['x', 'y']",
    "c = sorted(a['list'])",
    "c = a['list']",
    "d = c",
    "d.append('z')",
    "c[0] = 'eve'",
    "a['list'].reverse()",
    "t = 'bob'",
    "t = 'eve'",
    "t = str(b).strip()",
    "t = c[-1]",
    "t, b = b, t",
    "t += '!'",
    "it = iter(c)",
    "t = next(it)",
    "b = len(c)",
    "b = list(it)",
    "find(b)",
    "b = find(str(t))",
    "str = lambda _: 'eve'",
    "len = max",
    "for t in c: pass",
    "if b: t = 'sue'",
    "def f(x=t): return x",
    "def f(x=0): return t",
    "t = f()",
    "g = (u for u in c)",
    "c = list(g)",
    "e = [d]",
    "e[0].clear()",
    "import math as t",
    "t = f'{b}-{t}'",
    "class K(str):\n    def strip(self): return 'eve'",
    "b = K('x')",
    "del b",
    "send(t)",
    "send(c)",
    "s = send(f'{t}{b}')",
    "if t:\n    send(str(t))",
    "for u in c:\n    send(u)",
    "h = [send(u) for u in c]",
    "k = (send(u) for u in c)",
    "list(k)",
    "def m(u): send(u)",
    "m(t)",
    "y = read(2)['list']",
    "z = c[0]",
    "z = [c, t, a]",
    "x = len(c)",
    "y, z = 1, [c]",
    "z[0] = 'eve'",
    "z[0].append('eve')",
    "x = z",
    "y = b",
    "z = a['n']",
    "y = read(1)['n']",
    "x = str(y)",
    "from collections import defaultdict as D",
    "q = D(list)",
    "y = q['eve']",
    "for u in q: send(u)",
    "send(list(q))",
    "a['list'][0] = q",
    "y = a['list'][0]['sue']",
    "send(list(a['list'][0]))",
]
START = """t = 'ann'
b = 1
c = ['p', 'q']
d = []
it = iter('xy')
e = [[]]
a = read(0)
g = k = iter('')
f = lambda: 'w'"""
programs = st.lists(st.sampled_from(LINES), min_size=2, max_size=9)


def sent(lines: list[str]) -> dict[int, list[Any]]:
    """What a program sends, by the number of the statement that does."""
    found, now = dict[int, list[Any]](), [0]

    def send(value: Any) -> str:
        found.setdefault(now[0], []).append(repr(value))
        return "sent"

    def read(n: Any) -> Any:
        return {"n": f"n{n}", "list": [f"l{n}", "m", "k"]}

    scope: dict[str, Any] = {"send": send, "read": read, "find": lambda n: f"found {n}"}
    for now[0], statement in enumerate([START, *lines]):
        try:
            exec(compile(statement, "program", "exec"), scope)  # noqa: S102 - the test's own
        except Exception:  # the program ends there
            break
    return found


def code_of(lines: list[str]) -> tuple[Code, list[int]]:
    """A program, and the lines at which its statements begin."""
    starts, line = [], 1
    for statement in [START, *lines]:
        starts.append(line)
        line += statement.count("\n") + 1
    return Code(Program("\n".join([START, *lines]))), starts


def known(before: list[str], after: list[str]) -> list[tuple[int, list[int]]]:
    """The statements of a program whose write is known again, each with those of before that may be it."""
    (old, _), (new, starts) = code_of(before), code_of(after)
    found = []
    for at, statement in enumerate([START, *after]):
        for line in range(starts[at], starts[at] + statement.count("\n") + 1):
            until = new.until("send", line)
            if until and new.stood_in(old, until, TOOLS):
                made = statement.split(" = ")[-1]
                found.append((at, [n for n, each in enumerate([START, *before]) if each.split(" = ")[-1] == made]))
    return found


@given(programs, programs, st.data())
def test_what_is_known_again_sends_what_it_would_have_sent(
    one: list[str], more: list[str], data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(one), max_size=len(one)))
    other: list[str] = []
    for line, keep in zip(one, kept, strict=True):
        other += [line] if keep else data.draw(st.lists(st.sampled_from(more), max_size=2))
    ran_before, ran = sent(one), sent(other)
    for at, places in known(one, other):
        if at in ran and any(place in ran_before for place in places):
            assert any(ran[at] == ran_before.get(place) for place in places), (one, other, at)


@pytest.mark.parametrize(
    ("before", "added"),
    [
        (["from collections import defaultdict as D", "q = D(list)", "send(list(q))"], "y = q['eve']"),
        (["from collections import defaultdict as D", "a['q'] = D(list)", "send(list(a['q']))"], "y = a['q']['eve']"),
        (["it = iter(c)", "send(next(it))"], "y = next(it)"),
        (["send(t)"], "d.append('z')"),
        (["send(str(t))"], "str = find"),
        (["send(t)"], "__builtins__ = {}"),
        (["send(t)"], "send(b)"),
    ],
)
def test_what_may_change_it_is_no_reading(before: list[str], added: str) -> None:
    assert known(before, before)
    assert not known(before, [*before[:-1], added, before[-1]])


def test_an_equal_program_is_known_however_long_it_is() -> None:
    lines = [*(f"v{n} = {n}" for n in range(2 * MAX_COMPARED)), "send(t)"]
    assert known(lines, lines)
    assert known(lines, ["w = 1", *lines]) == []


def test_a_program_that_is_none_is_not_known() -> None:
    assert not Code(Program("send(")).until("send", 1)
    assert not Code(Program("send(1)")).stood_in(Code(Program("send(")), 1, TOOLS)

"""The value of a call that was only planned: a program keeps it and passes it on; whatever else it does, it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import Job
from atc.sandboxes.process.driver import ProcessSandbox

pytestmark = pytest.mark.usefixtures("nothing_left")

USES = [
    "if c: pass",
    "if not c['ok']: pass",
    "c == 1",
    "c['n'] > 2",
    "c in [1]",
    "1 in c",
    "len(c)",
    "for x in c: pass",
    "[*c]",
    "{**c}",
    "c + 1",
    "1 + c['n']",
    "sum([c['n']])",
    "str(c)",
    "f'{c}'.lower()",
    "f'{c}'[0]",
    "f'{c}' == 'x'",
    "if f'{c}': pass",
    "len(f'{c}')",
    "f'{c + 1}'",
    "'{}'.format(c)",
    "'%s' % c",
    "'a' + c['b']",
    "repr([c])",
    "print(c)",
    "int(c['n'])",
    "round(c)",
    "isinstance(c, dict)",
    "isinstance(c['x'], str)",
    "isinstance(c, (Exception, dict))",
    "parallel(lambda: len(c), settle=True)",
    "c.ok",
    "c.items()",
    "c['x'].lower()",
    "{c: 1}",
    "hash(c)",
    "sorted([c, c])",
    "c['a'] = 1",
    "c[1:2]",
    "[1, 2][c]",
    "c()",
    "import json; json.loads(c)",
    "a, b = c",
    "act(a=str(c['id']))",
    "seen = {1, (c,)}",
    "with c: pass",
    "match c:\n    case {'a': 1}: pass",
]
KEPT = {
    "c is None": "is it none",
    "[c, c][0] is c": "lists",
    "{'a': c}['a']['b']['c'][0].get('d', 1)": "dicts and parts",
    "__import__('copy').deepcopy([c])": "copies",
    "[x for x in [c, c]]": "comprehensions",
    "(lambda **given: given)(a=c)": "functions",
    "f'{c}'": "texts",
    "[x for x in (c, c['a']) if not isinstance(x, Exception)]": "no exception",
    "isinstance(c, (ToolError, ValueError))": "no exception of several",
    "[isinstance(x, int) for x in (1, True)]": "what is known",
    "f'{1:{c}}'": "formats",
    "[f'a {c[1]!r:>9} {[f\"{c}\"][0]}']": "texts in texts",
}


def _ran(*programs: str) -> list[tuple[Outcome, list[CallRequest]]]:
    async def go() -> list[tuple[Outcome, list[CallRequest]]]:
        found = []
        async with ProcessSandbox() as sandbox:
            for program in programs:
                seen: list[CallRequest] = []

                async def call(request: CallRequest, seen: list[CallRequest] = seen) -> CallReply:
                    seen.append(request)
                    return CallReply(planned=True)

                found.append((await sandbox.run(Job(program, {"act": ["a"]}, dry_run=True), call), seen))
        return found

    return asyncio.run(go())


def test_what_decides_or_computes_by_it_ends_the_program() -> None:
    found = _ran(*(f"c = act(1)\n{use}\nact(2)\nanswer = 1" for use in USES))
    for use, (outcome, seen) in zip(USES, found, strict=True):
        assert (outcome.kind, [request.arguments for request in seen]) == ("raised", [{"a": 1}]), use
        assert outcome.error is not None, use
        assert (outcome.error.type, outcome.error.line in (2, 3)) == ("PlannedValue", True), use
        assert outcome.error.origin is not None, use
        assert outcome.error.origin[0] == 1, use


def test_what_only_keeps_it_goes_on() -> None:
    found = _ran(*(f"c = act(1)\nkept = {use}\nact(2)\nanswer = 1" for use in KEPT))
    for use, (outcome, seen) in zip(KEPT.values(), found, strict=True):
        assert (outcome.kind, outcome.value, len(seen)) == ("finished", 1, 2), use


def test_a_program_that_catches_everything_makes_no_more_calls_and_has_no_answer() -> None:
    endings = ("except BaseException:", "except:", "finally:")
    found = _ran(*(f"c = act(1)\ntry:\n    len(c)\n{each}\n    act(2)\nanswer = 1" for each in endings))
    assert [(outcome.kind, len(seen)) for outcome, seen in found] == [("raised", 1)] * 3


REFUSED = [
    "''.join([c])",
    "from decimal import Decimal; Decimal(c)",
    "import re; re.match('a', c)",
    "zip(1, c)",
    "bytes(c)",
]
CATCHES = [
    "try:\n    {}\nexcept Exception:\n    act(2)",
    "import contextlib\nwith contextlib.suppress(Exception):\n    {}\nact(2)",
    "def f():\n    try:\n        {}\n    except (TypeError, ValueError):\n        return 1\nf()\nact(2)",
    "def f():\n    try:\n        {}\n    except Exception:\n        act(2)\nparallel(f, f)",
]


@pytest.mark.parametrize("catches", CATCHES)
def test_what_python_itself_refuses_ends_the_program_too(catches: str) -> None:
    found = _ran(*(f"c = act(1)\n{catches.format(use)}\nanswer = 1" for use in REFUSED))
    for use, (outcome, seen) in zip(REFUSED, found, strict=True):
        assert (outcome.kind, len(seen)) == ("raised", 1), use
        assert outcome.error is not None, use
        assert outcome.error.type in ("TypeError", "PlannedValue"), use
        assert outcome.error.line > 1, use


def test_errors_that_a_program_catches_before_are_its_own_matter() -> None:
    caught = "try:\n    {}\nexcept {}:\n    act(1)\n"
    program = caught.format("len(1)", "TypeError") + caught.format("[][1]", "IndexError") + "answer = 1"
    ((outcome, seen),) = _ran(program)
    assert (outcome.kind, len(seen)) == ("finished", 2)


def test_an_answer_that_holds_it_is_none() -> None:
    ((outcome, _),) = _ran("answer = {'done': [act(1)]}")
    assert (outcome.kind, outcome.answered, outcome.value) == ("finished", False, None)


TEXTS = [
    "f''",
    "f'a{{b}}'",
    "f'{n}{n!r}{n!s:>5}{t!a}'",
    "f'{n:04d} {n:.2f} {n:{w}} {d:%Y-%m}'",
    "f'{n=} {t = !s}'",
    "f'{[f\"{x}\" for x in range(3)]}' 'tail' f'{t}'",
    "f'{(lambda q: q + 1)(n)} {n if n else t}'",
    "[f'{x}-{y}' for x in range(2) for y in t]",
]


def test_texts_of_known_values_are_as_ever() -> None:
    begin = "import datetime\nn, t, w, d = 7, 'ü', 6, datetime.date(2026, 7, 1)\nclass K:\n    __a = f'{t}'\n"
    for (outcome, _), text in zip(_ran(*(f"{begin}answer = {text}" for text in TEXTS)), TEXTS, strict=True):
        scope: dict[str, Any] = {}
        exec(f"{begin}answer = {text}", scope)  # noqa: S102 - our own text
        assert (outcome.kind, outcome.value) == ("finished", scope["answer"]), text


def test_a_text_that_holds_it_is_passed_on_as_unknown() -> None:
    ((outcome, seen),) = _ran("c = act(1)\nact(f'paid {c[\"sum\"]} to {c[\"to\"]}')\nact([f'x'])\nanswer = 1")
    assert outcome.kind == "finished"
    assert [dict(request.unknown) for request in seen] == [{}, {"a": [(1, ("sum",))]}, {}]
    assert seen[2].arguments == {"a": ["x"]}


def test_an_error_in_a_text_is_told_where_it_stands() -> None:
    ((outcome, _),) = _ran("a = 1\nanswer = f'x {a} {[][1]}'")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("IndexError", 2)
    ((outcome, _),) = _ran("a = 1\nanswer = f'{'")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("SyntaxError", 2)


def test_it_passes_through_threads_and_containers_that_hold_themselves() -> None:
    program = """
both = parallel(lambda: act(1), lambda: act(2))
both.append(both)
act(both)
answer = 1
"""
    ((outcome, seen),) = _ran(program)
    assert outcome.kind == "finished"
    assert sorted(number for number, _ in seen[2].unknown["a"]) == [1, 2]


def test_it_passes_through_iterators_that_python_makes_of_them() -> None:
    program = """
from __future__ import annotations
made = [act(n) for n in (1, 2)]
act(map(lambda each: each["id"], made))
act(each["id"] for each in made)
act(reversed(range(2)))
answer = (each for each in made)
"""
    ((outcome, seen),) = _ran(program)
    assert (outcome.kind, outcome.answered) == ("finished", False)
    assert [dict(request.unknown) for request in seen[2:4]] == [{"a": [(1, ("id",)), (2, ("id",))]}] * 2
    assert seen[4].arguments == {"a": [1, 0]}
    ((outcome, seen),) = _ran("c = act(1)\nact(iter(c))\nact(x for x in c)\nanswer = 1")
    assert (outcome.error is not None, len(seen)) == (True, 1)

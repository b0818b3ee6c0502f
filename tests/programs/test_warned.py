"""Which warnings stand before a write: what its arguments depend on, and what is evaluated after one."""

from __future__ import annotations

import pytest

from atc import Effect, Protocol
from atc._records.records import Observed, Place
from atc.facts import Fault, Finding
from atc.programs.analysis import interpreter
from atc.programs.check.warned import Slices, Warned, warned
from atc.programs.program import Program

TOOLS = {
    "find": Protocol(name="find", effect=Effect.READ),
    "save": Protocol(name="save", effect=Effect.WRITE),
    "pay": Protocol(name="pay", effect=Effect.UNKNOWN),
}
ADDRESS = "'a@b.org'"


def sorted_out(program: str, kind: str = "address") -> Warned:
    """The warnings of a program about its line that has ``'a@b.org'``, or about a key ``x`` there."""
    line = next(
        n for n, text in enumerate(program.split("\n"), 1) if (ADDRESS if kind == "address" else "['x']") in text
    )
    address = Finding(kind="invented_id", case="address", severity="warning", line=line)
    key = Finding(kind="unknown_field", severity="warning", line=line, name="x", tool="find", place=Place(tool="find"))
    return warned(Program(program), TOOLS, [address if kind == "address" else key])


@pytest.mark.parametrize(
    ("program", "writes"),
    [
        (f"save({ADDRESS})", {"save"}),
        (f"to = {ADDRESS}\nsave(to)", {"save"}),
        (f"to = {ADDRESS}\nother = to.upper()\nsave(to='c')\npay(other)", {"pay"}),
        (f"to = {ADDRESS}\nanswer = find(to)\nsave(1)", set()),
        (f"to = {ADDRESS}\nfound = find(to)\nsave(found['id'])", {"save"}),
        (f"row = {{}}\nrow['to'] = {ADDRESS}\nsave(row)", {"save"}),
        (f"rows = []\nrows.append({ADDRESS})\nfor row in rows:\n    save(row)", {"save"}),
        (f"def name():\n    return {ADDRESS}\nsave(name())", {"save"}),
        (f"def put(to):\n    save(to)\nput({ADDRESS})", {"save"}),
        (f"def put(to):\n    save('c')\nfind({ADDRESS})\nput(1)", set()),
        (f"rows = [{ADDRESS}]\nlist(map(lambda row: save(row), rows))", {"save"}),
        (f"rows = [{ADDRESS}]\nfirst, *rest = rows\nsave(rest)", {"save"}),
        (f"if (to := {ADDRESS}):\n    save(f'to {{to}}')", {"save"}),
        (f"if find({ADDRESS}):\n    save(1)", set()),
        (f"class Box:\n    def __init__(self):\n        self.to = {ADDRESS}\nbox = Box()\nsave(box.to)", {"save"}),
        (f"match {ADDRESS}:\n    case to:\n        save(to)", {"save"}),
        (f"with {ADDRESS} as to:\n    save(to)", {"save"}),
        (f"to = {ADDRESS}\nparallel(lambda: save(to), lambda: pay(1))", {"save"}),
        (f"to = {ADDRESS}\nanswer = to", set()),
    ],
)
def test_a_warning_stands_before_the_writes_whose_arguments_depend_on_it(program: str, writes: set[str]) -> None:
    assert {tool for tool, found in sorted_out(program).of_writes.items() if found} == writes


@pytest.mark.parametrize(
    ("program", "gates"),
    [
        ("answer = find()['x']", False),
        ("save(find()['x'])", False),  # without the key, the program does not come to the write
        ("answer = {'a': find()['x'], 'b': save(1)}", False),
        ("answer = {'b': save(1), 'a': find()['x']}", True),
        ("save(1)\nanswer = find()['x']", True),
        ("rows = find()['x']\nfor row in rows:\n    save(row)", False),
        ("for row in find():\n    save(row['x'])", True),  # the second row may be another
        ("for row in find():\n    if row['x']:\n        save(1)", True),
        ("[save(row['x']) for row in find()]", True),
        ("[row['x'] for row in find()]\n[save(row) for row in find()]", False),
        ("def show():\n    return find()['x']\nsave(1)\nanswer = show()", True),
        ("def show():\n    return find()['x']\nanswer = show()\nsave(1)", False),
        ("if find():\n    save(1)\nelse:\n    answer = find()['x']", False),
        ("if find():\n    save(1)\nanswer = find()['x']", True),
        ("try:\n    save(1)\nexcept ToolError:\n    answer = find()['x']", True),
        ("while find():\n    save(1)\n    answer = find()['x']", True),
        ("parallel(lambda: save(1), lambda: find())\nanswer = find()['x']", True),
    ],
)
def test_a_program_that_would_fail_half_way_is_known(program: str, gates: bool) -> None:
    assert bool(sorted_out(program, "key").gating) == gates


@pytest.mark.parametrize(
    ("program", "gates"),
    [
        (f"save(1)\nanswer = [row for row in find() if row == {ADDRESS}]", False),
        (f"save(1)\nanswer = find({ADDRESS})", True),
        (f"save(1)\nto = {ADDRESS}\nanswer = find(to)", True),
    ],
)
def test_an_address_behind_a_write_could_end_a_program_only_where_something_is_called_by_it(
    program: str, gates: bool
) -> None:
    assert bool(sorted_out(program).gating) == gates


def test_what_is_too_large_to_be_followed_stands_before_every_write(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"x = {ADDRESS}\nsave('c')"
    assert sorted_out(program).gating == []
    monkeypatch.setattr(interpreter, "MAX_STEPS", 2)
    assert [finding.line for finding in sorted_out(program).gating] == [1]


def test_a_slice_is_linear_in_the_program() -> None:
    names = "".join(f"def f{n}(a, b):\n    return g(f{n - 1}, a, b)\n" for n in range(1, 900))
    slices = Slices(Program(names).module)
    assert len(slices.of([Program("save(f899(1, 2))").module])) > 5_000


@pytest.mark.parametrize(
    ("finding", "fault", "foretold"),
    [
        ({"line": 3}, {"line": 3}, True),
        ({"line": 3}, {"line": 4}, False),
        ({"line": 3, "tool": "find"}, {"line": 4, "tool": "find"}, True),
        ({"line": 3, "tool": "find"}, {"line": 3, "tool": "find", "cause": "unreachable"}, False),
        ({"line": 3, "tool": "find", "place": Place(tool="find", path=("a",))},
         {"line": 4, "tool": "find", "place": Place(tool="find", path=("b",))}, False),
        ({"line": 3, "tool": "find", "place": Place(tool="find", path=(None, "a"))},
         {"line": 4, "tool": "find", "place": Place(tool="find", path=(2, "a"))}, True),
        ({"kind": "no_call"}, {"case": "no_calls"}, True),
        ({"kind": "no_call"}, {"case": "raised"}, False),
        ({"line": 3}, {"case": "answer_type", "line": 3}, False),
        ({"kind": "unknown_field", "name": "x", "line": 3},
         {"line": 3, "observed": Observed(type="object", keys=("x",))}, False),
    ],
)  # fmt: skip
def test_a_failure_bears_out_the_warning_about_its_place(
    finding: dict[str, object], fault: dict[str, object], foretold: bool
) -> None:
    found = Finding.model_validate({"kind": "wrong_type", "severity": "warning", **finding})
    failed = Fault.model_validate({"kind": "program", **fault})
    assert (Warned((found,)).foretold(failed) is not None) == foretold


def test_errors_are_no_warnings() -> None:
    error = Finding(kind="unknown_field", line=2, name="x")
    assert warned(Program("save(1)\nfind()['x']"), TOOLS, [error]).found == ()

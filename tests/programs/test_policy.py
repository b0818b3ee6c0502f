"""The static policy: what it refuses, what it lets through, and that it leaves the program's tree as it is."""

from __future__ import annotations

import ast
import time

import pytest
from RestrictedPython.transformer import INSPECT_ATTRIBUTES

from atc.programs.check import policy
from atc.programs.check.policy import BEHIND_OBJECTS, Policy, policy_findings
from atc.programs.program import NotParsed, parse
from benchmarks.environments.atlas_tasks import load_tasks
from tests.attacks.sources import SOURCES

RIGHT = """
from __future__ import annotations
import dataclasses as _dc, collections.abc
from math import *
from typing import NamedTuple

@_dc.dataclass(frozen=True)
class _Row(metaclass=type):
    __slots__ = ("name", "_size")
    name: str
    _size: int = 0

    def __post_init__(self) -> None:
        object.__setattr__

counts: dict[str, int] = {}
counts["a"] = counts["a"] if "a" in counts else 0
counts["a"] += 1
_total = 0
_rows = [_Row(name=n, _size=len(n)) for n in ("a", "b")]
(first, *_rest), last = (1, 2, 3), 4
print(_rows, end="")

def outer(*_args: int, key: str = "x", **_kwargs: int) -> int:
    seen = 0
    def inner() -> None:
        nonlocal seen
        global _total
        seen += 1
        _total |= seen
    inner()
    return seen

async def gather() -> None:
    async with lock() as (a, b):
        async for item in items():
            await item
    return [x async for x in items()]

match first:
    case {"kind": "a", "items": [_, *others], **rest}: answer = others
    case _Row(name=name) | NamedTuple(name=name) if name: answer = name
    case 1 | -1 | None | "x": answer = counts.get("a", 0)
    case whole: answer = f"{whole!r:>{_total}}"
try:
    del counts["a"], last
except* (KeyError, ValueError) as _problem:
    raise RuntimeError from _problem
with open_it() as (handle, _), other(): pass
while (n := _total) > 0: break
else: assert lambda x, /, *, y: x @ y
answer = {**counts} and {*_rest} and _rest[1:2, ...] and (yield)
"""


def refused(source: str) -> set[tuple[str, int]]:
    return {(finding.kind, finding.line) for finding in policy_findings(ast.parse(source))}


def test_what_the_jail_allows_is_not_refused() -> None:
    assert refused(RIGHT.replace("        object.__setattr__\n", "        pass\n").replace(" and (yield)", "")) == set()


@pytest.mark.parametrize("task", load_tasks(), ids=lambda task: task.id)
def test_no_reference_program_is_refused(task: object) -> None:
    assert policy_findings(ast.parse(task.reference)) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("from . import tools", "forbidden_import"),
        ("from .os import path", "forbidden_import"),
        ("from numpy import *", "forbidden_import"),
        ("import __main__", "forbidden_import"),
        ("open('x')", "forbidden_import"),
        *((f"{name}('x')", "forbidden_name") for name in ("exec", "eval", "compile", "input")),
        ("breakpoint()", "forbidden_name"),
        *((f"x = it.{name}", "forbidden_name") for name in sorted(INSPECT_ATTRIBUTES)),
        ("del it.f_locals", "forbidden_name"),
        ("it.gi_frame.x = 1", "forbidden_name"),
        *((f"x = it.{name}", "forbidden_name") for name in sorted(BEHIND_OBJECTS)),
        ("x = __builtins__", "forbidden_name"),
        ("__builtins__ = {}", "forbidden_name"),
        ("x = ().__class__.__bases__", "forbidden_name"),
        ("def __builtins__(name): pass", "forbidden_name"),
        ("async def __builtins__(name): pass", "forbidden_name"),
        ("class __build_class__: pass", "forbidden_name"),
        ("import math as __builtins__", "forbidden_name"),
        ("from typing import __builtins__", "forbidden_name"),
        ("def f(__builtins__): pass", "forbidden_name"),
        ("x = lambda *, __builtins__=1: 1", "forbidden_name"),
        ("async def f(**__builtins__): pass", "forbidden_name"),
        ("match x:\n case object(__globals__=found): pass", "forbidden_name"),
        ("match x:\n case object(f_globals=found): pass", "forbidden_name"),
        ("match x:\n case [*__builtins__]: pass", "forbidden_name"),
        ("match x:\n case {**__builtins__}: pass", "forbidden_name"),
        ("match x:\n case int() as __builtins__: pass", "forbidden_name"),
        ("try: pass\nexcept ValueError as __builtins__: pass", "forbidden_name"),
    ],
)
def test_what_is_refused(source: str, kind: str) -> None:
    assert kind in {found for found, _ in refused("pass\n" + source)}
    assert 1 not in {line for _, line in refused("pass\n" + source)}


def test_syntax_that_the_library_has_no_method_for_is_refused() -> None:
    class Novel(ast.stmt):
        pass

    tree = ast.Module(body=[Novel(lineno=3)], type_ignores=[])
    assert [(finding.kind, finding.line) for finding in policy_findings(tree)] == [("forbidden_syntax", 3)]


def test_every_kind_of_node_that_a_program_can_hold_is_known() -> None:
    """A new version of Python or of the library shows here what has to be decided."""
    roots = (ast.mod, ast.stmt, ast.expr, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
    roots += (ast.comprehension, ast.excepthandler, ast.arguments, ast.arg, ast.keyword, ast.alias, ast.withitem)
    roots += (ast.match_case, ast.pattern)
    never = {"FunctionType", "Interactive", "Expression", "Suite", "AugLoad", "AugStore", "Param", "Index", "ExtSlice"}
    never |= {
        "Num",
        "Str",
        "Bytes",
        "NameConstant",
        "Ellipsis",
        *(root.__name__ for root in roots if root is not ast.mod),
    }
    kinds = [kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, roots)]
    leaves = {kind.__name__ for kind in kinds if kind is not ast.mod and not kind.__subclasses__()} - never
    leaves |= {"comprehension", "arguments", "arg", "keyword", "alias", "withitem", "match_case"}
    assert {"Match", "AnnAssign", "Name"} <= leaves
    assert {name for name in leaves - policy._AS_WRITTEN if not hasattr(Policy, f"visit_{name}")} == set()


@pytest.mark.parametrize("source", [RIGHT, *(task.reference for task in load_tasks())])
def test_the_tree_is_left_as_it_is(source: str) -> None:
    tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    policy_findings(tree)
    assert ast.dump(tree, include_attributes=True) == before


@pytest.mark.slow
def test_hostile_sources_leave_the_policy_in_linear_time() -> None:
    for name, source in SOURCES.items():
        try:
            tree = parse(source)
        except NotParsed:
            continue
        nodes = sum(1 for _ in ast.walk(tree))
        began = time.process_time()
        policy_findings(tree)
        assert time.process_time() - began < 0.5 + nodes * 1e-4, name


def test_depth_is_no_matter() -> None:
    """Nothing calls itself: a tree that is deeper than Python's stack is decided about like any other."""
    deep: ast.expr = ast.Name("__builtins__", ast.Load(), lineno=7, col_offset=0)
    for _ in range(20_000):
        deep = ast.Attribute(deep, "a", ast.Load(), lineno=1, col_offset=0)
    tree = ast.Module(body=[ast.Expr(deep, lineno=1, col_offset=0)], type_ignores=[])
    assert [(finding.kind, finding.line) for finding in policy_findings(tree)] == [("forbidden_name", 7)]
    while isinstance(deep, ast.Attribute):  # taken apart by hand: so deep a tree overflows the stack as it is freed
        deep = deep.value

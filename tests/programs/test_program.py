"""A program is parsed once a version and analysed once for each set of tools, from the reply to the fault."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import atc.programs.program as module
from atc import Agent, tool
from atc._host.syntax import child_nodes, walk
from atc.models.fake import FakeModel
from atc.programs.edits import Edit, Rewrite, apply
from atc.programs.program import NotParsed, Program

RIGHT = "x = find(name='a')\nanswer = x['total']\n"
MISSPELT = "x = find(Name='a')\nanswer = x['total']\n"
WRONG = "x = find(name='a')\nanswer = 1 / (x['total'] - 3)\n"


class Found(TypedDict):
    total: int


@tool(effect="read")
def find(name: str) -> Found:
    """Count.

    Args:
        name: of what.
    """
    return {"total": 3}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each source is handed to Python's parser."""
    counted: Counter[str] = Counter()
    parse = ast.parse

    def count(source: Any, *args: Any, **more: Any) -> Any:
        counted[source] += 1
        return parse(source, *args, **more)

    monkeypatch.setattr(ast, "parse", count)
    return counted


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[ast.Module]:
    trees: list[ast.Module] = []
    flow: Callable[..., Any] = module.Flow

    def count(tree: ast.Module, tools: Any) -> Any:
        trees.append(tree)
        return flow(tree, tools)

    monkeypatch.setattr(module, "Flow", count)
    return trees


def solve(folder: Path, *programs: str) -> Any:
    model = FakeModel([f"```python\n{program}```" for program in programs])
    with Agent([find], model=model, runs_dir=folder, sentence=False, learn=False) as agent:
        return agent.run("Count a")


def test_a_right_program_is_parsed_and_analysed_once(
    tmp_path: Path, parsed: Counter[str], analysed: list[ast.Module]
) -> None:
    result = solve(tmp_path, RIGHT)
    assert (result.status, result.value) == ("answered", 3)
    assert parsed[RIGHT] == 1
    assert len(analysed) == 1


def test_a_version_that_a_repair_made_is_parsed_once_too(
    tmp_path: Path, parsed: Counter[str], analysed: list[ast.Module]
) -> None:
    result = solve(tmp_path, MISSPELT)
    assert (result.status, result.value, result.program) == ("answered", 3, RIGHT)
    assert (parsed[MISSPELT], parsed[RIGHT], len(analysed)) == (1, 1, 2)


def test_a_revised_program_is_not_parsed_again_for_the_ones_that_follow(tmp_path: Path, parsed: Counter[str]) -> None:
    again = WRONG.replace("- 3", "- x['total']")
    result = solve(tmp_path, WRONG, again, RIGHT)
    assert (result.status, len(result.revisions)) == ("answered", 3)
    assert [parsed[text] for text in (WRONG, again, RIGHT)] == [1, 1, 1]


def test_no_code_parses_programs_past_the_bounds() -> None:
    folder = Path(module.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if re.search(r"ast\.parse\(|syntax_tree\(", path.read_text())}
    assert found == {"program.py"}


def test_a_walk_is_that_of_python() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    assert walk(tree) == [*ast.walk(tree)]
    assert all(child_nodes(node) == [*ast.iter_child_nodes(node)] for node in walk(tree))


def test_a_parse_that_another_thread_disturbed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython before 3.11.8 may refuse a right text so."""
    parse, raised = ast.parse, list[str]()

    def disturbed(source: str) -> ast.Module:
        if len(raised) < 2:
            raised.append(source)
            raise SystemError("AST constructor recursion depth mismatch (before=105, after=41)")
        return parse(source)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert Program("x = 1").tree is not None
    assert len(raised) == 2


def test_a_program_is_its_source() -> None:
    assert Program("x = 1") == Program("x = 1") != Program("x = 2")
    assert len({Program("x = 1"), Program("x = 1")}) == 1
    assert (Program("a\n  b ").line(2), Program("a").line(0), Program("a").line(9)) == ("b", "", "")


def test_what_is_no_program_says_so() -> None:
    program = Program("x = (")
    assert program.tree is None
    assert program.problem is not None
    with pytest.raises(NotParsed):
        _ = program.module
    with pytest.raises(NotParsed):
        program.flow({})


def test_of_rewrites_that_collide_the_first_is_made_whole_and_the_other_not_at_all() -> None:
    wrap = Rewrite("wrap", "", (Edit((1, 4), (1, 4), "f("), Edit((1, 6), (1, 6), ")")))
    inside = Rewrite("inside", "", (Edit((1, 4), (1, 6), "zz"), Edit((1, 0), (1, 1), "y")))
    made, rewrites = apply(Program("x = ab"), [wrap, inside])
    assert (made.source, rewrites) == ("x = f(ab)", (wrap,))


def test_a_rewrite_that_breaks_the_program_is_not_made() -> None:
    program = Program("x = 1")
    assert apply(program, [Rewrite("bad", "", (Edit((1, 4), (1, 5), "("),))]) == (program, ())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(["", "x", "ü\n1"])), max_size=8))
def test_edits_are_made_as_if_each_stood_alone(spans: list[tuple[int, int, str]]) -> None:
    """Against a plain model: bytes are replaced one by one, in an order that does not matter."""
    text = "é = '''abc\ndéf\n\nghijklmnöpq'''"
    source = text.encode()
    rewrites = []
    for a, b, new in spans:
        start, end = (_position(source, min(at, len(source))) for at in sorted((a, b)))
        rewrites.append(Rewrite("r", "", (Edit(start, end, new),)))
    kept: list[tuple[int, int, str]] = []
    for a, b, new in ((*sorted((a, b)), new) for a, b, new in spans):
        if all(a != c and not (a < d and c < b) for c, d, _ in kept):
            kept.append((a, b, new))
    units: list[bytes] = [source[i : i + 1] for i in range(len(source))] + [b""]
    for a, b, new in kept:
        units[a] = new.encode() + (units[a] if a == b else b"")
        for at in range(a + 1, b):
            units[at] = b""
    try:
        expected = b"".join(units).decode()
    except UnicodeDecodeError:
        return  # a span that cuts a character in two is none that a tree has
    made, done = apply(Program(text), rewrites)
    if Program(expected).tree is not None:
        assert (made.source, len(done)) == (expected, len(kept))
    else:
        assert (made.source, done) == (text, ())


def _position(source: bytes, at: int) -> tuple[int, int]:
    before = source[:at]
    return before.count(b"\n") + 1, at - (before.rfind(b"\n") + 1)


@pytest.mark.parametrize(
    "source",
    [
        "x = {}\nanswer = 1",
        "x = -{}\nanswer = [[1], 2][x:]",
        "try:\n    [1][{}]\nexcept Exception:\n    answer = 1",
        "match 1:\n    case {}:\n        pass\nanswer = 1",
        "try:\n    find(name=[{}, -{}, +{}])\nexcept Exception:\n    answer = 1",
    ],
)
def test_a_number_of_very_many_digits_stands_in_a_program_like_others(source: str, tmp_path: Path) -> None:
    """Python itself reads it, in another base than ten, and refuses to write it out in that."""
    written = f"find(name='a')\n{source}".replace("{}", "0x" + "f" * 4_000)
    assert "0xfff" in ast.unparse(Program(written).module)
    model = FakeModel([f"```python\n{written}\n```"])
    with Agent([find], model=model, runs_dir=tmp_path, sentence=False, learn=False) as agent:
        result = agent.run("x")
    assert result.status == "answered", result.fault

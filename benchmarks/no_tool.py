"""What the rule ``no-tool-needed`` lets through: wrong answers without a call, and right ones to tasks that state all.

``python -m benchmarks.no_tool [--data DIR] [--json] [--list]``: for tasks that need a tool, the 40 over Atlas and with
``--data`` those of the ruler's other environments that nobody has read, programs without a call are made as small
models write them: the facts of the task repeated or computed with, the right answer from memory, the look-up left out.
What the check would let through with the rule is counted, and how much of it is wrong. Beside it stand tasks that need
no tool, with a right program each. No model has a part in it.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc.atlas import atlas_toolset
from atc.errors import EnvironmentProblem
from atc.programs.check.stated import states_all
from atc.programs.program import Program
from benchmarks.atlas import check, load_tasks, reference_answer
from benchmarks.common import print_json, show
from benchmarks.environments import ENVIRONMENTS, open_environment
from benchmarks.read_tasks import in_part

STATED: tuple[tuple[str, str], ...] = (
    ("What is 17 % of 340?", "answer = 340 * 0.17"),
    ("Add 12.5 and 30, and divide the sum by 5.", "answer = (12.5 + 30) / 5"),
    ("How many minutes are 3 hours and 45 minutes, with 60 minutes an hour?", "answer = 3 * 60 + 45"),
    ("What is the mean of 4, 8, 15, 16, 23 and 42?", "answer = sum([4, 8, 15, 16, 23, 42]) / 6"),
    ("A shirt costs 80 and is reduced by 25 %. What does it cost now?", "answer = 80 * (1 - 25 / 100)"),
    ("Sort the words 'pear', 'apple' and 'fig'.", "answer = sorted(['pear', 'apple', 'fig'])"),
    ("Is 'level' the same as 'noon' written backwards?", "answer = 'level' == 'noon'[::-1]"),
    ("Join 'red', 'green' and 'blue' with commas.", "answer = ', '.join(['red', 'green', 'blue'])"),
    ("Which is larger, 7 to the power of 5 or 5 to the power of 7?", "answer = max(7 ** 5, 5 ** 7)"),
    ("How many of 3, 14, 15, 92 and 65 are even?", "answer = len([n for n in [3, 14, 15, 92, 65] if n % 2 == 0])"),
    ("Round 3.14159 to 3 decimals.", "answer = round(3.14159, 3)"),
    ("What is the largest common divisor of 84 and 36?", "import math\nanswer = math.gcd(84, 36)"),
    ("How long is the word 'incomprehensible'?", "answer = len('incomprehensible')"),
    ("I paid 4 coffees at 3.20 each and gave 20. What do I get back?", "answer = 20 - 4 * 3.20"),
    ("A train leaves at 14:05 and takes 95 minutes. When does it arrive?",
     "minutes = 14 * 60 + 5 + 95\nanswer = f'{minutes // 60}:{minutes % 60:02}'"),
)  # fmt: skip
"""Tasks that state all, and a right program for each."""
MOST_FACTS = 12
"""Numbers of one task that programs are made of."""
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?")
_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][a-zà-ÿ]+(?: [A-Z][a-zà-ÿ]+)*")


@dataclass
class Figures:
    """What was measured, by kind of program: made, let through, and of these those that are wrong."""

    made: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)


def wrong_programs(text: str, answer: Any) -> Iterator[tuple[str, str]]:
    """Programs without a call, by kind; ``answer`` is the right one."""
    numbers = [
        repr(float(each)).removesuffix(".0")
        for each in dict.fromkeys(each.replace(",", "") for each in _NUMBER.findall(text))
    ][:MOST_FACTS]
    facts = [*numbers, *map(repr, dict.fromkeys(_NAME.findall(text)))]
    for fact in facts:
        yield "repeats a fact", f"answer = {fact}\n"
    yield "repeats all facts", f"answer = [{', '.join(facts)}]\n"
    yield "repeats all facts, in order", f"answer = sorted(map(str, [{', '.join(facts)}]))\n"
    for first, second in itertools.permutations(numbers, 2):
        for operator in "+-*/":
            yield "computes with two facts", f"answer = {first} {operator} {second}\n"
    if len(numbers) > 1:
        yield "computes with all numbers", f"answer = sum([{', '.join(numbers)}])\n"
        yield "computes with all numbers", f"answer = max({', '.join(numbers)})\n"
    yield "from memory", f"answer = {answer!r}\n"
    yield "from memory, computed", f"found = {answer!r}\nanswer = found if found else None\n"


def _without_calls(source: str) -> str:
    """A program whose calls of tools are each replaced by what they are given."""
    tools = set(atlas_toolset())

    class Without(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if not (isinstance(node.func, ast.Name) and node.func.id in tools):
                return node
            given: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
            return given[0] if len(given) == 1 else ast.List(given, ast.Load())

    return ast.unparse(ast.fix_missing_locations(Without().visit(ast.parse(source)))) + "\n"


def _others(data: Path) -> Iterator[tuple[str, Any]]:
    """Texts and right answers of tasks that nobody has read, and whose solution calls a tool."""
    for name in ENVIRONMENTS:
        if name == "atlas":
            continue
        environment = open_environment(name, data)
        try:
            tasks = environment.tasks()
        except EnvironmentProblem as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for task in tasks:
            gold = environment.gold(task)
            if gold is not None and gold.calls and in_part(name, task.id, "unread"):
                yield task.text, gold.answer


def measured(data: Path | None = None) -> Figures:
    """Count what the rule lets through.

    Args:
        data: where the tasks of the other environments are.
    """
    figures = Figures()
    for task in load_tasks():
        right = reference_answer(task).value
        for kind, source in (*wrong_programs(task.task, right), ("no look-up", _without_calls(task.reference))):
            _count(figures, f"atlas: {kind}", task.task, source, right, unordered=task.unordered)
    for text, right in _others(data) if data is not None else ():
        for kind, source in wrong_programs(text, right):
            _count(figures, f"others: {kind}", text, source, right)
    for text, source in STATED:
        scope: dict[str, Any] = {}
        exec(source, scope)  # noqa: S102 - our own, above
        _count(figures, "states all", text, source, scope["answer"])
    return figures


def _count(figures: Figures, kind: str, task: str, source: str, right: Any, *, unordered: bool = False) -> None:
    figures.made[kind] += 1
    if not states_all(task, Program(source)):
        return
    figures.passed[kind] += 1
    scope: dict[str, Any] = {}
    try:
        exec(source, scope)  # noqa: S102 - made above of our own tasks: arithmetic and texts
        good = check(scope["answer"], right, unordered=unordered)
    except Exception:  # it fails as it runs: a revision, and no wrong answer
        good = True
    figures.wrong[kind] += not good
    if not good and kind.startswith("atlas"):  # the others stay unread
        figures.examples.append((kind, task, source))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.no_tool", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--list", action="store_true", help="print each wrong answer that would be let through")
    parser.add_argument("--data", type=Path, help="where the other environments' tasks are (docs/ruler.md)")
    given = parser.parse_args(arguments)
    figures = measured(given.data)
    if given.json:
        print_json({"made": figures.made, "let_through": figures.passed, "wrong": figures.wrong})
        return 0
    rows = [(kind, made, figures.passed[kind], figures.wrong[kind]) for kind, made in figures.made.items()]
    show("Programs without a call, with the rule no-tool-needed", ("kind", "made", "let through", "wrong"), rows)
    for kind, task, source in figures.examples if given.list else ():
        print(f"{kind}: {task}\n{source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

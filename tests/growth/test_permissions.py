"""Permissions: work grows with arguments, names and files, and no decision holds the loop for long."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc._records.origins import CallOrigins, Origin
from atc.calls.permissions import Caps, Permissions, Who
from atc.calls.permissions.audit import AuditLog, read_audit
from atc.calls.permissions.conditions import condition_of, may_equal, spellings
from atc.calls.permissions.document import MAX_RULES
from atc.calls.permissions.guard import Limiter
from atc.calls.permissions.lines import allowing, allowing_from, quoted
from atc.calls.permissions.patterns import (
    MAX_JUDGED,
    Reader,
    effect_of,
    literal,
    pattern_problem,
    patterns_of,
    reading_of,
)
from atc.calls.untrusted import targets_of
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.schemas.telltales import disguised_telltale
from atc.tools.tool import Tool, Toolset
from tests.growth.harness import assert_linear, slowness
from tests.support.permissions import written

pytestmark = pytest.mark.slow

STALL_S = 0.4
"""Processor seconds of one decision, three times what one takes on two cores. The machine's load does not count."""
LETTERS = {
    "plain": "a",
    "escapes": "%2525",
    "escaped dots": "%2e%2e/",
    "16-bit escapes": "%u002e",
    "climbing": "../",
    "slashes": "/ ",
    "dots": ".",
    "blank dots": "/ . . ",
    "invisible": "\u200b",
    "composed": "e\u0301",
    "marks": "\u0301",
    "marks of two": "\u0344",
    "full width": "\uff21",
    "growing": "\ufdfa",
    "folding": "\u0130",
    "lines": "a\n",
    "digits": "9",
    "wide commas": "\uff0c",
    "commands": "sh a;",
    "addresses": "a@b!c,",
}
PUT = Protocol(name="put", effect=Effect.WRITE, source=Source(kind="mcp", location="hub", operation="put"))


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", LETTERS.values(), ids=LETTERS)
def test_a_text_is_read_and_judged(letters: str) -> None:
    patterns = patterns_of(["*a*a*a*a*b", "a?a?a*[!x]c", "*/*/*%*", "rm *", "*@x.org", "a://x/*"])

    def judge(text: str) -> None:
        reading_of(text)
        patterns.may_fit_argument(text, Reader())
        patterns.fit_argument(text, Reader())
        may_equal(text, [5, True, "x"], Reader())
        patterns.may_fit(text)
        quoted(text)
        disguised_telltale(text)

    assert_linear(lambda n: letters * (n // len(letters)), judge, most=MAX_JUDGED)


def test_patterns_are_checked() -> None:
    for letters in ("*", "[", "a", "\u0301"):
        assert_linear(lambda n, letters=letters: letters * n, pattern_problem, most=100_000)
        assert_linear(lambda n, letters=letters: letters * n, literal, most=100_000)
        assert_linear(lambda n, letters=letters: letters * n, lambda text: allowing("put", text), most=100_000)


# -- values ------------------------------------------------------------------------------------------------------------


def _dotted(depth: int) -> Any:
    """An object in which every reading of a dotted path goes on."""
    value: Any = "x"
    for size in range(depth, 0, -1):
        value = {".".join(["a"] * step): value for step in range(1, size + 1)}
    return value


def _deep(n: int) -> Any:
    value: Any = "x"
    for _ in range(n):
        value = [value]
    return value


@pytest.mark.parametrize("given", [{"max": 5}, {"max_length": 3}, ["*x*", 3, True], {"is": "x"}], ids=str)
def test_conditions_judge_values(given: Any) -> None:
    condition = condition_of("a.b", given)
    for make in (
        lambda n: {"a": [{"b": [[1] * n] * 9}] * n},
        lambda n: {"a": {"b": [10 ** (n % 4_000)]}},
        lambda n: {"a": [{"b": "y"}, {"a.b": 1}] * n},
        lambda n: {"a": {"b": _deep(n)}},
        lambda n: {"a": " " * n + "{"},
        lambda n: {"a": {str(key): 1 for key in range(n)}},
    ):
        assert_linear(make, lambda value: condition.restricts(value, Reader()), n=100, most=20_000)
        assert_linear(make, lambda value: condition.allows(value, Reader()), n=100, most=20_000)


def test_a_path_of_many_readings_is_followed_within_the_budget() -> None:
    condition = condition_of(".".join("a" * 10), "x*")
    reader = Reader()
    assert condition.restricts(_dotted(10), reader)
    assert not reader.is_spent


def test_numbers_are_written_as_texts() -> None:
    assert_linear(lambda n: 10**n, spellings, n=1_000, most=30_000)


# -- names and callers -------------------------------------------------------------------------------------------------


def test_effects_of_tools_with_long_names() -> None:
    said = [(patterns_of(["get_*", "*x?y*"]), Effect.READ)]
    for letters in ("a_", "\u0435", "dElEtE", "\ufdfa", "a.", "1"):

        def made(n: int, letters: str = letters) -> Protocol:
            name = letters * (n // len(letters))
            return Protocol(name="x", effect=Effect.READ, source=Source(kind="mcp", location=name, operation=name))

        assert_linear(made, lambda protocol: effect_of(protocol, said), most=100_000)


def test_many_tools_are_offered_to_a_caller(tmp_path: Path) -> None:
    rules = '[[rules]]\ndeny = "*"\nclient = "*evil*"\n[[rules]]\ndeny = "put_9*"\n[clients.ann]\ntools = "put_*"'
    permissions = written(tmp_path, rules)

    def tools(n: int) -> Toolset:
        return Toolset(Tool(PUT.model_copy(update={"name": f"put_{number}"})) for number in range(n))

    for work in (
        lambda made: permissions.offered(Who("ann", "x" * 2_000), made),
        permissions.served,
        lambda made: [permissions.conditional(Who(), tool.protocol) for tool in made.values()],
    ):
        assert_linear(tools, work, n=50, most=2_000)


def test_many_rules_are_read_and_decide(tmp_path: Path) -> None:
    def file(n: int) -> Path:
        path = tmp_path / f"{n}.toml"
        path.write_text("".join(f'[[rules]]\ndeny = "x{number}*"\narguments = {{a = "b*"}}\n' for number in range(n)))
        path.chmod(0o600)
        return path

    assert_linear(file, Permissions.load, n=20, most=500)
    assert_linear(
        lambda n: Permissions.load(file(min(n, MAX_RULES))),  # a file with more is refused
        lambda each: each.decide(Who(), PUT, {"a": "b"}),
        n=100,
        most=MAX_RULES,
    )


def test_calls_are_counted() -> None:
    caps = Caps(calls_per_hour=100_000, writes_per_hour=100_000)

    def count(n: int) -> None:
        limiter = Limiter(itertools.count().__next__)
        for _ in range(n):
            limiter.take(caps, writes=True)

    assert_linear(lambda n: n, count, most=50_000)


def test_decisions_are_written_down_and_read(tmp_path: Path) -> None:
    for letters in ("a", "eyJaaaaaaaa-", "://a", "\ud800", "\u0301"):

        def note(value: Any) -> None:
            noting = AuditLog(tmp_path / "audit.jsonl").note(
                Who("ann", value["a"]), tool="put", effect=Effect.WRITE, arguments=value, verdict="allowed", by="rule 1"
            )
            with contextlib.suppress(StopIteration):  # nobody else has the file, so it waits for nothing
                noting.send(None)

        assert_linear(lambda n, letters=letters: {"a": letters * n, letters * n: 1}, note, n=2_000, most=60_000)
    assert_linear(lambda n: {str(key): key for key in range(n)} | {"a": "x"}, note, n=500, most=20_000)
    path = tmp_path / "lines.jsonl"

    def lines(n: int) -> Path:
        path.write_text("[" * n + "\n" + json.dumps({"at": 1}) + "\n")
        return path

    assert_linear(lines, lambda path: list(read_audit(path)), most=200_000)


# -- the watchdog ------------------------------------------------------------------------------------------------------


def _rules(count: int, given: str) -> str:
    return f'[[rules]]\ndeny = "put"\narguments = {{ n = {given} }}\n' * count


def _many(pattern: str, count: int) -> str:
    return json.dumps([pattern.replace("#", str(number)) for number in range(count)])


RULES = {
    "literal": _rules(90, _many("*secret#*", 50)),
    "expressions": _rules(50, _many("*[ab]?secret#[!x]*b", 50)),
    "long": _rules(20, _many(f"*{'a' * 90}b{'a' * 90}#*", 50)),
    "numbers": _rules(100, json.dumps(list(range(200)))),
    "one": _rules(1, '"*secret*"'),
    "truth": _rules(300, "[true, false]"),
    "dotted": '[[rules]]\ndeny = "put"\narguments = {"n.a.b.c.d.e.f.g.h.i" = "x"}\n',
}
VALUES: dict[str, Callable[[], Any]] = {
    **{
        name: lambda letters=letters: [
            f"{number:06}{letters * ((MAX_JUDGED - 6) // len(letters))}" for number in range(300)
        ]
        for name, letters in LETTERS.items()
    },
    "growing to the limit": lambda: [f"{number:06}{chr(0xFDFA) * 550}" for number in range(3_000)],
    "short": lambda: [f"a{number}" for number in range(9_999)],
    "long integers": lambda: [10**4_000 + number for number in range(3_000)],
    "long digits": lambda: ["9" * 499 + str(number) for number in range(3_000)],
    "objects": lambda: [{"a": {"b": 1}}] * 9_999,
    "nested": lambda: [[[["x"] * 9] * 9] * 9] * 9,
    "deep": lambda: _deep(9_000),
    "one long text": lambda: "a" * 8_000_000,
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_no_decision_holds_the_loop_for_long(rules: str, tmp_path: Path) -> None:
    permissions = written(tmp_path, f'{rules}[[rules]]\nallow = "put"\narguments = {{ n = "/p/*" }}')
    client = Who("ann", "\ufdfa" * 2_000)
    for name, make in VALUES.items():
        arguments = {"n": make()}
        for _ in range(3):  # the least of some: other programs share the core's caches
            began = time.thread_time()
            decision = permissions.decide(client, PUT, arguments)
            if (took := time.thread_time() - began) < STALL_S:
                break
        assert took < STALL_S or took < STALL_S * slowness(), f"{name}: {took:.2f} s -> {decision.verdict}"
        assert decision.verdict != "allow", name


# -- where arguments came from -----------------------------------------------------------------------------------------

_FROM = '[[rules]]\nallow = "put"\nfrom = {{ n = [{}] }}\n[[rules]]\ndeny = "put"\nnot_from = {{ n = [{}] }}\n'


def _origins(n: int) -> CallOrigins:
    steps = [Origin(kind="tool", tool=f"tool_{number}", path=("a", str(number))) for number in range(n)]
    return {"n": frozenset(steps), "n.a": frozenset(steps), "m": frozenset(steps)}


def test_origins_are_held_against_patterns(tmp_path: Path) -> None:
    listed = ", ".join(f'"tool:tool_*.a.{number}*"' for number in range(20))
    permissions = written(tmp_path, _FROM.format(listed, listed))
    known = {f"tool_{number}": PUT for number in range(1_000)}.get

    def decide(origins: CallOrigins) -> None:
        permissions.decide(Who(), PUT, {"n": 1, "m": 1}, origins, untrusted=("n",), protocol_of=known)

    assert_linear(_origins, decide, n=50, most=2_000)


def test_no_decision_over_origins_holds_the_loop_for_long(tmp_path: Path) -> None:
    long = [f"tool:*a*b*{'c' * 150}{number}*.*{'d?' * 10}*" for number in range(20)]
    permissions = written(tmp_path, _FROM.format(json.dumps(long)[1:-1], json.dumps(long)[1:-1]) * 20)
    for letters in LETTERS.values():
        name = (letters * 1_000)[:1_000]
        found = frozenset(Origin(kind="tool", tool=f"{number}{name}", path=(name,) * 3) for number in range(500))
        for _ in range(3):
            began = time.thread_time()
            decision = permissions.decide(Who(), PUT, {"n": 1}, {"n": found}, untrusted=("n",))
            if (took := time.thread_time() - began) < STALL_S:
                break
        assert took < STALL_S or took < STALL_S * slowness(), f"{letters!r}: {took:.2f} s -> {decision.verdict}"
        assert decision.asks != "allow"


def test_targets_are_looked_for() -> None:
    for make in (
        lambda n: {"a": [{"b": 1}] * n},
        lambda n: {"a": _deep(n)},
        lambda n: {"a": {str(key): {"x": 1} for key in range(n)}},
        lambda n: {str(key): 1 for key in range(n)},
        lambda n: {"a" * n: 1},
        lambda n: {"aB_" * n: 1},
    ):
        assert_linear(make, lambda arguments: targets_of(PUT, arguments), n=100, most=20_000)

    def schema(n: int) -> Protocol:
        properties: dict[str, Any] = {f"p{number}": {"anyOf": [{"$ref": "#/$defs/d"}] * 5} for number in range(n)}
        definition = {"anyOf": [{"$ref": "#/$defs/d"}, {"items": {"properties": {"x": {}}}}]}
        return PUT.model_copy(
            update={"parameters": {"type": "object", "properties": properties, "$defs": {"d": definition}}}
        )

    assert_linear(schema, lambda made: targets_of(made, dict.fromkeys(made.parameters["properties"])), most=1_000, n=50)


def test_lines_of_origins_are_made() -> None:
    assert_linear(_origins, lambda origins: allowing_from("put", "local", origins), n=50, most=5_000)
    for letters in LETTERS.values():
        assert_linear(
            lambda n, letters=letters: {letters * n: frozenset({Origin(kind="tool", tool="x", path=(letters * n,))})},
            lambda origins: allowing_from("put", "local", origins),
            n=100,
            most=20_000,
        )

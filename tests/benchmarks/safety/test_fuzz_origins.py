"""No argument leaves out a tool that changes it; what looks for such arguments finds planted ones."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection

import pytest

from atc._records.origins import UNKNOWN, CallOrigins, Origin, Origins
from benchmarks.fuzz_origins import as_figures, looked_at
from benchmarks.fuzzing.flows.oracle import Engine, Miss, Oracle, followed
from benchmarks.fuzzing.flows.shrink import smallest
from benchmarks.fuzzing.flows.writer import written
from benchmarks.fuzzing.target import SEEDS


class _Without:
    """Answers as the engine, without the origins of some ways."""

    def __init__(self, source: str, *hows: str) -> None:
        self._engine, self._hows = followed(source), hows

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
        return {name: self._left(found) for name, found in self._engine.of_call(tool, line, arguments).items()}

    def of_variable(self, name: str) -> Origins:
        return self._left(self._engine.of_variable(name))

    def _left(self, origins: Origins) -> Origins:
        return frozenset(each for each in origins if each.how not in self._hows)


def _without_aliases(source: str) -> str:
    return re.sub(r"(?m)^(\s*\w+ = )(\w+)$", r"\1dict(\2)", source)


def _misses(oracle: Oracle, seed: str, programs: int) -> list[tuple[str, Miss]]:
    found = []
    for number in range(programs):
        source, misses = looked_at(oracle, f"{seed}/{number}")
        found += [(source, miss) for miss in misses[:1]]
    return found


def test_no_argument_leaves_out_a_tool_that_changes_it() -> None:
    oracle = Oracle()
    assert _misses(oracle, "quick", 50) == []
    figures = as_figures(oracle.figures, Counter(), 1.0)
    assert figures["share of programs in which an argument changed"] > 0.6


@pytest.mark.slow
def test_no_argument_of_many_programs_leaves_out_a_tool_that_changes_it() -> None:
    assert _misses(Oracle(), "slow", 3_000) == []


def test_programs_are_the_same_for_the_same_seed() -> None:
    assert len({written(random.Random(str(seed)))[0] for seed in range(30)}) == 30
    assert written(random.Random("x")) == written(random.Random("x"))


@pytest.mark.parametrize(("how", "programs"), [("choice", 25), ("call", 60)])
def test_an_engine_that_leaves_out_a_way_is_found(how: str, programs: int) -> None:
    found = _misses(Oracle(lambda source: _Without(source, how)), "planted", programs)
    assert found
    assert {miss.kind for _, miss in found} >= {"tool"}


def test_an_engine_that_follows_no_alias_is_found_and_its_program_made_smaller() -> None:
    def engines(source: str) -> Engine:
        return followed(_without_aliases(source))

    source = """\
mail = read_mail(id='M1')
rate = get_rate(currency='EUR')
mine = get_contact(name='ann')
if rate > 3:
    print(rate)
other = mine
other['iban'] = mail['sender']
for letter in 'ab':
    pay(iban=mine['iban'], amount=1)
"""
    assert Oracle().misses(source, random.Random(1)) == []
    misses = Oracle(engines).misses(source, random.Random(1))
    assert {(miss.kind, miss.change.tool, miss.argument) for miss in misses} == {("tool", "read_mail", "iban")}
    smaller, miss = smallest(source, misses[0], engines)
    assert len(smaller.splitlines()) <= 5
    assert miss.change.tool == "read_mail"


def test_parts_and_paths_count() -> None:
    source = "mail = read_mail(id='M1')\ninvite(event={'title': mail['subject'], 'when': 'x'}, guests=[])\n"

    class Sender:
        """Says that both parts are from the mail's sender."""

        def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
            path = ("sender",) if tool == "invite" else ()
            return {
                name: frozenset({Origin(kind="tool", tool="read_mail", path=path)})
                for name in (*arguments, "event.title", "event.when")
            }

        def of_variable(self, name: str) -> Origins:
            return UNKNOWN

    found = [miss for seed in range(9) for miss in Oracle(lambda source: Sender()).misses(source, random.Random(seed))]
    missed = {(miss.kind, miss.argument) for miss in found if miss.kind != "literal"}
    assert missed == {("path", "event"), ("path", "event.title")}


def test_no_argument_of_programs_that_people_wrote_to_deceive_leaves_out_a_tool() -> None:
    oracle = Oracle()
    programs = (SEEDS / "origins" / "programs.txt").read_text().split("\n####\n")
    found = [(source, miss) for source in programs for miss in oracle.misses(f"{source}\n", random.Random(1))]
    assert found == []
    assert oracle.figures.flowing > 0.9 * len(programs)

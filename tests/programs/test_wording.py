"""No decision rests on a sentence: with words that say nothing but a record's kind, all figures are the same."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import wording
from atc._records.records import FaultCase, FaultKind, FindingCase, FindingKind, Place, trimmed
from atc.atlas import atlas_toolset
from atc.facts import Fault, Finding
from atc.programs.attribution.attribute import Attribution
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.programs.responses import answered
from atc.result import Call, Effect, Revision
from atc.run.revision import RevisionPrompt
from atc.sandboxes.process.driver import ProcessSandbox
from atc.tools.stub_budget import Fit
from benchmarks.common import Ran, run_program
from benchmarks.environments.atlas_tasks import load_tasks
from benchmarks.programs.attribution import POLICY, cases
from benchmarks.programs.check import Bench, mutants
from benchmarks.programs.check import summary as check_summary
from benchmarks.programs.faults import FaultCase as Broken
from benchmarks.programs.faults import toolset_for, written_cases
from tests.support.broker import House
from tests.support.tools import make_tool

SENTENCES = [name for name, made in vars(wording).items() if inspect.isfunction(made) and name[0] != "_"]


def silent(name: str) -> Callable[..., str]:
    def said(record: Any = None, *_: Any, **__: Any) -> str:
        return str(getattr(record, "kind", name))

    return said


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SENTENCES:
        monkeypatch.setattr(wording, name, silent(name))


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(atlas_toolset().protocols)


def facts(record: Finding | Fault | None) -> dict[str, Any]:
    return {} if record is None else record.model_dump(exclude={"message", "evidence"})


def checked(checker: Checker, programs: list[str]) -> list[list[dict[str, Any]]]:
    return [[facts(found) for found in checker.check(Program(program), "the task")] for program in programs]


def failed(broken: list[Broken]) -> list[tuple[Broken, Ran]]:
    """Each program with what it gave, run once: how busy the machine is changes nothing in what is compared."""

    async def run() -> list[tuple[Broken, Ran]]:
        async with ProcessSandbox() as sandbox:
            return [(case, await run_program(case.program, toolset_for(case), sandbox, POLICY)) for case in broken]

    return asyncio.run(run())


def traced(runs: list[tuple[Broken, Ran]]) -> list[dict[str, Any]]:
    return [
        facts(Attribution(Program(case.program), ran.outcome, ran.calls, toolset_for(case)).fault())
        for case, ran in runs
    ]


def same_without_words(runs: list[tuple[Broken, Ran]], monkeypatch: pytest.MonkeyPatch) -> None:
    before = traced(runs)
    assert any(before)
    for name in SENTENCES:
        monkeypatch.setattr(wording, name, silent(name))
    assert traced(runs) == before


def test_a_sample_of_findings_is_the_same_without_words(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    protocols = {protocol.name: protocol for protocol in atlas_toolset().protocols}
    made = [mutant.source for task in load_tasks()[:4] for mutant in mutants(task.id, task.reference, protocols)]
    programs = random.Random(1).sample(made, 15)
    before = checked(checker, programs)
    assert any(before)
    for name in SENTENCES:
        monkeypatch.setattr(wording, name, silent(name))
    assert checked(checker, programs) == before


def test_a_sample_of_faults_is_the_same_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    same_without_words(failed(random.Random(1).sample(list(written_cases(1)), 8)), monkeypatch)


@pytest.mark.slow
def test_all_mutants_are_found_without_words(silence: None) -> None:
    found = check_summary(asyncio.run(Bench(0, 30).run()))
    assert (found["caught"], found["mutants"], found["false_alarms"]) == (322, 330, [])


@pytest.mark.slow
def test_all_faults_are_the_same_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    same_without_words(failed(cases(0, 5, 3)), monkeypatch)


def test_the_same_warning_is_known_again_without_words(silence: None) -> None:
    def warned(fact: str, line: int) -> Finding:
        return Finding(kind="undefined_name", severity="warning", name=fact, line=line)

    assert warned("5 %", 1).message == warned("7 %", 1).message
    assert warned("5 %", 1).subject == warned("5 %", 4).subject != warned("7 %", 1).subject


def test_the_tool_at_fault_is_known_without_words(silence: None) -> None:
    finding = Finding(kind="missing_argument", tool="get", arguments=("city_id",))
    asked: list[list[str]] = []

    def document(names: Sequence[str]) -> Fit:
        asked.append(list(names))
        return Fit("def get(): ...", {})

    made = RevisionPrompt([Revision(attempt=0, program="get()\n", findings=(finding,))], [], document)
    assert "def get(): ..." in next(made.texts())
    assert asked == [["get"]]


# -- records and their sentences -------------------------------------------------------------------------------------

KINDS = st.sampled_from(get_args(FindingKind))
TEXTS = st.text(max_size=8)


@given(kind=KINDS, case=st.sampled_from(get_args(FindingCase)), name=TEXTS, arguments=st.lists(TEXTS, min_size=1))
def test_every_finding_has_a_sentence_and_comes_back_from_json(
    kind: Any, case: Any, name: str, arguments: list[str]
) -> None:
    found = Finding(
        kind=kind, case=case, name=name, arguments=tuple(arguments), sources=("x",) * len(arguments),
        place=Place(tool="f", path=("a", None, 3)), value={"b": b"\x00"}, line=3,
    )  # fmt: skip
    assert found.message
    assert Finding.model_validate_json(found.model_dump_json()) == found
    assert found.model_dump()["message"] == found.message


@given(kind=st.sampled_from(get_args(FaultKind)), case=st.sampled_from(FaultCase), reason=TEXTS)
def test_every_fault_has_a_sentence_and_comes_back_from_json(kind: Any, case: Any, reason: str) -> None:
    fault = Fault(kind=kind, case=case, reason=reason, tool="f", line=2, value=[])
    assert fault.message
    assert Fault.model_validate_json(fault.model_dump_json()) == fault


def test_what_a_fault_keeps_of_long_values_is_bounded() -> None:
    call = Call(
        index=1, attempt=0, tool="f", arguments={"x": "a" * 10**6}, effect=Effect.READ, status="ok",
        value=[{"y": list(range(10**5))}] * 100,
    )  # fmt: skip
    kept = answered(call)
    assert len(kept.model_dump_json()) < 10_000
    assert wording.parts.answer(kept).startswith(f"f(x='{'a' * 59} …) answered [{{'y': [0, 1, 2")
    for value in ("a" * 700, list(range(999)), {"k": ["b" * 400] * 9}, [[]] * 999, [{}] * 999):
        assert wording.parts.short(trimmed(value), 500) == wording.parts.short(value, 500)


def test_a_drift_of_a_response_is_data() -> None:
    returns = {"type": "object", "properties": {"a.b": {"type": "array", "items": {"type": "integer"}}}}
    house = House(make_tool("f", lambda _: {"a.b": [1, "x"]}, returns=returns))
    house.call("f", n=1)
    assert [(each.path, each.what) for each in house.last.drift] == [(("a.b", 1), '"x" is not of type "integer"')]
    assert house.last.notes == ()


def test_a_sentence_is_bounded_whatever_a_document_holds() -> None:
    keys = tuple(f"{number}{'k' * 100_000}" for number in range(30))
    assert len(Finding(kind="unknown_field", place=Place(tool="x"), name="a", known=keys).message) <= 4_000


def test_a_text_in_a_response_is_told_as_one() -> None:
    place = Place(tool="get_ticket", path=("opened",))
    finding = Finding(kind="unknown_field", case="attribute", name="year", found="string", place=place, line=1)
    assert finding.message == (
        "line 1: get_ticket(...)['opened'] is a text: it has no attribute .year; "
        "datetime.datetime.fromisoformat(text) reads a date"
    )

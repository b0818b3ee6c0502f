"""Is the right tool blamed? Faulty runs whose culprit is known, traced by structure alone.

``python -m benchmarks.programs.attribution [--json] [--undocumented]``: every case is run in the sandbox over Atlas,
with what goes wrong in it. Right is the right tool (or rightly none) and, where one call alone is to blame, the right
call.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from atc.calls.broker import CallPolicy
from atc.facts import Fault
from atc.programs.attribution.attribute import Attribution
from atc.programs.program import Program
from atc.sandboxes.process.driver import ProcessSandbox
from benchmarks.common import AsJson, Ran, print_json, run_program, share, show
from benchmarks.environments.atlas_tasks import load_tasks, reference_answer
from benchmarks.programs.faults import FaultCase, drifting_tools, failing_tools, toolset_for, written_cases

TARGET = 0.97
POLICY = CallPolicy(call_timeout_s=0.8, read_attempts=1, retry_wait_s=0.001)


@dataclass
class Verdict:
    """A case, what was blamed, and whether that is right."""

    case: FaultCase
    fault: Fault
    right: bool
    right_tool: bool


@dataclass
class Figures:
    """What was measured. ``unharmed`` counts drifts with which the program answered all the same."""

    verdicts: list[Verdict] = field(default_factory=list)
    unharmed: int = 0


def cases(seed: int, drifts: int, places: int) -> list[FaultCase]:
    """All cases: ``drifts`` for every task and the cases by hand with so many places."""
    made: list[FaultCase] = []
    for task in load_tasks():
        run = reference_answer(task)
        made += failing_tools(task, run, seed)
        drifting = list(drifting_tools(task, run, seed))
        made += random.Random(f"{seed} {task.id}").sample(drifting, min(drifts, len(drifting)))
    return made + list(written_cases(places))


async def measure(found: list[FaultCase], *, documented: bool = True) -> Figures:
    """Run every case and trace its fault."""
    figures = Figures()
    async with ProcessSandbox() as sandbox:
        for case in found:
            tools = toolset_for(case, documented=documented)
            ran = await run_program(case.program, tools, sandbox, POLICY)
            fault = Attribution(Program(case.program), ran.outcome, ran.calls, tools).fault()
            if _unharmed(case, ran):
                figures.unharmed += 1
            elif fault is None:
                figures.verdicts.append(Verdict(case, Fault(kind="answer", reason="no fault was seen"), False, False))
            else:
                figures.verdicts.append(_verdict(case, ran, fault))
    return figures


def _unharmed(case: FaultCase, ran: Ran) -> bool:
    """Whether a drift did not reach the program's end: it answered something all the same."""
    answered = ran.outcome.kind == "finished" and ran.outcome.answered
    return case.kind.startswith("drift") and answered and ran.outcome.value not in (None, "", [], {})


def _verdict(case: FaultCase, ran: Ran, fault: Fault) -> Verdict:
    culprit = case.culprit
    if culprit is None:
        return Verdict(case, fault, fault.tool is None, fault.tool is None)
    own = [call for call in ran.calls if call.tool == culprit.tool]
    if culprit.call is None or len(own) < culprit.call:  # its stub did not let the call out
        right_call = culprit.call is None or fault.call is None
    else:
        right_call = fault.call == own[culprit.call - 1].index
    right_tool = fault.tool == culprit.tool
    return Verdict(case, fault, right_tool and right_call, right_tool)


def summary(figures: Figures) -> dict[str, Any]:
    """The figures as plain data."""
    kinds: dict[str, Counter[str]] = {}
    for verdict in figures.verdicts:
        counts = kinds.setdefault(verdict.case.kind, Counter())
        counts.update(runs=1, right=int(verdict.right), right_tool=int(verdict.right_tool))
    total: Counter[str] = sum(kinds.values(), Counter())
    wrong = [v for v in figures.verdicts if not v.right]
    return {
        "runs": total["runs"],
        "right": total["right"],
        "right_tool": total["right_tool"],
        "unharmed": figures.unharmed,
        "kinds": {kind: dict(counts) for kind, counts in kinds.items()},
        "misses": [
            {
                "kind": v.case.kind,
                "case": v.case.name,
                "culprit": str(v.case.culprit),
                "blamed": f"{v.fault.tool}, call {v.fault.call}",
                "message": v.fault.message,
            }
            for v in wrong
        ],
    }


def _print(found: dict[str, Any]) -> None:
    rows = [_row(kind, counts) for kind, counts in found["kinds"].items()]
    show("Faults traced", ("kind", "runs", "right", "share", "right tool"), [*rows, _row("all", found)])
    for miss in found["misses"]:
        print(f"missed: {miss['case']}: to blame {miss['culprit']}, blamed {miss['blamed']}: {miss['message'][:200]}")
    print(f"{found['unharmed']} drifted responses did not make the program fail, and do not count")


def _row(kind: str, counts: dict[str, int]) -> tuple[object, ...]:
    runs, right = counts["runs"], counts["right"]
    return kind, runs, right, share(right, runs), share(counts["right_tool"], runs)


def main(
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    drifts: Annotated[int, typer.Option(help="Drifted responses for a task, at most.")] = 5,
    places: Annotated[int, typer.Option(min=1, max=5, help="Places that fill in the cases by hand.")] = 3,
    undocumented: Annotated[bool, typer.Option("--undocumented", help="No tool says what it returns.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the attribution; exit with 1 where the target is missed."""
    found = summary(asyncio.run(measure(cases(seed, drifts, places), documented=not undocumented)))
    print_json(found) if as_json else _print(found)
    raise typer.Exit(0 if found["right"] >= TARGET * found["runs"] else 1)


if __name__ == "__main__":
    typer.run(main)

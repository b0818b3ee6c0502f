"""N and β: what counts as recovered after each round, and a sweep that goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc.errors import UsageError
from atc.probing import explore
from atc.probing.report import Line, Report
from benchmarks import probing_sweep
from benchmarks.probing import Run, Tool
from benchmarks.probing_sweep import added, by_rounds, structural, swept
from benchmarks.probing_truth import Field, Service, Truth, compare

TEXT = Field(frozenset({"string"}), True)
TRUTH = Truth({".id": TEXT}, {".name": TEXT, ".size": TEXT})
SERVICE = Service("shop", lambda base: None, {"first": TRUTH, "later": TRUTH, "never": TRUTH})  # type: ignore[arg-type, return-value]


def run(**rounds: int) -> Run:
    report = Report(
        lines=(), protocols=(), calls=7, response_bytes=0, model_calls=0, prompt_tokens=0, completion_tokens=0
    )
    tools = {
        name: Tool(
            Line(tool=name, state="documented" if number else "undocumented", round=number),
            compare(TRUTH.returns, {".name": TEXT}),
            compare(TRUTH.arguments, {".id": TEXT} if number else {}),
        )
        for name, number in rounds.items()
    }
    return Run("shop", 0, 4, report, tools, 0.1, 7, 0)


def test_a_tool_counts_from_the_round_in_which_it_was_documented() -> None:
    found = by_rounds(run(first=1, later=3, never=0), SERVICE, 4)
    assert [counts["documented"] for counts in found] == [[0, 3], [1, 3], [1, 3], [2, 3], [2, 3]]
    assert [counts["returns"] for counts in found] == [[0, 6], [1, 6], [1, 6], [2, 6], [2, 6]]
    assert [counts["arguments"][0] for counts in found] == [0, 1, 1, 2, 2]
    assert added([found[1], found[3]]) == {"documented": 3 / 6, "returns": 3 / 12, "arguments": 3 / 6}


def test_structure_tries_as_often_as_it_may_and_as_before_afterwards() -> None:
    before = explore.FIRST_STRUCTURAL, explore.LAST_STRUCTURAL
    with structural(5):
        assert (explore.FIRST_STRUCTURAL, explore.LAST_STRUCTURAL) == (0, 5)
    assert before == (explore.FIRST_STRUCTURAL, explore.LAST_STRUCTURAL)


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def measured(service: Service, model: object, rounds: int, seed: int, tries: int) -> Run:
        made.append((model, tries, explore.LAST_STRUCTURAL))
        return run(first=1, later=3, never=0)

    monkeypatch.setattr(probing_sweep, "measure", measured)
    file = tmp_path / "rows" / "sweep.jsonl"
    assert len(swept([SERVICE], "none", [1, 2], 4, file)) == 2
    with file.open("a") as lines:
        lines.write('{"service": "sh')
    rows = swept([SERVICE], "none", [2, 3], 4, file)
    assert [row["tries"] for row in rows] == [2, 3]
    assert made == [(None, 0, 1), (None, 0, 2), (None, 0, 3)]
    swept([SERVICE], "none", [1, 2, 3], 4, file)  # the line that was cut off cost nothing else
    assert len(made) == 3
    swept([SERVICE], "small", [1], 4, file)
    assert made[-1][:2] == ("small", 1)
    with pytest.raises(UsageError, match="another --out"):
        swept([SERVICE], "none", [1], 4, tmp_path)

"""What the type checker's messages mean. Its words are another project's, and change: ``ty_messages.json`` pins them.

``python -m tests.programs.test_types`` writes the file anew with the ``ty`` that is installed; look at what changed.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from atc import wording
from atc.atlas import atlas_toolset
from atc.facts import Finding
from atc.programs.check.types import Diagnostic, TypeChecker, finding_of
from atc.programs.program import Program

FILE = Path(__file__).with_name("ty_messages.json")
PINNED: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else []
ATLAS = atlas_toolset()


def meant(source: str, diagnostics: list[Diagnostic]) -> list[dict[str, Any] | None]:
    return [_facts(finding_of(diagnostic, Program(source))) for diagnostic in diagnostics]


def _facts(finding: Finding | None) -> dict[str, Any] | None:
    return None if finding is None else finding.model_dump(mode="json", exclude_defaults=True, exclude={"message"})


@pytest.mark.parametrize("pinned", PINNED, ids=[each["program"].splitlines()[-1] for each in PINNED])
def test_a_message_means_what_it_meant(pinned: dict[str, Any]) -> None:
    diagnostics = [Diagnostic(**each) for each in pinned["diagnostics"]]
    assert meant(pinned["program"], diagnostics) == pinned["findings"]


def test_the_installed_checker_says_what_is_pinned() -> None:
    said = asyncio.run(diagnosed([each["program"] for each in PINNED]))
    for pinned, diagnostics in zip(PINNED, said, strict=True):
        assert meant(pinned["program"], diagnostics) == pinned["findings"], pinned["program"]


def test_every_case_of_a_finding_is_pinned_and_has_its_sentence() -> None:
    found = [Finding(**each) for pinned in PINNED for each in pinned["findings"] if each is not None]
    assert {(each.kind, each.case) for each in found} == {
        ("undefined_name", ""), ("syntax", "typed"), ("type_error", ""), ("type_error", "attribute"),
        ("type_error", "list"), ("type_error", "text"), ("type_error", "container"),
    }  # fmt: skip
    for each in found:
        sentence = wording.finding(each)
        assert sentence.startswith(f"line {each.line}: ")
        assert "\n" not in sentence
        assert "Overload" not in sentence


async def diagnosed(programs: list[str]) -> list[list[Diagnostic]]:
    checker = TypeChecker(ATLAS.protocols)
    try:
        return [await checker.diagnose(program) for program in programs]
    finally:
        checker.close()


def main(programs: list[str]) -> None:
    said = asyncio.run(diagnosed(programs))
    made = [
        {"program": program, "diagnostics": [vars(each) for each in found], "findings": meant(program, found)}
        for program, found in zip(programs, said, strict=True)
    ]
    FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main([each["program"] for each in PINNED])

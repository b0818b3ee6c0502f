"""The blocks of docs/tools.md with tools of other frameworks are run where the framework is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.support.docs import blocks

pytestmark = pytest.mark.slow
FRAMEWORKS = {"langchain": "langchain_core", "pydantic_ai": "pydantic_ai", "smolagents": "smolagents"}
SOLVERS = {"inspect": "inspect_ai"}
BLOCKS = blocks("py")


def test_there_is_a_block_for_each_way() -> None:
    shown = "".join(source for _, source in BLOCKS)
    assert {*re.findall(r"\bfrom_(\w+)\(", shown)} == {*FRAMEWORKS}
    assert {*re.findall(r"\bto_(\w+)\(", shown)} == {*FRAMEWORKS, *SOLVERS}


@pytest.mark.parametrize(("name", "source"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_block_runs(name: str, source: str, tmp_path: Path) -> None:
    found = re.search(r"from_(\w+)\(|to_(\w+)\(", source)
    assert found is not None
    module = (FRAMEWORKS | SOLVERS)[found[1] or found[2]]
    pytest.importorskip(module, reason=f"{module} is not installed: `make frameworks` has it")
    script = tmp_path / "snippet.py"
    script.write_text(source)  # smolagents reads the source of its tools
    runpy.run_path(str(script))

"""A file of what was used together: read strictly, bounded, and each mistake said with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.errors import UsageError
from atc_research.toolweaver import co_usage
from atc_research.toolweaver.co_usage import MAX_LINE, MAX_TOGETHER, read_used

KNOWN = frozenset(f"tool_{n}" for n in range(80))


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "used.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_sets_are_added_up_and_unknown_ids_are_counted(tmp_path: Path) -> None:
    used = read_used(
        written(
            tmp_path,
            '{"tools": ["tool_1", "tool_2"], "count": 3}',
            "",
            '{"tools": ["tool_2", "tool_1", "tool_1"], "count": 0.5}',
            '{"tools": ["tool_1", "gone"]}',
            '{"tools": ["gone", "lost"], "count": 2}',
            '{"tools": []}',
            json.dumps({"tools": sorted(KNOWN)}),
        ),
        KNOWN,
    )
    assert used.sets == {frozenset({"tool_1", "tool_2"}): 3.5, frozenset({"tool_1"}): 1}
    assert (used.unknown, used.too_large) == (2, 1)
    assert len(KNOWN) > MAX_TOGETHER


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('["tool_1"]', "must be"),
        ('{"count": 1}', "must be"),
        ('{"tools": ["tool_1"], "counts": 2}', "must be"),
        ('{"tools": "tool_1"}', "list of ids"),
        ('{"tools": [1]}', "list of ids"),
        ('{"tools": ["tool_1"], "count": NaN}', "must be a number"),
        ('{"tools": ["tool_1"], "count": Infinity}', "must be a number"),
        ('{"tools": ["tool_1"], "count": true}', "must be a number"),
        ('{"tools": ["tool_1"], "count": "2"}', "must be a number"),
        ('{"tools": ["tool_1"], "count": 1' + "0" * 400 + "}", "must be a number"),
        ('{"tools": ["tool_1"], "count": -1}', "above 0"),
        ('{"tools": ["tool_1"], "count": 0}', "above 0"),
        ('{"tools": ["tool_1"], "count": 1e7}', "at most 1,000,000"),
        (json.dumps({"tools": ["x" * MAX_LINE]}), "longer than"),
    ],
)
def test_a_wrong_line_is_said_with_its_number(line: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"used\.jsonl, line 2: .*{why}"):
        read_used(written(tmp_path, '{"tools": ["tool_1"]}', line), KNOWN)


def test_there_is_an_end_to_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co_usage, "MAX_PAIRS", 2)
    path = written(tmp_path, '{"tools": ["tool_1", "tool_2"]}', '{"tools": ["tool_1", "tool_2", "tool_3"]}')
    with pytest.raises(UsageError, match="line 2: there are more than 2 pairs"):
        read_used(path, KNOWN)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_used(path, KNOWN)

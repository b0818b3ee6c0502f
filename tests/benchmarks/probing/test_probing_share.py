"""The model's own share in probing: nothing where it is no help, and what it alone documented where it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ModelError
from atc.models.fake import FakeModel
from benchmarks.probing.records import Endpoint, Parameter, service
from benchmarks.probing.share import Row, compare, kept, of_service, table

pytestmark = pytest.mark.slow  # each probes a service twice

LAMPS = {"rows": [{"colour": "teal", "watts": 12}, {"colour": "ochre", "watts": 20}]}
SHOP = service(
    "shop",
    [
        Endpoint("shop", "list_lamps", "/lamps", (), LAMPS),
        Endpoint("shop", "find_lamps", "/lamps/find", (Parameter("q", "string", True, False),), LAMPS),
    ],
)


def share(*replies: Any) -> Row:
    return compare("shop", of_service(SHOP), FakeModel(replies), 3, 9)


@pytest.mark.parametrize("reply", ["I do not know.", "{}", json.dumps({"find_lamps": {"q": ["zebra"]}})])
def test_a_model_that_is_no_help_has_no_share(reply: str) -> None:
    row = share(*[reply] * 9)
    assert (row.reads, row.without, row.documented, row.share) == (2, ("list_lamps",), ("list_lamps",), 0.0)
    assert (row.gained, row.lost, list(row.open)) == ([], [], ["find_lamps"])


def test_what_only_the_models_values_documented_is_its_share() -> None:
    row = share(json.dumps({"find_lamps": {"q": ["teal"]}}))
    assert (row.share, row.gained, row.open) == (0.5, ["find_lamps"], {})
    assert (row.replies, row.writes) == (1, 0)
    assert row.tokens > 0
    assert table([row])[-1][:5] == ["all", 2, 1, 2, "+1 (+50.0 points)"]


def test_a_model_that_fails_is_no_figure() -> None:
    with pytest.raises(ModelError, match="away"):
        share(ModelError("the endpoint is away"))


def test_rows_are_kept_and_one_that_a_crash_cut_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "share.jsonl"
    row = Row("shop", "m", 3, 2, ("a",), ("a", "b"), 4, 5, 0, 1, 100, {})
    text = json.dumps(asdict(row))
    file.write_text(f"{text}\n{text[:40]}")
    (again,) = kept(file)
    assert (again.service, again.gained) == ("shop", ["b"])
    assert list(kept(tmp_path / "none.jsonl")) == []


def test_the_replies_of_a_run_are_bounded() -> None:
    found = FakeModel([json.dumps({"find_lamps": {"q": [word]}}) for word in ("zebra", "horse", "teal")])
    with pytest.raises(ModelError, match="--replies"):
        compare("shop", of_service(SHOP), found, 3, 2)
    assert len(found.prompts) == 2

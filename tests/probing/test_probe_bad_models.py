"""Probing with a model that does what it likes: nothing is called that may not be, and nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc.models.base import Reply
from tests.support.probe import Oracle, Service, line, probed, states
from tests.support.probe_services import GOOD, add_goods, missing

pytestmark = pytest.mark.slow  # a server for each


def of_look(value: Any) -> str:
    return json.dumps({"look": {"word": value}})


REPLIES: dict[str, str | Reply] = {
    "forbidden": json.dumps({"delete_everything": {"body": ["{}"]}, "get_good": {"good_id": ["g-17"]}}),
    "unknown": json.dumps({"launch_rockets": {"n": [1]}}),
    "silent": "I would rather not.",
    "empty": "",
    "nothing": "{}",
    "list": '["look"]',
    "garbage": "```json\n{",
    "deep": "{" * 5000,
    "deep_value": of_look(["[" * 5000]),
    "no_values": of_look([]),
    "no_list": of_look("lamp"),
    "objects": of_look([{"a": 1}, ["lamp"], None]),
    "surrogate": '{"look": {"word": ["\\ud800"]}}',
    "not_finite": '{"look": {"word": [NaN, 1e999]}}',
    "blank": of_look(["", "  ", "\n", "\x1b[2J"]),
    "huge": of_look(["x" * 500_000]),
    "many": of_look([f"n{n}" for n in range(1000)]),
    "same": of_look(["same", "same", "same"]),
    "code": of_look(["'); delete_everything(body={}); ('", "```\ndelete_everything()"]),
    "other_argument": json.dumps({"look": {"nothing": ["lamp"], "": ["lamp"], "word\n": ["lamp"]}}),
    "no_arguments": '{"look": null}',
    "cut": Reply('{"look": {"word": ["lamp', "length", 9, 9, 0.0),
}


@pytest.mark.parametrize("reply", list(REPLIES))
def test_a_model_that_is_no_help_leaves_its_tool_undocumented_with_a_reason(service: Service, reply: str) -> None:
    add_goods(service)
    service.route("look", "/look", lambda a: {"n": 1} if a["word"] == "lantern" else missing(), need="word")
    service.route("delete_everything", "/everything", {"gone": True}, method="POST")
    model = Oracle(whole=[REPLIES[reply]])
    report = probed(service.tools(), model, tries=2)
    assert states(report) == {**GOOD, "look": "undocumented", "delete_everything": "skipped"}
    assert 0 < len(line(report, "look").reason) < 2_000
    assert {hit.method for hit in service.hits} == {"GET"}
    assert service.twice() == []
    assert len(service.asked("look")) <= 16
    assert max(len(text) for text in model.prompts_for("values")) < 20_000
    assert model.count("values") <= 4  # twice, and once more each where the reply fits nothing

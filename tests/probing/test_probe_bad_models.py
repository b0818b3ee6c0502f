"""Probing with a model that does what it likes: nothing is called that may not be, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from atc.models.base import Reply
from atc.probing.report import Report
from tests.support.probe import MANY, Oracle, Service, line, probed, python, running
from tests.support.probe_services import GOOD, add_goods, missing

pytestmark = pytest.mark.slow  # a server for each


@pytest.fixture
def service() -> Iterator[Service]:
    with running() as made:
        yield made


SAME = MANY.replace("f'n{n}'", "'same'")
MODELS: dict[str, list[Any]] = {
    "forbidden": [python("answer = delete_everything(body={})")],
    "forbidden_then_good": [
        python("delete_everything(body={})", "answer = 1"),
        python("answer = forbidden_then_good(word='lantern')"),
    ],
    "unknown": [python("answer = launch_rockets(n=1)")],
    "ungranted": [python("answer = get_good(good_id='g-17')")],
    "thousand": [MANY.replace("look", "thousand")],
    "thousand_same": [SAME.replace("look", "thousand_same")],
    "forever": [python("while True:", "    pass")],
    "forever_calling": [
        python(
            "while True:",
            "    try:",
            "        forever_calling(word='lantern')",
            "    except ToolError:",
            "        pass",
        )
    ],
    "silent": ["I would rather not."],
    "empty": [""],
    "garbage": ["```python\nwhile", "\x00\ud800", "{" * 5000],
    "surrogate": [python("answer = surrogate(word='\\ud800')")],
    "cut": [Reply("```python\nanswer = cut(word=['lantern',", "length", 9, 9, 0.0)],
    "redefined": [python("def redefined(word):", "    return {'forged': True}", "answer = redefined(word='lantern')")],
    "wrong_arguments": [python("answer = wrong_arguments(nothing=1)")],
    "huge_argument": [python("answer = huge_argument(word='x' * 500_000)")],
    "leaves": [python("import os", "os._exit(0)")],
    "tall": [python("answer = " + "[" * 300 + "]" * 300)],
}


@pytest.fixture(scope="module")
def bad_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Oracle, Report]]:
    with running() as service:
        add_goods(service)
        for name in MODELS:
            service.route(name, f"/{name}", lambda a: {"n": 1} if a["word"] == "lantern" else missing(), need="word")
        service.route("delete_everything", "/everything", {"gone": True}, method="POST")
        model = Oracle(MODELS, dict.fromkeys(MODELS, "delete_everything, get_good, launch_rockets"))
        folder = str(tmp_path_factory.mktemp("bad_models"))
        yield service, model, probed(service.tools(), model, tries=2, rounds=2, wall_s=1.0, cpu_s=1, folder=folder)


@pytest.mark.parametrize("tool", [name for name in MODELS if name not in ("forbidden_then_good", "forever_calling")])
def test_a_model_that_is_no_help_leaves_its_tool_undocumented_with_a_reason(
    bad_models: tuple[Service, Oracle, Report], tool: str
) -> None:
    service, model, report = bad_models
    assert line(report, tool).state == "undocumented"
    assert line(report, tool).reason
    assert len(service.asked(tool)) <= 16
    assert model.count("program", tool) <= 4


def test_what_a_model_may_not_call_is_never_called(bad_models: tuple[Service, Oracle, Report]) -> None:
    service, _, report = bad_models
    assert service.asked("delete_everything") == []
    assert {hit.method for hit in service.hits} == {"GET"}
    assert line(report, "delete_everything").state == "skipped"
    assert line(report, "forbidden_then_good").state == "documented"
    assert line(report, "forever_calling").state == "documented"
    assert {name: line(report, name).state for name in GOOD} == GOOD


def test_a_model_cannot_have_the_same_call_made_twice(bad_models: tuple[Service, Oracle, Report]) -> None:
    service, _, _ = bad_models
    assert [hit.arguments["word"] for hit in service.asked("thousand_same")].count("same") == 1
    assert service.twice() == []


def test_a_model_that_passes_a_book_as_an_argument_does_not_fill_its_own_prompt(
    bad_models: tuple[Service, Oracle, Report],
) -> None:
    _, model, report = bad_models
    assert max(len(messages[-1].content) for messages in model.prompts) < 20_000
    assert len(line(report, "huge_argument").reason) < 2_000


def test_a_model_that_gave_no_program_is_asked_in_another_way(service: Service) -> None:
    service.route("look", "/look", {"n": 1}, need="word")
    model = Oracle({"look": ["I would rather not."]})
    probed(service.tools(), model, rounds=1)
    asked = [settings for settings, (kind, _) in zip(model.settings, model.asked, strict=True) if kind == "program"]
    assert len(asked) == 3
    assert len(set(asked)) == 3

"""The model in probing: asked where structure is not enough, told what failed, and missed by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from atc.errors import ModelUnavailable, SandboxUnavailable
from atc.sandboxes.contract import Sandbox
from tests.support.probe import Oracle, Says, Service, line, probed, python, running, states
from tests.support.probe_services import LIBRARY, add_library


@pytest.fixture
def service() -> Iterator[Service]:
    with running() as made:
        yield made


def add_search(service: Service) -> None:
    def find(arguments: dict[str, str]) -> Any:
        if arguments["name"] != "Stalker":
            return Says(json.dumps({"detail": "no film of this name; try a Russian one"}), 404)
        return {"film": "Stalker", "minutes": 167}

    service.route("find_film", "/films", find, need="name", name={"type": "string"})


def test_the_model_is_asked_where_structure_has_no_value_and_told_what_failed(service: Service) -> None:
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                python("# Question: Is there a film Alien?", "answer = find_film(name='Alien')"),
                python("# Question: How long is Stalker?", "answer = find_film(name='Stalker')"),
            ]
        }
    )
    report = probed(service.tools(), model)
    assert states(report) == {"find_film": "documented"}
    prompts = [
        messages[-1].content
        for messages, (kind, _) in zip(model.prompts, model.asked, strict=True)
        if kind == "program"
    ]
    assert len(prompts) == 2
    assert "Russian" not in prompts[0]
    assert "find_film(name='Alien')" in prompts[1]
    assert "no film of this name; try a Russian one" in prompts[1]
    example = report.protocols[0].examples[0]
    assert (example.description, example.arguments) == ("How long is Stalker?", {"name": "Stalker"})
    assert example.program == "# Question: How long is Stalker?\nanswer = find_film(name='Stalker')\n"
    assert report.model_calls == len(model.asked)


def test_the_model_is_told_what_is_wrong_with_its_program(service: Service) -> None:
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                python("answer = find_film(name=films[0])"),
                python("answer = find_film(name='Stalker')"),
            ]
        }
    )
    assert states(probed(service.tools(), model)) == {"find_film": "documented"}
    prompts = [
        messages[-1].content
        for messages, (kind, _) in zip(model.prompts, model.asked, strict=True)
        if kind == "program"
    ]
    assert "films" in prompts[1]
    assert "NameError" in prompts[1]


def test_a_tool_that_only_a_broken_program_called_has_that_as_its_reason(service: Service) -> None:
    add_search(service)
    report = probed(service.tools(), Oracle({"find_film": [python("answer = find_film(name=films[0])")]}), rounds=1)
    assert line(report, "find_film").state == "undocumented"
    assert "films" in line(report, "find_film").reason


def test_the_model_is_asked_for_helpers_where_no_name_fits(service: Service) -> None:
    service.route("catalogue", "/catalogue", [{"label": "Stalker"}])
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                "I do not know.",
                "I do not know.",
                "I do not know.",
                python("answer = find_film(name=catalogue()[0]['label'])"),
            ]
        },
        {"find_film": "catalogue, and perhaps drop_database"},
    )
    report = probed(service.tools(), model)
    assert states(report) == {"catalogue": "documented", "find_film": "documented"}
    assert line(report, "find_film").helpers == ("catalogue",)
    assert line(report, "find_film").round == 2
    assert len(service.asked("catalogue")) == 1


def test_a_model_that_fails_costs_only_what_needs_it(service: Service) -> None:
    add_library(service)
    add_search(service)
    report = probed(service.tools(), Oracle())  # it raises ModelError when it is asked for a program
    assert states(report) == {**dict.fromkeys(LIBRARY, "documented"), "find_film": "undocumented"}


def test_a_model_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_search(service)
    with pytest.raises(ModelUnavailable, match="no key"):
        probed(service.tools(), Oracle({"find_film": [ModelUnavailable("no key")]}))


class Nowhere(Sandbox):
    """A sandbox that cannot be had when it comes to it."""

    name = "nowhere"

    async def prepare(self) -> None:
        return

    async def run(self, job: Any, call: Any) -> Any:
        raise SandboxUnavailable("no namespaces left")

    async def aclose(self) -> None:
        return


def test_a_sandbox_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_library(service)
    with pytest.raises(SandboxUnavailable, match="no namespaces left"):
        probed(service.tools(), sandbox=Nowhere())
    assert service.hits == []

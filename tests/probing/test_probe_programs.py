"""The programs that structure writes: they run, and every value arrives as it is."""

from __future__ import annotations

from typing import Any

import pytest

from atc.probing.candidates import call_of, literal_call
from atc.result import Effect
from atc.schemas.protocol import Protocol, parameters_of
from tests.support.sandbox import in_sandbox


def protocol(name: str, *parameters: str) -> Protocol:
    return Protocol(
        name=name, parameters={"type": "object", "properties": {p: {} for p in parameters}}, effect=Effect.READ
    )


def ran(
    source: str, protocols: list[Protocol], answers: dict[str, Any]
) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """The answer of a program, and the calls that it made."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def answer(name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            calls.append((name, arguments))
            return answers[name]

        return call

    compile(source, "program", "exec")
    parameters = {p.name: [x.name for x in parameters_of(p)] for p in protocols}
    outcome = in_sandbox(source, {p.name: answer(p.name) for p in protocols}, parameters)
    assert outcome.kind == "finished", outcome
    return outcome.value, calls


ODD = [
    "class",
    "from",
    "x-api-version",
    "filter[name]",
    "2nd",
    "ünïcode",
    "with space",
    "a'b",
    "self",
    "None",
    "page.size",
]


@pytest.mark.parametrize("name", ODD)
def test_a_call_of_odd_parameter_names_is_python_that_arrives(name: str) -> None:
    tool = protocol("odd", name)
    source = f"answer = {literal_call(tool, {name: 'v'})}\n"
    _, calls = ran(source, [tool], {"odd": 1})
    ((_, arguments),) = calls
    (parameter,) = parameters_of(tool)
    assert arguments == {parameter.name: "v"}


def test_a_call_may_be_given_what_its_protocol_does_not_know() -> None:
    tool = protocol("odd", "known")
    assert call_of(tool, {"known": "1", "a-b": "2"}) == "odd(known=1, **{'a-b': 2})"


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        '"""',
        "\\",
        "\n\r\u2028",
        "```",
        "{{x}}",
        "\x00\x1b",
        "😀",
        [],
        {"a": [None, True, 1.5]},
        -1,
        10**30,
        1e-9,
    ],
)
def test_every_value_arrives_as_it_is(value: Any) -> None:
    tool = protocol("take", "value")
    _, calls = ran(f"answer = {literal_call(tool, {'value': value})}\n", [tool], {"take": 1})
    assert calls == [("take", {"value": value})]

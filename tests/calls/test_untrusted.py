"""Which arguments of a write are targets, and which of them a stranger may have chosen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from atc._records.origins import UNKNOWN, Origin, Origins
from atc.calls.untrusted import MAX_STEPS, Targets, declared_targets, origins_at, targets_of, untrusted_arguments
from atc.result import Effect
from atc.schemas.protocol import Protocol

MAIL: Origins = frozenset({Origin(kind="tool", tool="read_mail", path=("sender",))})
TASK: Origins = frozenset({Origin(kind="task")})


def tool(**properties: Any) -> Protocol:
    return Protocol(name="put", effect=Effect.WRITE, parameters={"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        ({"to": 1, "body": 1}, ("to",)),
        ({"toAddresses": 1, "Cc": 1, "subject": 1}, ("toAddresses", "Cc")),
        ({"iban": 1, "amount_cents": 1, "note": 1}, ("iban", "amount_cents")),
        ({"file_path": 1, "content": 1}, ("file_path",)),
        ({"send_to": 1, "text": 1}, ("send_to",)),
        ({"hotel": 1, "from_day": 1, "to_day": 1}, ("hotel", "from_day", "to_day")),  # no target, so all
        ({"order_id": 1}, ("order_id",)),
        ({"order_id": 1, "reason": 1}, ("order_id", "reason")),
        ({"order_id": 1, "amount": 1, "reason": 1}, ("order_id", "amount")),  # an amount alone goes nowhere
        ({"amount": 1, "lines": {"productIds": [1], "note": 1}}, ("amount", "lines.productIds")),
        ({}, ()),
    ],
)
def test_targets_are_found_by_the_words_of_names(arguments: dict[str, Any], targets: tuple[str, ...]) -> None:
    assert targets_of(tool(**{name: {} for name in arguments}), arguments) == targets


def test_a_target_is_found_in_an_object_by_its_schema_and_by_its_value() -> None:
    known = {"type": "object", "properties": {"to": {}, "text": {}}}
    assert targets_of(tool(message=known), {"message": None}) == ("message.to",)
    assert targets_of(tool(message=known), {"message": "{}"}) == ("message.to",)
    assert targets_of(tool(message=known), {"message": {"text": 1}}) == ("message",)
    assert targets_of(tool(message={}), {"message": {"text": 1, "copies": [{"bcc": "x"}]}}) == ("message.copies.bcc",)
    parameters = {
        "type": "object",
        "properties": {"mail": {"type": "array", "items": {"$ref": "#/$defs/m"}}, "x": {"$ref": "#/$defs/m"}},
        "$defs": {"m": {"anyOf": [{"$ref": "#/$defs/m"}, {"properties": {"where": {"format": "uri"}}}]}},
    }
    protocol = Protocol(name="put", parameters=parameters)
    assert targets_of(protocol, {"x": [{"text": 1, "where": 1}]}) == ("x.where",)


@pytest.mark.parametrize("value", [[{"a": 1}] * (MAX_STEPS + 1), {str(key): 1 for key in range(MAX_STEPS + 1)}])
def test_an_argument_with_more_places_than_are_looked_at_is_a_target_as_a_whole(value: Any) -> None:
    assert targets_of(tool(), {"options": value, "to": 1}) == ("options", "to")


@pytest.mark.parametrize("extra", [{"to": "eve"}, {"x" * 201: 1}, {str(key): 1 for key in range(MAX_STEPS)}])
def test_what_a_stranger_puts_into_an_object_spares_no_other_argument(extra: dict[str, Any]) -> None:
    post = tool(room={}, message={})
    assert targets_of(post, {"room": 1, "message": {"text": 1}}) == ("room", "message")
    message = {"text": 1, **extra}
    for arguments in ({"room": 1, "message": message}, {"message": message, "room": 1}):
        assert "room" in targets_of(post, arguments)
    assert "room" not in targets_of(post, {"room": 1, "to": 1, "message": {"text": 1}})


def test_to_look_for_targets_takes_no_time_that_a_stranger_sizes() -> None:
    inner = {f"{'aB' * 50_000}{number}": {"x": 1} for number in range(50)}
    arguments = {f"a{number}": [inner] for number in range(5_000)}
    began = time.process_time()
    assert len(targets_of(tool(), arguments)) == 5_000
    few = {f"a{number}": {str(key): {"x": 1} for key in range(500)} for number in range(100)}
    assert len(targets_of(tool(), few)) == 100
    assert time.process_time() - began < 0.5


def test_a_deep_argument_is_a_target_as_a_whole() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = {"a": value}
    assert targets_of(tool(), {"options": value, "to": 1}) == ("options", "to")


def test_what_the_user_adds_spares_no_other_argument() -> None:
    ticket = Targets(more=lambda path: path in ("ticket_id", "message"))
    assert targets_of(tool(), {"ticket_id": 1, "text": 1}, ticket) == ("ticket_id", "text")
    known = tool(message={"properties": {"to": {}, "text": {}}})
    assert targets_of(known, {"message": {"to": 1, "text": 1}, "note": 1}, ticket) == ("message.to", "message")
    assert declared_targets(known, ticket) == ("message.to", "message")
    assert declared_targets(tool(ticket_id={}, text={}), ticket) == ()


def test_the_user_says_which_arguments_are_targets() -> None:
    given = {"to": 1, "text": 1, "note": 1}
    assert targets_of(tool(), given, Targets(more=lambda path: path == "note")) == ("to", "note")
    assert targets_of(tool(), given, Targets(only=lambda path: path == "text")) == ("text",)
    assert targets_of(tool(), given, Targets(only=lambda path: path == "gone")) == ("to", "text", "note")


def test_a_part_has_the_origins_of_the_nearest_whole_that_is_known() -> None:
    protocol = tool(**{"from": {}, "message": {}})
    assert origins_at({"message": MAIL}, "message.to", protocol) == MAIL
    assert origins_at({"message": MAIL, "message.to": TASK}, "message.to", protocol) == TASK
    assert origins_at({"from_": MAIL}, "from", protocol) == MAIL
    assert origins_at({"message": MAIL}, "to", protocol) == UNKNOWN
    dotted = tool(**{"filter": {}, "filter.name": {}})
    assert origins_at({"filter": TASK}, "filter.name", dotted) == UNKNOWN
    assert origins_at({"filter": TASK}, "filter.name.x", dotted) == UNKNOWN


def test_a_target_counts_if_one_of_its_origins_is_untrusted() -> None:
    protocol = tool(to={}, body={})

    def found(to: Origins, *, unknown: bool = False, **more: Any) -> tuple[str, ...]:
        origins = {"to": to, "body": MAIL}
        return untrusted_arguments(protocol, origins, {"read_mail"}.__contains__, unknown_counts=unknown, **more)

    assert found(TASK) == ()
    assert found(TASK | MAIL) == ("to",)
    for how in ("call", "choice"):
        assert found(TASK | {Origin(kind="tool", tool="read_mail", how=how)}) == ("to",)
    assert found(frozenset({Origin(kind="tool", tool="contacts")})) == ()
    assert found(frozenset({Origin(kind="tool", tool="read_mail", how="author")})) == ()
    assert (found(UNKNOWN), found(UNKNOWN, unknown=True)) == ((), ("to",))
    assert found(TASK, arguments={"to": 1, "cc": 1}, unknown=True) == ("cc",)
    assert untrusted_arguments(protocol, {"body": MAIL}, {"read_mail"}.__contains__, unknown_counts=False) == ("body",)

"""The schema gate of the broker: what is sent, what stands in the record, and what is refused."""

from __future__ import annotations

from typing import Any

from atc import ToolError
from tests.support.broker import WRITE, House, counted, never
from tests.support.tools import make_tool

AMOUNT: Any = {"type": "number"}
TEXT: Any = {"type": "string"}


def test_the_record_of_a_repaired_call_holds_what_was_given_and_what_was_sent() -> None:
    seen, function = counted()
    house = House(make_tool("look", function, required=("cityId",), cityId={"type": "integer"}))
    assert house.call("look", city_id="7", more=1).error is None
    assert seen == [{"cityId": 7}]
    assert house.last.arguments == {"cityId": 7}
    assert house.last.original == {"city_id": "7", "more": 1}
    assert [(each.kind, each.path, each.given, each.sent) for each in house.last.repairs] == [
        ("respelt", ("city_id",), "city_id", "cityId"),
        ("format", ("city_id",), "7", 7),
        ("dropped", ("more",), 1, None),
    ]
    assert house.last.notes == (
        "read the argument city_id as cityId",
        'took "7" as 7 for city_id',
        "dropped unknown argument more",
    )
    kind, data = house.events[-1]
    assert (kind, data["original"]) == ("call_ended", {"city_id": "7", "more": 1})


def test_a_call_that_needs_no_repair_has_no_original() -> None:
    house = House(make_tool("look", lambda _: 1, n={"type": "integer"}))
    house.call("look", n=1)
    assert (house.last.original, house.last.repairs, house.last.notes) == (None, (), ())


def test_an_unknown_argument_never_vanishes_from_a_write() -> None:
    house = House(make_tool("pay", never, required=("amount",), effect=WRITE, amount=AMOUNT, note=TEXT))
    reply = house.call("pay", amount=5, currency="EUR")
    assert reply.status == "invalid_arguments"
    assert "$.currency: there is no such argument" in str(reply.error)
    assert "amount, note" in str(reply.error)
    assert house.last.arguments == {"amount": 5, "currency": "EUR"}
    assert house.broker.made == 0


def test_a_secret_in_a_repair_is_masked() -> None:
    house = House(make_tool("look", lambda _: 1, n={"type": "array", "items": TEXT}), secrets=("s3cr3t-token",))
    house.call("look", n="s3cr3t-token", more="s3cr3t-token")
    assert "s3cr3t" not in house.last.model_dump_json()
    assert [each.kind for each in house.last.repairs] == ["wrapped", "dropped"]


def test_a_refused_call_keeps_little_of_what_was_given() -> None:
    house = House(make_tool("look", never, n={"type": "integer"}, m={"type": "integer"}))
    assert isinstance(house.call("look", n="x" * 1_000_000, m="5").error, str)
    assert len(house.last.model_dump_json()) < 20_000


def test_a_rule_that_is_off_is_off_in_the_broker() -> None:
    house = House(make_tool("look", never, n={"type": "integer"}))
    house.broker.rules = frozenset()
    assert house.call("look", n=[5]).status == "invalid_arguments"


def test_a_write_is_approved_and_written_down_as_it_is_sent() -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request.arguments)
        return True

    def function(arguments: dict[str, Any]) -> Any:
        raise ToolError("no", status=400)

    house = House(make_tool("pay", function, effect=WRITE, amount=AMOUNT), approve=approve)
    house.call("pay", Amount="5")
    assert asked == [{"amount": 5}]
    (entry,) = house.journal.entries.values()
    assert entry.arguments == {"amount": 5}

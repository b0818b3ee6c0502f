"""An answer to a task of CompToolBench is right in any form that says what is asked for, and wrong where it is near."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.environments.comptoolbench_answers import other_answers, solved

WRITES = ("send_email",)


def step(tool: str, output: Any, id: str = "s1", **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "args": args, "output": output}


def task(*steps: dict[str, Any], query: str = "", expected: Any = None) -> dict[str, Any]:
    final = steps[-1]
    return {"query": query, "gold": [*steps], "final_step": final["id"], "expected": expected or final["output"]}


def hold(one: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in [one["expected"], *right] if not solved(one, value, WRITES)] == []
    assert [value for value in wrong if solved(one, value, WRITES)] == []


def test_of_a_response_what_its_tool_is_asked_for_will_do_in_any_form() -> None:
    found = {"domain": "tin.example", "ip_address": "10.0.0.7", "record_type": "A", "ttl_seconds": 60}
    hold(
        task(step("dns_lookup", found, domain="tin.example")),
        ["10.0.0.7, A", ["10.0.0.7", "A"], {"ip": "10.0.0.7", "type": "A"}, "tin.example is 10.0.0.7 (an A record)"],
        ["10.0.0.7", "A", "10.0.0.8, A", "10.0.0.7, AAAA", "10.0.0.7, a", "10.0.0.7, A, 61 s", "not 10.0.0.7, A",
         {"ip_address": "10.0.0.7", "record_type": "MX"},
         {"address": "10.0.0.7", "about": "A is what I found for it today"},
         f"10.0.0.7, A {'and more words ' * 20}"],
    )  # fmt: skip
    apart = {"date1": "2026-01-01", "days": 14, "weeks": 2.0, "months": 0.5, "years": 0.04, "date1_is_before": True}
    hold(
        task(step("calculate_date_diff", apart, date1="2026-01-01", date2="2026-01-15")),
        ["14 days (2.0 weeks, 0.5 months, 0.04 years)", {"days": 14, "weeks": 2, "months": 0.5, "years": 0.04}],
        ["14 days", 14, "14 days (2.0 weeks, 0.5 months, 0.05 years)", {"days": 14, "weeks": 2, "months": 0.5}],
    )


def test_a_truth_is_told_by_itself() -> None:
    open_then = {"date": "2026-03-01", "is_business_day": False, "day_of_week": "Sunday"}
    hold(
        task(step("is_business_day", open_then, date="2026-03-01")),
        ["No, Sunday", {"is_business_day": False, "day_of_week": "Sunday"}, [False, "Sunday"]],
        ["Sunday", "Yes, Sunday", "no idea, Sunday", {"is_business_day": True, "day_of_week": "Sunday"}],
    )


def test_a_value_that_equals_an_argument_is_what_was_asked_for_where_nothing_else_is_there() -> None:
    hold(
        task(step("round_number", {"rounded": 30.0}, value=30.0, decimals=2)),
        [30, "30.00", {"rounded": 30}, {"answer": 30}],
        [2, "2", 31, {"rounded": 31}, {"rounded": 30, "more": 7}, None],
    )


def test_of_a_call_that_changes_something_its_confirmation_will_do() -> None:
    sent = {"status": "sent", "message_id": "msg_7f", "to": "ann@tin.example"}
    hold(
        task(step("send_email", sent, to="ann@tin.example", body="Hello")),
        ["msg_7f", {"message_id": "msg_7f"}, "sent"],
        ["msg_7e", "ann@tin.example", "Hello", "", None, "It could not be sent", "not sent"],
    )


def weather(city: str, degrees: int, condition: str) -> dict[str, Any]:
    output = {"city": city, "temperature_celsius": degrees, "humidity_percent": degrees + 40, "wind_speed_kmh": 7,
              "condition": condition}  # fmt: skip
    return step("get_weather", output, city, city=city)


CITIES = [weather("Oslo", -4, "snowy"), weather("Rome", 21, "sunny"), weather("Bonn", 9, "cloudy")]


def test_parallel_steps_may_be_told_by_name_in_one_text() -> None:
    clock = {"datetime": "2026-03-01T10:30:00", "date": "2026-03-01", "time": "10:30:00", "unix_timestamp": 1772361000}
    both = task(CITIES[1], step("get_current_time", clock, "now", timezone="Rome"), expected={
        "weather": CITIES[1]["output"], "now": clock})  # fmt: skip
    told = "Rome: sunny, 21 °C, humidity 61 %, wind 7 km/h; it is 2026-03-01 10:30:00"
    hold(
        both,
        [told],
        [told.replace("21", "22"), told.replace("sunny, ", ""), told.replace("10:30:00", "11:30:00"), told + "; 99"],
    )
    two = task(*CITIES[:2], expected={"a": CITIES[0]["output"], "b": CITIES[1]["output"]})
    said = "Rome: sunny, 21, humidity 61, wind 7; Oslo: snowy, -4, humidity 36, wind 7"
    hold(two, [said], [said.replace("Rome", "X").replace("Oslo", "Rome").replace("X", "Oslo"), said[: said.index(";")]])


def test_what_is_to_be_compared_may_be_told_of_each_and_not_of_another() -> None:
    expected = {"warmest_city": "Rome", "temperature": 21}
    compared = task(*CITIES, query="Compare how warm it is in Oslo, Rome and Bonn.", expected=expected)
    right = [
        "Rome: 21°C, Bonn: 9°C, Oslo: -4°C",
        {"Oslo": -4, "Rome": 21, "Bonn": 9},
        {"temperatures": {"Oslo": -4, "Rome": 21, "Bonn": 9}, "warmest": "Rome", "coldest": ["Oslo"], "difference": 25},
    ]
    wrong = [
        "Rome: 21°C, Bonn: -4°C, Oslo: 9°C",
        "Rome: 21°C, Bonn: 9°C",
        {"Oslo": 4, "Rome": 21, "Bonn": 9},
        {**right[2], "warmest": "Bonn"},
        {**right[2], "coldest": "Bonn"},
        {**right[2], "difference": 17},
        {**right[2], "difference": 21},
        {"Oslo": -4, "Rome": 21, "Bonn": 9, "Paris": 12},
        "21, 9 and -4",
    ]
    hold(compared, right, wrong)
    asked = task(*CITIES, query="Which of Oslo, Rome and Bonn is the warmest?", expected=expected)
    hold(asked, ["Rome"], right)  # whoever asks for one has to be told one


def rate(to: str, factor: float) -> dict[str, Any]:
    output = {
        "from_currency": "EUR",
        "to_currency": to,
        "rate": factor,
        "amount": 100,
        "converted_amount": 100 * factor,
    }
    return step("get_exchange_rate", output, to, from_currency="EUR", to_currency=to, amount=100)


def ends(query: str) -> dict[str, Any]:
    rates = [rate("CZK", 25.5), rate("SEK", 11.25), rate("USD", 1.1)]
    least, most = 110.0, 2550.0
    both = step("min_max", {"min": least, "max": most, "range": most - least}, "ends", numbers=[2550.0, 1125.0, 110.0])
    form = step("format_number", {"formatted": "2,550.00"}, "form", value=most, format="comma")
    return task(*rates, both, form, query=query)


def test_both_ends_will_do_where_the_text_asks_for_both_and_the_solution_formats_one() -> None:
    right = [
        {"min": "110.00", "max": "2,550.00"},
        "min: 110.00 (USD), max: 2,550.00 (CZK)",
        {"best": {"currency": "CZK", "amount": "2,550.00"}, "worst": {"currency": "USD", "amount": "110.00"}},
    ]
    wrong = [
        {"min": "2,550.00", "max": "110.00"},
        {"min": "110.00"},
        {"min": "1,125.00", "max": "2,550.00"},
        {"min": 110.0, "max": 2550.0},
        "min: 110.00 (CZK), max: 2,550.00 (USD)",
        {"best": {"currency": "SEK", "amount": "2,550.00"}, "worst": {"currency": "USD", "amount": "110.00"}},
        "min: 110.00, max: 2,550.00, mean: 1,261.67",
    ]
    hold(ends("Convert 100 EUR to CZK, SEK and USD, find the min and max and format the result."), right, wrong)
    rates = "Best: CZK 2,550.00 (rate 25.5); worst: USD 110.00 (rate 1.1); SEK 1,125.00 (rate 11.25)"
    turned = rates.replace("25.5)", "1.1)").replace("110.00 (rate 1.1)", "110.00 (rate 25.5)")
    hold(ends("Convert 100 EUR to CZK, SEK and USD and find the best and worst rates."), [rates], [*right, turned])
    hold(ends("Convert 100 EUR to CZK, SEK and USD and format the greatest."), ["2,550.00"], [*right, rates])


SENT = task(step("send_email", {"status": "sent", "message_id": "m1"}, to="a@tin.example"))
COMPARED = task(*CITIES, query="Compare.", expected={"c": "Rome", "t": 21})


@pytest.mark.parametrize("made", [ends(""), COMPARED, SENT])
def test_the_other_answers_of_a_task_are_judged_as_they_are_meant(made: dict[str, Any]) -> None:
    right, near = other_answers(made, WRITES)
    assert right
    assert near
    hold(made, [*right], [*near])

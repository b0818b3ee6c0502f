"""An answer with identifiers of trips is compared by what the trips are, whatever order they were created in."""

from __future__ import annotations

from benchmarks.programs.check import trips_named

WORK = {"name": "Work", "currency_code": "USD"}
FAMILY = {"name": "Family", "currency_code": "EUR"}


def test_identifiers_in_another_order_name_the_same_trips() -> None:
    one = [{"trip_id": "trip_1", **WORK}, {"trip_id": "trip_2", **FAMILY}]
    other = [{"trip_id": "trip_1", **FAMILY}, {"trip_id": "trip_2", **WORK}]
    assert trips_named(["trip_1", "trip_2"], one) == trips_named(["trip_2", "trip_1"], other)
    assert trips_named(["trip_1", "trip_2"], one) != trips_named(["trip_1", "trip_2"], other)


def test_what_is_no_identifier_stays() -> None:
    value = {"of": ["trip_9", 3, None], "name": "Work"}
    assert trips_named(value, [{"trip_id": "trip_1", **WORK}]) == value

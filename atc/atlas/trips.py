"""The trip store: the part of Atlas that calls change."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
import os
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.fields import CityId, CityName, CountryCode, CurrencyCode, Date
from atc.errors import ToolError, UsageError
from atc.tools.functions import tool

TripId = Annotated[str, Field(description="Identifier of a trip: 'trip_1'", pattern=r"^trip_[0-9]+$")]
StopId = Annotated[
    str, Field(description="Identifier of a stop, unique in its trip: 'stop_1'", pattern=r"^stop_[0-9]+$")
]
TripStatus = Annotated[
    Literal["draft", "planned", "deposit_paid", "cancelled"],
    Field(description="draft: no stop yet; planned: stops, nothing paid"),
]
Amount = Annotated[float, Field(description="Money, in units of the currency, to 0.01", gt=0, le=1_000_000)]


class Stop(TypedDict):
    """A stay in one city."""

    stop_id: StopId
    city_id: CityId
    city_name: CityName
    country_code: CountryCode
    arrival: Date
    departure: Date
    nights: Annotated[int, Field(ge=1)]
    status: Literal["active", "cancelled"]


class Payment(TypedDict):
    """A deposit that was paid."""

    payment_id: Annotated[str, Field(description="Unique in its trip: 'payment_1'")]
    amount: Amount
    currency_code: CurrencyCode


class Trip(TypedDict):
    """A trip with its stops and payments."""

    trip_id: TripId
    name: str
    status: TripStatus
    currency_code: CurrencyCode
    stops: Annotated[list[Stop], Field(description="In the order they were added, with the cancelled ones")]
    payments: list[Payment]
    total_nights: Annotated[int, Field(description="Nights of the active stops", ge=0)]
    total_paid: Annotated[float, Field(description="Sum of the deposits, in the trip's currency", ge=0)]
    start: Annotated[Date | None, Field(description="First arrival; null without an active stop")]
    end: Annotated[Date | None, Field(description="Last departure; null without an active stop")]


class AddedStop(TypedDict):
    """The stop that was added, and its trip."""

    trip_id: TripId
    trip_status: TripStatus
    stop: Stop


class PaidDeposit(TypedDict):
    """The deposit that was paid, and its trip."""

    trip_id: TripId
    trip_status: TripStatus
    payment: Payment
    total_paid: Annotated[float, Field(description="Sum of the deposits, in the trip's currency", ge=0)]


class TripSummary(TypedDict):
    """A trip in a list."""

    trip_id: TripId
    name: str
    status: TripStatus
    stop_count: Annotated[int, Field(description="Active stops", ge=0)]


class TripList(TypedDict):
    """Some trips."""

    trips: list[TripSummary]


_TRIPS: TypeAdapter[list[Trip]] = TypeAdapter(list[Trip])


class TripStore:
    """Trips, in memory and, if a path is given, in a JSON file that every change rewrites.

    Identifiers are counters: the same calls in the same order give the same trips.

    Args:
        path: the file; it need not exist yet.

    Raises:
        UsageError: the file holds no trips.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = Path(path) if path is not None else None
        self._lock = threading.Lock()  # tools run in worker threads
        self._trips: dict[str, Trip] = {}
        if self._path is not None and self._path.exists():
            try:
                loaded = _TRIPS.validate_json(self._path.read_bytes())
            except ValidationError as error:
                problem = f"{self._path} is no file of trips ({error.error_count()} problems)"
                raise UsageError(f"{problem}: name another file, or remove it") from None
            self._trips = {trip["trip_id"]: trip for trip in loaded}

    def state(self) -> list[dict[str, Any]]:
        """All trips as plain JSON values, in the order they were created."""
        with self._lock:
            values: list[dict[str, Any]] = _TRIPS.dump_python(list(self._trips.values()), mode="json")
            return values

    # Reads ----------------------------------------------------------------------------------------------------------

    @tool(effect="read", examples=[{"arguments": {"trip_id": "trip_1"}}])
    def get_trip(self, trip_id: TripId) -> Trip:
        """Get a trip with its stops and payments.

        Raises:
            ToolError: not_found: no trip has this trip_id.
        """
        with self._lock:
            return copy.deepcopy(self._trip(trip_id))

    @tool(effect="read", examples=[{"arguments": {}}])
    def list_trips(self, status: TripStatus | None = None) -> TripList:
        """List the trips in the order they were created.

        Args:
            status: only trips with this status.
        """
        with self._lock:
            return {
                "trips": [
                    {
                        "trip_id": trip["trip_id"],
                        "name": trip["name"],
                        "status": trip["status"],
                        "stop_count": len(_active(trip)),
                    }
                    for trip in self._trips.values()
                    if status in (None, trip["status"])
                ]
            }

    # Writes ---------------------------------------------------------------------------------------------------------

    @tool(effect="write", examples=[{"arguments": {"name": "Rhône in spring", "currency_code": "EUR"}}])
    def create_trip(
        self, name: Annotated[str, Field(min_length=1, max_length=100)], currency_code: CurrencyCode
    ) -> Trip:
        """Create a trip without stops.

        Args:
            name: a name for the trip; several trips may have the same.
            currency_code: the currency that its deposits are paid in.
        """
        with self._lock:
            trip: Trip = {
                "trip_id": f"trip_{len(self._trips) + 1}",
                "name": name,
                "status": "draft",
                "currency_code": currency_code,
                "stops": [],
                "payments": [],
                "total_nights": 0,
                "total_paid": 0.0,
                "start": None,
                "end": None,
            }
            return self._stored(trip)

    @tool(
        effect="write",
        examples=[{"arguments": {"trip_id": "trip_1", "city_id": 2996944, "arrival": "2026-04-07", "nights": 3}}],
    )
    def add_stop(
        self, trip_id: TripId, city_id: CityId, arrival: Date, nights: Annotated[int, Field(ge=1, le=90)]
    ) -> AddedStop:
        """Add a stay in a city to a trip.

        Args:
            nights: how many nights the stay lasts.

        Raises:
            ToolError: not_found: there is no such trip or city.
            ToolError: conflict: the trip is cancelled, or the nights overlap those of another stop.
        """
        city = data.city(city_id)
        with self._lock:
            trip = self._open_trip(trip_id)
            departure = arrival + dt.timedelta(days=nights)
            for other in _active(trip):
                if arrival < other["departure"] and other["arrival"] < departure:
                    raise _conflict(f"{arrival} to {departure} overlaps {other['stop_id']} in {other['city_name']}")
            stop: Stop = {
                "stop_id": f"stop_{len(trip['stops']) + 1}",
                "city_id": city_id,
                "city_name": city["name"],
                "country_code": city["countrycode"],
                "arrival": arrival,
                "departure": departure,
                "nights": nights,
                "status": "active",
            }
            trip["stops"].append(stop)
            stored = self._stored(trip)
            return {"trip_id": trip_id, "trip_status": stored["status"], "stop": stored["stops"][-1]}

    @tool(effect="write", examples=[{"arguments": {"trip_id": "trip_1", "stop_id": "stop_1"}}])
    def cancel_stop(self, trip_id: TripId, stop_id: StopId) -> Trip:
        """Cancel one stop of a trip. The stop stays on record as cancelled; its nights become free.

        Raises:
            ToolError: not_found: there is no such trip or stop.
            ToolError: conflict: the trip or the stop is cancelled already.
        """
        with self._lock:
            trip = self._open_trip(trip_id)
            stop = next((stop for stop in trip["stops"] if stop["stop_id"] == stop_id), None)
            if stop is None:
                raise data.not_found(f"stop {stop_id!r} in {trip_id}", "get_trip lists the stops")
            if stop["status"] == "cancelled":
                raise _conflict(f"{stop_id} of {trip_id} is cancelled already")
            stop["status"] = "cancelled"
            return self._stored(trip)

    @tool(effect="write", examples=[{"arguments": {"trip_id": "trip_1"}}])
    def cancel_trip(self, trip_id: TripId) -> Trip:
        """Cancel a trip and all its stops. Deposits stay on record.

        Raises:
            ToolError: not_found: no trip has this trip_id.
            ToolError: conflict: the trip is cancelled already.
        """
        with self._lock:
            trip = self._open_trip(trip_id)
            for stop in trip["stops"]:
                stop["status"] = "cancelled"
            trip["status"] = "cancelled"
            return self._stored(trip)

    @tool(effect="write", examples=[{"arguments": {"trip_id": "trip_1", "amount": 120, "currency_code": "EUR"}}])
    def pay_deposit(self, trip_id: TripId, amount: Amount, currency_code: CurrencyCode) -> PaidDeposit:
        """Pay a deposit for a trip that has at least one active stop.

        Args:
            currency_code: must be the trip's currency.

        Raises:
            ToolError: not_found: no trip has this trip_id.
            ToolError: conflict: the trip is cancelled, has no active stop, or is in another currency.
        """
        with self._lock:
            trip = self._open_trip(trip_id)
            if not _active(trip):
                raise _conflict(f"{trip_id} has no active stop: add one before paying")
            if currency_code != trip["currency_code"]:
                raise _conflict(f"{trip_id} is paid in {trip['currency_code']}, not in {currency_code}")
            payment: Payment = {
                "payment_id": f"payment_{len(trip['payments']) + 1}",
                "amount": round(amount, 2),
                "currency_code": currency_code,
            }
            trip["payments"].append(payment)
            stored = self._stored(trip)
            return {
                "trip_id": trip_id,
                "trip_status": stored["status"],
                "payment": stored["payments"][-1],
                "total_paid": stored["total_paid"],
            }

    # What the calls share; the lock is held -------------------------------------------------------------------------

    def _trip(self, trip_id: str) -> Trip:
        try:
            return self._trips[trip_id]
        except KeyError:
            raise data.not_found(f"trip {trip_id!r}", "list_trips gives the identifiers") from None

    def _open_trip(self, trip_id: str) -> Trip:
        """A copy to change: a change that cannot be kept leaves no trace."""
        trip = copy.deepcopy(self._trip(trip_id))
        if trip["status"] == "cancelled":
            raise _conflict(f"{trip_id} is cancelled: create another trip")
        return trip

    def _stored(self, trip: Trip) -> Trip:
        """Bring the sums up to date, write the file, and only then take the trip over."""
        active = _active(trip)
        if trip["status"] != "cancelled":
            trip["status"] = "deposit_paid" if trip["payments"] else "planned" if active else "draft"
        trip["total_nights"] = sum(stop["nights"] for stop in active)
        trip["total_paid"] = round(math.fsum(payment["amount"] for payment in trip["payments"]), 2)
        trip["start"] = min((stop["arrival"] for stop in active), default=None)
        trip["end"] = max((stop["departure"] for stop in active), default=None)
        trips = {**self._trips, trip["trip_id"]: trip}
        if self._path is not None:
            values = _TRIPS.dump_python(list(trips.values()), mode="json")
            partial = self._path.with_name(self._path.name + ".partial")
            partial.write_text(json.dumps(values, indent=1, ensure_ascii=False), encoding="utf-8")
            os.replace(partial, self._path)
        self._trips = trips
        return copy.deepcopy(trip)


def _active(trip: Trip) -> list[Stop]:
    return [stop for stop in trip["stops"] if stop["status"] == "active"]


def _conflict(message: str) -> ToolError:
    return ToolError(message, status="conflict")

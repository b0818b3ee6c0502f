"""A fleet of vehicles: typed functions with pydantic models, unions and pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from atc import ToolError, tool

KIND = "functions"
TASKS = (
    "Which electric vehicle has the lowest charge? Answer with its plate.",
    "How many kilometres did each driver drive in total? Answer with a dict from driver to km, one decimal.",
    "What was the average fuel consumption of the diesel vehicles, in litres per 100 km? Round to two decimals.",
    "List the plates of the vehicles without any trip, sorted.",
    "Book a service on 2026-07-01 for each vehicle with more than 100000 km. Answer with the booking numbers.",
    "What is the longest trip, in hours? Answer with vehicle plate and hours rounded to 1 decimal, as a list.",
    "How many pages of trips are there, and how many trips in all? Answer as [pages, trips].",
    "Which depot holds the most vehicles? Answer with its name.",
    "How many trips began on a Saturday or Sunday (UTC)?",
    "What is the total km of all trips longer than the mean trip? One decimal.",
    "Which vehicle was used by the most different drivers? Answer with its plate.",
    "Assign the diesel vehicle with the fewest km to driver 'Kim'. Answer with its plate.",
    "For each kind of vehicle, the mean km on the clock as an integer. Answer with a dict.",
    "Which vehicles have the feature 'tow bar' or 'winch'? Answer with the plates, sorted.",
    "Give the three longest trips as dicts with 'plate', 'driver' and 'km', longest first.",
    "What is the price of a full charge of every electric vehicle at 0.30 per kWh? Dict from plate to price, 2 decimals.",
    "Did any trip start before the trip before it of the same vehicle had ended? Answer true or false.",
    "Assign each unassigned vehicle of depot North to the driver with the most trips. Answer with how many.",
    "What share of the trips was driven with electric vehicles, in percent without decimals?",
    "Write one line a depot: its name, a colon and its plates joined by commas, sorted by name.",
)


class Electric(BaseModel):
    kind: Literal["electric"] = "electric"
    battery_kwh: float
    charge: float = Field(description="share of the battery, from 0 to 1")


class Diesel(BaseModel):
    kind: Literal["diesel"] = "diesel"
    tank_litres: float


class Vehicle(BaseModel):
    model_config = ConfigDict(extra="allow")
    vehicle_id: int
    plate: str
    km: int
    depot: str
    engine: Electric | Diesel
    driver: str | None = None


class Trip(BaseModel):
    vehicle_id: int
    driver: str
    start: datetime
    end: datetime
    km: float
    fuel_litres: float | None = None


class TripPage(BaseModel):
    trips: list[Trip]
    next_page: int | None = None


T0 = datetime(2026, 6, 5, 7, tzinfo=UTC)
TRIPS = [
    Trip(
        vehicle_id=1 + n % 3,
        driver=("Kim", "Bo", "Lia")[n * n % 3],
        start=T0 + timedelta(hours=13 * n),
        end=T0 + timedelta(hours=13 * n + 2 + n % 4, minutes=12 * (n % 5)),
        km=40.5 + 17.25 * n,
        fuel_litres=3.1 + n if 1 + n % 3 == 2 else None,
    )
    for n in range(11)
]


def functions() -> list[Callable[..., Any]]:
    """The tools, with vehicles of their own."""
    vehicles = [
        Vehicle(
            vehicle_id=1,
            plate="N-1",
            km=50_100,
            depot="North",
            engine=Electric(battery_kwh=60, charge=0.8),
            driver="Bo",
        ),
        Vehicle(vehicle_id=2, plate="N-2", km=120_300, depot="North", engine=Diesel(tank_litres=70)),
        Vehicle(vehicle_id=3, plate="S-1", km=99_000, depot="South", engine=Electric(battery_kwh=77.5, charge=0.35)),
        Vehicle(vehicle_id=4, plate="N-3", km=101_000, depot="North", engine=Diesel(tank_litres=55)),
    ]
    features = {2: ["tow bar"], 3: ["heat pump", "winch"]}
    whole = [v.model_copy(update={"features": features.get(v.vehicle_id, [])}) for v in vehicles]

    @tool(effect="read")
    def list_vehicles(depot: str | None = None, kind: Literal["electric", "diesel"] | None = None) -> list[Vehicle]:
        """List vehicles; each also has a list ``features``."""
        return [v for v in whole if depot in (None, v.depot) and kind in (None, v.engine.kind)]

    @tool(effect="read")
    def trips(page: int = 1, vehicle_id: int | None = None) -> TripPage:
        """Trips in the order in which they began, four a page. ``next_page`` is null on the last page."""
        found = [t for t in TRIPS if vehicle_id in (None, t.vehicle_id)]
        more = page * 4 < len(found)
        return TripPage(trips=found[(page - 1) * 4 : page * 4], next_page=page + 1 if more else None)

    @tool(effect="write")
    def book_service(vehicle_id: int, day: str) -> dict[str, int]:
        """Book a service for a vehicle on a day, such as 2026-01-31."""
        if vehicle_id not in {v.vehicle_id for v in whole}:
            raise ToolError(f"no vehicle {vehicle_id}", status="not_found")
        return {"booking": 1000 * vehicle_id + int(day[-2:])}

    @tool(effect="write")
    def assign_driver(vehicle_id: int, driver: str) -> Vehicle:
        """Assign a vehicle to a driver."""
        vehicle = next(v for v in whole if v.vehicle_id == vehicle_id)
        vehicle.driver = driver
        return vehicle

    return [list_vehicles, trips, book_service, assign_driver]

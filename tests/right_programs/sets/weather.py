"""Weather stations over HTTP: nested responses of which the document has a part, enums that are too short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc import ToolError
from tests.right_programs.sets.cinema import OBJECT, TEXT, _get, _in

KIND = "openapi"
TASKS = (
    "Which station had the highest temperature on 2026-08-01? Answer with its name.",
    "What is the mean temperature of all hours of 2026-08-01 at station Alp? One decimal.",
    "How many stations are above 1000 metres?",
    "At which hours of 2026-08-01 did it rain at Coast? Sorted list of hours.",
    "Give a dict from station name to total rain on 2026-08-01, in mm with one decimal.",
    "Which station has the largest difference between day's maximum and minimum on 2026-08-02? Answer with its name.",
    "Subscribe mail@sky.example to all warnings of level 'severe' or 'extreme'. Answer with the subscription ids, sorted.",
    "What kinds of sky were reported at all stations on 2026-08-01? Sorted, without repeats.",
    "How much warmer was it at Coast than at Alp at 12 o'clock on 2026-08-01? One decimal.",
    "Which sensors are out of order? Answer with a list of [station name, sensor], sorted.",
    "What is the mean elevation of the stations weighted by the number of their sensors? Whole number.",
    "Which warnings concern a station that is lower than 100 metres? Answer with their ids, sorted.",
    "On which of the two days 2026-08-01 and 2026-08-02 was it windier on average over all stations? Answer with the day.",
    "For station Alp, give the pressure at the first and last hour of 2026-08-01 as a list.",
    "How many hours in all had no wind reading?",
    "Order the station names by distance from latitude 47, longitude 8, the nearest first (squared degrees will do).",
    "What is the longest run of hours without rain at Coast on 2026-08-01?",
    "Acknowledge each warning that has ended before 2026-08-02. Answer with how many.",
    "Give the temperatures of Alp on 2026-08-01 in Fahrenheit as a list of whole numbers.",
    "Which station's names contain no letter 'a' in any case? Sorted list.",
)
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Stations", "version": "1"},
    "paths": {
        "/stations": _get(
            "Stations. Each has id, name, position (lat, lon, elevation) and sensors (a list of objects with kind and ok).",
            "stations",
            {
                "type": "object",
                "properties": {
                    "stations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": TEXT,
                                "position": {"type": "object", "properties": {"lat": {"type": "number"}}},
                            },
                        },
                    }
                },
            },
        ),
        "/stations/{id}/hours": _get(
            "The hours of a day at a station.",
            "hours",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["hour"],
                    "properties": {
                        "hour": {"type": "integer"},
                        "temperature": {"type": "object", "properties": {"unit": TEXT}},
                        "sky": {"type": "string", "enum": ["clear", "cloudy"]},
                    },
                },
                "example": [
                    {
                        "hour": 0,
                        "temperature": {"value": 11.5, "unit": "C"},
                        "sky": "clear",
                        "rain": {"mm": 0.0},
                        "wind": {"speed": 3.2},
                        "pressure": 1013,
                    }
                ],
            },
            _in("path", "id"),
            {"name": "day", "in": "query", "required": True, "schema": {"type": "string", "format": "date"}},
        ),
        "/warnings": _get(
            "Warnings: id, level, stations (ids), from and until (times).",
            "warnings",
            {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}, "level": TEXT}}},
            {"name": "level", "in": "query", "schema": {"type": "string"}},
        ),
        "/warnings/{id}/subscriptions": {
            "post": {
                "operationId": "subscribe",
                "parameters": [_in("path", "id", "integer")],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["email"],
                                "properties": {"email": {"type": "string", "format": "email"}},
                            }
                        }
                    },
                },
                "responses": {
                    "200": {"description": "the answer has subscription_id", "content": {"application/json": {}}}
                },
            }
        },
        "/warnings/{id}/ack": {
            "post": {
                "operationId": "acknowledge",
                "summary": "Acknowledge a warning.",
                "parameters": [_in("path", "id", "integer")],
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": OBJECT}}}},
            }
        },
    },
}
STATIONS = [
    {"id": "alp", "name": "Alp", "position": {"lat": 46.6, "lon": 8.1, "elevation": 2105},
     "sensors": [{"kind": "thermometer", "ok": True}, {"kind": "anemometer", "ok": False}]},
    {"id": "cst", "name": "Coast", "position": {"lat": 54.1, "lon": 10.2, "elevation": 4},
     "sensors": [{"kind": "thermometer", "ok": True}]},
    {"id": "twn", "name": "Town", "position": {"lat": 48.2, "lon": 11.6, "elevation": 520},
     "sensors": [{"kind": "thermometer", "ok": True}, {"kind": "rain gauge", "ok": True}, {"kind": "barometer", "ok": False}]},
]  # fmt: skip
WARNINGS = [
    {"id": 1, "level": "severe", "stations": ["cst"], "from": "2026-07-31T06:00", "until": "2026-08-01T22:00"},
    {"id": 2, "level": "minor", "stations": ["alp", "twn"], "from": "2026-08-01T00:00", "until": "2026-08-03T00:00"},
    {"id": 3, "level": "extreme", "stations": ["alp", "cst"], "from": "2026-08-02T10:00", "until": "2026-08-02T20:00"},
]


def _hours(station: str, day: str) -> list[dict[str, Any]]:
    base = {"alp": 4.5, "cst": 16.0, "twn": 19.5}[station]
    number = int(day[-2:])
    found = []
    for hour in range(0, 24, 3):
        rain = 0.0 if (hour + number) % 2 or station == "alp" else round(0.4 * hour / 3, 1)
        value = round(base + (6 - abs(hour - 14) / 2) * (1 if station == "twn" else 0.5) + number / 10, 1)
        wind = None if station == "alp" and hour % 2 else {"speed": round(2 + hour / 4 * number, 1)}
        sky = "fog" if hour < 6 else "cloudy" if rain else "clear"
        found.append(
            {
                "hour": hour,
                "temperature": {"value": value, "unit": "C"},
                "sky": sky,
                "rain": {"mm": rain},
                "wind": wind,
                "pressure": 1000 + hour + number,
            }
        )
    return found


def functions() -> list[Callable[..., Any]]:
    """What the service does."""
    acknowledged: set[int] = set()

    def stations() -> dict[str, Any]:
        return {"stations": STATIONS}

    def hours(id: str, day: str) -> list[dict[str, Any]]:
        if id not in {s["id"] for s in STATIONS}:
            raise ToolError("no such station", status=404)
        return _hours(id, day)

    def warnings(level: str | None = None) -> list[dict[str, Any]]:
        return [w for w in WARNINGS if level in (None, w["level"])]

    def subscribe(id: int, email: str) -> dict[str, Any]:
        return {"subscription_id": f"w{id}-{len(email)}"}

    def acknowledge(id: int) -> dict[str, Any]:
        acknowledged.add(id)
        return {"acknowledged": len(acknowledged)}

    return [stations, hours, warnings, subscribe, acknowledge]

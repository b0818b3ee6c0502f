"""A calendar behind an MCP server: closed input schemas, open outputs, times with zones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KIND = "mcp"
TASKS = (
    "How many events does each calendar have? Answer with a dict from calendar name to number.",
    "Which events overlap? Answer with pairs of titles, each sorted, all sorted.",
    "How many hours of meetings does Ana have on 2026-10-05, in Berlin time? One decimal.",
    "What is the first free hour between 9 and 17 o'clock of both Ana and Bo on 2026-10-05? Answer as '10:00'.",
    "Create an event 'Review' for Ana and Bo on 2026-10-06 from 14:00 to 15:00 Berlin time. Answer with its id.",
    "Who was invited most often? Answer with the address.",
    "List the titles of the events without a location, sorted.",
    "Which invitations has nobody answered yet? Titles, sorted.",
    "Decline all events of Bo that begin before 8 o'clock UTC. Answer with the ids, sorted.",
    "What is the longest event, in minutes? Answer as [title, minutes].",
    "Give a dict from date (UTC) to the titles of that date, in the order in which they begin.",
    "How many different people accepted something?",
    "Which events recur, and how often? Answer with a dict from title to count.",
    "How many minutes are there between the end of the first and the beginning of the last event of Ana on 2026-10-05?",
    "Which event has the most attachments? Answer with its title.",
    "Is anybody invited to two events that overlap? Answer with the addresses, sorted.",
    "Convert the beginning of 'Stand-up' to Tokyo time (UTC+9). Answer as 'HH:MM'.",
    "What share of all invitations was accepted, in percent without decimals?",
    "Which domain do most invited addresses belong to? Answer with the domain.",
    "Describe each event of Bo as 'title @ location or online', sorted.",
)
_READ = {"readOnlyHint": True}
_EVENT = {"type": "object", "properties": {"id": {"type": "string"}, "title": {"type": "string"}}, "required": ["id"]}
MCP: dict[str, dict[str, Any]] = {
    "calendars": {
        "description": "The calendars that can be seen.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "outputSchema": {"type": "object", "properties": {"calendars": {"type": "array", "items": {"type": "object"}}}},
        "annotations": _READ,
    },
    "events": {
        "description": "Events of a calendar between two days, the earliest first; without days, all. Each has start and end"
        " (times with an offset), and may have location, recurrence and attachments.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "calendar": {"type": "string"},
                "from_day": {"type": "string", "format": "date"},
                "to_day": {"type": "string", "format": "date", "description": "this day included"},
            },
            "required": ["calendar"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"events": {"type": "array", "items": _EVENT}},
            "required": ["events"],
        },
        "annotations": _READ,
    },
    "invitations": {
        "description": "Who is invited to an event: address and response (accepted, declined or none).",
        "inputSchema": {
            "type": "object",
            "properties": {"event_id": {"type": "string"}},
            "required": ["event_id"],
            "additionalProperties": False,
        },
        "annotations": _READ,
    },
    "create_event": {
        "description": "Create an event and invite people. Times need an offset.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "start": {"type": "string", "format": "date-time"},
                "end": {"type": "string", "format": "date-time"},
                "calendars": {"type": "array", "items": {"type": "string"}},
                "location": {"type": "string"},
            },
            "required": ["title", "start", "end", "calendars"],
            "additionalProperties": False,
        },
        "outputSchema": _EVENT,
    },
    "respond": {
        "description": "Answer an invitation in the name of a calendar's owner.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "event_id": {"type": "string"},
                "calendar": {"type": "string"},
                "response": {"enum": ["accepted", "declined"]},
            },
            "required": ["event_id", "calendar", "response"],
            "additionalProperties": False,
        },
    },
}
_EVENTS: dict[str, list[dict[str, Any]]] = {
    "ana": [
        {"id": "e1", "title": "Stand-up", "start": "2026-10-05T09:00:00+02:00", "end": "2026-10-05T09:30:00+02:00",
         "recurrence": {"every": "week", "count": 10}},
        {"id": "e2", "title": "Budget", "start": "2026-10-05T09:15:00+02:00", "end": "2026-10-05T11:00:00+02:00",
         "location": "Room 2", "attachments": ["a.xlsx", "b.pdf"]},
        {"id": "e3", "title": "Call", "start": "2026-10-05T13:00:00+00:00", "end": "2026-10-05T13:45:00+00:00"},
    ],
    "bo": [
        {"id": "e1", "title": "Stand-up", "start": "2026-10-05T09:00:00+02:00", "end": "2026-10-05T09:30:00+02:00",
         "recurrence": {"every": "week", "count": 10}},
        {"id": "e4", "title": "Dentist", "start": "2026-10-06T07:30:00+02:00", "end": "2026-10-06T08:30:00+02:00",
         "location": "Main St 4"},
    ],
}  # fmt: skip
_INVITED = {
    "e1": [("ana@cal.example", "accepted"), ("bo@cal.example", "accepted"), ("cy@out.example", "none")],
    "e2": [("ana@cal.example", "declined"), ("dee@cal.example", "accepted")],
    "e3": [("ana@cal.example", "none"), ("cy@out.example", "none")],
    "e4": [],
}


def functions() -> list[Callable[..., Any]]:
    """What the server does; nothing is changed for the next caller."""

    def calendars() -> dict[str, Any]:
        return {
            "calendars": [
                {"id": "ana", "name": "Ana", "address": "ana@cal.example"},
                {"id": "bo", "name": "Bo", "address": "bo@cal.example"},
            ]
        }

    def events(calendar: str, from_day: str = "0000", to_day: str = "9999") -> dict[str, Any]:
        return {"events": [e for e in _EVENTS[calendar] if from_day <= e["start"][:10] <= to_day]}

    def invitations(event_id: str) -> list[dict[str, str]]:
        return [{"address": a, "response": r} for a, r in _INVITED[event_id]]

    def create_event(title: str, start: str, end: str, calendars: list[str], location: str = "") -> dict[str, Any]:
        found = {"id": f"new-{title.lower()}-{len(calendars)}", "title": title, "start": start, "end": end}
        return {**found, "invited": len(calendars), "location": location or None}

    def respond(event_id: str, calendar: str, response: str) -> dict[str, Any]:
        return {"event": event_id, "calendar": calendar, "response": response}

    return [calendars, events, invitations, create_event, respond]

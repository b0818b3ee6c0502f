"""The services of the long tasks: five packages' tools with their states, each tool named after its service.

``mail``, ``calendar``, ``drive``, ``travel``, ``bank`` and ``chat`` are AgentDojo's, ``broker``, ``ticket`` and ``car``
are classes of BFCL, ``atlas`` and ``trips`` are this project's. Whoever has the packages has all of them: no data
directory is needed.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.atlas import Atlas, atlas_toolset
from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.schemas.protocol import Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments import agentdojo, bfcl
from benchmarks.environments.base import served

Json = dict[str, Any]

NEEDED = "the long tasks need the packages agentdojo and bfcl-eval: python -m benchmarks.fetch long"

_TRIPS = frozenset("create_trip add_stop pay_deposit get_trip list_trips cancel_stop cancel_trip".split())
_MAIL = re.compile(r".*(email|contacts).*")
_CALENDAR = re.compile(r".*(calendar|current_day).*")
_CLASSES = {"broker": "TradingBot", "ticket": "TicketAPI", "car": "VehicleControlAPI"}
_DOCUMENTS = {"broker": "trading_bot", "ticket": "ticket_api", "car": "vehicle_control"}
_SCENARIOS: dict[str, Json] = {
    "broker": {"authenticated": True, "watch_list": []},
    "ticket": {},
    "car": {"fuelLevel": 12.0},
}
"""What differs from a class's first state: the account is logged in and watches nothing, the tank holds something."""

SERVICES = ("atlas", "trips", "mail", "calendar", "drive", "travel", "bank", "chat", "broker", "ticket", "car")
ROOMS = (("atlas",), ("trips",), ("mail", "calendar", "drive"), *((name,) for name in SERVICES[5:]))
"""The services that share what they hold: they are opened together."""
BUNDLED = ("atlas", "trips")
"""The services that need no package of others."""


@dataclass(frozen=True)
class World:
    """Fresh services.

    Attributes:
        tools: of all services.
        states: what each service that can change holds, as plain values; numbers of new rows and times of writing
            are left out, since they say in which order calls came.
    """

    tools: Toolset
    states: Mapping[str, Callable[[], Any]]

    def state(self) -> Json:
        return {name: read() for name, read in self.states.items()}


def open_world(services: Iterable[str] = SERVICES) -> World:
    """Open services anew.

    Raises:
        EnvironmentProblem: a package is missing; the message says how to get it.
    """
    wanted = frozenset(services)
    tools: list[Tool] = []
    states: dict[str, Callable[[], Any]] = {}
    if "atlas" in wanted:
        tools += _facts()
    if "trips" in wanted:
        atlas = Atlas()
        tools += [_named(tool, "trips") for tool in atlas_toolset(atlas).only(*_TRIPS).values()]
        states["trips"] = lambda: [_without(trip, "trip_id") for trip in atlas.trips.state()]
    if wanted & {"mail", "calendar", "drive"}:
        _dojo("workspace", _office_of, tools, states, _office_states)
    if "travel" in wanted:
        _dojo("travel", _travel_of, tools, states, lambda state: {"travel": lambda: _dumped(state.reservation)})
    if "bank" in wanted:
        _dojo("banking", lambda name: "bank", tools, states, _bank_states)
    if "chat" in wanted:
        _dojo("slack", lambda name: "chat", tools, states, lambda state: {"chat": lambda: _chat(state)})
    for service in sorted(wanted & _CLASSES.keys()):
        _class(service, tools, states)
    kept = [tool for tool in tools if tool.name.partition("_")[0] in wanted]
    return World(Toolset(kept), {name: read for name, read in states.items() if name in wanted})


@functools.cache
def _facts() -> tuple[Tool, ...]:
    """The tools of Atlas that have no state: one set of them does for all worlds."""
    return tuple(_named(tool, "atlas") for tool in atlas_toolset(Atlas()).values() if tool.name not in _TRIPS)


def _named(tool: Tool, service: str) -> Tool:
    """A tool under its service's name; its document names the service's other tools so, too."""
    return Tool(_prefixed(tool.protocol, service), tool.transport)


def _prefixed(protocol: Protocol, service: str) -> Protocol:
    changed: Json = {"name": f"{service}_{protocol.name}"}
    if service in BUNDLED:
        for part in ("description", "parameters", "returns"):
            changed[part] = _referring(getattr(protocol, part))
    return protocol.model_copy(update=changed)


_REFERRED = re.compile(r"\b(find_cities|find_countries|find_airports|list_units|convert_units)\b")


def _referring(value: Any) -> Any:
    if isinstance(value, str):
        return _REFERRED.sub(r"atlas_\1", value)
    if isinstance(value, dict):
        return {key: _referring(part) for key, part in value.items()}
    return [_referring(part) for part in value] if isinstance(value, list) else value


# AgentDojo ------------------------------------------------------------------------------------------------------------


def _dojo(
    suite: str,
    service_of: Callable[[str], str | None],
    tools: list[Tool],
    states: dict[str, Callable[[], Any]],
    read: Callable[[Any], Mapping[str, Callable[[], Any]]],
) -> None:
    try:
        state = agentdojo.first_state(agentdojo.load_suites()[suite])
    except EnvironmentProblem as error:
        raise EnvironmentProblem(f"{NEEDED} ({error})") from None
    for tool in agentdojo.dojo_tools(agentdojo.load_suites()[suite], state).values():
        if (service := service_of(tool.name)) is not None:
            tools.append(_named(tool, service))
    states |= read(state)


def _office_of(name: str) -> str:
    return "calendar" if _CALENDAR.fullmatch(name) else "mail" if _MAIL.fullmatch(name) else "drive"


def _travel_of(name: str) -> str | None:
    """Its mail and its calendar are those of the office."""
    return None if _MAIL.fullmatch(name) or _CALENDAR.fullmatch(name) else "travel"


def _office_states(state: Any) -> Mapping[str, Callable[[], Any]]:
    def mail() -> Any:
        return {box: list(map(_email, _told(_dumped(getattr(state.inbox, box))))) for box in ("emails", "trash")}

    def calendar() -> Any:
        return [
            {"title": e["title"], "start": e["start_time"], "end": e["end_time"], "status": e["status"]}
            | {"participants": sorted(set(e["participants"]))}
            for e in _dumped(state.calendar.events).values()
        ]

    def drive() -> Any:
        kept = ("filename", "content", "shared_with")
        return [{name: file[name] for name in kept} for file in _dumped(state.cloud_drive.files).values()]

    return {"mail": mail, "calendar": calendar, "drive": drive}


def _told(emails: Json) -> list[Json]:
    """The mails that somebody wrote: the calendar writes of its own accord, in words of the event."""
    return [each for each in emails.values() if not any(isinstance(part, dict) for part in each["attachments"])]


def _email(row: Json) -> Json:
    kept: Json = {name: row[name] for name in ("sender", "subject", "body", "status")}
    return kept | {name: sorted(set(row[name] or ())) for name in ("recipients", "cc", "bcc")}


def _bank_states(state: Any) -> Mapping[str, Callable[[], Any]]:
    def bank() -> Any:
        account = _dumped(state.bank_account)
        rows = {
            name: [_without(row, "id") for row in account[name]] for name in ("transactions", "scheduled_transactions")
        }
        return {"balance": account["balance"], "user": _dumped(state.user_account), **rows}

    return {"bank": bank}


def _chat(state: Any) -> Any:
    slack = _dumped(state.slack)
    users = {user: sorted(channels) for user, channels in slack["user_channels"].items()}
    return slack | {"user_channels": users, "web": _dumped(state.web)["web_content"]}


def _dumped(model: Any) -> Any:
    if isinstance(model, dict):
        return {str(key): _dumped(part) for key, part in model.items()}
    return model.model_dump(mode="json") if hasattr(model, "model_dump") else model


def _without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}


# BFCL -----------------------------------------------------------------------------------------------------------------


def _class(service: str, tools: list[Tool], states: dict[str, Callable[[], Any]]) -> None:
    group = _CLASSES[service]
    try:
        instance = bfcl.instances([group], {group: _SCENARIOS[service]}, bfcl.load_class)[group]
    except EnvironmentProblem as error:
        raise EnvironmentProblem(f"{NEEDED} ({error})") from None
    for protocol in _documents(service):
        method = protocol.source.operation
        tools.append(served(protocol, functools.partial(bfcl.answer, instance, method)))
    states[service] = lambda: _class_state(service, bfcl.public_state(instance))


def _class_state(service: str, state: Json) -> Any:
    if service == "ticket":
        return [_without(row, "id") for row in state["ticket_queue"]]
    if service == "broker":
        return {
            "orders": [_without(row, "id") for row in state["orders"].values()],
            "watched": sorted(set(state["watch_list"])),
            "moved": [_without(row, "timestamp") for row in state["transaction_history"]],
            "account": dict(state["account_info"]),
        }
    return dict(state)


@functools.cache
def _documents(service: str) -> tuple[Protocol, ...]:
    spec = importlib.util.find_spec(bfcl.PACKAGE)
    assert spec is not None  # its classes were imported
    folder = Path((spec.submodule_search_locations or [""])[0]) / "data" / "multi_turn_func_doc"
    lines = (folder / f"{_DOCUMENTS[service]}.json").read_text(encoding="utf-8").splitlines()
    made = []
    for document in map(json.loads, filter(None, lines)):
        name, group = document["name"], _CLASSES[service]
        protocol = Protocol(
            name=name,
            description=bfcl.description({**document, "group": group}),
            parameters=bfcl.converted(document["parameters"]),
            returns=bfcl.converted(document["response"]),
            effect=Effect.READ if bfcl.reads(group, name) else Effect.WRITE,
            source=Source(location="bfcl", operation=name),
            provenance=Provenance.IMPORTED,
        )
        made.append(_prefixed(protocol, service))
    return tuple(made)

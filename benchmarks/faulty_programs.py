"""Programs over Atlas that fail, and the call that is to blame: written by hand, filled in with several places."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.faults import REFUSALS, Culprit, FaultCase, Injection, nulled

PROGRAMS = Path(__file__).with_name("faulty_programs.toml")
PLACES = [
    {"city": "Lyon", "code": "FR", "other": "Paris", "third": "Marseille", "country": "France"},
    {"city": "Graz", "code": "AT", "other": "Vienna", "third": "Linz", "country": "Austria"},
    {"city": "Porto", "code": "PT", "other": "Lisbon", "third": "Braga", "country": "Portugal"},
    {"city": "Munich", "code": "DE", "other": "Berlin", "third": "Hamburg", "country": "Germany"},
    {"city": "Osaka", "code": "JP", "other": "Tokyo", "third": "Sapporo", "country": "Japan"},
]


def written_cases(places: int) -> Iterator[FaultCase]:
    """All of them, filled in with so many places."""
    document = tomllib.loads(PROGRAMS.read_text(encoding="utf-8"))
    for number, entry in enumerate(document["program"]):
        culprit = Culprit(entry["blame"], entry.get("call", 1) or None) if "blame" in entry else None
        for n, place in enumerate(PLACES[:places]):
            source = Template(entry["source"]).substitute(place, n=n + 1)
            name = f"{entry['kind']} {number + 1}, {place['city']}"
            yield FaultCase(entry["kind"], name, source, culprit, _injection(entry.get("wrong")))


def _injection(wrong: dict[str, Any] | None) -> Injection | None:
    if wrong is None:
        return None
    _, refuse = REFUSALS[0]
    return Injection(wrong["tool"], wrong["call"], refuse if "refused" in wrong else nulled(wrong["null"]))

"""Sentences about real values of the bundled tools: honest ones are used, and wrong ones are not."""

from __future__ import annotations

import datetime
import json
from typing import Any

from atc.atlas.places import find_cities, get_city, get_country
from atc.atlas.sky import sun_times
from atc.strategies.grounding import Known, ungrounded

CITIES = ("Lyon", "Oslo", "Rome", "Tokyo", "Lima", "Zürich", "San Francisco", "Nairobi", "Reykjavík", "Mexico City")
DAYS = ("2026-06-21", "2026-11-23", "2027-01-01", "2026-03-09")
HONEST = (
    "{city} has {population:,} inhabitants.",
    "The population of {city} is {population}.",
    "About {population_k:.0f} thousand people live in {city}, {country}.",
    "{city} lies at {latitude:.2f}°N and {longitude:.1f}°E.",
    "The sun rises in {city} at {sunrise} on {day} {month} {year}.",
    "In {city}, the sun sets at {sunset12} on {month_short} {day}, {year}, local time.",
    "On {weekday}, {month} {day}, the day in {city} is {length} minutes long.",
    "The country of {city} is {country} (code {code}), whose currency is {currency}.",
    "Yes, {city}'s time zone is {zone}.",
    "{official} is the official name of the country in which {city} lies.",
    "The area of {country} is {area:,} km².",
    "The answer for {city}: sunrise at {sunrise}, sunset at {sunset}.",
)


def facts_of(city: str, date: str) -> tuple[Known, dict[str, Any]]:
    """What a program about a city got, and how people write it."""
    found: Any = find_cities(name=city)
    whole: Any = get_city(city_id=found["cities"][0]["city_id"])
    country: Any = get_country(country_code=whole["country_code"])
    on = datetime.date.fromisoformat(date)
    sun: Any = json.loads(json.dumps(sun_times(city_id=whole["city_id"], date=on), default=str))
    rise, fall = (datetime.datetime.fromisoformat(sun[name]) for name in ("sunrise", "sunset"))
    said = {
        "city": whole["name"], "population": whole["population"], "population_k": whole["population"] / 1000,
        "latitude": abs(whole["latitude"]), "longitude": abs(whole["longitude"]), "zone": whole["timezone"],
        "sunrise": f"{rise:%H:%M}", "sunset": f"{fall:%H:%M}", "sunset12": f"{fall:%I:%M %p}".lstrip("0"),
        "day": on.day, "month": f"{on:%B}", "month_short": f"{on:%b}", "year": on.year, "weekday": f"{on:%A}",
        "length": sun["day_length_minutes"], "country": country["name"], "code": country["country_code"],
        "currency": country["currency_code"], "area": country["area_km2"],
        "official": country["official_name"] or country["name"],
    }  # fmt: skip
    task = f"Tell me about {city} on {date}."
    known = Known([sun["day_length_minutes"], {"find_cities": {"name": city}}, found, whole, country, sun], [task])
    return known, said


WRONG = {"population": "{population:,}", "sunrise": "{sunrise}", "country": "a city of {country}", "zone": "{zone}"}


def test_honest_sentences_are_used_and_those_with_the_facts_of_another_city_are_not() -> None:
    refused, used, honest, wrong = [], [], 0, 0
    facts = [facts_of(city, DAYS[at % len(DAYS)]) for at, city in enumerate(CITIES)]
    for at, (known, said) in enumerate(facts):
        for form in HONEST:
            honest += 1
            if found := ungrounded(sentence := form.format(**said), known):
                refused.append((sentence, found))
        other = facts[(at + 1) % len(facts)][1]
        for name, form in WRONG.items():
            if other[name] != said[name]:
                wrong += 1
                if not ungrounded(sentence := f"It is {form.format(**other)}.", known):
                    used.append(sentence)
    assert refused == [], f"of {honest}"
    assert used == [], f"of {wrong}"

"""The steps that long tasks are made of: each says what is wanted, makes the calls of its solution, and yields values.

A step is written after the solutions of open tasks of ``atlas``, ``agentdojo`` and ``bfcl``: it makes the same calls,
on other rows, and takes arguments from the values of earlier steps. Which rows, is drawn from what the services hold.
Where a drawn row would make a request ambiguous (two equal maxima, two mails of one subject), the step is not taken.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Json = dict[str, Any]
Call = Callable[[str, Json], Any]
_T = TypeVar("_T")

Decision = Literal["choice", "if", "loop"]
"""Why a text does not foretell the calls: an item is chosen among found ones, a branch is taken, or a loop runs."""


class NotFitting(Exception):
    """A step cannot be worded without doubt with what was drawn."""


@dataclass(frozen=True)
class Value:
    """What a step found out.

    Attributes:
        kind: what it can be used as.
        key: its name in the answer.
        phrase: how the text speaks of it.
    """

    kind: str
    key: str
    phrase: str
    value: Any

    @property
    def exact(self) -> str:
        """The phrase with the form that is wanted where the value itself is written."""
        return f"{self.phrase} (YYYY-MM-DD)" if self.kind == "date" else self.phrase

    @property
    def text(self) -> str:
        """As it is written into a message."""
        return f"{self.value:.2f}" if self.kind in MONEY else str(self.value)


@dataclass(frozen=True)
class Told:
    """What a step adds to a task.

    Attributes:
        text: its sentence.
        values: for the steps that follow.
        branches: the tools of all its branches, so that the offered tools do not say which one is taken.
    """

    text: str
    values: Sequence[Value] = ()
    branches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A kind of step.

    Attributes:
        needs: for each value that it takes, the kinds that will do.
        decides: what makes its calls unforeseeable.
        group: at most one step of a group is in a task.
    """

    name: str
    run: Callable[..., Told]
    needs: tuple[frozenset[str], ...]
    decides: Decision | None
    group: str


STEPS: dict[str, Step] = {}

MONEY = frozenset({"money", "price"})
NUMBER = frozenset({"number", "km"})
WORD = frozenset({"name", "symbol", "date"}) | NUMBER | MONEY
"""What a message can speak of."""
PLACE, COUNTRY, DATE = frozenset({"place"}), frozenset({"country"}), frozenset({"date"})
EMAIL, SYMBOL, KM = frozenset({"email"}), frozenset({"symbol"}), frozenset({"km"})


def step(*needs: frozenset[str], decides: Decision | None = None, group: str = "") -> Callable[[Any], Any]:
    """Make a function a step; it is given the solver and its values."""

    def made(function: Callable[..., Told]) -> Callable[..., Told]:
        name = function.__name__
        STEPS[name] = Step(name, function, needs, decides, group or name)
        return function

    return made


class Solver:
    """Makes the calls of a solution and draws what a task is about.

    Args:
        call: makes a call of the solution, by the tool's name.
        look: makes a call that is none of the solution's: to draw from what there is.
        seed: with the same seed the same is drawn, on every machine.
    """

    def __init__(self, call: Call, look: Call, seed: str) -> None:
        self._call, self._look, self._seed = call, look, seed

    def __call__(self, tool: str, /, **arguments: Any) -> Any:
        return self._call(tool, arguments)

    def peek(self, tool: str, /, **arguments: Any) -> Any:
        return self._look(tool, arguments)

    def draw(self, what: str, among: Sequence[_T], number: int = 1) -> list[_T]:
        """Draw some of a sequence, as if at random."""

        def place(item: _T) -> str:
            return hashlib.sha256(f"{self._seed}/{what}/{item}".encode()).hexdigest()

        if len(among) < number:
            raise NotFitting(f"there are {len(among)} {what}, not {number}")
        return sorted(among, key=place)[:number]

    def one(self, what: str, among: Sequence[_T]) -> _T:
        return self.draw(what, among)[0]


def only(rows: Sequence[_T], what: str) -> _T:
    """Return the one row there is."""
    if len(rows) != 1:
        raise NotFitting(f"{what}: {len(rows)} rows")
    return rows[0]


def best(rows: Mapping[str, float], what: str) -> str:
    """Return the key of the largest number, where there is one alone."""
    top = max(rows.values())
    return only([key for key, number in rows.items() if number == top], what)


CITIES = {
    "Lyon": ("FR", "France"), "Porto": ("PT", "Portugal"), "Graz": ("AT", "Austria"), "Kyoto": ("JP", "Japan"),
    "Toronto": ("CA", "Canada"), "Nairobi": ("KE", "Kenya"), "Lima": ("PE", "Peru"), "Oslo": ("NO", "Norway"),
    "Seville": ("ES", "Spain"), "Bologna": ("IT", "Italy"), "Hamburg": ("DE", "Germany"), "Perth": ("AU", "Australia"),
}  # fmt: skip
COUNTRIES = (
    "Portugal", "Austria", "Norway", "Chile", "Kenya", "New Zealand", "Poland", "Canada", "Hungary", "Uruguay",
    "Belgium", "Denmark",
)  # fmt: skip
LANDS = {"Germany": "DE", "France": "FR", "Spain": "ES", "Poland": "PL", "Italy": "IT", "Japan": "JP"}
COMPANIES = ("Apple", "Tesla", "Microsoft", "Nvidia", "Google")
LABELS = ("Note", "Update", "Result", "For the record", "Reminder")
DATES = ("2024-06-03", "2024-07-15", "2024-05-21", "2024-08-12", "2024-09-02")


def city_id(solve: Solver, name: str) -> int:
    found: int = solve("atlas_find_cities", name=name, country_code=CITIES[name][0])["cities"][0]["city_id"]
    return found


def in_country(name: str) -> str:
    return f"{name} ({CITIES[name][1]})"


def message(solve: Solver, word: Value, what: str) -> tuple[str, str]:
    """Return how a message is asked for, and the message."""
    label = solve.one(f"label of {what}", LABELS)
    return f'"{label}: X", with {word.exact} for X', f"{label}: {word.text}"


def numbers_in(text: str) -> list[float]:
    """The numbers of a text, as the travel service writes them."""
    return [float(part) for part in text.replace(":", " ").split() if part.replace(".", "", 1).isdigit()]


def listed(text: str) -> list[str]:
    """The names of a listing of the travel service: a title, and a name a line."""
    return [line.strip() for line in text.partition(":")[2].splitlines() if line.strip()]


# Steps that look something up -----------------------------------------------------------------------------------------


@step()
def route(solve: Solver) -> Told:
    names = solve.draw("cities of a route", sorted(CITIES), 3)
    ids = [city_id(solve, name) for name in names]
    legs = [
        solve("atlas_city_distance", from_city_id=start, to_city_id=end)["distance_km"]
        for start, end in itertools.pairwise(ids)
    ]
    text = (
        f"work out how long the way from {in_country(names[0])} by way of {in_country(names[1])} to "
        f"{in_country(names[2])} is as the crow flies: add up the two distances and round the sum to whole kilometres."
    )
    return Told(text, [Value("km", "route_km", "the length of that way in kilometres", round(sum(legs)))])


@step(group="capital")
def capital(solve: Solver) -> Told:
    name = solve.one("country", COUNTRIES)
    code = only(solve("atlas_find_countries", name=name)["countries"], name)["country_code"]
    town = solve("atlas_get_country", country_code=code)["capital"]
    if town is None or town["city_id"] is None:
        raise NotFitting("no capital")
    return Told(
        f"look up the capital of {name}.",
        [
            Value("place", "capital", f"the capital of {name}", town["city_id"]),
            Value("name", "capital_name", f"the name of the capital of {name}", town["name"]),
            Value("country", "country", name, code),
        ],
    )


@step()
def flight(solve: Solver) -> Told:
    names = solve.draw("cities of a flight", sorted(CITIES), 2)
    codes = [solve("atlas_airports_near", city_id=city_id(solve, name))["airports"][0]["iata"] for name in names]
    minutes = solve("atlas_flight_time", from_iata=codes[0], to_iata=codes[1], cruise_speed_kmh=800)
    text = (
        f"find the airport nearest to the centre of {in_country(names[0])} and the one nearest to the centre of "
        f"{in_country(names[1])}, and estimate how many minutes a direct flight between the two takes at a cruise "
        "speed of 800 km/h."
    )
    return Told(
        text,
        [
            Value("number", "flight_minutes", "the flight time in minutes", minutes["duration_minutes"]),
            Value("name", "airport", f"the code of that airport near {names[1]}", codes[1]),
        ],
    )


@step()
def stay(solve: Solver) -> Told:
    city = solve.one("city", ("Paris", "London"))
    hotels = listed(solve.peek("travel_get_all_hotels_in_city", city=city))
    hotel = solve.one("hotel", hotels)
    place = solve.one("restaurant", listed(solve.peek("travel_get_all_restaurants_in_city", city=city)))
    cars = solve.one("cars", listed(solve.peek("travel_get_all_car_rental_companies_in_city", city=city)))
    nights, days, meals = (int(solve.one(what, "234")) for what in ("nights", "days", "meals"))
    night = numbers_in(solve("travel_get_hotels_prices", hotel_names=[hotel])[hotel])[1]
    meal = solve("travel_get_price_for_restaurants", restaurant_names=[place])[place]
    day = solve("travel_get_car_price_per_day", company_name=[cars])[cars]
    text = (
        f"work out what a stay in {city} costs: {nights} nights in the hotel {hotel} at the upper end of its price "
        f"range, {meals} meals for one person at the restaurant {place}, and a car of {cars} for {days} days."
    )
    cost = round(nights * night + meals * meal + days * day, 2)
    return Told(text, [Value("money", "stay_cost", "the cost of the stay", cost)])


@step()
def appointment(solve: Solver) -> Told:
    titles = sorted({each["title"] for each in solve.peek("calendar_search_calendar_events", query="")})
    title = solve.one("event", titles)
    event = only(solve("calendar_search_calendar_events", query=title), title)
    text = f'look up on which day the event "{title}" in my calendar begins.'
    return Told(text, [Value("date", "event_day", f'the day of "{title}"', event["start_time"][:10])])


@step()
def sender(solve: Solver) -> Told:
    known = {address for mail in solve.peek("mail_get_sent_emails") for address in mail["recipients"]}
    mails = [mail for mail in solve.peek("mail_get_received_emails") if mail["sender"] in known]
    subjects = sorted({mail["subject"] for mail in mails})
    subject = solve.one("mail", subjects)
    mail = only(solve("mail_search_emails", query=subject), subject)
    contact = only(solve("mail_search_contacts_by_email", query=mail["sender"]), mail["sender"])
    text = f'find out who sent the mail with the subject "{subject}", and look that address up among my contacts.'
    return Told(
        text,
        [
            Value("email", "sender", f'the address that sent the mail "{subject}"', mail["sender"]),
            Value("name", "sender_name", "the name of that contact", contact["name"]),
        ],
    )


@step()
def basket(solve: Solver) -> Told:
    names = solve.draw("companies", COMPANIES, 2)
    symbols = [solve("broker_get_symbol_by_name", name=name)["symbol"] for name in names]
    prices = [solve("broker_get_stock_info", symbol=symbol)["price"] for symbol in symbols]
    numbers = [int(solve.one(f"number of {name}", "2345")) for name in names]
    cost = round(numbers[0] * prices[0] + numbers[1] * prices[1], 2)
    text = (
        f"get the stock symbols and the prices of {names[0]} and {names[1]} from my broker, and work out what "
        f"{numbers[0]} shares of {names[0]} and {numbers[1]} of {names[1]} are worth together."
    )
    worth = f"the worth of those {numbers[0]} {names[0]} and {numbers[1]} {names[1]} shares"
    key = names[1].lower()
    return Told(
        text,
        [
            Value("symbol", f"{key}_symbol", f"the symbol of {names[1]}", symbols[1]),
            Value("price", f"{key}_price", f"the price of one share of {names[1]}", prices[1]),
            Value("money", "shares_value", worth, cost),
        ],
    )


@step()
def payment(solve: Solver) -> Told:
    subjects = [each["subject"] for each in solve.peek("bank_get_most_recent_transactions") if each["sender"] == "me"]
    subject = solve.one("payment", subjects)
    rows = solve("bank_get_most_recent_transactions")
    amount = only([row["amount"] for row in rows if row["subject"] == subject], subject)
    text = f'find my bank transaction with the subject "{subject}".'
    return Told(text, [Value("money", "paid", f'the amount of the transaction "{subject}"', amount)])


@step()
def tank(solve: Solver) -> Told:
    gallons = solve("car_displayCarStatus", option="fuel")["fuelLevel"]
    litres = round(solve("car_gallon_to_liter", gallon=gallons)["liter"], 1)
    text = "read how much fuel is in the tank of my car, and convert it to litres, rounded to one decimal."
    return Told(text, [Value("number", "litres", "the litres in the tank", litres)])


@step(group="file")
def document(solve: Solver) -> Told:
    name = solve.one("file", sorted(each["filename"] for each in solve.peek("drive_list_files")))
    file = only(solve("drive_search_files_by_filename", filename=name), name)
    return Told(
        f"look up how large the file {name} in my drive is.",
        [Value("number", "file_size", f"the size of {name}", file["size"])],
    )


# Steps that go on from a value ----------------------------------------------------------------------------------------


@step(COUNTRY)
def currency(solve: Solver, country: Value) -> Told:
    code = solve("atlas_get_country", country_code=country.value)["currency_code"]
    users = solve("atlas_get_currency", currency_code=code)["country_codes"]
    text = (
        f"find out the currency of {country.phrase}, and in how many countries and territories it is in use "
        "(that one included)."
    )
    return Told(
        text,
        [
            Value("name", "currency", "the code of that currency", code),
            Value("number", "currency_users", "the number of countries and territories that use it", len(users)),
        ],
    )


@step(COUNTRY)
def holiday(solve: Solver, country: Value) -> Told:
    after = solve.one("date before a holiday", DATES)
    day = solve("atlas_next_holiday", country_code=country.value, date=after)["holiday"]["date"]
    text = f"find the first nation-wide public holiday in {country.phrase} after {after}."
    return Told(text, [Value("date", "holiday", "the date of that holiday", day)])


@step(DATE)
def due(solve: Solver, date: Value) -> Told:
    land, days = solve.one("land", sorted(LANDS)), int(solve.one("business days", "3579"))
    day = solve("atlas_add_business_days", country_code=LANDS[land], start=date.value, days=days)["date"]
    text = (
        f"count {days} business days in {land} on from {date.phrase}, which itself does not count: "
        "that gives the due date."
    )
    return Told(text, [Value("date", "due_date", "the due date", day)])


@step(PLACE, DATE)
def daylight(solve: Solver, place: Value, date: Value) -> Told:
    minutes = solve("atlas_sun_times", city_id=place.value, date=date.value)["day_length_minutes"]
    text = f"find out how many minutes lie between sunrise and sunset in {place.phrase} on {date.phrase}."
    return Told(text, [Value("number", "daylight_minutes", "those minutes of daylight", minutes)])


@step(PLACE)
def local_time(solve: Solver, place: Value) -> Told:
    here, hour, date = solve.one("here", sorted(CITIES)), solve.one("hour", "789"), solve.one("day", DATES)
    zones = [solve("atlas_get_city", city_id=each)["timezone"] for each in (city_id(solve, here), place.value)]
    there = solve(
        "atlas_convert_time", local_time=f"{date}T0{hour}:00:00", from_timezone=zones[0], to_timezone=zones[1]
    )
    if there["difference_minutes"] == 0:
        raise NotFitting("the same time")
    text = f"find out what time it is in {place.phrase} when it is 0{hour}:00 in {in_country(here)} on {date}."
    return Told(text, [Value("name", "local_time", "that local time (HH:MM)", there["local_time"][11:16])])


@step(PLACE)
def airport(solve: Solver, place: Value) -> Told:
    near = solve("atlas_airports_near", city_id=place.value)["airports"]
    if not near:
        raise NotFitting("no airport")
    feet = solve("atlas_get_airport", iata=near[0]["iata"])["elevation_ft"]
    metres = solve("atlas_convert_units", value=feet, from_unit="foot", to_unit="meter")["value"]
    near_it = f"the airport nearest to {place.phrase}"
    text = (
        f"find the airport nearest to the centre of {place.phrase}, and convert its elevation to metres, rounded to "
        "whole metres."
    )
    return Told(
        text,
        [
            Value("name", "nearest_airport", f"the code of {near_it}", near[0]["iata"]),
            Value(
                "number",
                "elevation_m",
                f"the elevation of {near_it} in metres",
                round(metres),
            ),
        ],
    )


@step(PLACE)
def distance(solve: Solver, place: Value) -> Told:
    name = solve.one("city far away", sorted(CITIES))
    km = solve("atlas_city_distance", from_city_id=place.value, to_city_id=city_id(solve, name))["distance_km"]
    text = f"find out how far {place.phrase} is from {in_country(name)} as the crow flies, rounded to whole kilometres."
    return Told(text, [Value("km", "distance_km", f"the distance to {name} in kilometres", round(km))])


@step(KM)
def miles(solve: Solver, km: Value) -> Told:
    value = solve("atlas_convert_units", value=km.value, from_unit="kilometer", to_unit="mile")["value"]
    text = f"convert {km.phrase} to miles, rounded to whole miles."
    return Told(text, [Value("number", "miles", "that number of miles", round(value))])


@step(frozenset({"money"}))
def shares(solve: Solver, money: Value) -> Told:
    name = solve.one("company", COMPANIES)
    symbol = solve("broker_get_symbol_by_name", name=name)["symbol"]
    price = solve("broker_get_stock_info", symbol=symbol)["price"]
    number = int(money.value // price)
    if number < 1 or money.value % price < 0.05:
        raise NotFitting("no shares, or as good as one more")
    text = (
        f"look up the stock symbol and the price of {name} at my broker, and work out how many whole shares of {name} "
        f"{money.phrase} would pay for."
    )
    return Told(
        text,
        [
            Value("symbol", f"{name.lower()}_symbol", f"the symbol of {name}", symbol),
            Value("price", f"{name.lower()}_price", f"the price of one share of {name}", price),
            Value("number", "affordable_shares", f"that number of whole shares of {name}", number),
        ],
    )
